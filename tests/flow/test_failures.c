/* Every device call in a small pipeline fails in turn, alone and as the first on a lost device. No run may hang, crash
 * or leak; the ledger must balance, delivered frames must be right, and a refused start must name the stage. */
#include <stdio.h>
#include <string.h>

#include "engine/device/device.h"
#include "engine/device/open/open.h"
#include "engine/device/sim/sim.h"
#include "engine/flow/graph.h"
#include "engine/pipeline/pipeline.h"
#include "millrace/log.h"
#include "tests/support/flow_run.h"
#include "tests/support/quiet.h"
#include "tests/support/suite.h"
#include "tests/support/worker_counts.h"

enum { FRAMES = 12, LEAST_CALLS = 60 };

/* upload -> sim:0 -> peer -> sim:1 -> download; `parameters` apply to one device. */
static mr_pipeline *open_chain(int device, const char *parameters, uint64_t seed) {
    char text[1024];
    snprintf(text, sizeof text,
             FLOW "sources: {a: {type: count, frames: %d}}\n"
                  "stages:\n"
                  "  make: {type: scale, input: a}\n"
                  "  one: {type: scale, input: make, device: \"sim:0%s\"}\n"
                  "  two: {type: block, input: one, batch: 2, device: \"sim:1%s\"}\n"
                  "  out: {type: collect, input: two}\n",
             FRAMES, device == 0 ? parameters : "", device == 1 ? parameters : "");
    return flow_open(text, seed, next_worker_count());
}

static int64_t count_calls(int device, uint64_t seed) {
    mr_pipeline *pipeline = open_chain(device, "", seed);
    mr_summary *sums = flow_run(pipeline);
    assert_int_equal(collection_count, FRAMES);
    int64_t calls = mr_sim_calls(pipeline->graph->run.devices[device + 1]);
    flow_close(&pipeline, &sums);
    return calls;
}

static void expect_outcome(mr_pipeline *pipeline) {
    ENDED_BY(mr_summary_destroy) mr_summary *sums = flow_end(pipeline);
    flow_expect(sums, FRAMES, 2);
    for (size_t i = 0; i < sums->line_count; i++)
        assert_string_not_equal(sums->lines[i].stage, "out");
}

/* True if it started. */
static bool run_failing(int device, const char *parameter, int64_t call, uint64_t seed) {
    char parameters[64];
    snprintf(parameters, sizeof parameters, "?%s=%lld", parameter, (long long)call);
    mr_pipeline *pipeline = open_chain(device, parameters, seed);
    bool started = mr_pipeline_start(pipeline) == MR_OK;
    if (started) {
        expect_outcome(pipeline);
    } else {
        assert_non_null(strstr(mr_message(), "p.yaml:"));
        assert_non_null(strstr(mr_message(), device ? "sim:1: " : "sim:0: "));
        assert_int_equal(collection_count, 0);
    }
    mr_pipeline_destroy(&pipeline);
    return started;
}

static void fail_each(const char *parameter, uint64_t seed, int64_t step) {
    for (int device = 0; device < 2; device++) {
        int64_t calls = count_calls(device, seed), started = 0;
        assert_true(calls >= LEAST_CALLS);
        for (int64_t call = 1; call <= calls; call += step)
            started += run_failing(device, parameter, call, seed);
        assert_in_range(started, 1, calls - 1);
    }
    assert_int_equal(mr_sim_misuses(), 0);
}

TEST(each_call_fails_alone_or_as_the_first) {
    static const char *const ways[] = {"fail_call", "lose_call"};
    for (int way = 0; way < 2; way++)
        for (uint64_t seed = 0; seed <= FLOW_SEEDS(3); seed++)
            fail_each(ways[way], seed, seed ? 1 : 7);
}

TEST(the_device_is_lost_at_each_piece_of_work) {
    for (int device = 0; device < 2; device++)
        for (int64_t work = 1; work <= 30; work++)
            assert_true(run_failing(device, "lose_after", work, (uint64_t)work));
    assert_int_equal(mr_sim_misuses(), 0);
}

