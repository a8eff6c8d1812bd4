/* A trained classifier's card: the folder that classify takes as its option `head`. */
#pragma once

#include "engine/base/json.h"

/* On standard output as text, or into `json` as an object. Errors of mr_classifier_open. */
int mr_inspect_head(const char *path, yajl_gen json);
