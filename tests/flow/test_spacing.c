/* Stages that work on one of several frames, by number or by time, and the stages before them, which then make nothing
 * for the others. */
#include <stdio.h>

#include "engine/flow/instance/spacing.h"
#include "tests/support/flow_run.h"
#include "tests/support/quiet.h"
#include "tests/support/suite.h"

enum { SEEDS = FLOW_SEEDS(25), FRAMES = 200 };
static const int64_t MS = 1000000;

/* ---- which frames ------------------------------------------------------------------------------------------------ */

typedef struct moment {
    int64_t at_ms;
    uint32_t epoch;
    bool worked;
} moment;

static void follow(mr_spacing *spacing, uint32_t source, const moment *moments, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const mr_frame frame = {.pts_ns = moments[i].at_ms * MS, .identity = {.epoch = moments[i].epoch, .seq = i}};
        for (int again = 0; again < 2; again++)
            assert_int_equal(mr_spacing_passes(spacing, source, &frame), !moments[i].worked);
        mr_spacing_take(spacing, source, &frame);
    }
}

/* The steps count from the epoch's first frame, whatever comes between; other sources have other steps. */
TEST(one_frame_in_each_step) {
    static const moment one[] = {{40, 0, true},   {73, 0, false},  {139, 0, false}, {140, 0, true}, {239, 0, false},
                                 {260, 0, true},  {339, 0, false}, {341, 0, true},  {999, 0, true}, {1039, 0, false},
                                 {1040, 0, true}, {10, 1, true},   {109, 1, false}, {110, 1, true}, {50, 1, true},
                                 {149, 1, false}, {150, 1, true}};
    static const moment other[] = {{0, 0, true}, {99, 0, false}, {100, 0, true}};
    const mr_view_calls calls = {.every = {.time_ns = 100 * MS}};
    ENDED_BY(mr_spacing_destroy) mr_spacing spacing;
    assert_int_equal(mr_spacing_create(&spacing, &calls, 2), MR_OK);
    assert_true(mr_spacing_is_on(&spacing));
    follow(&spacing, 1, one, sizeof one / sizeof *one);
    follow(&spacing, 0, other, sizeof other / sizeof *other);
    mr_spacing_renew(&spacing);
    follow(&spacing, 1, &(moment){1141, 1, true}, 1);
}

/* Tiles and cut-outs of a picture are passed, or not, with it. */
TEST(parts_of_a_frame_are_passed_together) {
    const mr_view_calls calls = {.every = {.time_ns = 100 * MS}};
    ENDED_BY(mr_spacing_destroy) mr_spacing spacing;
    assert_int_equal(mr_spacing_create(&spacing, &calls, 1), MR_OK);
    for (uint64_t seq = 0; seq < 10; seq++)
        for (uint32_t part = 0; part < 3; part++) {
            const mr_frame frame = {.pts_ns = (int64_t)seq * 50 * MS, .identity = {.seq = seq, .sub = part}};
            assert_int_equal(mr_spacing_passes(&spacing, 0, &frame), seq % 2);
            mr_spacing_take(&spacing, 0, &frame);
        }
}

/* Steps that do not end in representable time, and frames without a time. */
TEST(times_at_the_ends) {
    const mr_view_calls calls = {.every = {.time_ns = INT64_MAX / 2}};
    mr_frame frame = {.pts_ns = MR_MOST_TIME_NS};
    ENDED_BY(mr_spacing_destroy) mr_spacing spacing;
    assert_int_equal(mr_spacing_create(&spacing, &calls, 1), MR_OK);
    assert_false(mr_spacing_passes(&spacing, 0, &frame));
    mr_spacing_take(&spacing, 0, &frame);
    frame = (mr_frame){.pts_ns = MR_NO_TIME, .born_ns = 5, .identity.epoch = 1};
    assert_false(mr_spacing_passes(&spacing, 0, &frame));
    mr_spacing_take(&spacing, 0, &frame);
    frame.born_ns = 6;
    frame.identity.seq = 1;
    assert_true(mr_spacing_passes(&spacing, 0, &frame));
}

