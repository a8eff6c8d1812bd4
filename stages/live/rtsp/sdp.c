#include "stages/live/rtsp/sdp.h"

#include <ctype.h>
#include <libavutil/base64.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/base/memory.h"
#include "millrace/status.h"

enum { JPEG_PAYLOAD = 26, JPEG_RATE = 90000, MOST_RATE = 10000000, LINE = 8192 };

typedef struct reading {
    mr_sdp *sdp;         /* the chosen video, or the one being read */
    bool any;            /* a line that is SDP */
    bool in_video;       /* lines belong to a video that may be chosen */
    bool in_session;     /* no media came yet */
    bool videos;         /* there is one */
    bool chosen;
    bool mapped;         /* its rtpmap was found */
    bool interleaved;    /* NAL units come out of order: the depacketizer cannot handle that */
    char refused[128];   /* codec names that are not known */
    char parameters[LINE]; /* fmtp line */
} reading;

/* The text after `prefix`; NULL if the line does not begin with it. */
static const char *behind(const char *line, const char *prefix) {
    const size_t bytes = strlen(prefix);
    return strncasecmp(line, prefix, bytes) == 0 ? line + bytes : NULL;
}

/* Text that is too long counts as missing. */
static void copy(char *to, size_t room, const char *text) {
    const size_t bytes = strlen(text);
    memcpy(to, bytes < room ? text : "", bytes < room ? bytes + 1 : 1);
}

/* Parses an integer up to `most`; 0 for anything else. */
static int number(const char *text, int most) {
    char *end;
    const long value = isdigit((unsigned char)*text) ? strtol(text, &end, 10) : 0;
    return value > 0 && value <= most ? (int)value : 0;
}

/* ---- a stream ---------------------------------------------------------------------------------------------------- */

static void refuse(reading *at, const char *codec) {
    const size_t used = strlen(at->refused);
    char clean[24];
    size_t bytes = 0;
    while (bytes + 1 < sizeof clean && codec[bytes] != '/' && isgraph((unsigned char)codec[bytes])) {
        clean[bytes] = codec[bytes];
        bytes++;
    }
    clean[bytes] = '\0';
    snprintf(at->refused + used, sizeof at->refused - used, "%s%s", used ? ", " : "", clean);
}

/* "m=video 0 RTP/AVP 96": only the first payload type counts. */
static void begin_media(reading *at, const char *rest) {
    char kind[16], protocol[32];
    int type = -1;
    at->in_session = at->in_video = false;
    if (at->chosen || sscanf(rest, "%15s %*15s %31s %3d", kind, protocol, &type) != 3 || strcasecmp(kind, "video") != 0)
        return;
    at->videos = true;
    if (!strstr(protocol, "RTP/AVP") || type < 0 || type > 127) {
        refuse(at, protocol);
        return;
    }
    at->in_video = true;
    at->interleaved = false;
    *at->parameters = '\0';
    at->sdp->payload = type;
    at->sdp->codec = MR_RTP_JPEG;
    at->sdp->rate = JPEG_RATE;
    *at->sdp->control = '\0';
    at->sdp->width = at->sdp->height = at->sdp->set_count = 0;
    at->sdp->framerate = 0;
    at->mapped = type == JPEG_PAYLOAD;
}

/* "a=rtpmap:96 H264/90000" */
static void read_map(reading *at, const char *rest) {
    static const struct {
        const char *name;
        mr_rtp_codec codec;
    } known[] = {{"H264", MR_RTP_H264}, {"H265", MR_RTP_HEVC}, {"HEVC", MR_RTP_HEVC}, {"JPEG", MR_RTP_JPEG}};
    char codec[32];
    int type, rate = 0;
    if (sscanf(rest, "%3d %31[^/ \t]/%9d", &type, codec, &rate) < 2 || type != at->sdp->payload)
        return;
    at->mapped = false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcasecmp(codec, known[i].name) == 0) {
            at->sdp->codec = known[i].codec;
            at->mapped = true;
        }
    at->sdp->rate = rate > 0 && rate <= MOST_RATE ? (uint32_t)rate : JPEG_RATE;
    if (!at->mapped) {
        refuse(at, codec);
        at->in_video = false;
    }
}

/* Reads "640,480" or "640-480"; a payload type may come first. */
static void read_size(reading *at, const char *rest) {
    int type, width = 0, height = 0;
    if (sscanf(rest, "%5d,%5d", &width, &height) != 2 && sscanf(rest, "%3d %5d-%5d", &type, &width, &height) != 3)
        return;
    if (width > 0 && height > 0 && width <= 65535 && height <= 65535) {
        at->sdp->width = width;
        at->sdp->height = height;
    }
}

static void read_rate(reading *at, const char *rest) {
    char *end;
    double rate = strtod(rest, &end);
    const double below = *end == '/' ? strtod(end + 1, NULL) : 1;
    rate = below > 0 ? rate / below : 0;
    if (isfinite(rate) && rate > 0 && rate <= 1000)
        at->sdp->framerate = rate;
}

static void read_attribute(reading *at, const char *line) {
    const char *rest;
    if ((rest = behind(line, "control:")) && (at->in_session || at->in_video))
        copy(at->in_session ? at->sdp->session_control : at->sdp->control, MR_SDP_CONTROL, rest);
    else if ((rest = behind(line, "range:"))) {
        at->sdp->timed = behind(rest, "npt") != NULL;
        at->sdp->live = strncasecmp(rest, "npt=now", 7) == 0;
    } else if (!at->in_video)
        return;
    else if ((rest = behind(line, "rtpmap:")))
        read_map(at, rest);
    else if ((rest = behind(line, "fmtp:")) && atoi(rest) == at->sdp->payload)
        copy(at->parameters, sizeof at->parameters, rest + strcspn(rest, " \t"));
    else if ((rest = behind(line, "framerate:")) || (rest = behind(line, "x-framerate:")))
        read_rate(at, rest);
    else if ((rest = behind(line, "x-dimensions:")) || (rest = behind(line, "framesize:")))
        read_size(at, rest);
}

