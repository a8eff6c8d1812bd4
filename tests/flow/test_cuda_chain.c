/* Calls handed on from stream to stream: a chain of stages is launched as one graph, recorded once, and gives what the
 * stages give one by one. Work that nobody takes over is done too. Runs on a GPU, or on one that the host imitates,
 * which counts runtime calls. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/device/cuda/cuda.h"
#include "engine/pipeline/pipeline.h"
#include "kernels/classical/classical.h"
#include "kernels/vector/vector.h"
#include "millrace/log.h"
#include "millrace/millrace.h"
#include "tests/support/on_device.h"
#include "tests/support/opened.h"
#include "tests/support/suite.h"
#include "tests/support/temporary.h"
#include "tests/support/worker_counts.h"

#ifdef MILLRACE_CUDA_HOST
#include <cuda_runtime_api.h>
/* How long a call can be held (engine/device/cuda/cuda_record.c). */
extern _Atomic int64_t mr_cuda_patience_ns;
#endif

enum { STAGES = 3, NUMBERS = 40, BYTES = NUMBERS * sizeof(float), PLACES = 200, STEP = 256 };

/* Each stream normalises a vector and passes it on: every length becomes 1. */
typedef struct fixture {
    on_device on;
    mr_stream *stream[STAGES];
    uint8_t *memory;
    float *here;
} fixture;

static bool open_fixture(fixture *f) {
    void *memory = NULL, *here = NULL;
    if (!on_device_open(&f->on, "cuda:0"))
        return false;
    for (int i = 0; i < STAGES; i++)
        assert_int_equal(mr_stream_create(f->on.device, &f->stream[i]), MR_OK);
    assert_int_equal(mr_device_allocate(f->on.device, MR_MEMORY_DEVICE, (size_t)PLACES * STEP, &memory), MR_OK);
    assert_int_equal(mr_device_allocate(f->on.device, MR_MEMORY_PINNED, STEP, &here), MR_OK);
    f->memory = memory;
    f->here = here;
    return true;
}

static void close_fixture(fixture *f) {
    for (int i = 0; i < STAGES; i++)
        mr_stream_destroy(&f->stream[i]);
    mr_device_free(f->on.device, MR_MEMORY_DEVICE, f->memory);
    mr_device_free(f->on.device, MR_MEMORY_PINNED, f->here);
    on_device_close(&f->on);
}

static float *place(const fixture *f, size_t number) {
    return (float *)(void *)(f->memory + number * STEP);
}

static mr_event *event_of(const fixture *f) {
    mr_event *event = NULL;
    assert_int_equal(mr_event_create(&event, f->on.device, NULL), MR_OK);
    return event;
}

static int finish(mr_event *event) {
    while (!mr_event_done(event))
        nanosleep(&(struct timespec){.tv_nsec = 10000}, NULL);
    int status = mr_event_status(event);
    mr_event_unref(&event);
    return status;
}

static void bring(fixture *f, float first, size_t to) {
    for (int i = 0; i < NUMBERS; i++)
        f->here[i] = first + (float)i;
    assert_int_equal(mr_stream_copy(f->on.stream, place(f, to), f->here, BYTES), MR_OK);
    on_device_finish(&f->on);
}

static void expect_at(fixture *f, float first, size_t at) {
    float from[NUMBERS], wanted[NUMBERS];
    for (int i = 0; i < NUMBERS; i++)
        from[i] = first + (float)i;
    mr_normalize(&(mr_normalize_work){.src = from, .dst = wanted, .count = NUMBERS});
    assert_int_equal(mr_stream_copy(f->on.stream, f->here, place(f, at), BYTES), MR_OK);
    on_device_finish(&f->on);
    assert_memory_equal(f->here, wanted, BYTES);
}

static void normalize(fixture *f, int stream, size_t from, size_t to) {
    const mr_normalize_work work = {.src = place(f, from), .dst = place(f, to), .count = NUMBERS};
    assert_int_equal(mr_normalize_enqueue(f->stream[stream], &work, 1), MR_OK);
}

