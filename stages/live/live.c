#include "stages/live/live.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "engine/base/url.h"
#include "stages/live/connection/address.h"
#include "stages/live/libav.h"
#include "stages/live/live_open.h"
#include "stages/live/rtsp/rtsp.h"
#include "stages/live/v4l2.h"
#include "stages/live/web/web.h"
#include "stages/media/placeholder.h"
#include "stages/media/coded/picture_times.h"
#include "stages/media/coded/recovery.h"

static const int64_t second_ns = 1000000000;
/* If a stream never sends key frames, start after this many seconds. */
enum { KEY_WAIT = 10 };
/* Time between two reports. */
static const int64_t report_ns = 250000000;
/* How much later than planned a call may return; after that, it hangs. */
static const int64_t slack_ns = 2000000000;

typedef struct live_reader {
    mr_reader base;
    mr_live_params params;
    mr_connection *connection; /* NULL between two */
    mr_live_opening *opening;  /* NULL: no other thread is opening one */
    mr_placeholder placeholder;          /* for MR_AWAY_PICTURE */
    bool by_parameter;         /* as the last connection counted */
    bool over_tcp;             /* the last connection used RTP over TCP */
    int wake;
    unsigned seed;             /* for the random part in delays */
    mr_source_report report;   /* counts from earlier connections; this connection's are added when the report is
                                  sent */
    int64_t reported_ns;
    int64_t away_ns;           /* since when there is no live connection; 0: the stream is live */
    int64_t next_ns;           /* when to try next */
    int64_t tried_ns;          /* when the last try began */
    int64_t delay_ns;          /* wait before it; 0: no try yet */
    int64_t opened_ns;
    int64_t patience_ns;       /* how long without a packet */
    int64_t due_ns;            /* when the connection starts to count as stalled */
    bool was_live;             /* in any connection */
    bool recorded;
    bool begun;                /* this connection has given a packet */
    mr_hls_position place;        /* for a playlist: how far packets were given */
    mr_live_times times;
    mr_picture_times pictures;
} live_reader;

/* ---- ways to connect ------------------------------------------------------------------------------------------- */

static const struct way {
    const char *scheme;
    mr_connect_function *open;
    bool hostless; /* may listen, and then needs no host name */
} ways[] = {
    {"rtsp", mr_connection_open_rtsp, false},  {"rtsps", mr_connection_open_rtsp, false},
    {"rtmp", mr_connection_open_libav, false}, {"rtmps", mr_connection_open_libav, false},
    {"srt", mr_connection_open_libav, true},   {"udp", mr_connection_open_libav, true},
    {"rtp", mr_connection_open_libav, true},   {"http", mr_connection_open_libav, false},
    {"https", mr_connection_open_libav, false},
};

static bool is_session_description(const char *uri) {
    size_t length = strlen(uri);
    return length > 4 && strcmp(uri + length - 4, ".sdp") == 0 && !strstr(uri, "://");
}

static const struct way *find_way(const char *uri) {
    static const struct way description = {"sdp", mr_connection_open_libav, true};
    static const struct way camera = {"v4l2", mr_connection_open_v4l2, true};
    if (mr_live_is_camera(uri))
        return &camera;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        if (mr_url_has_scheme(uri, ways[i].scheme))
            return &ways[i];
    return is_session_description(uri) ? &description : NULL;
}

bool mr_live_is_camera(const char *uri) {
    static const char prefix[] = "/dev/video";
    return strncmp(uri, prefix, sizeof prefix - 1) == 0;
}

bool mr_live_is_stream(const char *uri) {
    return strstr(uri, "://") || is_session_description(uri) || mr_live_is_camera(uri);
}

bool mr_live_is_web(const char *uri) {
    return mr_url_has_scheme(uri, "http") || mr_url_has_scheme(uri, "https");
}

bool mr_live_is_rtsp(const char *uri) {
    return mr_url_has_scheme(uri, "rtsp") || mr_url_has_scheme(uri, "rtsps");
}

