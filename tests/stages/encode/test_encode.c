/* encode: libavcodec decodes the packets, and the test compares the pictures with the input. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libavcodec/avcodec.h>
#include <libswscale/swscale.h>
#include <math.h>

#include "stages/encode/encode_codec.h"
#include "stages/media/media_codec.h"
#include "stages/media/picture_format.h"
#include "tests/support/feeds.h"
#include "tests/support/opened.h"
#include "tests/support/suite.h"

enum { COUNT = 14 };

/* The packets from one source, in order of arrival. */
static struct packets {
    size_t count;
    mr_media *media;
    AVPacket *packet[FEED_FRAMES];
    uint64_t seq[FEED_FRAMES];
} got[2];

static void arrive(void *context, const char *source, const mr_frame *frame) {
    struct packets *to = &got[source[0] == 'b'];
    assert_true(to->count < FEED_FRAMES);
    assert_int_equal(frame->format.payload, MR_PAYLOAD_PACKET);
    if (!to->media)
        to->media = mr_media_ref(frame->media);
    assert_ptr_equal(frame->media, to->media);
    /* Copies the packet, since a kept frame counts as in flight. */
    AVPacket *lent = av_packet_alloc();
    assert_int_equal(mr_packet_lend(lent, frame), 0);
    to->seq[to->count] = frame->identity.seq;
    assert_int_equal(av_packet_make_writable(lent), 0);
    to->packet[to->count++] = lent;
}

static void forget(void) {
    for (int s = 0; s < 2; s++) {
        for (size_t i = 0; i < got[s].count; i++)
            av_packet_free(&got[s].packet[i]);
        mr_media_unref(&got[s].media);
    }
    memset(got, 0, sizeof got);
}

/* Encodes all feeds with these options. */
static mr_pipeline *encode(const char *options) {
    char text[256];
    snprintf(text, sizeof text, "  it: {type: encode, input: sources.*, %s}\n", options);
    mr_pipeline *pipeline = feeds_open(mr_stage_types(), text);
    assert_int_equal(mr_pipeline_subscribe(pipeline, "sink", arrive, NULL), MR_OK);
    feeds_push(pipeline);
    feeds_ledger ledger = feeds_account(pipeline);
    uint64_t pushed = 0;
    for (size_t i = 0; i < feed_count; i++)
        pushed += feeds[i].count;
    assert_int_equal(ledger.delivered, pushed);
    return pipeline;
}

/* ---- the reference ----------------------------------------------------------------------------------------------- */

static AVFrame *decoded[FEED_FRAMES];

static void drop_decoded(void) {
    for (int i = 0; i < FEED_FRAMES; i++)
        av_frame_free(&decoded[i]);
}

static size_t decode(const struct packets *from) {
    const AVCodecParameters *stream = from->media->codec;
    AVCodecContext *codec = avcodec_alloc_context3(avcodec_find_decoder(stream->codec_id));
    size_t count = 0;
    assert_true(codec && avcodec_parameters_to_context(codec, stream) >= 0);
    codec->thread_count = 1;
    assert_int_equal(avcodec_open2(codec, NULL, NULL), 0);
    for (size_t i = 0; i <= from->count; i++) {
        assert_int_equal(avcodec_send_packet(codec, i < from->count ? from->packet[i] : NULL), 0);
        for (;;) {
            AVFrame *picture = av_frame_alloc();
            if (avcodec_receive_frame(codec, picture) < 0) {
                av_frame_free(&picture);
                break;
            }
            assert_true(count < FEED_FRAMES);
            decoded[count++] = picture;
        }
    }
    avcodec_free_context(&codec);
    return count;
}

/* JPEG uses full range. */
static double full_range(double luma) {
    return fmin(255, fmax(0, (luma - 16) * 255 / 219));
}

static double mean_square(const uint8_t *a, ptrdiff_t a_stride, const uint8_t *b, ptrdiff_t b_stride, size_t row,
                          int rows, bool widened) {
    double sum = 0;
    for (int y = 0; y < rows; y++)
        for (size_t x = 0; x < row; x++) {
            double given = a[y * a_stride + (ptrdiff_t)x];
            double d = (widened ? full_range(given) : given) - b[y * b_stride + (ptrdiff_t)x];
            sum += d * d;
        }
    return sum / ((double)row * rows);
}

