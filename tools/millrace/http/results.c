#include "tools/millrace/http/results.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/base/thread.h"

enum { MOST_STREAMS = 32, STAGE_BYTES = 160 };
/* Between two samples of a stage. */
static const int64_t ROUND_NS = 250000000;

/* An answer of tap, which streams of one stage share. */
typedef struct sample {
    atomic_int holders;
    char *text;
    size_t bytes;
} sample;

typedef struct stream {
    mr_run_http *web;
    mr_http_request *request;
    char stage[STAGE_BYTES];
    sample *newest; /* not given yet; NULL: none */
    bool over;      /* it is the last one */
    struct stream *next;
} stream;

struct mr_run_http_sampler {
    pthread_mutex_t lock; /* for all of it, and for the streams */
    pthread_cond_t changed;
    pthread_t thread;
    bool runs, ending;
    int count;
    stream *streams;
};

static void let_go(void *owner) {
    sample *one = owner;
    if (one && atomic_fetch_sub(&one->holders, 1) == 1) {
        free(one->text);
        free(one);
    }
}

/* ---- the thread ------------------------------------------------------------------------------------------------- */

/* Asks for a sample of a stage. NULL: no memory. */
static char *ask(const mr_run_http *web, const char *stage, size_t *bytes) {
    size_t length;
    yajl_gen json = mr_json_create(false);
    if (!json)
        return NULL;
    MR_JSON_MAP(json, NULL) {
        mr_json_integer(json, "millrace", 1);
        mr_json_text(json, "do", "tap");
        mr_json_text(json, "argument", stage);
        MR_JSON_MAP(json, "options")
            mr_json_text(json, "wait", "0.5");
    }
    char *line = mr_json_finish_text(json, &length);
    if (!line)
        return NULL;
    line[length - 1] = '\0';
    char *answer = web->change(web->context, line, bytes);
    free(line);
    return answer;
}

/* Gives an answer to all streams of a stage. With the lock. */
static void give(struct mr_run_http_sampler *sampler, const char *stage, sample *one, bool last) {
    for (stream *to = sampler->streams; to; to = to->next) {
        if (strcmp(to->stage, stage) != 0 || to->over)
            continue;
        let_go(to->newest);
        atomic_fetch_add(&one->holders, 1);
        to->newest = one;
        to->over = last;
        mr_http_wake(to->request);
    }
}

/* If no frame has passed, or the run is busy, the next round asks again. */
static void take_sample(mr_run_http *web, const char *stage) {
    size_t bytes = 0;
    char *answer = ask(web, stage, &bytes);
    sample *one = answer ? calloc(1, sizeof *one) : NULL;
    if (!one) {
        free(answer);
        return;
    }
    *one = (sample){.text = answer, .bytes = strcspn(answer, "\n")};
    atomic_init(&one->holders, 1);
    const bool ok = strstr(answer, "\"sample\":{"), wait = strstr(answer, "\"exit_code\":75");
    pthread_mutex_lock(&web->sampler->lock);
    if (ok || !wait)
        give(web->sampler, stage, one, !ok);
    pthread_mutex_unlock(&web->sampler->lock);
    let_go(one);
}

/* Copies the stage of each stream, once. With the lock. */
static int list_stages(const struct mr_run_http_sampler *sampler, char stages[MOST_STREAMS][STAGE_BYTES]) {
    int count = 0;
    for (const stream *one = sampler->streams; one; one = one->next) {
        int at = 0;
        while (at < count && strcmp(stages[at], one->stage) != 0)
            at++;
        if (at == count && !one->over)
            memcpy(stages[count++], one->stage, STAGE_BYTES);
    }
    return count;
}

