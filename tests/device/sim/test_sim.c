/* What only the simulated accelerator has: engines with rates, limits, failures on demand, and misuse that is caught.
 */
#include <stdio.h>
#include <string.h>

#include "engine/device/device.h"
#include "engine/device/open/open.h"
#include "engine/device/sim/sim.h"
#include "millrace/status.h"
#include "tests/support/quiet.h"
#include "tests/support/suite.h"

enum { MEGABYTE = 1000000, MOST_NOTES = 64, MOST_TAKEN = 8 };

static const mr_stage resize = {.id = "resize"};

typedef struct fixture {
    mr_device *device;
    mr_stream *up, *work, *down;
    mr_work_note note[MOST_NOTES];
    size_t notes;
    struct {
        mr_memory memory;
        void *data;
    } taken[MOST_TAKEN];
} fixture;

static void keep_note(void *context, const mr_device *device, const mr_work_note *note) {
    fixture *f = context;
    assert_ptr_equal(device, f->device);
    if (f->notes < MOST_NOTES)
        f->note[f->notes++] = *note;
}

static void begin(fixture *f, const char *name) {
    *f = (fixture){0};
    assert_int_equal(mr_device_open(&f->device, name, 5, true), MR_OK);
    f->device->trace = keep_note;
    f->device->trace_context = f;
    assert_int_equal(mr_stream_create(f->device, &f->up), MR_OK);
    assert_int_equal(mr_stream_create(f->device, &f->work), MR_OK);
    assert_int_equal(mr_stream_create(f->device, &f->down), MR_OK);
    mr_stream *streams[] = {f->up, f->work, f->down};
    for (int i = 0; i < 3; i++) {
        streams[i]->stage = &resize;
        streams[i]->frame = (mr_identity){.source = 1, .seq = 7};
    }
}

/* The fixture frees what is not given back. */
static void *take(fixture *f, mr_memory memory, size_t bytes) {
    size_t i = 0;
    while (f->taken[i].data)
        assert_true(++i < MOST_TAKEN);
    assert_int_equal(mr_device_allocate(f->device, memory, bytes, &f->taken[i].data), MR_OK);
    f->taken[i].memory = memory;
    return f->taken[i].data;
}

/* NULL: all that is left. */
static void give(fixture *f, const void *data) {
    for (size_t i = 0; i < MOST_TAKEN; i++)
        if (f->taken[i].data && (!data || f->taken[i].data == data)) {
            mr_device_free(f->device, f->taken[i].memory, f->taken[i].data);
            f->taken[i].data = NULL;
        }
}

static void end(fixture *f) {
    give(f, NULL);
    mr_stream_destroy(&f->up);
    mr_stream_destroy(&f->work);
    mr_stream_destroy(&f->down);
    mr_device_destroy(&f->device);
}

/* A test with a device that has this name, `f`. */
#define SIM_TEST(name, device) TEST_GIVEN(name, fixture, f, begin(&made, device), end(&made))

/* Runs all due work step by step; returns when the last was due. */
static int64_t run_out(mr_device *device) {
    int64_t now = 0, next = 0;
    while ((next = mr_sim_advance(device, now)) != INT64_MAX)
        now = next;
    return now;
}

static mr_event *record(mr_stream *stream) {
    mr_event *event;
    assert_int_equal(mr_event_create(&event, stream->device, &resize), MR_OK);
    assert_int_equal(mr_stream_record(stream, event), MR_OK);
    return event;
}

static void order(mr_stream *first, mr_stream *second) {
    ENDED_BY(mr_event_unref) mr_event *event = record(first);
    assert_int_equal(mr_stream_wait(second, event), MR_OK);
}

static int outcome(mr_stream *stream) {
    mr_event *event = record(stream);
    run_out(stream->device);
    assert_true(mr_event_done(event));
    int status = mr_event_status(event);
    mr_event_unref(&event);
    return status;
}

/* ---- being wrong ------------------------------------------------------------------------------------------------ */

