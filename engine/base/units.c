#include "engine/base/units.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* No hexadecimal, infinite or undefined ones. */
bool mr_units_number(const char *text, double *value, const char **end) {
    size_t length = strspn(text, "+-.0123456789eE");
    if (length == 0 || length >= 64)
        return false;
    /* A unit may begin with an e or E; a character that strtod does not accept is left to the caller. */
    char number[64];
    memcpy(number, text, length);
    number[length] = 0;
    char *stop;
    *value = strtod(number, &stop);
    *end = text + (stop - number);
    return stop > number && isfinite(*value);
}

const mr_unit mr_units_duration[] = {{"ns", 1},   {"us", 1e3},   {"\u00b5s", 1e3}, {"ms", 1e6}, {"s", 1e9},
                                     {"m", 60e9}, {"min", 60e9}, {"h", 3600e9},    {NULL, 0}};
const mr_unit mr_units_bytes[] = {
    {"B", 1},    {"", 1},     {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"TiB", 1099511627776.0},
    {"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6},     {"GB", 1e9},        {"TB", 1e12},          {NULL, 0}};

bool mr_units_read(const char *text, const mr_unit *units, int64_t *value) {
    const char *end;
    double number;
    if (!mr_units_number(text, &number, &end))
        return false;
    end += strspn(end, " ");
    for (; units->name; units++)
        if (strcmp(units->name, end) == 0) {
            number *= units->factor;
            /* A number below zero stays below zero, and one below one becomes zero: both are out of range. */
            number = number < 1 ? floor(number) : round(number);
            if (fabs(number) >= 9.2e18)
                return false;
            *value = (int64_t)number;
            return true;
        }
    return false;
}
