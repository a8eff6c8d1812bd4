/* Structs from programs compiled with older or newer headers (millrace/version.h). */
#include <string.h>
/* cmocka needs these first. */
#include "millrace/millrace.h"
#include "tests/support/suite.h"

static const char pipeline_text[] = "version: 1\n"
                                    "pipeline: sized\n"
                                    "sources: {camera: {type: push, format: u8 4}}\n"
                                    "stages: {answers: {type: callback, input: camera}}\n";

/* As a program with newer headers has it: fields that this library does not know come last. */
typedef struct later_params {
    mr_pipeline_params params;
    const char *unknown;
} later_params;

typedef struct later_push {
    mr_push push;
    uint64_t unknown;
} later_push;

static later_params later(void) {
    later_params later = {.params = {.types = mr_stage_types(), .path = "sized.yaml", .text = pipeline_text,
                                     .workers = 1}};
    return later;
}

static void fails(const mr_pipeline_params *params, size_t bytes, const char *message) {
    ENDED_BY(mr_diagnostics_fini) mr_diagnostics wrong = {0};
    mr_pipeline *pipeline = (mr_pipeline *)&wrong;
    assert_int_equal(mr_pipeline_open_sized(&pipeline, params, bytes, &wrong), MR_ERROR_USAGE);
    assert_null(pipeline);
    assert_int_equal(wrong.count, 1);
    assert_non_null(strstr(wrong.item[0].message, message));
}

TEST(fields_of_later_headers_are_not_read) {
    later_params params = later();
    mr_diagnostics wrong = {0};
    ENDED_BY(mr_pipeline_destroy) mr_pipeline *pipeline = NULL;
    /* An older program's struct ended before the seed; whatever follows it must not be read. */
    params.params.trace = params.params.resume = (const char *)(uintptr_t)1;
    params.params.seed = UINT64_MAX;
    assert_int_equal(mr_pipeline_open_sized(&pipeline, &params.params, offsetof(mr_pipeline_params, trace), &wrong),
                     MR_OK);
    assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
    assert_int_equal(mr_pipeline_end(pipeline, "camera"), MR_OK);
    assert_int_equal(mr_pipeline_wait(pipeline, -1), MR_OK);
}

TEST(unknown_fields_are_refused_unless_zero) {
    later_params params = later();
    mr_diagnostics wrong = {0};
    mr_pipeline *pipeline = NULL;
    assert_int_equal(mr_pipeline_open_sized(&pipeline, &params.params, sizeof params, &wrong), MR_OK);
    mr_pipeline_destroy(&pipeline);
    params.unknown = "set";
    fails(&params.params, sizeof params, "the program was compiled with newer headers");
}

TEST(a_size_that_never_was_is_refused) {
    later_params params = later();
    fails(&params.params, 0, "pass sizeof(mr_pipeline_params)");
    fails(&params.params, offsetof(mr_pipeline_params, path), "at least");
}

static void count(void *context, const char *source, const mr_frame *frame) {
    ++*(int *)context;
}

TEST(pushes_are_sized_too) {
    later_params params = later();
    mr_diagnostics wrong = {0};
    ENDED_BY(mr_pipeline_destroy) mr_pipeline *pipeline = NULL;
    int frames = 0;
    assert_int_equal(mr_pipeline_open(&pipeline, &params.params, &wrong), MR_OK);
    assert_int_equal(mr_pipeline_subscribe(pipeline, "answers", count, &frames), MR_OK);
    assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
    const uint8_t data[4] = {1, 2, 3, 4};
    later_push push = {.push = {.format = mr_tensor_format(MR_DTYPE_U8, MR_LAYOUT_FLAT, 1, (const int64_t[]){4}),
                                .data = {data}}};
    assert_int_equal(mr_pipeline_push(pipeline, "camera", &push.push, -1), MR_OK);
    assert_int_equal(mr_pipeline_push_sized(pipeline, "camera", &push.push, sizeof push, -1), MR_OK);
    push.unknown = 1;
    assert_int_equal(mr_pipeline_push_sized(pipeline, "camera", &push.push, sizeof push, -1), MR_ERROR_USAGE);
    assert_non_null(strstr(mr_message(), "mr_push has"));
    assert_int_equal(mr_pipeline_push_sized(pipeline, "camera", &push.push, sizeof(mr_format), -1), MR_ERROR_USAGE);
    assert_int_equal(mr_pipeline_end(pipeline, "camera"), MR_OK);
    assert_int_equal(mr_pipeline_wait(pipeline, -1), MR_OK);
    assert_int_equal(frames, 2);
}

RUN_TESTS(NULL, NULL)
