/* Prints the list of models, or all about one. */
#include <stdio.h>
#include <string.h>

#include "engine/base/print.h"
#include "millrace/status.h"
#include "tools/millrace/cli/table.h"
#include "tools/millrace/models/models.h"

static double megabytes(long long bytes) {
    return (double)bytes / 1e6;
}

int mr_models_list(yajl_val catalog) {
    static const mr_column columns[] = {{"name", .cut = MR_CUT_NEVER}, {"task", .cut = MR_CUT_NEVER},
                                        {"MB", .right = true}, {"input", .cut = MR_CUT_NEVER},
                                        {"licence", .cut = MR_CUT_NEVER}, {"here", .cut = MR_CUT_MIDDLE}, {0}};
    mr_table table = {.columns = columns};
    char folder[PATH_MAX];
    size_t count;
    yajl_val *model = mr_catalog_models(catalog, &count);
    for (size_t i = 0; i < count; i++) {
        mr_catalog_folder(model[i], folder);
        /* The rest is for `show`: "f32 3x224x224, RGB", "BSD-2-Clause (the network), ..." */
        const char *input = mr_catalog_text(model[i], "input"), *licence = mr_catalog_text(model[i], "licence");
        mr_table_add(&table, "%s\t%s\t%.1f\t%.*s\t%.*s\t%s", mr_catalog_text(model[i], "name"),
                     mr_catalog_text(model[i], "task"), megabytes(mr_catalog_bytes(model[i])),
                     (int)strcspn(input, ","), input, (int)strcspn(licence, " "), licence, *folder ? folder : "no");
    }
    int status = mr_table_print(&table, mr_terminal_width(stdout), stdout);
    if (!status)
        printf("\n`millrace models get NAME` makes one, `millrace models show NAME` prints a pipeline with it.\n");
    return status;
}

/* ---- one model -------------------------------------------------------------------------------------------------- */

static void put_field(const char *name, const char *text) {
    char first[16];
    snprintf(first, sizeof first, "  %-10s ", name);
    if (*text)
        mr_print_filled(mr_terminal_width(stdout), stdout, first, text);
}

static void put_origin(yajl_val model) {
    char text[512];
    yajl_val package = mr_json_member(model, "package", yajl_t_object);
    if (package)
        snprintf(text, sizeof text, "%s %s of PyPI, SHA-256 %s", mr_catalog_text(package, "name"),
                 mr_catalog_text(package, "version"), mr_catalog_text(package, "sha256"));
    else
        snprintf(text, sizeof text, "%s", mr_catalog_text(model, "address"));
    put_field("from", text);
}

