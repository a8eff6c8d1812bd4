#include "stages/live/live_open.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "stages/live/connection/address.h"

struct mr_live_opening {
    mr_connect_function *open;
    mr_connection_params params;
    pthread_t thread;
    int done; /* eventfd: the rest is written */
    mr_connection *connection;
    int status;
    char message[1024];
};

static void *run(void *context) {
    mr_live_opening *opening = context;
    opening->status = opening->open(&opening->connection, &opening->params);
    snprintf(opening->message, sizeof opening->message, "%s", opening->status ? mr_message() : "");
    while (eventfd_write(opening->done, 1) && errno == EINTR)
        ;
    return NULL;
}

static int start(mr_live_opening *opening) {
    if (opening->done < 0)
        return mr_fail(MR_ERROR_IO, "%s: no descriptor: %s", opening->params.url, strerror(errno));
    int error = mr_thread_create(&opening->thread, run, opening);
    return error ? mr_fail(MR_ERROR_IO, "%s: no thread: %s", opening->params.url, strerror(error)) : MR_OK;
}

static void release(mr_live_opening *opening) {
    if (opening->done >= 0)
        close(opening->done);
    mr_free(opening);
}

int mr_live_open_begin(mr_live_opening **result, mr_connect_function *open, const mr_connection_params *params) {
    mr_live_opening *opening = mr_calloc(1, sizeof *opening);
    if (!opening)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    *opening = (mr_live_opening){.open = open, .params = *params, .done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    int status = start(opening);
    if (status)
        release(opening);
    else
        *result = opening;
    return status;
}

int mr_live_open_await(const mr_live_opening *opening, int64_t until_ns) {
    struct pollfd done = {.fd = opening->done, .events = POLLIN};
    return mr_live_wait(&done, 1, opening->params.wake, until_ns);
}

int mr_live_open_end(mr_live_opening **ended, mr_connection **connection) {
    mr_live_opening *opening = *ended;
    pthread_join(opening->thread, NULL);
    int status = opening->status ? mr_fail(opening->status, "%s", opening->message) : MR_OK;
    *connection = opening->connection;
    release(opening);
    *ended = NULL;
    return status;
}
