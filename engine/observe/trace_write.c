/* The file of a trace: an object with one event a line, closed after the last one at all times. New events overwrite
 * the end, together with a new end. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/observe/trace_parts.h"
#include "millrace/status.h"

/* A pipe whose reader takes nothing for so long is given up. */
enum { FLUSH_BYTES = 1 << 18, PATIENCE_MS = 10000 };
static const char head[] = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";

/* ---- events as text ---------------------------------------------------------------------------------------------- */

/* Microseconds, exactly. */
static void put_time(yajl_gen json, const char *key, int64_t time_ns) {
    char text[32];
    uint64_t size = time_ns < 0 ? 0 - (uint64_t)time_ns : (uint64_t)time_ns;
    int length = snprintf(text, sizeof text, "%s%llu.%03llu", time_ns < 0 ? "-" : "",
                          (unsigned long long)(size / 1000), (unsigned long long)(size % 1000));
    mr_json_key(json, key);
    yajl_gen_number(json, text, (size_t)length);
}

static void begin_event(mr_trace_file *file, const char *phase, const char *name, const mr_trace_group *group) {
    yajl_gen_reset(file->json, file->some ? ",\n" : NULL);
    file->some = true;
    mr_json_open_map(file->json, NULL);
    mr_json_text(file->json, "ph", phase);
    mr_json_text(file->json, "name", name);
    mr_json_integer(file->json, "pid", group->number);
}

/* Names a group or a track, once. */
static void put_name(mr_trace_file *file, const char *what, const char *name, const mr_trace_group *group, int track) {
    begin_event(file, "M", what, group);
    if (track)
        mr_json_integer(file->json, "tid", track);
    MR_JSON_MAP(file->json, "args")
        mr_json_text(file->json, "name", name);
    yajl_gen_map_close(file->json);
}

static void put_order(mr_trace_file *file, const mr_track *track) {
    begin_event(file, "M", "thread_sort_index", track->group);
    mr_json_integer(file->json, "tid", track->number);
    MR_JSON_MAP(file->json, "args")
        mr_json_integer(file->json, "sort_index", track->number);
    yajl_gen_map_close(file->json);
}

/* Curves have the name in each event. */
static void put_track(mr_trace_file *file, mr_track *track, bool curve) {
    mr_trace_group *group = track->group;
    if (!group->reported)
        put_name(file, "process_name", group->name, group, 0);
    group->reported = true;
    if (!track->reported && !curve) {
        put_name(file, "thread_name", track->name, group, track->number);
        put_order(file, track);
    }
    track->reported = true;
}

static void put_about(yajl_gen json, const mr_trace_about *about) {
    MR_JSON_MAP(json, "args") {
        if (about->stage)
            mr_json_text(json, "stage", about->stage);
        if (about->reason)
            mr_json_text(json, "reason", about->reason);
        if (about->source) {
            mr_json_text(json, "source", about->source);
            if (about->frame.epoch)
                mr_json_integer(json, "epoch", about->frame.epoch);
            mr_json_integer(json, "seq", (int64_t)about->frame.seq);
            if (about->frame.sub)
                mr_json_integer(json, "sub", about->frame.sub);
        }
        if (about->frames)
            mr_json_integer(json, "frames", about->frames);
        if (about->bytes)
            mr_json_integer(json, "bytes", (int64_t)about->bytes);
    }
}

/* A frame's identity in one number: 13 bits for the source, 8 for the epoch, 32 for the number. Readers accept no
 * larger integer. */
static int64_t arrow_id(const mr_identity *frame) {
    uint64_t source = frame->source & 0x1fff, epoch = frame->epoch & 0xff, seq = frame->seq & 0xffffffff;
    return (int64_t)(source << 40 | epoch << 32 | seq);
}

static void put_arrow(yajl_gen json, const mr_trace_event *event) {
    mr_json_text(json, "cat", "frame");
    mr_json_integer(json, "id", arrow_id(&event->about.frame));
    if (event->step != MR_TRACE_FIRST)
        mr_json_text(json, "bp", "e"); /* It leads to the span around it, not to the next one. */
}

static void put_value(yajl_gen json, int64_t value) {
    MR_JSON_MAP(json, "args")
        mr_json_integer(json, "frames", value);
}

static const char *phase_of(const mr_trace_event *event) {
    static const char *const phases[] = {[MR_TRACE_SPAN] = "X", [MR_TRACE_INSTANT] = "i", [MR_TRACE_VALUE] = "C"};
    static const char *const steps[] = {[MR_TRACE_FIRST] = "s", [MR_TRACE_NEXT] = "t", [MR_TRACE_LAST] = "f"};
    return event->kind == MR_TRACE_ARROW ? steps[event->step] : phases[event->kind];
}