/* Returns dB for the visible part, in the feed's layout. A picture padded to an even size is larger. */
static double psnr(const feed *f, size_t frame, const AVFrame *picture) {
    mr_picture given = feed_picture(f, frame);
    uint8_t *rgb[4] = {malloc((size_t)picture->width * (size_t)picture->height * 4)};
    int strides[4] = {picture->width * 4};
    struct SwsContext *scaler = sws_getContext(picture->width, picture->height, picture->format, picture->width,
                                               picture->height, AV_PIX_FMT_RGB24,
                                               SWS_BILINEAR | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT, NULL, NULL, NULL);
    assert_true(rgb[0] && scaler);
    double square;
    if (mr_pixel_describe(f->format.pixel)->rgb) {
        sws_setColorspaceDetails(scaler, sws_getCoefficients((int)picture->colorspace),
                                 picture->color_range == AVCOL_RANGE_JPEG, sws_getCoefficients(SWS_CS_DEFAULT), 1, 0,
                                 1 << 16, 1 << 16);
        sws_scale(scaler, (const uint8_t *const *)picture->data, picture->linesize, 0, picture->height, rgb, strides);
        square = mean_square(given.data[0], given.stride[0], rgb[0], strides[0], (size_t)FEED_WIDTH * 3, FEED_HEIGHT,
                             false);
    } else {
        square = mean_square(given.data[0], given.stride[0], picture->data[0], picture->linesize[0], FEED_WIDTH,
                             FEED_HEIGHT,
                             picture->color_range == AVCOL_RANGE_JPEG && f->format.pixel != MR_PIXEL_GRAY8);
    }
    sws_freeContext(scaler);
    free(rgb[0]);
    return square > 0 ? 10 * log10(255 * 255 / square) : 99;
}

