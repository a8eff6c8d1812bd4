#include "stages/decode/decode_still.h"

#include <inttypes.h>
#include <libavcodec/codec_par.h>
#include <stdio.h>

#include "stages/media/media_still.h"

enum { MOST_TEXT = 512 };

static void name_of(const mr_stage *self, const mr_frame *packet, char name[MOST_TEXT]) {
    if (packet->media->is_file)
        snprintf(name, MOST_TEXT, "%s", packet->media->path);
    else
        snprintf(name, MOST_TEXT, "picture %" PRIu64 " of %s", packet->identity.seq, self->source_id);
}

/* Motion photos and the like have a segment APP2 if pictures or a video follow (CIPA DC-007). */
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
    if (!packet->media || !packet->media->still || !packet->media->codec)
        return;
    enum AVCodecID codec = ((const AVCodecParameters *)packet->media->codec)->codec_id;
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
                      "%s: %" PRIu64 " pictures were read whose files hold more behind them; --log info names them",
                      self->source_id, notes->pictures);
}