typedef struct ramp {
    float *to;
    size_t count;
} ramp;

static int write_ramp(void *arguments) {
    const ramp *work = arguments;
    for (size_t i = 0; i < work->count; i++)
        work->to[i] = (float)(i + 1);
    return MR_OK;
}

/* corrupt=8 means the frame with number 7, and only the first work that writes anything for it. */
static void one_bit_is_wrong(const char *name, size_t wrong) {
    ENDED_BY(end) fixture f;
    begin(&f, name);
    float *device = take(&f, MR_MEMORY_DEVICE, 64), *host = take(&f, MR_MEMORY_HOST, 64);
    memset(device, 0, 64);
    for (int turn = 0; turn < 2; turn++) {
        assert_int_equal(mr_stream_submit(f.work, write_ramp, &(ramp){device, 16}, sizeof(ramp)), MR_OK);
        assert_int_equal(mr_stream_copy(f.work, host, device, 64), MR_OK);
        assert_int_equal(outcome(f.work), MR_OK);
        for (size_t i = 0; i < 16; i++) {
            uint32_t bits[2];
            float right = (float)(i + 1);
            memcpy(&bits[0], &right, 4);
            memcpy(&bits[1], &host[i], 4);
            assert_int_equal(bits[0] ^ bits[1], turn == 0 && i < wrong ? UINT32_C(1) << 22 : 0);
        }
    }
}

TEST(one_value_of_one_frame_is_wrong) {
    one_bit_is_wrong("sim:0?corrupt=8", 1);
    one_bit_is_wrong("sim:0?corrupt=7", 0);
    one_bit_is_wrong("sim:0", 0);
}

typedef struct add_work {
    uint8_t *to;
    const uint8_t *from;
} add_work;

static int add_one(void *arguments) {
    const add_work *work = arguments;
    *work->to = (uint8_t)(*work->from + 1);
    return MR_OK;
}

static int submit(mr_stream *stream, void *to, const void *from) {
    const add_work work = {to, from};
    return mr_stream_submit(stream, add_one, &work, sizeof work);
}

/* ---- time ------------------------------------------------------------------------------------------------------ */

SIM_TEST(each_engine_takes_its_time, "sim:0?upload=1GB/s&download=500MB/s&compute=10GB/s&call=20us") {
    void *host = take(f, MR_MEMORY_PINNED, MEGABYTE), *data = take(f, MR_MEMORY_DEVICE, MEGABYTE);
    assert_int_equal(mr_stream_copy(f->up, data, host, MEGABYTE), MR_OK);
    order(f->up, f->work);
    assert_int_equal(submit(f->work, data, data), MR_OK);
    order(f->work, f->down);
    assert_int_equal(mr_stream_copy(f->down, host, data, MEGABYTE), MR_OK);
    /* 1 MB at 1 GB/s; 20 us and 1 MB at 10 GB/s; 1 MB at 500 MB/s. */
    assert_int_equal(run_out(f->device), 1000000 + 120000 + 2000000);
    assert_int_equal(f->notes, 3);
    const mr_engine engines[] = {MR_ENGINE_UPLOAD, MR_ENGINE_COMPUTE, MR_ENGINE_DOWNLOAD};
    const int64_t at[] = {0, 1000000, 1120000, 3120000};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(f->note[i].engine, engines[i]);
        assert_int_equal(f->note[i].begin_ns, at[i]);
        assert_int_equal(f->note[i].end_ns, at[i + 1]);
        assert_ptr_equal(f->note[i].stage, &resize);
        assert_int_equal(f->note[i].frame.seq, 7);
    }
    assert_string_equal(mr_engine_name(f->note[0].engine), "upload");
}

