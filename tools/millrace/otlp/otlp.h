/* Sends a run's numbers and spans to an OpenTelemetry collector: OTLP 1 over HTTP, as binary Protocol Buffers.
 *
 * A thread makes a request for each signal (metrics, traces) at its interval and sends it. Nothing waits for the
 * collector. If it does not answer, or answers 429, 502, 503 or 504, the signal is tried again, after the time in
 * Retry-After or pauses that double, up to a minute; metrics then have the newest numbers. Any other answer refuses the
 * request for good. Each outage is logged once.
 *
 * With NULL all functions do nothing. The owner's thread calls them, except mr_otlp_state_of, which any thread may
 * call. */
#pragma once

#include "millrace/plan.h"
#include "tools/millrace/otlp/otlp_bytes.h"

typedef struct mr_otlp mr_otlp;

enum { MR_OTLP_SIGNALS = 2 };

/* What is sent to the path /v1/NAME. The thread of the sender calls the functions. */
typedef struct mr_otlp_signal {
    const char *name, *items; /* "metrics", "data points" */
    int64_t interval_ns;
    /* Writes a request's body, in which `resource` is the encoded Resource's fields. Returns how many items it has; 0:
     * there is nothing to send. *more: there is more than that, which is sent at once. */
    size_t (*make)(void *context, const mr_otlp_bytes *resource, mr_otlp_bytes *body, bool *more);
    /* Optional. The collector has taken the last body, but rejected some items, or refuses all. */
    void (*done)(void *context, size_t rejected);
    void *context;
} mr_otlp_signal;

/* How a signal's delivery stands. */
typedef struct mr_otlp_state {
    const char *signal, *url;     /* url: without user and password; lives as long as the sender */
    bool up;                      /* the last request was answered, or there was none yet */
    uint64_t sent, rejected, failures; /* items that were taken, items that were not; requests without success */
    char message[256];            /* of the last failure; "": there was none, or it is over */
} mr_otlp_state;

/* Finds the collector (otlp_target.h). *otlp stays NULL if none is named. MR_ERROR_UNAVAILABLE: this build has no
 * libcurl. */
int mr_otlp_create(mr_otlp **otlp, const mr_plan_view *plan, const char *process);
/* Adds a signal, before the start. *sends: it is sent; variables may turn one off. Errors of mr_otlp_route_find.
 * MR_ERROR_MEMORY. */
int mr_otlp_add_signal(mr_otlp *otlp, const mr_otlp_signal *signal, bool *sends);
/* MR_ERROR_MEMORY. */
int mr_otlp_start(mr_otlp *otlp);
/* Sends the newest numbers and all spans, and waits for that: for up to `timeout`, or until `descriptor` (-1: none) is
 * readable; for a second, if the collector did not answer the request before. If the run was asked to end at asked_ns
 * (0: it was not), most of its grace time is the limit too. */
void mr_otlp_flush(mr_otlp *otlp, int descriptor, int64_t asked_ns);
/* Gives up a request that is not answered, and ends the thread: no signal is called after that. */
void mr_otlp_stop(mr_otlp *otlp);
void mr_otlp_destroy(mr_otlp **otlp);

/* States of the signals; how many there are. */
size_t mr_otlp_state_of(mr_otlp *otlp, mr_otlp_state states[MR_OTLP_SIGNALS]);

/* Until when the end of a run may wait for others that wanted `most_ns`. asked_ns: as above. */
int64_t mr_otlp_patience_until_ns(const mr_plan_view *plan, int64_t most_ns, int64_t asked_ns);
