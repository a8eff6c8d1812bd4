#include "tools/millrace/http/run_http.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/clock.h"
#include "engine/base/thread.h"
#include "tools/millrace/http/api.h"
#include "tools/millrace/http/events.h"
#include "tools/millrace/http/jobs.h"
#include "tools/millrace/http/listener.h"
#include "tools/millrace/http/log_lines.h"
#include "tools/millrace/http/metrics.h"
#include "tools/millrace/http/results.h"

/* The document at /api/v1/openapi.json, which is compiled in. */
extern const char mr_run_http_openapi[];
/* The page at "/", likewise. */
extern const char mr_run_http_html[];

enum { LOOK_MS = 50 };
/* History has a point for every five seconds. */
static const int64_t POINT_NS = 5000000000;
/* Between two events. */
static const int64_t EVENT_NS = 450000000;

static const char NOT_FOUND[] = "not found: there are / (a page), /metrics, /livez, /readyz, /healthz and "
                                "/api/v1/openapi.json\n";

/* ---- answers ---------------------------------------------------------------------------------------------------- */

static mr_http_reply answer_health(mr_http_request *request, mr_run_http *web, mr_health_kind kind) {
    char why[MR_HEALTH_WHY], *text = NULL;
    pthread_mutex_lock(&web->lock);
    const bool is = mr_run_http_is(web, kind, why);
    pthread_mutex_unlock(&web->lock);
    const int bytes = asprintf(&text, "%s\n", is ? "ok" : why);
    return bytes < 0 ? MR_HTTP_END
                     : mr_http_send_text(request, "text/plain; charset=utf-8", text, (size_t)bytes, is ? 200 : 503);
}

static mr_http_reply answer_livez(mr_http_request *request, void *web) {
    return answer_health(request, web, MR_HEALTH_ALIVE);
}

static mr_http_reply answer_readyz(mr_http_request *request, void *web) {
    return answer_health(request, web, MR_HEALTH_READY);
}

static mr_http_reply answer_healthz(mr_http_request *request, void *web) {
    return answer_health(request, web, MR_HEALTH_WELL);
}

static mr_http_reply answer_page(mr_http_request *request, void *web) {
    return mr_http_send(request, &(mr_http_content){.type = "text/html; charset=utf-8", .data = mr_run_http_html,
                                                    .bytes = strlen(mr_run_http_html)});
}

static mr_http_reply answer_openapi(mr_http_request *request, void *web) {
    return mr_http_send(request, &(mr_http_content){.type = "application/json", .data = mr_run_http_openapi,
                                                    .bytes = strlen(mr_run_http_openapi)});
}

/* With the lock. */
static void fill_metrics(mr_run_http *web, mr_metrics *metrics) {
    char why[MR_HEALTH_WHY];
    metrics->now = &web->now;
    metrics->pipeline = web->plan->name;
    metrics->digest = web->plan->digest;
    metrics->alive = mr_run_http_is(web, MR_HEALTH_ALIVE, why);
    metrics->ready = mr_run_http_is(web, MR_HEALTH_READY, why);
    metrics->otlp_count = mr_otlp_state_of(web->otlp, metrics->otlp);
}

/* A scrape, until the client has taken all of it. */
typedef struct scrape {
    mr_run_http *web;
    bool final;
} scrape;

static void end_scrape(void *state) {
    scrape *one = state;
    MR_LOCKED(&one->web->lock);
    one->web->scraped = true;
    one->web->scraped_final |= one->final;
    free(one);
}

static mr_http_reply answer_metrics(mr_http_request *request, void *context) {
    mr_run_http *web = context;
    const char *accept = mr_http_header(request, "Accept");
    size_t bytes = 0;
    mr_metrics metrics = {.open = accept && strstr(accept, "application/openmetrics-text")};
    scrape *one = calloc(1, sizeof *one);
    if (!one)
        return MR_HTTP_END;
    pthread_mutex_lock(&web->lock);
    fill_metrics(web, &metrics);
    char *text = mr_metrics_write(&metrics, &bytes);
    *one = (scrape){web, web->now.final};
    pthread_mutex_unlock(&web->lock);
    mr_http_keep(request, one, end_scrape);
    return text ? mr_http_send_text(request, mr_metrics_type(metrics.open), text, bytes, 200) : MR_HTTP_END;
}

/* ---- metrics that are sent -------------------------------------------------------------------------------------- */

static size_t make_metrics(void *context, const mr_otlp_bytes *resource, mr_otlp_bytes *body, bool *more) {
    mr_run_http *web = context;
    mr_metrics metrics = {0};
    MR_LOCKED(&web->lock);
    fill_metrics(web, &metrics);
    return mr_metrics_encode(&metrics, resource, web->started_ns, body);
}

static int add_signal(mr_run_http *web) {
    bool sends;
    return mr_otlp_add_signal(web->otlp, &(mr_otlp_signal){
        .name = "metrics", .items = "data points", .make = make_metrics, .context = web,
        .interval_ns = mr_plan_view_otlp(web->plan)->interval_ns}, &sends);
}

/* ---- opening ---------------------------------------------------------------------------------------------------- */