/* On a busy machine the device's thread may be first. */
static void take_over(mr_stream *stream, mr_event *event) {
    int status;
    while ((status = mr_stream_wait(stream, event)) == MR_ERROR_AGAIN)
        nanosleep(&(struct timespec){.tv_nsec = 10000}, NULL);
    assert_int_equal(status, MR_OK);
}

/* From place 0 through places 1 and 2, or others, to the place that the last stream fills; all finish. */
static void run_chain(fixture *f, float first, const size_t places[STAGES + 1]) {
    mr_event *event[STAGES];
    bring(f, first, places[0]);
    for (int i = 0; i < STAGES; i++) {
        event[i] = event_of(f);
        if (i)
            take_over(f->stream[i], event[i - 1]);
        normalize(f, i, places[0], places[i + 1]);
        assert_int_equal((i + 1 < STAGES ? mr_stream_hand_on : mr_stream_record)(f->stream[i], event[i]), MR_OK);
    }
    for (int i = STAGES - 1; i >= 0; i--)
        assert_int_equal(finish(event[i]), MR_OK);
    for (int i = 0; i < STAGES; i++)
        expect_at(f, first, places[i + 1]);
}

TEST(a_chain_gives_what_its_stages_give) {
    ENDED_BY(close_fixture) fixture f;
    if (!open_fixture(&f))
        skip();
    for (int i = 0; i < 20; i++)
        run_chain(&f, (float)i, (size_t[]){0, 1 + (size_t)i % 2, 3, 4});
}

#ifdef MILLRACE_CUDA_HOST
static int be_patient(void **state) {
    atomic_store(&mr_cuda_patience_ns, 250000);
    return 0;
}

/* A test with a fixture, `f`, where calls are held for that long. */
#define CHAIN_TEST(name, patience_ns)                                                                                 \
    static void with_##name(fixture *f);                                                                              \
    TEST_WITH(name, NULL, be_patient) {                                                                               \
        fixture made;                                                                                                 \
        atomic_store(&mr_cuda_patience_ns, patience_ns);                                                              \
        assert_true(open_fixture(&made));                                                                             \
        with_##name(&made);                                                                                           \
        close_fixture(&made);                                                                                         \
    }                                                                                                                 \
    static void with_##name(fixture *f)


/* ---- what it costs ----------------------------------------------------------------------------------------------- */

static const int64_t FOR_EVER = INT64_C(3600000000000);

/* Counts calls for one more repetition of a chain. Calls that upload and read numbers are the same each time. */
static mr_host_counts cost_of_chain(bool graphs) {
    fixture f;
    setenv("MILLRACE_CUDA_GRAPHS", graphs ? "1" : "0", 1);
    assert_true(open_fixture(&f));
    unsetenv("MILLRACE_CUDA_GRAPHS");
    mr_host_counts before = {0};
    for (int i = 0; i < 4; i++) {
        before = mr_host_count();
        run_chain(&f, 3, (size_t[]){0, 1, 2, 3});
    }
    mr_host_counts after = mr_host_count();
    close_fixture(&f);
    return (mr_host_counts){.launches = after.launches - before.launches,
                            .graphs = after.graphs - before.graphs,
                            .records = after.records - before.records,
                            .stream_waits = after.stream_waits - before.stream_waits};
}

/* One to upload the numbers, and one per stage to read them. */
enum { OTHER_RECORDS = 1 + STAGES };

TEST_WITH(a_chain_is_one_graph, NULL, be_patient) {
    atomic_store(&mr_cuda_patience_ns, FOR_EVER);
    mr_host_hold(false);
    const mr_host_counts together = cost_of_chain(true), alone = cost_of_chain(false);
    print_message("a chain of %d: %llu + %llu launches, %llu records; alone %llu + %llu, %llu\n", STAGES,
                  together.launches, together.graphs, together.records - OTHER_RECORDS, alone.launches, alone.graphs,
                  alone.records - OTHER_RECORDS);
    assert_int_equal(together.graphs, 1);
    assert_int_equal(together.launches, 0);
    assert_int_equal(together.records, OTHER_RECORDS + 1);
    assert_int_equal(together.stream_waits, 0);
    assert_int_equal(alone.graphs, 0);
    assert_int_equal(alone.launches, STAGES);
    assert_int_equal(alone.records, OTHER_RECORDS + STAGES);
}

