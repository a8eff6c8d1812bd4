/* File names: printed, and recognised again. Retention must not remove any other file. */
#include <stdio.h>
#include <string.h>

#include "millrace/status.h"
#include "stages/sink/file_name.h"
#include "tests/support/suite.h"

/* 2026-11-23T08:15:00Z */
static const int64_t AT = 1795421700;

TEST(names_are_printed) {
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
        {"{source}-{number}.ts", "{number}{time}", 5, 0, "{number}{time}-000005.ts"},
        {"{source}-{source}.ts", "{source}", 5, 0, "{source}-{source}.ts"},
    };
    char name[MR_OUTPUT_NAME];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(mr_file_name_check(cases[i].pattern), MR_OK);
        assert_int_equal(mr_file_name_print(name, cases[i].pattern, cases[i].source, cases[i].number, AT,
                                             cases[i].again), MR_OK);
        assert_string_equal(name, cases[i].name);
        mr_file_name_parts parts = {0};
        assert_true(mr_file_name_matches(name, cases[i].pattern, cases[i].source, &parts));
        assert_true(mr_file_name_has_source(name, cases[i].pattern, cases[i].source));
        assert_int_equal(parts.again, cases[i].again > 0);
        if (mr_file_name_counts(cases[i].pattern))
            assert_int_equal(parts.number, cases[i].number);
    }
}

/* Text that replaces a token must not act as a pattern. */
TEST(names_of_pictures_are_printed) {
    static const struct {
        const char *pattern, *source;
        mr_identity identity;
        const char *name;
    } cases[] = {
        {"{source}-{seq}.png", "a/b", {.seq = 7}, "a_b-000007.png"},
        {"{source}-{seq}.png", "{seq}", {.seq = 7}, "{seq}-000007.png"},
        {"{seq}{source}.png", "{sub}{epoch}", {.seq = 7, .sub = 3}, "000007.3{sub}{epoch}.png"},
        {"{label}/{track}/{seq}.png", "x", {.seq = 7, .sub = 2}, "_._a_b/5/000007.2.png"},
        {"{seq}.{sub}.jpg", "x", {.epoch = 2, .seq = 1234567, .sub = 3}, "2-1234567.3.jpg"},
        {"{epoch}_{seq}.jpg", "x", {.epoch = 2, .seq = 1}, "2_000001.jpg"},
        {"{time}-{seq}.jpg", "x", {.seq = 1}, "20261128T142742Z-000001.jpg"},
        {"{stem}-{seq}.jpg", "x", {.seq = 1}, "IMG 1.x-000001.jpg"},
    };
    const mr_object object = {.label = "../a\nb", .track = 5};
    char name[64];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(mr_picture_name_check(cases[i].pattern), MR_OK);
        const mr_picture_name of = {cases[i].source, "photos/a.b/IMG 1.x.JPG", cases[i].identity, &object, 1795876062};
        assert_int_equal(mr_picture_name_print(name, sizeof name, cases[i].pattern, &of), MR_OK);
        assert_string_equal(name, cases[i].name);
    }
    static const char *const wrong[] = {"{source}.png", "/a/{seq}.png", "../{seq}.png", "a//{seq}.png", "{seq}{.png",
                                        "{time}.png", "{number}{seq}", "{class}-{seq}.png"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(mr_picture_name_check(wrong[i]), MR_ERROR_CONFIG);
    const mr_picture_name one = {.source = "", .identity.seq = 1};
    assert_int_equal(mr_picture_name_print(name, 11, "{seq}.png", &one), MR_OK);
    assert_int_equal(mr_picture_name_print(name, 10, "{seq}.png", &one), MR_ERROR_IO);
}

/* The file's name without folder and ending, which must not hide the new one or lead elsewhere. */
TEST(stems_in_names) {
    static const char *const cases[][2] = {{"a.jpg", "a-1.jpg"}, {"/x/y/b", "b-1.jpg"}, {".jpg", "_jpg-1.jpg"},
                                           {"..", "_-1.jpg"}, {"x/", "_-1.jpg"}, {NULL, "cam-1.jpg"},
                                           {"\xe6\x97\xa5.png", "\xe6\x97\xa5-1.jpg"}};
    char name[64], wanted[64];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const mr_picture_name of = {.source = "cam", .file = cases[i][0], .identity.seq = 1};
        snprintf(wanted, sizeof wanted, "%.*s-000001.jpg", (int)(strlen(cases[i][1]) - 6), cases[i][1]);
        assert_int_equal(mr_picture_name_print(name, sizeof name, "{stem}-{seq}.jpg", &of), MR_OK);
        assert_string_equal(name, wanted);
    }
}