static int check_host(const mr_connection_params *params, const mr_url *url, bool hostless) {
    char host[MR_URL_HOST];
    long port = url->port.bytes ? strtol(url->port.text, NULL, 10) : 1;
    bool digits = !url->port.text || strspn(url->port.text, "0123456789") == url->port.bytes;
    if (!digits || port < 1 || port > 65535 || url->port.bytes > 5)
        return mr_fail(MR_ERROR_CONFIG, "%s: the port is not a number from 1 to 65535", params->url);
    if (!url->host.bytes)
        return hostless ? MR_OK : mr_fail(MR_ERROR_CONFIG, "%s: the name of the host is missing", params->url);
    if (!mr_url_decode(url->host, host, sizeof host))
        return mr_fail(MR_ERROR_CONFIG, "%s: the name of the host is too long", params->url);
    return mr_host_is_allowed(params->allow_hosts, host)
               ? MR_OK
               : mr_fail(MR_ERROR_CONFIG, "%s: allow_hosts does not have %s", params->url, host);
}

/* Whether the URL's path ends so; the query does not count. */
static bool has_ending(mr_url_part rest, const char *ending) {
    size_t bytes = rest.bytes ? strcspn(rest.text, "?#") : 0, length = strlen(ending);
    return bytes >= length && strncasecmp(rest.text + bytes - length, ending, length) == 0;
}

int mr_live_check(const mr_connection_params *params) {
    const char *text = params->url;
    const struct way *way = find_way(text);
    mr_url url;
    if (!way)
        return mr_fail(MR_ERROR_NO_INPUT, "%.*s:// is not read; streams have rtsp, rtsps, rtmp, rtmps, srt, udp, rtp, "
                       "http or https", (int)strcspn(text, ":"), text);
    if (!mr_url_split(text, &url))
        return MR_OK;
    for (const char *at = text; *at; at++)
        if ((unsigned char)*at <= ' ' || *at == 127)
            return mr_fail(MR_ERROR_CONFIG, "a URL cannot have a space, a line break or another sign of that kind "
                           "(byte %d of it): write %%%02X", (int)(at - text) + 1, (unsigned char)*at);
    if (strlen(text) >= MR_URL_BYTES / 2)
        return mr_fail(MR_ERROR_CONFIG, "a URL of %zu bytes is too long; at most %d are taken", strlen(text),
                       MR_URL_BYTES / 2 - 1);
    if (has_ending(url.rest, ".mpd") && mr_web_is_address(text))
        return mr_web_refuse_manifest(text);
    return check_host(params, &url, way->hostless);
}

/* ---- reports --------------------------------------------------------------------------------------------------- */

static void add_counts(const live_reader *reader, mr_source_report *report) {
    mr_connection_counts counts = {0};
    if (!reader->connection)
        return;
    reader->connection->type->count(reader->connection, &counts);
    report->packets += counts.packets;
    report->bytes += counts.bytes;
    report->lost += counts.lost;
    report->late += counts.late;
    report->jitter_ns = counts.jitter_ns;
}

/* How long reading may take until the next report; 0: without limit. */
static int64_t longest_silence_ns(const live_reader *reader) {
    if (reader->report.phase >= MR_LINK_FAILED)
        return 0;
    if (reader->connection)
        return reader->params.stall_ns ? reader->patience_ns + slack_ns : 0;
    const int64_t wait_ns = reader->next_ns ? reader->next_ns - mr_now_ns() : reader->params.connection.open_timeout_ns;
    return (wait_ns > 0 ? wait_ns : 0) + slack_ns;
}

static void send_report(live_reader *reader) {
    const mr_stage *stage = reader->params.connection.media.stage;
    mr_source_report report = reader->report;
    report.within_ns = longest_silence_ns(reader);
    reader->reported_ns = mr_now_ns();
    add_counts(reader, &report);
    if (stage)
        mr_stage_report(stage, &report);
}

