#include "engine/text/value.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/units.h"

bool mr_value_bool(const char *text, bool *value) {
    bool yes = strcmp(text, "true") == 0;
    if (!yes && strcmp(text, "false") != 0)
        return false;
    *value = yes;
    return true;
}

bool mr_value_int(const char *text, int64_t *value) {
    if (!*text || strspn(text, "+-0123456789") != strlen(text))
        return false;
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (*end || end == text || errno)
        return false;
    *value = number;
    return true;
}

bool mr_value_double(const char *text, double *value) {
    const char *end;
    double number;
    if (!mr_units_number(text, &number, &end) || *end)
        return false;
    *value = number;
    return true;
}

bool mr_value_duration(const char *text, int64_t *value) {
    if (strcmp(text, "0") == 0) {
        *value = 0;
        return true;
    }
    return mr_units_read(text, mr_units_duration, value);
}

bool mr_value_bytes(const char *text, int64_t *value) {
    return mr_units_read(text, mr_units_bytes, value);
}

bool mr_value_rate(const char *text, double *value) {
    const char *end;
    double number, divisor = 1;
    if (!mr_units_number(text, &number, &end))
        return false;
    if (*end == '/' && end[1] != 's' && (!mr_units_number(end + 1, &divisor, &end) || divisor <= 0))
        return false;
    end += strspn(end, " ");
    if (*end && strcmp(end, "fps") != 0 && strcmp(end, "/s") != 0)
        return false;
    *value = number / divisor;
    return isfinite(*value);
}

/* Up to `room` whole numbers with an x between them; how many, or 0 if it is something else. */
static size_t dimensions(const char *text, int64_t *value, size_t room) {
    size_t count = 0;
    for (;; text++) {
        char *end;
        if (count == room || *text < '0' || *text > '9')
            return 0;
        errno = 0;
        value[count++] = strtoll(text, &end, 10);
        if (errno)
            return 0;
        text = end;
        if (!*text)
            return count;
        if (*text != 'x')
            return 0;
    }
}

bool mr_value_size(const char *text, mr_size *value) {
    int64_t side[2];
    size_t count = dimensions(text, side, 2);
    if (count == 0 || side[0] > INT32_MAX || side[count - 1] > INT32_MAX)
        return false;
    *value = (mr_size){.width = (int32_t)side[0], .height = (int32_t)side[count - 1]};
    return true;
}

static bool picture_format(mr_pixel pixel, const char *size, mr_format *value) {
    mr_size side = {0};
    if (*size && (!strchr(size, 'x') || !mr_value_size(size, &side)))
        return false;
    *value = (mr_format){.payload = MR_PAYLOAD_PICTURE, .pixel = pixel, .width = side.width, .height = side.height};
    return true;
}

static bool tensor_format(mr_dtype dtype, const char *shape, mr_format *value) {
    int64_t dims[MR_MAX_RANK] = {0};
    size_t rank = *shape ? dimensions(shape, dims, MR_MAX_RANK) : 0;
    if (*shape && rank == 0)
        return false;
    *value = (mr_format){.payload = MR_PAYLOAD_TENSOR, .dtype = dtype, .rank = (int32_t)rank};
    memcpy(value->dims, dims, sizeof dims);
    return true;
}

bool mr_value_format(const char *text, mr_format *value) {
    char name[32];
    size_t length = strcspn(text, " ");
    if (length >= sizeof name)
        return false;
    memcpy(name, text, length);
    name[length] = 0;
    const char *rest = text + length + strspn(text + length, " ");
    for (int pixel = MR_PIXEL_ANY + 1; pixel < MR_PIXEL_COUNT; pixel++)
        if (strcmp(mr_pixel_describe((mr_pixel)pixel)->name, name) == 0)
            return picture_format((mr_pixel)pixel, rest, value);
    for (int dtype = MR_DTYPE_U8; dtype <= MR_DTYPE_I64; dtype++)
        if (strcmp(mr_dtype_name((mr_dtype)dtype), name) == 0)
            return tensor_format((mr_dtype)dtype, rest, value);
    for (int payload = MR_PAYLOAD_PACKET; payload <= MR_PAYLOAD_RESULTS; payload++)
        if (!*rest && strcmp(mr_payload_name((mr_payload)payload), name) == 0) {
            *value = (mr_format){.payload = (mr_payload)payload};
            return true;
        }
    return false;
}

/* ---- patterns ------------------------------------------------------------------------------------------------- */

