#include "tools/millrace/http/jobs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/base/thread.h"

enum { MOST_JOBS = 32 };

/* The request and the worker share it: the last one frees it. */
struct mr_run_http_job {
    mr_run_http *web;
    mr_run_http_lane *lane;
    mr_http_request *request;
    char *line, *answer;
    size_t bytes;
    bool done, left; /* the change was made, or the server ends; the client has left */
    mr_run_http_job *next;
};

static void free_job(mr_run_http_job *job) {
    free(job->line);
    free(job->answer);
    free(job);
}

/* ---- the worker ------------------------------------------------------------------------------------------------- */

/* Waits for the next job; NULL: the server ends. With the lock. */
static mr_run_http_job *take(mr_run_http_lane *lane) {
    mr_run_http *web = lane->web;
    while (!lane->first && !web->ending)
        pthread_cond_wait(&lane->added, &web->job_lock);
    mr_run_http_job *job = web->ending ? NULL : lane->first;
    if (job) {
        lane->first = job->next;
        lane->count--;
    }
    return job;
}

static void *work(void *context) {
    mr_run_http_lane *lane = context;
    mr_run_http *web = lane->web;
    pthread_mutex_lock(&web->job_lock);
    for (mr_run_http_job *job; (job = take(lane));) {
        pthread_mutex_unlock(&web->job_lock);
        size_t bytes = 0;
        char *answer = web->change(web->context, job->line, &bytes);
        pthread_mutex_lock(&web->job_lock);
        job->answer = answer;
        job->bytes = bytes;
        job->done = true;
        if (job->left)
            free_job(job);
        else
            mr_http_wake(job->request);
    }
    pthread_mutex_unlock(&web->job_lock);
    return NULL;
}

int mr_run_http_start_workers(mr_run_http *web) {
    for (int i = 0; i < MR_RUN_HTTP_LANES; i++) {
        mr_run_http_lane *lane = &web->lanes[i];
        lane->web = web;
        pthread_cond_init(&lane->added, NULL);
        lane->works = mr_thread_create(&lane->worker, work, lane) == 0;
        if (!lane->works)
            return mr_fail(MR_ERROR_UNAVAILABLE, "no thread for the HTTP server");
        pthread_setname_np(lane->worker, "mr-http-jobs");
    }
    return MR_OK;
}

void mr_run_http_end_workers(mr_run_http *web) {
    pthread_mutex_lock(&web->job_lock);
    web->ending = true;
    for (int i = 0; i < MR_RUN_HTTP_LANES && web->lanes[i].web; i++)
        pthread_cond_broadcast(&web->lanes[i].added);
    pthread_mutex_unlock(&web->job_lock);
    for (int i = 0; i < MR_RUN_HTTP_LANES && web->lanes[i].web; i++) {
        if (web->lanes[i].works)
            pthread_join(web->lanes[i].worker, NULL);
        pthread_cond_destroy(&web->lanes[i].added);
    }
}

/* ---- requests --------------------------------------------------------------------------------------------------- */

/* The body as a request on one line, with the protocol's version before all else. Line breaks are blanks in JSON. */
static char *line_of(const char *body) {
    char *line = NULL;
    body += strspn(body, " \t\r\n");
    if (*body != '{' || asprintf(&line, "{\"millrace\":1,%s", body + 1) < 0)
        return NULL;
    for (char *at = line; *at; at++)
        *at = *at == '\n' || *at == '\r' ? ' ' : *at;
    return line;
}

static void leave(void *state) {
    mr_run_http_job *job = state;
    mr_run_http *web = job->web;
    MR_LOCKED(&web->job_lock);
    for (mr_run_http_job **at = &job->lane->first; *at && !job->done; at = &(*at)->next)
        if (*at == job) {
            *at = job->next;
            job->lane->count--;
            job->done = true;
            break;
        }
    job->left = true;
    if (job->done)
        free_job(job);
}

static mr_run_http_lane *lane_for(mr_run_http *web, const char *line) {
    static const struct {
        const char *what;
        int lane;
    } known[] = {{"tap", MR_RUN_HTTP_LOOKS}, {"status", MR_RUN_HTTP_LOOKS}, {"drain", MR_RUN_HTTP_ENDS},
                 {"stop", MR_RUN_HTTP_ENDS}};
    yajl_val tree = mr_json_parse(line, NULL, 0);
    const char *word = YAJL_GET_STRING(mr_json_member(tree, "do", yajl_t_string));
    int lane = MR_RUN_HTTP_CHANGES;
    for (size_t i = 0; word && i < sizeof known / sizeof *known; i++)
        if (strcmp(word, known[i].what) == 0)
            lane = known[i].lane;
    yajl_tree_free(tree);
    return &web->lanes[lane];
}

/* False: there is no memory. */
static bool add(mr_run_http_lane *lane, mr_http_request *request, char *line) {
    mr_run_http *web = lane->web;
    mr_run_http_job *job = calloc(1, sizeof *job), **end = &lane->first;
    if (!job)
        return false;
    *job = (mr_run_http_job){.web = web, .lane = lane, .request = request, .line = line};
    mr_http_keep(request, job, leave);
    MR_LOCKED(&web->job_lock);
    while (*end)
        end = &(*end)->next;
    *end = job;
    lane->count++;
    pthread_cond_signal(&lane->added);
    return true;
}

static bool is_full(const mr_run_http_lane *lane) {
    MR_LOCKED(&lane->web->job_lock);
    return lane->count >= MOST_JOBS;
}

/* The status code for the exit code in an answer. */
static unsigned code_of(const char *answer) {
    static const struct {
        int exit_code;
        unsigned code;
    } codes[] = {{64, 400}, {76, 400}, {77, 403}, {66, 404}, {65, 422}, {78, 422}, {69, 503}, {75, 504}};
    yajl_val tree = mr_json_parse(answer, NULL, 0), found = mr_json_member(tree, "exit_code", yajl_t_number);
    const long long exit_code = YAJL_IS_INTEGER(found) ? YAJL_GET_INTEGER(found) : 0;
    yajl_tree_free(tree);
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i].exit_code == exit_code)
            return codes[i].code;
    return exit_code ? 500 : 200;
}

static mr_http_reply send_answer(mr_http_request *request, mr_run_http_job *job) {
    mr_run_http *web = job->web;
    pthread_mutex_lock(&web->job_lock);
    const bool done = job->done;
    char *answer = done ? job->answer : NULL;
    const size_t bytes = job->bytes;
    job->answer = done ? NULL : job->answer;
    pthread_mutex_unlock(&web->job_lock);
    if (!done)
        return MR_HTTP_WAIT;
    return answer ? mr_http_send_text(request, "application/json", answer, bytes, code_of(answer)) : MR_HTTP_END;
}

mr_http_reply mr_run_http_answer_do(mr_http_request *request, void *context) {
    mr_run_http *web = context;
    if (mr_http_state(request))
        return send_answer(request, mr_http_state(request));
    char *line = line_of(mr_http_body(request));
    if (!line)
        return mr_http_say(request, 400, "the body must be a JSON object, such as {\"do\": \"drain\"}\n");
    mr_run_http_lane *lane = lane_for(web, line);
    const bool full = is_full(lane);
    if (!full && add(lane, request, line))
        return MR_HTTP_WAIT;
    free(line);
    return full ? mr_http_say(request, 503, "too many requests wait; try again later\n") : MR_HTTP_END;
}