/* `why` NULL: as it was. */
static void enter(live_reader *reader, mr_link_state phase, const char *why) {
    /* Away counts from when the stream was last live, or first tried, whatever tries came between. */
    bool is_away = phase == MR_LINK_AWAY && reader->away_ns;
    if (reader->report.phase != phase)
        reader->report.since_ns = mr_clock_date_ns() - (is_away ? mr_now_ns() - reader->away_ns : 0);
    reader->report.phase = phase;
    if (why)
        snprintf(reader->report.why, sizeof reader->report.why, "%s", why);
    reader->report.next_ns = reader->next_ns ? mr_clock_date_ns() + reader->next_ns - mr_now_ns() : 0;
    send_report(reader);
}

/* ---- coming and going ------------------------------------------------------------------------------------------ */

static bool may_mend(int status) {
    return status == MR_ERROR_IO || status == MR_ERROR_AGAIN || status == MR_END || status == MR_ERROR_CLOSED ||
           status == MR_ERROR_PROTOCOL;
}

/* A stream that was live will probably return: a relay has no stream while its publisher is away. */
static bool may_return(const live_reader *reader, int status) {
    return may_mend(status) || (status == MR_ERROR_NO_INPUT && reader->was_live);
}

/* The time to the next try doubles up to the maximum. During the first minutes it stays below a tenth of the time that
 * the stream has been away, so that its return is noticed early. If another try can hardly help, the wait is the
 * maximum at once. */
static int64_t next_delay(live_reader *reader, int status) {
    const mr_live_params *params = &reader->params;
    int64_t away = (mr_now_ns() - reader->away_ns) / 10, most = params->most_ns;
    reader->delay_ns = reader->delay_ns ? reader->delay_ns * 2 : params->first_ns;
    if (reader->delay_ns > most)
        reader->delay_ns = most;
    int64_t delay = reader->delay_ns;
    if (!may_return(reader, status))
        delay = most;
    else if (delay > away)
        delay = away > params->first_ns ? away : params->first_ns < most ? params->first_ns : most;
    return delay - (int64_t)((double)delay / 2 * rand_r(&reader->seed) / RAND_MAX);
}

static void disconnect(live_reader *reader) {
    mr_connection_counts counts = {0};
    add_counts(reader, &reader->report);
    if (reader->connection) {
        reader->connection->type->count(reader->connection, &counts);
        reader->over_tcp = counts.transport == MR_TRANSPORT_TCP;
        reader->by_parameter = counts.by_parameter;
        reader->place = counts.place.begun ? counts.place : reader->place;
        reader->connection->type->close(reader->connection);
    }
    reader->connection = NULL;
}

static bool has_given_up(const live_reader *reader) {
    int64_t most = reader->params.give_up_ns;
    return most && mr_now_ns() - reader->away_ns >= most;
}

/* The last try comes when the time limit for the source is reached. */
static int64_t next_try(live_reader *reader, int status) {
    const int64_t next_ns = mr_now_ns() + next_delay(reader, status), most = reader->params.give_up_ns;
    return most && next_ns > reader->away_ns + most ? reader->away_ns + most : next_ns;
}

static void say_away(const live_reader *reader, mr_link_state phase, const char *why) {
    const mr_stage *stage = reader->params.connection.media.stage;
    bool known = reader->report.phase != MR_LINK_LIVE && strcmp(reader->report.why, why) == 0;
    if (!stage || known)
        return;
    mr_stage_warn(stage, "%s: %s (next try in %.1f s)", phase == MR_LINK_STALLED ? "stalled" : "away", why,
                  (double)(reader->next_ns - mr_now_ns()) / 1e9);
}

static int fail(live_reader *reader, int status, const char *why) {
    char message[MR_REPORT_WHY];
    snprintf(message, sizeof message, "%s", why);
    reader->next_ns = 0;
    enter(reader, MR_LINK_FAILED, message);
    return mr_fail(may_mend(status) ? MR_ERROR_IO : status, "%s", message);
}

static int end(live_reader *reader, const char *why) {
    reader->next_ns = 0;
    enter(reader, MR_LINK_ENDED, why);
    return MR_END;
}

