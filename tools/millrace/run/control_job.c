#include "tools/millrace/run/control_job.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/base/thread.h"
#include "millrace/log.h"
#include "tools/millrace/run/control_answer.h"

struct mr_control_job {
    char *request;
    mr_pipeline *pipeline;
    char *answer;
    size_t length;
    bool done, dropped; /* the later of both must free it */
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int fd;
    int running;
    bool ended;
} jobs = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .fd = -1};

int mr_control_jobs_open(void) {
    jobs.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    jobs.ended = false;
    return jobs.fd;
}

void mr_control_jobs_close(void) {
    mr_control_jobs_end();
    if (jobs.fd >= 0)
        close(jobs.fd);
    jobs.fd = -1;
}

void mr_control_jobs_end(void) {
    pthread_mutex_lock(&jobs.lock);
    jobs.ended = true;
    while (jobs.running)
        pthread_cond_wait(&jobs.changed, &jobs.lock);
    pthread_mutex_unlock(&jobs.lock);
}

bool mr_control_takes_long(const char *request) {
    char *what = mr_control_request_name(request);
    bool takes = what && (strcmp(what, "add") == 0 || strcmp(what, "remove") == 0 || strcmp(what, "set") == 0);
    free(what);
    return takes;
}

static void destroy(mr_control_job *job) {
    free(job->request);
    free(job->answer);
    free(job);
}

static void *work(void *context) {
    mr_control_job *job = context;
    const uint64_t one = 1;
    job->answer = mr_control_answer(job->request, job->pipeline, NULL, &job->length);
    pthread_mutex_lock(&jobs.lock);
    job->done = true;
    if (job->dropped)
        destroy(job);
    else if (write(jobs.fd, &one, sizeof one) != sizeof one)
        mr_log(MR_LOG_DEBUG, "it is known already that an answer is ready");
    jobs.running--;
    pthread_cond_broadcast(&jobs.changed);
    pthread_mutex_unlock(&jobs.lock);
    return NULL;
}

static bool start(mr_control_job *job) {
    pthread_t thread;
    pthread_mutex_lock(&jobs.lock);
    /* Without the descriptor a job's end would not be seen. */
    bool started = !jobs.ended && jobs.fd >= 0 && !mr_thread_create(&thread, work, job);
    if (started)
        pthread_detach(thread);
    jobs.running += started;
    pthread_mutex_unlock(&jobs.lock);
    return started;
}

mr_control_job *mr_control_job_begin(const char *request, mr_pipeline *pipeline) {
    mr_control_job *job = calloc(1, sizeof *job);
    if (!job)
        return NULL;
    job->pipeline = pipeline;
    job->request = strdup(request);
    if (job->request && start(job))
        return job;
    destroy(job);
    return NULL;
}

bool mr_control_job_take(mr_control_job **job, char **answer, size_t *length) {
    pthread_mutex_lock(&jobs.lock);
    bool done = (*job)->done;
    pthread_mutex_unlock(&jobs.lock);
    if (!done)
        return false;
    *answer = (*job)->answer;
    *length = (*job)->length;
    (*job)->answer = NULL;
    destroy(*job);
    *job = NULL;
    return true;
}

void mr_control_job_drop(mr_control_job **job) {
    mr_control_job *gone = *job;
    if (!gone)
        return;
    pthread_mutex_lock(&jobs.lock);
    bool done = gone->done;
    gone->dropped = true;
    pthread_mutex_unlock(&jobs.lock);
    if (done)
        destroy(gone);
    *job = NULL;
}
