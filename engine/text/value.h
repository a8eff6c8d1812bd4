/* The meaning of a scalar's text: numbers, and numbers with units. Pure functions; decimal points are points in any
 * locale.
 *
 * Each returns true if the text is such a value, and writes it only then. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "millrace/format.h"
#include "millrace/option.h"

bool mr_value_bool(const char *text, bool *value);       /* true, false */
bool mr_value_int(const char *text, int64_t *value);     /* decimal */
bool mr_value_double(const char *text, double *value);   /* finite */
/* Nanoseconds; "20ms", "1.5s", "2m", "500us", "1h"; 0 needs no unit. */
bool mr_value_duration(const char *text, int64_t *value);
/* Bytes; "64MiB" (powers of 1024), "1GB" (powers of 1000), "4096". */
bool mr_value_bytes(const char *text, int64_t *value);
/* A second; "30fps", "29.97", "30000/1001". */
bool mr_value_rate(const char *text, double *value);
/* "224x224" (width x height), or "224" for a square. */
bool mr_value_size(const char *text, mr_size *value);
/* "I420 1280x720", "f32 3x224x224", "u8 10"; sizes may be left out. */
bool mr_value_format(const char *text, mr_format *value);

/* A scalar's form as a regular expression (ECMA 262) for the texts that the functions above accept; "" if they accept
 * any text. Returns `text`. */
enum { MR_VALUE_PATTERN = 1024 };
const char *mr_value_pattern(mr_option_kind kind, char *text, size_t bytes);

/* Writes a number of nanoseconds or bytes with the largest unit that divides it, 0 with none; returns `text`. */
const char *mr_value_print_duration(double ns, char *text, size_t bytes);
const char *mr_value_print_bytes(double value, char *text, size_t bytes);
/* Bytes for people, rounded to one place: "1.5 GiB". Returns `text`. */
const char *mr_value_print_about(uint64_t value, char *text, size_t bytes);
