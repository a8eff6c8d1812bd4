/* Motion in pipelines, on the processor and on accelerators. Changed pictures pass, and so do pictures due for a
 * refresh. The ledger counts the rest. */
#include <stdio.h>
#include <string.h>

#include "engine/device/device.h"
#include "engine/device/open/open.h"
#include "millrace/millrace.h"
#include "tests/support/feeds.h"
#include "tests/support/opened.h"
#include "tests/support/suite.h"

/* Paints a gray picture, with the left `columns` columns at another level. */
static void paint(feed *f, size_t frame, int level, int columns, int other) {
    for (int y = 0; y < FEED_HEIGHT; y++)
        for (int x = 0; x < FEED_WIDTH; x++)
            f->block[frame][y * FEED_WIDTH + x] = (uint8_t)(x < columns ? other : level);
}

static void start_motion(size_t count) {
    feed_count = count;
    for (size_t i = 0; i < count; i++) {
        feed_fill(&feeds[i], MR_PIXEL_GRAY8, 10);
        for (size_t k = 0; k < 10; k++)
            paint(&feeds[i], k, 100, 0, 0);
    }
}

static void expect_through(const feed *f, size_t count, const uint64_t *seq, const float *share) {
    assert_int_equal(f->arrived, count);
    for (size_t i = 0; i < count; i++) {
        float got;
        memcpy(&got, f->data[i], sizeof got);
        assert_int_equal(f->seq[i], seq[i]);
        assert_true(got == share[i]);
    }
}

/* The stage compares pictures at 70x51, pixel by pixel. */
static void check_gate(const char *device) {
    char stages[256];
    start_motion(2);
    paint(&feeds[0], 3, 100, 7, 115);  /* a tenth of the picture, but not above the noise */
    paint(&feeds[0], 4, 100, 7, 116);  /* above the noise */
    paint(&feeds[0], 5, 100, 7, 116);  /* equal to the last one that passed */
    paint(&feeds[0], 6, 100, 6, 116);  /* less than a tenth has changed */
    paint(&feeds[1], 1, 110, 0, 0);    /* slowly brighter: one step is noise, two are not */
    paint(&feeds[1], 2, 120, 0, 0);
    for (size_t k = 3; k < 10; k++)
        paint(&feeds[1], k, 120, 0, 0);
    snprintf(stages, sizeof stages, "  it: {type: motion, input: sources.*, size: 70x51, threshold: 0.1%s}\n",
             device);
    const feeds_ledger told = feeds_run(stages);
    expect_through(&feeds[0], 3, (const uint64_t[]){0, 4, 7}, (const float[]){1, 0.1f, 0.1f});
    expect_through(&feeds[1], 2, (const uint64_t[]){0, 2}, (const float[]){1, 1});
    assert_int_equal(told.absorbed, 15);
    feeds_free();
}

TEST(moving_pictures_go_through) {
    check_gate("");
    check_gate(", device: 'sim:0'");
    uint64_t bytes;
    if (mr_device_probe("cuda:0", &bytes) == MR_OK)
        check_gate(", device: 'cuda:0'");
}

TEST(still_pictures_are_refreshed) {
    start_motion(1);
    feeds[0].count = 7;
    const feeds_ledger told = feeds_run("  it: {type: motion, input: a, refresh: 80ms}\n");
    expect_through(&feeds[0], 4, (const uint64_t[]){0, 2, 4, 6}, (const float[]){1, 0, 0, 0});
    assert_int_equal(told.absorbed, 3);
    feeds[0].count = 10; /* feeds_free needs the real count */
    feeds_free();
}

TEST(no_threshold_lets_all_through) {
    start_motion(1);
    const feeds_ledger told = feeds_run("  it: {type: motion, input: a, threshold: 0}\n");
    assert_int_equal(feeds[0].arrived, 10);
    assert_int_equal(told.absorbed, 0);
    feeds_free();
}

/* Failed work drops the frame. The next one is compared with the last frame that passed. */
TEST(failures_are_accounted_for) {
    start_motion(1);
    for (size_t k = 0; k < 10; k++)
        paint(&feeds[0], k, (int)k * 20, 0, 0);
    const feeds_ledger told = feeds_run("  it: {type: motion, input: a, device: 'sim:0?fail_every=5'}\n");
    assert_true(told.dropped > 0);
    assert_int_equal(told.delivered + told.dropped + told.absorbed, 10);
    feeds_free();
}

/* One worker and simulated time: a call that waits for a device must not stop other stages. The null source repeats one
 * picture. */
TEST(time_may_be_simulated) {
    static const char text[] = "version: 1\npipeline: test\nsources:\n"
                               "  a: {type: 'null', format: GRAY8 64x48, frames: 40}\n"
                               "  b: {type: 'null', format: I420 64x48, frames: 25}\nstages:\n"
                               "  it: {type: motion, input: sources.*, size: 16, device: 'sim:0'}\n"
                               "  small: {type: histogram, input: it, size: 16, device: 'sim:1'}\n"
                               "  sink: {type: 'null', input: small}\n";
    for (uint64_t seed = 1; seed <= 5; seed++) {
        ENDED_BY(mr_pipeline_destroy) mr_pipeline *pipeline = opened(
            &(mr_pipeline_params){.types = mr_stage_types(), .path = "motion.yaml", .text = text, .seed = seed});
        assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
        assert_int_equal(mr_pipeline_wait(pipeline, -1), MR_OK);
        const feeds_ledger told = feeds_account(pipeline);
        assert_int_equal(told.delivered, 2);
        assert_int_equal(told.absorbed, 63);
    }
}

RUN_TESTS(NULL, NULL)
