#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/print.h"
#include "engine/base/utf8.h"
#include "millrace/diagnostics.h"
#include "millrace/log.h"
#include "tests/support/suite.h"

static void assert_shown(const char *text, const char *as) {
    char got[256];
    assert_int_equal(mr_print_into(got, sizeof got, "%s", text), strlen(as));
    assert_string_equal(got, as);
    assert_int_equal(mr_printable(text), strcmp(text, as) == 0);
}

TEST(what_a_terminal_obeys_is_shown) {
    assert_shown("a\x1b]0;title\x07z", "a\\x1b]0;title\\x07z");
    assert_shown("one\ntwo\r\tthree\x7f", "one\\x0atwo\\x0d\\x09three\\x7f");
    assert_shown("\xc2\x9b" "2J", "\\u009b2J");                /* CSI of C1 in UTF-8 */
    assert_shown("\x9b" "2J", "\\x9b2J");                      /* and as a byte */
    assert_shown("\xe2\x80\xa8\xe2\x80\xa9", "\\u2028\\u2029"); /* line and paragraph separators */
    assert_shown("\xe2\x80\xae" "gnp.exe", "\\u202egnp.exe");
    assert_shown("\xe2\x80\xaa\xe2\x81\xa6\xe2\x81\xa9", "\\u202a\\u2066\\u2069");
    assert_shown("\xef\xbf\xbe\xef\xbf\xbf", "\\ufffe\\uffff");
}

TEST(what_is_broken_is_shown_byte_by_byte) {
    assert_shown("\xff\xfe", "\\xff\\xfe");
    assert_shown("\xc0\x8a", "\\xc0\\x8a");         /* a newline, overlong */
    assert_shown("\xe0\x82\x9b", "\\xe0\\x82\\x9b"); /* CSI, overlong */
    assert_shown("\xed\xa0\x80", "\\xed\\xa0\\x80"); /* half a pair */
    assert_shown("\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80");
    assert_shown("caf\xc3", "caf\\xc3");
    assert_shown("\xe6\x97" "A", "\\xe6\\x97" "A");
}

TEST(what_people_write_stays) {
    assert_shown("", "");
    assert_shown("C:\\x1b \"quoted\" 100% $HOME", "C:\\x1b \"quoted\" 100% $HOME");
    assert_shown("caf\xc3\xa9 \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x90\xa6",
                 "caf\xc3\xa9 \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x90\xa6");
    /* Written from right to left. */
    assert_shown("\xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d", "\xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d");
    assert_shown("\xc2\xa0\xe2\x80\xa7\xe2\x80\xaf\xe2\x81\xaa\xef\xbf\xbd",
                 "\xc2\xa0\xe2\x80\xa7\xe2\x80\xaf\xe2\x81\xaa\xef\xbf\xbd");
}

/* Every character that there is, against a reference that is written another way. */
TEST(every_character_is_shown_or_escaped) {
    for (uint32_t code = 1; code <= 0x10ffff; code++) {
        char text[5] = {0}, got[32], want[32];
        if (code >= 0xd800 && code < 0xe000)
            continue;
        if (code < 0x80)
            text[0] = (char)code;
        else if (code < 0x800)
            memcpy(text, (char[]){(char)(0xc0 | code >> 6), (char)(0x80 | (code & 63))}, 2);
        else if (code < 0x10000)
            memcpy(text, (char[]){(char)(0xe0 | code >> 12), (char)(0x80 | (code >> 6 & 63)),
                                  (char)(0x80 | (code & 63))}, 3);
        else
            memcpy(text, (char[]){(char)(0xf0 | code >> 18), (char)(0x80 | (code >> 12 & 63)),
                                  (char)(0x80 | (code >> 6 & 63)), (char)(0x80 | (code & 63))}, 4);
        assert_int_equal(mr_utf8_bytes(text, 5), strlen(text));
        assert_int_equal(mr_utf8_bytes(text, strlen(text) - 1), 0);
        assert_int_equal(mr_utf8_code(text, strlen(text)), code);
        static const uint32_t hidden[][2] = {{1, 0x1f}, {0x7f, 0x9f}, {0x2028, 0x202e}, {0x2066, 0x2069},
                                             {0xfffe, 0xffff}};
        snprintf(want, sizeof want, "%s", text);
        for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
            if (code >= hidden[i][0] && code <= hidden[i][1])
                snprintf(want, sizeof want, code < 0x80 ? "\\x%02x" : "\\u%04x", (unsigned)code);
        mr_print_into(got, sizeof got, "%s", text);
        assert_string_equal(got, want);
    }
}

#define SAME(...)                                                                                                      \
    do {                                                                                                               \
        char got[700], want[700];                                                                                      \
        int length = snprintf(want, sizeof want, __VA_ARGS__);                                                         \
        assert_int_equal(mr_print_into(got, sizeof got, __VA_ARGS__), length);                                         \
        assert_string_equal(got, want);                                                                                \
    } while (0)