/* Draws moving waves, which suit encoders better than feed_fill's noise. */
static void smooth(feed *f) {
    const mr_pixel_info *info = mr_pixel_describe(f->format.pixel);
    for (size_t i = 0; i < f->count; i++) {
        mr_picture picture = feed_picture(f, i);
        for (mr_row row = {0}; mr_next_row(&f->format, &row);)
            for (int x = 0; x < (int)row.bytes; x++) {
                int pixel = info->rgb ? x / 3 : x, channel = info->rgb ? x % 3 : row.plane;
                double wave = 60 * sin((pixel + 2 * (double)i) / 9 + channel) + 40 * cos((row.y + (double)i) / 7);
                ((uint8_t *)picture.data[row.plane])[row.y * picture.stride[row.plane] + x] =
                    (uint8_t)lround(126 + wave);
            }
    }
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static void end(mr_pipeline **pipeline) {
    drop_decoded();
    forget();
    feeds_free();
    mr_pipeline_destroy(pipeline);
}

/* Compares all visible planes bit for bit. NV12 comes back as 4:2:0, and gray as luma. */
static void assert_same_planes(const feed *f, size_t frame, const AVFrame *picture) {
    mr_picture given = feed_picture(f, frame);
    const mr_pixel_info *info = mr_pixel_describe(f->format.pixel);
    size_t sample = info->depth > 8 ? 2 : 1;
    for (int c = 0; c < info->components; c++) {
        const mr_component *component = &info->component[c];
        int width = c && info->chroma_w ? (FEED_WIDTH + 1) / 2 : FEED_WIDTH;
        int height = c && info->chroma_h ? (FEED_HEIGHT + 1) / 2 : FEED_HEIGHT;
        for (int y = 0; y < height; y++)
            for (int x = 0; x < width; x++) {
                const uint8_t *a = given.data[component->plane] + y * given.stride[component->plane] +
                                   x * component->step + component->offset;
                const uint8_t *b = picture->data[c] + y * picture->linesize[c] + (ptrdiff_t)((size_t)x * sample);
                assert_memory_equal(a, b, sample);
            }
    }
}

TEST(lossless_pictures_come_back) {
    static const mr_pixel pixels[] = {MR_PIXEL_I420, MR_PIXEL_I422, MR_PIXEL_I444, MR_PIXEL_I420_10, MR_PIXEL_NV12,
                                      MR_PIXEL_GRAY8};
    for (int codec = 0; codec < MR_CODEC_MJPEG; codec++)
        for (size_t p = 0; p < sizeof pixels / sizeof *pixels; p++) {
            char options[128];
            feed_fill(&feeds[0], pixels[p], COUNT);
            feed_count = 1;
            snprintf(options, sizeof options, "codec: %s, lossless: true, latency: %s, preset: fastest",
                     mr_encoder_facts_of(codec).name, p % 2 ? "low" : "normal");
            ENDED_BY(end) mr_pipeline *pipeline = encode(options);
            assert_int_equal(decode(&got[0]), COUNT);
            for (size_t i = 0; i < COUNT; i++)
                assert_same_planes(&feeds[0], i, decoded[i]);
        }
}

/* The bounds are two dB below measured values. */
TEST(pictures_look_alike) {
    static const mr_pixel pixels[] = {MR_PIXEL_I420, MR_PIXEL_RGB24, MR_PIXEL_GRAY8, MR_PIXEL_NV12};
    static const double least[MR_CODECS][4] = {
        {46, 41.5, 46, 46}, {48, 44, 48, 48}, {50, 43.5, 50, 50}, {48, 41.5, 48, 48}, {45, 43, 47, 45}};
    for (int codec = 0; codec < MR_CODECS; codec++)
        for (size_t p = 0; p < sizeof pixels / sizeof *pixels; p++) {
            char options[128];
            feed_fill(&feeds[0], pixels[p], COUNT);
            feed_count = 1;
            smooth(&feeds[0]);
            snprintf(options, sizeof options, "codec: %s, latency: %s, quality: %d",
                     mr_encoder_facts_of(codec).name, p % 2 ? "low" : "normal", codec == MR_CODEC_MJPEG ? 2 : 12);
            ENDED_BY(end) mr_pipeline *pipeline = encode(options);
            assert_int_equal(decode(&got[0]), COUNT);
            for (size_t i = 0; i < COUNT; i++)
                assert_true(psnr(&feeds[0], i, decoded[i]) >= least[codec][p]);
        }
}

/* Each picture gives one packet, numbered in decode order, with all times and the requested key frames. */
TEST(packets_have_times_and_keys) {
    static const char *const keys[] = {"5", "200ms"};
    for (int codec = 0; codec < MR_CODECS; codec++)
        for (int latency = 0; latency < MR_LATENCIES; latency++) {
            char options[128];
            int64_t last_dts = INT64_MIN, sum = 0;
            feed_fill(&feeds[0], MR_PIXEL_I420, COUNT);
            feed_count = 1;
            snprintf(options, sizeof options, "codec: %s, latency: %s, preset: medium, keyframes: %s",
                     mr_encoder_facts_of(codec).name, latency ? "normal" : "low", keys[latency]);
            ENDED_BY(end) mr_pipeline *pipeline = encode(options);
            assert_int_equal(got[0].count, COUNT);
            bool reordered = false;
            for (size_t i = 0; i < COUNT; i++) {
                const AVPacket *packet = got[0].packet[i];
                assert_int_equal(got[0].seq[i], i);
                assert_true(packet->dts > last_dts && packet->dts <= packet->pts);
                last_dts = packet->dts;
                sum += packet->pts;
                reordered |= packet->pts != feeds[0].pts_ns[i];
                if (packet->pts % 200000000 == 0)
                    assert_true(packet->flags & AV_PKT_FLAG_KEY);
            }
            assert_int_equal(sum, INT64_C(40000000) * COUNT * (COUNT - 1) / 2);
            assert_int_equal(reordered, latency && codec <= MR_CODEC_HEVC);
            assert_int_equal(decode(&got[0]), COUNT);
            for (size_t i = 0; i < COUNT; i++)
                assert_int_equal(decoded[i]->pts, feeds[0].pts_ns[i]);
        }
}

/* An encoder's output must not depend on other sources or workers. */
TEST(sources_have_encoders_of_their_own) {
    feed_fill(&feeds[0], MR_PIXEL_I420, COUNT);
    feed_fill(&feeds[1], MR_PIXEL_RGB24, 1);
    feed_count = 2;
    ENDED_BY(end) mr_pipeline *pipeline = encode("codec: h264, quality: 0, latency: normal");
    assert_int_equal(decode(&got[1]), 1);
    drop_decoded();
    assert_int_equal(decode(&got[0]), COUNT);
    for (size_t i = 0; i < COUNT; i++)
        assert_true(psnr(&feeds[0], i, decoded[i]) > 50);
}

RUN_TESTS(NULL, NULL)
