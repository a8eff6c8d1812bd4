/* Names of video files: printed, and recognised, so that retention removes no other file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "millrace/status.h"
#include "stages/video/video_name.h"

/* 2026-11-23T08:15:00Z */
static const int64_t AT = 1795421700;

static void names_are_printed(void **state) {
    (void)state;
    static const struct {
        const char *pattern, *source;
        uint64_t number;
        int again;
        const char *name;
    } cases[] = {
        {"{source}.mp4", "lobby", 7, 0, "lobby.mp4"},
        {"{source}.mp4", "lobby", 7, 2, "lobby-3.mp4"},
        {"{source}-{number}.mkv", "a/b", 12, 0, "a_b-000012.mkv"},
        {"{time}_{source}_{number}.ts", "x", 1234567, 1, "20261123T081500Z_x_1234567-2.ts"},
    };
    char name[MR_VIDEO_NAME];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(mr_video_name_check(cases[i].pattern), MR_OK);
        assert_int_equal(mr_video_name_print(name, cases[i].pattern, cases[i].source, cases[i].number, AT,
                                             cases[i].again), MR_OK);
        assert_string_equal(name, cases[i].name);
        uint64_t number = 0;
        assert_true(mr_video_name_matches(name, cases[i].pattern, cases[i].source, &number));
        if (mr_video_name_counts(cases[i].pattern))
            assert_int_equal(number, cases[i].number);
    }
}

static void other_names_are_told_apart(void **state) {
    (void)state;
    static const char *const others[] = {
        "cam-2-000001.mp4", "cam-00001.mp4", "cam-000001.mkv", "cam-000001", "cam-000001.mp4.part", "cam-000001-x.mp4",
        "camera-000001.mp4", "cam-.mp4", "xcam-000001.mp4", "cam-0000000000000000001.mp4", ""};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(mr_video_name_matches(others[i], "{source}-{number}.mp4", "cam", NULL));
    assert_true(mr_video_name_matches("cam-000001.mp4", "{source}-{number}.mp4", "cam", NULL));
    assert_false(mr_video_name_matches("20261123-081500Z.mp4", "{time}.mp4", "cam", NULL));
}

static void bad_patterns_are_refused(void **state) {
    (void)state;
    static const char *const bad[] = {"a/b.mp4", "{seq}.mp4", "{source.mp4", "}.mp4"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(mr_video_name_check(bad[i]), MR_ERROR_CONFIG);
    char name[MR_VIDEO_NAME], source[MR_VIDEO_NAME + 1];
    memset(source, 'x', sizeof source - 1);
    source[sizeof source - 1] = '\0';
    for (size_t length = MR_VIDEO_NAME - 12; length <= MR_VIDEO_NAME; length++)
        assert_int_equal(mr_video_name_print(name, "{source}-{number}.mp4", source + MR_VIDEO_NAME - length, 0, 0, 0),
                         length + 11 < MR_VIDEO_NAME ? MR_OK : MR_ERROR_IO);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(names_are_printed),
                                       cmocka_unit_test(other_names_are_told_apart),
                                       cmocka_unit_test(bad_patterns_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
