#include "stages/decode/still_report.h"

#include <inttypes.h>
#include <libavcodec/codec_par.h>
#include <stdio.h>
#include <string.h>

#include "stages/media/still/kinds.h"
#include "stages/media/still/still.h"

enum { MOST_TEXT = 512 };

static enum AVCodecID codec_of(const mr_frame *packet) {
    return ((const AVCodecParameters *)packet->media->codec)->codec_id;
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

void mr_still_report_rest(mr_still_report *report, const mr_stage *self, const mr_frame *packet) {
    const mr_plane *file = &packet->plane[0];
    const enum AVCodecID codec = codec_of(packet);
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

/* Whether an undecodable picture is not damaged, but an unsupported kind of file, such as a video: the text is then the
 * rest of a sentence (mr_still_trouble). An AV1 packet is what a reader extracted from a file, not the file. */
static bool is_foreign(const mr_frame *packet, char text[MOST_TEXT]) {
    return codec_of(packet) != AV_CODEC_ID_AV1 &&
           mr_still_trouble(packet->media->is_file ? packet->media->path : NULL, packet->plane[0].data,
                            packet->plane[0].bytes, text, MOST_TEXT);
}

const char *mr_still_report_damaged(mr_decode_report *report, const mr_frame *packet) {
    char text[MOST_TEXT];
    const bool foreign = is_foreign(packet, text);
    const char *file = mr_frame_file(packet);
    if (file)
        return mr_decode_report_damaged_file(report, packet->media, file, foreign ? text : NULL);
    const char *reason = mr_decode_report_damaged(report, packet);
    return foreign && strcmp(reason, "corrupt") == 0 ? "not a picture that is read" : reason;
}

void mr_still_report_end(const mr_still_report *report, const mr_stage *self) {
    if (report->trailed > 1)
        mr_stage_warn(self,
                      "%s: %" PRIu64 " pictures were read whose files hold more after their end; --log info names them",
                      self->source_id, report->trailed);
}
