/* Marks of frames that are lost or made again (gap.h) on their way through joins. Here a stage puts one before each
 * frame, as the end of a cut does when a connection is back: no later frame may come before it, and none waits for it.
 */
#include <stdio.h>
#include <string.h>

#include "engine/data/gap.h"
#include "engine/flow/instance/entry.h"
#include "engine/flow/instance/hooks.h"
#include "tests/flow/cascade_stages.h"
#include "tests/support/flow_run.h"
#include "tests/support/quiet.h"
#include "tests/support/suite.h"
#include "tests/support/worker_counts.h"

enum { FRAMES = 60, SOURCES = 2, SEEDS = 20 };

/* Whether the marks say `renewed`, or else `lost`; whether there are some only after frames that are cut off. */
static bool renewed, few;

/* Of these frames an object comes, then a mark, and neither the others nor their end. */
static bool is_cut_off(uint64_t seq) {
    return seq % 5 == 3;
}

/* ---- stage types ------------------------------------------------------------------------------------------------- */

static mr_identity mark_before(const mr_identity *frame) {
    const mr_identity last = {.source = frame->source, .epoch = frame->epoch, .seq = frame->seq - 1};
    return renewed ? mr_identity_renewed(frame->source, frame->seq) : mr_identity_lost(last);
}

static int mark_process(mr_stage *self, mr_io *io) {
    const mr_identity *frame = &mr_io_input(io)->identity;
    if (frame->seq && (!few || is_cut_off(frame->seq - 1))) {
        const mr_item mark = {.kind = MR_ITEM_GAP, .source = frame->source, .identity = mark_before(frame)};
        assert_int_equal(mr_slot_add_mark_outputs(io->slot, 1, &mark, self->id), MR_OK);
    }
    return mr_io_forward(io, 0);
}

/* The frame that must come next, and whether the mark before it has come. */
static struct {
    uint64_t seq;
    bool marked;
} next[SOURCES];

static int watch_process(mr_stage *self, mr_io *io) {
    const mr_identity *frame = &mr_io_input(io)->identity;
    assert_int_equal(frame->seq, next[frame->source].seq);
    assert_int_equal(next[frame->source].marked, frame->seq > 0);
    next[frame->source].seq++;
    next[frame->source].marked = false;
    return mr_io_forward(io, 0);
}

static int watch_mark(mr_stage *self, const mr_item *mark) {
    const uint32_t source = mark->source;
    if (mark->kind != MR_ITEM_GAP)
        return MR_DONE;
    const mr_identity wanted = mark_before(&(mr_identity){.source = source, .seq = next[source].seq});
    assert_int_equal(mr_identity_compare(&mark->identity, &wanted), 0);
    assert_false(next[source].marked);
    next[source].marked = true;
    return MR_DONE;
}

/* How many objects the frames got. */
static uint32_t found[SOURCES][FRAMES];

static uint32_t objects_of(uint64_t seq) {
    return (uint32_t)(seq * 7 % 11) % 4;
}

static int split_process(mr_stage *self, mr_io *io) {
    return flow_split(io, objects_of(mr_io_input(io)->identity.seq));
}

static int cut_process(mr_stage *self, mr_io *io) {
    const mr_frame *input = mr_io_input(io);
    const mr_identity next_one = {.source = input->identity.source, .seq = input->identity.seq + 1};
    const mr_item mark = {.kind = MR_ITEM_GAP, .source = next_one.source, .identity = mark_before(&next_one)};
    mr_frame *object;
    if (!is_cut_off(input->identity.seq))
        return split_process(self, io);
    assert_int_equal(mr_io_share(io, input, &object), MR_OK);
    assert_int_equal(mr_io_set_object(io, object, 1), MR_OK);
    assert_int_equal(mr_io_emit(io, 0, object), MR_OK);
    return mr_slot_add_mark_outputs(io->slot, 1, &mark, self->id);
}

static int unite_process(mr_stage *self, mr_io *io) {
    const mr_identity *of = &mr_io_input(io)->identity;
    if (of->sub) {
        found[of->source][of->seq]++;
        return MR_DONE;
    }
    assert_int_equal(found[of->source][of->seq], objects_of(of->seq));
    assert_false(mr_io_lost_objects(io));
    return mr_io_forward(io, 0);
}

