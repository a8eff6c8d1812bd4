#include "stages/decode/decode_still.h"

#include <inttypes.h>
#include <libavcodec/codec_par.h>
#include <stdio.h>

#include "stages/media/still/kinds.h"
#include "stages/media/still/orientation.h"
#include "stages/media/still/still.h"
#include "stages/media/still/tiff.h"

enum { MOST_TEXT = 512 };

/* A still picture's codec; AV_CODEC_ID_NONE for other packets. */
static enum AVCodecID codec_of(const mr_frame *packet) {
    const mr_media *media = packet->media;
    const bool still = media && media->still && media->codec;
    return still ? ((const AVCodecParameters *)media->codec)->codec_id : AV_CODEC_ID_NONE;
}

void mr_still_turn(mr_format *picture, const mr_frame *packet, const AVDictionary *texts) {
    const AVDictionaryEntry *profile =
        codec_of(packet) ? av_dict_get(texts, "Raw profile type exif", NULL, AV_DICT_MATCH_CASE) : NULL;
    mr_upright found = mr_still_upright(codec_of(packet), packet->plane[0].data, packet->plane[0].bytes);
    if (profile && !found.rotation && !found.flip)
        found = mr_upright_of_profile(profile->value);
    if (found.rotation || found.flip) {
        picture->rotation = found.rotation;
        picture->flip = found.flip;
    }
}

bool mr_still_would_be_wrong(const mr_frame *packet) {
    char text[MOST_TEXT];
    return codec_of(packet) == AV_CODEC_ID_TIFF &&
           mr_tiff_trouble(packet->plane[0].data, packet->plane[0].bytes, text, sizeof text);
}

/* An AV1 packet is what a reader extracted from a file, not the file. */
bool mr_still_is_foreign(const mr_frame *packet, char *text, size_t room) {
    const enum AVCodecID codec = codec_of(packet);
    text[0] = '\0';
    return codec && codec != AV_CODEC_ID_AV1 &&
           mr_still_trouble(packet->media->is_file ? packet->media->path : NULL, packet->plane[0].data,
                            packet->plane[0].bytes, text, room);
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

void mr_still_note(mr_still_notes *notes, const mr_stage *self, const mr_frame *packet) {
    const mr_plane *file = &packet->plane[0];
    const enum AVCodecID codec = codec_of(packet);
    if (!codec)
        return;
    size_t end = mr_still_end(codec, file->data, file->bytes),
           count = mr_still_pictures(codec, file->data, file->bytes);
    bool trailed = end && end < file->bytes;
    if (!trailed && count == 1)
        return;
    void (*say)(const mr_stage *, const char *, ...) = notes->pictures++ ? mr_stage_info : mr_stage_warn;
    char name[MOST_TEXT];
    name_of(self, packet, name);
    if (trailed)
        say(self, "%s: %zu bytes follow the end of the picture and are not read: %s", name, file->bytes - end,
            describe_rest(codec, file, end));
    else
        say(self, "%s: holds %zu pictures, of which only the first is read", name, count);
}

void mr_still_sum_up(const mr_still_notes *notes, const mr_stage *self) {
    if (notes->pictures > 1)
        mr_stage_warn(self,
                      "%s: %" PRIu64 " pictures were read whose files hold more after their end; --log info names them",
                      self->source_id, notes->pictures);
}