/* Shows since when the stream is away, and in what state it is. */
static void show_away(live_reader *reader) {
    const mr_stage *stage = reader->params.connection.media.stage;
    char text[MR_PLACEHOLDER_TEXT], since[MR_DATE_TEXT];
    if (reader->params.on_away != MR_AWAY_PICTURE || !stage)
        return;
    mr_date_text(since, reader->report.since_ns);
    since[strcspn(since, ".")] = '\0';
    snprintf(text, sizeof text, "%.400s\n%s\nsince %sZ", stage->source_id, mr_link_state_name(reader->report.phase),
             since);
    if (mr_placeholder_show(&reader->placeholder, text, reader->params.size, &reader->params.connection.media))
        mr_stage_warn(stage, "on_away: picture: %s", mr_message());
}

/* Whether an HTTP address gave only one picture. Only the connection's end can show that. */
static bool is_single(const live_reader *reader) {
    const mr_stage *stage = reader->params.connection.media.stage;
    mr_source_report report = reader->report;
    add_counts(reader, &report);
    if (report.packets != 1 || !mr_live_is_web(reader->params.connection.url))
        return false;
    if (stage)
        mr_stage_info(stage, "the address gave one picture; with `poll`, such as poll: 1s, it is read again and again");
    return true;
}

/* Call when the connection ended or could not be opened. MR_OK: another one will follow; otherwise reading must return
 * this. */
static int lose(live_reader *reader, int status) {
    const mr_live_params *params = &reader->params;
    bool stalled = status == MR_ERROR_AGAIN;
    char why[MR_REPORT_WHY], remark[MR_REPORT_WHY - 64] = "";
    if (status == MR_END && reader->connection && reader->connection->recorded && is_single(reader))
        reader->recorded = true;
    if (stalled && reader->connection && reader->connection->type->remark)
        reader->connection->type->remark(reader->connection, remark, sizeof remark);
    if (stalled)
        snprintf(why, sizeof why, "%s: no picture came for %.3g s%s", params->connection.url,
                 (double)reader->patience_ns / 1e9, remark);
    else
        snprintf(why, sizeof why, "%s%s", status == MR_END ? params->connection.url : mr_message(),
                 status == MR_END ? ": the server has ended the stream" : "");
    disconnect(reader);
    if (status == MR_ERROR_CANCELLED)
        return status;
    if (status == MR_ERROR_MEMORY)
        return fail(reader, status, why);
    if (reader->recorded)
        return status == MR_END ? end(reader, "") : fail(reader, status, why);
    if (params->on_away == MR_AWAY_END)
        return reader->was_live ? end(reader, why) : fail(reader, status, why);
    reader->away_ns = reader->away_ns ? reader->away_ns : mr_now_ns();
    if (has_given_up(reader))
        return fail(reader, status, why);
    reader->next_ns = next_try(reader, status);
    say_away(reader, stalled ? MR_LINK_STALLED : MR_LINK_AWAY, why);
    enter(reader, stalled ? MR_LINK_STALLED : MR_LINK_AWAY, why);
    show_away(reader);
    return MR_OK;
}

/* Handles a try's result. */
static int connected(live_reader *reader, int status) {
    if (status) {
        reader->over_tcp = reader->over_tcp && status != MR_ERROR_UNAVAILABLE;
        return status;
    }
    reader->report.connections++;
    reader->recorded = reader->connection->recorded;
    reader->begun = false;
    reader->opened_ns = mr_now_ns();
    reader->patience_ns = reader->params.stall_ns + reader->connection->pause_ns;
    reader->due_ns = reader->opened_ns + reader->patience_ns;
    mr_live_times_begin(&reader->times, reader->params.clock);
    mr_picture_times_begin(&reader->pictures, !reader->recorded);
    send_report(reader);
    return MR_OK;
}

static mr_connection_params params_of_try(live_reader *reader) {
    mr_connection_params params = reader->params.connection;
    params.place = reader->place;
    params.by_parameter = reader->by_parameter;
    /* Finding out again that UDP does not work would take seconds. */
    if (params.transport == MR_TRANSPORT_AUTO && reader->over_tcp)
        params.transport = MR_TRANSPORT_TCP;
    reader->report.tries++;
    return params;
}

static int connect_once(live_reader *reader) {
    const mr_connection_params params = params_of_try(reader);
    return connected(reader, find_way(params.url)->open(&reader->connection, &params));
}