/* A frame that was taken and then dropped has not used up its step; a later one keeps its own. */
TEST(the_next_frame_takes_the_place_of_one_that_was_dropped) {
    static const moment first[] = {{0, 0, true}, {50, 0, false}}, then[] = {{60, 0, true}, {90, 0, false}},
                        later[] = {{100, 0, true}, {199, 0, false}}, other_epoch[] = {{100, 1, true}, {199, 1, false}};
    const mr_frame dropped = {.pts_ns = 0}, last = {.pts_ns = 100 * MS};
    const mr_view_calls calls = {.every = {.time_ns = 100 * MS}};
    ENDED_BY(mr_spacing_destroy) mr_spacing spacing;
    assert_int_equal(mr_spacing_create(&spacing, &calls, 1), MR_OK);
    follow(&spacing, 0, first, 2);
    for (int again = 0; again < 2; again++)
        mr_spacing_take_back(&spacing, 0, &dropped);
    follow(&spacing, 0, then, 2);
    follow(&spacing, 0, later, 2);
    mr_spacing_take_back(&spacing, 0, &dropped);
    follow(&spacing, 0, &later[1], 1);
    follow(&spacing, 0, other_epoch, 2);
    mr_spacing_take_back(&spacing, 0, &last);
    follow(&spacing, 0, &other_epoch[1], 1);
}

/* ---- pipelines --------------------------------------------------------------------------------------------------- */

/* Whether frame `seq` has the value that two `block`s give. */
static void expect_values(bool (*worked)(uint64_t seq), uint64_t frames) {
    assert_int_equal(collection_count, frames);
    for (size_t i = 0; i < collection_count; i++) {
        const uint64_t seq = collection[i].identity.seq;
        assert_int_equal(seq, i);
        assert_int_equal(collection[i].value, worked(seq) ? seq + 1 : 0);
    }
}

static bool is_fifth(uint64_t seq) {
    return seq % 5 == 0;
}

static bool is_any(uint64_t seq) {
    return true;
}

#define CHAIN(it, after)                                                                                              \
    FLOW_A(200)                                                                                                       \
    "  first: {type: block, input: a, device: %1$s}\n"                                                                \
    "  second: {type: block, input: first, device: %1$s}\n"                                                           \
    "  it: {type: sampler, input: second, device: %1$s" it "}\n" after

/* The last value proves that both stages made it, or neither. */
FLOW_EVERYWHERE(stages_before_make_nothing_for_frames_that_pass, SEEDS,
                CHAIN(", every: 5", "  look: {type: look, input: it}\n  out: {type: list, input: look}\n")) {
    mr_pipeline *pipeline = flow_open(text, seed, workers);
    mr_summary *summary = flow_run(pipeline);
    expect_values(is_fifth, FRAMES);
    assert_int_equal(block_count, 2 * FRAMES / 5);
    flow_close(&pipeline, &summary);
}

/* A copy to the device is the first that passes frames. */
FLOW_EVERYWHERE(copies_leave_out_frames_that_pass, SEEDS,
                FLOW_A(200) "  first: {type: scale, input: a}\n"
                            "  second: {type: block, input: first, device: %1$s}\n"
                            "  it: {type: sampler, input: second, device: %1$s, every: 5}\n"
                            "  out: {type: list, input: it}\n") {
    mr_pipeline *pipeline = flow_open(text, seed, workers);
    mr_summary *summary = flow_run(pipeline);
    expect_values(is_fifth, FRAMES);
    assert_int_equal(block_count, FRAMES / 5);
    flow_close(&pipeline, &summary);
}

TEST(several_devices_leave_out_frames_that_pass) {
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        mr_pipeline *pipeline = flow_open(FLOW_A(200) "  first: {type: scale, input: a}\n"
                                                      "  second: {type: block, input: first, device: [sim:0, sim:1]}\n"
                                                      "  it: {type: sampler, input: second, device: sim:0, every: 5}\n"
                                                      "  out: {type: list, input: it}\n", seed, 1);
        mr_summary *summary = flow_run(pipeline);
        expect_values(is_fifth, FRAMES);
        assert_int_equal(block_count, FRAMES / 5);
        flow_close(&pipeline, &summary);
    }
}

