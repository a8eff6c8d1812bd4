#include "stages/media/coded/zeros.h"

#include <libavcodec/codec_par.h>

#include "stages/media/coded/nal.h"

/* H.264: table 7-1; HEVC: table 7-1. */
static bool is_slice(bool hevc, mr_nal one) {
    enum { SLICE = 1, IDR = 5, LAST_HEVC = 31 };
    const int type = !one.bytes ? -1 : hevc ? one.data[0] >> 1 & 63 : one.data[0] & 31;
    return hevc ? type >= 0 && type <= LAST_HEVC : type >= SLICE && type <= IDR;
}

/* Whether three zeros are in a row. */
static bool has_row(const uint8_t *data, size_t bytes) {
    for (size_t at = 2; at < bytes;) {
        if (data[at])
            at += 3;
        else if (data[at - 1])
            at += 2;
        else if (data[at - 2])
            at++;
        else
            return true;
    }
    return false;
}

/* How many bytes are left without the zeros at the end. */
static size_t bytes_before_zeros(mr_nal one) {
    size_t bytes = one.bytes;
    while (bytes && !one.data[bytes - 1])
        bytes--;
    return bytes;
}

/* Whether zeros at the ends of a packet's slices are damage. Notes the packet. */
static bool is_cut(mr_zeros *zeros, size_t padding) {
    enum { WINDOW = 64, KNOWN = 16, LONG = 32, OFTEN = 8 };
    const bool pads = OFTEN * zeros->padded > zeros->packets + OFTEN, known = zeros->packets >= KNOWN;
    zeros->packets++;
    zeros->padded += padding > 0;
    if (zeros->packets == WINDOW) {
        zeros->packets /= 2;
        zeros->padded /= 2;
    }
    return padding && !pads && (known || padding >= LONG);
}

bool mr_zeros_find(mr_zeros *zeros, const mr_packet *packet) {
    const AVCodecParameters *codec = packet->media->codec;
    const bool hevc = codec->codec_id == AV_CODEC_ID_HEVC;
    size_t padding = 0;
    bool found = false;
    if (!hevc && codec->codec_id != AV_CODEC_ID_H264)
        return false;
    mr_nals from = {packet->data, packet->data + packet->bytes,
                    mr_nal_read_header(hevc, codec->extradata, (size_t)codec->extradata_size, NULL, NULL)};
    for (mr_nal one; mr_nal_next(&from, &one);) {
        const size_t bytes = bytes_before_zeros(one);
        if (is_slice(hevc, one))
            found |= has_row(one.data, bytes);
        if (is_slice(hevc, one) || !one.bytes)
            padding += one.bytes ? one.bytes - bytes : (size_t)from.length_bytes;
    }
    return (from.length_bytes && is_cut(zeros, padding)) || found;
}
