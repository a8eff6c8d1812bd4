/* Numbers with units, as people write them. Pure functions; decimal points are points in any locale. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct mr_unit {
    const char *name; /* a table ends with NULL */
    double factor;    /* in the smallest unit */
} mr_unit;

extern const mr_unit mr_units_duration[]; /* to nanoseconds */
extern const mr_unit mr_units_bytes[];    /* "" is one too */

/* The finite decimal number at the beginning of `text`; *end is set to the text after it. False if there is none. */
bool mr_units_number(const char *text, double *value, const char **end);
/* A number and a unit, with or without a space between them, as a whole number of the smallest unit; false if it is not
 * one. */
bool mr_units_read(const char *text, const mr_unit *units, int64_t *value);
