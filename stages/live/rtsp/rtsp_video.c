#include "stages/live/rtsp/rtsp_video.h"

#include <gnutls/crypto.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "engine/base/memory.h"
#include "millrace/stage.h"
#include "millrace/status.h"
#include "stages/live/rtsp/rtsp_media.h"
#include "stages/media/coded/alike.h"

static const int64_t second_ns = 1000000000;
/* How long the first unit of a connection waits for the packet after it (mr_depacketizer_is_held). */
static const int64_t held_most_ns = 50000000;

/* ---- media ------------------------------------------------------------------------------------------------------- */

/* Describes the media again from the known parameter sets, and from `unit` if it is not NULL. */
static int renew_media(mr_rtsp_video *video, const mr_rtp_unit *unit) {
    size_t bytes;
    mr_media *media;
    const mr_sdp *sdp = video->sdp;
    const uint8_t *sets = mr_depacketizer_sets(video->units, &bytes, &video->version);
    video->width = unit ? unit->width : sdp->width;
    video->height = unit ? unit->height : sdp->height;
    const mr_rtsp_facts facts = {.codec = sdp->codec, .sets = sets, .sets_bytes = bytes,
                                 .unit = unit ? unit->data : NULL, .unit_bytes = unit ? unit->bytes : 0,
                                 .width = sdp->codec == MR_RTP_JPEG ? video->width : 0,
                                 .height = sdp->codec == MR_RTP_JPEG ? video->height : 0,
                                 .rate = sdp->framerate};
    const int status = mr_rtsp_describe(&media, &video->survey, &facts, &video->params->media);
    if (status)
        return status;
    /* A new media causes new files and decoders. */
    if (video->media && mr_codecs_are_alike(video->media->codec, media->codec, true)) {
        mr_media_unref(&media);
        media = mr_media_ref(video->media);
    }
    mr_media_unref(&video->media);
    video->media = media;
    video->described = unit || video->survey.mean_pixels > 0;
    return MR_OK;
}

/* Sizes and parameter sets change with keys. */
static bool is_other(mr_rtsp_video *video, const mr_rtp_unit *unit) {
    size_t bytes;
    uint64_t version;
    if (!unit->key)
        return false;
    if (!video->described)
        return true;
    if (video->sdp->codec == MR_RTP_JPEG)
        return unit->width != video->width || unit->height != video->height;
    mr_depacketizer_sets(video->units, &bytes, &version);
    return version != video->version;
}

int mr_rtsp_video_open(mr_rtsp_video *video, const mr_connection_params *params, const mr_sdp *sdp,
                       int64_t latency_ns) {
    uint32_t own = 0;
    *video = (mr_rtsp_video){.params = params, .sdp = sdp};
    gnutls_rnd(GNUTLS_RND_NONCE, &own, sizeof own);
    mr_rtcp_begin(&video->rtcp, own, sdp->rate);
    int status = mr_rtp_order_create(&video->order, latency_ns, sdp->rate);
    if (!status)
        status = mr_depacketizer_create(&video->units, sdp->codec, params->most_bytes);
    if (status)
        return status;
    const uint8_t *set = sdp->sets;
    for (int i = 0; i < sdp->set_count; set += sdp->set_bytes[i++])
        mr_depacketizer_add_set(video->units, set, sdp->set_bytes[i]);
    mr_depacketizer_set_size(video->units, sdp->width, sdp->height);
    return renew_media(video, NULL);
}

void mr_rtsp_video_close(mr_rtsp_video *video) {
    mr_rtp_order_destroy(&video->order);
    mr_depacketizer_destroy(&video->units);
    mr_media_unref(&video->media);
    *video = (mr_rtsp_video){0};
}

/* ---- packets of the network -------------------------------------------------------------------------------------- */

static void put_packet(mr_rtsp_video *video, mr_rtp_packet *packet, int64_t now_ns) {
    const mr_rtp_put put = mr_rtp_order_put(video->order, packet, now_ns);
    video->counts.late += put == MR_RTP_LATE;
    video->has_waiting = put == MR_RTP_FULL;
    if (video->has_waiting)
        video->waiting = *packet;
}