/* A long one is cut where a character ends. */
TEST(labels_in_names_are_cut) {
    static const char whole[] = "0123456789" "0123456789" "0123456789" "0123456789" "0123456789"
                                "0123456789" "0123456789" "0123456789" "0123456789" "0123456789";
    const mr_identity identity = {.seq = 7};
    char label[400], name[251], want[251];
    const struct {
        const char *end;
        int from_whole;
    } cases[] = {{"", 100}, {"x", 100}, {"\xe2\x82\xac", 98}, {"\xe2\x82\xac", 97}, {whole, 100}, {"", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int kept = cases[i].from_whole;
        snprintf(label, sizeof label, "%.*s%s%s", kept, whole, cases[i].end, kept ? whole : "");
        snprintf(want, sizeof want, "%.*s%s/000007.png", kept, whole, !kept ? "_" : kept == 97 ? cases[i].end : "");
        const mr_object object = {.label = label};
        const mr_picture_name of = {.source = "", .identity = identity, .object = &object};
        assert_int_equal(mr_picture_name_print(name, sizeof name, "{label}/{seq}.png", &of), MR_OK);
        assert_string_equal(name, want);
    }
    memset(label, 0x80, 300);
    label[300] = '\0';
    const mr_object object = {.label = label};
    const mr_picture_name of = {.source = "", .identity = identity, .object = &object};
    assert_int_equal(mr_picture_name_print(name, sizeof name, "{label}/{seq}.png", &of), MR_OK);
    assert_string_equal(name, "_/000007.png");
}

TEST(other_names_are_told_apart) {
    static const char *const others[] = {
        "cam-2-000001.mp4", "cam-00001.mp4", "cam-000001.mkv", "cam-000001", "cam-000001.mp4.part", "cam-000001-x.mp4",
        "camera-000001.mp4", "cam-.mp4", "xcam-000001.mp4", "cam-0000000000000000001.mp4", ""};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(mr_file_name_matches(others[i], "{source}-{number}.mp4", "cam", NULL));
    assert_true(mr_file_name_matches("cam-000001.mp4", "{source}-{number}.mp4", "cam", NULL));
    assert_false(mr_file_name_matches("20261123-081500Z.mp4", "{time}.mp4", "cam", NULL));
}

/* If a name fits two sources, marks and the ids of other sources decide (keep.h). */
TEST(names_that_may_be_of_two_sources) {
    static const struct {
        const char *name, *pattern, *mine, *theirs;
        bool fits, again;
    } cases[] = {
        {"door-2.mp4", "{source}.mp4", "door", "door-2", true, true},
        {"000001-door-2.mp4", "{number}-{source}.mp4", "door", "door-2", true, true},
        {"20261123T081500Z-door-2.mp4", "{time}-{source}.mp4", "door", "door-2", true, true},
        {"cam-123456.mp4", "{source}-{number}.mp4", "cam", "cam-123456", true, false},
        {"cam-123456-000001.ts", "{source}-{number}.ts", "cam", "cam-123456", true, true},
        {"cam_1.mp4", "{source}.mp4", "cam", "cam_1", false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mr_file_name_parts parts = {0};
        assert_int_equal(mr_file_name_matches(cases[i].name, cases[i].pattern, cases[i].mine, &parts), cases[i].fits);
        assert_int_equal(parts.again, cases[i].again);
        assert_true(mr_file_name_has_source(cases[i].name, cases[i].pattern, cases[i].theirs));
        assert_false(mr_file_name_has_source(cases[i].name, cases[i].pattern, "gate"));
    }
    assert_false(mr_file_name_has_source("x.mp4", "x.mp4", "x"));
}

TEST(bad_patterns_are_refused) {
    static const char *const bad[] = {"a/b.mp4", "{seq}.mp4", "{source.mp4", "}.mp4", "{source}{number}.mp4",
                                      "{number}{source}.mp4", "{source}0{number}.mp4", "{number}{time}.mp4",
                                      "{number}{number}.mp4", "{number}1.mp4", "{time}{number}.mp4"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(mr_file_name_check(bad[i]), MR_ERROR_CONFIG);
    assert_int_equal(mr_file_name_check("{source}-{tme}.csv"), MR_ERROR_CONFIG);
    assert_non_null(strstr(mr_message(), "\"{source}-{tme}.csv\"; did you mean {time}?"));
    assert_int_equal(mr_picture_name_check("{source}-{sequ}.jpg"), MR_ERROR_CONFIG);
    assert_non_null(strstr(mr_message(), "; did you mean {seq}?"));
    assert_int_equal(mr_file_name_check("{x}.csv"), MR_ERROR_CONFIG);
    assert_null(strstr(mr_message(), "did you mean"));
    assert_int_equal(mr_file_name_check("{time}-{.csv"), MR_ERROR_CONFIG);
    assert_null(strstr(mr_message(), "did you mean"));
    char name[MR_OUTPUT_NAME], source[MR_OUTPUT_NAME + 1];
    memset(source, 'x', sizeof source - 1);
    source[sizeof source - 1] = '\0';
    for (size_t length = MR_OUTPUT_NAME - 12; length <= MR_OUTPUT_NAME; length++)
        assert_int_equal(mr_file_name_print(name, "{source}-{number}.mp4", source + MR_OUTPUT_NAME - length, 0, 0, 0),
                         length + 11 < MR_OUTPUT_NAME ? MR_OK : MR_ERROR_IO);
}

RUN_TESTS(NULL, NULL)