static const mr_stage_hooks hooks = {.mark = watch_mark};
static const mr_stage_type mark = {.name = "mark", .summary = "marks", .inputs = in, .outputs = out,
                                   .entry = MR_ENTRY_PER_SOURCE, .process = mark_process};
static const mr_stage_type watch = {.name = "watch", .summary = "watches", .inputs = in, .outputs = out,
                                    .hooks = &hooks, .entry = MR_ENTRY_SHARED, .process = watch_process};
static const mr_stage_type split = CASCADE_SPLIT(split_process);
static const mr_stage_type cut = {.name = "cut", .summary = "splits, and stops", .inputs = in, .outputs = out,
                                  .entry = MR_ENTRY_PER_SOURCE, .cascade = MR_CASCADE_SPLIT, .process = cut_process};
static const mr_stage_type unite = CASCADE_UNITE(unite_process);
static const mr_stage_type *const types[] = {&mark, &watch, &split, &cut, &unite, NULL};

/* ---- tests ------------------------------------------------------------------------------------------------------- */

/* A stage gets marks only if a join follows: `last`, whose other input has the same marks. */
static void run(const char *stages, uint64_t seed, int workers) {
    char text[1024];
    memset(next, 0, sizeof next);
    memset(found, 0, sizeof found);
    snprintf(text, sizeof text, FLOW "sources: {a: {type: count, frames: %d}, b: {type: count, frames: %d}}\nstages:\n"
             "  left: {type: mark, input: sources.*}\n  right: {type: mark, input: sources.*}\n%s"
             "  watch: {input: both}\n  beside: {type: mark, input: sources.*}\n"
             "  last: {type: meet, join: {x: watch, y: beside}}\n  out: {type: collect, input: last}\n",
             FRAMES, FRAMES, stages);
    mr_pipeline *pipeline = flow_open_with(types, text, seed, workers);
    mr_summary *summary = flow_run(pipeline);
    assert_int_equal(summary->delivered, SOURCES * FRAMES);
    for (size_t i = 0; i < SOURCES; i++)
        assert_int_equal(next[i].seq, FRAMES);
    flow_close(&pipeline, &summary);
}

static void run_all(const char *stages) {
    for (int i = 0; i < 2; i++) {
        renewed = i;
        for (uint64_t seed = 1; seed <= FLOW_SEEDS(SEEDS); seed++)
            run(stages, seed, 1);
        EACH_WORKER_COUNT(workers)
            run(stages, 0, workers);
    }
}

TEST(a_join_lets_no_later_frame_pass_a_mark) {
    run_all("  both: {type: meet, join: {x: left, y: right}}\n");
}

TEST(nor_does_a_gathering_stage) {
    run_all("  split: {input: left}\n  both: {type: unite, join: {frames: right, objects: split}}\n");
}

/* Another process makes it again, with all objects. `unite_process` would notice a frame without some. */
static void run_cut_off(uint64_t seed, int workers) {
    char text[512];
    memset(found, 0, sizeof found);
    snprintf(text, sizeof text, FLOW "sources: {a: {type: count, frames: %d}, b: {type: count, frames: %d}}\nstages:\n"
             "  frames: {type: mark, input: sources.*}\n  objects: {type: cut, input: sources.*}\n"
             "  both: {type: unite, join: {frames: frames, objects: objects}}\n  out: {type: collect, input: both}\n",
             FRAMES, FRAMES);
    mr_pipeline *pipeline = flow_open_with(types, text, seed, workers);
    mr_summary *summary = flow_run(pipeline);
    uint64_t cut_off = 0;
    for (uint64_t seq = 0; seq < FRAMES; seq++)
        cut_off += is_cut_off(seq);
    assert_int_equal(summary->delivered, SOURCES * (FRAMES - cut_off));
    assert_int_equal(summary->absorbed, SOURCES * cut_off);
    flow_close(&pipeline, &summary);
}

TEST(a_frame_whose_objects_stop_at_a_new_process_goes_no_further) {
    renewed = few = true;
    for (uint64_t seed = 1; seed <= FLOW_SEEDS(SEEDS); seed++)
        run_cut_off(seed, 1);
    EACH_WORKER_COUNT(workers)
        run_cut_off(0, workers);
    few = false;
}

RUN_TESTS(be_quiet, NULL)