/* A batch has frames that count only, in all stages. */
FLOW_EVERYWHERE(batches_leave_out_frames_that_pass, SEEDS,
                FLOW_A(200) "  first: {type: block, input: a, device: %1$s, batch: 4}\n"
                            "  it: {type: sampler, input: first, device: %1$s, batch: 4, every: 5}\n"
                            "  out: {type: list, input: it}\n") {
    mr_pipeline *pipeline = flow_open(text, seed, workers);
    mr_summary *summary = flow_run(pipeline);
    assert_int_equal(block_count, FRAMES / 5);
    assert_int_equal(largest_batch, 4);
    assert_int_equal(smallest_batch, 4);
    assert_int_equal(collection_count, FRAMES);
    for (size_t i = 0; i < collection_count; i++)
        assert_int_equal(collection[i].value, i % 5 == 0 ? i : 0);
    flow_close(&pipeline, &summary);
}

/* A stage after it, another consumer before it: these get all payloads. */
FLOW_EVERYWHERE(who_needs_the_payload_gets_it, SEEDS,
                CHAIN(", every: 5", "  look: {type: look, input: it}\n  out: {type: collect, input: look}\n")) {
    mr_pipeline *pipeline = flow_open(text, seed, workers);
    mr_summary *summary = flow_run(pipeline);
    expect_values(is_any, FRAMES);
    assert_int_equal(block_count, 2 * FRAMES);
    flow_close(&pipeline, &summary);
}

/* A sink from which no payload leaves may still read it. */
FLOW_EVERYWHERE(who_reads_the_payload_gets_it, SEEDS, CHAIN(", every: 5", "  out: {type: peek, input: it}\n")) {
    mr_pipeline *pipeline = flow_open(text, seed, workers);
    mr_summary *summary = flow_run(pipeline);
    expect_values(is_any, FRAMES);
    flow_close(&pipeline, &summary);
}

FLOW_EVERYWHERE(another_consumer_gets_all, SEEDS,
                CHAIN(", every: 5", "  out: {type: list, input: it}\n  other: {type: list, input: second}\n")) {
    mr_pipeline *pipeline = flow_open(text, seed, workers);
    mr_summary *summary = flow_run(pipeline);
    assert_int_equal(block_count, 2 * FRAMES);
    assert_int_equal(collection_count, 2 * FRAMES);
    for (size_t i = 0; i < collection_count; i++)
        assert_int_equal(collection[i].value, collection[i].identity.seq + 1);
    flow_close(&pipeline, &summary);
}

/* Frames come every 7 ms of simulated time, and one of each 20 ms counts. */
static bool is_in_step(uint64_t seq) {
    return seq == 0 || 7 * seq / 20 != 7 * (seq - 1) / 20;
}

TEST(one_frame_of_each_time) {
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        mr_pipeline *pipeline = flow_open(FLOW "sources: {a: {type: count, frames: 100, period: 7ms}}\n"
                                               "stages:\n"
                                               "  first: {type: block, input: a}\n"
                                               "  second: {type: block, input: first}\n"
                                               "  it: {type: sampler, input: second, period: 20ms}\n"
                                               "  out: {type: list, input: it}\n", seed, 1);
        mr_summary *summary = flow_run(pipeline);
        expect_values(is_in_step, 100);
        flow_close(&pipeline, &summary);
    }
}

/* The first of a batch of two is late when the next step comes, so another frame must be worked on in its place. */
TEST(late_frames_of_a_batch_use_up_no_step) {
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        mr_pipeline *pipeline = flow_open(FLOW "sources: {a: {type: count, frames: 200, period: 1ms, deadline: 5ms}}\n"
                                               "stages:\n"
                                               "  it: {type: sampler, input: a, period: 10ms, batch: "
                                               "{size: 2, timeout: 100ms}}\n"
                                               "  out: {type: list, input: it}\n", seed, 1);
        mr_summary *summary = flow_run(pipeline);
        assert_int_equal(largest_batch, 2);
        assert_true(collection_count > 0);
        flow_close(&pipeline, &summary);
    }
}

RUN_TESTS(be_quiet, NULL)
