/* Connections through libavformat, each on a separate thread. libavformat can block in name lookup or read for as long
 * as it likes, and nobody who stops the source should wait for it. After the connection is closed, the thread ends by
 * itself and frees what they shared. */
#include "stages/live/libav.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "engine/base/url.h"
#include "stages/live/connection/address.h"
#include "stages/live/libav_input.h"

/* Limits. Packets and bytes that wait to be read: beyond them the sender must wait. Threads that still run after close:
 * each waits for a name server. */
enum { MOST_PACKETS = 256, MOST_BYTES = 32 << 20, MOST_LEFT = 256 };

typedef struct channel {
    mr_connection base;
    mr_connection_params params; /* the strings are copies */
    char *texts;
    mr_libav_input input;        /* the thread's */
    atomic_bool cancelled;
    int signal;                  /* eventfd: there is something for the reader */
    pthread_mutex_t lock;        /* guards everything below */
    pthread_cond_t room;
    int holders;                 /* the reader, and the thread */
    bool opened, over, recorded;
    int status;                  /* how opening went, later how the stream ended */
    char message[MR_REPORT_WHY];
    mr_survey survey;
    mr_packet packets[MOST_PACKETS];
    size_t first, count, bytes;
    mr_connection_counts counts;
} channel;

/* How many threads there are, and how many have lost their reader. */
static atomic_int threads, left;

static void let_go(channel *at, bool is_thread) {
    pthread_mutex_lock(&at->lock);
    bool last = --at->holders == 0;
    if (!last && !is_thread)
        atomic_fetch_add(&left, 1);
    else if (last && is_thread)
        atomic_fetch_sub(&left, 1);
    pthread_mutex_unlock(&at->lock);
    if (!last)
        return;
    for (; at->count; at->count--, at->first = (at->first + 1) % MOST_PACKETS)
        mr_packet_drop(&at->packets[at->first]);
    close(at->signal);
    pthread_cond_destroy(&at->room);
    pthread_mutex_destroy(&at->lock);
    mr_free(at->texts);
    mr_free(at);
}

static void ring(const channel *at) {
    while (eventfd_write(at->signal, 1) && errno == EINTR)
        ;
}

/* ---- the thread -------------------------------------------------------------------------------------------------- */

static _Thread_local uint64_t *gaps_here;

/* libavformat reports missing RTP packets only in its log. */
static void hear(void *object, int level, const char *format) {
    if (gaps_here && strncmp(format, "RTP: missed", 11) == 0)
        ++*gaps_here;
}

static void note(channel *at, int status, bool over) {
    pthread_mutex_lock(&at->lock);
    at->opened = true;
    at->over = over;
    at->recorded = at->input.recorded;
    at->status = status;
    snprintf(at->message, sizeof at->message, "%s", status < 0 ? mr_message() : "");
    pthread_mutex_unlock(&at->lock);
    ring(at);
}

/* False: the reader has gone. */
static bool put(channel *at, mr_packet *packet) {
    pthread_mutex_lock(&at->lock);
    while (!atomic_load(&at->cancelled) && (at->count == MOST_PACKETS || (at->count && at->bytes > MOST_BYTES)))
        pthread_cond_wait(&at->room, &at->lock);
    bool wanted = !atomic_load(&at->cancelled);
    if (wanted) {
        at->packets[(at->first + at->count++) % MOST_PACKETS] = *packet;
        at->bytes += packet->bytes;
        at->counts.packets++;
        at->counts.bytes += packet->bytes;
        at->counts.lost = at->input.gaps;
        if (at->input.hls)
            at->counts.place = *mr_hls_where(at->input.hls);
    }
    pthread_mutex_unlock(&at->lock);
    if (wanted)
        ring(at);
    else
        mr_packet_drop(packet);
    return wanted;
}

static int read_all(channel *at) {
    for (;;) {
        mr_packet packet;
        int status = mr_libav_input_read(&at->input, &packet);
        if (status)
            return status;
        if (packet.bytes > at->params.most_bytes) {
            mr_packet_drop(&packet);
            at->input.gaps++;
        } else if (!put(at, &packet)) {
            return mr_fail(MR_ERROR_CANCELLED, "stopped");
        }
    }
}

