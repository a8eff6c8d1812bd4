/* The state of a run's HTTP server, and functions that its routes share. Inside the server only. */
#pragma once

#include <pthread.h>

#include "millrace/log.h"
#include "millrace/plan.h"
#include "tools/millrace/http/health.h"
#include "tools/millrace/http/listener.h"
#include "tools/millrace/otlp/otlp.h"

enum { MR_RUN_HTTP_LINES = 256, MR_RUN_HTTP_POINTS = 720 };

/* A log line; a number of a moment in the last hour. */
typedef struct mr_run_http_line {
    uint64_t number; /* counts all lines; 0: none */
    int64_t date_ns;
    char text[512];
} mr_run_http_line;

typedef struct mr_run_http_point {
    int64_t date_ns;
    mr_observed_ledger sum;
    double cpu_s;
} mr_run_http_point;

typedef struct mr_run_http mr_run_http;
typedef struct mr_run_http_stream mr_run_http_stream;
typedef struct mr_run_http_job mr_run_http_job;
typedef struct mr_run_http_sampler mr_run_http_sampler;
typedef struct mr_run_http_state mr_run_http_state;

/* Requests for one thread, which does them in order. */
typedef struct mr_run_http_lane {
    mr_run_http *web;
    mr_run_http_job *first; /* not begun yet, oldest first */
    int count;
    pthread_cond_t added;
    pthread_t worker;
    bool works;
} mr_run_http_lane;
/* Changes can take long, and so can looks; the end must wait for neither. */
enum { MR_RUN_HTTP_CHANGES, MR_RUN_HTTP_LOOKS, MR_RUN_HTTP_ENDS, MR_RUN_HTTP_LANES = MR_VIEW_HTTP_JOBS };

struct mr_run_http {
    const mr_plan_view *plan;
    const mr_view_http *http;
    mr_run_http_change *change;
    void *context;
    mr_otlp *otlp;            /* to which metrics are sent too; NULL: nowhere */
    int64_t started_ns;       /* the date */
    mr_http_listener *listener; /* NULL: it only sends */

    pthread_mutex_t lock;     /* for the next fields, to which `now` points too */
    mr_observed now;
    int64_t opened_ns, shown_ns, woken_ns;
    uint64_t shown;           /* counts events */
    mr_movement movement;
    bool scraped, scraped_final;
    mr_run_http_stream *streams;   /* event streams, to be woken */
    mr_run_http_state *state;      /* the newest event, which they share */
    mr_run_http_point points[MR_RUN_HTTP_POINTS];
    uint64_t point_count;     /* all, also those that are forgotten */

    pthread_mutex_t log_lock; /* any thread may log, also with another lock */
    mr_log_function *logged;  /* where lines go too */
    void *logged_context;
    mr_run_http_line lines[MR_RUN_HTTP_LINES];
    uint64_t line_count;

    pthread_mutex_t job_lock; /* for the next fields */
    mr_run_http_lane lanes[MR_RUN_HTTP_LANES];
    bool ending;
    mr_run_http_sampler *sampler; /* of results */
};

/* With the lock: the run's health now. */
bool mr_run_http_is(const mr_run_http *web, mr_health_kind kind, char why[MR_HEALTH_WHY]);