#define WHOLE "[+-]?[0-9]+"
#define NUMBER "[+-]?([0-9]+\\.?[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?"
#define SIDES "[0-9]+(x[0-9]+)*"

static void add(char *text, size_t bytes, const char *first, const char *second) {
    size_t length = strlen(text);
    snprintf(text + length, bytes - length, "%s%s", first, second);
}

static void add_units(const mr_unit *units, char *text, size_t bytes) {
    for (const char *between = "("; units->name; units++, between = "|")
        add(text, bytes, between, units->name);
    add(text, bytes, ")", "");
}

static void add_formats(char *text, size_t bytes) {
    const char *between = "^(";
    for (int pixel = MR_PIXEL_ANY + 1; pixel < MR_PIXEL_COUNT; pixel++, between = "|")
        add(text, bytes, between, mr_pixel_describe((mr_pixel)pixel)->name);
    add(text, bytes, ")( +[0-9]+x[0-9]+)?$", "");
    between = "|^(";
    for (int dtype = MR_DTYPE_U8; dtype <= MR_DTYPE_I64; dtype++, between = "|")
        add(text, bytes, between, mr_dtype_name((mr_dtype)dtype));
    add(text, bytes, ")( +" SIDES ")?$", "");
    between = "|^(";
    for (int payload = MR_PAYLOAD_PACKET; payload <= MR_PAYLOAD_RESULTS; payload++, between = "|")
        add(text, bytes, between, mr_payload_name((mr_payload)payload));
    add(text, bytes, ")$", "");
}

const char *mr_value_pattern(mr_option_kind kind, char *text, size_t bytes) {
    text[0] = 0;
    switch (kind) {
    case MR_OPTION_BOOL:
        add(text, bytes, "^(true|false)$", "");
        break;
    case MR_OPTION_INT:
        add(text, bytes, "^" WHOLE "$", "");
        break;
    case MR_OPTION_DOUBLE:
    case MR_OPTION_DOUBLES:
        add(text, bytes, "^" NUMBER "$", "");
        break;
    case MR_OPTION_DURATION:
    case MR_OPTION_EVERY:
        add(text, bytes, kind == MR_OPTION_EVERY ? "^" WHOLE "$|^(?=[^a-z-]*[1-9])" : "^0$|^", NUMBER " *");
        add_units(mr_units_duration, text, bytes);
        add(text, bytes, "$", "");
        break;
    case MR_OPTION_BYTES:
        add(text, bytes, "^" NUMBER " *", "");
        add_units(mr_units_bytes, text, bytes);
        add(text, bytes, "$", "");
        break;
    case MR_OPTION_RATE:
        add(text, bytes, "^" NUMBER "(/" NUMBER ")? *(fps|/s)?$", "");
        break;
    case MR_OPTION_SIZE:
        add(text, bytes, "^[0-9]+(x[0-9]+)?$", "");
        break;
    case MR_OPTION_FORMAT:
        add_formats(text, bytes);
        break;
    default:
        break;
    }
    return text;
}

/* ---- printing ------------------------------------------------------------------------------------------------- */

static const char *print_unit(double value, const mr_unit *units, size_t count, char *text, size_t bytes) {
    size_t best = 0;
    for (size_t i = 0; i < count; i++)
        if (value != 0 && fmod(value, units[i].factor) == 0 && units[i].factor > units[best].factor)
            best = i;
    snprintf(text, bytes, "%.0f%s", value / units[best].factor, value != 0 ? units[best].name : "");
    return text;
}

const char *mr_value_print_duration(double ns, char *text, size_t bytes) {
    static const mr_unit shown[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}};
    return print_unit(ns, shown, sizeof shown / sizeof *shown, text, bytes);
}

const char *mr_value_print_bytes(double value, char *text, size_t bytes) {
    static const mr_unit shown[] = {{"B", 1}, {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0},
                                    {"TiB", 1099511627776.0}, {"TB", 1e12}};
    return print_unit(value, shown, sizeof shown / sizeof *shown, text, bytes);
}

const char *mr_value_print_about(uint64_t value, char *text, size_t bytes) {
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    double scaled = (double)value / 1024;
    size_t power = 0;
    for (; scaled >= 1023.95 && power < 3; power++)
        scaled /= 1024;
    if (value < 1024)
        snprintf(text, bytes, "%d bytes", (int)value);
    else
        snprintf(text, bytes, "%.1f %s", scaled, units[power]);
    return text;
}