static void *run(void *context) {
    channel *at = context;
    gaps_here = &at->input.gaps;
    mr_av_log_listen_here(hear);
    int status = mr_libav_input_open(&at->input, &at->params, &at->cancelled);
    if (!status) {
        at->base.pause_ns = at->input.hls && !at->input.recorded ? mr_hls_pause_ns(at->input.hls) : 0;
        mr_libav_input_survey(&at->input, &at->survey);
        note(at, MR_OK, false);
        status = read_all(at);
    }
    note(at, status, true);
    mr_libav_input_close(&at->input);
    mr_av_log_listen_here(NULL);
    let_go(at, true);
    atomic_fetch_sub(&threads, 1);
    return NULL;
}

/* When the program exits, libraries free things that threads from closed connections may still use. This gives those
 * threads a moment to end. The program does not wait longer for a thread in a name lookup. */
static void await_threads(void) {
    enum { MOST_WAITS = 200 };
    const struct timespec while_waiting = {.tv_nsec = 5000000};
    for (int i = 0; i < MOST_WAITS && atomic_load(&threads) > 0; i++)
        nanosleep(&while_waiting, NULL);
}

/* ---- the reader's side ------------------------------------------------------------------------------------------- */

/* Waits for the thread. MR_OK, MR_ERROR_AGAIN at `until_ns`, or MR_ERROR_CANCELLED. */
static int await(const channel *at, int64_t until_ns) {
    struct pollfd signal = {.fd = at->signal, .events = POLLIN};
    int status = mr_live_wait(&signal, 1, at->params.wake, until_ns);
    eventfd_t value;
    if (!status)
        eventfd_read(at->signal, &value);
    return status;
}

/* True if there is an answer. The lock must be held. Only the end shows whether the stream was a single picture. */
static bool take(channel *at, mr_packet *packet, int *status) {
    if (at->count) {
        *packet = at->packets[at->first];
        at->first = (at->first + 1) % MOST_PACKETS;
        at->count--;
        at->bytes -= packet->bytes;
        pthread_cond_signal(&at->room);
        *status = MR_OK;
        return true;
    }
    at->base.recorded = at->recorded;
    *status = at->over && at->status < 0 ? mr_fail(at->status, "%s", at->message) : MR_END;
    return at->over;
}

static int read_channel(mr_connection *base, int64_t until_ns, mr_packet *packet) {
    channel *at = (channel *)base;
    for (;;) {
        int status;
        pthread_mutex_lock(&at->lock);
        bool done = take(at, packet, &status);
        pthread_mutex_unlock(&at->lock);
        if (!done)
            status = await(at, until_ns);
        if (done || status)
            return status;
    }
}

static int survey_channel(mr_connection *base, mr_survey *survey) {
    *survey = ((channel *)base)->survey;
    return MR_OK;
}

static void count_channel(const mr_connection *base, mr_connection_counts *counts) {
    channel *at = (channel *)base;
    pthread_mutex_lock(&at->lock);
    *counts = at->counts;
    pthread_mutex_unlock(&at->lock);
}

static void close_channel(mr_connection *base) {
    channel *at = (channel *)base;
    pthread_mutex_lock(&at->lock);
    atomic_store(&at->cancelled, true);
    pthread_cond_broadcast(&at->room);
    pthread_mutex_unlock(&at->lock);
    let_go(at, false);
}

