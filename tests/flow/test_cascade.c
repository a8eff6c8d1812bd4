/* Cascades: a frame for each object, any stages, and back onto the frame. A frame has one object, ten or none, by its
 * number. Whatever becomes of objects on the way, all frames come out in order, none waits for ever, and frames and
 * objects are accounted for apart. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "engine/pipeline/pipeline.h"
#include "tests/flow/cascade_stages.h"
#include "tests/support/flow_run.h"
#include "tests/support/flow_stages.h"
#include "tests/support/quiet.h"
#include "tests/support/suite.h"
#include "tests/support/worker_counts.h"

enum { FRAMES = 60, SOURCES = 2, SEEDS = 20 };

/* How many objects the second stage found on each frame, in which order the last object came, and whether the engine
 * said that some are lost. */
static uint32_t found[SOURCES][FRAMES], last[SOURCES][FRAMES];
static bool lost[SOURCES][FRAMES];

static uint32_t objects_of(uint64_t seq) {
    return seq % 10 == 9 ? 100 : (uint32_t)(seq * 7 % 11) % 4;
}

static uint64_t objects_in_all(void) {
    uint64_t sum = 0;
    for (uint64_t seq = 0; seq < FRAMES; seq++)
        sum += objects_of(seq);
    return sum;
}

/* ---- stage types ------------------------------------------------------------------------------------------------- */

static int split_process(mr_stage *self, mr_io *io) {
    return flow_split(io, objects_of(mr_io_input(io)->identity.seq));
}

static int unite_process(mr_stage *self, mr_io *io) {
    const mr_identity *of = &mr_io_input(io)->identity;
    if (!of->sub) {
        lost[of->source][of->seq] = mr_io_lost_objects(io);
        return mr_io_forward(io, 0);
    }
    assert_true(of->sub > last[of->source][of->seq]);
    last[of->source][of->seq] = of->sub;
    found[of->source][of->seq]++;
    return MR_DONE;
}

typedef struct third_options {
    int64_t every;
} third_options;

/* Objects whose number is a multiple of `every`: absorbed or failed. */
static int some_process(mr_stage *self, mr_io *io) {
    const third_options *options = self->options;
    mr_frame *frame = mr_io_input(io);
    if (frame->identity.sub % (uint64_t)options->every)
        return mr_io_forward(io, 0);
    if (strcmp(self->type->name, "failing") == 0)
        return mr_fail(MR_ERROR_DATA, "object %d cannot be read", (int)frame->identity.sub);
    mr_io_absorb(io, frame, "small");
    return MR_DONE;
}

/* Gives each frame, and after it an object of it, which it must not. */
static int pose_process(mr_stage *self, mr_io *io) {
    mr_frame *frame = NULL;
    int status = mr_io_share(io, mr_io_input(io), &frame);
    if (!status && !(status = mr_io_set_object(io, frame, 1)))
        status = mr_io_forward(io, 0);
    return status ? status : mr_io_emit(io, 0, frame);
}

static const mr_option some_options[] = {
    {.name = "every", .kind = MR_OPTION_INT, .offset = offsetof(third_options, every), .fallback = "3", .min = 1,
     .max = 100, .help = "which objects"},
    MR_OPTIONS_END};
static const mr_stage_type split = CASCADE_SPLIT(split_process);
static const mr_stage_type unite = CASCADE_UNITE(unite_process);
static const mr_stage_type absorbing = {.name = "absorbing", .summary = "absorbs", .inputs = in, .outputs = out,
                                        .options = some_options, .options_bytes = sizeof(third_options),
                                        .process = some_process};
static const mr_stage_type failing = {.name = "failing", .summary = "fails", .inputs = in, .outputs = out,
                                      .options = some_options, .options_bytes = sizeof(third_options),
                                      .process = some_process};
static const mr_stage_type posing = {.name = "posing", .summary = "poses", .inputs = in, .outputs = out,
                                     .process = pose_process};
static const mr_stage_type *const types[] = {&split, &unite, &absorbing, &failing, &posing, NULL};

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* What must come out. */
typedef struct outcome {
    bool (*check_found)(uint32_t of, uint32_t found); /* NULL: all objects */
    uint64_t frames;         /* that arrive, of each source; 0: all */
    uint64_t dropped_frames; /* in all */
    const char *stage, *reason; /* the first line of objects; NULL: none */
    bool some_dropped;       /* frames may also be dropped */
    bool absorbed;           /* objects that do not come are absorbed, and not lost */
    bool may_be_lost;        /* a frame may count as lost though all its objects were found */
} outcome;

