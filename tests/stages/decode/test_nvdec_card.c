/* NVDEC with `hardware: require`. Pictures must match software's, for each codec that it supports, with 1, 4 and 16
 * streams, and on two devices. Runs on a GPU, or on a device that the host plays. The played NVDEC (fakes/nvcuvid.c)
 * gives numbered pictures and can refuse, so all but the pixels can be tested without a GPU.
 *
 * Software's pictures are compared with MD5 sums from the ffmpeg program. That program makes the clips in the clip
 * folder (MILLRACE_CLIPS, else test-clips), and the sums are in NAME.MACHINE.md5 beside them, as pictures of MPEG-2
 * depend on the kind of processor:
 *
 *     test_nvdec_card --make     makes both, for a machine with a GPU but without that program */
#include <dlfcn.h>
#include <limits.h>
#include <libavutil/md5.h>
#include <libavutil/mem.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "engine/device/device.h"
#include "engine/device/open/open.h"
#include "millrace/millrace.h"
#include "stages/decode/device/decode_caps.h"
#include "stages/decode/device/nvdec.h"
#include "stages/media/media_cuda.h"
#include "tests/support/clips.h"
#include "tests/support/fake_library.h"
#include "tests/support/opened.h"
#include "tests/support/suite.h"

#ifdef MILLRACE_CUDA_HOST
enum { PLAYED = true };
#else
enum { PLAYED = false };
#endif

enum { WIDTH = 176, HEIGHT = 144, FRAMES = 24, MOST_STREAMS = 16, PICTURE = WIDTH * HEIGHT * 3 };
#define PATTERN "-f lavfi -i testsrc2=size=176x144:rate=25 -frames:v 24 "
#define SVT_AV1 "-c:v libsvtav1 -preset 12 "
#define X264 "-c:v libx264 -preset veryfast -pix_fmt yuv420p "

typedef struct clip {
    const char *name, *codec;
    mr_pixel pixel;
    bool exact; /* the standard defines each bit; otherwise decoders may round differently */
    const char *arguments;
} clip;

static const clip clips[] = {
    {"card-h264.mp4", "h264", MR_PIXEL_I420, true, PATTERN X264 "-bf 2 -g 10"},
    {"card-h264-refs.mp4", "h264", MR_PIXEL_I420, true, PATTERN X264 "-preset veryslow -refs 16 -bf 3 -g 24"},
    {"card-h264-fields.mp4", "h264", MR_PIXEL_I420, true,
     PATTERN X264 "-bf 2 -g 12 -flags +ilme+ildct -x264opts tff=1"},
    {"card-hevc.mp4", "hevc", MR_PIXEL_I420, true,
     PATTERN "-c:v libx265 -x265-params log-level=error -pix_fmt yuv420p"},
    {"card-hevc-10.mp4", "hevc", MR_PIXEL_I420_10, true,
     PATTERN "-c:v libx265 -x265-params log-level=error -pix_fmt yuv420p10le"},
    {"card-vp8.webm", "vp8", MR_PIXEL_I420, true,
     PATTERN "-c:v libvpx -deadline realtime -cpu-used 8 -pix_fmt yuv420p"},
    {"card-vp9.webm", "vp9", MR_PIXEL_I420, true,
     PATTERN "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -pix_fmt yuv420p"},
    {"card-vp9-10.webm", "vp9", MR_PIXEL_I420_10, true,
     PATTERN "-c:v libvpx-vp9 -profile:v 2 -deadline realtime -cpu-used 8 -pix_fmt yuv420p10le"},
    {"card-vp9-shown.webm", "vp9", MR_PIXEL_I420, true,
     PATTERN "-c:v libvpx-vp9 -cpu-used 8 -b:v 200k -auto-alt-ref 6 -lag-in-frames 25"},
    {"card-av1.mkv", "av1", MR_PIXEL_I420, true, PATTERN SVT_AV1 "-pix_fmt yuv420p"},
    {"card-av1-10.mp4", "av1", MR_PIXEL_I420_10, true, PATTERN SVT_AV1 "-pix_fmt yuv420p10le"},
    {"card-av1-colours.mkv", "av1", MR_PIXEL_I420, true,
     PATTERN SVT_AV1 "-pix_fmt yuv420p -color_primaries bt2020 -colorspace bt709 -color_trc bt709 -color_range pc"},
    {"card-av1-444.mkv", "av1", MR_PIXEL_I444, true,
     PATTERN "-c:v libaom-av1 -cpu-used 8 -usage realtime -pix_fmt yuv444p"},
    {"card-mpeg2.mkv", "mpeg2video", MR_PIXEL_I420, false, PATTERN "-c:v mpeg2video -q:v 2 -bf 2 -g 12"},
    {"card-mpeg4.mp4", "mpeg4", MR_PIXEL_I420, false, PATTERN "-c:v mpeg4 -q:v 2 -bf 2 -g 12"},
    {"card-mjpeg.avi", "mjpeg", MR_PIXEL_I420, false, PATTERN "-c:v mjpeg -q:v 2 -pix_fmt yuvj420p"},
};
enum { CLIPS = sizeof clips / sizeof clips[0], PLAIN = 0, MANY_REFERENCES = 1, IN_TWO_PASSES = 8, AV1 = 9,
       AV1_444 = 12 };

