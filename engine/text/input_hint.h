/* A hint for people who name the input where the pipeline belongs. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Enough for a path and the words around it. */
enum { MR_INPUT_HINT = 4608 };

/* How to run a pipeline with the input `path`, if the name suggests one. Returns `text`. NULL: the name does not look
 * like an input. */
const char *mr_input_hint(const char *path, bool is_folder, char text[MR_INPUT_HINT]);