static const mr_connection_type libav_type = {
    .name = "libav", .survey = survey_channel, .read = read_channel, .count = count_channel, .close = close_channel};

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* The thread may run longer than the pipeline, which owns these texts. */
static int copy_texts(channel *at, const mr_connection_params *from) {
    const char **field[] = {&at->params.url, &at->params.user, &at->params.password, &at->params.ca_file,
                            &at->params.allow_hosts};
    size_t bytes = 0, used = 0, count = sizeof field / sizeof field[0];
    at->params = *from;
    for (size_t i = 0; i < count; i++)
        bytes += *field[i] ? strlen(*field[i]) + 1 : 0;
    at->texts = mr_alloc(bytes + 1);
    if (!at->texts)
        return MR_ERROR_MEMORY;
    for (size_t i = 0; i < count; i++)
        if (*field[i]) {
            size_t length = strlen(*field[i]) + 1;
            memcpy(at->texts + used, *field[i], length);
            *field[i] = at->texts + used;
            used += length;
        }
    at->params.media.uri = at->params.url;
    at->params.media.stage = NULL;
    return MR_OK;
}

static int start(channel *at) {
    pthread_t thread;
    at->holders = 2;
    atomic_fetch_add(&threads, 1);
    int error = mr_thread_create(&thread, run, at);
    if (error) {
        at->holders = 1;
        atomic_fetch_sub(&threads, 1);
    } else {
        pthread_detach(thread);
    }
    return error ? mr_fail(MR_ERROR_IO, "%s: no thread: %s", at->params.url, strerror(error)) : MR_OK;
}

static int await_open(channel *at) {
    for (;;) {
        pthread_mutex_lock(&at->lock);
        bool opened = at->opened;
        at->base.recorded = at->recorded;
        int status = at->over && at->status < 0 ? mr_fail(at->status, "%s", at->message) : MR_OK;
        pthread_mutex_unlock(&at->lock);
        if (opened) {
            ring(at);
            return status;
        }
        /* The thread keeps to the timeout itself, but name resolution can take longer. */
        status = await(at, mr_now_ns() + at->params.open_timeout_ns + 1000000000);
        if (status == MR_ERROR_AGAIN)
            return mr_fail(MR_ERROR_IO, "%s: it was not open within %.3g s (open_timeout)", at->params.url,
                           (double)at->params.open_timeout_ns / 1e9);
        if (status)
            return status;
    }
}

static void await_threads_at_exit(void) {
    atexit(await_threads);
}

/* libsrt writes warnings to standard error at each try, and only libavformat links to it. It must start here: its exit
 * handler then runs after this module has waited for all threads. */
static void start_srt(void) {
    enum { CRITICAL = 2 };
    void (*set_level)(int);
    int (*start_up)(void);
    *(void **)&set_level = dlsym(RTLD_DEFAULT, "srt_setloglevel");
    *(void **)&start_up = dlsym(RTLD_DEFAULT, "srt_startup");
    if (set_level)
        set_level(CRITICAL);
    if (start_up)
        start_up();
    await_threads_at_exit();
}

int mr_connection_open_libav(mr_connection **connection, const mr_connection_params *params) {
    static pthread_once_t once = PTHREAD_ONCE_INIT, once_of_srt = PTHREAD_ONCE_INIT;
    *connection = NULL;
    if (atomic_load(&left) >= MOST_LEFT)
        return mr_fail(MR_ERROR_IO, "%s: %d connections that were given up still wait: does the name server answer?",
                       params->url, MOST_LEFT);
    channel *at = mr_calloc(1, sizeof *at);
    if (!at)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    mr_av_log_capture();
    pthread_once(&once, await_threads_at_exit);
    if (mr_url_has_scheme(params->url, "srt"))
        pthread_once(&once_of_srt, start_srt);
    at->base.type = &libav_type;
    pthread_mutex_init(&at->lock, NULL);
    pthread_cond_init(&at->room, NULL);
    at->signal = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    at->holders = 1;
    int status = copy_texts(at, params) ? mr_fail(MR_ERROR_MEMORY, "out of memory") : MR_OK;
    if (!status && at->signal < 0)
        status = mr_fail(MR_ERROR_IO, "%s: no descriptor: %s", params->url, strerror(errno));
    if (!status)
        status = start(at);
    if (!status)
        status = await_open(at);
    if (status) {
        close_channel(&at->base);
        return status;
    }
    *connection = &at->base;
    return MR_OK;
}
