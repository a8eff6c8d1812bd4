/* Whole pipelines on CUDA devices give what the processors give, bit for bit. While frames pass, nothing is allocated
 * and nobody waits; unpinned memory goes through pinned memory; a failing device only loses the frames it has. Runs on
 * GPUs, or on devices that the host imitates, which count and can fail on demand. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/device/device.h"
#include "engine/device/open/open.h"
#include "engine/pipeline/pipeline.h"
#include "millrace/log.h"
#include "millrace/millrace.h"
#include "stages/list.h"
#include "tests/support/fakes.h"
#include "tests/support/opened.h"
#include "tests/support/sanitized.h"
#include "tests/support/suite.h"
#include "tests/support/worker_counts.h"

#ifdef MILLRACE_CUDA_HOST
#include <cuda_runtime_api.h>
#endif

enum { WIDTH = 50, HEIGHT = 34, PICTURE = WIDTH * HEIGHT * 3 / 2, SLOTS = 16, SINKS = 3 };
enum { FRAMES = 20, MANY = UNDER_TSAN(40, 60) };

static const char *const sinks[SINKS] = {"vectors", "colours", "numbers"};

static void write_text(char *text, size_t bytes, const char *first, const char *last, const char *more) {
    snprintf(text, bytes,
             "version: 1\npipeline: p\nsources:\n  camera: {type: push, format: NV12 %dx%d}\nstages:\n"
             "  hog:       {input: camera, size: 64x64, device: %s%s}\n"
             "  vectors:   {type: callback, input: hog}\n"
             "  histogram: {input: camera, size: 20x16, device: %s%s, batch: {size: 2, timeout: 10ms}}\n"
             "  colours:   {type: callback, input: histogram}\n"
             "  sharpness: {input: camera, device: %s%s}\n"
             "  phash:     {input: sharpness, device: %s}\n"
             "  numbers:   {type: callback, input: phash}\n",
             WIDTH, HEIGHT, first, more, first, more, first, more, last);
}

/* ---- what comes out ---------------------------------------------------------------------------------------------- */

typedef struct record {
    uint64_t seq;
    size_t bytes;
    uint8_t data[8192];
} record;

typedef struct collection {
    size_t count;
    record *records;
} collection;

static atomic_int arrived; /* at all sinks */

static void add_bytes(record *to, const void *data, size_t bytes) {
    assert_true(to->bytes + bytes <= sizeof to->data);
    memcpy(to->data + to->bytes, data, bytes);
    to->bytes += bytes;
}

/* Collects vectors, and numbers from the results. */
static void collect(void *context, const char *source, const mr_frame *frame) {
    collection *all = context;
    assert_true(all->count < MANY);
    record *added = &all->records[all->count++];
    added->seq = frame->identity.seq;
    added->bytes = 0;
    if (frame->format.payload == MR_PAYLOAD_TENSOR)
        add_bytes(added, frame->plane[0].data, frame->plane[0].bytes);
    for (const mr_result *result = frame->results; result; result = result->next)
        if (result->kind == mr_kind_tensor())
            add_bytes(added, result->data, mr_tensor_bytes(&result->format));
    arrived++;
}

/* ---- a run ------------------------------------------------------------------------------------------------------- */

typedef struct job {
    const char *first, *last, *more;
    bool lend; /* the program owns the frames' memory */
    int frames; /* 0: FRAMES */
    void (*every)(int frame); /* called before each frame is pushed, and after the last; may be NULL */
    const mr_stage_type *const *types; /* NULL: millrace's */
} job;

typedef struct outcome {
    collection of[SINKS];
    uint64_t dropped;
    bool started;
    char reason[64];
} outcome;

static uint8_t pictures[SLOTS][PICTURE];

static void draw_pictures(void) {
    uint32_t state = 2463534242u;
    for (int slot = 0; slot < SLOTS; slot++)
        for (int i = 0; i < PICTURE; i++) {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            pictures[slot][i] = (uint8_t)((uint32_t)(i % WIDTH) * 2 + (state >> 26) + (uint32_t)slot * 5);
        }
}

static void keep(void *context) {
}

static int frames_of(const job *j) {
    return j->frames ? j->frames : FRAMES;
}

static void push_all(mr_pipeline *pipeline, const job *j) {
    mr_push push = {.format = {.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_NV12, .width = WIDTH, .height = HEIGHT},
                    .stride = {WIDTH, WIDTH}, .release = j->lend ? keep : NULL};
    for (int i = 0; i < frames_of(j); i++) {
        if (j->every)
            j->every(i);
        push.data[0] = pictures[i % SLOTS];
        push.data[1] = pictures[i % SLOTS] + WIDTH * HEIGHT;
        push.pts_ns = i * INT64_C(40000000);
        assert_int_equal(mr_pipeline_push(pipeline, "camera", &push, -1), MR_OK);
    }
    assert_int_equal(mr_pipeline_end(pipeline, "camera"), MR_OK);
}

