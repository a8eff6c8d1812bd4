#include "tools/millrace/models/catalog.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/find/model_folders.h"
#include "millrace/status.h"
#include "tools/millrace/cli/verbs.h"

extern const char mr_models_catalog[];

yajl_val mr_catalog_open(void) {
    char wrong[256];
    yajl_val catalog = mr_json_parse(mr_models_catalog, wrong, sizeof wrong);
    if (!catalog)
        mr_fail(MR_ERROR_INTERNAL, "the list of models: %s", wrong);
    return catalog;
}

yajl_val *mr_catalog_list(yajl_val object, const char *key, size_t *count) {
    yajl_val list = mr_json_member(object, key, yajl_t_array);
    *count = list ? list->u.array.len : 0;
    return list ? list->u.array.values : NULL;
}

yajl_val *mr_catalog_models(yajl_val catalog, size_t *count) {
    return mr_catalog_list(catalog, "models", count);
}

const char *mr_catalog_text(yajl_val object, const char *key) {
    yajl_val member = mr_json_member(object, key, yajl_t_string);
    return member ? YAJL_GET_STRING(member) : "";
}

long long mr_catalog_number(yajl_val object, const char *key) {
    yajl_val member = mr_json_member(object, key, yajl_t_number);
    return member && YAJL_IS_INTEGER(member) ? YAJL_GET_INTEGER(member) : 0;
}

long long mr_catalog_bytes(yajl_val model) {
    size_t count;
    long long bytes = 0;
    yajl_val *file = mr_catalog_list(model, "files", &count);
    for (size_t i = 0; i < count; i++)
        bytes += mr_catalog_number(file[i], "bytes");
    return bytes;
}

/* "lite0-features" of "lite0-features.onnx". */
static bool is_called(yajl_val file, const char *name) {
    const char *whole = mr_catalog_text(file, "name"), *dot = strrchr(whole, '.');
    return dot && strlen(name) == (size_t)(dot - whole) && strncmp(whole, name, strlen(name)) == 0;
}

yajl_val mr_catalog_find(yajl_val catalog, const char *name) {
    size_t count, files;
    yajl_val *model = mr_catalog_models(catalog, &count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(mr_catalog_text(model[i], "name"), name) == 0)
            return model[i];
    for (size_t i = 0; i < count; i++) {
        yajl_val *file = mr_catalog_list(model[i], "files", &files);
        for (size_t f = 0; f < files; f++)
            if (is_called(file[f], name))
                return model[i];
    }
    return NULL;
}

static bool model_of(const char *file, char *name, size_t bytes) {
    bool found = false;
    size_t count, files;
    yajl_val catalog = mr_catalog_open(), *model = mr_catalog_models(catalog, &count);
    for (size_t i = 0; i < count && !found; i++) {
        yajl_val *one = mr_catalog_list(model[i], "files", &files);
        for (size_t f = 0; f < files && !found; f++)
            found = strcmp(mr_catalog_text(one[f], "name"), file) == 0;
        if (found)
            snprintf(name, bytes, "%s", mr_catalog_text(model[i], "name"));
    }
    yajl_tree_free(catalog);
    return found;
}

mr_model_of *const mr_models_of_files = model_of;

bool mr_catalog_path(yajl_val file, char path[PATH_MAX]) {
    const char *whole = mr_catalog_text(file, "name"), *dot = strrchr(whole, '.');
    char name[MR_MODEL_NAME];
    snprintf(name, sizeof name, "%.*s", dot ? (int)(dot - whole) : 0, whole);
    return dot && mr_named_model_find(name, dot, path);
}

void mr_catalog_folder(yajl_val model, char folder[PATH_MAX]) {
    char path[PATH_MAX];
    size_t count, here = 0;
    yajl_val *file = mr_catalog_list(model, "files", &count);
    folder[0] = 0;
    for (size_t i = 0; i < count; i++)
        here += mr_catalog_path(file[i], path);
    if (!count || here < count || !mr_catalog_path(file[0], folder))
        folder[0] = 0;
    else
        *strrchr(folder, '/') = 0;
}
