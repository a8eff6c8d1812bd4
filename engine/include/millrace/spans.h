/* Spans: the way of some frames through a pipeline, for programs that send them to where traces are kept, as `millrace
 * run --otlp` does. A trace is one source frame with all that is made from it, in all processes.
 *
 * A frame's trace id follows from the run, the source and the frame's number; so does the choice of frames. A frame
 * that crosses a cut takes its trace and span along. Spans wait in a buffer with a fixed size; those that find no room
 * are counted and lost. */
#ifndef MILLRACE_SPANS_H
#define MILLRACE_SPANS_H

#include "millrace/millrace.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A span in a trace. The trace id's first byte is the highest of trace[0]. */
typedef struct mr_span_context {
    uint64_t trace[2];
    uint64_t span; /* 0: the frame is not followed */
} mr_span_context;

typedef enum mr_span_kind {
    MR_SPAN_FRAME,   /* from when the source gave the frame until the last frame made from it is settled */
    MR_SPAN_ARRIVED, /* the same for a frame from another node, until it is settled here */
    MR_SPAN_OBJECT,  /* the same for a frame that was made from an object */
    MR_SPAN_STAGE,   /* a call of a stage */
    MR_SPAN_WAIT     /* in the queue before the stage */
} mr_span_kind;

/* Texts live as long as the pipeline. */
typedef struct mr_span {
    mr_span_context own;
    uint64_t parent;        /* 0: it is the first of the trace */
    mr_span_kind kind;
    const char *source;     /* its id */
    const char *stage;      /* its id; in the first three kinds, that which dropped or absorbed the frame, or NULL */
    const char *device;     /* Optional. */
    const char *fate;       /* "delivered", "dropped", "absorbed"; NULL: not known, or another kind */
    const char *reason;     /* Optional. Why it was dropped or absorbed. */
    mr_identity frame;
    uint32_t frames;        /* in the call */
    int64_t begin_ns, end_ns; /* since 1970 */
} mr_span;

/* Follows this share of the frames, from 0 to 1. Call it before the start, which takes the memory. */
MR_API void mr_pipeline_follow(mr_pipeline *pipeline, double share);
/* Copies the oldest spans, up to `room`, which stay in the buffer. Returns how many. One thread at a time may call this
 * and the next function, from mr_pipeline_follow until the pipeline is destroyed. */
MR_API size_t mr_pipeline_spans(mr_pipeline *pipeline, mr_span *spans, size_t room);
/* Removes the oldest `count` spans; of these, `lost` were not kept anywhere. */
MR_API void mr_pipeline_forget_spans(mr_pipeline *pipeline, size_t count, size_t lost);

#ifdef __cplusplus
}
#endif
#endif