/* ---- clips and their sums ---------------------------------------------------------------------------------------- */

static char paths[CLIPS][CLIP_PATH];
static char sums[CLIPS][FRAMES][CLIP_MD5];

static void name_sums(size_t c, char path[CLIP_PATH + 80]) {
    struct utsname machine;
    assert_int_equal(uname(&machine), 0);
    snprintf(path, CLIP_PATH + 80, "%s.%.65s.md5", paths[c], machine.machine);
}

static bool read_sums(size_t c) {
    char path[CLIP_PATH + 80];
    name_sums(c, path);
    FILE *file = fopen(path, "r");
    int count = 0;
    while (file && count < FRAMES && fscanf(file, "%32s", sums[c][count]) == 1)
        count++;
    if (file)
        fclose(file);
    return count == FRAMES;
}

static void write_sums(size_t c) {
    static clip_frames frames;
    char path[CLIP_PATH + 80], part[CLIP_PATH + 112];
    clip_reference(paths[c], &frames);
    assert_int_equal(frames.count, FRAMES);
    name_sums(c, path);
    snprintf(part, sizeof part, "%s.%d", path, (int)getpid());
    FILE *file = fopen(part, "w");
    assert_non_null(file);
    for (int i = 0; i < FRAMES; i++)
        fprintf(file, "%s\n", frames.md5[i]);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(rename(part, path), 0);
}

/* If clips and sums exist, ffmpeg is not needed. */
static int get_clips(void **state) {
    for (size_t c = 0; c < CLIPS; c++) {
        clip_path(paths[c], clips[c].name);
        if (access(paths[c], F_OK) == 0 && read_sums(c))
            continue;
        if (!clips_available())
            return 0;
        (c == IN_TWO_PASSES ? clip_make_twice : clip_make)(paths[c], clips[c].name, clips[c].arguments);
        write_sums(c);
        assert_true(read_sums(c));
    }
    return 0;
}

static void need_sums(void) {
    if (!sums[CLIPS - 1][0][0])
        skip();
}
#define SUMS_TEST(name) TEST_THAT(name, need_sums)

/* ---- running ----------------------------------------------------------------------------------------------------- */

typedef struct stream_out {
    int count;
    size_t bytes;
    uint8_t picture[FRAMES][PICTURE]; /* planes in sequence: Y, U, V; 10-bit samples use the lower bits in 16 */
    bool by_hardware;
    mr_format format;
} stream_out;

static stream_out *outs; /* one for each stream in a run */
static bool in_order;

static void put(stream_out *out, int *at, const uint8_t *row, int step, int samples, int bytes, bool upper) {
    uint8_t *to = out->picture[out->count] + *at;
    for (int i = 0; i < samples; i++) {
        unsigned value = bytes == 1 ? row[i * step] : ((const uint16_t *)(const void *)row)[i * step];
        value >>= upper ? 6 : 0;
        to[i * bytes] = (uint8_t)value;
        if (bytes == 2)
            to[i * bytes + 1] = (uint8_t)(value >> 8);
    }
    *at += samples * bytes;
}