/* Two streams that share an engine take as long as one stream with all the work. Two engines work in parallel. */
SIM_TEST(engines_work_side_by_side_and_each_in_order, "sim:0?copy=1GB/s&call=3ms") {
    void *host = take(f, MR_MEMORY_PINNED, MEGABYTE), *a = take(f, MR_MEMORY_DEVICE, MEGABYTE),
         *b = take(f, MR_MEMORY_DEVICE, MEGABYTE), *c = take(f, MR_MEMORY_DEVICE, MEGABYTE);
    assert_int_equal(mr_stream_copy(f->up, a, host, MEGABYTE), MR_OK);
    assert_int_equal(mr_stream_copy(f->down, b, host, MEGABYTE), MR_OK);
    assert_int_equal(submit(f->work, c, c), MR_OK);
    assert_int_equal(run_out(f->device), 3000000);
    assert_int_equal(f->notes, 3);
    assert_int_equal(f->note[0].end_ns, 1000000);
    assert_int_equal(f->note[1].begin_ns, 1000000);
    assert_int_equal(f->note[1].end_ns, 2000000);
}

SIM_TEST(slow_from_an_operation_on, "sim:0?call=1ms&slow_after=3&slow=5") {
    uint8_t host[2] = {0};
    for (int i = 0; i < 4; i++)
        assert_int_equal(submit(f->work, &host[1], &host[0]), MR_OK);
    assert_int_equal(run_out(f->device), 1000000 + 1000000 + 5000000 + 5000000);
}

/* ---- limits and failures --------------------------------------------------------------------------------------- */

SIM_TEST(memory_is_limited, "sim:0?memory=64MiB") {
    uint64_t bytes;
    void *none;
    void *first = take(f, MR_MEMORY_DEVICE, 40 << 20);
    assert_int_equal(mr_device_allocate(f->device, MR_MEMORY_DEVICE, (24 << 20) + 1, &none), MR_ERROR_MEMORY);
    assert_null(none);
    take(f, MR_MEMORY_DEVICE, 24 << 20);
    take(f, MR_MEMORY_PINNED, 100);
    give(f, first);
    take(f, MR_MEMORY_DEVICE, 40 << 20);
    assert_int_equal(mr_device_probe("sim:0?memory=64MiB", &bytes), MR_OK);
    assert_int_equal(bytes, 64 << 20);
}

SIM_TEST(a_lost_device_fails_all, "sim:0?lose_after=2&min_delay=0&max_delay=0") {
    uint8_t host[2] = {0};
    mr_stream *stream;
    ENDED_BY(mr_event_unref) mr_event *event;
    void *data;
    assert_int_equal(submit(f->work, host, host), MR_OK);
    assert_int_equal(outcome(f->work), MR_OK);
    assert_int_equal(submit(f->work, host, host), MR_OK);
    ENDED_BY(mr_event_unref) mr_event *pending = record(f->up);
    assert_int_equal(outcome(f->work), MR_ERROR_DEVICE);
    assert_true(mr_event_done(pending));
    assert_int_equal(host[0], 1);
    assert_int_equal(submit(f->work, host, host), MR_ERROR_DEVICE);
    assert_int_equal(mr_stream_copy(f->work, host, host + 1, 1), MR_ERROR_DEVICE);
    assert_int_equal(mr_stream_create(f->device, &stream), MR_ERROR_DEVICE);
    assert_int_equal(mr_device_allocate(f->device, MR_MEMORY_DEVICE, 1, &data), MR_ERROR_DEVICE);
    assert_int_equal(mr_event_create(&event, f->device, NULL), MR_OK);
    assert_int_equal(mr_stream_record(f->work, event), MR_ERROR_DEVICE);
    assert_int_equal(mr_stream_wait(f->work, event), MR_ERROR_DEVICE);
}