/* ---- results that work is to fill in when the call fails ------------------------------------------------------- */

typedef struct naming {
    mr_result *result;
    int32_t index;
} naming;

static int name_it(void *arguments) {
    const naming *work = arguments;
    work->result->count = 1;
    work->result->classes[0] = (mr_class){.index = work->index};
    return MR_OK;
}

enum { WRONG = 1000 };

/* Every other call submits work that writes a result, and then fails. */
static int stumble(mr_stage *self, mr_io *io) {
    const mr_frame *from = mr_io_input(io);
    mr_frame *made = NULL;
    mr_result *result = NULL;
    int32_t index = (int32_t)from->identity.seq;
    int status = mr_io_derive(io, from, &made);
    if (!status)
        status = mr_io_add_result(io, made, mr_kind_classes(), 1, &result);
    if (!status && index % 2 == 0) {
        status = mr_stream_submit(mr_io_stream(io), name_it, &(naming){result, WRONG}, sizeof(naming));
        status = status ? status : mr_fail(MR_ERROR_DATA, "stumbled");
    } else if (!status) {
        name_it(&(naming){result, index});
    }
    return mr_io_finish(io, 0, made, status);
}

static size_t seen, seen_wrong;

static int look(mr_stage *self, mr_io *io) {
    const mr_frame *frame = mr_io_input(io);
    const mr_result *result = mr_frame_result(frame, mr_kind_classes(), NULL);
    seen++;
    seen_wrong += !result || result->count != 1 || result->classes[0].index != (int32_t)frame->identity.seq;
    return MR_DONE;
}

static const mr_port one_port[] = {{.name = "port", .help = "anything"}, {0}};
static const mr_stage_type stumble_type = {.name = "stumble", .summary = "for tests", .inputs = one_port,
                                           .outputs = one_port, .streams = true, .process = stumble};
static const mr_stage_type look_type = {.name = "check", .summary = "for tests", .inputs = one_port, .process = look};

/* ---- frames that work is to fill in when the call fails -------------------------------------------------------- */

static int falter_negotiate(mr_negotiation *negotiation) {
    const mr_format number = mr_tensor_format(MR_DTYPE_I64, MR_LAYOUT_FLAT, 1, (int64_t[]){1});
    negotiation->outputs[0].set = mr_format_set_of(&number);
    return MR_OK;
}

typedef struct numbering {
    int64_t *to, number;
} numbering;

static int number_it(void *arguments) {
    const numbering *work = arguments;
    *work->to = work->number;
    return MR_OK;
}

/* Like stumble, but submits only the first of two pieces of work. */
static int falter(mr_stage *self, mr_stream *stream, const mr_frame *from, mr_frame *made) {
    int64_t seq = (int64_t)from->identity.seq;
    const numbering work = {(int64_t *)(void *)made->plane[0].data, seq};
    int status = mr_stream_submit(stream, number_it, &work, sizeof work);
    return !status && seq % 2 == 0 ? mr_fail(MR_ERROR_DATA, "faltered") : status;
}

static int look_at_number(mr_stage *self, mr_io *io) {
    const mr_frame *frame = mr_io_input(io);
    seen++;
    seen_wrong += *(const int64_t *)(const void *)frame->plane[0].data != (int64_t)frame->identity.seq;
    return MR_DONE;
}

static const mr_stage_type falter_type = {.name = "falter", .summary = "for tests", .inputs = one_port,
                                          .outputs = one_port, .negotiate = falter_negotiate, .map = falter};
static const mr_stage_type read_type = {.name = "read", .summary = "for tests", .inputs = one_port,
                                        .process = look_at_number};

/* ---- memory of a device that a stage on the host is given -------------------------------------------------------- */

static mr_device *strange;
static void *strange_memory;

static void keep_memory(void *context) {
}