static void check_objects(const mr_summary *summary, const outcome *wanted, size_t sources) {
    const mr_object_summary *objects = &summary->objects;
    assert_int_equal(objects->in, objects->delivered + objects->dropped + objects->absorbed);
    assert_int_equal(objects->in_flight + objects->unaccounted, 0);
    if (!wanted->some_dropped)
        assert_int_equal(objects->in, sources * objects_in_all());
    if (!wanted->stage && !wanted->some_dropped) {
        assert_int_equal(objects->delivered, objects->in);
    } else if (wanted->stage) {
        assert_true(objects->line_count > 0);
        assert_string_equal(objects->lines[0].stage, wanted->stage);
        assert_string_equal(objects->lines[0].reason, wanted->reason);
    }
}

static void check_frames(const outcome *wanted, size_t sources) {
    size_t next[SOURCES] = {0};
    for (size_t i = 0; i < collection_count; i++) {
        const mr_identity *one = &collection[i].identity;
        const uint32_t of = objects_of(one->seq), got = found[one->source][one->seq];
        assert_int_equal(one->sub, 0);
        assert_true(one->seq >= next[one->source]);
        next[one->source] = one->seq + 1;
        assert_true(wanted->check_found ? wanted->check_found(of, got) : of == got);
        if (!wanted->may_be_lost || got < of)
            assert_int_equal(lost[one->source][one->seq], got < of && !wanted->absorbed);
    }
    if (!wanted->some_dropped)
        assert_int_equal(collection_count, sources * (wanted->frames ? wanted->frames : FRAMES));
}

static void run(const char *stages, size_t sources, uint64_t seed, int workers, const outcome *wanted) {
    char text[2048];
    memset(found, 0, sizeof found);
    memset(last, 0, sizeof last);
    snprintf(text, sizeof text, FLOW "sources: {a: {type: count, frames: %d}%s}\nstages:\n"
             "  first: {type: pass, input: sources.*}\n%s  out: {type: collect, input: unite}\n", FRAMES,
             sources > 1 ? ", b: {type: count, frames: 60}" : "", stages);
    mr_pipeline *pipeline = flow_open_with(types, text, seed, workers);
    mr_summary *summary = flow_run(pipeline);
    check_frames(wanted, sources);
    check_objects(summary, wanted, sources);
    if (!wanted->some_dropped)
        assert_int_equal(summary->dropped, wanted->dropped_frames);
    flow_close(&pipeline, &summary);
}

static void run_all(const char *stages, const outcome *wanted) {
    for (size_t sources = 1; sources <= SOURCES; sources++) {
        for (uint64_t seed = 1; seed <= FLOW_SEEDS(SEEDS); seed++)
            run(stages, sources, seed, 1, wanted);
        EACH_WORKER_COUNT(workers)
            run(stages, sources, 0, workers, wanted);
    }
}

#define SPLIT "  split: {input: first}\n"
#define UNITE_WITH(frames, objects) "  unite: {join: {frames: " frames ", objects: " objects "}}\n"
#define UNITE(objects) UNITE_WITH("first", objects)

static bool is_part(uint32_t of, uint32_t got) {
    return got <= of;
}

static bool is_none(uint32_t of, uint32_t got) {
    return got == 0;
}

