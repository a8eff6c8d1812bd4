#include "tools/millrace/hub/hub_http.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/base/thread.h"
#include "millrace/version.h"
#include "tools/millrace/http/listener.h"
#include "tools/millrace/http/metrics.h"
#include "tools/millrace/http/metrics_out.h"
#include "tools/millrace/hub/hub_json.h"

/* The page at "/", and the document at /api/v1/openapi.json, which are compiled in. */
extern const char mr_hub_page[], mr_hub_openapi[];

static const char NOT_FOUND[] = "not found: there are / (a page), /metrics, /livez, /readyz, /healthz and "
                                "/api/v1/openapi.json\n";

/* The hub's thread looks at the registry several times a second. */
static const int64_t SILENCE_NS = 10000000000;

typedef struct stream {
    mr_hub_http *http;
    mr_http_request *request;
    bool due;
    struct stream *next;
} stream;

struct mr_hub_http {
    mr_http_listener *listener;
    pthread_mutex_t lock; /* for all that follows */
    mr_hub_shown *shown;
    int64_t woken_ns;
    stream *streams;
};

/* ---- documents --------------------------------------------------------------------------------------------------- */

static mr_http_reply send_document(mr_http_request *request, const char *type, const char *text) {
    return mr_http_send(request, &(mr_http_content){.type = type, .data = text, .bytes = strlen(text)});
}

static mr_http_reply answer_page(mr_http_request *request, void *http) {
    return send_document(request, "text/html; charset=utf-8", mr_hub_page);
}

static mr_http_reply answer_openapi(mr_http_request *request, void *http) {
    return send_document(request, "application/json", mr_hub_openapi);
}

/* The hub is alive, ready and well if its thread still looks at the runs. */
static mr_http_reply answer_health(mr_http_request *request, void *context) {
    mr_hub_http *http = context;
    pthread_mutex_lock(&http->lock);
    const bool alive = mr_now_ns() - http->woken_ns < SILENCE_NS;
    pthread_mutex_unlock(&http->lock);
    return alive ? mr_http_say(request, 200, "ok\n")
                 : mr_http_say(request, 503, "the hub has not looked at its runs\n");
}

/* ---- metrics ----------------------------------------------------------------------------------------------------- */

static void put_labelled(mr_metrics_out *text, const char *label, const char *value, uint64_t number) {
    const size_t before = mr_metrics_label(text, label, value);
    mr_metrics_count(text, number);
    mr_metrics_unlabel(text, before);
}

static void put_runs(mr_metrics_out *text, const mr_hub_registry *registry) {
    const mr_hub_sums all = mr_hub_registry_sum(registry);
    mr_metrics_family(text, "hub_runs", "gauge", "runs that the hub knows, by state");
    for (int i = 0; i < MR_HUB_STATES; i++)
        put_labelled(text, "state", mr_hub_state_name((mr_hub_state)i), all.states[i]);
    mr_metrics_family(text, "hub_failed_runs", "gauge", "runs that have ended with an exit code other than 0");
    mr_metrics_count(text, all.failed);
    mr_metrics_family(text, "hub_unwell_runs", "gauge", "runs with a failed or absent source, device or service");
    mr_metrics_count(text, all.unwell);
}

static void put_metrics(mr_metrics_out *text, const mr_hub_shown *shown) {
    const mr_hub_registry *registry = &shown->registry;
    mr_metrics_family(text, "build", "info", "the version");
    put_labelled(text, "version", MILLRACE_VERSION, 1);
    put_runs(text, registry);
    mr_metrics_family(text, "hub_frames", "counter", "frames of all runs since the first report of each");
    put_labelled(text, "fate", "delivered", registry->delivered);
    put_labelled(text, "fate", "dropped", registry->dropped);
    put_labelled(text, "fate", "absorbed", registry->absorbed);
    mr_metrics_family(text, "hub_messages", "counter", "messages by fate");
    for (int i = 0; i < MR_HUB_FATES; i++)
        put_labelled(text, "fate", mr_hub_fate_name((mr_hub_fate)i), registry->messages[i]);
    mr_metrics_family(text, "hub_connections", "gauge", "connections of runs");
    mr_metrics_count(text, shown->peers);
    mr_metrics_family(text, "hub_refused_connections", "counter", "connections that were refused");
    mr_metrics_count(text, shown->refused);
}

static mr_http_reply answer_metrics(mr_http_request *request, void *context) {
    mr_hub_http *http = context;
    const char *accept = mr_http_header(request, "Accept");
    mr_metrics_out text = {.open = accept && strstr(accept, "application/openmetrics-text")};
    size_t bytes;
    pthread_mutex_lock(&http->lock);
    put_metrics(&text, http->shown);
    pthread_mutex_unlock(&http->lock);
    char *made = mr_metrics_finish(&text, &bytes);
    return made ? mr_http_send_text(request, mr_metrics_type(text.open), made, bytes, 200) : MR_HTTP_END;
}

/* ---- the API ----------------------------------------------------------------------------------------------------- */

static mr_http_reply answer_status(mr_http_request *request, void *context) {
    mr_hub_http *http = context;
    yajl_gen json = mr_json_create(false);
    if (!json)
        return MR_HTTP_END;
    pthread_mutex_lock(&http->lock);
    MR_JSON_MAP(json, NULL)
        mr_hub_put_status(json, http->shown, mr_now_ns());
    pthread_mutex_unlock(&http->lock);
    return mr_http_send_json(request, json);
}

