#include "tests/support/models.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static char folder[256];
static bool are_made;
int models_workers;

/* The same script made them on another machine, which left that machine's library path. */
static bool take_made(void) {
    const char *given = getenv("MILLRACE_TEST_MODELS");
    if (!given || !*given)
        return false;
    snprintf(folder, sizeof folder, "%s", given);
    return true;
}

void models_path(const char *name, char *path, size_t bytes) {
    snprintf(path, bytes, "%s/%s", folder, name);
}

void need_models(void) {
    if (!are_made)
        skip();
}

bool models_make(const char *name) {
    if (take_made())
        return are_made = true;
    const char *python = getenv("MILLRACE_PYTHON");
    char command[2048], library[1024] = "";
    snprintf(folder, sizeof folder, "%s", name);
    snprintf(command, sizeof command, "'%s' '%s/tests/reference/models.py' '%s'", python ? python : "/nonexistent",
             SOURCE_DIR, folder);
    int status = python ? system(command) : -1;
    enum { SKIPPED = 77, NO_SUCH_COMMAND = 127 };
    if (!python || WEXITSTATUS(status) == SKIPPED || WEXITSTATUS(status) == NO_SUCH_COMMAND) {
        fprintf(stderr, "skipped: MILLRACE_PYTHON names no Python with onnx and onnxruntime\n");
        return false;
    }
    if (status)
        fail_msg("tests/reference/models.py failed");
    snprintf(command, sizeof command, "%s/library", folder);
    FILE *file = fopen(command, "r");
    if (!file || !fgets(library, sizeof library, file))
        return false;
    fclose(file);
    setenv("MILLRACE_ONNXRUNTIME", library, 0);
    return are_made = true;
}

void models_read(const char *name, float *values, size_t count) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s.raw", folder, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(values, sizeof *values, count, file), count);
    assert_int_equal(fgetc(file), EOF);
    fclose(file);
}

static void append(arrived *seen, const mr_format *format, const uint8_t *data) {
    assert_int_equal(format->dtype, MR_DTYPE_F32);
    size_t count = mr_tensor_count(format);
    assert_true(seen->count + count <= sizeof seen->values / sizeof seen->values[0]);
    memcpy(seen->values + seen->count, data, count * sizeof(float));
    seen->count += count;
}

void look_at_payload(arrived *seen, const mr_frame *frame) {
    append(seen, &frame->format, frame->plane[0].data);
}

void look_at_tensor(arrived *seen, const mr_frame *frame) {
    const mr_result *result = mr_frame_result(frame, mr_kind_tensor(), NULL);
    assert_non_null(result);
    append(seen, &result->format, result->data);
}

void look_at_classes(arrived *seen, const mr_frame *frame) {
    const mr_result *result = mr_frame_result(frame, mr_kind_classes(), NULL);
    assert_non_null(result);
    assert_true(seen->frames < MODELS_FRAMES && result->count <= 16);
    seen->class_count[seen->frames] = result->count;
    memcpy(seen->classes[seen->frames], result->classes, result->count * sizeof(mr_class));
}

static void arrive(void *context, const char *source, const mr_frame *frame) {
    arrived *seen = context;
    assert_string_equal(source, "in");
    if (!seen->gaps)
        assert_int_equal(frame->identity.seq, seen->frames);
    seen->look(seen, frame);
    seen->frames++;
}

static int open_pipeline(mr_pipeline **pipeline, const char *format, const char *stages, mr_diagnostics *wrong) {
    char text[4096];
    int used = snprintf(text, sizeof text,
                        "version: 1\npipeline: test\nsources:\n  in: {type: push, format: %s}\nstages:\n", format);
    for (const char *at = stages; *at; at++) {
        if (at[0] == '@')
            used += snprintf(text + used, sizeof text - (size_t)used, "%s", folder);
        else
            text[used++] = *at;
        text[used] = 0;
    }
    mr_pipeline_params params = {.types = mr_stage_types(), .path = "models-test.yaml", .text = text,
                                 .workers = models_workers};
    return mr_pipeline_open(pipeline, &params, wrong);
}

int models_refused(const char *format, const char *stages, char *message, size_t bytes) {
    mr_pipeline *pipeline = NULL;
    mr_diagnostics wrong = {0};
    int status = open_pipeline(&pipeline, format, stages, &wrong);
    size_t used = 0;
    message[0] = 0;
    for (size_t i = 0; i < wrong.count && used < bytes; i++)
        used += (size_t)snprintf(message + used, bytes - used, "%d:%d: %s\n", wrong.item[i].place.line,
                                 wrong.item[i].place.column, wrong.item[i].message);
    mr_diagnostics_fini(&wrong);
    mr_pipeline_destroy(&pipeline);
    return status;
}

static int push_all(mr_pipeline *pipeline, mr_format format, const float *frames) {
    int status = MR_OK;
    for (size_t i = 0; i < MODELS_FRAMES && !status; i++) {
        mr_push push = {.format = format, .data = {frames + i * mr_tensor_count(&format)}, .pts_ns = (int64_t)i};
        status = mr_pipeline_push(pipeline, "in", &push, -1);
    }
    mr_pipeline_end(pipeline, "in");
    return status;
}

/* "f32 3x8x6" -> a format. */
static mr_format parse_format(const char *text) {
    int64_t dims[MR_MAX_RANK] = {0};
    int32_t rank = 0;
    for (char *at = strchr(text, ' '); at && *at; rank++)
        dims[rank] = strtoll(at + 1, &at, 10);
    return mr_tensor_format(MR_DTYPE_F32, MR_LAYOUT_ANY, rank, dims);
}

int models_run(const char *format, const float *frames, const char *stages, arrived *seen) {
    mr_pipeline *pipeline = NULL;
    mr_diagnostics wrong = {0};
    int status = open_pipeline(&pipeline, format, stages, &wrong);
    mr_diagnostics_print(&wrong, stderr);
    mr_diagnostics_fini(&wrong);
    if (!status)
        status = mr_pipeline_subscribe(pipeline, "sink", arrive, seen);
    if (!status)
        status = mr_pipeline_start(pipeline);
    if (!status)
        status = push_all(pipeline, parse_format(format), frames);
    if (!status)
        status = mr_pipeline_wait(pipeline, -1);
    mr_summary *summary = NULL;
    if (pipeline && mr_pipeline_summarize(pipeline, &summary) == MR_OK) {
        assert_true(summary->balanced);
        mr_summary_destroy(&summary);
    }
    mr_pipeline_destroy(&pipeline);
    return status;
}

void models_expect_run(const char *format, const float *frames, const char *stages, arrived *seen) {
    if (models_run(format, frames, stages, seen))
        fail_msg("%s: %s", stages, mr_message());
    assert_int_equal(seen->frames, MODELS_FRAMES);
}

void models_expect_refused(int status, const char *format, const char *options, const char *const *words) {
    char stages[1024], message[4096];
    snprintf(stages, sizeof stages, "  s: {input: in, %s}\n  sink: {type: callback, input: s}\n", options);
    const int got = models_refused(format, stages, message, sizeof message);
    if (got == MR_OK || (status != MR_OK && got != status))
        fail_msg("%s: status %d, not %d: %s", options, got, status, message);
    for (; *words; words++)
        expect_words(message, *words);
}