/* Calls: three streams, then an allocation, a copy, work and a record. */
static int call_everything(const char *name) {
    mr_device *device;
    mr_stream *stream[3] = {0};
    mr_event *event;
    void *data = NULL;
    uint8_t host[8] = {0};
    assert_int_equal(mr_device_open(&device, name, 1, true), MR_OK);
    assert_int_equal(mr_event_create(&event, device, &resize), MR_OK);
    int failed = 0;
    for (int i = 0; i < 3; i++)
        failed += mr_stream_create(device, &stream[i]) != MR_OK;
    failed += mr_device_allocate(device, MR_MEMORY_DEVICE, 8, &data) != MR_OK;
    if (stream[0] && data) {
        failed += mr_stream_copy(stream[0], data, host, 8) != MR_OK;
        failed += submit(stream[0], data, data) != MR_OK;
        failed += mr_stream_record(stream[0], event) != MR_OK;
    }
    for (int i = 0; i < 3; i++)
        mr_stream_destroy(&stream[i]);
    if (data)
        mr_device_free(device, MR_MEMORY_DEVICE, data);
    if (!failed)
        assert_int_equal(mr_sim_calls(device), 7);
    mr_event_unref(&event);
    mr_device_destroy(&device);
    return failed;
}

TEST(one_call_fails_or_all_from_one_on) {
    char name[64];
    assert_int_equal(call_everything("sim:0"), 0);
    assert_int_equal(call_everything("sim:0?fail_call=8"), 0);
    for (int call = 1; call <= 7; call++) {
        snprintf(name, sizeof name, "sim:0?fail_call=%d", call);
        assert_int_equal(call_everything(name), 1);
        snprintf(name, sizeof name, "sim:0?lose_call=%d", call);
        assert_true(call_everything(name) >= 1);
    }
}

TEST(names_say_what_is_wrong) {
    static const char *const wrong[][2] = {
        {"sim:0?copy=12", "copy of a simulated device is bytes a second such as 12GB/s, not \"12\""},
        {"sim:0?call=fast", "call of a simulated device is a time such as 20us, not \"fast\""},
        {"sim:0?memory=-1MiB", "memory of a simulated device is bytes such as 64MiB, not \"-1MiB\""},
        {"sim:0?fail_call=", "fail_call of a simulated device is a whole number, not \"\""},
        {"sim:0?memory", "expected key=value after the \"?\" of a simulated device, found \"memory\""}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(mr_device_check_name(wrong[i][0]), MR_ERROR_CONFIG);
        assert_string_equal(mr_message(), wrong[i][1]);
    }
    assert_int_equal(mr_device_check_name("sim:7?copy=12.5GB/s&compute=2TB/s&call=50us&memory=64MiB&max_delay=100"),
                     MR_OK);
}

/* ---- misuse ---------------------------------------------------------------------------------------------------- */

static void expect_misuse(int status, uint64_t *count, const char *what) {
    char text[200];
    snprintf(text, sizeof text, "sim:0: misuse by resize, frame 1/0/7/0: %s", what);
    assert_int_equal(status, MR_ERROR_INTERNAL);
    assert_string_equal(mr_message(), text);
    assert_int_equal(mr_sim_misuses(), ++*count);
}

SIM_TEST(memory_of_another_device_is_caught, "sim:0") {
    ENDED_BY(mr_device_destroy) mr_device *other;
    uint64_t count = mr_sim_misuses();
    assert_int_equal(mr_device_open(&other, "sim:1", 1, true), MR_OK);
    void *own = take(f, MR_MEMORY_DEVICE, 64), *foreign = NULL;
    assert_int_equal(mr_device_allocate(other, MR_MEMORY_DEVICE, 64, &foreign), MR_OK);
    expect_misuse(submit(f->work, own, foreign), &count, "it works on memory of another device");
    expect_misuse(mr_stream_copy(f->work, foreign, own, 64), &count, "it writes to memory of another device");
    assert_int_equal(mr_stream_copy(f->work, own, foreign, 64), MR_OK);
    assert_int_equal(outcome(f->work), MR_OK);
    assert_int_equal(f->note[0].engine, MR_ENGINE_UPLOAD);
    expect_misuse(mr_device_host_reads(f->device, own, &resize, &f->work->frame), &count,
                  "the host reads memory of the device");
    mr_device_free(other, MR_MEMORY_DEVICE, foreign);
}

