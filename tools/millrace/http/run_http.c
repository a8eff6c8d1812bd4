#include "tools/millrace/http/run_http.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/key_file.h"
#include "engine/base/memory.h"
#include "engine/base/print.h"
#include "engine/base/thread.h"
#include "engine/serve/http_address.h"
#include "engine/serve/http_token.h"
#include "millrace/log.h"
#include "tools/millrace/http/api.h"
#include "tools/millrace/http/events.h"
#include "tools/millrace/http/jobs.h"
#include "tools/millrace/http/log_lines.h"
#include "tools/millrace/http/metrics.h"
#include "tools/millrace/http/results.h"

/* The document at /api/v1/openapi.json, which is compiled in. */
extern const char mr_run_http_openapi[];
/* The page at "/", likewise. */
extern const char mr_run_http_page[];

enum { MOST_PEM = 1 << 20, LOOK_MS = 50 };
/* A request may take this long, also one that adds a camera. History has a point for every five seconds. */
static const int64_t TIMEOUT_NS = 60000000000, POINT_NS = 5000000000;
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
                     : mr_run_http_send_text(request, "text/plain; charset=utf-8", text, (size_t)bytes, is ? 200 : 503);
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
    return mr_http_send(request, &(mr_http_content){.type = "text/html; charset=utf-8", .data = mr_run_http_page,
                                                    .bytes = strlen(mr_run_http_page)});
}

/* A browser asks for the page's icon without the page's token. */
static mr_http_reply answer_icon(mr_http_request *request, void *web) {
    static const char icon[] = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 16 16\" fill=\"none\" "
                               "stroke=\"#47c\" stroke-width=\"2\"><circle cx=\"8\" cy=\"8\" r=\"6\"/>"
                               "<path d=\"M8 2v12M2 8h12M4 4l8 8M12 4l-8 8\"/></svg>\n";
    return mr_http_send(request, &(mr_http_content){.type = "image/svg+xml", .data = icon, .bytes = sizeof icon - 1});
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
    metrics->otlp_count = mr_otlp_state_of(web->otlp, metrics->otlp, NULL);
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
    return text ? mr_run_http_send_text(request, mr_metrics_type(metrics.open), text, bytes, 200) : MR_HTTP_END;
}

/* ---- metrics that are sent -------------------------------------------------------------------------------------- */

static size_t make_metrics(void *context, const mr_otlp_bytes *resource, mr_otlp_bytes *body, bool *more) {
    mr_run_http *web = context;
    mr_metrics metrics = {0};
    (void)more;
    MR_LOCKED(&web->lock);
    fill_metrics(web, &metrics);
    return mr_metrics_encode(&metrics, resource, web->started_ns, body);
}

static int add_signal(mr_run_http *web) {
    return mr_otlp_add_signal(web->otlp, &(mr_otlp_signal){
        .name = "metrics", .path = "/v1/metrics", .items = "data points", .make = make_metrics, .context = web,
        .interval_ns = mr_plan_view_otlp(web->plan)->interval_ns});
}

/* ---- opening ---------------------------------------------------------------------------------------------------- */

static int read_pem(const char *path, const char *what, bool secret, char **text) {
    mr_file_bytes content;
    FILE *file = secret ? fopen(path, "re") : NULL;
    int status = file ? mr_secret_file_check(fileno(file), path, what) : MR_OK;
    if (file)
        fclose(file);
    if (!status)
        status = mr_file_read(what, path, MOST_PEM, 0, &content);
    if (!status)
        *text = (char *)content.data;
    return status;
}

static int start(mr_run_http *web, int fd, bool any_host, const char *token, const char *certificate, const char *key) {
    const mr_http_route routes[] = {
        {.path = "/", .answer = answer_page, .context = web},
        {.path = "/icon.svg", .answer = answer_icon, .context = web, .open = true},
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
    const mr_http_params params = {.fd = fd, .routes = routes, .token = token, .certificate = certificate, .key = key,
                                   .any_host = any_host, .hosts = web->hosts, .not_found = NOT_FOUND,
                                   .most_streams = MR_RUN_HTTP_STREAMS, .timeout_ns = TIMEOUT_NS};
    return mr_http_server_create(&web->server, &params);
}

/* The port is only known from here if the system has chosen it. */
static void say_where(const mr_run_http *web, const mr_http_address *address, int port) {
    const char *listen = web->http->listen, *scheme = web->http->certificate ? "https" : "http";
    const int host = (int)(strrchr(listen, ':') - listen);
    if (!address->file && strcmp(listen + host, ":0") == 0)
        mr_print(stderr, "millrace: http listens at %s://%.*s:%d/\n", scheme, host, listen, port);
    else if (address->file)
        mr_log(MR_LOG_INFO, "http listens at %s", listen);
    else
        mr_log(MR_LOG_INFO, "http listens at %s://%s/", scheme, listen);
}

static int listen_at(mr_run_http *web, const char *token, const char *certificate, const char *key) {
    mr_http_address address;
    int fd, port, status = mr_http_address_parse(web->http->listen, &address);
    if (!status)
        status = mr_http_address_listen(&address, web->http->listen, &fd, &port);
    if (status)
        return status;
    if (address.file)
        web->unlinked = mr_strdup(web->http->listen + strlen("unix:"));
    status = start(web, fd, address.file, token, certificate, key);
    if (!status)
        say_where(web, &address, port);
    return status;
}

/* The names, ended by NULL; NULL if there are none. */
static int copy_hosts(mr_run_http *web) {
    const mr_strings *hosts = &web->http->hosts;
    if (!hosts->count)
        return MR_OK;
    web->hosts = calloc(hosts->count + 1, sizeof *web->hosts);
    if (!web->hosts)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the HTTP server");
    for (size_t i = 0; i < hosts->count; i++)
        web->hosts[i] = hosts->item[i];
    return MR_OK;
}

static int open_server(mr_run_http *web) {
    const mr_view_http *http = web->http;
    char *token = NULL, *certificate = NULL, *key = NULL;
    int status = copy_hosts(web);
    if (!status && http->token_file)
        status = mr_http_token_read(http->token_file, &token);
    if (!status && http->certificate)
        status = read_pem(http->certificate, "the certificate", false, &certificate);
    if (!status && http->key)
        status = read_pem(http->key, "a key", true, &key);
    if (!status)
        status = mr_run_http_start_workers(web);
    if (!status)
        status = mr_run_http_start_sampler(web);
    if (!status)
        status = listen_at(web, token, certificate, key);
    mr_http_token_forget(&token);
    mr_http_token_forget(&key);
    mr_free(certificate);
    return status;
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
    bool held_up = false;
    for (size_t i = 0; i < now->count; i++)
        held_up |= now->process[i].pid && now->process[i].summary && mr_observed_is_held_up(now->process[i].summary);
    mr_movement_look(&web->movement, &sum, held_up, web->shown_ns);
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
    mr_http_server_destroy(&web->server);
    mr_run_http_free_sampler(web);
    mr_run_http_log_end(web);
    if (web->unlinked)
        unlink(web->unlinked);
    mr_free(web->unlinked);
    free(web->hosts);
    pthread_mutex_destroy(&web->job_lock);
    pthread_mutex_destroy(&web->log_lock);
    pthread_mutex_destroy(&web->lock);
    free(web);
    *result = NULL;
}