TEST(numbers_and_texts_are_those_of_printf) {
    SAME("plain");
    SAME("100%% of %d", 7);
    SAME("%5d|%-5d|%05d|%+d|% d|%x|%#X|%o|%u", 42, 42, 42, 42, 42, 255u, 255u, 8u, UINT_MAX);
    SAME("%hhd %hd %ld %lld %zu %jd %td", (signed char)-1, (short)-2, LONG_MIN, LLONG_MIN, SIZE_MAX, INTMAX_MIN,
         (ptrdiff_t)-9);
    SAME("%hhu %hu %lu %llu %" PRIx64, (unsigned char)255, (unsigned short)65535, ULONG_MAX, ULLONG_MAX, UINT64_MAX);
    SAME("%f|%.3f|%8.2f|%-8.2f|%e|%g|%.0f|%G", 3.25, 3.25, 3.25, 3.25, 3.25e-9, 1e100, 2.5, 1e-7);
    SAME("%f", -1.7976931348623157e308);
    SAME("%*d|%-*d|%.*f|%*.*f", 6, 1, 6, 2, 2, 3.14159, 9, 1, 2.75);
    SAME("%s|%10s|%-10s|%.2s|%.*s|%-*s|%10.3s|", "text", "text", "text", "text", 3, "text", 8, "text", "text");
    SAME("%c%c|%3c|%-3c|", 'a', 'b', 'c', 'd');
    SAME("%p", (void *)state);
}

TEST(widths_count_columns) {
    char got[64];
    static const struct {
        const char *text;
        size_t columns;
    } texts[] = {{"", 0}, {"plain", 5}, {"\xe6\x97\xa5\xe6\x9c\xac", 4}, {"e\xcc\x81t", 2}, {"\xf0\x9f\x8e\xac", 2},
                 {"\x1b", 4}, {"\xff", 4}, {"\xe2\x80\xae", 6}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        size_t bytes = strlen(texts[i].text);
        assert_int_equal(mr_columns(texts[i].text, bytes), texts[i].columns);
        assert_int_equal(mr_columns_fit(texts[i].text, bytes, texts[i].columns), bytes);
    }
    assert_int_equal(mr_columns_fit("\xe6\x97\xa5\xe6\x9c\xac", 6, 3), 3);
    assert_int_equal(mr_columns_fit("e\xcc\x81t", 4, 1), 3);
    mr_print_into(got, sizeof got, "%-4s|%4s|", "\xe6\x97\xa5", "e\xcc\x81");
    assert_string_equal(got, "\xe6\x97\xa5  |   e\xcc\x81|");
    mr_print_into(got, sizeof got, "%-4s|%4s|%-6s|", "\xc3\xa9", "\xc3\xa9", "\x1b");
    assert_string_equal(got, "\xc3\xa9   |   \xc3\xa9|\\x1b  |");
}

TEST(no_character_is_cut) {
    char got[8];
    assert_int_equal(mr_print_into(got, sizeof got, "%s", "abcde\xc3\xa9\xc3\xa9"), 9);
    assert_string_equal(got, "abcde\xc3\xa9");
    assert_int_equal(mr_print_into(got, sizeof got, "%s", "abcde\x1b""f"), 10);
    assert_string_equal(got, "abcde");
    assert_int_equal(mr_print_into(NULL, 0, "%s", "abc"), 3);
}

