/* Options as lines of text, one for each that what a stage computes depends on: "preprocess.size = 224x224".
 *
 * Omits options marked `neutral`, libraries that are searched for, and files that are written. A file that is read
 * appears as its SHA-256 instead of its name. Any thread. */
#pragma once

#include <stdio.h>

#include "millrace/option.h"

/* `owner` stands before the names: "preprocess". Errors are those of reading a file (base/sha256.h). */
int mr_option_lines(FILE *to, const char *owner, const mr_option *table, const void *options);
