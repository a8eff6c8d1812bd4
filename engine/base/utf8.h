/* UTF-8 (RFC 3629). Any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* How many bytes the character at `at` has; `left` may be read. 0 if they are not UTF-8: overlong forms, surrogates,
 * numbers above U+10FFFF, a truncated sequence, and the zero byte. */
size_t mr_utf8_bytes(const char *at, size_t left);
/* How many bytes the mark (U+FEFF) has with which Windows editors begin a file, and which belongs to no line; 0 if
 * there is none. */
size_t mr_utf8_mark(const char *text, size_t bytes);
/* The code of the character at `at`, which has `bytes` bytes by mr_utf8_bytes. */
uint32_t mr_utf8_code(const char *at, size_t bytes);
/* How many bytes of the text, `most` at most, are whole characters: fewer if it ends, or is not UTF-8. */
size_t mr_utf8_fit(const char *text, size_t most);
/* Replaces each byte that belongs to no character by a question mark. */
void mr_utf8_mend(char *text);
/* Compares texts as strcmp does, but ignores case in all scripts, in any locale; the two small sigmas are equal too.
 * Bytes that are not UTF-8 are compared as they are. Without "C.UTF-8" on the system only ASCII letters count. */
int mr_utf8_compare_case(const char *a, const char *b);
