/* A program around the library may have set a locale whose decimal point is a comma, or another rounding. Files are
 * read and written as ever, and the program's settings stay. */
#include <fenv.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/thread.h"
#include "millrace/describe.h"
#include "tests/support/opened.h"
#include "tests/support/suite.h"
#include "tests/support/temporary.h"

enum { FRAMES = 5, WIDTH = 32, HEIGHT = 24 };

/* Makes a locale, if localedef can: that of Germany takes seconds, for its order of letters. */
static int prepare(void **state) {
    static const char numbers[] = "LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \"\"\ngrouping -1\nEND LC_NUMERIC\n";
    char path[512], command[2048];
    int status = make_temporary_folder(state);
    snprintf(path, sizeof path, "%s/comma", temporary_folder);
    write_bytes(path, numbers, sizeof numbers - 1);
    snprintf(command, sizeof command, "localedef -c -i %s -f UTF-8 %s.UTF-8 >/dev/null 2>&1", path, path);
    setenv("LOCPATH", temporary_folder, 1);
    return status || system(command) == -1;
}

/* What the program sets; returns false without the locale. */
static bool set_comma(void) {
    char printed[16];
    if (!setlocale(LC_NUMERIC, "comma.UTF-8"))
        return false;
    snprintf(printed, sizeof printed, "%.1f", 0.5);
    assert_string_equal(printed, "0,5");
    assert_int_equal(fesetround(FE_UPWARD), 0);
    return true;
}

static void expect_comma_and_reset(void) {
    char printed[16];
    snprintf(printed, sizeof printed, "%.1f", 0.5);
    const int rounding = fegetround();
    fesetround(FE_TONEAREST);
    setlocale(LC_ALL, "C");
    assert_string_equal(printed, "0,5");
    assert_int_equal(rounding, FE_UPWARD);
}

static bool plain(void) {
    char printed[16];
    snprintf(printed, sizeof printed, "%.1f", 0.5);
    return strcmp(printed, "0.5") == 0 && strtod("0.25", NULL) == 0.25 && fegetround() == FE_TONEAREST;
}

static void *ask(void *answer) {
    *(bool *)answer = plain();
    return NULL;
}

TEST(threads_and_blocks_have_plain_numbers) {
    pthread_t thread;
    bool in_thread = false, in_block = false;
    if (!set_comma())
        skip();
    const int error = mr_thread_create(&thread, ask, &in_thread);
    if (!error)
        pthread_join(thread, NULL);
    {
        MR_PLAIN_NUMBERS;
        in_block = plain();
    }
    expect_comma_and_reset();
    assert_int_equal(error, 0);
    assert_true(in_thread && in_block);
}

static void check_plain(void *context, const char *source, const mr_frame *frame) {
    *(int *)context += plain();
}

/* Runs a pipeline with numbers in its text, and returns the records that it wrote. */
static char *run_pipeline(const char *name, int *plain_calls) {
    static uint8_t pixels[HEIGHT][WIDTH];
    char path[512], text[1024];
    mr_summary *summary = NULL;
    snprintf(path, sizeof path, "%s/%s.jsonl", temporary_folder, name);
    snprintf(text, sizeof text, "version: 1\npipeline: numbers\n"
             "sources: {camera: {type: push, format: GRAY8 %dx%d}}\nstages:\n"
             "  sharpness: {input: camera}\n"
             "  told: {type: callback, input: sharpness}\n"
             "  out: {type: jsonl, input: sharpness, path: %s, tensors: true}\n", WIDTH, HEIGHT, path);
    mr_pipeline *pipeline = opened(&(mr_pipeline_params){.types = mr_stage_types(), .path = "numbers.yaml",
                                                         .text = text});
    assert_int_equal(mr_pipeline_subscribe(pipeline, "told", check_plain, plain_calls), MR_OK);
    assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
    for (int n = 0; n < FRAMES; n++) {
        const mr_push push = {
            .format = {.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_GRAY8, .width = WIDTH, .height = HEIGHT},
            .data = {pixels}, .stride = {WIDTH}, .pts_ns = n * INT64_C(33333333)};
        memset(pixels, n * 47, sizeof pixels);
        pixels[n][n] = 9;
        assert_int_equal(mr_pipeline_push(pipeline, "camera", &push, -1), MR_OK);
    }
    assert_int_equal(mr_pipeline_end(pipeline, "camera"), MR_OK);
    assert_int_equal(ended(pipeline), MR_OK);
    summary = summed(pipeline);
    mr_summary_destroy(&summary);
    mr_pipeline_destroy(&pipeline);
    return whole_file(path);
}

static char *print_schema(void) {
    char path[512];
    snprintf(path, sizeof path, "%s/schema.json", temporary_folder);
    FILE *stream = fopen(path, "w");
    assert_non_null(stream);
    assert_int_equal(mr_schema_print(mr_stage_types(), stream), MR_OK);
    fclose(stream);
    return whole_file(path);
}

TEST(records_and_schema_are_the_same_in_any_locale) {
    int plain_calls = 0;
    if (!set_comma())
        skip();
    expect_comma_and_reset();
    FREED char *records = run_pipeline("plain", &plain_calls);
    FREED char *schema = print_schema();
    assert_true(set_comma());
    FREED char *records_then = run_pipeline("comma", &plain_calls);
    FREED char *schema_then = print_schema();
    expect_comma_and_reset();
    assert_string_equal(records, records_then);
    assert_string_equal(schema, schema_then);
    assert_int_equal(plain_calls, 2 * FRAMES);
}

static int nothing(mr_stage *stage, mr_io *io) {
    return MR_DONE;
}

/* Options of a program's or plugin's stage have defaults as text. */
TEST(stage_types_are_the_same_in_any_locale) {
    static const mr_option options[] = {
        {.name = "below", .kind = MR_OPTION_DOUBLE, .fallback = "0.25", .help = "bound"}, {0}};
    static const mr_port inputs[] = {{.name = "in"}, {0}};
    const mr_stage_type type = {.name = "dark", .summary = "finds dark pictures", .inputs = inputs, .options = options,
                                .options_bytes = sizeof(double), .process = nothing};
    if (!set_comma())
        skip();
    const int status = mr_stage_type_check(&type);
    expect_comma_and_reset();
    assert_int_equal(status, MR_OK);
}

RUN_TESTS(prepare, remove_temporary_folder)
