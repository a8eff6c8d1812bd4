/* A hint for a stage whose several inputs need names. */
#pragma once

#include <stddef.h>

#include "engine/text/yaml.h"

/* How to write `inputs`, a list, under `join`. Returns `text`. */
const char *mr_join_hint(const mr_yaml *inputs, char *text, size_t bytes);
