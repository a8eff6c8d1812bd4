#include "tools/millrace/otlp/otlp.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/thread.h"
#include "engine/base/url.h"
#include "millrace/log.h"
#include "tools/millrace/otlp/otlp_target.h"

/* GRACE_PERCENT: the part of the grace time after which a run that was asked to end no longer waits. */
enum { LOOK_MS = 20, GRACE_PERCENT = 80 };
static const int64_t LEAST_PAUSE_NS = 1000000000, MOST_PAUSE_NS = 60000000000;
/* During a flush, how long a request may take at a collector that has not answered the one before. */
static const int64_t LAST_TRY_NS = 1000000000;

typedef struct channel {
    mr_otlp *otlp;
    mr_otlp_signal signal;
    char url[MR_OTLP_URL], shown[MR_OTLP_URL]; /* shown: without user and password, which a variable's URL may have */
    mr_http_client *client;
    int64_t next_ns, pause_ns; /* the thread's: when to send; the last pause after a failure */
    int64_t asked_ns;          /* likewise: not before this, by Retry-After; 0: at any time */
    int64_t began_ns;          /* likewise: the last request */
    bool silent;               /* likewise: it had no answer */
    bool flushed;              /* sent since the flush began; the thread's */
    mr_otlp_state state;       /* with the lock */
} channel;

struct mr_otlp {
    const mr_plan_view *plan;
    mr_otlp_target target;
    int64_t timeout_ns;
    channel channels[MR_OTLP_SIGNALS];
    size_t count;
    mr_otlp_bytes body;
    pthread_t sender;
    bool sends;              /* the thread runs */
    atomic_bool stops;
    pthread_mutex_t lock;    /* for the next fields */
    pthread_cond_t changed;
    bool flushing, flushed;
    int64_t until_ns;        /* the flush ends then */
};

/* ---- requests ---------------------------------------------------------------------------------------------------- */

/* Whether a request ends without an answer. The thread of the sender. */
static bool gives_up(void *context) {
    const channel *to = context;
    if (atomic_load(&to->otlp->stops))
        return true;
    if (!to->silent || mr_now_ns() - to->began_ns < LAST_TRY_NS)
        return false;
    MR_LOCKED(&to->otlp->lock);
    return to->otlp->flushing;
}

/* OpenTelemetry's rule. */
static bool may_repeat(int status, long code) {
    return status == MR_ERROR_AGAIN && (code == 0 || code == 429 || (code >= 502 && code <= 504));
}

static void note_taken(mr_otlp *otlp, channel *to, size_t items, const mr_http_answer *answer) {
    char why[MR_OTLP_WHY];
    uint64_t rejected = 0;
    const bool cut = answer->bytes == sizeof answer->body;
    if (!mr_otlp_read_rejected(answer->body, answer->bytes, cut, &rejected, why))
        rejected = 0; /* the status counts */
    rejected = rejected > items ? items : rejected;
    if (rejected)
        mr_log_repeating(MR_LOG_WARNING, to->url, "otlp: %s rejects %llu of %zu %s: %s", to->url,
                         (unsigned long long)rejected, items, to->signal.items, *why ? why : "it does not say why");
    if (to->signal.done)
        to->signal.done(to->signal.context, rejected);
    MR_LOCKED(&otlp->lock);
    if (!to->state.up)
        mr_log(MR_LOG_INFO, "otlp: %s takes %s again", to->url, to->signal.name);
    to->state.up = true;
    to->state.message[0] = '\0';
    to->state.sent += items - rejected;
    to->state.rejected += rejected;
}

/* Returns whether the one before had success. */
static bool note_failure(mr_otlp *otlp, channel *to, size_t items, bool again) {
    if (!again && to->signal.done)
        to->signal.done(to->signal.context, items);
    MR_LOCKED(&otlp->lock);
    to->state.failures++;
    to->state.rejected += again ? 0 : items;
    const bool was_up = to->state.up;
    if (was_up)
        mr_log(MR_LOG_WARNING, "otlp: %s", mr_message());
    to->state.up = false;
    snprintf(to->state.message, sizeof to->state.message, "%s", mr_message());
    return was_up;
}