static int listen_for(mr_run_http *web) {
    const mr_http_route routes[] = {
        {.path = "/", .answer = answer_page, .context = web},
        {.path = "/icon.svg", .answer = mr_http_answer_icon, .context = web, .open = true},
        {.path = "/metrics", .answer = answer_metrics, .context = web},
        {.path = "/livez", .answer = answer_livez, .context = web, .open = true},
        {.path = "/readyz", .answer = answer_readyz, .context = web, .open = true},
        {.path = "/healthz", .answer = answer_healthz, .context = web, .open = true},
        {.path = "/api/v1/openapi.json", .answer = answer_openapi, .context = web},
        {.path = "/api/v1/status", .answer = mr_run_http_answer_status, .context = web},
        {.path = "/api/v1/graph", .answer = mr_run_http_answer_graph, .context = web},
        {.path = "/api/v1/history", .answer = mr_run_http_answer_history, .context = web},
        {.path = "/api/v1/log", .answer = mr_run_http_answer_log, .context = web},
        {.path = "/api/v1/events", .answer = mr_run_http_answer_events, .context = web},
        {.path = "/api/v1/results", .answer = mr_run_http_answer_results, .context = web},
        {.path = "/api/v1/do", .answer = mr_run_http_answer_do, .context = web, .post = true},
        {.path = "/api/v1/*", .answer = mr_run_http_answer_part, .context = web},
        {.path = NULL}};
    return mr_http_listen(&web->listener, web->http, routes, NOT_FOUND);
}

static int open_server(mr_run_http *web) {
    int status = mr_run_http_start_workers(web);
    if (!status)
        status = mr_run_http_start_sampler(web);
    return status ? status : listen_for(web);
}

int mr_run_http_open(mr_run_http **result, const mr_plan_view *plan, mr_run_http_change *change, void *context,
                     mr_otlp *otlp) {
    const mr_view_http *http = mr_plan_view_http(plan);
    *result = NULL;
    if (!http->listen && !otlp)
        return MR_OK;
    mr_run_http *web = calloc(1, sizeof *web);
    if (!web)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the HTTP server");
    *web = (mr_run_http){.plan = plan, .http = http, .change = change, .context = context, .otlp = otlp,
                         .started_ns = mr_clock_date_ns(), .opened_ns = mr_now_ns()};
    pthread_mutex_init(&web->lock, NULL);
    pthread_mutex_init(&web->log_lock, NULL);
    pthread_mutex_init(&web->job_lock, NULL);
    mr_run_http_log_begin(web);
    int status = add_signal(web);
    if (!status && http->listen)
        status = open_server(web);
    *result = web;
    if (status)
        mr_run_http_close(result);
    return status;
}

const char *mr_run_http_page(const mr_run_http *web) {
    return web ? mr_http_listener_page(web->listener) : "";
}

/* ---- showing ---------------------------------------------------------------------------------------------------- */

void mr_run_http_hold(mr_run_http *web) {
    if (web)
        pthread_mutex_lock(&web->lock);
}

static double cpu_of(const mr_observed *now) {
    double cpu_s = 0;
    for (size_t i = 0; i < now->count; i++)
        cpu_s += now->process[i].summary ? now->process[i].summary->cpu_s : 0;
    return cpu_s;
}

static void add_point(mr_run_http *web, const mr_observed_ledger *sum) {
    const int64_t date_ns = mr_clock_date_ns();
    const mr_run_http_point *last = web->point_count ? &web->points[(web->point_count - 1) % MR_RUN_HTTP_POINTS] : NULL;
    if (last && date_ns - last->date_ns < POINT_NS && !web->now.final)
        return;
    web->points[web->point_count++ % MR_RUN_HTTP_POINTS] = (mr_run_http_point){date_ns, *sum, cpu_of(&web->now)};
}

void mr_run_http_show(mr_run_http *web, const mr_observed *now) {
    if (!web)
        return;
    web->now = *now;
    web->shown_ns = mr_now_ns();
    const mr_observed_ledger sum = mr_observed_sum(now);
    mr_movement_look(&web->movement, &sum, mr_observed_any_is_held_up(now), web->shown_ns);
    add_point(web, &sum);
    if (web->shown_ns - web->woken_ns >= EVENT_NS || now->final) {
        web->shown++;
        web->woken_ns = web->shown_ns;
        mr_run_http_wake(web);
    }
    pthread_mutex_unlock(&web->lock);
}

void mr_run_http_release(mr_run_http *web) {
    if (web)
        pthread_mutex_unlock(&web->lock);
}

static bool is_waited_for(mr_run_http *web) {
    MR_LOCKED(&web->lock);
    return web->scraped && !web->scraped_final;
}

void mr_run_http_linger(mr_run_http *web, int descriptor, int64_t asked_ns) {
    if (!web)
        return;
    const int64_t until_ns = mr_otlp_patience_until_ns(web->plan, web->http->linger_ns, asked_ns);
    struct pollfd on = {.fd = descriptor, .events = POLLIN};
    while (is_waited_for(web) && mr_now_ns() < until_ns && poll(&on, 1, LOOK_MS) <= 0)
        continue;
}

void mr_run_http_close(mr_run_http **result) {
    mr_run_http *web = *result;
    if (!web)
        return;
    mr_run_http_end_workers(web);
    mr_run_http_end_sampler(web);
    mr_http_unlisten(&web->listener);
    mr_run_http_free_sampler(web);
    mr_run_http_log_end(web);
    pthread_mutex_destroy(&web->job_lock);
    pthread_mutex_destroy(&web->log_lock);
    pthread_mutex_destroy(&web->lock);
    free(web);
    *result = NULL;
}
