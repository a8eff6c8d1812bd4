/* encode on a CUDA device. libavcodec decodes NVENC's packets. The pictures must look like the input, for each
 * supported codec and layout, with one source and several. Runs on a GPU, or on a device that the host plays. The
 * played NVENC (fakes/nvencode.c) uses libx264 and libx265, so all but the hardware can be tested without a GPU. */
#include <libavcodec/avcodec.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/device/device.h"
#include "engine/device/open/open.h"
#include "stages/media/media_codec.h"
#include "stages/media/media_cuda.h"
#include "tests/support/fake_library.h"
#include "tests/support/opened.h"
#include "tests/support/suite.h"

#ifdef MILLRACE_CUDA_HOST
enum { PLAYED = true };
#else
enum { PLAYED = false };
#endif

/* The height is odd, so the device must repeat the last row. NVENC takes no pictures that are much smaller. */
enum { WIDTH = 320, HEIGHT = 181, FRAMES = 24, MOST_SOURCES = 4 };

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* One source's input luma, in 8 bits. */
static uint8_t (*given)[HEIGHT][WIDTH];
static int given_count;

typedef struct stream_out {
    int count, keys;
    mr_media *media;
    AVPacket *packet[FRAMES];
} stream_out;
static stream_out outs[MOST_SOURCES];

static uint8_t luma(const uint8_t *row, int x, int depth, bool upper) {
    if (depth == 8)
        return row[x];
    return (uint8_t)(((const uint16_t *)(const void *)row)[x] >> (upper ? 8 : 2));
}

static void keep_picture(void *context, const char *source, const mr_frame *frame) {
    bool upper = frame->format.pixel == MR_PIXEL_P010;
    int depth = mr_pixel_describe(frame->format.pixel)->depth;
    if (strcmp(source, "s0") != 0)
        return;
    assert_true(given_count < FRAMES);
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++)
            given[given_count][y][x] = luma(frame->plane[0].data + y * frame->plane[0].stride, x, depth, upper);
    given_count++;
}

static void keep_packet(void *context, const char *source, const mr_frame *frame) {
    stream_out *out = &outs[atoi(source + 1)];
    AVPacket *packet = av_packet_alloc();
    assert_true(out->count < FRAMES);
    assert_int_equal(mr_packet_lend(packet, frame), 0);
    assert_int_equal(av_packet_make_writable(packet), 0);
    assert_int_equal(frame->identity.seq, out->count);
    if (!out->media)
        out->media = mr_media_ref(frame->media);
    out->keys += (frame->flags & MR_FRAME_KEY) != 0;
    out->packet[out->count++] = packet;
}

static void forget(void) {
    for (int s = 0; s < MOST_SOURCES; s++) {
        for (int i = 0; i < outs[s].count; i++)
            av_packet_free(&outs[s].packet[i]);
        mr_media_unref(&outs[s].media);
    }
    memset(outs, 0, sizeof outs);
    given_count = 0;
}

typedef struct run {
    const char *layout;  /* FFmpeg's name; NULL: yuv420p */
    const char *options; /* for encode */
    int sources;
    const char *device;  /* NULL: cuda:0 */
} run;

/* Returns the status of mr_pipeline_wait. */
static int encode(const run *r) {
    char text[2048];
    mr_summary *summary;
    size_t used = (size_t)snprintf(text, sizeof text, "version: 1\npipeline: p\nsources:\n");
    for (int i = 0; i < r->sources; i++)
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "  s%d: {uri: \"lavfi:testsrc2=size=%dx%d:rate=25,format=%s,crop=%d:%d:0:0:exact=1,"
                                 "trim=end_frame=%d\"}\n", i, WIDTH, HEIGHT + 1, r->layout ? r->layout : "yuv420p",
                                 WIDTH, HEIGHT, FRAMES);
    snprintf(text + used, sizeof text - used,
             "stages:\n  decode: {input: sources.*}\n  pictures: {type: callback, input: decode}\n"
             "  encode: {input: decode, device: '%s', keyframes: 10, %s%s}\n"
             "  packets: {type: callback, input: encode}\n", r->device ? r->device : "cuda:0",
             strstr(r->options, "quality") ? "" : "quality: 12, ", r->options);
    forget();
    const mr_pipeline_params params = {.types = mr_stage_types(), .path = "card.yaml", .text = text, .workers = 4};
    mr_pipeline *pipeline = opened(&params);
    assert_int_equal(mr_pipeline_subscribe(pipeline, "pictures", keep_picture, NULL), MR_OK);
    assert_int_equal(mr_pipeline_subscribe(pipeline, "packets", keep_packet, NULL), MR_OK);
    int status = run_opened(pipeline, &summary);
    mr_summary_destroy(&summary);
    mr_pipeline_destroy(&pipeline);
    assert_int_equal(given_count, FRAMES);
    return status;
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