static mr_http_reply answer_runs(mr_http_request *request, void *context) {
    mr_hub_http *http = context;
    const mr_hub_registry *registry = &http->shown->registry;
    yajl_gen json = mr_json_create(false);
    if (!json)
        return MR_HTTP_END;
    pthread_mutex_lock(&http->lock);
    const int64_t now_ns = mr_now_ns();
    MR_JSON_ARRAY(json, NULL)
        for (size_t i = 0; i < registry->count; i++)
            mr_hub_put_run(json, registry->runs[i], now_ns, false);
    pthread_mutex_unlock(&http->lock);
    return mr_http_send_json(request, json);
}

static mr_http_reply answer_run(mr_http_request *request, void *context) {
    mr_hub_http *http = context;
    const char *id = mr_http_rest(request);
    if (strlen(id) != 16 || strspn(id, "0123456789abcdef") != 16)
        return mr_http_say(request, 404, "an id has 16 hexadecimal digits: /api/v1/runs lists the runs\n");
    yajl_gen json = mr_json_create(false);
    if (!json)
        return MR_HTTP_END;
    pthread_mutex_lock(&http->lock);
    const mr_hub_run *run = mr_hub_registry_find(&http->shown->registry, strtoull(id, NULL, 16));
    if (run)
        mr_hub_put_run(json, run, mr_now_ns(), true);
    pthread_mutex_unlock(&http->lock);
    if (run)
        return mr_http_send_json(request, json);
    yajl_gen_free(json);
    return mr_http_say(request, 404, "the hub knows no run with that id, or has forgotten it\n");
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static mr_http_reply next(void *state, mr_http_content *part) {
    stream *one = state;
    size_t bytes;
    pthread_mutex_lock(&one->http->lock);
    const bool due = one->due;
    yajl_gen json = due ? mr_json_create(false) : NULL;
    if (json)
        MR_JSON_MAP(json, NULL)
            mr_hub_put_status(json, one->http->shown, mr_now_ns());
    one->due = false;
    pthread_mutex_unlock(&one->http->lock);
    if (!due)
        return MR_HTTP_WAIT;
    char *text = json ? mr_json_finish_text(json, &bytes) : NULL;
    if (!text)
        return MR_HTTP_END;
    *part = (mr_http_content){.type = "status", .data = text, .bytes = bytes - 1, .release = free, .owner = text};
    return MR_HTTP_DONE;
}

static void end(void *state) {
    stream *one = state, **at = &one->http->streams;
    pthread_mutex_lock(&one->http->lock);
    while (*at != one)
        at = &(*at)->next;
    *at = one->next;
    pthread_mutex_unlock(&one->http->lock);
    free(one);
}

static mr_http_reply answer_events(mr_http_request *request, void *context) {
    mr_hub_http *http = context;
    stream *one = calloc(1, sizeof *one);
    if (!one)
        return MR_HTTP_END;
    pthread_mutex_lock(&http->lock);
    *one = (stream){.http = http, .request = request, .due = true, .next = http->streams};
    http->streams = one;
    pthread_mutex_unlock(&http->lock);
    mr_http_keep(request, one, end);
    return mr_http_stream(request, MR_HTTP_EVENTS, next);
}

void mr_hub_http_wake(mr_hub_http *http) {
    MR_LOCKED(&http->lock);
    http->woken_ns = mr_now_ns();
    for (stream *one = http->streams; one; one = one->next) {
        one->due = true;
        mr_http_wake(one->request);
    }
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

const char *mr_hub_http_page(const mr_hub_http *http) {
    return mr_http_listener_page(http->listener);
}

void mr_hub_http_hold(mr_hub_http *http) {
    pthread_mutex_lock(&http->lock);
}

void mr_hub_http_release(mr_hub_http *http) {
    pthread_mutex_unlock(&http->lock);
}

int mr_hub_http_open(mr_hub_http **result, const mr_view_http *where, mr_hub_shown *shown) {
    mr_hub_http *made = *result = calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the HTTP server");
    *made = (mr_hub_http){.shown = shown, .woken_ns = mr_now_ns()};
    pthread_mutex_init(&made->lock, NULL);
    const mr_http_route routes[] = {
        {.path = "/", .answer = answer_page, .context = made},
        {.path = "/icon.svg", .answer = mr_http_answer_icon, .context = made, .open = true},
        {.path = "/metrics", .answer = answer_metrics, .context = made},
        {.path = "/livez", .answer = answer_health, .context = made, .open = true},
        {.path = "/readyz", .answer = answer_health, .context = made, .open = true},
        {.path = "/healthz", .answer = answer_health, .context = made, .open = true},
        {.path = "/api/v1/openapi.json", .answer = answer_openapi, .context = made},
        {.path = "/api/v1/status", .answer = answer_status, .context = made},
        {.path = "/api/v1/events", .answer = answer_events, .context = made},
        {.path = "/api/v1/runs", .answer = answer_runs, .context = made},
        {.path = "/api/v1/runs/*", .answer = answer_run, .context = made},
        {.path = NULL}};
    int status = mr_http_listen(&made->listener, where, routes, NOT_FOUND);
    if (status)
        mr_hub_http_close(result);
    return status;
}

void mr_hub_http_close(mr_hub_http **http) {
    mr_hub_http *gone = *http;
    if (!gone)
        return;
    mr_http_unlisten(&gone->listener);
    pthread_mutex_destroy(&gone->lock);
    free(gone);
    *http = NULL;
}
