/* TIFF 6.0 files, and EXIF, which is TIFF. Pure functions. The data is untrusted. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The tag Orientation in the first directory; 0: none. */
unsigned mr_tiff_orientation(const uint8_t *data, size_t bytes);

/* How many pictures it holds, at least 1. */
size_t mr_tiff_pictures(const uint8_t *data, size_t bytes);

/* Whether libavcodec cannot decode the first picture's kind; for many it gives a black or wrong picture without an
 * error. Writes the rest of a sentence that begins with the file's name. */
bool mr_tiff_trouble(const uint8_t *data, size_t bytes, char *text, size_t room);
