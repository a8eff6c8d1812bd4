#include "stages/live/mjpeg/mjpeg.h"

#include <limits.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "engine/base/clock.h"
#include "millrace/status.h"
#include "stages/live/web/web.h"

bool mr_mjpeg_has_parts(const char *type, const char *text) {
    static const char multipart[] = "multipart/", dashes[] = "--";
    return (type && strncasecmp(type, multipart, sizeof multipart - 1) == 0) ||
           strncmp(text + strspn(text, "\r\n"), dashes, sizeof dashes - 1) == 0;
}

bool mr_mjpeg_is_picture(const char *text, size_t bytes) {
    static const char soi[] = "\xff\xd8\xff";
    return bytes && memcmp(text, soi, bytes < sizeof soi - 1 ? bytes : sizeof soi - 1) == 0;
}

int mr_mjpeg_begin(mr_mjpeg *mjpeg, const mr_mjpeg_params *params, AVIOContext *io) {
    *mjpeg = (mr_mjpeg){.params = *params, .asked_ns = mr_now_ns()};
    if (mr_joined_create(&mjpeg->joined, params->most_bytes))
        return AVERROR(ENOMEM);
    mjpeg->io = io;
    return 0;
}

void mr_mjpeg_end(mr_mjpeg *mjpeg) {
    avio_closep(&mjpeg->io);
    mr_joined_destroy(&mjpeg->joined);
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

static int wait_for_turn(mr_mjpeg *mjpeg) {
    static const int64_t slice_ns = 20000000;
    const int64_t next_ns = mjpeg->asked_ns + mjpeg->params.poll_ns;
    for (int64_t left; (left = next_ns - mr_now_ns()) > 0;) {
        const struct timespec slice = {.tv_nsec = left < slice_ns ? left : slice_ns};
        if (mjpeg->params.is_cancelled(mjpeg->params.context))
            return AVERROR_EXIT;
        nanosleep(&slice, NULL);
    }
    return 0;
}

/* Sends the next request. */
static int ask_again(mr_mjpeg *mjpeg) {
    mr_joined_destroy(&mjpeg->joined);
    int error = wait_for_turn(mjpeg);
    if (!error && mr_joined_create(&mjpeg->joined, mjpeg->params.most_bytes))
        error = AVERROR(ENOMEM);
    mjpeg->asked_ns = mr_now_ns();
    return error ? error : mjpeg->params.open(mjpeg->params.context, &mjpeg->io);
}

/* ---- pictures ---------------------------------------------------------------------------------------------------- */

static int fill(mr_mjpeg *mjpeg) {
    size_t room;
    uint8_t *to = mr_joined_room(mjpeg->joined, &room);
    if (!to)
        return AVERROR(ENOMEM);
    const int count = avio_read_partial(mjpeg->io, to, room < INT_MAX ? (int)room : INT_MAX);
    const int error = count > 0 ? mjpeg->params.check(mjpeg->params.context, mjpeg->io) : 0;
    if (error)
        return error;
    if (count > 0)
        mr_joined_put(mjpeg->joined, (size_t)count);
    const bool ended = count == 0 || mr_web_may_have_ended(mjpeg->io, count);
    return count > 0 ? 0 : ended ? AVERROR_EOF : count;
}

/* With `poll`, only the first picture in each answer counts. */
static int read_next(mr_mjpeg *mjpeg, mr_joined_picture *picture) {
    for (;;) {
        const int status = mr_joined_take(mjpeg->joined, picture);
        if (status != MR_ERROR_AGAIN)
            return status ? MR_MJPEG_TOO_MUCH : 0;
        const int error = fill(mjpeg);
        if (error == AVERROR_EOF && mjpeg->params.poll_ns)
            return AVERROR_INVALIDDATA;
        if (error)
            return error;
    }
}

int mr_mjpeg_read(mr_mjpeg *mjpeg, mr_joined_picture *picture) {
    int error = mjpeg->io ? 0 : ask_again(mjpeg);
    if (!error)
        error = read_next(mjpeg, picture);
    if (!error)
        mjpeg->pictures++;
    if (mjpeg->joined)
        mjpeg->broken = mr_joined_broken(mjpeg->joined);
    if (mjpeg->params.poll_ns)
        avio_closep(&mjpeg->io);
    return error;
}
