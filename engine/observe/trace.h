/* Traces: what each thread and each device engine does over time, in Chrome's trace event format, which Perfetto and
 * chrome://tracing open. A graph without a trace has NULL instead, so an untraced event costs one comparison.
 *
 * Recording never blocks and takes no lock: each thread has a ring, which a thread of the trace empties into the file.
 * If a ring is full the event is lost, and counted. The file is complete JSON after each write, so that a killed run
 * leaves a trace too. Without a writer thread (deterministic runs) the thread that fills a ring empties it, and nothing
 * is lost.
 *
 * Threads: create, finish and destroy must be called from one thread; all other functions from any. No thread may
 * record during or after destroy. Units: nanoseconds on the trace's clock; times in the file count from when it was
 * created. Memory: at most MR_TRACE_RINGS rings, however long the run. All texts are kept by pointer and must outlive
 * the trace, except track names, which are copied. Errors: MR_ERROR_PERMISSION, MR_ERROR_IO (also a full disk, which
 * mr_trace_finish reports), MR_ERROR_MEMORY. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/clock.h"
#include "millrace/frame.h"

typedef struct mr_trace mr_trace;
/* A row of the picture, or a curve. It lives as long as the trace. */
typedef struct mr_track mr_track;

enum { MR_TRACE_RINGS = 4096 };

typedef struct mr_trace_params {
    const char *path;
    const mr_clock *clock;
    bool lossy;    /* events that come faster than they are written are lost; otherwise their threads wait */
} mr_trace_params;

/* Empties the file and takes it. */
int mr_trace_create(mr_trace **trace, const mr_trace_params *params);
/* Writes all recorded events and closes the file; later events are only counted. Returns the first write error, at
 * every call. */
int mr_trace_finish(mr_trace *trace);
void mr_trace_destroy(mr_trace **trace);

int64_t mr_trace_now_ns(const mr_trace *trace);
/* Events that found no room, or came too late, so far. */
uint64_t mr_trace_lost(mr_trace *trace);

/* Adds a row `name` to the group `group` (a process, in the format's words). The first row makes the group. Rows are
 * shown in the order in which they were added, if something happens in them. */
int mr_trace_add_track(mr_trace *trace, const char *group, const char *name, mr_track **track);

/* What an event is about. All zero: not known. */
typedef struct mr_trace_about {
    const char *stage;  /* id; NULL if the event's name has it */
    const char *source; /* source id for `frame`; NULL: no frame */
    mr_identity frame;  /* the first in a batch */
    uint32_t frames;    /* in the batch; 0: not given */
    uint64_t bytes;     /* moved; 0: not given */
    const char *reason;
} mr_trace_about;

/* Something that took from begin to end. Spans of one track must not overlap. `about` may be NULL here and below. */
void mr_trace_span(mr_trace *trace, mr_track *track, const char *name, int64_t begin_ns, int64_t end_ns,
                   const mr_trace_about *about);
/* Something that happened. */
void mr_trace_instant(mr_trace *trace, mr_track *track, const char *name, int64_t at_ns, const mr_trace_about *about);
/* The curve `track` is at that value from now on. */
void mr_trace_value(mr_trace *trace, mr_track *track, int64_t at_ns, int64_t value);

/* Arrows follow a frame: they connect the spans where the steps occur, by track and time. */
typedef enum mr_trace_step { MR_TRACE_FIRST, MR_TRACE_NEXT, MR_TRACE_LAST } mr_trace_step;
void mr_trace_arrow(mr_trace *trace, mr_track *track, mr_trace_step step, int64_t at_ns, const mr_identity *frame);
