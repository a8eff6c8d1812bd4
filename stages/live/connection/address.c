#include "stages/live/connection/address.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "millrace/status.h"

int mr_live_wait(struct pollfd *fds, int count, int wake, int64_t until_ns) {
    enum { MOST = 8 };
    struct pollfd all[MOST];
    count = count < MOST ? count : MOST - 1;
    for (int i = 0; i < count; i++)
        all[i] = fds[i];
    all[count] = (struct pollfd){.fd = wake, .events = POLLIN};
    for (;;) {
        const int64_t left_ns = until_ns - mr_now_ns();
        const struct timespec left = {.tv_sec = left_ns > 0 ? left_ns / 1000000000 : 0,
                                      .tv_nsec = left_ns > 0 ? left_ns % 1000000000 : 0};
        const int ready = ppoll(all, (nfds_t)count + 1, &left, NULL);
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready < 0)
            return mr_fail(MR_ERROR_IO, "cannot wait for sockets: %s", strerror(errno));
        if (all[count].revents)
            return mr_fail(MR_ERROR_CANCELLED, "cancelled");
        for (int i = 0; i < count; i++)
            fds[i].revents = all[i].revents;
        return ready > 0 ? MR_OK : MR_ERROR_AGAIN;
    }
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* A name that a thread resolves. The thread and the caller each hold a reference. */
typedef struct job {
    atomic_int holders;
    int done;          /* eventfd, to be waited for */
    atomic_bool ready; /* the results below are written */
    int error;
    int count;
    mr_address addresses[MR_MOST_ADDRESSES];
    char host[256], port[16];
} job;

enum { MOST_JOBS = 256 };
static atomic_int jobs;

static void drop(job *of) {
    if (atomic_fetch_sub(&of->holders, 1) > 1)
        return;
    close(of->done);
    mr_free(of);
}

static int look_up(job *of, int flags) {
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | flags};
    struct addrinfo *found = NULL;
    const int error = getaddrinfo(of->host, of->port, &hints, &found);
    for (const struct addrinfo *at = found; at && of->count < MR_MOST_ADDRESSES; at = at->ai_next) {
        if (at->ai_addrlen > sizeof of->addresses->at)
            continue;
        memcpy(&of->addresses[of->count].at, at->ai_addr, at->ai_addrlen);
        of->addresses[of->count++].bytes = at->ai_addrlen;
    }
    if (found)
        freeaddrinfo(found);
    return error;
}

static void *resolve(void *context) {
    job *of = context;
    of->error = look_up(of, 0);
    const uint64_t one = 1;
    atomic_store(&of->ready, true);
    (void)!write(of->done, &one, sizeof one);
    drop(of);
    atomic_fetch_sub(&jobs, 1);
    return NULL;
}

static int start(job *of) {
    pthread_t thread;
    if (atomic_fetch_add(&jobs, 1) >= MOST_JOBS) {
        atomic_fetch_sub(&jobs, 1);
        return mr_fail(MR_ERROR_IO, "%s: %d names are being resolved already: does the name server answer?", of->host,
                       MOST_JOBS);
    }
    atomic_fetch_add(&of->holders, 1);
    const int error = mr_thread_create(&thread, resolve, of);
    if (error) {
        atomic_fetch_sub(&jobs, 1);
        atomic_fetch_sub(&of->holders, 1);
        return mr_thread_fail(error, "a thread that resolves %s", of->host);
    }
    pthread_detach(thread);
    return MR_OK;
}

static int wait_for(job *of, int wake, int64_t until_ns) {
    struct pollfd done = {.fd = of->done, .events = POLLIN};
    int status = start(of);
    if (!status)
        status = mr_live_wait(&done, 1, wake, until_ns);
    if (status == MR_ERROR_AGAIN || (!status && !atomic_load(&of->ready)))
        return mr_fail(MR_ERROR_IO, "%s: the name server has not answered in time", of->host);
    return status;
}

int mr_resolve(mr_address addresses[MR_MOST_ADDRESSES], int *count, const char *host, const char *port, int wake,
               int64_t until_ns) {
    *count = 0;
    job *of = mr_calloc(1, sizeof *of);
    if (!of)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    of->holders = 1;
    of->done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    snprintf(of->host, sizeof of->host, "%s", host);
    snprintf(of->port, sizeof of->port, "%s", port);
    int status = MR_OK;
    if (of->done < 0)
        status = mr_fail(MR_ERROR_IO, "no descriptor to resolve %s: %s", host, strerror(errno));
    else if (look_up(of, AI_NUMERICHOST))
        status = wait_for(of, wake, until_ns);
    if (!status && of->error)
        status = mr_fail(MR_ERROR_IO, "%s: %s", host, gai_strerror(of->error));
    if (!status) {
        memcpy(addresses, of->addresses, sizeof of->addresses);
        *count = of->count;
    }
    drop(of);
    return status;
}

/* Maps IPv4 into IPv6, so that both forms compare equal. */
static void map_ipv4(const mr_address *from, struct in6_addr *to) {
    *to = (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff}};
    if (from->at.ss_family == AF_INET6)
        memcpy(to, &((const struct sockaddr_in6 *)&from->at)->sin6_addr, sizeof *to);
    else
        memcpy(to->s6_addr + 12, &((const struct sockaddr_in *)&from->at)->sin_addr, 4);
}

bool mr_address_same_host(const mr_address *a, const mr_address *b) {
    struct in6_addr first, second;
    map_ipv4(a, &first);
    map_ipv4(b, &second);
    return memcmp(&first, &second, sizeof first) == 0;
}
