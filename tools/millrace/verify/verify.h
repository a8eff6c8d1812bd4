/* Shared by the files for `millrace verify`.
 *
 * Two pipelines from the same YAML run side by side in one process. Each puts all stages that support it on a different
 * device. A tap follows each stage's output: an additional `callback` stage that copies the output (verify_compare.h).
 * A copy waits for its twin from the other side; then both are compared and freed.
 *
 * Memory stays bounded because sources keep step. A source can be at most WINDOW frames (verify_sources.c) ahead of its
 * twin. So only that number of frames, and those inside the slower pipeline, wait for a twin. Nothing inside a pipeline
 * ever waits for the other one, so they cannot block each other.
 *
 * Threads from both pipelines call taps and sources. */
#pragma once

#include <pthread.h>
#include <stdio.h>

#include "engine/base/json.h"
#include "millrace/millrace.h"
#include "millrace/plan.h"
#include "tools/millrace/cli/plan_rows.h"
#include "tools/millrace/verify/verify_compare.h"

enum { MR_SIDES = 2 };

/* One stage output: a payload or a result with one name. */
typedef struct mr_verify_item {
    const mr_result_kind *kind; /* as in mr_part */
    char what[MR_FORMAT_TEXT + 72]; /* "picture I420 64x48", "tensor \"features\" f32 1280", "classes" */
    const char *name;
    uint64_t frames, differing; /* frames with any error */
    uint64_t unlike;            /* frames whose formats differ */
    mr_error_sum sum;
} mr_verify_item;

/* The first frame that differs in an output. */
typedef struct mr_verify_first {
    bool known;
    char source[72];
    mr_identity identity;
    char what[MR_FORMAT_TEXT + 72];
    double error; /* the largest in it; infinite if the frame is missing or not alike */
    int missing;  /* 0: both sides have it; 1, 2: only the first or the second side has it */
} mr_verify_first;

typedef struct mr_verify mr_verify;

typedef struct mr_verify_tap {
    mr_verify *verify;
    char *id, *stage, *port; /* the tap's; the stage and port that it copies */
    const char *type;
    bool moved;              /* the stage is on the devices that are compared */
    bool payload;            /* the stage makes the payload itself */
    uint64_t frames;         /* from both sides */
    uint64_t only[MR_SIDES]; /* from one side only */
    mr_verify_first first;
    size_t item_count;
    mr_verify_item item[MR_CAPTURE_PARTS];
    mr_capture *waiting[MR_SIDES]; /* oldest first */
    mr_capture **end[MR_SIDES];
} mr_verify_tap;

struct mr_verify {
    const char *device[MR_SIDES];
    double tolerance;
    int64_t most_frames; /* per source; 0: all */
    size_t tap_count;
    mr_verify_tap *tap;
    pthread_mutex_t lock;
    bool out_of_memory;
    bool interrupted;    /* both were asked to end early */
    /* verify_sources.c */
    size_t source_count;
    uint64_t *given[MR_SIDES]; /* frames, by source */
    bool *ended[MR_SIDES];
    size_t type_count;
    struct mr_verify_type *types[MR_SIDES];
    const mr_stage_type **list[MR_SIDES]; /* for mr_pipeline_params.types */
};

/* True if a stage of that type is put on the device; else it stays on the processors. */
bool mr_verify_moves(const mr_view_stage *stage, const char *device);
/* verify_taps.c: makes the taps of a plan. MR_ERROR_MEMORY, and MR_ERROR_CONFIG if no stage works on devices. */
int mr_verify_tap_plan(mr_verify *verify, const mr_plan_view *plan);
/* Connects one side's taps. */
int mr_verify_subscribe(mr_verify *verify, mr_pipeline *pipeline, int side);
/* Call it after both have ended: captures that still wait have no twin. `plan` names the sources. */
void mr_verify_finish(mr_verify *verify, const mr_plan_view *plan);
/* True if all errors are within the tolerance. */
bool mr_verify_within(const mr_verify *verify);
bool mr_verify_tap_within(const mr_verify_tap *tap);
void mr_verify_fini(mr_verify *verify);

/* verify_sources.c: stage types whose sources keep step. */
int mr_verify_wrap_sources(mr_verify *verify, const mr_stage_type *const *types, size_t source_count);
/* Call it when that side has ended: the other then no longer waits for it. */
void mr_verify_release(mr_verify *verify, int side);
void mr_verify_unwrap_sources(mr_verify *verify);

/* verify_report.c */
int mr_verify_print(const mr_verify *verify, int width, FILE *stream);
void mr_verify_put_json(yajl_gen json, const mr_verify *verify);
