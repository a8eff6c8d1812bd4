#include "stages/sink/number_text.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "millrace/frame.h"

/* ---- floats ------------------------------------------------------------------------------------------------------ */

/* Prints digits / 10^places, without trailing zeros. */
static size_t put_decimal(char *text, bool negative, uint32_t digits, int places) {
    char reversed[MR_NUMBER_TEXT];
    size_t count = 0, bytes = 0;
    for (; places && digits % 10 == 0; places--)
        digits /= 10;
    while (digits || places >= 0) {
        reversed[count++] = (char)('0' + digits % 10);
        digits /= 10;
        if (--places == 0)
            reversed[count++] = '.';
    }
    if (negative)
        text[bytes++] = '-';
    while (count)
        text[bytes++] = reversed[--count];
    text[bytes] = 0;
    return bytes;
}

/* Prints most floats of ordinary size, with the library's digits and ten times as fast. A float has 24 bits and
 * 5^12 has 28, so a double holds its product with 10^12 exactly. Eight digits name the float if they are nearer than
 * half the distance between floats. 0: the library must do it. */
static size_t put_ordinary(char *text, float value) {
    static const double tens[] = {1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12};
    int exponent, places = 11;
    const double size = fabs((double)value);
    if (!(size >= 1e-4 && size < 1e7))
        return 0;
    while (size * tens[places] >= 1e8)
        places--;
    const double product = size * tens[places], eight = rint(product), off = 2 * fabs(eight - product);
    /* The float below a power of two is half as far: eight digits are near enough to all of these (tested). */
    frexp(size, &exponent);
    const double distance = ldexp(tens[places], exponent - 24);
    if (off < distance)
        return put_decimal(text, value < 0, (uint32_t)eight, places);
    return off > distance ? put_decimal(text, value < 0, (uint32_t)rint(size * tens[places + 1]), places + 1) : 0;
}

size_t mr_float_text(char text[MR_NUMBER_TEXT], float value) {
    text[0] = 0;
    if (!(value - value == 0))
        return 0; /* infinite, or not a number */
    const size_t bytes = put_ordinary(text, value);
    if (bytes)
        return bytes;
    /* Eight digits name most floats, nine all of them; trailing zeros are not printed. */
    snprintf(text, MR_NUMBER_TEXT, "%.8g", (double)value);
    if (strtof(text, NULL) != value)
        snprintf(text, MR_NUMBER_TEXT, "%.9g", (double)value);
    return strlen(text);
}

/* ---- others ------------------------------------------------------------------------------------------------------ */

size_t mr_double_text(char text[MR_NUMBER_TEXT], double value) {
    text[0] = 0;
    if (!(value - value == 0))
        return 0;
    snprintf(text, MR_NUMBER_TEXT, "%.15g", value);
    if (strtod(text, NULL) != value)
        snprintf(text, MR_NUMBER_TEXT, "%.17g", value);
    return strlen(text);
}

size_t mr_seconds_text(char text[MR_NUMBER_TEXT], int64_t time_ns) {
    text[0] = 0;
    if (time_ns == MR_NO_TIME)
        return 0;
    uint64_t size = time_ns < 0 ? 0 - (uint64_t)time_ns : (uint64_t)time_ns;
    int length = snprintf(text, MR_NUMBER_TEXT, "%s%llu.%09llu", time_ns < 0 ? "-" : "",
                          (unsigned long long)(size / 1000000000), (unsigned long long)(size % 1000000000));
    while (text[length - 1] == '0')
        text[--length] = 0;
    if (text[length - 1] == '.')
        text[--length] = 0;
    return (size_t)length;
}

size_t mr_element_text(char text[MR_NUMBER_TEXT], mr_dtype dtype, const uint8_t *data, size_t index) {
    union {
        uint16_t half;
        float single;
        int32_t i32;
        int64_t i64;
    } element = {0};
    size_t bytes = mr_dtype_bytes(dtype);
    if (dtype == MR_DTYPE_U8)
        return (size_t)snprintf(text, MR_NUMBER_TEXT, "%u", (unsigned)data[index]);
    memcpy(&element, data + index * bytes, bytes);
    switch (dtype) {
    case MR_DTYPE_F16:
        return mr_float_text(text, mr_half_to_float(element.half));
    case MR_DTYPE_F32:
        return mr_float_text(text, element.single);
    case MR_DTYPE_I32:
        return (size_t)snprintf(text, MR_NUMBER_TEXT, "%ld", (long)element.i32);
    default:
        return (size_t)snprintf(text, MR_NUMBER_TEXT, "%lld", (long long)element.i64);
    }
}
