#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/nearest.h"
#include "engine/text/options.h"
#include "engine/text/value.h"
#include "millrace/status.h"
#include "tests/support/fakes.h"
#include "tests/support/suite.h"

typedef struct everything {
    bool flag;
    int64_t whole;
    double number;
    const char *text, *path, *uri;
    int choice;
    int64_t wait_ns, memory;
    double rate;
    mr_size size;
    mr_doubles mean;
    mr_strings names;
    mr_pairs headers;
    mr_points corners;
    mr_shapes areas;
    mr_format format;
    struct {
        bool given;
        int64_t x, y;
    } part;
} everything;

static const char *const choices[] = {"nearest", "bilinear", "area", NULL};
static const mr_option part_fields[] = {
    {.name = "x", .kind = MR_OPTION_INT, .offset = 8, .required = true, .min = 0, .max = 100, .unit = "px",
     .help = "left"},
    {.name = "y", .kind = MR_OPTION_INT, .offset = 16, .fallback = "7", .help = "top"},
    MR_OPTIONS_END,
};
static const mr_option table[] = {
    {.name = "flag", .kind = MR_OPTION_BOOL, .offset = offsetof(everything, flag), .fallback = "true"},
    {.name = "whole", .kind = MR_OPTION_INT, .offset = offsetof(everything, whole), .fallback = "5", .min = 1,
     .max = 64,
     .unit = "frames"},
    {.name = "number", .kind = MR_OPTION_DOUBLE, .offset = offsetof(everything, number), .fallback = "0.875",
     .min = 0,
     .max = 1},
    {.name = "text", .kind = MR_OPTION_STRING, .offset = offsetof(everything, text)},
    {.name = "path", .kind = MR_OPTION_PATH, .offset = offsetof(everything, path), .fallback = "-"},
    {.name = "uri", .kind = MR_OPTION_URI, .offset = offsetof(everything, uri)},
    {.name = "choice", .kind = MR_OPTION_ENUM, .offset = offsetof(everything, choice), .fallback = "bilinear",
     .choices = choices},
    {.name = "wait", .kind = MR_OPTION_DURATION, .offset = offsetof(everything, wait_ns), .fallback = "20ms",
     .min = 1e6,
     .max = 60e9},
    {.name = "memory", .kind = MR_OPTION_BYTES, .offset = offsetof(everything, memory), .fallback = "64MiB",
     .min = 1024,
     .max = INFINITY},
    {.name = "rate", .kind = MR_OPTION_RATE, .offset = offsetof(everything, rate), .fallback = "30000/1001"},
    {.name = "size", .kind = MR_OPTION_SIZE, .offset = offsetof(everything, size), .fallback = "224x112", .min = 1,
     .max = 8192, .unit = "px"},
    {.name = "mean", .kind = MR_OPTION_DOUBLES, .offset = offsetof(everything, mean), .fallback = "[1, 2.5, 3]",
     .min = 0,
     .max = 255},
    {.name = "names", .kind = MR_OPTION_STRINGS, .offset = offsetof(everything, names), .fallback = "[a, b]"},
    {.name = "headers", .kind = MR_OPTION_PAIRS, .offset = offsetof(everything, headers)},
    {.name = "corners", .kind = MR_OPTION_POINTS, .offset = offsetof(everything, corners), .min = 2, .max = 3,
     .fallback = "[[1, 2], [3.5, -4]]", .unit = "points"},
    {.name = "areas", .kind = MR_OPTION_SHAPES, .offset = offsetof(everything, areas), .min = 1, .max = 2},
    {.name = "format", .kind = MR_OPTION_FORMAT, .offset = offsetof(everything, format), .fallback = "I420 1280x720"},
    {.name = "part", .kind = MR_OPTION_MAP, .offset = offsetof(everything, part), .fields = part_fields},
    MR_OPTIONS_END,
};

typedef struct filling {
    mr_arena arena;
    mr_diagnostics diagnostics;
    everything options;
    int status;
} filling;