static size_t put_numbers(yajl_val model, const char *key, char *text, size_t bytes) {
    size_t count, used = 0;
    yajl_val *number = mr_catalog_list(model, key, &count);
    for (size_t i = 0; i < count && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%g", i ? ", " : "", YAJL_GET_DOUBLE(number[i]));
    return used;
}

static void put_input(yajl_val model) {
    char mean[64] = "", std[64] = "", text[256];
    put_field("input", mr_catalog_text(model, "input"));
    put_numbers(model, "mean", mean, sizeof mean);
    put_numbers(model, "std", std, sizeof std);
    snprintf(text, sizeof text, "(value - %s) / %s of 0 to 255, layout %s", mean, std,
             mr_catalog_text(model, "layout"));
    put_field("values", text);
}

static void put_files(yajl_val model) {
    char path[PATH_MAX];
    size_t count;
    yajl_val *file = mr_catalog_list(model, "files", &count);
    printf("\nfiles\n");
    for (size_t i = 0; i < count; i++) {
        mr_print(stdout, "  %-22s %5.1f MB  %s\n", mr_catalog_text(file[i], "name"),
                 megabytes(mr_catalog_number(file[i], "bytes")), mr_catalog_text(file[i], "what"));
        printf("  %22s SHA-256 %s\n", "", mr_catalog_text(file[i], "sha256"));
        if (mr_catalog_path(file[i], path))
            mr_print(stdout, "  %22s %s\n", "", path);
    }
}

static void put_pipeline(yajl_val model) {
    size_t count;
    yajl_val *line = mr_catalog_list(model, "stages", &count);
    printf("\na pipeline with it, to be saved as a file\n\nversion: 1\npipeline: %s\nsources:\n"
           "  picture: {uri: \"${INPUT:-lavfi:testsrc2=size=640x480:rate=25:duration=2}\"}\nstages:\n",
           mr_catalog_text(model, "name"));
    for (size_t i = 0; i < count; i++)
        printf("  %s\n", YAJL_GET_STRING(line[i]));
}

int mr_models_show(yajl_val model) {
    char folder[PATH_MAX];
    mr_catalog_folder(model, folder);
    printf("%s\n\n", mr_catalog_text(model, "name"));
    put_field("is", mr_catalog_text(model, "summary"));
    put_field("task", mr_catalog_text(model, "task"));
    put_origin(model);
    put_field("licence", mr_catalog_text(model, "licence"));
    put_input(model);
    put_field("labels", mr_catalog_text(model, "labels"));
    put_field("accuracy", mr_catalog_text(model, "accuracy"));
    put_field("here", *folder ? folder : "no; `millrace models get` makes it");
    put_files(model);
    put_pipeline(model);
    return MR_OK;
}

/* ---- JSON ------------------------------------------------------------------------------------------------------- */

static const char *text_or_null(yajl_val object, const char *key) {
    const char *text = mr_catalog_text(object, key);
    return *text ? text : NULL;
}

static void put_list(yajl_gen json, yajl_val model, const char *key) {
    size_t count;
    yajl_val *item = mr_catalog_list(model, key, &count);
    MR_JSON_ARRAY(json, key)
        for (size_t i = 0; i < count; i++) {
            if (YAJL_IS_STRING(item[i]))
                mr_json_text(json, NULL, YAJL_GET_STRING(item[i]));
            else
                mr_json_number(json, NULL, YAJL_GET_DOUBLE(item[i]));
        }
}

static void put_json_file(yajl_gen json, yajl_val file) {
    char path[PATH_MAX];
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "name", mr_catalog_text(file, "name"));
        mr_json_text(json, "what", mr_catalog_text(file, "what"));
        mr_json_integer(json, "bytes", mr_catalog_number(file, "bytes"));
        mr_json_text(json, "sha256", mr_catalog_text(file, "sha256"));
        mr_json_text(json, "path", mr_catalog_path(file, path) ? path : NULL);
    }
}

static void put_json_package(yajl_gen json, yajl_val package) {
    if (!package) {
        mr_json_text(json, "package", NULL);
        return;
    }
    MR_JSON_MAP(json, "package") {
        mr_json_text(json, "name", mr_catalog_text(package, "name"));
        mr_json_text(json, "version", mr_catalog_text(package, "version"));
        mr_json_text(json, "sha256", mr_catalog_text(package, "sha256"));
    }
}

static void put_json_model(yajl_gen json, yajl_val model) {
    static const char *const texts[] = {"name", "task", "summary", "licence", "input", "layout", "labels", "accuracy",
                                        "address"};
    char folder[PATH_MAX];
    size_t count;
    yajl_val *file = mr_catalog_list(model, "files", &count);
    mr_catalog_folder(model, folder);
    MR_JSON_MAP(json, NULL) {
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
            mr_json_text(json, texts[i], text_or_null(model, texts[i]));
        put_json_package(json, mr_json_member(model, "package", yajl_t_object));
        mr_json_integer(json, "bytes", mr_catalog_bytes(model));
        put_list(json, model, "mean");
        put_list(json, model, "std");
        put_list(json, model, "stages");
        mr_json_text(json, "folder", *folder ? folder : NULL);
        MR_JSON_ARRAY(json, "files")
            for (size_t i = 0; i < count; i++)
                put_json_file(json, file[i]);
    }
}

int mr_models_put_json(yajl_val catalog, yajl_val model) {
    size_t count;
    yajl_val *all = mr_catalog_models(catalog, &count);
    yajl_gen json = mr_json_create(true);
    if (!json)
        return MR_ERROR_MEMORY;
    if (model) {
        put_json_model(json, model);
        return mr_json_finish(json, stdout);
    }
    MR_JSON_ARRAY(json, NULL)
        for (size_t i = 0; i < count; i++)
            put_json_model(json, all[i]);
    return mr_json_finish(json, stdout);
}