static int connect_beside(live_reader *reader) {
    const mr_connection_params params = params_of_try(reader);
    return mr_live_open_begin(&reader->opening, find_way(params.url)->open, &params);
}

/* ---- steps: each ends when the next still picture is due, at the latest. MR_ERROR_AGAIN: there is no packet yet, and
 * another step is to follow ---- */

static int lost(live_reader *reader, int status) {
    status = lose(reader, status);
    return status ? status : MR_ERROR_AGAIN;
}

/* Waits until it is time, and connects, or begins to. */
static int connect_next(live_reader *reader) {
    int64_t still_ns = mr_placeholder_due_ns(&reader->placeholder);
    if (mr_live_wait(NULL, 0, reader->wake, reader->next_ns < still_ns ? reader->next_ns : still_ns) != MR_ERROR_AGAIN)
        return mr_fail(MR_ERROR_CANCELLED, "stopped");
    if (mr_now_ns() < reader->next_ns)
        return MR_ERROR_AGAIN;
    reader->next_ns = 0;
    reader->tried_ns = mr_now_ns();
    reader->away_ns = reader->away_ns ? reader->away_ns : reader->tried_ns;
    enter(reader, MR_LINK_CONNECTING, NULL);
    int status = reader->params.on_away == MR_AWAY_PICTURE ? connect_beside(reader) : connect_once(reader);
    return status ? lost(reader, status) : MR_ERROR_AGAIN;
}

/* Still pictures come while the thread that opens the connection hangs, so that calls do return. */
static void note_hang(live_reader *reader) {
    static const char why[] = "a call into its driver or library has not returned";
    const mr_connection_params *params = &reader->params.connection;
    if (reader->report.phase != MR_LINK_CONNECTING ||
        mr_now_ns() - reader->tried_ns < params->open_timeout_ns + slack_ns)
        return;
    if (params->media.stage)
        mr_stage_warn(params->media.stage, "stalled: %s", why);
    enter(reader, MR_LINK_STALLED, why);
    show_away(reader);
}

static int await_connection(live_reader *reader) {
    int status = mr_live_open_await(reader->opening, mr_placeholder_due_ns(&reader->placeholder));
    if (status == MR_ERROR_AGAIN)
        note_hang(reader);
    if (status)
        return status;
    status = connected(reader, mr_live_open_end(&reader->opening, &reader->connection));
    return status ? lost(reader, status) : MR_ERROR_AGAIN;
}

/* ---- packets --------------------------------------------------------------------------------------------------- */

static void note_live(live_reader *reader) {
    const mr_stage *stage = reader->params.connection.media.stage;
    if (reader->report.phase != MR_LINK_LIVE) {
        if (stage && *reader->report.why)
            mr_stage_warn(stage, "connected%s after %.1f s", reader->was_live ? " again" : "",
                          (double)(mr_now_ns() - reader->away_ns) / 1e9);
        reader->was_live = true;
        reader->away_ns = reader->delay_ns = 0;
        enter(reader, MR_LINK_LIVE, "");
    } else if (mr_now_ns() - reader->reported_ns >= report_ns) {
        send_report(reader);
    }
}

/* Whether to give a packet that has arrived. */
static bool take(live_reader *reader, mr_packet *packet) {
    bool waits = reader->params.from_key && !reader->begun &&
                 mr_now_ns() - reader->opened_ns < KEY_WAIT * second_ns;
    reader->due_ns = mr_now_ns() + reader->patience_ns;
    if (waits && !reader->recorded && !(packet->flags & MR_FRAME_KEY) && !mr_recovery_begins(packet)) {
        note_live(reader);
        mr_packet_drop(packet);
        return false;
    }
    if (!reader->recorded)
        mr_live_times_pass(&reader->times, packet);
    mr_picture_times_pass(&reader->pictures, packet);
    /* Each media is set once, before other threads see it. */
    if (packet->media->live == reader->recorded)
        packet->media->live = !reader->recorded;
    /* A loss before the connection is no gap. */
    if (!reader->begun)
        packet->flags &= ~(uint32_t)MR_FRAME_SEAM;
    packet->begins_epoch = !reader->begun;
    reader->begun = true;
    mr_placeholder_hide(&reader->placeholder, packet);
    note_live(reader);
    return true;
}

