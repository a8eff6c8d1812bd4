#include "engine/base/print.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/utf8.h"

/* A double has 309 digits before the point. */
enum { ESCAPE = 8, NUMBER = 512, SPEC = 64, USUAL = 1024 };

typedef struct text {
    char *at;
    size_t room, kept, length; /* the length counts characters without room, too */
    bool cut;
} text;

static void put(text *to, const char *bytes, size_t count) {
    to->cut = to->cut || to->kept + count >= to->room;
    if (!to->cut) {
        memcpy(to->at + to->kept, bytes, count);
        to->kept += count;
    }
    to->length += count;
}

/* ---- characters ------------------------------------------------------------------------------------------------ */

static bool is_shown(uint32_t code) {
    bool control = code < 0x20 || (code >= 0x7f && code < 0xa0);
    bool separator = code == 0x2028 || code == 0x2029;
    bool reverses = (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
    return !control && !separator && !reverses && code != 0xfffe && code != 0xffff;
}

typedef struct range {
    uint32_t first, last;
} range;

static bool is_in(const range *ranges, size_t count, uint32_t code) {
    for (size_t i = 0; i < count; i++)
        if (code >= ranges[i].first && code <= ranges[i].last)
            return true;
    return false;
}

/* Follows Unicode's East Asian widths (UAX 11) and mark categories, as far as file names need. */
static size_t columns_of(uint32_t code) {
    static const range none[] = {{0x300, 0x36f},   {0x483, 0x489},   {0x591, 0x5bd},   {0x610, 0x61a},
                                 {0x64b, 0x65f},   {0x93c, 0x93c},   {0x94d, 0x94d},   {0xe31, 0xe31},
                                 {0xe34, 0xe3a},   {0xe47, 0xe4e},   {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff},
                                 {0x200b, 0x200f}, {0x2060, 0x2064}, {0x20d0, 0x20ff}, {0x3099, 0x309a},
                                 {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}, {0xfeff, 0xfeff}};
    static const range wide[] = {{0x1100, 0x115f},   {0x2e80, 0x303e},   {0x3041, 0x4dbf},   {0x4e00, 0xa4cf},
                                 {0xa960, 0xa97f},   {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe30, 0xfe6f},
                                 {0xff00, 0xff60},   {0xffe0, 0xffe6},   {0x1f300, 0x1f64f}, {0x1f680, 0x1f6ff},
                                 {0x1f900, 0x1faff}, {0x20000, 0x3fffd}};
    if (code < 0x300 || is_in(none, sizeof none / sizeof *none, code))
        return code < 0x300;
    return 1 + is_in(wide, sizeof wide / sizeof *wide, code);
}

/* Prints one character from an argument with `left` readable bytes. Returns how many it has. *columns grows by the
 * columns that it takes on a terminal. */
static size_t put_character(text *to, const char *at, size_t left, size_t *columns) {
    char escape[ESCAPE];
    size_t bytes = mr_utf8_bytes(at, left), length;
    uint32_t code = bytes ? mr_utf8_code(at, bytes) : 0;
    if (bytes && is_shown(code)) {
        put(to, at, bytes);
        length = columns_of(code);
    } else {
        length = (size_t)(bytes > 1 ? snprintf(escape, sizeof escape, "\\u%04x", (unsigned)code)
                                    : snprintf(escape, sizeof escape, "\\x%02x", (unsigned)(unsigned char)*at));
        put(to, escape, length);
    }
    *columns += length;
    return bytes ? bytes : 1;
}

static size_t put_characters(text *to, const char *from, size_t bytes) {
    size_t columns = 0;
    for (size_t i = 0; i < bytes;)
        i += put_character(to, from + i, bytes - i, &columns);
    return columns;
}

size_t mr_columns(const char *from, size_t bytes) {
    text measured = {0};
    return put_characters(&measured, from, bytes);
}

size_t mr_columns_fit(const char *from, size_t bytes, size_t columns) {
    text measured = {0};
    size_t at = 0, taken = 0;
    while (at < bytes) {
        size_t next = put_character(&measured, from + at, bytes - at, &taken);
        if (taken > columns)
            break;
        at += next;
    }
    return at;
}

bool mr_printable(const char *from) {
    for (size_t bytes; *from; from += bytes) {
        bytes = mr_utf8_bytes(from, strlen(from));
        if (!bytes || !is_shown(mr_utf8_code(from, bytes)))
            return false;
    }
    return true;
}

/* ---- conversions ----------------------------------------------------------------------------------------------- */

typedef enum modifier { INT, CHAR, SHORT, LONG, LONG_LONG, SIZE, MAX, DIFFERENCE } modifier;

typedef struct conversion {
    char spec[SPEC]; /* as in the format, with numbers instead of stars */
    bool left;
    int width, precision; /* precision -1: none */
    modifier length;
    char kind;
} conversion;

/* So that it can be handed on by address: va_list may be an array. */
typedef struct arguments {
    va_list list;
} arguments;

static int read_number(const char **at, arguments *from) {
    int number = 0;
    if (**at == '*') {
        ++*at;
        return va_arg(from->list, int);
    }
    for (; **at >= '0' && **at <= '9'; ++*at)
        number = 10 * number + (**at - '0');
    return number;
}

static modifier read_length(const char **at) {
    static const struct {
        const char *text;
        modifier is;
    } lengths[] = {{"hh", CHAR}, {"h", SHORT}, {"ll", LONG_LONG}, {"l", LONG}, {"z", SIZE}, {"j", MAX},
                   {"t", DIFFERENCE}};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        if (strncmp(*at, lengths[i].text, strlen(lengths[i].text)) == 0) {
            *at += strlen(lengths[i].text);
            return lengths[i].is;
        }
    return INT;
}

/* Reads a conversion after the percent sign; returns the text after it. */
static const char *read_conversion(conversion *to, const char *at, arguments *from) {
    char flags[8] = "", precision[16] = "", width[16] = "";
    size_t count = strspn(at, "-+ #0");
    snprintf(flags, sizeof flags, "%.*s", (int)count, at);
    at += count;
    *to = (conversion){.precision = -1, .width = read_number(&at, from)};
    if (*at == '.') {
        at++;
        to->precision = read_number(&at, from);
    }
    to->left = strchr(flags, '-') || to->width < 0;
    to->width = to->width < 0 ? -to->width : to->width;
    const char *begin = at;
    to->length = read_length(&at);
    to->kind = *at;
    if (to->width)
        snprintf(width, sizeof width, "%d", to->width);
    if (to->precision >= 0)
        snprintf(precision, sizeof precision, ".%d", to->precision);
    snprintf(to->spec, sizeof to->spec, "%%%s%s%s%s%.*s", flags, to->left && !strchr(flags, '-') ? "-" : "", width,
             precision, (int)(at - begin + 1), begin);
    return at + 1;
}

static void pad(text *to, size_t columns, int width) {
    for (; columns < (size_t)width; columns++)
        put(to, " ", 1);
}

static void put_text(text *to, const conversion *how, const char *from, size_t bytes) {
    text measured = {0};
    size_t columns = put_characters(&measured, from, bytes);
    if (!how->left)
        pad(to, columns, how->width);
    put_characters(to, from, bytes);
    if (how->left)
        pad(to, columns, how->width);
}

static void put_string(text *to, const conversion *how, const char *from) {
    from = from ? from : "(null)";
    put_text(to, how, from, how->precision < 0 ? strlen(from) : strnlen(from, (size_t)how->precision));
}

/* Formats of numbers are assembled here, from parts that the compiler checked at the call. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"

static void put_number(text *to, const conversion *how, arguments *from) {
    char number[NUMBER];
    int length = 0;
#define PUT(type) length = snprintf(number, sizeof number, how->spec, va_arg(from->list, type))
    if (how->kind == 'p')
        PUT(void *);
    else if (strchr("fFeEgG", how->kind))
        PUT(double);
    else if (how->length == LONG)
        PUT(long);
    else if (how->length == LONG_LONG)
        PUT(long long);
    else if (how->length == SIZE)
        PUT(size_t);
    else if (how->length == MAX)
        PUT(intmax_t);
    else if (how->length == DIFFERENCE)
        PUT(ptrdiff_t);
    else
        PUT(int);
#undef PUT
    if (length > 0)
        put(to, number, (size_t)length < sizeof number ? (size_t)length : sizeof number - 1);
}

#pragma GCC diagnostic pop

static const char *put_conversion(text *to, const char *at, arguments *from) {
    conversion how;
    at = read_conversion(&how, at, from);
    if (how.kind == '%')
        put(to, "%", 1);
    else if (how.kind == 's')
        put_string(to, &how, va_arg(from->list, const char *));
    else if (how.kind == 'c')
        put_text(to, &how, (char[]){(char)va_arg(from->list, int)}, 1);
    else
        put_number(to, &how, from);
    return at;
}

/* ---- together -------------------------------------------------------------------------------------------------- */

size_t mr_vprint_into(char *at, size_t room, const char *format, va_list list) {
    text to = {.at = at, .room = room};
    arguments from;
    va_copy(from.list, list);
    while (*format) {
        size_t plain = strcspn(format, "%");
        put(&to, format, plain);
        format += plain;
        if (*format)
            format = put_conversion(&to, format + 1, &from);
    }
    va_end(from.list);
    if (room)
        at[to.kept] = '\0';
    return to.length;
}

size_t mr_print_into(char *at, size_t room, const char *format, ...) {
    va_list list;
    va_start(list, format);
    size_t length = mr_vprint_into(at, room, format, list);
    va_end(list);
    return length;
}

char *mr_vprint_new(const char *format, va_list list) {
    size_t length = mr_vprint_into(NULL, 0, format, list);
    char *made = malloc(length + 1);
    if (made)
        mr_vprint_into(made, length + 1, format, list);
    return made;
}

char *mr_print_new(const char *format, ...) {
    va_list list;
    va_start(list, format);
    char *made = mr_vprint_new(format, list);
    va_end(list);
    return made;
}

void mr_vprint(FILE *stream, const char *format, va_list list) {
    char usual[USUAL], *longer = NULL;
    size_t length = mr_vprint_into(usual, sizeof usual, format, list);
    if (length >= sizeof usual && (longer = mr_vprint_new(format, list)))
        fwrite(longer, 1, length, stream);
    else
        fwrite(usual, 1, strlen(usual), stream);
    free(longer);
}

void mr_print(FILE *stream, const char *format, ...) {
    va_list list;
    va_start(list, format);
    mr_vprint(stream, format, list);
    va_end(list);
}