/* The first and last stages have many buffers: all combinations are too many to keep as graphs, while each stage
 * has few. */
CHAIN_TEST(stages_have_their_own_graphs_where_chains_do_not_recur, FOR_EVER) {
    enum { FIRST = 7, LAST = 11, ROUNDS = 340, ENOUGH = 300 };
    unsigned long long before = 0;
    for (size_t i = 0; i < ROUNDS; i++) {
        const size_t at = 1 + 2 * (i % FIRST), to = 20 + 2 * (i % LAST);
        mr_event *first = event_of(f), *last = event_of(f);
        before = i == ENOUGH ? mr_host_count().graphs : before;
        normalize(f, 0, 0, at);
        normalize(f, 0, 0, at + 1);
        assert_int_equal(mr_stream_hand_on(f->stream[0], first), MR_OK);
        assert_int_equal(mr_stream_wait(f->stream[1], first), MR_OK);
        normalize(f, 1, 0, to);
        normalize(f, 1, 0, to + 1);
        assert_int_equal(mr_stream_record(f->stream[1], last), MR_OK);
        assert_int_equal(finish(last), MR_OK);
        assert_int_equal(finish(first), MR_OK);
    }
    assert_int_equal(mr_host_count().graphs - before, 2 * (ROUNDS - ENOUGH));
}

/* ---- what is not taken over -------------------------------------------------------------------------------------- */

CHAIN_TEST(what_nobody_takes_over_is_done, 0) {
    bring(f, 5, 0);
    mr_event *event = event_of(f);
    normalize(f, 0, 0, 1);
    assert_int_equal(mr_stream_hand_on(f->stream[0], event), MR_OK);
    assert_int_equal(finish(event), MR_OK);
    expect_at(f, 5, 1);
    /* Nobody is expected to take the next ones over. */
    atomic_store(&mr_cuda_patience_ns, FOR_EVER);
    for (int i = 0; i < 64; i++) {
        event = event_of(f);
        normalize(f, 0, 0, 2);
        assert_int_equal(mr_stream_hand_on(f->stream[0], event), MR_OK);
        assert_int_equal(finish(event), MR_OK);
    }
    expect_at(f, 5, 2);
}

CHAIN_TEST(a_stream_that_goes_gives_what_it_has_handed_on, 250000) {
    bring(f, 7, 0);
    mr_event *event = event_of(f);
    normalize(f, 0, 0, 1);
    assert_int_equal(mr_stream_hand_on(f->stream[0], event), MR_OK);
    mr_stream_destroy(&f->stream[0]);
    assert_true(mr_event_done(event));
    assert_int_equal(finish(event), MR_OK);
    expect_at(f, 7, 1);
}

CHAIN_TEST(others_wait_until_what_was_taken_over_is_recorded, FOR_EVER) {
    bring(f, 9, 0);
    mr_event *event = event_of(f);
    normalize(f, 0, 0, 1);
    assert_int_equal(mr_stream_hand_on(f->stream[0], event), MR_OK);
    assert_int_equal(mr_stream_wait(f->stream[1], event), MR_OK);
    assert_int_equal(mr_stream_wait(f->stream[1], event), MR_OK);
    assert_int_equal(mr_stream_wait(f->stream[2], event), MR_ERROR_AGAIN);
    assert_false(mr_event_done(event));
    assert_int_equal(mr_stream_settle(f->stream[1]), MR_OK);
    assert_int_equal(mr_stream_wait(f->stream[2], event), MR_OK);
    assert_int_equal(finish(event), MR_OK);
    assert_int_equal(mr_stream_settle(f->stream[1]), MR_OK);
    expect_at(f, 9, 1);
}