static void fill(filling *f, const char *text) {
    mr_yaml *root;
    *f = (filling){0};
    assert_int_equal(mr_yaml_parse(&root, &f->arena, "f", text, strlen(text), false, &f->diagnostics), MR_OK);
    const mr_option_reader reader = {
        .arena = &f->arena, .diagnostics = &f->diagnostics, .directory = "dir/", .where = "stages.x"};
    assert_int_equal(mr_options_default(&reader, table, &f->options, sizeof f->options), MR_OK);
    f->status = mr_options_read(&reader, table, NULL, root, &f->options);
}

static void done(filling *f) {
    mr_arena_fini(&f->arena);
    mr_diagnostics_fini(&f->diagnostics);
}

static void refuses(const char *text, const char *expected) {
    filling f;
    fill(&f, text);
    expect_printed(&f.diagnostics, expected);
    assert_int_equal(f.status, MR_ERROR_CONFIG);
    done(&f);
}

TEST(frames_are_counted_or_timed) {
    static const mr_option every_table[] = {{.name = "every", .kind = MR_OPTION_EVERY, .fallback = "1", .min = 1,
                                             .max = 99, .unit = "frames", .example = "200ms"}, MR_OPTIONS_END};
    static const struct {
        const char *text;
        mr_every expected;
        const char *message;
    } each[] = {
        {"every: 5", {5, 0}, NULL},
        {"every: 200ms", {0, 200000000}, NULL},
        {"every: 1.5 s", {0, 1500000000}, NULL},
        {"every: 0", {0}, "f:1:8: error: x.every: 0 is out of range; expected 1 to 99 frames\n"},
        {"every: 0s", {0}, "f:1:8: error: x.every: 0s is out of range; expected 1 to 99 frames\n"},
        {"every: 100", {0}, "f:1:8: error: x.every: 100 is out of range; expected 1 to 99 frames\n"},
        {"every: often", {0},
         "f:1:8: error: x.every: expected a duration or a whole number such as 200ms, found \"often\"\n"},
        {"every: 2.5", {0},
         "f:1:8: error: x.every: expected a duration or a whole number such as 200ms, found \"2.5\"\n"},
    };
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        ENDED_BY(mr_arena_fini) mr_arena arena = {0};
        ENDED_BY(mr_diagnostics_fini) mr_diagnostics diagnostics = {0};
        mr_yaml *root;
        mr_every every;
        const mr_option_reader reader = {.arena = &arena, .diagnostics = &diagnostics, .directory = "", .where = "x"};
        mr_yaml_parse(&root, &arena, "f", each[i].text, strlen(each[i].text), false, &diagnostics);
        assert_int_equal(mr_options_default(&reader, every_table, &every, sizeof every), MR_OK);
        assert_int_equal(every.frames, 1);
        const int status = mr_options_read(&reader, every_table, NULL, root, &every);
        assert_int_equal(status, each[i].message ? MR_ERROR_CONFIG : MR_OK);
        if (each[i].message)
            expect_printed(&diagnostics, each[i].message);
        else
            assert_memory_equal(&every, &each[i].expected, sizeof every);
    }
}

TEST(a_size_may_be_left_to_the_stage) {
    static const mr_option sizes[] = {
        {.name = "size", .kind = MR_OPTION_SIZE, .fallback = "auto", .min = 1, .max = 9}, MR_OPTIONS_END};
    const char *const texts[] = {"size: 3x4", "size: auto", "size: automatic"};
    const mr_size expected[] = {{3, 4}, {0, 0}, {0, 0}};
    char text[MR_OPTION_TEXT];
    for (size_t i = 0; i < 3; i++) {
        ENDED_BY(mr_arena_fini) mr_arena arena = {0};
        ENDED_BY(mr_diagnostics_fini) mr_diagnostics diagnostics = {0};
        mr_yaml *root;
        mr_size size;
        const mr_option_reader reader = {.arena = &arena, .diagnostics = &diagnostics, .directory = "", .where = "x"};
        mr_yaml_parse(&root, &arena, "f", texts[i], strlen(texts[i]), false, &diagnostics);
        assert_int_equal(mr_options_default(&reader, sizes, &size, sizeof size), MR_OK);
        assert_int_equal(mr_options_read(&reader, sizes, NULL, root, &size), i < 2 ? MR_OK : MR_ERROR_CONFIG);
        assert_int_equal(size.width, expected[i].width);
        assert_int_equal(size.height, expected[i].height);
    }
    assert_string_equal(mr_option_describe(&sizes[0], text, sizeof text),
                        "width x height | auto, 1 to 9; default auto");
    assert_string_equal(mr_option_expected_text(&sizes[0], text, sizeof text),
                        "a size (width x height) such as 224x224, or auto");
}

