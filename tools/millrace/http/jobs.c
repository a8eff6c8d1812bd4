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
static mr_run_http_job *take(mr_run_http *web) {
    while (!web->first_job && !web->ending)
        pthread_cond_wait(&web->job_added, &web->job_lock);
    mr_run_http_job *job = web->ending ? NULL : web->first_job;
    if (job) {
        web->first_job = job->next;
        web->job_count--;
    }
    return job;
}

static void *work(void *context) {
    mr_run_http *web = context;
    pthread_mutex_lock(&web->job_lock);
    for (mr_run_http_job *job; (job = take(web));) {
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

int mr_run_http_start_worker(mr_run_http *web) {
    web->works = mr_thread_create(&web->worker, work, web) == 0;
    return web->works ? MR_OK : mr_fail(MR_ERROR_UNAVAILABLE, "no thread for the HTTP server");
}

/* The one that is being made is waited for. */
void mr_run_http_end_worker(mr_run_http *web) {
    if (!web->works)
        return;
    pthread_mutex_lock(&web->job_lock);
    web->ending = true;
    pthread_cond_broadcast(&web->job_added);
    pthread_mutex_unlock(&web->job_lock);
    pthread_join(web->worker, NULL);
    web->works = false;
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
    for (mr_run_http_job **at = &web->first_job; *at && !job->done; at = &(*at)->next)
        if (*at == job) {
            *at = job->next;
            web->job_count--;
            job->done = true;
            break;
        }
    job->left = true;
    if (job->done)
        free_job(job);
}

static bool add(mr_run_http *web, mr_http_request *request, char *line) {
    mr_run_http_job *job = calloc(1, sizeof *job), **end = &web->first_job;
    if (!job)
        return false;
    *job = (mr_run_http_job){.web = web, .request = request, .line = line};
    mr_http_keep(request, job, leave);
    MR_LOCKED(&web->job_lock);
    while (*end)
        end = &(*end)->next;
    *end = job;
    web->job_count++;
    pthread_cond_signal(&web->job_added);
    return true;
}

static bool is_full(mr_run_http *web) {
    MR_LOCKED(&web->job_lock);
    return web->job_count >= MOST_JOBS;
}

/* The status code for the exit code in an answer. */
static unsigned code_of(const char *answer) {
    static const struct {
        int exit_code;
        unsigned code;
    } codes[] = {{64, 400}, {76, 400}, {77, 403}, {66, 404}, {65, 422}, {78, 422}, {69, 503}, {75, 504}};
    const char *way[] = {"exit_code", NULL};
    yajl_val tree = mr_json_parse(answer, NULL, 0), found = tree ? yajl_tree_get(tree, way, yajl_t_number) : NULL;
    const long long exit_code = found && YAJL_IS_INTEGER(found) ? YAJL_GET_INTEGER(found) : 0;
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
    return answer ? mr_run_http_send_text(request, "application/json", answer, bytes, code_of(answer)) : MR_HTTP_END;
}

mr_http_reply mr_run_http_answer_do(mr_http_request *request, void *context) {
    mr_run_http *web = context;
    if (mr_http_state(request))
        return send_answer(request, mr_http_state(request));
    if (is_full(web))
        return mr_http_say(request, 503, "too many changes wait; try again later\n");
    char *line = line_of(mr_http_body(request));
    if (!line)
        return mr_http_say(request, 400, "the body must be a JSON object, such as {\"do\": \"drain\"}\n");
    if (add(web, request, line))
        return MR_HTTP_WAIT;
    free(line);
    return MR_HTTP_END;
}
