/* Text for people: on the terminal, in the log, in tables and drawings.
 *
 * Others wrote much that millrace prints: file names, model labels, names that peers send, library messages. A terminal
 * obeys control characters, and a newline can begin a line that seems to be ours. The functions below format as printf
 * does, but escape each unsafe character in a text argument (%s, %c):
 *
 *     control characters of ASCII, DEL, and bytes that are not UTF-8        \x1b
 *     control characters above ASCII (U+0080 to U+009F)                     \u009b
 *     line and paragraph separators (U+2028, U+2029)                        \u2028
 *     characters that reverse the text behind them (U+202A to U+202E,
 *     U+2066 to U+2069), and those that are not characters (U+FFFE, U+FFFF) \u202e
 *
 * Everything else stays as it is, the backslash too: printed text is for reading, not for parsing. The programmer
 * writes the format, which is not changed. Results and files that programs read (JSON, CSV) are data: they must escape
 * by their format's rules, not here.
 *
 * Widths count columns; precisions count argument bytes. Conversions: d i u x X o c s p f F e g G %, with the lengths
 * hh h l ll z j t. Any thread; one fwrite call writes a text. */
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

/* How many terminal columns the first `bytes` bytes take when shown: two for a wide character (East Asian, pictures),
 * none for an accent that combines with the previous character. */
size_t mr_columns(const char *text, size_t bytes);
/* How many bytes fit into `columns` columns. */
size_t mr_columns_fit(const char *text, size_t bytes, size_t columns);

/* Whether the whole text is shown as it is. */
bool mr_printable(const char *text);