static int read_connection(live_reader *reader, mr_packet *packet) {
    int64_t stalled_ns = reader->params.stall_ns ? reader->due_ns : INT64_MAX;
    int64_t still_ns = mr_placeholder_due_ns(&reader->placeholder);
    int status = reader->connection->type->read(reader->connection, stalled_ns < still_ns ? stalled_ns : still_ns,
                                                packet);
    if (!status)
        return take(reader, packet) ? MR_OK : MR_ERROR_AGAIN;
    bool goes_on = status == MR_ERROR_AGAIN && mr_now_ns() < stalled_ns;
    return goes_on ? status : lost(reader, status);
}

static void note_still(live_reader *reader) {
    reader->report.stills++;
    if (mr_now_ns() - reader->reported_ns >= report_ns)
        send_report(reader);
}

static int read_live(mr_reader *base, mr_packet *packet) {
    live_reader *reader = (live_reader *)base;
    for (;;) {
        if (mr_placeholder_due_ns(&reader->placeholder) <= mr_now_ns()) {
            mr_placeholder_take(&reader->placeholder, mr_now_ns(), packet);
            note_still(reader);
            return MR_OK;
        }
        int status = reader->connection ? read_connection(reader, packet)
                     : reader->opening  ? await_connection(reader)
                                        : connect_next(reader);
        if (status == MR_ERROR_CANCELLED)
            end(reader, NULL);
        if (status != MR_ERROR_AGAIN)
            return status;
    }
}

/* ---- the reader ------------------------------------------------------------------------------------------------ */

static int survey_live(mr_reader *base, mr_survey *survey) {
    live_reader *reader = (live_reader *)base;
    return reader->connection->type->survey(reader->connection, survey);
}

static int rewind_live(mr_reader *base) {
    return mr_fail(MR_ERROR_UNAVAILABLE, "a stream cannot begin anew");
}

static void destroy_live(mr_reader *base) {
    live_reader *reader = (live_reader *)base;
    mr_connection *late = NULL;
    if (reader->opening) {
        mr_live_wake(base);
        mr_live_open_end(&reader->opening, &late);
        reader->connection = late;
    }
    disconnect(reader);
    mr_placeholder_fini(&reader->placeholder);
    mr_picture_times_fini(&reader->pictures);
    if (reader->report.phase && reader->report.phase < MR_LINK_FAILED)
        enter(reader, MR_LINK_ENDED, NULL);
    if (reader->wake >= 0)
        close(reader->wake);
    mr_free(reader);
}

static const mr_reader_type live_type = {
    .survey = survey_live, .read = read_live, .rewind = rewind_live, .destroy = destroy_live};

void mr_live_wake(mr_reader *base) {
    const live_reader *reader = (live_reader *)base;
    if (base->type == &live_type && eventfd_write(reader->wake, 1))
        mr_fail(MR_ERROR_INTERNAL, "a reader cannot be woken: %s", strerror(errno));
}

bool mr_live_is_recorded(const mr_reader *base) {
    return base->type == &live_type && ((const live_reader *)base)->recorded;
}

int mr_reader_open_live(mr_reader **result, const mr_live_params *params) {
    int status = mr_live_check(&params->connection);
    if (status)
        return status;
    live_reader *reader = mr_calloc(1, sizeof *reader);
    if (!reader)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    *reader = (live_reader){.base.type = &live_type, .params = *params,
                            .seed = (unsigned)mr_now_ns() ^ (unsigned)getpid()};
    reader->wake = reader->params.connection.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (reader->wake < 0)
        status = mr_fail(MR_ERROR_IO, "no descriptor for a stream: %s", strerror(errno));
    else if (params->connection.media.probe)
        status = connect_once(reader);
    if (status) {
        destroy_live(&reader->base);
        return status;
    }
    *result = &reader->base;
    return MR_OK;
}
