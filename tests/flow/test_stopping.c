/* A video is stopped while pictures are in flight that are decoded out of order. Each output has a separate number, and
 * a resumed run writes what one run would have written. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/decoded.h"
#include "tests/support/opened.h"
#include "tests/support/suite.h"
#include "tests/support/temporary.h"

enum { MOST_LINES = 100, LINE_BYTES = 256, PACKETS = 24 };
static const int64_t MS = 1000000;
static char clip[CLIP_PATH];

typedef struct lines {
    size_t count;
    char line[MOST_LINES][LINE_BYTES];
} lines;

/* Packets come every 40 ms on the simulated clock. */
static mr_pipeline *begin(const char *options, const char *path, const char *checkpoint) {
    char text[1024];
    snprintf(text, sizeof text,
             "version: 1\npipeline: stopped\nsources:\n  clip: {uri: %s, realtime: true%s}\n"
             "stages:\n  decode: {input: clip}\n  phash: {input: decode}\n"
             "  out: {type: jsonl, input: phash, tensors: true, path: %s}\n", clip, options, path);
    mr_pipeline *pipeline = opened(&(mr_pipeline_params){
        .types = mr_stage_types(), .path = "stopped.yaml", .text = text, .seed = 1, .resume = checkpoint});
    assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
    return pipeline;
}

static void end(mr_pipeline **pipeline) {
    mr_summary *sums = NULL;
    assert_int_equal(mr_pipeline_wait(*pipeline, -1), MR_OK);
    assert_int_equal(mr_pipeline_summarize(*pipeline, &sums), MR_OK);
    assert_true(sums->balanced);
    assert_int_equal(sums->in_flight, 0);
    mr_summary_destroy(&sums);
    mr_pipeline_destroy(pipeline);
}

static int by_text(const void *a, const void *b) {
    return strcmp(a, b);
}

static void read_lines(const char *path, lines *all) {
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    for (all->count = 0; all->count < MOST_LINES && fgets(all->line[all->count], LINE_BYTES, file); all->count++)
        ;
    fclose(file);
    qsort(all->line, all->count, LINE_BYTES, by_text);
}

static void expect_among(const lines *some, const lines *all) {
    for (size_t i = 0; i < some->count; i++)
        if (!bsearch(some->line[i], all->line, all->count, LINE_BYTES, by_text))
            fail_msg("nobody else writes %s", some->line[i]);
}

/* Stops after each packet, or after every `step`-th one. The last packet comes two intervals before the time of
 * the last picture, since pictures are reordered. */
static void expect_the_same(const char *options, size_t count, int64_t step) {
    static lines whole, stopped, resumed;
    char checkpoint[64];
    snprintf(checkpoint, sizeof checkpoint, "%s.checkpoint", temporary_path);
    mr_pipeline *pipeline = begin(options, temporary_path, NULL);
    end(&pipeline);
    read_lines(temporary_path, &whole);
    assert_int_equal(whole.count, count);
    for (int64_t packet = 0; packet < PACKETS - 2; packet += step) {
        pipeline = begin(options, temporary_path, checkpoint);
        assert_int_equal(mr_pipeline_wait(pipeline, (40 * packet + 10) * MS), MR_ERROR_AGAIN);
        mr_pipeline_stop(pipeline, false);
        end(&pipeline);
        read_lines(temporary_path, &stopped);
        expect_among(&stopped, &whole);
        pipeline = begin(options, temporary_path, checkpoint);
        end(&pipeline);
        read_lines(temporary_path, &resumed);
        expect_among(&whole, &resumed);
        assert_int_equal(resumed.count, whole.count);
        assert_int_equal(unlink(checkpoint), 0);
    }
}

TEST_WITH(what_comes_out_has_its_own_number, make_temporary, remove_temporary) {
    if (!clips_available())
        skip();
    clip_make(clip, "h264-420.mp4", CLIP_PLAIN);
    expect_the_same("", PACKETS, 1);
    expect_the_same(", every: 2", PACKETS / 2, 4);
}

RUN_TESTS(NULL, NULL)
