/* Class labels: a UTF-8 text file with one label per line; line i + 1 has class i's label. A leading byte order mark
 * and a carriage return at the end of a line are removed. Instead of a text file, an ONNX file (*.onnx) may have the
 * labels as a note in its metadata.
 *
 * Errors: MR_ERROR_NO_INPUT, MR_ERROR_PERMISSION, MR_ERROR_IO, MR_ERROR_MEMORY; MR_ERROR_DATA if the text is invalid.
 * Any thread. */
#pragma once

#include <stddef.h>

#include "engine/base/file.h"
#include "engine/base/sha256.h"

enum { MR_LABELS_MAX_BYTES = 16 << 20, MR_LABEL_MAX_BYTES = 4096 };

typedef struct mr_labels {
    size_t count;
    const char **item;
    char *text; /* the items point into it */
} mr_labels;

int mr_labels_read(const char *path, mr_labels *labels);
/* Also returns a digest over all bytes in the file. */
int mr_labels_read_digest(const char *path, mr_labels *labels, char digest[MR_SHA256_TEXT]);
/* Splits a text into lines; `path` is for messages. A zero must follow the text. Takes its memory, also on failure. */
int mr_labels_take(const char *path, const mr_file_bytes *text, mr_labels *labels);
/* Reads a model's note: a list of quoted texts, as JSON or Python write it, or a dictionary with the keys 0, 1, ... in
 * order, `{0: 'person', 1: 'bicycle'}`. NULL: no labels. MR_ERROR_DATA names no file. */
int mr_labels_read_note(const char *note, mr_labels *labels);
void mr_labels_free(mr_labels *labels);