/* Work that has begun cannot be taken over: the stream owns the memory, or a copy is running. */
CHAIN_TEST(what_has_begun_is_not_handed_on, FOR_EVER) {
    bring(f, 2, 0);
    for (int i = 0; i < 2; i++) {
        void *scratch;
        mr_event *event = event_of(f);
        if (i == 0)
            assert_int_equal(mr_cuda_scratch(f->stream[0], 64, &scratch), MR_OK);
        else
            assert_int_equal(mr_stream_copy(f->stream[0], place(f, 3), NULL, BYTES), MR_OK);
        normalize(f, 0, 0, 1);
        assert_int_equal(mr_stream_hand_on(f->stream[0], event), MR_OK);
        assert_int_equal(finish(event), MR_OK);
    }
    expect_at(f, 2, 1);
}

static void ignore(void *context, mr_log_level level, const char *line) {
    ++*(atomic_int *)context;
}

CHAIN_TEST(all_of_a_chain_fails_together, FOR_EVER) {
    atomic_int lines = 0;
    mr_log_to(ignore, &lines);
    mr_event *first = event_of(f), *last = event_of(f);
    normalize(f, 0, 0, 1);
    assert_int_equal(mr_stream_hand_on(f->stream[0], first), MR_OK);
    assert_int_equal(mr_stream_wait(f->stream[1], first), MR_OK);
    normalize(f, 1, 1, 2);
    mr_host_lack_kernels(true);
    assert_int_equal(mr_stream_record(f->stream[1], last), MR_OK);
    mr_host_lack_kernels(false);
    assert_int_equal(finish(first), MR_ERROR_DEVICE);
    assert_int_equal(finish(last), MR_ERROR_DEVICE);
    mr_log_to(NULL, NULL);
    assert_int_equal(lines, 1);
    run_chain(f, 1, (size_t[]){0, 1, 2, 3});
}

/* ---- whole pipelines --------------------------------------------------------------------------------------------- */

enum { SIDE = 32, VECTOR = 3 * 3 * 36, CLASSES = 10, FRAMES = 12, WARM = 6 };

static atomic_int arrived;
static float scores[FRAMES][CLASSES];
static mr_host_counts warm, late;

static void take_scores(void *context, const char *source, const mr_frame *frame) {
    const mr_result *classes = mr_frame_result(frame, mr_kind_classes(), NULL);
    assert_non_null(classes);
    for (uint32_t i = 0; i < classes->count; i++)
        scores[frame->identity.seq][classes->classes[i].index] = classes->classes[i].score;
    arrived++;
}

static void write_weights(void) {
    FILE *file = fopen(temporary_path, "wb");
    char header[118];
    memset(header, ' ', sizeof header);
    assert_non_null(file);
    int length = snprintf(header, sizeof header, "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }",
                          CLASSES, VECTOR + 1);
    header[length] = ' ';
    header[sizeof header - 1] = '\n';
    assert_int_equal(fwrite("\x93NUMPY\x01\x00\x76\x00", 1, 10, file), 10);
    assert_int_equal(fwrite(header, 1, sizeof header, file), sizeof header);
    uint32_t random = 7;
    for (int i = 0; i < CLASSES * (VECTOR + 1); i++) {
        random = random * 1664525u + 1013904223u;
        const float weight = (float)(random >> 20) / 4096 - 0.5f;
        assert_int_equal(fwrite(&weight, sizeof weight, 1, file), 1);
    }
    assert_int_equal(fclose(file), 0);
}

static void push_frames(mr_pipeline *pipeline, bool one_by_one) {
    static uint8_t picture[SIDE * SIDE];
    mr_push push = {.format = {.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_GRAY8, .width = SIDE, .height = SIDE},
                    .stride = {SIDE}, .data = {picture}};
    for (int i = 0; i < FRAMES; i++) {
        for (int at = 0; at < SIDE * SIDE; at++)
            picture[at] = (uint8_t)(at * (i + 3) + at / SIDE * i);
        while (one_by_one && arrived < i)
            nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
        *(i <= WARM ? &warm : &late) = mr_host_count();
        assert_int_equal(mr_pipeline_push(pipeline, "camera", &push, -1), MR_OK);
    }
    assert_int_equal(mr_pipeline_end(pipeline, "camera"), MR_OK);
}