/* Sends once, and sets when to send next. */
static void send_once(mr_otlp *otlp, channel *to) {
    static const mr_http_header type = {"Content-Type", "application/x-protobuf"};
    mr_http_answer answer = {0};
    bool more = false;
    otlp->body.length = 0;
    otlp->body.failed = false;
    const size_t items = to->signal.make(to->signal.context, &otlp->target.resource, &otlp->body, &more);
    const int64_t now_ns = mr_now_ns();
    to->next_ns = now_ns + to->signal.interval_ns;
    if (!items) {
        to->flushed = true;
        return;
    }
    to->began_ns = now_ns;
    int status = otlp->body.failed ? mr_fail(MR_ERROR_MEMORY, "no memory for %s", to->signal.name)
                                   : mr_http_client_post(to->client,
                                                         &(mr_http_post){.body = otlp->body.data,
                                                                         .bytes = otlp->body.length, .headers = &type,
                                                                         .header_count = 1}, &answer);
    if (status == MR_ERROR_CANCELLED) { /* the end of the run did not wait any longer */
        to->flushed = true;
        return;
    }
    const bool again = may_repeat(status, answer.code);
    bool was_up = true;
    if (!status)
        note_taken(otlp, to, items, &answer);
    else
        was_up = note_failure(otlp, to, items, again);
    to->silent = again && !answer.code;
    /* The end of a run does not wait for a collector that is away. */
    to->flushed = again ? !was_up && to->silent : !more;
    to->pause_ns = !again ? 0 : !to->pause_ns ? LEAST_PAUSE_NS : 2 * to->pause_ns;
    to->pause_ns = to->pause_ns > MOST_PAUSE_NS ? MOST_PAUSE_NS : to->pause_ns;
    to->asked_ns = answer.pause_ns ? mr_now_ns() + answer.pause_ns : 0;
    if (again)
        to->next_ns = mr_now_ns() + (answer.pause_ns > to->pause_ns ? answer.pause_ns : to->pause_ns);
    else if (more)
        to->next_ns = now_ns;
}

/* ---- the thread -------------------------------------------------------------------------------------------------- */

/* Sends all signals that are due. Returns the time of the next one. */
static int64_t send_due(mr_otlp *otlp) {
    int64_t next_ns = INT64_MAX;
    for (size_t i = 0; i < otlp->count && !atomic_load(&otlp->stops); i++) {
        channel *one = &otlp->channels[i];
        if (one->next_ns <= mr_now_ns())
            send_once(otlp, one);
        next_ns = one->next_ns < next_ns ? one->next_ns : next_ns;
    }
    return next_ns;
}

static void begin_flush(mr_otlp *otlp) {
    for (size_t i = 0; i < otlp->count; i++) {
        otlp->channels[i].flushed = false;
        otlp->channels[i].next_ns = otlp->channels[i].asked_ns;
    }
}

/* With the lock. Nobody waits for a collector that wants to be asked after the end. */
static bool all_are_flushed(const mr_otlp *otlp) {
    size_t flushed = 0;
    while (flushed < otlp->count &&
           (otlp->channels[flushed].flushed || otlp->channels[flushed].next_ns > otlp->until_ns))
        flushed++;
    return flushed == otlp->count;
}

static void *send_on(void *context) {
    mr_otlp *otlp = context;
    bool flushes = false;
    pthread_mutex_lock(&otlp->lock);
    while (!atomic_load(&otlp->stops)) {
        if (otlp->flushing && !flushes)
            begin_flush(otlp);
        flushes = otlp->flushing;
        pthread_mutex_unlock(&otlp->lock);
        const int64_t pause_ns = send_due(otlp) - mr_now_ns();
        const struct timespec until = mr_condition_until(pause_ns);
        pthread_mutex_lock(&otlp->lock);
        otlp->flushed = flushes && all_are_flushed(otlp);
        if (!atomic_load(&otlp->stops) && pause_ns > 0 && otlp->flushing == flushes)
            pthread_cond_timedwait(&otlp->changed, &otlp->lock, &until);
    }
    pthread_mutex_unlock(&otlp->lock);
    return NULL;
}

int64_t mr_otlp_patience_until_ns(const mr_plan_view *plan, int64_t most_ns, int64_t asked_ns) {
    const int64_t longest_ns = mr_now_ns() + most_ns;
    const int64_t graced_ns = asked_ns ? asked_ns + plan->grace_ns / 100 * GRACE_PERCENT : longest_ns;
    return graced_ns < longest_ns ? graced_ns : longest_ns;
}

static bool is_flushed(mr_otlp *otlp) {
    MR_LOCKED(&otlp->lock);
    return otlp->flushed;
}