static void put_event(mr_trace_file *file, const mr_trace_event *event, int64_t origin_ns) {
    bool curve = event->kind == MR_TRACE_VALUE, arrow = event->kind == MR_TRACE_ARROW;
    begin_event(file, phase_of(event), arrow ? "frame" : curve ? event->track->name : event->name, event->track->group);
    if (!curve)
        mr_json_integer(file->json, "tid", event->track->number);
    put_time(file->json, "ts", event->at_ns - origin_ns);
    if (event->kind == MR_TRACE_SPAN)
        put_time(file->json, "dur", event->more - event->at_ns);
    if (event->kind == MR_TRACE_INSTANT)
        mr_json_text(file->json, "s", "t");
    if (arrow)
        put_arrow(file->json, event);
    else if (curve)
        put_value(file->json, event->more);
    else
        put_about(file->json, &event->about);
    yajl_gen_map_close(file->json);
}

bool mr_trace_file_add(mr_trace_file *file, const mr_trace_event *event, int64_t origin_ns) {
    const unsigned char *text;
    size_t bytes = 0;
    if (file->status || file->fd < 0)
        return false;
    put_track(file, event->track, event->kind == MR_TRACE_VALUE);
    put_event(file, event, origin_ns);
    yajl_gen_get_buf(file->json, &text, &bytes);
    return bytes > FLUSH_BYTES;
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static void fail(mr_trace_file *file) {
    file->status = mr_file_fail("write to", file->path);
    snprintf(file->message, sizeof file->message, "%s", mr_message());
}

/* A pipe may be full for a while; the program may not expect the signal of a pipe whose reader has gone. */
static int await_reader(const mr_trace_file *file) {
    sigset_t set;
    struct pollfd one = {.fd = file->fd, .events = POLLOUT};
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    int ready = poll(&one, 1, PATIENCE_MS);
    if (ready == 0)
        errno = ETIMEDOUT;
    return ready > 0 || (ready < 0 && errno == EINTR) ? MR_OK : MR_ERROR_IO;
}

static bool write_all(const mr_trace_file *file, const unsigned char *text, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        if (!file->regular && await_reader(file))
            return false;
        ssize_t more = file->regular ? pwrite(file->fd, text + done, bytes - done, (off_t)(file->end + (int64_t)done))
                                     : write(file->fd, text + done, bytes - done);
        if (more < 0 && errno != EINTR && errno != EAGAIN)
            return false;
        done += more > 0 ? (size_t)more : 0;
    }
    return true;
}

/* If the disk is full, the part that fitted before stays readable. */
static void restore(const mr_trace_file *file, const char *tail) {
    if (file->regular && ftruncate(file->fd, (off_t)file->end) == 0)
        write_all(file, (const unsigned char *)tail, strlen(tail));
}

/* Writes the generator's text and, if the end can be overwritten or this is the last write, the end of the file. */
static void write_text(mr_trace_file *file, const char *tail) {
    const unsigned char *text;
    size_t bytes = 0, before = 0;
    yajl_gen_get_buf(file->json, &text, &before);
    yajl_gen_reset(file->json, tail);
    yajl_gen_get_buf(file->json, &text, &bytes);
    if (write_all(file, text, bytes)) {
        file->end += (int64_t)before;
    } else {
        fail(file);
        restore(file, tail);
    }
    yajl_gen_clear(file->json);
}

void mr_trace_file_flush(mr_trace_file *file, uint64_t lost, bool last) {
    char tail[80] = "";
    const unsigned char *text;
    size_t bytes = 0;
    if (file->fd < 0)
        return;
    if (!file->status)
        yajl_gen_get_buf(file->json, &text, &bytes);
    if (file->regular || last)
        snprintf(tail, sizeof tail, "\n],\"otherData\":{\"events_lost\":%llu}}\n", (unsigned long long)lost);
    if (!file->status && (bytes || last))
        write_text(file, tail);
    if (last && close(file->fd) && !file->status)
        fail(file);
    if (last)
        file->fd = -1;
}

int mr_trace_file_open(mr_trace_file *file, const char *path) {
    file->path = path;
    file->fd = -1;
    if (!(file->json = mr_json_create(false)))
        return MR_ERROR_MEMORY;
    int status = mr_file_take(path, &file->fd, &file->regular);
    if (status)
        return status;
    yajl_gen_reset(file->json, head);
    return MR_OK;
}

void mr_trace_file_close(mr_trace_file *file) {
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
    if (file->json)
        yajl_gen_free(file->json);
    file->json = NULL;
}