TEST(defaults_are_read_as_yaml) {
    filling f;
    fill(&f, "{}");
    const everything *o = &f.options;
    assert_int_equal(f.status, MR_OK);
    assert_true(o->flag);
    assert_int_equal(o->whole, 5);
    assert_true(o->number == 0.875);
    assert_null(o->text);
    assert_string_equal(o->path, "-");
    assert_int_equal(o->choice, 1);
    assert_int_equal(o->wait_ns, 20000000);
    assert_int_equal(o->memory, 67108864);
    assert_true(o->rate == 30000.0 / 1001.0);
    assert_int_equal(o->size.width, 224);
    assert_int_equal(o->size.height, 112);
    assert_int_equal(o->mean.count, 3);
    assert_true(o->mean.value[1] == 2.5);
    assert_int_equal(o->names.count, 2);
    assert_string_equal(o->names.item[1], "b");
    assert_int_equal(o->corners.count, 2);
    assert_true(o->corners.at[1][0] == 3.5 && o->corners.at[1][1] == -4);
    assert_int_equal(o->areas.count, 0);
    assert_int_equal(o->format.pixel, MR_PIXEL_I420);
    assert_int_equal(o->format.height, 720);
    assert_false(o->part.given);
    assert_int_equal(o->part.y, 7);
    done(&f);
}

TEST(every_kind_is_read) {
    filling f;
    fill(&f, "{flag: false, whole: 64, number: 1e-3, text: 5, path: out/r.jsonl, uri: rtsp://h/1, choice: area,\n"
             "wait: 1.5s, memory: 4096, rate: 29.97, size: 299, mean: 4, names: one, headers: {a: b, c: d},\n"
             "corners: [[0, 1], [2, 3], [4, 5e-1]], areas: {door: [[1, 2]], \"a b\": [[3, 4], [5, 6]]},\n"
             "format: f32 3x224x224, part: {x: 3}}");
    const everything *o = &f.options;
    assert_int_equal(f.status, MR_OK);
    assert_false(o->flag);
    assert_int_equal(o->whole, 64);
    assert_true(o->number == 1e-3);
    assert_string_equal(o->text, "5");
    assert_string_equal(o->path, "dir/out/r.jsonl");
    assert_string_equal(o->uri, "rtsp://h/1");
    assert_int_equal(o->choice, 2);
    assert_int_equal(o->wait_ns, 1500000000);
    assert_int_equal(o->memory, 4096);
    assert_true(o->rate == 29.97);
    assert_int_equal(o->size.width, 299);
    assert_int_equal(o->size.height, 299);
    assert_int_equal(o->mean.count, 1);
    assert_true(o->mean.value[0] == 4);
    assert_int_equal(o->names.count, 1);
    assert_string_equal(o->names.item[0], "one");
    assert_int_equal(o->headers.count, 2);
    assert_string_equal(o->headers.key[1], "c");
    assert_string_equal(o->headers.value[1], "d");
    assert_int_equal(o->corners.count, 3);
    assert_true(o->corners.at[2][1] == 0.5);
    assert_int_equal(o->areas.count, 2);
    assert_string_equal(o->areas.name[1], "a b");
    assert_int_equal(o->areas.points[0].count, 1);
    assert_true(o->areas.points[1].at[1][0] == 5 && o->areas.points[1].at[1][1] == 6);
    assert_int_equal(o->format.payload, MR_PAYLOAD_TENSOR);
    assert_int_equal(o->format.rank, 3);
    assert_int_equal(o->format.dims[2], 224);
    assert_true(o->part.given);
    assert_int_equal(o->part.x, 3);
    assert_int_equal(o->part.y, 7);
    done(&f);
}