SIM_TEST(bounds_are_kept, "sim:0") {
    uint8_t host[200] = {0};
    uint64_t count = mr_sim_misuses();
    uint8_t *data = take(f, MR_MEMORY_DEVICE, 100);
    assert_int_equal(mr_stream_copy_rows(f->work, data, 30, host, 10, 10, 4), MR_OK);
    assert_int_equal(mr_stream_copy_rows(f->work, data + 90, -30, host, 10, 10, 4), MR_OK);
    expect_misuse(mr_stream_copy(f->work, data + 1, host, 100), &count, "it copies to beyond the end of a buffer");
    expect_misuse(mr_stream_copy(f->work, host, data, 101), &count, "it copies from beyond the end of a buffer");
    expect_misuse(mr_stream_copy_rows(f->work, data, 31, host, 10, 10, 4), &count,
                  "it copies to beyond the end of a buffer");
    assert_int_equal(outcome(f->work), MR_OK);
}

/* Whether or not it would have been in time. */
SIM_TEST(reading_before_the_event_is_caught, "sim:0") {
    uint8_t host[64] = {3};
    uint64_t count = mr_sim_misuses();
    uint8_t *in = take(f, MR_MEMORY_DEVICE, 64), *out = take(f, MR_MEMORY_DEVICE, 64),
            *home = take(f, MR_MEMORY_PINNED, 64);
    assert_int_equal(mr_stream_copy(f->up, in, host, 64), MR_OK);
    expect_misuse(submit(f->work, out, in), &count, "it reads memory before the event of the work that writes it");
    order(f->up, f->work);
    assert_int_equal(submit(f->work, out, in), MR_OK);
    expect_misuse(mr_stream_copy(f->down, home, out, 64), &count,
                  "it reads memory before the event of the work that writes it");
    order(f->work, f->down);
    /* What the work waited for, who waits for the work waits for too. */
    assert_int_equal(mr_stream_copy(f->down, home, in, 64), MR_OK);
    assert_int_equal(mr_stream_copy(f->down, home, out, 64), MR_OK);
    expect_misuse(mr_device_host_reads(f->device, home, &resize, &f->work->frame), &count,
                  "the host reads memory before the event of the work that writes it");
    assert_int_equal(outcome(f->down), MR_OK);
    assert_int_equal(mr_device_host_reads(f->device, home, &resize, &f->work->frame), MR_OK);
    assert_int_equal(home[0], 4);
}

SIM_TEST(two_writers_are_caught, "sim:0") {
    uint8_t host[64] = {0};
    uint64_t count = mr_sim_misuses();
    uint8_t *data = take(f, MR_MEMORY_DEVICE, 64);
    assert_int_equal(submit(f->work, data, data), MR_OK);
    expect_misuse(mr_stream_copy(f->up, data, host, 64), &count,
                  "it writes memory that other work writes, without waiting for that work");
    assert_int_equal(outcome(f->work), MR_OK);
    assert_int_equal(mr_stream_copy(f->up, data, host, 64), MR_OK);
    assert_int_equal(outcome(f->up), MR_OK);
}

SIM_TEST(what_is_gone_in_flight_is_caught, "sim:0") {
    uint8_t host[64] = {0};
    uint64_t count = mr_sim_misuses();
    uint8_t *data = take(f, MR_MEMORY_DEVICE, 64);
    assert_int_equal(mr_stream_copy(f->up, data, host, 64), MR_OK);
    mr_device_reuse(f->device, data);
    expect_misuse(outcome(f->up), &count, "a buffer was reused before the work on it was done");
    assert_int_equal(mr_stream_copy(f->up, data, host, 64), MR_OK);
    give(f, data);
    expect_misuse(outcome(f->up), &count, "memory was freed before the work on it was done");
    expect_misuse(submit(f->work, data, data), &count, "it touches memory that was freed");
    mr_device_free(f->device, MR_MEMORY_DEVICE, data);
    assert_int_equal(mr_sim_misuses(), ++count);
}

RUN_TESTS(be_quiet, NULL)
