#include "engine/base/utf8.h"

#include <locale.h>
#include <pthread.h>
#include <string.h>
#include <wctype.h>

size_t mr_utf8_bytes(const char *at, size_t left) {
    static const struct {
        unsigned char first, last, low, high; /* the first byte's range; the second's */
        size_t bytes;
    } forms[] = {
        {0x01, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
        {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    const unsigned char *text = (const unsigned char *)at;
    for (size_t i = 0; left && i < sizeof forms / sizeof *forms; i++) {
        if (text[0] < forms[i].first || text[0] > forms[i].last)
            continue;
        if (forms[i].bytes > left || (forms[i].bytes > 1 && (text[1] < forms[i].low || text[1] > forms[i].high)))
            return 0;
        for (size_t k = 2; k < forms[i].bytes; k++)
            if ((text[k] & 0xc0) != 0x80)
                return 0;
        return forms[i].bytes;
    }
    return 0;
}

size_t mr_utf8_mark(const char *text, size_t bytes) {
    return bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

uint32_t mr_utf8_code(const char *at, size_t bytes) {
    static const unsigned char payload[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t code = (unsigned char)at[0] & payload[bytes];
    for (size_t i = 1; i < bytes; i++)
        code = code << 6 | ((unsigned char)at[i] & 0x3f);
    return code;
}

size_t mr_utf8_fit(const char *text, size_t most) {
    enum { LONGEST = 4 };
    size_t bytes = 0;
    for (size_t step, left; (left = most - bytes) > 0; bytes += step)
        if (!(step = mr_utf8_bytes(text + bytes, strnlen(text + bytes, left < LONGEST ? left : LONGEST))))
            break;
    return bytes;
}

void mr_utf8_mend(char *text) {
    for (size_t bytes; *text; text += bytes ? bytes : 1)
        if (!(bytes = mr_utf8_bytes(text, strnlen(text, 4))))
            *text = '?';
}

/* ---- letters ----------------------------------------------------------------------------------------------------- */

/* Kept until the process ends; 0: there is none. */
static locale_t letters;

static void find_letters(void) {
    letters = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    if (!letters)
        letters = newlocale(LC_CTYPE_MASK, "C", (locale_t)0);
}

/* The next character as a small letter. After the last comes a byte that is no character; 0: the text ends. */
static uint32_t next_small(const char **text) {
    enum { SIGMA = 0x3c3, FINAL_SIGMA = 0x3c2, NO_CHARACTER = 0x110000 };
    const size_t bytes = mr_utf8_bytes(*text, strnlen(*text, 4));
    if (!bytes)
        return **text ? NO_CHARACTER + (unsigned char)*(*text)++ : 0;
    const uint32_t code = mr_utf8_code(*text, bytes);
    *text += bytes;
    /* The only small letter with two forms: both have one capital letter, and the place in the word decides. */
    if (code == FINAL_SIGMA)
        return SIGMA;
    return letters ? (uint32_t)towlower_l((wint_t)code, letters) : code;
}

int mr_utf8_compare_case(const char *a, const char *b) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    uint32_t left, right;
    pthread_once(&once, find_letters);
    do {
        left = next_small(&a);
        right = next_small(&b);
    } while (left && left == right);
    return (left > right) - (left < right);
}