/* ---- parameter sets ---------------------------------------------------------------------------------------------- */

/* Removes quotes and spaces around a text; returns the remaining length. */
static size_t trim(const char **text, size_t bytes) {
    static const char around[] = " \t\"";
    for (; bytes && strchr(around, **text); bytes--)
        ++*text;
    while (bytes && strchr(around, (*text)[bytes - 1]))
        bytes--;
    return bytes;
}

/* Adds the sets in a list such as "Z0IAKeNQ,aM48gA==". Invalid base64 and excess sets are ignored: the stream can bring
 * them. */
static void read_sets(mr_sdp *sdp, const char *list, size_t bytes) {
    char coded[4096];
    while (bytes > 0 && sdp->set_count < MR_SDP_MOST_SETS) {
        const char *comma = memchr(list, ',', bytes), *set = list;
        const size_t length = comma ? (size_t)(comma - list) : bytes, kept = trim(&set, length);
        size_t used = 0;
        for (int i = 0; i < sdp->set_count; i++)
            used += sdp->set_bytes[i];
        if (kept > 0 && kept < sizeof coded) {
            memcpy(coded, set, kept);
            coded[kept] = '\0';
            const int got = av_base64_decode(sdp->sets + used, coded, (int)(MR_SDP_SETS_BYTES - used));
            if (got > 0 && (size_t)got <= MR_SDP_SETS_BYTES - used)
                sdp->set_bytes[sdp->set_count++] = (size_t)got;
        }
        list += length + (comma != NULL);
        bytes -= length + (comma != NULL);
    }
}

static void read_parameters(reading *at) {
    static const char *const lists[] = {"sprop-parameter-sets", "sprop-vps", "sprop-sps", "sprop-pps"};
    for (const char *text = at->parameters; *text;) {
        text += strspn(text, "; \t");
        const char *end = text + strcspn(text, ";"), *equals = memchr(text, '=', (size_t)(end - text));
        const char *value = equals ? equals + 1 : end;
        const size_t value_bytes = trim(&value, (size_t)(end - value));
        const size_t key = trim(&text, (size_t)((equals ? equals : end) - text));
        for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
            if (key == strlen(lists[i]) && strncasecmp(text, lists[i], key) == 0)
                read_sets(at->sdp, value, value_bytes);
        if (key == 18 && strncasecmp(text, "packetization-mode", key) == 0)
            at->interleaved = at->interleaved || *value == '2';
        if (key == 18 && strncasecmp(text, "sprop-max-don-diff", key) == 0)
            at->interleaved = at->interleaved || number(value, 65535) > 0;
        text = end;
    }
}

/* ---- the description --------------------------------------------------------------------------------------------- */

/* Called when a video's lines have all been read. */
static void end_media(reading *at) {
    if (!at->in_video || at->chosen)
        return;
    at->in_video = false;
    read_parameters(at);
    if (at->interleaved) {
        refuse(at, "interleaved NAL units");
    } else if (at->mapped) {
        at->chosen = true;
    }
}

static void read_line(reading *at, const char *line) {
    if (line[0] == 'm' && line[1] == '=') {
        end_media(at);
        begin_media(at, line + 2);
    } else if (line[0] == 'a' && line[1] == '=') {
        read_attribute(at, line + 2);
    }
    at->any = at->any || ((line[0] == 'v' || line[0] == 'm') && line[1] == '=');
}

static void read_lines(reading *at, const char *text, size_t bytes) {
    char line[LINE];
    while (bytes > 0) {
        const char *end = memchr(text, '\n', bytes);
        const size_t length = end ? (size_t)(end - text) : bytes;
        size_t kept = length;
        while (kept > 0 && (text[kept - 1] == '\r' || text[kept - 1] == ' '))
            kept--;
        if (kept < sizeof line && !memchr(text, '\0', kept)) {
            memcpy(line, text, kept);
            line[kept] = '\0';
            read_line(at, line);
        }
        text += length + (end != NULL);
        bytes -= length + (end != NULL);
    }
    end_media(at);
}

int mr_sdp_read(mr_sdp *sdp, const char *text, size_t bytes, const char *name) {
    *sdp = (mr_sdp){.timed = true};
    if (bytes > MR_SDP_MOST_BYTES)
        return mr_fail(MR_ERROR_DATA, "%s: its description has more than %d bytes", name, MR_SDP_MOST_BYTES);
    reading *at = mr_calloc(1, sizeof *at);
    if (!at)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    at->sdp = sdp;
    at->in_session = true;
    read_lines(at, text, bytes);
    int status = MR_OK;
    if (!at->any)
        status = mr_fail(MR_ERROR_DATA, "%s: does not describe a session: not SDP", name);
    else if (!at->videos)
        status = mr_fail(MR_ERROR_NO_INPUT, "%s: has no video", name);
    else if (!at->chosen)
        status = mr_fail(MR_ERROR_UNAVAILABLE, "%s: its video is %s; H.264, HEVC and JPEG are read", name,
                         *at->refused ? at->refused : "not described");
    mr_free(at);
    return status;
}
