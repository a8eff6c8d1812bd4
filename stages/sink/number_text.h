/* Numbers as records print them. Any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "millrace/format.h"

enum { MR_NUMBER_TEXT = 32 };
/* Prints eight digits, or nine if eight would not read back as the same float; "" if not finite. Always uses a point,
 * whatever the locale. Returns the length. */
size_t mr_float_text(char text[MR_NUMBER_TEXT], float value);
/* The same for a double: 15 digits, or 17. */
size_t mr_double_text(char text[MR_NUMBER_TEXT], double value);
/* Nanoseconds as seconds, exactly: "1.033333333", "2"; "" for MR_NO_TIME. Returns the length. */
size_t mr_seconds_text(char text[MR_NUMBER_TEXT], int64_t time_ns);
/* Prints element `index` in a dense array, as mr_float_text. */
size_t mr_element_text(char text[MR_NUMBER_TEXT], mr_dtype dtype, const uint8_t *data, size_t index);