void mr_rtsp_video_put(mr_rtsp_video *video, const uint8_t *data, size_t bytes, int64_t now_ns) {
    mr_rtp_packet packet;
    if (!mr_rtp_parse(&packet, data, bytes))
        return;
    if (packet.type != video->sdp->payload) {
        video->foreign++;
        video->foreign_type = packet.type;
        return;
    }
    video->counts.packets++;
    video->counts.bytes += bytes;
    mr_rtcp_came(&video->rtcp, &packet, now_ns);
    put_packet(video, &packet, now_ns);
}

void mr_rtsp_video_put_report(mr_rtsp_video *video, const uint8_t *data, size_t bytes, int64_t now_ns) {
    struct timespec utc;
    clock_gettime(CLOCK_REALTIME, &utc);
    mr_rtcp_read(&video->rtcp, data, bytes, now_ns, utc.tv_sec * second_ns + utc.tv_nsec);
}

size_t mr_rtsp_video_report(mr_rtsp_video *video, uint8_t data[MR_RTCP_BYTES], int64_t now_ns) {
    return mr_rtcp_write(&video->rtcp, data, now_ns);
}

void mr_rtsp_video_end(mr_rtsp_video *video) {
    mr_rtp_order_release(video->order);
}

bool mr_rtsp_video_has_left(const mr_rtsp_video *video) {
    return video->rtcp.bye;
}

int mr_rtsp_video_check(const mr_rtsp_video *video) {
    enum { MOST_REFUSED = 500 };
    uint64_t refused;
    const char *kind = mr_depacketizer_refused(video->units, &refused);
    if (!kind || refused < MOST_REFUSED || refused < video->counts.packets / 2)
        return MR_OK;
    return mr_fail(MR_ERROR_DATA, "%s: sends %s, which are not read", video->params->url, kind);
}

/* ---- units ------------------------------------------------------------------------------------------------------- */

bool mr_rtsp_video_advance(mr_rtsp_video *video, int64_t now_ns) {
    mr_rtp_packet packet;
    if (mr_rtp_order_take(video->order, &packet, now_ns)) {
        video->counts.lost += packet.lost;
        mr_depacketizer_put(video->units, &packet);
        return true;
    }
    if (!video->has_waiting)
        return false;
    put_packet(video, &video->waiting, now_ns);
    return true;
}

bool mr_rtsp_video_has_unit(mr_rtsp_video *video) {
    if (!video->has_unit) {
        video->has_unit = mr_depacketizer_take(video->units, &video->unit);
        video->given += video->has_unit;
    }
    return video->has_unit;
}

bool mr_rtsp_video_end_unit(mr_rtsp_video *video) {
    mr_depacketizer_end(video->units);
    return mr_rtsp_video_has_unit(video);
}

bool mr_rtsp_video_stop_holding(mr_rtsp_video *video, int64_t now_ns) {
    if (!mr_depacketizer_is_held(video->units)) {
        video->held_ns = 0;
        return false;
    }
    video->held_ns = video->held_ns ? video->held_ns : now_ns + held_most_ns;
    if (now_ns < video->held_ns)
        return false;
    mr_depacketizer_release(video->units);
    return true;
}

int64_t mr_rtsp_video_due_ns(const mr_rtsp_video *video) {
    const int64_t due_ns = mr_rtp_order_due_ns(video->order);
    return video->held_ns && video->held_ns < due_ns ? video->held_ns : due_ns;
}

bool mr_rtsp_video_is_partial(const mr_rtsp_video *video) {
    return mr_depacketizer_is_open(video->units);
}

/* ---- packets of the stream --------------------------------------------------------------------------------------- */

/* A time can exceed the bounds only if the sender invents it. */
static int64_t ns_of(const mr_rtsp_video *video, int64_t time) {
    const int64_t rate = video->sdp->rate;
    return mr_time_step(time % rate * second_ns / rate, time / rate, second_ns);
}

