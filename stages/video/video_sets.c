#include "stages/video/video_sets.h"

#include <string.h>

#include "millrace/status.h"
#include "stages/media/coded/nal.h"

enum { MOST_SETS = 32, START_BYTES = 4 };
enum { IDR = 5, SPS = 7, PPS = 8, DELIMITER = 9 };
enum { FIRST_IRAP_HEVC = 16, LAST_IRAP_HEVC = 23, VPS_HEVC = 32, SPS_HEVC = 33, PPS_HEVC = 34, DELIMITER_HEVC = 35 };

/* MPEG-4's header is inserted unchanged (ISO/IEC 14496-2, 6.2.1). */
typedef struct sets {
    bool hevc;
    mr_nal header;
    mr_nal one[MOST_SETS];
    size_t count;
    int length_bytes;    /* 0: start codes */
} sets;

static int type_of(bool hevc, mr_nal one) {
    return one.bytes == 0 ? -1 : hevc ? one.data[0] >> 1 & 63 : one.data[0] & 31;
}

static bool is_set(bool hevc, int type) {
    return hevc ? type >= VPS_HEVC && type <= PPS_HEVC : type == SPS || type == PPS;
}

static void note(void *context, mr_nal one) {
    sets *found = context;
    if (is_set(found->hevc, type_of(found->hevc, one)) && found->count < MOST_SETS)
        found->one[found->count++] = one;
}

/* Whether the packet has them, or libavformat's filter will add them: it does so when it converts lengths to start
 * codes. */
static bool come_anyway(const AVPacket *packet, const sets *known) {
    mr_nals from = {packet->data, packet->data + packet->size, known->length_bytes};
    const bool hevc = known->hevc;
    for (mr_nal one; mr_nal_next(&from, &one);) {
        const int type = type_of(hevc, one);
        const bool begins = hevc ? type >= FIRST_IRAP_HEVC && type <= LAST_IRAP_HEVC : type == IDR;
        if (type == (hevc ? SPS_HEVC : SPS) || (begins && known->length_bytes))
            return true;
    }
    return false;
}

/* Size of a delimiter, which must come first. */
static size_t delimiter_of(const AVPacket *packet, const sets *known) {
    mr_nals from = {packet->data, packet->data + packet->size, known->length_bytes};
    mr_nal one;
    if (!mr_nal_next(&from, &one) || type_of(known->hevc, one) != (known->hevc ? DELIMITER_HEVC : DELIMITER))
        return 0;
    return (size_t)(one.data + one.bytes - packet->data);
}

/* Whether an MPEG-4 packet has an object layer before its picture. */
static bool has_layer(const AVPacket *packet) {
    enum { FIRST_LAYER = 0x20, LAST_LAYER = 0x2f, PICTURE = 0xb6 };
    mr_nals from = {packet->data, packet->data + packet->size, 0};
    for (mr_nal one; mr_nal_next(&from, &one) && one.bytes && one.data[0] != PICTURE;)
        if (one.data[0] >= FIRST_LAYER && one.data[0] <= LAST_LAYER)
            return true;
    return false;
}

static uint8_t *write_sets(uint8_t *to, const sets *known) {
    if (known->header.bytes)
        memcpy(to, known->header.data, known->header.bytes);
    to += known->header.bytes;
    for (size_t i = 0; i < known->count; i++) {
        const size_t bytes = known->one[i].bytes;
        const int length_bytes = known->length_bytes ? known->length_bytes : START_BYTES;
        const size_t head = known->length_bytes ? bytes : 1;
        for (int k = length_bytes - 1; k >= 0; k--)
            *to++ = (uint8_t)(head >> 8 * k);
        memcpy(to, known->one[i].data, bytes);
        to += bytes;
    }
    return to;
}

static size_t bytes_of(const sets *known) {
    size_t bytes = known->header.bytes;
    for (size_t i = 0; i < known->count; i++)
        bytes += known->one[i].bytes + (size_t)(known->length_bytes ? known->length_bytes : START_BYTES);
    return bytes;
}

/* Finds what the packet lacks; false: nothing. */
static bool find_missing(sets *known, const AVPacket *packet, const AVCodecParameters *codec) {
    const mr_nal header = {codec->extradata, (size_t)codec->extradata_size};
    *known = (sets){.hevc = codec->codec_id == AV_CODEC_ID_HEVC};
    if (!(packet->flags & AV_PKT_FLAG_KEY))
        return false;
    if (codec->codec_id == AV_CODEC_ID_MPEG4 && !has_layer(packet))
        known->header = header;
    if (codec->codec_id == AV_CODEC_ID_H264 || known->hevc)
        known->length_bytes = mr_nal_read_header(known->hevc, header.data, header.bytes, note, known);
    return known->header.bytes || (known->count && !come_anyway(packet, known));
}

int mr_video_sets_add(AVPacket *packet, const AVCodecParameters *codec) {
    sets known;
    if (!find_missing(&known, packet, codec))
        return MR_OK;
    const size_t head = known.header.bytes ? 0 : delimiter_of(packet, &known), rest = (size_t)packet->size - head;
    AVPacket *made = av_packet_alloc();
    if (!made || av_new_packet(made, (int)(bytes_of(&known) + (size_t)packet->size)) < 0 ||
        av_packet_copy_props(made, packet) < 0) {
        av_packet_free(&made);
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    }
    memcpy(made->data, packet->data, head);
    memcpy(write_sets(made->data + head, &known), packet->data + head, rest);
    made->time_base = packet->time_base;
    av_packet_unref(packet);
    av_packet_move_ref(packet, made);
    av_packet_free(&made);
    return MR_OK;
}
