/* millrace models: declarations that its parts share. */
#pragma once

#include "tools/millrace/models/catalog.h"

/* Each prints to standard output. MR_OK or a status with a message. */
int mr_models_list(yajl_val catalog);
int mr_models_show(yajl_val model);
/* model NULL: all of them, as an array. */
int mr_models_put_json(yajl_val catalog, yajl_val model);

/* Makes models by the program make.py, in place of this process. Returns only on failure. `to` NULL: the folder for new
 * models. `file` may be NULL. */
int mr_models_get(const char *const *names, size_t count, const char *to, const char *file);