void mr_otlp_flush(mr_otlp *otlp, int descriptor, int64_t asked_ns) {
    if (!otlp)
        return;
    const int64_t until_ns = mr_otlp_patience_until_ns(otlp->plan, otlp->timeout_ns, asked_ns);
    struct pollfd on = {.fd = descriptor, .events = POLLIN};
    pthread_mutex_lock(&otlp->lock);
    otlp->flushing = true;
    otlp->until_ns = until_ns;
    pthread_cond_signal(&otlp->changed);
    pthread_mutex_unlock(&otlp->lock);
    while (otlp->sends && !is_flushed(otlp) && mr_now_ns() < until_ns && poll(&on, 1, LOOK_MS) <= 0)
        continue;
}

/* ---- beginning and end ------------------------------------------------------------------------------------------- */

int mr_otlp_create(mr_otlp **result, const mr_plan_view *plan, const char *process) {
    *result = NULL;
    mr_otlp *otlp = calloc(1, sizeof *otlp);
    if (!otlp)
        return mr_fail(MR_ERROR_MEMORY, "no memory for OTLP");
    pthread_mutex_init(&otlp->lock, NULL);
    mr_condition_init(&otlp->changed);
    otlp->plan = plan;
    otlp->timeout_ns = mr_plan_view_otlp(plan)->timeout_ns;
    int status = mr_otlp_target_find(&otlp->target, plan, process);
    if (status || !otlp->target.endpoint)
        mr_otlp_destroy(&otlp);
    *result = otlp;
    return status;
}

int mr_otlp_add_signal(mr_otlp *otlp, const mr_otlp_signal *signal, bool *sends) {
    mr_otlp_route route;
    *sends = false;
    int status = otlp ? mr_otlp_route_find(&route, &otlp->target, signal->name) : MR_OK;
    if (!otlp || status || !*route.url)
        return status;
    channel *to = &otlp->channels[otlp->count++];
    *to = (channel){.otlp = otlp, .signal = *signal,
                    .state = {.signal = signal->name, .url = to->shown, .up = true},
                    .next_ns = mr_now_ns() + signal->interval_ns};
    snprintf(to->url, sizeof to->url, "%s", route.url);
    snprintf(to->shown, sizeof to->shown, "%s", route.url);
    mr_url_hide(to->shown);
    status = mr_http_client_create(&to->client, &(mr_http_client_params){
        .url = to->url, .ca_file = route.ca_file, .login = otlp->target.otlp->login, .timeout_ns = otlp->timeout_ns,
        .stops = gives_up, .context = to});
    for (size_t i = 0; i < route.header_count && !status; i++)
        status = mr_http_client_add_header(to->client, route.headers[i].name, route.headers[i].value);
    mr_otlp_route_fini(&route);
    *sends = true;
    return status;
}

int mr_otlp_start(mr_otlp *otlp) {
    if (!otlp || !otlp->count)
        return MR_OK;
    const int error = mr_thread_create(&otlp->sender, send_on, otlp);
    if (error)
        return mr_thread_fail(error, "the thread that sends to %s", otlp->target.endpoint);
    otlp->sends = true;
    pthread_setname_np(otlp->sender, "mr-otlp");
    return MR_OK;
}

void mr_otlp_stop(mr_otlp *otlp) {
    if (!otlp || !otlp->sends)
        return;
    pthread_mutex_lock(&otlp->lock);
    atomic_store(&otlp->stops, true);
    pthread_cond_signal(&otlp->changed);
    pthread_mutex_unlock(&otlp->lock);
    pthread_join(otlp->sender, NULL);
    otlp->sends = false;
}

void mr_otlp_destroy(mr_otlp **result) {
    mr_otlp *otlp = *result;
    if (!otlp)
        return;
    mr_otlp_stop(otlp);
    for (size_t i = 0; i < otlp->count; i++)
        mr_http_client_destroy(&otlp->channels[i].client);
    mr_otlp_target_fini(&otlp->target);
    free(otlp->body.data);
    pthread_cond_destroy(&otlp->changed);
    pthread_mutex_destroy(&otlp->lock);
    free(otlp);
    *result = NULL;
}

size_t mr_otlp_state_of(mr_otlp *otlp, mr_otlp_state states[MR_OTLP_SIGNALS]) {
    if (!otlp)
        return 0;
    MR_LOCKED(&otlp->lock);
    for (size_t i = 0; i < otlp->count; i++)
        states[i] = otlp->channels[i].state;
    return otlp->count;
}