static void *work(void *context) {
    mr_run_http *web = context;
    struct mr_run_http_sampler *sampler = web->sampler;
    char stages[MOST_STREAMS][STAGE_BYTES];
    pthread_mutex_lock(&sampler->lock);
    while (!sampler->ending) {
        const struct timespec until = mr_condition_until(ROUND_NS);
        const int count = list_stages(sampler, stages);
        pthread_mutex_unlock(&sampler->lock);
        for (int i = 0; i < count; i++)
            take_sample(web, stages[i]);
        pthread_mutex_lock(&sampler->lock);
        if (!count && !sampler->ending)
            pthread_cond_wait(&sampler->changed, &sampler->lock);
        else if (!sampler->ending)
            pthread_cond_timedwait(&sampler->changed, &sampler->lock, &until);
    }
    pthread_mutex_unlock(&sampler->lock);
    return NULL;
}

int mr_run_http_start_sampler(mr_run_http *web) {
    struct mr_run_http_sampler *sampler = calloc(1, sizeof *sampler);
    web->sampler = sampler;
    if (!sampler)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the HTTP server");
    pthread_mutex_init(&sampler->lock, NULL);
    mr_condition_init(&sampler->changed);
    sampler->runs = mr_thread_create(&sampler->thread, work, web) == 0;
    if (sampler->runs)
        pthread_setname_np(sampler->thread, "mr-http-results");
    return sampler->runs ? MR_OK : mr_fail(MR_ERROR_UNAVAILABLE, "no thread for the HTTP server");
}

void mr_run_http_end_sampler(mr_run_http *web) {
    struct mr_run_http_sampler *sampler = web->sampler;
    if (!sampler || !sampler->runs)
        return;
    pthread_mutex_lock(&sampler->lock);
    sampler->ending = true;
    pthread_cond_broadcast(&sampler->changed);
    pthread_mutex_unlock(&sampler->lock);
    pthread_join(sampler->thread, NULL);
    sampler->runs = false;
}

void mr_run_http_free_sampler(mr_run_http *web) {
    if (!web->sampler)
        return;
    pthread_cond_destroy(&web->sampler->changed);
    pthread_mutex_destroy(&web->sampler->lock);
    free(web->sampler);
    web->sampler = NULL;
}

/* ---- streams ---------------------------------------------------------------------------------------------------- */

static mr_http_reply next(void *state, mr_http_content *part) {
    stream *one = state;
    MR_LOCKED(&one->web->sampler->lock);
    sample *given = one->newest;
    one->newest = NULL;
    if (!given)
        return one->over ? MR_HTTP_END : MR_HTTP_WAIT;
    *part = (mr_http_content){.type = "result", .data = given->text, .bytes = given->bytes, .release = let_go,
                              .owner = given};
    return MR_HTTP_DONE;
}

static void end(void *state) {
    stream *one = state;
    struct mr_run_http_sampler *sampler = one->web->sampler;
    pthread_mutex_lock(&sampler->lock);
    stream **at = &sampler->streams;
    while (*at != one)
        at = &(*at)->next;
    *at = one->next;
    sampler->count--;
    pthread_mutex_unlock(&sampler->lock);
    let_go(one->newest);
    free(one);
}

/* Whether there was room for one more. */
static bool add(struct mr_run_http_sampler *sampler, stream *made) {
    MR_LOCKED(&sampler->lock);
    if (sampler->count == MOST_STREAMS)
        return false;
    made->next = sampler->streams;
    sampler->streams = made;
    sampler->count++;
    pthread_cond_signal(&sampler->changed);
    return true;
}

mr_http_reply mr_run_http_answer_results(mr_http_request *request, void *context) {
    mr_run_http *web = context;
    const char *stage = mr_http_argument(request, "stage");
    if (!stage || !*stage || strlen(stage) >= STAGE_BYTES)
        return mr_http_say(request, 400, "name a stage: /api/v1/results?stage=STAGE\n");
    stream *made = calloc(1, sizeof *made);
    if (!made)
        return MR_HTTP_END;
    *made = (stream){.web = web, .request = request};
    memcpy(made->stage, stage, strlen(stage));
    if (!add(web->sampler, made)) {
        free(made);
        return mr_http_say(request, 503, "too many streams of results are open; try again later\n");
    }
    mr_http_keep(request, made, end);
    return mr_http_stream(request, MR_HTTP_EVENTS, next);
}
