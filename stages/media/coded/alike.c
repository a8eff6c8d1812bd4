#include "stages/media/coded/alike.h"

#include <string.h>

#include "stages/media/coded/recovery.h"

enum { MOST_SETS = 64, SPS = 7 };

typedef struct sets {
    mr_nal one[MOST_SETS];
    size_t count;
} sets;

static void note(void *context, mr_nal one) {
    sets *to = context;
    if (to->count < MOST_SETS)
        to->one[to->count] = one;
    to->count++;
}

/* How many bits in an H.264 parameter set decoding depends on. */
static size_t bits_of(mr_nal one) {
    const bool sequence = one.bytes && (one.data[0] & 31) == SPS;
    const size_t bits = sequence ? mr_recovery_use_at(one) : 0;
    return bits ? bits : 8 * one.bytes;
}

static bool is_same(mr_nal a, mr_nal b) {
    const size_t bits = bits_of(a), left = bits % 8;
    if (bits != bits_of(b) || memcmp(a.data, b.data, bits / 8) != 0)
        return false;
    return !left || (a.data[bits / 8] ^ b.data[bits / 8]) >> (8 - left) == 0;
}

static bool look_alike(const AVCodecParameters *a, const AVCodecParameters *b) {
    return a->codec_id == b->codec_id && a->codec_tag == b->codec_tag && a->width == b->width &&
           a->height == b->height && a->format == b->format && a->profile == b->profile &&
           a->video_delay == b->video_delay && a->field_order == b->field_order &&
           a->color_range == b->color_range && a->color_primaries == b->color_primaries &&
           a->color_trc == b->color_trc && a->color_space == b->color_space &&
           a->chroma_location == b->chroma_location &&
           av_cmp_q(a->sample_aspect_ratio, b->sample_aspect_ratio) == 0;
}

bool mr_codecs_are_alike(const AVCodecParameters *a, const AVCodecParameters *b, bool in_band) {
    const bool hevc = a->codec_id == AV_CODEC_ID_HEVC;
    sets mine = {.count = 0}, theirs = {.count = 0};
    if (!look_alike(a, b))
        return false;
    if (a->extradata_size == b->extradata_size &&
        (!a->extradata_size || memcmp(a->extradata, b->extradata, (size_t)a->extradata_size) == 0))
        return true;
    if (a->codec_id != AV_CODEC_ID_H264)
        return hevc && in_band;
    mr_nal_read_header(false, a->extradata, (size_t)a->extradata_size, note, &mine);
    mr_nal_read_header(false, b->extradata, (size_t)b->extradata_size, note, &theirs);
    bool same = mine.count > 0 && mine.count == theirs.count && mine.count <= MOST_SETS;
    for (size_t i = 0; same && i < mine.count; i++)
        same = is_same(mine.one[i], theirs.one[i]);
    return same;
}
