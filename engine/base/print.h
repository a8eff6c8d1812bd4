/* Text for people: on the terminal, in the log, in tables and drawings.
 *
 * Much of what millrace prints was written by others: names of files, labels of models, names that peers send,
 * messages of libraries. A terminal obeys control characters, and a newline begins a line that seems to be our own. The
 * functions below format as printf does, except that they show each character of a text argument (%s, %c) that is not
 * to be shown as it is:
 *
 *     control characters of ASCII, DEL, and bytes that are not UTF-8        \x1b
 *     control characters above ASCII (U+0080 to U+009F)                     \u009b
 *     line and paragraph separators (U+2028, U+2029)                        \u2028
 *     characters that reverse the text behind them (U+202A to U+202E,
 *     U+2066 to U+2069), and those that are not characters (U+FFFE, U+FFFF) \u202e
 *
 * All else stays as it is, the backslash too: what is printed is for reading, not for parsing. The format itself is the
 * programmer's and is not changed. Results and files that programs read (JSON, CSV) are data: they escape by the rules
 * of their format, not here.
 *
 * Widths of texts count columns, and precisions bytes of the argument. Conversions: d i u x X o c s p f F e g G %,
 * with the lengths hh h l ll z j t. Any thread; a text is written with one call of fwrite. */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

void mr_print(FILE *stream, const char *format, ...) __attribute__((format(printf, 2, 3)));
void mr_vprint(FILE *stream, const char *format, va_list arguments) __attribute__((format(printf, 2, 0)));

/* Into an array, as snprintf does: zero-terminated, cut between two characters if there is no room. Returns the length
 * of the whole text. */
size_t mr_print_into(char *text, size_t room, const char *format, ...) __attribute__((format(printf, 3, 4)));
size_t mr_vprint_into(char *text, size_t room, const char *format, va_list arguments)
    __attribute__((format(printf, 3, 0)));

/* A new text, to be freed; NULL if there is no memory. */
char *mr_print_new(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *mr_vprint_new(const char *format, va_list arguments) __attribute__((format(printf, 1, 0)));

/* How many columns of a terminal the first bytes of a text take as it is shown: two for wide characters (East Asian
 * ones, pictures), none for accents that combine with the character before them. */
size_t mr_columns(const char *text, size_t bytes);
/* How many bytes of a text fit into so many columns. */
size_t mr_columns_fit(const char *text, size_t bytes, size_t columns);

/* If all of the text is shown as it is. */
bool mr_printable(const char *text);
