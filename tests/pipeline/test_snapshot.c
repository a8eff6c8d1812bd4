/* Snapshots from a running pipeline with 1 to 16 workers: no count ever decreases, every source's ledger always
 * balances, and the last snapshot is exact. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "millrace/stage.h"
#include "tests/support/flow_run.h"
#include "tests/support/opened.h"
#include "tests/support/suite.h"
#include "tests/support/worker_counts.h"

enum { SOURCES = 3, FRAMES = 3000, EVERY = 3, CLASSES = 300, READERS = 3, TYPES = 64 };

/* ---- stage types ------------------------------------------------------------------------------------------------- */

/* A class by the frame's number. */
static int name_frame(mr_stage *self, mr_io *io) {
    const mr_frame *from = mr_io_input(io);
    mr_frame *made;
    mr_result *result;
    int status = mr_io_derive(io, from, &made);
    if (!status && (status = mr_io_add_result(io, made, mr_kind_classes(), 1, &result)))
        mr_frame_unref(&made);
    if (status)
        return status;
    result->count = 1;
    result->classes[0] = (mr_class){.index = (int32_t)(from->identity.seq % CLASSES), .score = 0.5f};
    return mr_io_emit(io, 0, made);
}

static int take(mr_stage *self, mr_io *io) {
    return MR_DONE;
}

static const mr_port one_port[] = {{.name = "port", .help = "anything"}, {0}};
static const mr_stage_type name_type = {.name = "name", .summary = "for tests", .inputs = one_port, .outputs = one_port,
                                        .process = name_frame};
static const mr_stage_type take_type = {.name = "take", .summary = "for tests", .inputs = one_port, .process = take};

static const char text[] = "version: 1\npipeline: seen\nsources:\n"
                           "  a: {type: count, frames: 3000}\n  b: {type: count, frames: 3000}\n"
                           "  c: {type: count, frames: 3000}\nstages:\n"
                           "  name: {type: name, input: [a, b, c]}\n"
                           "  gate: {type: gate, input: name, every: 3}\n"
                           "  out: {type: take, input: gate, queue: {size: 1, when_full: drop-oldest}}\n";

static mr_pipeline *open_seen(int workers) {
    static const mr_stage_type *types[TYPES];
    size_t count = 0;
    for (const mr_stage_type *const *type = flow_stage_types(); *type; type++)
        types[count++] = *type;
    assert_true(count + 3 <= TYPES);
    types[count++] = &name_type;
    types[count++] = &take_type;
    types[count] = NULL;
    const mr_pipeline_params params = {.types = types, .path = "p.yaml", .text = text, .workers = workers};
    return opened(&params);
}

/* ---- what must hold ---------------------------------------------------------------------------------------------- */

/* The first that does not; read once the readers have ended. */
static _Atomic(const char *) fault;

static void expect(bool holds, const char *what) {
    if (!holds)
        atomic_store(&fault, what);
}

static void compare_durations(const mr_durations *before, const mr_durations *now) {
    uint64_t count = 0;
    for (int i = 0; i < MR_DURATION_BUCKETS; i++) {
        expect(now->bucket[i] >= before->bucket[i], "a bucket has fallen");
        count += now->bucket[i];
    }
    expect(now->count == count, "a count that is not that of its buckets");
    expect(now->sum_ns >= before->sum_ns, "a sum has fallen");
}

static void check_source(const mr_source_summary *row) {
    uint64_t lines = 0;
    for (size_t i = 0; i < row->line_count; i++)
        lines += row->lines[i].frames;
    expect(row->in_flight <= row->in && row->unaccounted == 0, "frames in flight");
    expect(row->in == row->delivered + row->dropped + row->absorbed + row->in_flight, "the ledger of a source");
    expect(lines == row->dropped + row->absorbed, "lines that are not the sum");
    expect(row->classified <= row->in && row->class_count <= 5, "classes");
    for (size_t i = 1; i < row->class_count; i++)
        expect(row->classes[i].frames <= row->classes[i - 1].frames, "classes that are not in order");
}

static void compare(const mr_summary *before, const mr_summary *now) {
    expect(now->source_count == SOURCES && now->stage_count == before->stage_count && now->balanced, "a summary");
    for (size_t i = 0; i < now->source_count; i++) {
        const mr_source_summary *was = &before->sources[i], *is = &now->sources[i];
        check_source(is);
        expect(is->in >= was->in && is->delivered >= was->delivered && is->dropped >= was->dropped &&
                   is->absorbed >= was->absorbed && is->classified >= was->classified, "a source's count has fallen");
    }
    for (size_t i = 0; i < now->stage_count; i++) {
        const mr_stage_summary *was = &before->stages[i], *is = &now->stages[i];
        expect(is->in >= was->in && is->out >= was->out && is->calls >= was->calls && is->busy_ns >= was->busy_ns,
               "a stage's count has fallen");
        compare_durations(&was->latency, &is->latency);
    }
    compare_durations(&before->latency, &now->latency);
    expect(now->first_s >= before->first_s, "the time of the first frame");
}