static void note_summary(mr_pipeline *pipeline, outcome *out) {
    ENDED_BY(mr_summary_destroy) mr_summary *sums = NULL;
    assert_int_equal(mr_pipeline_summarize(pipeline, &sums), MR_OK);
    assert_true(sums->balanced);
    out->dropped = sums->dropped;
    for (size_t i = 0; i < sums->line_count; i++)
        snprintf(out->reason, sizeof out->reason, "%s", sums->lines[i].reason);
}

/* Returns the pipeline's output; the caller must free it. */
static outcome run(const job *j) {
    char text[2048];
    outcome out = {0};
    write_text(text, sizeof text, j->first, j->last, j->more);
    arrived = 0;
    const mr_pipeline_params params = {
        .types = j->types ? j->types : mr_stage_types(), .path = "p.yaml", .text = text,
        .workers = next_worker_count()};
    mr_pipeline *pipeline = opened(&params);
    for (int i = 0; i < SINKS; i++) {
        assert_non_null(out.of[i].records = calloc(MANY, sizeof(record)));
        assert_int_equal(mr_pipeline_subscribe(pipeline, sinks[i], collect, &out.of[i]), MR_OK);
    }
    out.started = mr_pipeline_start(pipeline) == MR_OK;
    if (out.started) {
        push_all(pipeline, j);
        assert_int_equal(mr_pipeline_wait(pipeline, INT64_C(300000000000)), MR_OK);
        if (j->every)
            j->every(frames_of(j));
        note_summary(pipeline, &out);
    }
    mr_pipeline_destroy(&pipeline);
    return out;
}

static void free_outcome(outcome *out) {
    for (int i = 0; i < SINKS; i++)
        free(out->of[i].records);
}

/* Each record equals the processors' for that frame, in order. */
static void compare(const outcome *out, const outcome *wanted) {
    for (int i = 0; i < SINKS; i++)
        for (size_t at = 0; at < out->of[i].count; at++) {
            const record *here = &out->of[i].records[at], *there = &wanted->of[i].records[here->seq];
            assert_true(at == 0 || here->seq > here[-1].seq);
            assert_int_equal(here->bytes, there->bytes);
            assert_memory_equal(here->data, there->data, here->bytes);
        }
}

/* Runs once, for all tests. */
static const outcome *on_processors(void) {
    static outcome out;
    if (!out.started)
        out = run(&(job){.first = "cpu", .last = "cpu", .more = ""});
    for (int i = 0; i < SINKS; i++) {
        assert_int_equal(out.of[i].count, FRAMES);
        assert_true(out.of[i].records[0].bytes > 0);
    }
    return &out;
}

static bool have(const char *name) {
    uint64_t bytes;
    if (mr_device_probe(name, &bytes) == MR_OK)
        return true;
    print_message("skipped: %s\n", mr_message());
    return false;
}

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

/* The pinned pool for the vertex with this id. */
static mr_view_pool pinned_of(const char *first, const char *id) {
    char text[2048];
    write_text(text, sizeof text, first, "cpu", "");
    const mr_pipeline_params params = {.types = mr_stage_types(), .path = "p.yaml", .text = text, .workers = 2};
    mr_pipeline *pipeline = opened(&params);
    const mr_view_pool found = vertex(pipeline->plan, id)->memory.pinned;
    mr_pipeline_destroy(&pipeline);
    return found;
}

/* There must be a buffer for each frame that can be in flight; frames from planned pools need none. */
TEST(what_is_lent_is_planned_for) {
    mr_view_pool upload = pinned_of("sim:0", "camera->sim:0"), shared = pinned_of("[sim:0, sim:1]", "histogram");
    assert_int_equal(upload.memory, MR_MEMORY_PINNED);
    assert_int_equal(upload.count, 4); /* two calls with two frames each: small batches are copied together */
    assert_true(upload.bytes >= PICTURE);
    assert_true(shared.count >= 2 && shared.bytes >= PICTURE);
    assert_int_equal(pinned_of("sim:0", "hog").count, 0);
    assert_int_equal(pinned_of("sim:0", "sharpness->host").count, 0);
    assert_int_equal(pinned_of("cpu", "hog").count, 0);
}

/* ---- the same answer --------------------------------------------------------------------------------------------- */

static void all_equals(const job *j) {
    ENDED_BY(free_outcome) outcome out = run(j);
    for (int i = 0; i < SINKS; i++)
        assert_int_equal(out.of[i].count, FRAMES);
    assert_int_equal(out.dropped, 0);
    compare(&out, on_processors());
}

TEST(a_gpu_gives_what_processors_give) {
    if (!have("cuda:0"))
        skip();
    all_equals(&(job){.first = "cuda:0", .last = "cuda:0", .more = ""});
}

TEST(so_do_two) {
    if (!have("cuda:1"))
        skip();
    all_equals(&(job){.first = "cuda:0", .last = "cuda:1", .more = ""});
    all_equals(&(job){.first = "[cuda:0, cuda:1]", .last = "[cuda:1, cuda:0]", .more = ""});
}

#ifdef MILLRACE_CUDA_HOST

/* ---- what costs time --------------------------------------------------------------------------------------------- */

enum { WARM = 6 };
static mr_host_counts warm, late;