/* Returns dB. A picture padded to an even size can be a row higher. */
static double psnr(int number, const AVFrame *picture) {
    bool deep = picture->format == AV_PIX_FMT_YUV420P10;
    double sum = 0;
    assert_int_equal(picture->width, WIDTH);
    assert_in_range(picture->height, HEIGHT, HEIGHT + 1);
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++)
            sum += pow((double)given[number][y][x] -
                       luma(picture->data[0] + y * picture->linesize[0], x, deep ? 10 : 8, false), 2);
    return sum > 0 ? 10 * log10(255.0 * 255.0 * WIDTH * HEIGHT / sum) : 99;
}

/* The repeated row is close to the row above it. */
static void expect_repeated_row(const AVFrame *picture) {
    double sum = 0;
    if (picture->height == HEIGHT || picture->format == AV_PIX_FMT_YUV420P10)
        return;
    const uint8_t *last = picture->data[0] + (ptrdiff_t)HEIGHT * picture->linesize[0];
    const uint8_t *above = last - picture->linesize[0];
    for (int x = 0; x < WIDTH; x++)
        sum += pow((double)last[x] - above[x], 2);
    assert_true(sum / WIDTH < 40);
}

/* Checks that all pictures came in order, each like the input. */
static void expect_alike(const stream_out *out, double least_db) {
    const AVCodecParameters *stream = out->media->codec;
    AVCodecContext *codec = avcodec_alloc_context3(avcodec_find_decoder(stream->codec_id));
    AVFrame *picture = av_frame_alloc();
    int count = 0;
    assert_int_equal(out->count, FRAMES);
    assert_int_equal(out->keys, (FRAMES + 9) / 10);
    assert_true(codec && picture && avcodec_parameters_to_context(codec, stream) >= 0);
    codec->thread_count = 1;
    assert_int_equal(avcodec_open2(codec, NULL, NULL), 0);
    for (int i = 0; i <= FRAMES; i++) {
        assert_int_equal(avcodec_send_packet(codec, i < FRAMES ? out->packet[i] : NULL), 0);
        for (; avcodec_receive_frame(codec, picture) >= 0; count++) {
            assert_true(count < FRAMES);
            assert_int_equal(picture->format, stream->format);
            double db = psnr(count, picture);
            if (db < least_db)
                fail_msg("picture %d differs: %.1f dB", count, db);
            expect_repeated_row(picture);
        }
    }
    assert_int_equal(count, FRAMES);
    av_frame_free(&picture);
    avcodec_free_context(&codec);
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static bool have_device(void) {
    uint64_t bytes;
    if (PLAYED ? mr_nvenc_check() == MR_OK : mr_device_probe("cuda:0", &bytes) == MR_OK)
        return true;
    print_message("skipped: %s\n", mr_message());
    return false;
}

/* GPUs that only compute have no NVENC. Any other failure counts. */
static bool have_nvenc(void) {
    bool there = have_device() && mr_nvenc_check() == MR_OK;
    int status = there ? encode(&(run){.options = "hardware: require", .sources = 1}) : MR_OK;
    if (there && status == MR_OK)
        return true;
    if (there && !strstr(mr_message(), "this GPU has no NVENC"))
        fail_msg("%s", mr_message());
    print_message("skipped: %s\n", mr_message());
    return false;
}

/* Any encoder at quality 12 is far above this. A misplaced plane, row or picture is far below. */
enum { LEAST_DB = 36 };

TEST(pictures_of_each_codec_and_layout_look_alike) {
    static const struct {
        const char *codec, *layout;
        bool always; /* on every NVENC */
    } cases[] = {{"h264", "yuv420p", true},   {"h264", "nv12", true},     {"h264", "yuv444p", false},
                 {"hevc", "yuv420p", true},
                 {"hevc", "nv12", true}, {"hevc", "p010le", false}, {"hevc", "yuv444p", false}};
    if (!have_nvenc())
        skip();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int latency = 0; latency < 2; latency++) {
            char options[128];
            snprintf(options, sizeof options, "codec: %s, latency: %s, hardware: require", cases[i].codec,
                     latency ? "normal" : "low");
            int status = encode(&(run){.layout = cases[i].layout, .options = options, .sources = 1});
            if (status && !cases[i].always && !PLAYED) {
                print_message("%s of %s is not encoded there\n", cases[i].codec, cases[i].layout);
                continue;
            }
            assert_int_equal(status, MR_OK);
            expect_alike(&outs[0], LEAST_DB);
            print_message("%s of %s, %s: %d packets\n", cases[i].codec, cases[i].layout, latency ? "normal" : "low",
                          outs[0].count);
        }
}

/* Device pictures are copied to the host, including layouts that NVENC does not take. */
TEST(software_takes_what_nvenc_does_not) {
    static const run runs[] = {{.options = "hardware: off", .sources = 1},
                               {.options = "hardware: off, latency: normal", .sources = 1},
                               {.layout = "nv12", .options = "codec: hevc, hardware: off", .sources = 1},
                               {.options = "codec: vp9", .sources = 1},
                               {.layout = "yuv422p", .options = "codec: h264", .sources = 1}};
    if (!have_device())
        skip();
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        assert_int_equal(encode(&runs[i]), MR_OK);
        expect_alike(&outs[0], LEAST_DB);
    }
}

