#include "tools/millrace/models/scaling.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "millrace/status.h"
#include "tools/millrace/models/catalog.h"

/* (value - mean) / std, for values in 0..255. */
typedef struct scaling {
    double mean[3], std[3];
    bool bgr, gray;
} scaling;

/* ---- as preprocess does it ------------------------------------------------------------------------------------- */

static const mr_option *option_of(const mr_view_stage *stage, const char *name, mr_option_kind kind) {
    for (const mr_option *o = stage->type->options; o && o->name; o++)
        if (strcmp(o->name, name) == 0 && o->kind == kind)
            return o;
    return NULL;
}

static const void *value_of(const mr_view_stage *stage, const mr_option *option) {
    return (const char *)stage->options + option->offset;
}

static const char *word_of(const mr_view_stage *stage, const char *name) {
    const mr_option *option = option_of(stage, name, MR_OPTION_ENUM);
    return option ? option->choices[*(const int *)value_of(stage, option)] : "";
}

static void numbers_of(const mr_view_stage *stage, const char *name, double fallback, double to[3]) {
    const mr_option *option = option_of(stage, name, MR_OPTION_DOUBLES);
    const mr_doubles none = {0}, *given = &none;
    if (option)
        given = value_of(stage, option);
    for (size_t c = 0; c < 3; c++)
        to[c] = given->count ? given->value[given->count == 3 ? c : 0] : fallback;
}

static scaling scaling_of(const mr_view_stage *preprocess) {
    static const scaling imagenet = {.mean = {123.675, 116.28, 103.53}, .std = {58.395, 57.12, 57.375}};
    const char *normalize = word_of(preprocess, "normalize"), *order = word_of(preprocess, "order");
    const bool is_signed = strcmp(normalize, "signed") == 0, unit = strcmp(normalize, "unit") == 0;
    scaling made = imagenet;
    if (strcmp(normalize, "imagenet")) {
        numbers_of(preprocess, "mean", is_signed ? 127.5 : 0, made.mean);
        numbers_of(preprocess, "std", is_signed ? 127.5 : unit ? 255 : 1, made.std);
    }
    made.bgr = strcmp(order, "bgr") == 0;
    made.gray = strcmp(order, "gray") == 0;
    return made;
}

/* ---- as the list has it ---------------------------------------------------------------------------------------- */

static void listed_numbers(yajl_val model, const char *key, double to[3]) {
    size_t count;
    yajl_val *number = mr_catalog_list(model, key, &count);
    for (size_t c = 0; c < 3 && count; c++)
        to[c] = YAJL_GET_DOUBLE(number[count == 3 ? c : 0]);
}

static scaling listed(yajl_val model) {
    scaling made = {.bgr = strstr(mr_catalog_text(model, "input"), "BGR") != NULL};
    listed_numbers(model, "mean", made.mean);
    listed_numbers(model, "std", made.std);
    return made;
}

/* The model that this file belongs to. A file of that name may be another network: if it is here, its size tells. If it
 * is not, `check` knows it as the author wrote it, without the ending. */
static yajl_val model_of(yajl_val catalog, const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    struct stat here;
    const bool is_here = stat(path, &here) == 0;
    size_t models, files;
    yajl_val *model = mr_catalog_models(catalog, &models);
    for (size_t i = 0; i < models; i++) {
        yajl_val *file = mr_catalog_list(model[i], "files", &files);
        for (size_t f = 0; f < files; f++) {
            const char *listed_name = mr_catalog_text(file[f], "name");
            const size_t length = strlen(name);
            if (strncmp(listed_name, name, length) == 0 &&
                (!listed_name[length] || strcmp(listed_name + length, ".onnx") == 0))
                return !is_here || here.st_size == mr_catalog_number(file[f], "bytes") ? model[i] : NULL;
        }
    }
    return NULL;
}

/* ---- both ------------------------------------------------------------------------------------------------------ */

