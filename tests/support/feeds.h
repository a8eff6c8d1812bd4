/* Pipelines that turn the test's pictures into tensors. Up to two sources, "a" and "b", push in turn, and the sink
 * keeps the frames that arrive. Failures fail the test; only the test's thread may call these functions. */
#pragma once

#include "kernels/preprocess/preprocess.h"
#include "millrace/millrace.h"

enum { FEED_FRAMES = 30, FEED_WIDTH = 70, FEED_HEIGHT = 51, FEED_MOST_BYTES = 4 * 4096 };

/* One source's pictures, and the tensors that arrived. */
typedef struct feed {
    mr_format format;
    uint8_t *block[FEED_FRAMES]; /* each picture's packed planes, one after another */
    int64_t pts_ns[FEED_FRAMES];
    size_t count;
    size_t arrived;
    uint64_t seq[FEED_FRAMES];
    size_t bytes[FEED_FRAMES];
    uint8_t data[FEED_FRAMES][FEED_MOST_BYTES]; /* the tensor that is the frame, or the frame's first result */
} feed;

/* The first `feed_count` are used. */
extern feed feeds[2];
extern size_t feed_count;

/* Makes `count` random pictures, 40 ms apart: smooth enough that sizes matter, noisy enough that pixels do. */
void feed_fill(feed *f, mr_pixel pixel, size_t count);
/* Returns one picture; the feed keeps the memory. */
mr_picture feed_picture(const feed *f, size_t frame);
/* Frees all feeds. */
void feeds_free(void);

/* What happened to all frames. */
typedef struct feeds_ledger {
    uint64_t delivered, dropped, absorbed;
} feeds_ledger;

/* Opens a pipeline with the used feeds and `stages` (YAML lines). The last stage must be called `it`; the callback sink
 * `sink` takes its output. The caller must destroy it. */
mr_pipeline *feeds_open(const mr_stage_type *const *types, const char *stages);
/* Starts the pipeline, pushes all pictures, and waits for the end. */
void feeds_push(mr_pipeline *pipeline);
/* Checks an ended pipeline: it needed no more memory than planned, misused no simulated device, and only the stage `it`
 * absorbed frames, as still pictures. */
feeds_ledger feeds_account(mr_pipeline *pipeline);
/* Does all that with the library's types; the feeds then have the frames that arrived. */
feeds_ledger feeds_run(const char *stages);
