/* What a CUDA device reports about work. Runs on a GPU, or on one that the host imitates. */
#include <string.h>
#include <time.h>

#include "engine/base/clock.h"
#include "engine/device/device.h"
#include "engine/device/open/open.h"
#include "tests/support/suite.h"

enum { BYTES = 1 << 16, MOST = 16, WORK_NS = 2000000, CLOCK_NS = 1000000 };

static mr_device *device;

static int open_device(void **state) {
    mr_device_open(&device, "cuda:0", 0, false);
    return 0;
}

static int close_device(void **state) {
    mr_device_destroy(&device);
    return 0;
}

typedef struct notes {
    atomic_size_t count;
    mr_work_note note[MOST];
} notes;

static void take_note(void *context, const mr_device *from, const mr_work_note *note) {
    notes *to = context;
    assert_ptr_equal(from, device);
    assert_true(to->count < MOST);
    to->note[to->count++] = *note;
}

static int work(void *arguments) {
    nanosleep(&(struct timespec){.tv_nsec = WORK_NS}, NULL);
    return MR_OK;
}

static void finish(mr_stream *stream) {
    ENDED_BY(mr_event_unref) mr_event *event = NULL;
    assert_int_equal(mr_event_create(&event, device, stream->stage), MR_OK);
    assert_int_equal(mr_stream_record(stream, event), MR_OK);
    while (!mr_event_done(event))
        nanosleep(&(struct timespec){.tv_nsec = 10000}, NULL);
    assert_int_equal(mr_event_status(event), MR_OK);
}

/* A copy there, work, and a copy back. */
static void give_work(mr_stream *stream, void *there, void *here) {
    assert_int_equal(mr_stream_copy(stream, there, here, BYTES), MR_OK);
    assert_int_equal(mr_stream_submit(stream, work, NULL, 0), MR_OK);
    assert_int_equal(mr_stream_copy(stream, here, there, BYTES), MR_OK);
    finish(stream);
}

static void expect_notes(const mr_work_note *note, const mr_stream *stream, int64_t begun_ns, int64_t ended_ns) {
    static const struct {
        mr_engine engine;
        size_t bytes;
    } expected[] = {{MR_ENGINE_UPLOAD, BYTES}, {MR_ENGINE_COMPUTE, 0}, {MR_ENGINE_DOWNLOAD, BYTES}};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(note[i].engine, expected[i].engine);
        assert_int_equal(note[i].bytes, expected[i].bytes);
        assert_ptr_equal(note[i].stage, stream->stage);
        assert_int_equal(note[i].frame.seq, stream->frame.seq);
        assert_true(note[i].begin_ns <= note[i].end_ns);
        assert_true(note[i].begin_ns >= (i ? note[i - 1].end_ns - CLOCK_NS : begun_ns - CLOCK_NS));
        assert_true(note[i].end_ns <= ended_ns + CLOCK_NS);
    }
    assert_true(note[1].end_ns - note[1].begin_ns >= WORK_NS - CLOCK_NS);
}

/* Also after so long that times are counted from another point. */
TEST(each_piece_is_told_with_its_time) {
    static notes got;
    const mr_stage stage = {.id = "stage"};
    void *here = NULL, *there = NULL;
    mr_stream *stream = NULL;
    if (!device)
        skip();
    memset(&got, 0, sizeof got);
    device->trace_context = &got;
    device->trace = take_note;
    assert_int_equal(mr_stream_create(device, &stream), MR_OK);
    assert_int_equal(mr_device_allocate(device, MR_MEMORY_PINNED, BYTES, &here), MR_OK);
    assert_int_equal(mr_device_allocate(device, MR_MEMORY_DEVICE, BYTES, &there), MR_OK);
    stream->stage = &stage;
    for (int round = 0; round < 3; round++) {
        int64_t begun_ns = mr_now_ns();
        stream->frame.seq = (uint64_t)round;
        give_work(stream, there, here);
        assert_int_equal(got.count, 3 * (round + 1));
        expect_notes(&got.note[3 * round], stream, begun_ns, mr_now_ns());
        nanosleep(&(struct timespec){.tv_sec = round < 2}, NULL);
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
    mr_device_free(device, MR_MEMORY_PINNED, here);
    mr_device_free(device, MR_MEMORY_DEVICE, there);
    mr_stream_destroy(&stream);
    device->trace = NULL;
}

TEST(nothing_is_told_where_nobody_looks) {
    static notes got;
    void *here = NULL, *there = NULL;
    ENDED_BY(mr_stream_destroy) mr_stream *stream = NULL;
    if (!device)
        skip();
    device->trace_context = &got;
    assert_int_equal(mr_stream_create(device, &stream), MR_OK);
    assert_int_equal(mr_device_allocate(device, MR_MEMORY_PINNED, BYTES, &here), MR_OK);
    assert_int_equal(mr_device_allocate(device, MR_MEMORY_DEVICE, BYTES, &there), MR_OK);
    give_work(stream, there, here);
    assert_int_equal(got.count, 0);
    mr_device_free(device, MR_MEMORY_PINNED, here);
    mr_device_free(device, MR_MEMORY_DEVICE, there);
}

/* Whether a profiler is attached or not. */
TEST(ranges_may_be_nested) {
    if (!device)
        skip();
    device->type->range_begin("outer");
    device->type->range_begin("inner");
    device->type->range_end();
    device->type->range_end();
}

RUN_TESTS(open_device, close_device)