static const char *uri_of(filling *f, const char *uri) {
    char text[128];
    snprintf(text, sizeof text, "uri: \"%s\"", uri);
    fill(f, text);
    return f->options.uri;
}

TEST(paths_start_at_the_file_and_uris_do_not) {
    static const char *const cases[][2] = {
        {"a.mp4", "dir/a.mp4"},   {"/tmp/a.mp4", "/tmp/a.mp4"},      {"../a.mp4", "dir/../a.mp4"},
        {"-", "-"},               {"lavfi:testsrc", "lavfi:testsrc"}, {"http://h/a.mp4", "http://h/a.mp4"},
        {"12:30.mp4", "dir/12:30.mp4"}, {"file:///a", "/a"},          {"file:/a.mp4", "/a.mp4"},
        {"file://localhost/a", "/a"},   {"file:a.mp4", "dir/a.mp4"},  {"./file:a", "dir/./file:a"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        filling f;
        assert_string_equal(uri_of(&f, cases[i][0]), cases[i][1]);
        done(&f);
    }
}

TEST(wrong_types_say_what_was_found) {
    refuses("whole: five", "f:1:8: error: stages.x.whole: expected a whole number such as 5, found \"five\"\n");
    refuses("whole: 2.5", "f:1:8: error: stages.x.whole: expected a whole number such as 5, found \"2.5\"\n");
    refuses("whole:", "f:1:7: error: stages.x.whole: expected a whole number such as 5, found nothing\n"
                      "    hint: write a value, or remove the key\n");
    refuses("whole: [1]", "f:1:8: error: stages.x.whole: expected a whole number such as 5, found a list\n");
    refuses("text: {source}", "f:1:7: error: stages.x.text: expected a text, found a map\n"
                              "    hint: put it in quotes: \"{source}\"\n");
    refuses("path: {time}", "f:1:7: error: stages.x.path: expected a path such as results.jsonl, found a map\n"
                            "    hint: put it in quotes: \"{time}\"\n");
    refuses("number: nan", "f:1:9: error: stages.x.number: expected a number such as 0.875, found \"nan\"\n");
    refuses("flag: yes",
            "f:1:7: error: stages.x.flag: expected true or false, found \"yes\"\n    hint: write true\n");
    refuses("wait: 20", "f:1:7: error: stages.x.wait: expected a duration such as 20ms, found \"20\"\n"
                        "    hint: write the unit too, as in 20ms or 20s\n");
    refuses("wait: 7d", "f:1:7: error: stages.x.wait: expected a duration such as 20ms, found \"7d\"\n"
                        "    hint: write 168h\n");
    refuses("wait: 1.5 days", "f:1:7: error: stages.x.wait: expected a duration such as 20ms, found \"1.5 days\"\n"
                              "    hint: write 36h\n");
    refuses("wait: 5 Seconds", "f:1:7: error: stages.x.wait: expected a duration such as 20ms, found \"5 Seconds\"\n"
                               "    hint: write 5s\n");
    refuses("wait: 1h30m", "f:1:7: error: stages.x.wait: expected a duration such as 20ms, found \"1h30m\"\n"
                           "    hint: write 90min\n");
    refuses("wait: 2 fortnights", "f:1:7: error: stages.x.wait: expected a duration such as 20ms, found "
                                  "\"2 fortnights\"\n");
    refuses("wait: d", "f:1:7: error: stages.x.wait: expected a duration such as 20ms, found \"d\"\n");
    refuses("memory: 64 MEGS",
            "f:1:9: error: stages.x.memory: expected a number of bytes such as 64MiB, found \"64 MEGS\"\n");
    refuses("rate: 30/0", "f:1:7: error: stages.x.rate: expected a rate such as 30000/1001, found \"30/0\"\n");
    refuses("size: 224,224", "f:1:7: error: stages.x.size: expected a size (width x height) such as 224x112, "
                             "found \"224,224\"\n    hint: write 224x224, which is width x height\n");
    refuses("names: {a: b}", "f:1:8: error: stages.x.names: expected a text or a list of texts, found a map\n");
    refuses("headers: [a]",
            "f:1:10: error: stages.x.headers: expected a map of texts such as {a: b}, found a list\n");
    refuses("part: 5", "f:1:7: error: stages.x.part: expected a map of x, y, found \"5\"\n");
    refuses("format: I420 5",
            "f:1:9: error: stages.x.format: expected a format such as \"I420 1280x720\", found \"I420 5\"\n");
    refuses("path: ''", "f:1:7: error: stages.x.path: expected a path such as results.jsonl, found \"\"\n"
                        "    hint: it is empty: is a variable of the shell not set?\n");
}

TEST(ranges_are_told_with_their_unit) {
    refuses("whole: 0", "f:1:8: error: stages.x.whole: 0 is out of range; expected 1 to 64 frames\n");
    refuses("whole: 65", "f:1:8: error: stages.x.whole: 65 is out of range; expected 1 to 64 frames\n");
    refuses("number: -0.5", "f:1:9: error: stages.x.number: -0.5 is out of range; expected 0 to 1\n");
    refuses("wait: 61s", "f:1:7: error: stages.x.wait: 61s is out of range; expected 1ms to 1m\n");
    refuses("memory: 1000", "f:1:9: error: stages.x.memory: 1000 is out of range; expected at least 1KiB\n");
    refuses("size: 224x0", "f:1:7: error: stages.x.size: 224x0 is out of range; expected 1 to 8192 px\n");
    refuses("mean: [0, 256]", "f:1:11: error: stages.x.mean: 256 is out of range; expected 0 to 255\n");
    refuses("mean: [1, 2, 3, 4, 5]",
            "f:1:7: error: stages.x.mean: expected one to four numbers, found a list of 5\n");
    refuses("part: {x: 101}", "f:1:11: error: stages.x.part.x: 101 is out of range; expected 0 to 100 px\n");
}

TEST(all_errors_of_a_map_are_found) {
    refuses("{wohle: 5, choice: bilinaer, part: {y: 1, z: 2}}",
            "f:1:2: error: stages.x: unknown key \"wohle\"\n"
            "    hint: did you mean \"whole\"?\n"
            "f:1:20: error: stages.x.choice: expected one of nearest, bilinear, area, found \"bilinaer\"\n"
            "    hint: did you mean \"bilinear\"?\n"
            "f:1:43: error: stages.x.part: unknown key \"z\"\n    hint: its keys are x, y\n"
            "f:1:30: error: stages.x.part: \"x\" is missing\n"
            "    hint: add \"x\": a whole number such as 8\n");
}

TEST(options_are_told) {
    char text[MR_OPTION_TEXT];
    static const char *const told[][4] = {
        {"flag", "true | false", "", "true | false; default true"},
        {"whole", "whole number", "1 to 64 frames", "whole number, 1 to 64 frames; default 5"},
        {"choice", "nearest | bilinear | area", "", "nearest | bilinear | area; default bilinear"},
        {"wait", "duration", "1ms to 1m", "duration, 1ms to 1m; default 20ms"},
        {"memory", "bytes", "at least 1KiB", "bytes, at least 1KiB; default 64MiB"},
        {"text", "text", "", "text; optional"},
        {"size", "width x height", "1 to 8192 px", "width x height, 1 to 8192 px; default 224x112"},
    };
    for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
        const mr_option *option = mr_option_find(table, told[i][0]);
        assert_string_equal(mr_option_type_text(option, text, sizeof text), told[i][1]);
        assert_string_equal(mr_option_range_text(option, text, sizeof text), told[i][2]);
        assert_string_equal(mr_option_describe(option, text, sizeof text), told[i][3]);
    }
    assert_string_equal(mr_option_describe(&part_fields[0], text, sizeof text),
                        "whole number, 0 to 100 px; required");
    assert_null(mr_option_find(table, "nothing"));
    assert_null(mr_option_find(NULL, "nothing"));
}