/* True if 0 and 255 become about the same values: 127.5 in place of 127 does no harm. */
static bool are_alike(const scaling *a, const scaling *b) {
    for (int c = 0; c < 3; c++) {
        const double low = (0 - a->mean[c]) / a->std[c] - (0 - b->mean[c]) / b->std[c];
        const double high = (255 - a->mean[c]) / a->std[c] - (255 - b->mean[c]) / b->std[c];
        const double most = 0.02 * 255 / fabs(b->std[c]);
        if (fabs(low) > most || fabs(high) > most)
            return false;
    }
    return a->bgr == b->bgr;
}

static const char *print_numbers(const double number[3], char text[96]) {
    if (number[0] == number[1] && number[1] == number[2])
        snprintf(text, 96, "%g", number[0]);
    else
        snprintf(text, 96, "[%g, %g, %g]", number[0], number[1], number[2]);
    return text;
}

/* "FILE:LINE:COLUMN" of a stage. `file` gets the first part. */
static mr_location location(const char *place, char *file) {
    mr_location at = {.file = strcpy(file, place)};
    char *column = strrchr(file, ':'), *line = NULL;
    if (column) {
        *column = 0;
        line = strrchr(file, ':');
    }
    if (!line)
        return (mr_location){.file = strcpy(file, place)};
    *line = 0;
    at.line = atoi(line + 1);
    at.column = atoi(column + 1);
    return at;
}

static int warn(const mr_view_stage *preprocess, const mr_view_stage *network, const scaling *right, const char *model,
                mr_diagnostics *diagnostics) {
    char mean[96], std[96], hint[256], *file = malloc(strlen(preprocess->place) + 1);
    if (!file)
        return mr_fail(MR_ERROR_MEMORY, "no memory");
    snprintf(hint, sizeof hint, "write mean: %s, std: %s, order: %s%s", print_numbers(right->mean, mean),
             print_numbers(right->std, std), right->bgr ? "bgr" : "rgb",
             strcmp(word_of(preprocess, "normalize"), "none") ? ", and remove normalize" : "");
    mr_diagnose(diagnostics, MR_SEVERITY_WARNING, MR_OK, location(preprocess->place, file), hint,
                "%s gives %s values that its network, %s, was not trained with", preprocess->id, network->id, model);
    free(file);
    return MR_OK;
}

static const char *network_file(const mr_plan_view *plan, int stage) {
    for (size_t i = 0; i < plan->file_count; i++) {
        const mr_option *option = plan->files[i].option;
        if (plan->files[i].stage == stage && option->named && strcmp(option->named, ".onnx") == 0)
            return plan->files[i].path;
    }
    return NULL;
}

/* The preprocess stage before a stage, past copies and cuts. NULL: there is none. */
static const mr_view_stage *preprocess_before(const mr_plan_view *plan, int stage) {
    for (size_t i = 0; i < plan->link_count; i++) {
        if (plan->links[i].to != stage)
            continue;
        const mr_view_stage *from = &plan->stages[plan->links[i].from];
        if (from->role == MR_VIEW_STAGE)
            return strcmp(from->type->name, "preprocess") ? NULL : from;
        return from->role == MR_VIEW_SOURCE ? NULL : preprocess_before(plan, plan->links[i].from);
    }
    return NULL;
}

int mr_scaling_check(const mr_plan_view *plan, mr_diagnostics *diagnostics) {
    yajl_val catalog = mr_catalog_open();
    int status = catalog ? MR_OK : MR_ERROR_MEMORY;
    for (size_t i = 0; i < plan->stage_count && !status; i++) {
        const char *path = network_file(plan, (int)i);
        const mr_view_stage *before = path ? preprocess_before(plan, (int)i) : NULL;
        yajl_val model = before ? model_of(catalog, path) : NULL;
        if (!model)
            continue;
        const scaling right = listed(model), made = scaling_of(before);
        if (!made.gray && !are_alike(&made, &right))
            status = warn(before, &plan->stages[i], &right, mr_catalog_text(model, "name"), diagnostics);
    }
    yajl_tree_free(catalog);
    mr_diagnostics_sort(diagnostics);
    return status;
}

int mr_scaling_check_pipeline(const mr_pipeline *pipeline, mr_diagnostics *diagnostics) {
    const mr_plan_view *plan = NULL;
    int status = mr_pipeline_view(pipeline, &plan);
    status = status ? status : mr_scaling_check(plan, diagnostics);
    mr_plan_view_close(&plan);
    return status;
}
