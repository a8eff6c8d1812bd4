/* Any bytes as packets whose dependencies are found without decoding, and as the first packet from x264. Nothing may
 * crash, leak or read past the 64 zeros after a packet. The first byte chooses the codec. Two bytes before the header
 * and before each packet give the length.
 *
 *     tests/fuzz/run 60 fuzz_packet */
#include <libavcodec/avcodec.h>
#include <string.h>

#include "stages/decode/decode_packet.h"
#include "stages/media/coded/x264_build.h"
#include "tests/fuzz/fuzz.h"

enum { PADDING = 64 };

static void look(mr_packet_looks *looks, mr_media *media, uint8_t *data, size_t bytes) {
    mr_frame packet = {.media = media};
    packet.format.payload = MR_PAYLOAD_PACKET;
    packet.plane[0].data = data;
    packet.plane[0].bytes = bytes;
    (void)mr_packet_look(looks, &packet);
    (void)mr_packet_is_alone(&packet);
}

FUZZ(data, bytes) {
    static const enum AVCodecID ids[] = {AV_CODEC_ID_H264,       AV_CODEC_ID_HEVC,  AV_CODEC_ID_VP9,
                                         AV_CODEC_ID_MPEG2VIDEO, AV_CODEC_ID_MPEG4, AV_CODEC_ID_MPEG1VIDEO};
    if (!bytes)
        return;
    size_t left = bytes - 1, size;
    AVCodecParameters codec = {.codec_type = AVMEDIA_TYPE_VIDEO, .codec_id = ids[data[0] % 6]};
    mr_packet_looks looks;
    av_log_set_level(AV_LOG_QUIET);
    data++;
    codec.extradata = fuzz_piece(&data, &left, &size, PADDING);
    codec.extradata_size = (int)size;
    mr_media media = {.references = 1, .codec = &codec, .rate_num = 25, .rate_den = 1};
    const bool open = mr_packet_looks_open(&looks, &codec);
    while (left > 0) {
        uint8_t *packet = fuzz_piece(&data, &left, &size, PADDING);
        (void)mr_x264_build(&codec, packet, size);
        if (open)
            look(&looks, &media, packet, size);
        free(packet);
    }
    if (open)
        mr_packet_looks_close(&looks);
    free(codec.extradata);
}