TEST(units_are_understood) {
    static const struct {
        const char *text;
        int64_t value;
    } times[] =
        {{"0", 0}, {"1ns", 1}, {"500us", 500000}, {"1.5 s", 1500000000}, {"2m", 120000000000}, {"1h", 3600000000000}},
      sizes[] = {{"1", 1}, {"64MiB", 64 << 20}, {"1GB", 1000000000}, {"1.5 KiB", 1536}};
    int64_t value;
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        assert_true(mr_value_duration(times[i].text, &value));
        assert_int_equal(value, times[i].value);
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_true(mr_value_bytes(sizes[i].text, &value));
        assert_int_equal(value, sizes[i].value);
    }
    static const char *const wrong[] = {"", "5", "ms", "5 parsecs", "1e400s", "0x10ms", "1e300h", "inf"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(mr_value_duration(wrong[i], &value));
    assert_false(mr_value_int("99999999999999999999", &value));
    assert_false(mr_value_int("-", &value));
    assert_true(mr_value_int("-9223372036854775808", &value));
}

TEST(formats_are_understood) {
    static const char *const right[][2] = {
        {"RGB24 640x480", "picture RGB24 640x480"},
        {"u8 10", "tensor u8 10"},
        {"f16 1x2x3x4x5x6", "tensor f16 1x2x3x4x5x6"},
    };
    char text[MR_FORMAT_TEXT];
    mr_format format;
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        assert_true(mr_value_format(right[i][0], &format));
        assert_string_equal(mr_format_print(&format, text, sizeof text), right[i][1]);
    }
    static const char *const wrong[] = {"",      "I421 2x2",   "I420 2", "u8 1x2x3x4x5x6x7",
                                        "u8 x2", "I420 2x2x2", "f32 -1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(mr_value_format(wrong[i], &format));
}