/* Reports a clock that runs many times slower or faster than announced, for example 1 kHz announced as 90 kHz. */
static void check_clock(mr_rtsp_video *video, const mr_packet *packet) {
    enum { LEAST_S = 3, RATIO = 10 };
    const mr_connection_params *params = video->params;
    if (video->given == 1) {
        video->first_time_ns = packet->pts_ns;
        video->first_arrived_ns = packet->arrived_ns;
    }
    const int64_t came_ns = packet->arrived_ns - video->first_arrived_ns;
    if (video->clock_reported || !params->media.stage || params->clock_is_unused || packet->pts_ns == MR_NO_TIME ||
        video->first_time_ns == MR_NO_TIME || came_ns < LEAST_S * second_ns)
        return;
    const double rate = ((double)packet->pts_ns - (double)video->first_time_ns) / (double)came_ns;
    if (rate < 0 || (rate > 1.0 / RATIO && rate < RATIO))
        return;
    mr_stage_warn(params->media.stage,
                  "%s: times of its pictures run at %.3g of the real rate, so its clock is not one of %" PRIu32
                  " Hz: clock: arrival takes the times of arrival instead", params->url, rate, video->sdp->rate);
    video->clock_reported = true;
}

int mr_rtsp_video_take(mr_rtsp_video *video, int64_t now_ns, mr_packet *packet) {
    const mr_rtp_unit *unit = &video->unit;
    int status = is_other(video, unit) ? renew_media(video, unit) : MR_OK;
    *packet = (mr_packet){0};
    if (!status)
        status = mr_packet_room(packet, unit->bytes);
    if (status)
        return status;
    memcpy(packet->data, unit->data, unit->bytes);
    packet->media = mr_media_ref(video->media);
    packet->pts_ns = ns_of(video, unit->time);
    packet->dts_ns = MR_NO_TIME;
    packet->captured_ns = mr_rtcp_captured_ns(&video->rtcp, unit->timestamp, now_ns);
    packet->arrived_ns = now_ns;
    packet->flags = (unit->key ? MR_FRAME_KEY : 0) | (unit->gap ? MR_FRAME_SEAM : 0) |
                    (unit->damaged ? MR_FRAME_CORRUPT : 0) |
                    (unit->disposable && !unit->damaged ? MR_FRAME_DISPOSABLE : 0);
    check_clock(video, packet);
    video->has_unit = false;
    return MR_OK;
}

int mr_rtsp_video_survey(mr_rtsp_video *video, mr_survey *survey) {
    int status = MR_OK;
    if (!video->described && video->has_unit) {
        status = video->unit.key ? renew_media(video, &video->unit) : MR_OK;
        video->has_unit = video->unit.key;
        video->dropped |= !video->unit.key;
        video->unit.gap |= video->dropped;
    }
    *survey = video->survey;
    return status || video->described ? status : MR_ERROR_AGAIN;
}

void mr_rtsp_video_remark(const mr_rtsp_video *video, char *text, size_t room) {
    uint64_t refused = 0;
    const char *kind = mr_depacketizer_refused(video->units, &refused);
    *text = '\0';
    if (video->given)
        return;
    if (video->foreign && !video->counts.packets)
        snprintf(text, room, ": packets of payload type %d arrive, the session description names %d",
                 video->foreign_type, video->sdp->payload);
    else if (kind)
        snprintf(text, room, ": it sends %s, which are not read", kind);
    else if (video->counts.packets)
        snprintf(text, room, ": %" PRIu64 " packets came, and no picture was complete", video->counts.packets);
    else
        snprintf(text, room, ": no packet of its video came");
}

mr_connection_counts mr_rtsp_video_counts(const mr_rtsp_video *video) {
    mr_connection_counts counts = video->counts;
    counts.jitter_ns = mr_rtcp_jitter_ns(&video->rtcp);
    return counts;
}
