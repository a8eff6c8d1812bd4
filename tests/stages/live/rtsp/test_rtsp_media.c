/* Facts that parameter sets alone give about pictures. They must agree with a decoder that has decoded the pictures. */
#include <libavformat/avformat.h>
#include <stdlib.h>
#include <string.h>

#include "millrace/status.h"
#include "stages/live/rtsp/depacketize.h"
#include "stages/live/rtsp/rtsp_media.h"
#include "stages/media/media_probe.h"
#include "tests/support/clips.h"
#include "tests/support/suite.h"

#define SOURCE "-f lavfi -i testsrc2=size=%s:rate=%s -frames:v 12 "

static const struct {
    const char *name, *size, *rate, *options;
    mr_rtp_codec codec;
} clips[] = {
    {"sets-plain.h264", "320x240", "25", "-c:v libx264 -bf 0 -pix_fmt yuv420p", MR_RTP_H264},
    {"sets-cropped.h264", "1918x1078", "30", "-c:v libx264 -preset slow -pix_fmt yuv420p", MR_RTP_H264},
    {"sets-fields.h264", "720x576", "25", "-c:v libx264 -x264-params interlaced=1 -pix_fmt yuv420p", MR_RTP_H264},
    {"sets-numbers.h264", "640x360", "50", "-c:v libx264 -x264-params sps-id=7 -pix_fmt yuv420p", MR_RTP_H264},
    {"sets-deep.h264", "640x480", "15", "-c:v libx264 -pix_fmt yuv422p10", MR_RTP_H264},
    {"sets-baseline.h264", "352x288", "12.5", "-c:v libx264 -profile:v baseline -pix_fmt yuv420p", MR_RTP_H264},
    {"sets-colours.h264", "640x480", "25",
     "-c:v libx264 -pix_fmt yuv420p -color_primaries bt709 -colorspace bt709 -color_trc bt709 -color_range pc",
     MR_RTP_H264},
    {"sets-plain.hevc", "320x240", "25", "-c:v libx265 -x265-params log-level=none -pix_fmt yuv420p", MR_RTP_HEVC},
    {"sets-deep.hevc", "1278x718", "25", "-c:v libx265 -x265-params log-level=none -pix_fmt yuv420p10", MR_RTP_HEVC},
};

/* Decodes all pictures in a file. */
static AVCodecContext *decode_all(const char *path, uint8_t **data, size_t *bytes) {
    AVFormatContext *file = NULL;
    AVPacket *packet = av_packet_alloc();
    AVFrame *frame = av_frame_alloc();
    assert_true(avformat_open_input(&file, path, NULL, NULL) >= 0);
    assert_true(avformat_find_stream_info(file, NULL) >= 0);
    AVCodecContext *decoder = avcodec_alloc_context3(avcodec_find_decoder(file->streams[0]->codecpar->codec_id));
    decoder->thread_count = 1;
    assert_true(avcodec_open2(decoder, NULL, NULL) >= 0);
    *data = NULL;
    while (av_read_frame(file, packet) >= 0) {
        if (!*data) {
            *data = calloc(1, (size_t)packet->size + 64);
            memcpy(*data, packet->data, *bytes = (size_t)packet->size);
        }
        avcodec_send_packet(decoder, packet);
        while (avcodec_receive_frame(decoder, frame) >= 0)
            ;
        av_packet_unref(packet);
    }
    av_frame_free(&frame);
    av_packet_free(&packet);
    avformat_close_input(&file);
    return decoder;
}

/* Passes a picture's parameter sets, as a session description would. */
static mr_depacketizer *sets_of(mr_rtp_codec codec, const uint8_t *data, size_t bytes) {
    mr_depacketizer *made;
    assert_int_equal(mr_depacketizer_create(&made, codec, 1 << 20), MR_OK);
    for (size_t i = 0; i + 3 < bytes; i++) {
        if (memcmp(data + i, "\0\0\1", 3) != 0)
            continue;
        size_t end = i + 3;
        while (end < bytes && !(end + 3 <= bytes && memcmp(data + end, "\0\0\1", 3) == 0))
            end++;
        while (end > i + 3 && data[end - 1] == 0)
            end--;
        mr_depacketizer_add_set(made, data + i + 3, end - i - 3);
    }
    return made;
}