/* What is not finite would spoil every number that it meets, far from the line that holds it. */
TEST(only_finite_numbers_are_numbers) {
    static const char *const wrong[] = {"nan",  ".nan",   ".NaN", "NAN",  "inf",    ".inf",
                                        "-inf", "-.Inf", "+.INF", "1e999", "-1e309", "infinity"};
    static const char *const rates[] = {"1e308/1e-300", "1/0", "0/0", "1/nan", "inf/1", "1e999fps"};
    int64_t whole;
    double number;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char unit[32];
        if (mr_value_double(wrong[i], &number) || mr_value_rate(wrong[i], &number))
            fail_msg("%s is taken for a number", wrong[i]);
        snprintf(unit, sizeof unit, "%ss", wrong[i]);
        assert_false(mr_value_duration(unit, &whole));
        snprintf(unit, sizeof unit, "%sGiB", wrong[i]);
        assert_false(mr_value_bytes(unit, &whole));
    }
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        if (mr_value_rate(rates[i], &number))
            fail_msg("%s is taken for a rate", rates[i]);
}

/* `millrace inspect` prints these tables and files are read with them: every stage type's table must be valid. */
static void check_table(const mr_option *option, const char *type, size_t bytes) {
    static const char *const taken[] = {"type", "input", "join", "device", "queue", "batch", "in_flight", "on_error"};
    for (; option && option->name; option++) {
        char where[128];
        snprintf(where, sizeof where, "%s.%s", type, option->name);
        bool may_have_words = option->kind == MR_OPTION_ENUM || option->kind == MR_OPTION_DURATION;
        if (!option->help || !*option->help || (option->kind == MR_OPTION_ENUM && !option->choices) ||
            (option->choices && !may_have_words) ||
            (option->kind == MR_OPTION_MAP) != (option->fields != NULL) || option->min > option->max ||
            option->offset >= bytes || mr_option_find(option + 1,
                                                      option->name) || (option->required && option->fallback))
            fail_msg("%s is not well described", where);
        for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
            if (strcmp(option->name, taken[i]) == 0)
                fail_msg("%s has the name of what every stage has", where);
        if (option->kind == MR_OPTION_MAP)
            check_table(option->fields, where, bytes);
    }
}

