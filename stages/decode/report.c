#include "stages/decode/report.h"

#include <inttypes.h>
#include <libavcodec/codec_par.h>
#include <stdio.h>

#include "stages/decode/decode_options.h"
#include "stages/media/media_input.h"
#include "stages/media/still/kinds.h"
#include "stages/media/still/still.h"

enum { MOST_TEXT = 512 };

void mr_decode_report_note(mr_decode_report *report, mr_decode_event event) {
    report->packets += event == MR_DECODE_PACKET;
    report->left += event == MR_DECODE_LEFT;
    report->pictures += event == MR_DECODE_PICTURE;
    report->outsized = report->outsized && event < MR_DECODE_DECODER;
}

void mr_decode_report_error(mr_decode_report *report, int error) {
    report->last_error = error;
}

bool mr_decode_report_has_pictures(const mr_decode_report *report) {
    return report->pictures > 0;
}

void mr_decode_report_fini(mr_decode_report *report) {
    mr_media_unref(&report->lost);
}

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

bool mr_decode_report_outsized(mr_decode_report *report, const mr_stage *self, const mr_media *media, int width,
                               int height) {
    const int64_t most = mr_decode_most_pixels(self, media);
    const bool limited = media->live && most < ((const mr_decode_choices *)self->options)->max_pixels;
    if (!limited || (int64_t)width * height <= most)
        return false;
    if (!report->outsized)
        mr_stage_warn(self, "%s: pictures are %dx%d, larger than planned for, and are dropped: raise size of %s",
                      self->source_id, width, height, self->source_id);
    report->outsized = true;
    return true;
}

void mr_decode_report_emitted(mr_decode_report *report, const mr_stage *self, const AVFrame *picture) {
    const mr_bounds width = self->inputs[0].set.width, height = self->inputs[0].set.height;
    if (report->outgrown || !width.max || (picture->width <= width.max && picture->height <= height.max))
        return;
    report->outgrown = true;
    mr_stage_warn(self, "%s: pictures are %dx%d, larger than the %dx%d that were announced: memory may exceed the plan",
                  self->source_id, picture->width, picture->height, (int)width.max, (int)height.max);
}

/* ---- still pictures ---------------------------------------------------------------------------------------------- */

/* A still picture's codec; AV_CODEC_ID_NONE for other packets. */
static enum AVCodecID still_codec(const mr_frame *packet) {
    const mr_media *media = packet->media;
    const bool still = media && media->still && media->codec;
    return still ? ((const AVCodecParameters *)media->codec)->codec_id : AV_CODEC_ID_NONE;
}

static void name_of(const mr_stage *self, const mr_frame *packet, char name[MOST_TEXT]) {
    const char *file = mr_frame_file(packet);
    if (file)
        snprintf(name, MOST_TEXT, "%s", file);
    else
        snprintf(name, MOST_TEXT, "picture %" PRIu64 " of %s", packet->identity.seq, self->source_id);
}

/* Motion photos and similar files have a segment APP2 if pictures or a video follow (CIPA DC-007). */
static bool announces_more(const uint8_t *data, size_t bytes) {
    enum { MARK = 8 };
    for (size_t at = 2; at + MARK <= bytes && data[at] == 0xff && data[at + 1] >= 0xe0 && data[at + 1] <= 0xef;) {
        if (data[at + 1] == 0xe2 && data[at + 4] == 'M' && data[at + 5] == 'P' && data[at + 6] == 'F' && !data[at + 7])
            return true;
        at += 2 + ((size_t)data[at + 2] << 8 | data[at + 3]);
    }
    return false;
}

static const char *describe_rest(enum AVCodecID codec, const mr_plane *file, size_t end) {
    const uint8_t *rest = file->data + end;
    size_t bytes = file->bytes - end, zeros = 0;
    if (codec == AV_CODEC_ID_MJPEG && announces_more(file->data, end))
        return "a preview or a video that the picture announces";
    if (mr_still_begins(codec, rest, bytes))
        return "another picture, as in a stream of them, which is read whole if its name ends in none of a picture, "
               "as .mjpeg";
    while (zeros < bytes && !rest[zeros])
        zeros++;
    return zeros == bytes ? "zeros" : "no picture of its kind";
}

/* Looks for data after the end of a still picture: bytes, or further pictures. */
static void note_rest(mr_decode_report *report, const mr_stage *self, const mr_frame *packet) {
    const mr_plane *file = &packet->plane[0];
    const enum AVCodecID codec = still_codec(packet);
    if (!codec)
        return;
    const size_t end = mr_still_end(codec, file->data, file->bytes),
                 count = mr_still_pictures(codec, file->data, file->bytes);
    const bool trailed = end && end < file->bytes;
    if (!trailed && count == 1)
        return;
    void (*say)(const mr_stage *, const char *, ...) = report->trailed++ ? mr_stage_info : mr_stage_warn;
    char name[MOST_TEXT];
    name_of(self, packet, name);
    if (trailed)
        say(self, "%s: %zu bytes follow the end of the picture and are not read: %s", name, file->bytes - end,
            describe_rest(codec, file, end));
    else
        say(self, "%s: holds %zu pictures, of which only the first is read", name, count);
}

