/* The list of models that are known to work: tools/models/catalog.json, which is compiled in. One thread at a time. */
#pragma once

#include <limits.h>
#include <stdbool.h>

#include "engine/base/json.h"

/* The list's array of models. NULL: no memory, with mr_message set. The caller must free it with yajl_tree_free. */
yajl_val mr_catalog_open(void);
/* The array in that tree, and how many models it has. */
yajl_val *mr_catalog_models(yajl_val catalog, size_t *count);
/* The model with that name, or the one to which a file with that name belongs (lite0-features). NULL: none. */
yajl_val mr_catalog_find(yajl_val catalog, const char *name);

/* Members; "" and 0 if there is none. */
const char *mr_catalog_text(yajl_val object, const char *key);
long long mr_catalog_number(yajl_val object, const char *key);
yajl_val *mr_catalog_list(yajl_val object, const char *key, size_t *count);
/* The bytes of all files. */
long long mr_catalog_bytes(yajl_val model);

/* Where the file of a model is. False: no folder has it. */
bool mr_catalog_path(yajl_val file, char path[PATH_MAX]);
/* The folder that has a model's first file, if all its files are somewhere; "" if not. */
void mr_catalog_folder(yajl_val model, char folder[PATH_MAX]);