typedef struct reader {
    mr_pipeline *pipeline;
    int64_t age_ns; /* -1: a summary of its own */
    uint64_t read;
} reader;

static atomic_bool over;

static void read_one(const reader *from, mr_summary **summary) {
    int status = from->age_ns < 0 ? mr_pipeline_summarize(from->pipeline, summary)
                                  : mr_pipeline_snapshot(from->pipeline, from->age_ns, summary);
    expect(status == MR_OK, "no summary");
}

static void *read_on(void *context) {
    reader *from = context;
    mr_summary *before = NULL, *now = NULL;
    read_one(from, &before);
    while (!atomic_load(&over) && !atomic_load(&fault)) {
        read_one(from, &now);
        compare(before, now);
        mr_summary_destroy(&before);
        before = now;
        from->read++;
    }
    mr_summary_destroy(&before);
    return NULL;
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

static void check_last(mr_pipeline *pipeline) {
    mr_summary *last, *again, *own;
    assert_int_equal(mr_pipeline_snapshot(pipeline, INT64_MAX, &last), MR_OK);
    assert_int_equal(mr_pipeline_snapshot(pipeline, 0, &again), MR_OK);
    assert_ptr_equal(last, again); /* nothing changes any more */
    mr_summary_destroy(&again);
    assert_null(again);
    assert_int_equal(mr_pipeline_summarize(pipeline, &own), MR_OK);
    compare(last, own);
    compare(own, last);
    mr_summary_destroy(&own);
    assert_int_equal(last->in, SOURCES * FRAMES);
    assert_int_equal(last->in, last->delivered + last->dropped + last->absorbed);
    assert_int_equal(last->absorbed, SOURCES * FRAMES * (EVERY - 1) / EVERY);
    assert_int_equal(last->latency.count, last->delivered);
    for (size_t i = 0; i < SOURCES; i++) {
        assert_int_equal(last->sources[i].classified, last->sources[i].delivered);
        assert_int_equal(last->sources[i].unsettled_count, 0);
    }
    for (size_t i = SOURCES; i < last->stage_count; i++)
        assert_int_equal(last->stages[i].latency.count, last->stages[i].in);
    mr_summary_destroy(&last);
}

TEST(snapshots_only_rise_and_balance) {
    static const int64_t ages[READERS] = {-1, 0, 1000000};
    EACH_WORKER_COUNT(workers) {
        reader readers[READERS];
        pthread_t threads[READERS];
        ENDED_BY(mr_pipeline_destroy) mr_pipeline *pipeline = open_seen(workers);
        atomic_store(&over, false);
        assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
        for (int i = 0; i < READERS; i++) {
            readers[i] = (reader){pipeline, ages[i], 0};
            assert_int_equal(pthread_create(&threads[i], NULL, read_on, &readers[i]), 0);
        }
        assert_int_equal(ended(pipeline), MR_OK);
        atomic_store(&over, true);
        for (int i = 0; i < READERS; i++)
            pthread_join(threads[i], NULL);
        const char *found = atomic_load(&fault);
        if (found)
            fail_msg("%d workers: %s", workers, found);
        check_last(pipeline);
        assert_null(atomic_load(&fault));
    }
}

/* Readers that ask at once have one summary, and may keep it however many come after it. */
TEST(readers_share_a_snapshot) {
    mr_summary *first, *second, *third;
    ENDED_BY(mr_pipeline_destroy) mr_pipeline *pipeline = open_seen(2);
    assert_int_equal(mr_pipeline_snapshot(pipeline, INT64_MAX, &first), MR_OK);
    assert_int_equal(mr_pipeline_snapshot(pipeline, INT64_MAX, &second), MR_OK);
    assert_ptr_equal(first, second);
    assert_int_equal(mr_pipeline_snapshot(pipeline, 0, &third), MR_OK);
    assert_ptr_not_equal(first, third);
    mr_summary_destroy(&second);
    assert_string_equal(first->pipeline, "seen");
    assert_int_equal(first->in, 0);
    mr_summary_destroy(&first);
    mr_summary_destroy(&third);
    assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
    assert_int_equal(ended(pipeline), MR_OK);
    check_last(pipeline);
}

/* A change is seen at once, however old a summary may be. */
TEST(changes_are_seen_at_once) {
    mr_summary *before, *after;
    mr_pipeline *pipeline = open_seen(2);
    assert_int_equal(mr_pipeline_snapshot(pipeline, INT64_MAX, &before), MR_OK);
    mr_pipeline_stop(pipeline, false);
    assert_int_equal(mr_pipeline_snapshot(pipeline, INT64_MAX, &after), MR_OK);
    assert_ptr_not_equal(before, after);
    mr_summary_destroy(&before);
    flow_close(&pipeline, &after);
}

RUN_TESTS(NULL, NULL)