static void take(void *context, const char *source, const mr_frame *frame) {
    stream_out *out = &outs[atoi(source + 1)];
    mr_pixel pixel = frame->format.pixel;
    bool paired = pixel == MR_PIXEL_NV12 || pixel == MR_PIXEL_P010, upper = pixel == MR_PIXEL_P010;
    int bytes = pixel == MR_PIXEL_P010 || pixel == MR_PIXEL_I420_10 ? 2 : 1;
    int at = 0, halved = pixel == MR_PIXEL_I444 ? 1 : 2;
    assert_true(out->count < FRAMES);
    assert_true(paired || pixel == MR_PIXEL_I420 || pixel == MR_PIXEL_I420_10 || pixel == MR_PIXEL_I444);
    assert_int_equal(frame->format.width, WIDTH);
    assert_int_equal(frame->format.height, HEIGHT);
    in_order &= frame->identity.seq == (uint64_t)out->count;
    for (int part = 0; part < 3; part++) {
        const mr_plane *plane = &frame->plane[paired && part == 2 ? 1 : part];
        for (int y = 0; y < HEIGHT / (part ? halved : 1); y++)
            put(out, &at, plane->data + y * plane->stride + (paired && part == 2 ? bytes : 0), part && paired ? 2 : 1,
                WIDTH / (part ? halved : 1), bytes, upper);
    }
    out->bytes = (size_t)at;
    out->by_hardware = paired;
    out->format = frame->format;
    out->count++;
}

typedef struct run {
    size_t clip;
    int streams;
    const char *devices[2]; /* streams alternate; the second may be NULL */
    const char *hardware;
    const char *path; /* replaces the clip's path */
    int pictures;     /* 0: FRAMES */
} run;

static void write_run(const run *r, char *text, size_t bytes) {
    char absolute[PATH_MAX];
    assert_non_null(realpath(r->path ? r->path : paths[r->clip], absolute));
    size_t used = (size_t)snprintf(text, bytes, "version: 1\npipeline: p\nsources:\n");
    for (int i = 0; i < r->streams; i++)
        used += (size_t)snprintf(text + used, bytes - used, "  s%d: {uri: \"%s\"}\n", i, absolute);
    used += (size_t)snprintf(text + used, bytes - used, "stages:\n");
    int places = r->devices[1] ? 2 : 1;
    for (int d = 0; d < places; d++) {
        used += (size_t)snprintf(text + used, bytes - used, "  decode%d: {type: decode, input: [", d);
        for (int i = d; i < r->streams; i += places)
            used += (size_t)snprintf(text + used, bytes - used, "%ss%d", i == d ? "" : ", ", i);
        used += (size_t)snprintf(text + used, bytes - used, "], device: '%s', hardware: %s}\n", r->devices[d],
                                 r->hardware);
    }
    snprintf(text + used, bytes - used, "  out: {type: callback, input: [decode0%s]}\n", places > 1 ? ", decode1" : "");
}

