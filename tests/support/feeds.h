/* Pipelines of stages that give tensors, on pictures that tests make: up to two sources, "a" and "b", push them in
 * turns, and the sink keeps the frames that arrive. Failures fail the test; all functions are called by its thread. */
#pragma once

#include "kernels/preprocess/preprocess.h"
#include "millrace/millrace.h"

enum { FEED_FRAMES = 30, FEED_WIDTH = 70, FEED_HEIGHT = 51, FEED_MOST_BYTES = 4 * 4096 };

/* One source's pictures, and the tensors that arrived. */
typedef struct feed {
    mr_format format;
    uint8_t *block[FEED_FRAMES]; /* the planes of each picture, one behind the other, without gaps */
    int64_t pts_ns[FEED_FRAMES];
    size_t count;
    size_t arrived;
    uint64_t seq[FEED_FRAMES];
    size_t bytes[FEED_FRAMES];
    uint8_t data[FEED_FRAMES][FEED_MOST_BYTES]; /* the tensor that is the frame, or its first result */
} feed;

/* The first `feed_count` are in use. */
extern feed feeds[2];
extern size_t feed_count;

/* Makes `count` random pictures, 40 ms apart: smooth enough that sizes matter, noisy enough that pixels do. */
void feed_fill(feed *f, mr_pixel pixel, size_t count);
/* One of them; the memory stays the feed's. */
mr_picture feed_picture(const feed *f, size_t frame);
/* Of all feeds in use, of which there are none then. */
void feeds_free(void);

/* The outcome of all frames. */
typedef struct feeds_ledger {
    uint64_t delivered, dropped, absorbed;
} feeds_ledger;

/* A pipeline of the feeds in use and of `stages` (lines of YAML), of which the last is called `it`: the callback sink
 * `sink` takes its output. To be destroyed. */
mr_pipeline *feeds_open(const mr_stage_type *const *types, const char *stages);
/* Starts it, pushes all pictures, and waits until it has ended. */
void feeds_push(mr_pipeline *pipeline);
/* For a pipeline that has ended: it took no more memory than planned, misused no simulated device, and absorbed only
 * still pictures in the stage `it`. */
feeds_ledger feeds_account(mr_pipeline *pipeline);
/* Runs all of this with the types of the library; the feeds have the frames that arrived. */
feeds_ledger feeds_run(const char *stages);