TEST(several_sources_at_once) {
    if (!have_nvenc())
        skip();
    assert_int_equal(encode(&(run){.options = "hardware: auto", .sources = MOST_SOURCES}), MR_OK);
    for (int s = 0; s < MOST_SOURCES; s++)
        expect_alike(&outs[s], LEAST_DB);
}

#ifdef MILLRACE_CUDA_HOST
/* ---- the fake ---------------------------------------------------------------------------------------------------- */

#define NVENC "libnvidia-encode.so.1"

static void *nvenc;

static const char *told(void) {
    const char *(*function)(void) = NULL;
    *(void **)&function = dlsym(nvenc, "fake_nvenc_told");
    assert_non_null(function);
    return function();
}

/* Beyond the driver's limit, a source uses software or fails. Other sources must continue. */
TEST(sessions_that_the_driver_refuses) {
    if (!have_device())
        skip();
    setenv("FAKE_SESSIONS", "2", 1);
    int before = ask_fake(NVENC, "fake_nvenc_opened"), pictures = ask_fake(NVENC, "fake_nvenc_encoded");
    assert_int_equal(encode(&(run){.options = "hardware: auto", .sources = MOST_SOURCES}), MR_OK);
    for (int s = 0; s < MOST_SOURCES; s++)
        expect_alike(&outs[s], LEAST_DB);
    assert_true(ask_fake(NVENC, "fake_nvenc_opened") >= before + 2);
    assert_true(ask_fake(NVENC, "fake_nvenc_encoded") >= pictures + 2 * FRAMES);
    setenv("FAKE_SESSIONS", "0", 1);
    assert_int_equal(encode(&(run){.options = "hardware: auto", .sources = 1}), MR_OK);
    expect_alike(&outs[0], LEAST_DB);
    assert_int_equal(encode(&(run){.options = "hardware: require", .sources = 1}), MR_ERROR_UNAVAILABLE);
    assert_int_equal(outs[0].count, 0);
    expect_words(mr_message(), "no room for another session");
    unsetenv("FAKE_SESSIONS");
}

TEST(a_gpu_without_nvenc) {
    if (!have_device())
        skip();
    setenv("FAKE_NO_NVENC", "1", 1);
    assert_int_equal(encode(&(run){.options = "hardware: auto", .sources = 1}), MR_OK);
    expect_alike(&outs[0], LEAST_DB);
    assert_int_equal(encode(&(run){.options = "hardware: require", .sources = 1}), MR_ERROR_UNAVAILABLE);
    expect_words(mr_message(), "this GPU has no NVENC");
    unsetenv("FAKE_NO_NVENC");
}

/* Each option reaches the driver as the right setting. */
TEST(options_reach_the_driver) {
    static const struct {
        const char *options, *told;
    } cases[] = {
        {"quality: 30", "h264 p3 ull vbr cq=30 qp=0 bits=0 most=0 buffer=0 320x182"},
        {"quality: 22.5, preset: slow, latency: normal", "h264 p6 hq vbr cq=22.5 qp=0 bits=0 most=0 buffer=0 320x182"},
        {"quality: 0, preset: fastest", "h264 p1 ull constqp cq=0 qp=0 bits=0 most=0 buffer=0 320x182"},
        {"quality: auto", "h264 p3 ull vbr cq=23 qp=0 bits=0 most=0 buffer=0 320x182"},
        {"codec: hevc, quality: auto, preset: medium", "hevc p4 ull vbr cq=26 qp=0 bits=0 most=0 buffer=0 320x182"},
        {"quality: auto, bitrate: 1Mbit/s",
         "h264 p3 ull vbr cq=0 qp=0 bits=1000000 most=1000000 buffer=1000000 320x182"},
        {"quality: auto, bitrate: 1Mbit/s, latency: normal",
         "h264 p3 hq vbr cq=0 qp=0 bits=1000000 most=0 buffer=2000000 320x182"},
        {"quality: auto, lossless: true", "h264 p3 lossless constqp cq=0 qp=0 bits=0 most=0 buffer=0 320x182"},
    };
    if (!have_device())
        skip();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char options[160];
        snprintf(options, sizeof options, "%s, hardware: require", cases[i].options);
        assert_int_equal(encode(&(run){.options = options, .sources = 1}), MR_OK);
        assert_string_equal(told(), cases[i].told);
        assert_int_equal(outs[0].count, FRAMES);
    }
    expect_alike(&outs[0], 99);
}

TEST(nothing_is_left_open) {
    if (!have_device())
        skip();
    assert_int_equal(ask_fake(NVENC, "fake_nvenc_open"), 0);
    assert_int_equal(ask_fake(NVENC, "fake_nvenc_kept"), 0);
}

#endif

static int prepare(void **state) {
    given = calloc(FRAMES, sizeof *given);
#ifdef FAKE_NVENCODE
    open_fake(FAKE_CUDA, RTLD_GLOBAL);
    nvenc = open_fake(FAKE_NVENCODE, RTLD_LOCAL);
#endif
    return given ? 0 : -1;
}

static int finish(void **state) {
    forget();
    free(given);
    return 0;
}

RUN_TESTS(prepare, finish)
