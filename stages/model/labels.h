/* Labels of classes: a text file in UTF-8 with one label a line; the label of class i stands in line i + 1. A byte
 * order mark at the beginning and a carriage return at a line's end are left out.
 *
 * Errors: MR_ERROR_NO_INPUT, MR_ERROR_PERMISSION, MR_ERROR_IO, MR_ERROR_MEMORY; MR_ERROR_DATA if it is not such a text.
 * Any thread. */
#pragma once

#include <stddef.h>

#include "engine/base/sha256.h"

enum { MR_LABELS_MAX_BYTES = 16 << 20, MR_LABEL_MAX_BYTES = 4096 };

typedef struct mr_labels {
    size_t count;
    const char **item;
    char *text; /* the items point into it */
} mr_labels;

int mr_labels_read(const char *path, mr_labels *labels);
/* The same, with the digest of the bytes that were read, which are all of the file. */
int mr_labels_read_digest(const char *path, mr_labels *labels, char digest[MR_SHA256_TEXT]);
void mr_labels_free(mr_labels *labels);