TEST(texts_end_with_a_whole_character) {
    static const struct {
        const char *text;
        size_t most, bytes;
    } cases[] = {{"", 3, 0}, {"abc", 0, 0}, {"abc", 2, 2}, {"abc", 9, 3}, {"\xc3\x84pfel", 1, 0},
                 {"\xc3\x84pfel", 2, 2}, {"a\xe2\x82\xac", 3, 1}, {"a\xe2\x82\xac", 4, 4}, {"ab\xff" "c", 9, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(mr_utf8_fit(cases[i].text, cases[i].most), cases[i].bytes);
}

/* Each character costs the same, however long the text: this one took hours. */
TEST(long_texts_are_measured_once) {
    enum { BYTES = 64 << 20 };
    char *text = malloc(BYTES + 1);
    assert_non_null(text);
    memset(text, 'a', BYTES);
    text[BYTES] = '\0';
    assert_int_equal(mr_utf8_fit(text, BYTES), BYTES);
    text[BYTES - 1] = '\xff';
    assert_int_equal(mr_utf8_fit(text, BYTES), BYTES - 1);
    free(text);
}

/* From Unicode's CaseFolding.txt (simple folding without Turkish). */
TEST(letters_of_all_scripts_have_a_case) {
    static const char *const same[][2] = {
        {"Cat", "cAT"}, {"\xc3\x84pfel", "\xc3\xa4pfel"}, {"\xc3\x85NGSTR\xc3\x96M", "\xc3\xa5ngstr\xc3\xb6m"},
        {"\xd0\xa9\xd0\xa3\xd0\x9a\xd0\x90", "\xd1\x89\xd1\x83\xd0\xba\xd0\xb0"}, /* Cyrillic: a pike */
        {"\xce\x93\xce\x86\xce\xa4\xce\x9f\xce\xa3", "\xce\xb3\xce\xac\xcf\x84\xce\xbf\xcf\x82"}, /* Greek: a cat */
        {"\xc4\x8c" "ESK\xc3\x9d", "\xc4\x8d" "esk\xc3\xbd"}, {"\xe1\xba\x9e", "\xc3\x9f"}, {"\xff", "\xff"}, {"", ""}};
    static const char *const less[][2] = {
        {"a", "b"}, {"a", "\xc3\xa4"}, {"sicak", "s\xc4\xb1" "cak"}, /* a dotless i is another letter */
        {"a", "aa"}, {"\xc3\xbf", "\xff"}, {"ss", "\xc3\x9f"}};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        assert_int_equal(mr_utf8_compare_case(same[i][0], same[i][1]), 0);
    for (size_t i = 0; i < sizeof less / sizeof *less; i++) {
        assert_true(mr_utf8_compare_case(less[i][0], less[i][1]) < 0);
        assert_true(mr_utf8_compare_case(less[i][1], less[i][0]) > 0);
    }
}

TEST(long_texts_are_whole) {
    enum { LONG = 100000 };
    FREED char *text = malloc(LONG + 1), *got = NULL;
    size_t bytes = 0;
    memset(text, 'x', LONG);
    text[LONG] = '\0';
    FILE *stream = open_memstream(&got, &bytes);
    mr_print(stream, "<%s>\n", text);
    fclose(stream);
    assert_int_equal(bytes, LONG + 3);
    assert_memory_equal(got + 1, text, LONG);
    FREED char *made = mr_print_new("%s%c", text, '\n');
    assert_int_equal(strlen(made), LONG + 4);
    assert_string_equal(made + LONG, "\\x0a");
}

static char logged[2048];

static void keep_line(void *context, mr_log_level level, const char *line) {
    snprintf(logged, sizeof logged, "%s", line);
}

TEST(log_lines_are_one_line) {
    void *context = &context;
    mr_log_to(keep_line, NULL);
    assert_ptr_equal(mr_log_target(&context), keep_line);
    assert_null(context);
    mr_log(MR_LOG_ERROR, "%s: refused", "peer\nmillrace: error: forged\x1b[2J");
    mr_log_to(NULL, NULL);
    assert_string_equal(logged, "peer\\x0amillrace: error: forged\\x1b[2J: refused");
}

/* A context that no call may see after mr_log_to has returned. */
typedef struct heard {
    atomic_bool *over;
    atomic_int lines, late;
    bool gone;
} heard;

static void hear(void *context, mr_log_level level, const char *line) {
    heard *by = context;
    atomic_fetch_add(&by->lines, 1);
    atomic_fetch_add(&by->late, by->gone);
    if (level == MR_LOG_ERROR)
        mr_log(MR_LOG_WARNING, "again: %s", line);
}

static void *keep_logging(void *context) {
    const heard *by = context;
    while (!atomic_load(by->over))
        mr_log(MR_LOG_ERROR, "a line");
    return NULL;
}

TEST(nothing_is_in_a_log_function_that_was_replaced) {
    atomic_bool over = false;
    heard by[100];
    pthread_t threads[2];
    for (int i = 0; i < 100; i++)
        by[i] = (heard){.over = &over};
    mr_log_to(hear, &by[0]);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, keep_logging, &by[0]), 0);
    for (int i = 1; i < 100; i++) {
        while (atomic_load(&by[i - 1].lines) < 4)
            sched_yield();
        mr_log_to(hear, &by[i]);
        by[i - 1].gone = true;
    }
    atomic_store(&over, true);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    mr_log_to(NULL, NULL);
    for (int i = 0; i < 100; i++)
        assert_int_equal(atomic_load(&by[i].late), 0);
}

TEST(diagnostics_keep_to_their_lines) {
    ENDED_BY(mr_diagnostics_fini) mr_diagnostics wrong = {0};
    FREED char *got = NULL;
    size_t bytes = 0;
    mr_diagnose(&wrong, MR_SEVERITY_ERROR, -1, (mr_location){.file = "a\x1b[2Jb.yaml", .line = 3, .column = 4},
                "try \x07 it", "%s is wrong", "x\nerror: forged");
    FILE *stream = open_memstream(&got, &bytes);
    mr_diagnostics_print(&wrong, stream);
    fclose(stream);
    assert_string_equal(got, "a\\x1b[2Jb.yaml:3:4: error: x\\x0aerror: forged is wrong\n    hint: try \\x07 it\n");
}

RUN_TESTS(NULL, NULL)