TEST(tables_of_all_types_are_sound) {
    for (const mr_stage_type *const *type = mr_stage_types(); *type; type++) {
        ENDED_BY(mr_arena_fini) mr_arena arena = {0};
        ENDED_BY(mr_diagnostics_fini) mr_diagnostics diagnostics = {0};
        const mr_option_reader reader = {
            .arena = &arena, .diagnostics = &diagnostics, .directory = "", .where = (*type)->name};
        FREED void *options = malloc((*type)->options_bytes + 1);
        check_table((*type)->options, (*type)->name, (*type)->options_bytes);
        int status = mr_options_default(&reader, (*type)->options, options, (*type)->options_bytes);
        mr_diagnostics_print(&diagnostics, stderr);
        assert_int_equal(status, MR_OK);
    }
}

static const char *nearest_of(const char *wanted, const char *const *names) {
    mr_nearest nearest = {.wanted = wanted};
    for (; *names; names++)
        mr_nearest_offer(&nearest, *names);
    return nearest.best;
}

TEST(nearest_names_are_found) {
    static const char *const names[] = {"decode", "preprocess", "features", "csv", "jsonl", NULL};
    assert_string_equal(nearest_of("deocde", names), "decode");
    assert_string_equal(nearest_of("Preproces", names), "preprocess");
    assert_string_equal(nearest_of("cvs", names), "csv");
    assert_string_equal(nearest_of("jsnl", names), "jsonl");
    /* If two are equally near, the one with the longer common beginning wins, wherever it is listed. */
    static const char *const cards[] = {"a10", "a100", "h100", "h200", NULL};
    static const char *const turned[] = {"h200", "h100", "a100", "a10", NULL};
    assert_string_equal(nearest_of("h10", cards), "h100");
    assert_string_equal(nearest_of("H10", turned), "h100");
    assert_string_equal(nearest_of("b10", cards), "a10");
    assert_null(nearest_of("overlay", names));
    assert_null(nearest_of("x", names));
    assert_null(nearest_of("", names));
}

static int plain_distance(const char *a, const char *b) {
    int m = (int)strlen(a), n = (int)strlen(b), d[16][16];
    for (int i = 0; i <= m; i++)
        for (int j = 0; j <= n; j++) {
            d[i][j] = i && j ? d[i - 1][j - 1] + (a[i - 1] != b[j - 1]) : i + j;
            if (i && j && d[i - 1][j] + 1 < d[i][j])
                d[i][j] = d[i - 1][j] + 1;
            if (i && j && d[i][j - 1] + 1 < d[i][j])
                d[i][j] = d[i][j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && d[i - 2][j - 2] + 1 < d[i][j])
                d[i][j] = d[i - 2][j - 2] + 1;
        }
    return d[m][n];
}

/* What is passed over for speed is never nearer than what is found. */
TEST(the_nearest_of_many_names_is_found) {
    srand(17);
    for (int round = 0; round < 2000; round++) {
        char name[12][16];
        for (int k = 0; k < 12; k++) {
            int length = 4 + rand() % 8;
            for (int i = 0; i < length; i++)
                name[k][i] = "abcd-_12"[rand() % (k % 2 ? 3 : 8)];
            name[k][length] = 0;
        }
        mr_nearest nearest = {.wanted = name[0]};
        int limit = (int)strlen(name[0]) / 3, best = limit < 1 ? 2 : limit + 1;
        for (int k = 1; k < 12; k++) {
            mr_nearest_offer(&nearest, name[k]);
            int d = plain_distance(name[0], name[k]);
            best = d < best ? d : best;
        }
        assert_int_equal(nearest.best != NULL, best <= limit);
        if (nearest.best)
            assert_int_equal(plain_distance(name[0], nearest.best), best);
    }
}

RUN_TESTS(NULL, NULL)