void mr_decode_report_sent(mr_decode_report *report, const mr_stage *self, const mr_frame *packet) {
    report->packets++;
    note_rest(report, self, packet);
}

/* ---- packets without a picture ----------------------------------------------------------------------------------- */

/* Whether an undecodable still picture is not damaged, but an unsupported kind of file, such as a video. The text is
 * then the rest of a sentence (mr_still_trouble); otherwise it is "". An AV1 packet is what a reader extracted from a
 * file, not the file. */
static bool is_foreign(const mr_frame *packet, char *text, size_t room) {
    const enum AVCodecID codec = still_codec(packet);
    text[0] = '\0';
    return codec && codec != AV_CODEC_ID_AV1 &&
           mr_still_trouble(packet->media->is_file ? packet->media->path : NULL, packet->plane[0].data,
                            packet->plane[0].bytes, text, room);
}

/* The file, if the packet is a still picture; else NULL. */
static const char *still_file(const mr_frame *packet) {
    return packet->media && packet->media->still ? mr_frame_file(packet) : NULL;
}

/* One damaged picture in a video can spoil all up to the next key frame. */
static const char *consequence(const mr_decode_choices *from) {
    return from->damaged == MR_DAMAGED_DROP
               ? "; those that depend on it are dropped, too (damaged: mark would pass them on)"
               : "";
}

const char *mr_decode_report_damaged(mr_decode_report *report, const mr_stage *self, const mr_frame *packet) {
    void (*say)(const mr_stage *, const char *, ...) = report->damaged ? mr_stage_info : mr_stage_warn;
    const mr_decode_choices *from = self->options;
    const char *file = still_file(packet);
    int width, height, end = 0;
    const bool exceeds =
        sscanf(mr_av_complaint(), "Picture size %dx%d exceeds%n", &width, &height, &end) == 2 && end > 0;
    /* After a decoder has refused one, packets that depend on it give no picture either. */
    if ((exceeds && packet->media && mr_decode_report_outsized(report, self, packet->media, width, height)) ||
        report->outsized)
        return "too large";
    const bool foreign = is_foreign(packet, report->trouble, sizeof report->trouble);
    /* A picture that FFmpeg refuses as too large is not damaged: a larger max_pixels admits it. */
    if (exceeds)
        say(self, "%s: %s is %dx%d, larger than max_pixels (%lld) allows: raise max_pixels of %s", self->source_id,
            file ? file : "a picture", width, height, (long long)from->max_pixels, self->id);
    else if (file)
        say(self, "%s: %s %s", self->source_id, file, foreign ? report->trouble : "is damaged");
    else if (packet->pts_ns != MR_NO_TIME)
        say(self, "%s: the picture at %.3f s is damaged%s", self->source_id, (double)packet->pts_ns / 1e9,
            consequence(from));
    else
        say(self, "%s: a picture is damaged%s", self->source_id, consequence(from));
    report->damaged = true;
    if (file) {
        mr_media_unref(&report->lost);
        report->lost = mr_media_ref(packet->media);
    }
    return foreign ? "not a picture that is read" : "corrupt";
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

/* If a folder has many files, the message names one. */
static int fail_undecoded(const mr_decode_report *report) {
    const char *why = report->outsized     ? "its pictures are larger than planned for"
                      : report->last_error ? mr_av_words(report->last_error)
                                           : "no picture was complete";
    if (!report->lost)
        return mr_fail(MR_ERROR_DATA, "nothing could be decoded: %s", why);
    if (report->packets == 1 && *report->trouble)
        return mr_fail(MR_ERROR_DATA, "%s %s", report->lost->path, report->trouble);
    if (report->packets == 1)
        return mr_fail(MR_ERROR_DATA, "nothing could be decoded of %s: %s", report->lost->path, why);
    return mr_fail(MR_ERROR_DATA, "nothing could be decoded of %" PRIu64 " files, such as %s: %s", report->packets,
                   report->lost->path, why);
}

int mr_decode_report_end(const mr_decode_report *report, const mr_stage *self) {
    if (report->trailed > 1)
        mr_stage_warn(self,
                      "%s: %" PRIu64 " pictures were read whose files hold more after their end; --log info names them",
                      self->source_id, report->trailed);
    if (report->left > 0)
        mr_stage_info(self, "%s: %" PRIu64 " pictures were not decoded, since neither they nor what depends on them is "
                      "wanted", self->source_id, report->left);
    return report->packets > 0 && report->pictures == 0 ? fail_undecoded(report) : MR_OK;
}
