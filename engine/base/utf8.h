/* UTF-8 (RFC 3629). Any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Bytes of the character at `at`, of which `left` may be read; 0 if they are not UTF-8: overlong forms, surrogates,
 * numbers above U+10FFFF, a sequence that is cut off, and the zero byte. */
size_t mr_utf8_bytes(const char *at, size_t left);
/* Bytes of the mark (U+FEFF) with which editors on Windows begin a file, and which belongs to no line of it; 0 if there
 * is none. */
size_t mr_utf8_mark(const char *text, size_t bytes);
/* The number of the character at `at`, which has so many bytes by mr_utf8_bytes. */
uint32_t mr_utf8_code(const char *at, size_t bytes);
/* How many bytes of the text, `most` at most, are whole characters: fewer if it ends, or is not UTF-8. */
size_t mr_utf8_fit(const char *text, size_t most);
/* Replaces each byte that belongs to no character by a question mark. */
void mr_utf8_mend(char *text);
/* Compares texts as strcmp does, but capital and small letters of all scripts are the same, whatever locale is set; so
 * are the two small sigmas. Bytes that are not UTF-8 are compared as they are. A system without "C.UTF-8" knows the
 * letters of ASCII only. */
int mr_utf8_compare_case(const char *a, const char *b);