static void check_facts(const mr_rtsp_facts *facts, const AVCodecContext *decoder, const char *name) {
    const mr_reader_params params = {.uri = "rtsp://camera/x", .max_pixels = 1 << 24};
    mr_survey found, wanted = {0};
    ENDED_BY(mr_media_unref) mr_media *media;
    assert_int_equal(mr_rtsp_describe(&media, &found, facts, &params), MR_OK);
    const AVCodecParameters *codec = media->codec;
    mr_probe_survey(decoder, media, &wanted);
    print_message("%s: %dx%d, %d references, %.2f pictures a second\n", name, codec->width, codec->height,
                  found.references, found.rate);
    assert_int_equal(codec->width, decoder->width);
    assert_int_equal(codec->height, decoder->height);
    assert_int_equal(codec->format, decoder->pix_fmt);
    assert_int_equal(codec->color_space, decoder->colorspace);
    assert_int_equal(codec->color_range, decoder->color_range);
    assert_int_equal(codec->profile, decoder->profile);
    assert_int_equal(found.set.width.min, decoder->width);
    assert_int_equal(found.set.height.max, decoder->height);
    assert_memory_equal(&found.set.look, &wanted.set.look, sizeof wanted.set.look);
    assert_int_equal(found.references, wanted.references);
    assert_true(found.rate > av_q2d(decoder->framerate) - 0.01 && found.rate < av_q2d(decoder->framerate) + 0.01);
    assert_string_equal(media->path, "rtsp://camera/x");
}

CLIP_TEST(test_sets_alone) {
    for (size_t i = 0; i < sizeof clips / sizeof *clips; i++) {
        char path[CLIP_PATH], arguments[512];
        FREED uint8_t *data;
        size_t bytes = 0, sets_bytes;
        uint64_t version;
        snprintf(arguments, sizeof arguments, SOURCE "%s", clips[i].size, clips[i].rate, clips[i].options);
        clip_make(path, clips[i].name, arguments);
        ENDED_BY(avcodec_free_context) AVCodecContext *decoder = decode_all(path, &data, &bytes);
        ENDED_BY(mr_depacketizer_destroy) mr_depacketizer *units = sets_of(clips[i].codec, data, bytes);
        const uint8_t *sets = mr_depacketizer_sets(units, &sets_bytes, &version);
        assert_true(sets_bytes > 10);
        mr_rtsp_facts facts = {.codec = clips[i].codec, .sets = sets, .sets_bytes = sets_bytes};
        check_facts(&facts, decoder, clips[i].name);
        facts.unit = data; /* also with a picture */
        facts.unit_bytes = bytes;
        check_facts(&facts, decoder, clips[i].name);
    }
}

/* If the sets are invalid, facts stay unknown. */
TEST(test_sets_that_are_wrong) {
    const mr_reader_params params = {.uri = "rtsp://camera/x", .max_pixels = 1 << 20};
    uint8_t junk[200 + 64] = {0};
    for (int codec = MR_RTP_H264; codec <= MR_RTP_JPEG; codec++)
        for (int i = 0; i < 300; i++) {
            mr_survey found;
            ENDED_BY(mr_media_unref) mr_media *media;
            for (size_t k = 0; k < 200; k++)
                junk[k] = (uint8_t)(rand() >> 7);
            memcpy(junk, codec == MR_RTP_H264 ? "\0\0\0\1\x67" : "\0\0\0\1\x42\1", 6);
            memcpy(junk + 100, codec == MR_RTP_H264 ? "\0\0\0\1\x68" : "\0\0\0\1\x44\1", 6);
            const mr_rtsp_facts facts = {.codec = (mr_rtp_codec)codec, .sets = junk, .sets_bytes = 200};
            assert_int_equal(mr_rtsp_describe(&media, &found, &facts, &params), MR_OK);
            assert_true(found.mean_pixels <= 1 << 21);
        }
}

int main(void) {
    av_log_set_level(AV_LOG_QUIET);
    return run_suite(NULL, NULL);
}