/* Lets one frame through at a time. */
static void count_calls(int frame) {
    while (arrived < frame * SINKS)
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    *(frame <= WARM ? &warm : &late) = mr_host_count();
}

/* Nobody may wait, and after the tables nothing may be copied from unpinned memory. An allocation per frame would show
 * as many; buffers in use a little longer than usual add a few. */
TEST(nothing_is_allocated_while_frames_pass) {
    static const char *const firsts[] = {"cuda:0", "[cuda:0, cuda:1]"};
    for (int lend = 0; lend < 2; lend++) {
        int frames = lend ? FRAMES : MANY;
        outcome out = run(&(job){.first = firsts[lend], .last = "cuda:1", .more = "", .lend = lend, .frames = frames,
                                 .every = count_calls});
        assert_int_equal(out.of[0].count, frames);
        assert_true(warm.allocations > 0);
        assert_true(lend || late.allocations - warm.allocations < MANY - WARM);
        assert_int_equal(late.waits, warm.waits);
        assert_int_equal(late.pageable, warm.pageable);
        free_outcome(&out);
    }
}

static int urgent_streams;

static void count_urgent(int frame) {
    urgent_streams = frame < FRAMES ? mr_host_streams(true) : urgent_streams;
}

/* Only streams for stage types that are urgent may have priority. */
TEST(what_is_urgent_goes_first) {
    enum { MOST = 64 };
    const mr_stage_type *types[MOST + 1] = {NULL}, *const *all = mr_stage_types();
    mr_stage_type hog = {0};
    for (int i = 0; i < MOST && all[i]; i++) {
        types[i] = all[i];
        if (strcmp(all[i]->name, "hog") != 0)
            continue;
        hog = *all[i];
        hog.urgent = true;
        types[i] = &hog;
    }
    for (int which = 0; which < 2; which++) {
        outcome out = run(&(job){.first = "cuda:0", .last = "cuda:0", .more = "", .every = count_urgent,
                                 .types = which ? types : NULL});
        assert_int_equal(out.of[0].count, FRAMES);
        assert_int_equal(urgent_streams > 0, which);
        free_outcome(&out);
    }
}

/* ---- what goes wrong --------------------------------------------------------------------------------------------- */

static char said[4096];
static pthread_mutex_t said_lock = PTHREAD_MUTEX_INITIALIZER;

static void listen(void *context, mr_log_level level, const char *line) {
    pthread_mutex_lock(&said_lock);
    snprintf(said + strlen(said), sizeof said - strlen(said), "%s\n", line);
    pthread_mutex_unlock(&said_lock);
}

static void expect_said(const char *words) {
    if (!strstr(said, words))
        fail_msg("\"%s\" is not among:\n%s", words, said);
}

/* Fails the first device after this many pieces of work. */
static outcome run_broken(const job *j, long after) {
    said[0] = 0;
    mr_log_to(listen, NULL);
    mr_host_break(0, after);
    outcome out = run(j);
    mr_host_break(0, 0);
    mr_log_to(NULL, NULL);
    return out;
}

TEST(a_device_that_breaks_drops_what_it_has) {
    for (long after = 1; after < 100; after += UNDER_TSAN(66, 33)) {
        ENDED_BY(free_outcome) outcome out = run_broken(&(job){.first = "cuda:0", .last = "cuda:0", .more = ""}, after);
        compare(&out, on_processors());
        if (out.started) {
            assert_true(out.dropped > 0);
            assert_string_equal(out.reason, "device error");
            expect_said("an illegal memory access was encountered");
            expect_said("p.yaml:");
        }
    }
}

/* Early enough that more frames follow than slots can hold. */
static void break_the_first(int frame) {
    if (frame == 2)
        mr_host_break(0, 1);
}

static void take_over(const char *last, const char *more, const char *words) {
    outcome out = run_broken(&(job){.first = "cuda:0", .last = last, .more = more, .every = break_the_first}, 0);
    assert_true(out.started);
    compare(&out, on_processors());
    for (int i = 0; i < SINKS; i++)
        assert_int_equal(out.of[i].records[out.of[i].count - 1].seq, FRAMES - 1);
    assert_in_range(out.dropped, 1, FRAMES - 1);
    expect_said(words);
    free_outcome(&out);
}

TEST(others_take_over) {
    take_over("cpu", ", in_flight: 2, on_device_error: cpu", "cuda:0 has failed; from now on cpu does the work");
    take_over("cuda:1", ", in_flight: 2, on_device_error: cuda:1",
              "cuda:0 has failed; from now on cuda:1 does the work");
}

TEST(missing_kernels_are_said) {
    said[0] = 0;
    mr_log_to(listen, NULL);
    mr_host_lack_kernels(true);
    ENDED_BY(free_outcome) outcome out = run(&(job){.first = "cuda:0", .last = "cuda:0", .more = ""});
    mr_host_lack_kernels(false);
    mr_log_to(NULL, NULL);
    assert_true(out.started);
    assert_int_equal(out.dropped, FRAMES);
    expect_said("no kernel image is available for execution on the device");
}
#endif

static int prepare(void **state) {
    draw_pictures();
    return 0;
}

RUN_TESTS(prepare, NULL)
