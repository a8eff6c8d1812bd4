/* Any bytes as an H.264, HEVC or MPEG-4 stream: parameter sets in the header, and packets that get times, are checked
 * for damage and zeros, and get parameter sets for a transport stream. Nothing may crash or leak, and times must rise.
 * The first byte chooses the codec and whether the stream is live. Two bytes before the header and before each packet
 * give the length.
 *
 *     tests/fuzz/run 60 fuzz_coded */
#include <libavcodec/avcodec.h>
#include <string.h>

#include "stages/media/coded/alike.h"
#include "stages/media/coded/picture_times.h"
#include "stages/media/coded/recovery.h"
#include "stages/media/coded/zeros.h"
#include "stages/video/video_sets.h"
#include "tests/fuzz/fuzz.h"

enum { HEVC = 1, LIVE = 2, DECODED = 4, MPEG4 = 8, PADDING = 64 };

static void put_sets(mr_packet *from, const AVCodecParameters *codec) {
    AVPacket *packet = av_packet_alloc();
    fault_if(!packet || av_new_packet(packet, (int)from->bytes) < 0);
    memcpy(packet->data, from->data, from->bytes);
    packet->flags = AV_PKT_FLAG_KEY;
    const int before = packet->size;
    fault_if(mr_video_sets_add(packet, codec) || packet->size < before);
    av_packet_free(&packet);
}

FUZZ(data, bytes) {
    const uint8_t kind = bytes ? data[0] : 0;
    size_t left = bytes ? bytes - 1 : 0, size;
    data += bytes ? 1 : 0;
    AVCodecParameters codec = {.codec_type = AVMEDIA_TYPE_VIDEO,
                               .codec_id = kind & MPEG4  ? AV_CODEC_ID_MPEG4
                                           : kind & HEVC ? AV_CODEC_ID_HEVC
                                                         : AV_CODEC_ID_H264};
    av_log_set_level(AV_LOG_QUIET);
    codec.extradata = fuzz_piece(&data, &left, &size, PADDING);
    codec.extradata_size = (int)size;
    mr_media media = {.references = 1, .codec = &codec, .rate_num = 25, .rate_den = 1};
    mr_picture_times times = {0};
    mr_recovery recovery;
    mr_zeros zeros = {0};
    mr_recovery_begin(&recovery);
    mr_picture_times_begin(&times, kind & LIVE);
    int64_t decoded_ns = INT64_MIN;
    for (int64_t n = 0; left > 0 && n < 200; n++) {
        const int64_t clock_ns = (left > 0 ? (int8_t)data[0] : 0) * INT64_C(40000000) + n * 40000000;
        const bool untimed = kind & MPEG4 && !(kind & LIVE);
        mr_packet packet = {.media = &media, .pts_ns = untimed ? MR_NO_TIME : clock_ns,
                            .dts_ns = kind & DECODED ? clock_ns : MR_NO_TIME,
                            .arrived_ns = n * 40000000, .flags = n % 5 ? 0 : MR_FRAME_KEY};
        packet.data = fuzz_piece(&data, &left, &packet.bytes, PADDING);
        mr_picture_times_pass(&times, &packet);
        fault_if(kind & LIVE && packet.dts_ns <= decoded_ns);
        decoded_ns = packet.dts_ns;
        mr_recovery_pass(&recovery, &packet);
        fault_if(mr_zeros_find(&zeros, &packet) && kind & MPEG4);
        put_sets(&packet, &codec);
        free(packet.data);
    }
    AVCodecParameters wider = codec;
    wider.width++;
    fault_if(mr_codecs_are_alike(&codec, &wider, true));
    (void)mr_codecs_are_alike(&codec, &codec, kind & DECODED);
    mr_picture_times_fini(&times);
    free(codec.extradata);
}