static bool lacks_third(uint32_t of, uint32_t got) {
    return got == of - of / 3;
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

TEST(all_come) {
    run_all(SPLIT UNITE("split"), &(outcome){0});
    run_all(SPLIT "  one: {type: pass, input: split}\n  two: {type: pass, input: one, queue: {size: 1}}\n" UNITE("two"),
            &(outcome){0});
}

TEST(frames_come_a_longer_way) {
    run_all(SPLIT "  late: {type: pass, input: first}\n  later: {type: pass, input: late}\n"
                  UNITE_WITH("later", "split"), &(outcome){0});
}

/* While the split waits for room for a frame's objects, it must take the frames that fill the batch. */
TEST(frames_gather_in_batches_meanwhile) {
    run_all("  split: {input: first, queue: {size: 16}}\n  late: {type: batcher, input: first, batch: 8}\n"
                  UNITE_WITH("late", "split"), &(outcome){0});
    run_all(SPLIT "  late: {type: batcher, input: first, batch: 50}\n" UNITE_WITH("late", "split"), &(outcome){0});
}

/* A batch is never waited for by the frames that would fill it. */
TEST(batches) {
    run_all(SPLIT "  many: {type: batcher, input: split, batch: 8}\n" UNITE("many"), &(outcome){0});
    run_all(SPLIT "  many: {type: batcher, input: split, batch: 64}\n" UNITE("many"), &(outcome){0});
    run_all(SPLIT "  many: {type: gatherer, input: split}\n" UNITE("many"), &(outcome){0});
}

/* Two ways for objects, which an ordinary join brings together. */
TEST(ways_within) {
    run_all(SPLIT "  one: {type: pass, input: split}\n  two: {type: batcher, input: split, batch: 4}\n"
                  "  both: {type: meet, join: {x: one, y: two}}\n" UNITE("both"), &(outcome){0});
    run_all(SPLIT "  one: {type: absorbing, input: split}\n  two: {type: batcher, input: split, batch: 4}\n"
                  "  both: {type: meet, join: {x: one, y: two}}\n" UNITE("both"),
            &(outcome){.check_found = lacks_third, .stage = "one", .reason = "small", .absorbed = true});
}

TEST(objects_are_absorbed) {
    run_all(SPLIT "  one: {type: absorbing, input: split}\n" UNITE("one"),
            &(outcome){.check_found = lacks_third, .stage = "one", .reason = "small", .absorbed = true});
    run_all(SPLIT "  one: {type: absorbing, input: split, every: 1}\n" UNITE("one"),
            &(outcome){.check_found = is_none, .stage = "one", .reason = "small", .absorbed = true});
}

TEST(objects_fail) {
    run_all(SPLIT "  one: {type: failing, input: split}\n  two: {type: pass, input: one}\n" UNITE("two"),
            &(outcome){.check_found = lacks_third, .stage = "one", .reason = "error"});
}

/* The frames' fate is not the objects': all of them arrive. */
TEST(objects_are_dropped) {
    static const char *const policies[] = {"drop-oldest", "drop-newest"};
    for (size_t i = 0; i < 2; i++) {
        char stages[512];
        snprintf(stages, sizeof stages, SPLIT "  slow: {type: slow, input: split, period: 20us, "
                 "queue: {size: 2, when_full: %s}}\n" UNITE("slow"), policies[i]);
        run_all(stages, &(outcome){.check_found = is_part, .stage = "slow", .reason = "queue full"});
    }
}

/* Frames that are dropped before the split pass without objects. They count as dropped, though they arrive. */
TEST(frames_are_dropped_before) {
    run_all("  slow: {type: slow, input: first, period: 20us, queue: {size: 2, when_full: drop-oldest}}\n"
            "  split: {input: slow}\n" UNITE("split"),
            &(outcome){.check_found = is_part, .some_dropped = true, .may_be_lost = true});
}

/* Objects whose frame is lost are absorbed; nothing waits for it. */
TEST(frames_are_absorbed_beside) {
    run_all(SPLIT "  half: {type: gate, input: first, every: 2}\n"
                  UNITE_WITH("half", "split"),
            &(outcome){.frames = FRAMES / 2, .stage = "unite", .reason = "unmatched"});
}

/* Another node may send objects among the frames: they belong to no frame. */
TEST(objects_among_frames_are_unmatched) {
    EACH_WORKER_COUNT(workers) {
        memset(found, 0, sizeof found);
        memset(last, 0, sizeof last);
        mr_pipeline *pipeline = flow_open_with(
            types, FLOW_A(60) "  first: {type: posing, input: a}\n  split: {input: a}\n" UNITE("split")
            "  out: {type: collect, input: unite}\n", 0, workers);
        mr_summary *summary = flow_run(pipeline);
        check_frames(&(outcome){0}, 1);
        assert_int_equal(summary->objects.in, objects_in_all() + FRAMES);
        assert_int_equal(summary->objects.delivered, objects_in_all());
        assert_int_equal(summary->objects.absorbed, FRAMES);
        assert_string_equal(summary->objects.lines[0].reason, "unmatched");
        flow_close(&pipeline, &summary);
    }
}

/* A source whose frames have no objects passes, though other sources' frames have some. */
TEST(only_one_source_has_objects) {
    EACH_WORKER_COUNT(workers) {
        memset(last, 0, sizeof last);
        mr_pipeline *pipeline = flow_open_with(
            types, FLOW "sources: {a: {type: count, frames: 60}, b: {type: count, frames: 60}}\nstages:\n"
            "  first: {type: pass, input: sources.*}\n  split: {input: a}\n" UNITE("split")
            "  out: {type: collect, input: unite}\n", 0, workers);
        mr_summary *summary = flow_run(pipeline);
        assert_int_equal(summary->delivered, 2 * FRAMES);
        assert_int_equal(summary->objects.delivered, objects_in_all());
        flow_close(&pipeline, &summary);
    }
}

/* A source whose objects come without their frames: a later join does not wait for these. */
TEST(only_one_source_has_frames) {
    EACH_WORKER_COUNT(workers) {
        memset(last, 0, sizeof last);
        mr_pipeline *pipeline = flow_open_with(
            types, FLOW "sources: {a: {type: count, frames: 60}, b: {type: count, frames: 60}}\nstages:\n"
            "  first: {type: pass, input: sources.*}\n  split: {input: first}\n" UNITE_WITH("a", "split")
            "  both: {type: meet, join: {x: first, y: unite}, queue: {size: 2}}\n  out: {type: collect, input: both}\n",
            0, workers);
        mr_summary *summary = flow_run(pipeline);
        assert_int_equal(summary->delivered, FRAMES);
        assert_int_equal(summary->absorbed, FRAMES);
        assert_int_equal(summary->objects.absorbed, objects_in_all());
        flow_close(&pipeline, &summary);
    }
}

/* Two cascades, one after the other. */
TEST(cascades_in_a_row) {
    run_all("  split-a: {type: split, input: first}\n"
            "  unite-a: {type: unite, join: {frames: first, objects: split-a}}\n"
            "  split: {input: unite-a}\n  one: {type: absorbing, input: split, every: 1}\n"
            UNITE_WITH("unite-a", "one"),
            &(outcome){.some_dropped = true, .may_be_lost = true});
}

/* Objects need not be gathered: the frame is delivered if an object is, else it is absorbed. */
TEST(nothing_gathers) {
    uint64_t with = 0;
    for (uint64_t seq = 0; seq < FRAMES; seq++)
        with += objects_of(seq) > 0;
    EACH_WORKER_COUNT(workers) {
        mr_pipeline *pipeline = flow_open_with(types, FLOW_A(60) "  split: {input: a}\n"
                                               "  out: {type: collect, input: split}\n", 0, workers);
        mr_summary *summary = flow_run(pipeline);
        assert_int_equal(summary->delivered, with);
        assert_int_equal(summary->absorbed, FRAMES - with);
        assert_string_equal(summary->lines[0].reason, "split");
        assert_int_equal(summary->objects.delivered, objects_in_all());
        assert_int_equal(collection_count, objects_in_all());
        flow_close(&pipeline, &summary);
    }
}

/* What is on the way when a run is stopped at once is dropped, and nothing is lost from the accounts. */
TEST(stopped) {
    for (int i = 0; i < 20; i++) {
        memset(last, 0, sizeof last);
        mr_pipeline *pipeline = flow_open_with(
            types, FLOW_A(60) "  first: {type: pass, input: a}\n" SPLIT
            "  slow: {type: slow, input: split, period: 50us}\n" UNITE("slow") "  out: {type: collect, input: unite}\n",
            0, next_worker_count());
        assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
        while (mr_pipeline_wait(pipeline, i * 100000) == MR_ERROR_AGAIN)
            mr_pipeline_stop(pipeline, true);
        mr_summary *summary;
        assert_int_equal(mr_pipeline_summarize(pipeline, &summary), MR_OK);
        const mr_object_summary *objects = &summary->objects;
        assert_true(summary->balanced);
        assert_int_equal(summary->in_flight + objects->in_flight, 0);
        assert_int_equal(objects->in, objects->delivered + objects->dropped + objects->absorbed);
        flow_close(&pipeline, &summary);
    }
}

RUN_TESTS(be_quiet, NULL)
