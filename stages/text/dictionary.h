/* The characters that a text recogniser's classes stand for.
 *
 * They come from a UTF-8 text file with one character per line, or from an ONNX file's metadata (the note "character",
 * as PaddleOCR's exporters write it). A "character" may be several letters. Classes are the characters in order,
 * "blank" before or after them, and maybe a space after the last character.
 *
 * Ownership: the caller frees. Errors: as mr_labels_read; MR_ERROR_DATA if a model has no such note. Any thread. */
#pragma once

#include "stages/model/labels.h"

typedef struct mr_dictionary {
    mr_labels characters;
    bool blank_last, space;
} mr_dictionary;

int mr_dictionary_read(const char *path, mr_dictionary *dictionary);
void mr_dictionary_free(mr_dictionary *dictionary);
/* The number of classes, blank among them. */
size_t mr_dictionary_classes(const mr_dictionary *dictionary);
size_t mr_dictionary_blank(const mr_dictionary *dictionary);
/* The class of the space that follows the characters, if `space`. */
size_t mr_dictionary_space(const mr_dictionary *dictionary);
/* A class's text; "" for blank. */
const char *mr_dictionary_text(const mr_dictionary *dictionary, size_t class);