/* Returns the status of mr_pipeline_wait. */
static int decode(const run *r) {
    static char text[16 * 1024];
    mr_summary *summary;
    write_run(r, text, sizeof text);
    memset(outs, 0, MOST_STREAMS * sizeof *outs);
    in_order = true;
    const mr_pipeline_params params = {.types = mr_stage_types(), .path = "card.yaml", .text = text, .workers = 4};
    mr_pipeline *pipeline = opened(&params);
    assert_int_equal(mr_pipeline_subscribe(pipeline, "out", take, NULL), MR_OK);
    int status = run_opened(pipeline, &summary);
    mr_summary_destroy(&summary);
    mr_pipeline_destroy(&pipeline);
    assert_true(in_order);
    return status;
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

static void expect_sums(size_t c, const stream_out *out) {
    for (int i = 0; i < out->count; i++) {
        struct AVMD5 *md5 = av_md5_alloc();
        uint8_t sum[16];
        char text[CLIP_MD5];
        av_md5_init(md5);
        av_md5_update(md5, out->picture[i], out->bytes);
        av_md5_final(md5, sum);
        av_free(md5);
        for (int b = 0; b < 16; b++)
            snprintf(text + 2 * b, 3, "%02x", sum[b]);
        if (strcmp(text, sums[c][i]) != 0)
            fail_msg("%s: picture %d has the MD5 %s, not %s", clips[c].name, i, text, sums[c][i]);
    }
}

/* In the fake's pictures, luma samples are the number in decode order, and chroma samples are 100 and 200. */
static void expect_numbered(const stream_out *out) {
    bool seen[FRAMES] = {false};
    size_t step = out->bytes > WIDTH * HEIGHT * 3 / 2 ? 2 : 1;
    for (int i = 0; i < out->count; i++) {
        const uint8_t *picture = out->picture[i];
        unsigned number = step == 1 ? picture[0] : (unsigned)(picture[0] | picture[1] << 8) >> 2;
        assert_true(number < FRAMES && !seen[number]);
        seen[number] = true;
        for (size_t s = step; s < WIDTH * HEIGHT * step; s++)
            assert_int_equal(picture[s], picture[s % step]);
        for (size_t s = WIDTH * HEIGHT * step; s < out->bytes; s += step) {
            unsigned value = step == 1 ? picture[s] : (unsigned)(picture[s] | picture[s + 1] << 8) >> 2;
            assert_int_equal(value, s < WIDTH * HEIGHT * step * 5 / 4 ? 100 : 200);
        }
    }
}

/* Standards that leave rounding open limit the error, but successive pictures accumulate some. Noise below this bound
 * is invisible; any other mistake exceeds it. */
static void expect_alike(const stream_out *out, const stream_out *software) {
    enum { LEAST_DB = 40 };
    for (int i = 0; i < out->count; i++) {
        double sum = 0;
        for (size_t b = 0; b < out->bytes; b++)
            sum += pow((double)out->picture[i][b] - (double)software->picture[i][b], 2);
        double db = sum > 0 ? 10 * log10(255.0 * 255.0 * (double)out->bytes / sum) : 99;
        if (db < LEAST_DB)
            fail_msg("picture %d differs: %.1f dB", i, db);
    }
}

static stream_out *software; /* one clip's pictures from the processors */

static void decode_by_software(size_t c) {
    assert_int_equal(decode(&(run){.clip = c, .streams = 1, .devices = {"cpu"}, .hardware = "off"}), MR_OK);
    assert_int_equal(outs[0].count, FRAMES);
    assert_false(outs[0].by_hardware);
    expect_sums(c, &outs[0]);
    *software = outs[0];
}

/* Checks that each stream in the run is that clip, complete. */
static void expect_hardware(const run *r) {
    for (int i = 0; i < r->streams; i++) {
        assert_int_equal(outs[i].count, r->pictures ? r->pictures : FRAMES);
        assert_true(outs[i].by_hardware);
        assert_int_equal(outs[i].bytes, software->bytes);
        assert_int_equal(outs[i].format.matrix, software->format.matrix);
        assert_int_equal(outs[i].format.range, software->format.range);
        assert_int_equal(outs[i].format.siting, software->format.siting);
        if (PLAYED)
            expect_numbered(&outs[i]);
        else if (clips[r->clip].exact)
            expect_sums(r->clip, &outs[i]);
        else
            expect_alike(&outs[i], software);
    }
}

/* ---- devices on this machine ------------------------------------------------------------------------------------- */

static bool have(const char *device) {
    uint64_t bytes;
    if (mr_device_probe(device, &bytes) == MR_OK && mr_nvdec_check() == MR_OK)
        return true;
    print_message("skipped: %s\n", mr_message());
    return false;
}

/* Returns whether NVDEC supports the clip on this device. If not, prints the reason. */
static bool takes(const char *device, size_t c) {
    const mr_format_set set = {.payload = MR_PAYLOAD_PACKET,
                               .codec = clips[c].codec,
                               .pixels = MR_IN_SET(clips[c].pixel),
                               .width = {WIDTH, WIDTH},
                               .height = {HEIGHT, HEIGHT}};
    bool yes = mr_nvdec_suits(clips[c].codec, &set) == MR_OK && mr_decode_caps_check(device, &set) == MR_OK;
    if (!yes)
        print_message("%s is not decoded there: %s\n", clips[c].name, mr_message());
    return yes;
}

/* Returns the second device if there are two, else the first one. */
static const char *other_device(void) {
    uint64_t bytes;
    return mr_device_probe("cuda:1", &bytes) == MR_OK && takes("cuda:1", PLAIN) ? "cuda:1" : "cuda:0";
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

/* Needs no GPU. */
SUMS_TEST(software_gives_the_pictures_of_ffmpeg) {
    for (size_t c = 0; c < CLIPS; c++)
        decode_by_software(c);
}

SUMS_TEST(each_codec_gives_the_pictures_of_software) {
    if (!have("cuda:0"))
        skip();
    int taken = 0;
    for (size_t c = 0; c < CLIPS; c++) {
        if (!takes("cuda:0", c))
            continue;
        const run r = {.clip = c, .streams = 1, .devices = {"cuda:0"}, .hardware = "require"};
        decode_by_software(c);
        assert_int_equal(decode(&r), MR_OK);
        expect_hardware(&r);
        print_message("%s: %d pictures of NVDEC\n", clips[c].name, outs[0].count);
        taken++;
    }
    assert_true(taken > 0);
}

SUMS_TEST(many_streams_at_once) {
    static const int counts[] = {1, 4, 16};
    if (!have("cuda:0"))
        skip();
    decode_by_software(PLAIN);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        const run r = {.clip = PLAIN, .streams = counts[i], .devices = {"cuda:0"}, .hardware = "require"};
        assert_int_equal(decode(&r), MR_OK);
        expect_hardware(&r);
    }
}

SUMS_TEST(two_devices_at_once) {
    if (!have("cuda:0"))
        skip();
    const run r = {.clip = PLAIN, .streams = 6, .devices = {"cuda:0", other_device()}, .hardware = "require"};
    print_message("on %s and %s\n", r.devices[0], r.devices[1]);
    decode_by_software(PLAIN);
    assert_int_equal(decode(&r), MR_OK);
    expect_hardware(&r);
}

#ifdef MILLRACE_CUDA_HOST
/* ---- the fake ---------------------------------------------------------------------------------------------------- */

#define NVDEC "libnvcuvid.so.1"

static void expect_software(size_t c) {
    assert_int_equal(outs[0].count, FRAMES);
    assert_false(outs[0].by_hardware);
    expect_sums(c, &outs[0]);
}

/* With 16 reference frames, the stream needs more than 20 surfaces if 8 are held, fewer if 2 are. */
SUMS_TEST(fewer_surfaces_are_tried_before_software) {
    static const char *const hardware[] = {"require", "auto"};
    setenv("FAKE_SURFACES", "26", 1);
    decode_by_software(MANY_REFERENCES);
    for (size_t i = 0; i < 2; i++) {
        const run r = {.clip = MANY_REFERENCES, .streams = 1, .devices = {"cuda:0"}, .hardware = hardware[i]};
        int refused = ask_fake(NVDEC, "fake_nvdec_refused");
        assert_int_equal(decode(&r), MR_OK);
        expect_hardware(&r);
        assert_int_equal(ask_fake(NVDEC, "fake_nvdec_refused"), refused + 1);
        assert_in_range(ask_fake(NVDEC, "fake_nvdec_surfaces"), 20, 26);
    }
    unsetenv("FAKE_SURFACES");
}

SUMS_TEST(software_takes_over_where_no_surfaces_are_had) {
    static const size_t which[] = {PLAIN, AV1};
    setenv("FAKE_SURFACES", "4", 1);
    for (size_t i = 0; i < sizeof which / sizeof which[0]; i++) {
        run r = {.clip = which[i], .streams = 1, .devices = {"cuda:0"}, .hardware = "auto"};
        int refused = ask_fake(NVDEC, "fake_nvdec_refused");
        assert_int_equal(decode(&r), MR_OK);
        assert_int_equal(ask_fake(NVDEC, "fake_nvdec_refused"), refused + 2);
        expect_software(r.clip);
        r.hardware = "require";
        assert_int_equal(decode(&r), MR_ERROR_UNAVAILABLE);
        assert_int_equal(outs[0].count, 0);
    }
    unsetenv("FAKE_SURFACES");
}

/* libavcodec's AV1 decoder has no software fallback, so libdav1d must take over. */
SUMS_TEST(another_decoder_does_streams_that_nvdec_does_not_support) {
    assert_int_equal(decode(&(run){.clip = AV1_444, .streams = 2, .devices = {"cuda:0"}, .hardware = "auto"}), MR_OK);
    expect_software(AV1_444);
}

/* ---- a stream without its reordering depth ----------------------------------------------------------------------- */

typedef struct bits {
    const uint8_t *data;
    size_t at;
} bits;

static unsigned take_bits(bits *b, int count) {
    unsigned value = 0;
    for (; count > 0; count--, b->at++)
        value = value << 1 | (b->data[b->at / 8] >> (7 - b->at % 8) & 1);
    return value;
}

static unsigned take_golomb(bits *b) {
    int zeros = 0;
    while (take_bits(b, 1) == 0)
        zeros++;
    return zeros ? (1u << zeros) - 1 + take_bits(b, zeros) : 0;
}

/* Returns the bit for usability information in x264's sequence parameter set, counted from the profile (H.264,
 * 7.3.2.1.1). The set has profile High, 4:2:0, 8 bits, no scaling lists, and order type 0. */
static size_t find_vui(const uint8_t *set) {
    bits b = {set, 0};
    assert_int_equal(take_bits(&b, 8), 100);
    take_bits(&b, 16);
    take_golomb(&b);
    assert_int_equal(take_golomb(&b), 1);
    take_golomb(&b);
    take_golomb(&b);
    assert_int_equal(take_bits(&b, 2), 0);
    take_golomb(&b);
    assert_int_equal(take_golomb(&b), 0);
    take_golomb(&b);
    assert_int_equal(take_golomb(&b), 16);
    take_bits(&b, 1);
    take_golomb(&b);
    take_golomb(&b);
    assert_int_equal(take_bits(&b, 1), 1);
    take_bits(&b, 1);
    assert_int_equal(take_bits(&b, 1), 0);
    return b.at;
}

/* Removes usability information from the set. FFmpeg then assumes the largest reordering depth. */
static size_t take_vui_out(uint8_t *stream, size_t bytes) {
    static const uint8_t start[] = {0, 0, 0, 1, 0x67};
    uint8_t *found = memmem(stream, bytes, start, sizeof start);
    assert_non_null(found);
    uint8_t *set = found + sizeof start, *next = memmem(set, bytes - (size_t)(set - stream), "\0\0\1", 3);
    assert_non_null(next);
    if (next[-1] == 0)
        next--;
    size_t flag = find_vui(set), last = flag + 1;
    set[flag / 8] &= (uint8_t)~(0x80 >> flag % 8);
    set[last / 8] = (uint8_t)((set[last / 8] & ~(0xff >> last % 8)) | 0x80 >> last % 8);
    memmove(set + last / 8 + 1, next, bytes - (size_t)(next - stream));
    return bytes - (size_t)(next - (set + last / 8 + 1));
}

static void make_unsure(char path[CLIP_PATH]) {
    static uint8_t stream[1 << 20];
    clip_path(path, "card-unsure.h264");
    clip_shell("ffmpeg -nostdin -v error -y -i '%s' -c copy -bsf:v h264_mp4toannexb '%s'", paths[MANY_REFERENCES],
               path);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    size_t bytes = fread(stream, 1, sizeof stream, file);
    assert_true(bytes > 0 && bytes < sizeof stream);
    bytes = take_vui_out(stream, bytes);
    rewind(file);
    assert_int_equal(fwrite(stream, 1, bytes, file), bytes);
    assert_int_equal(ftruncate(fileno(file), (off_t)bytes), 0);
    assert_int_equal(fclose(file), 0);
}

/* 16 reference frames and 15 to reorder: with FFmpeg's extra surfaces, more than a decoder can have. */
SUMS_TEST(no_more_surfaces_are_asked_for_than_a_decoder_may_have) {
    char path[CLIP_PATH];
    need_clips();
    make_unsure(path);
    decode_by_software(MANY_REFERENCES);
    run r = {.streams = 1, .devices = {"cpu"}, .hardware = "off", .path = path};
    /* If FFmpeg must guess the order, it leaves some pictures out. */
    assert_int_equal(decode(&r), MR_OK);
    r = (run){.streams = 1, .devices = {"cuda:0"}, .hardware = "require", .path = path, .pictures = outs[0].count};
    assert_true(r.pictures > FRAMES / 2);
    int refused = ask_fake(NVDEC, "fake_nvdec_refused");
    assert_int_equal(decode(&r), MR_OK);
    expect_hardware(&r);
    assert_int_equal(ask_fake(NVDEC, "fake_nvdec_refused"), refused);
    assert_int_equal(ask_fake(NVDEC, "fake_nvdec_surfaces"), 32);
}

TEST(nothing_is_left_open) {
    assert_int_equal(ask_fake(NVDEC, "fake_nvdec_open"), 0);
    assert_int_equal(ask_fake(NVDEC, "fake_nvdec_mapped"), 0);
}

#endif

static int prepare(void **state) {
    outs = calloc(MOST_STREAMS, sizeof *outs);
    software = calloc(1, sizeof *software);
#ifdef MILLRACE_CUDA_HOST
    setenv("FAKE_ALL", "1", 1);
    open_fake(FAKE_CUDA, RTLD_GLOBAL);
    open_fake(FAKE_NVCUVID, RTLD_LOCAL);
#endif
    return outs && software ? get_clips(state) : -1;
}

static int finish(void **state) {
    free(outs);
    free(software);
    return 0;
}

/* --make: only makes the clips. */
int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--make") == 0)
        return get_clips(NULL) || !sums[CLIPS - 1][0][0];
    return run_suite(prepare, finish);
}