static void run_pipeline(const char *device, const char *more, bool one_by_one) {
    char text[1024];
    snprintf(text, sizeof text,
             "version: 1\npipeline: p\nsources:\n  camera: {type: push, format: GRAY8 %dx%d}\nstages:\n"
             "  hog:      {input: camera, size: %dx%d, device: %s%s}\n"
             "  classify: {input: hog, weights: %s, top_k: %d, device: %s%s}\n"
             "  out: {type: callback, input: classify}\n",
             SIDE, SIDE, SIDE, SIDE, device, more, temporary_path, CLASSES, device, more);
    const mr_pipeline_params params = {
        .types = mr_stage_types(), .path = "p.yaml", .text = text, .workers = next_worker_count()};
    mr_pipeline *pipeline = opened(&params);
    mr_summary *sums = NULL;
    arrived = 0;
    memset(scores, 0, sizeof scores);
    assert_int_equal(mr_pipeline_subscribe(pipeline, "out", take_scores, NULL), MR_OK);
    assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
    push_frames(pipeline, one_by_one);
    assert_int_equal(mr_pipeline_wait(pipeline, INT64_C(300000000000)), MR_OK);
    assert_int_equal(mr_pipeline_summarize(pipeline, &sums), MR_OK);
    assert_true(sums->balanced);
    assert_int_equal(sums->dropped, 0);
    mr_summary_destroy(&sums);
    mr_pipeline_destroy(&pipeline);
    assert_int_equal(arrived, FRAMES);
}

/* The bits are equal however the work is submitted, for any number of workers. */
TEST_WITH(a_pipeline_gives_the_same_either_way, make_temporary, remove_temporary) {
    static float alone[FRAMES][CLASSES];
    write_weights();
    setenv("MILLRACE_CUDA_GRAPHS", "0", 1);
    run_pipeline("cuda:0", "", false);
    unsetenv("MILLRACE_CUDA_GRAPHS");
    memcpy(alone, scores, sizeof alone);
    assert_true(alone[0][0] > 0 && memcmp(alone[0], alone[1], sizeof alone[0]) != 0);
    static const int64_t patience_ns[] = {0, 250000, 3600000000000};
    static const char *const more[] = {"", ", batch: {size: 3, timeout: 5ms}", ", in_flight: 1"};
    for (int i = 0; i < 9; i++) {
        atomic_store(&mr_cuda_patience_ns, patience_ns[i / 3]);
        run_pipeline("cuda:0", more[i % 3], false);
        assert_memory_equal(scores, alone, sizeof alone);
    }
}

/* Calls per frame, from the host through two stages and back. */
static mr_host_counts cost_of_frame(const char *graphs) {
    enum { COUNTED = FRAMES - 1 - WARM };
    setenv("MILLRACE_CUDA_GRAPHS", graphs, 1);
    run_pipeline("cuda:0", ", in_flight: 1", true);
    unsetenv("MILLRACE_CUDA_GRAPHS");
    return (mr_host_counts){.launches = (late.launches - warm.launches) / COUNTED,
                            .graphs = (late.graphs - warm.graphs) / COUNTED,
                            .records = (late.records - warm.records) / COUNTED,
                            .stream_waits = (late.stream_waits - warm.stream_waits) / COUNTED};
}

TEST_WITH(a_pipeline_needs_fewer_calls, make_temporary, remove_temporary) {
    write_weights();
    atomic_store(&mr_cuda_patience_ns, FOR_EVER);
    const mr_host_counts one = cost_of_frame("1"), other = cost_of_frame("0");
    print_message("calls a frame: %llu graphs, %llu launches, %llu records; without %llu launches, %llu records\n",
                  one.graphs, one.launches, one.records, other.launches, other.records);
    assert_int_equal(one.records + 1, other.records);
    assert_true(one.graphs + one.launches < other.launches);
}
#endif

int main(void) {
#ifdef MILLRACE_CUDA_HOST
    /* The imitated cuBLAS multiplies at once, even while the stream is recorded to a graph. */
    setenv("MILLRACE_CUBLAS", "none", 1);
#endif
    return run_suite(NULL, NULL);
}