static int plant(mr_stage *self, mr_io *io) {
    mr_frame *made = NULL;
    int status = mr_io_derive(io, mr_io_input(io), &made);
    if (status)
        return status;
    mr_buffer *buffer = mr_buffer_wrap(strange_memory, 64, keep_memory, NULL);
    assert_non_null(buffer);
    buffer->device = strange;
    made->plane[0] = (mr_plane){.buffer = buffer, .data = strange_memory, .bytes = 64};
    return mr_io_emit(io, 0, made);
}

static const mr_stage_type plant_type = {.name = "plant", .summary = "for tests", .inputs = one_port,
                                         .outputs = one_port, .process = plant};

/* ---- a source of which no frame is any good ---------------------------------------------------------------------- */

static int spoil(mr_stage *self, mr_io *io) {
    const mr_frame *frame = mr_io_input(io);
    mr_io_fail_source(io, frame->identity.source, mr_fail(MR_ERROR_DATA, "the frame is spoiled"));
    mr_io_drop(io, frame, "spoiled");
    return MR_DONE;
}

static const mr_stage_type spoil_type = {.name = "spoil", .summary = "for tests", .inputs = one_port,
                                         .outputs = one_port, .process = spoil};

/* ---- running them ------------------------------------------------------------------------------------------------ */

/* Runs a pipeline with a source of 40 frames and returns the status; sets seen and seen_wrong. */
static int run_stages(const char *stages) {
    static const mr_stage_type *const types[] = {&stumble_type, &look_type, &falter_type, &read_type, &plant_type,
                                                 &spoil_type, NULL};
    char text[512];
    snprintf(text, sizeof text, FLOW "sources: {a: {type: count, frames: 40}}\nstages:\n%s",
             stages);
    seen = seen_wrong = 0;
    mr_pipeline *pipeline = flow_open_with(types, text, 1, 1);
    assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
    const int status = mr_pipeline_wait(pipeline, -1);
    mr_pipeline_destroy(&pipeline);
    return status;
}

static void count_spoiled(void *lines, mr_log_level level, const char *text) {
    *(int *)lines += level == MR_LOG_ERROR && strstr(text, "the frame is spoiled");
}

/* A camera could send such frames for days: there is one line, and a count for the others. */
TEST(a_source_that_fails_at_each_frame_has_two_lines) {
    int lines = 0;
    mr_log_to(count_spoiled, &lines);
    assert_int_equal(run_stages("  spoil: {input: a}\n  check: {input: spoil}\n"), MR_ERROR_DATA);
    be_quiet_but_for_misuse(NULL);
    assert_int_equal(seen, 0);
    assert_int_equal(lines, 2);
}

/* Every other frame is dropped; what arrives with the others is theirs. */
static void expect_the_others(const char *stages) {
    assert_int_equal(run_stages(stages), MR_OK);
    assert_int_equal(seen, 20);
    assert_int_equal(seen_wrong, 0);
    assert_int_equal(mr_sim_misuses(), 0);
}

TEST(late_work_of_a_failed_call_writes_into_nothing_of_others) {
    expect_the_others("  stumble: {input: a, device: \"sim:0?call=1ms\", in_flight: 8}\n"
                      "  check: {input: stumble}\n");
    expect_the_others("  falter: {input: a, device: \"sim:0?call=1ms\", in_flight: 8}\n"
                      "  read: {input: falter}\n");
}

/* Finding no misuse above, and in other suites, proves something only if misuse is found at all. */
TEST(what_the_host_must_not_read_is_caught) {
    assert_int_equal(mr_device_open(&strange, "sim:1", 1, true), MR_OK);
    assert_int_equal(mr_device_allocate(strange, MR_MEMORY_DEVICE, 64, &strange_memory), MR_OK);
    assert_int_equal(run_stages("  scale: {input: a, device: \"sim:0\"}\n"
                                "  plant: {input: scale}\n"
                                "  pass: {input: plant}\n"
                                "  check: {input: pass}\n"), MR_OK);
    assert_int_equal(seen, 0);
    assert_int_equal(mr_sim_misuses(), 40);
    mr_device_free(strange, MR_MEMORY_DEVICE, strange_memory);
    mr_device_destroy(&strange);
}

RUN_TESTS(be_quiet_but_for_misuse, NULL)
