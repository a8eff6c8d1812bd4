/* Any bytes as packets whose dependencies are looked for without decoding them, and as the first packet of x264.
 * Nothing may crash, leak or be read beyond the 64 zeros that follow a packet. The first byte chooses the codec; the
 * header and packets stand behind their length in two bytes.
 *
 *     tests/fuzz/run 60 fuzz_packet */
#include <libavcodec/avcodec.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "stages/decode/decode_packet.h"
#include "stages/media/coded/x264_build.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { PADDING = 64 };

static uint8_t *take(const uint8_t **data, size_t *left, size_t *bytes) {
    const size_t head = *left < 2 ? *left : 2;
    const size_t wanted = head < 2 ? 0 : (size_t)((*data)[0] << 8 | (*data)[1]);
    *data += head;
    *left -= head;
    *bytes = wanted < *left ? wanted : *left;
    uint8_t *copy = calloc(1, *bytes + PADDING);
    if (!copy)
        abort();
    memcpy(copy, *data, *bytes);
    *data += *bytes;
    *left -= *bytes;
    return copy;
}

static void look(mr_packet_looks *looks, mr_media *media, uint8_t *data, size_t bytes) {
    mr_frame packet = {.media = media};
    packet.format.payload = MR_PAYLOAD_PACKET;
    packet.plane[0].data = data;
    packet.plane[0].bytes = bytes;
    (void)mr_packet_look(looks, &packet);
    (void)mr_packet_is_alone(&packet);
}

/* libFuzzer's own name for what it calls. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static const enum AVCodecID ids[] = {AV_CODEC_ID_H264,       AV_CODEC_ID_HEVC,  AV_CODEC_ID_VP9,
                                         AV_CODEC_ID_MPEG2VIDEO, AV_CODEC_ID_MPEG4, AV_CODEC_ID_MPEG1VIDEO};
    if (!bytes)
        return 0;
    size_t left = bytes - 1, size;
    AVCodecParameters codec = {.codec_type = AVMEDIA_TYPE_VIDEO, .codec_id = ids[data[0] % 6]};
    mr_packet_looks looks;
    av_log_set_level(AV_LOG_QUIET);
    data++;
    codec.extradata = take(&data, &left, &size);
    codec.extradata_size = (int)size;
    mr_media media = {.references = 1, .codec = &codec, .rate_num = 25, .rate_den = 1};
    const bool open = mr_packet_looks_open(&looks, &codec);
    while (left > 0) {
        uint8_t *packet = take(&data, &left, &size);
        (void)mr_x264_build(&codec, packet, size);
        if (open)
            look(&looks, &media, packet, size);
        free(packet);
    }
    if (open)
        mr_packet_looks_close(&looks);
    free(codec.extradata);
    return 0;
}
