/* millrace must query a GPU decoder's capabilities before it decodes. The driver and decoder library are fakes. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "engine/device/probe/gpu.h"
#include "millrace/status.h"
#include "stages/decode/device/decode_caps.h"
#include "stages/decode/device/nvdec.h"
#include "stages/media/media_cuda.h"
#include "tests/support/suite.h"

static void *libraries[2];

/* The decoder library finds the fake driver as it would find the real one. */
static int open_libraries(void **state) {
    libraries[0] = dlopen(FAKE_CUDA, RTLD_NOW | RTLD_GLOBAL);
    libraries[1] = dlopen(FAKE_NVCUVID, RTLD_NOW | RTLD_LOCAL);
    return libraries[0] && libraries[1] ? 0 : -1;
}

static int close_libraries(void **state) {
    return dlclose(libraries[1]) | dlclose(libraries[0]);
}

static mr_format_set stream(const char *codec, mr_pixel pixel, int64_t width, int64_t height) {
    return (mr_format_set){.payload = MR_PAYLOAD_PACKET, .codec = codec, .pixels = pixel ? MR_IN_SET(pixel) : 0,
                           .width = {width, width}, .height = {height, height}};
}

TEST(all_that_it_takes_is_known) {
    ENDED_BY(mr_gpu_access_close) mr_gpu_access access;
    mr_gpu_decoders decoders;
    mr_gpu_access_open(&access);
    assert_int_equal(mr_gpu_read_decoders(&access, 0, &decoders), MR_OK);
    const mr_gpu_decoder *decoder = mr_gpu_decoder_for(&decoders, "h264", MR_GPU_420, 8);
    assert_true(decoder->supported);
    assert_int_equal(decoder->min_width, 48);
    assert_int_equal(decoder->max_height, 4096);
    assert_int_equal(decoder->max_macroblocks, 65536);
    assert_false(mr_gpu_decoder_for(&decoders, "h264", MR_GPU_420, 10)->supported);
    assert_false(mr_gpu_decoder_for(&decoders, "h264", MR_GPU_444, 8)->supported);
    assert_true(mr_gpu_decoder_for(&decoders, "hevc", MR_GPU_444, 10)->supported);
    assert_false(mr_gpu_decoder_for(&decoders, "hevc", MR_GPU_420, 12)->supported);
    assert_false(mr_gpu_decoder_for(&decoders, "hevc", MR_GPU_420, 16)->supported);
    assert_null(mr_gpu_decoder_for(&decoders, "prores", MR_GPU_422, 10));
    assert_int_equal(mr_gpu_read_decoders(&access, 1, &decoders), MR_OK);
    assert_false(mr_gpu_decoder_for(&decoders, "h264", MR_GPU_420, 8)->supported);
    assert_true(mr_gpu_decoder_for(&decoders, "wmv3", MR_GPU_420, 8)->supported);
    assert_int_equal(mr_gpu_read_decoders(&access, 2, &decoders), MR_ERROR_UNAVAILABLE);
}

TEST(unsupported_streams_are_reported) {
    static const struct {
        const char *device, *codec;
        mr_pixel pixel;
        int64_t width, height;
        const char *said; /* NULL: supported, or not known */
    } cases[] = {
        {"cuda:0", "h264", MR_PIXEL_I420, 1920, 1080, NULL},
        {"cuda:0", "h264", MR_PIXEL_I420, 4096, 4096, NULL},
        {"cuda:0", "h264", MR_PIXEL_I420, 7680, 4320,
         "NVDEC of cuda:0 takes h264 of at most 4096x4096, and it is 7680x4320"},
        {"cuda:0", "h264", MR_PIXEL_I420, 32, 32, "NVDEC of cuda:0 takes h264 of at least 48x16, and it is 32x32"},
        {"cuda:0", "h264", MR_PIXEL_I422_10, 1920, 1080, "NVDEC of cuda:0 does not take h264 4:2:2 of 10 bits"},
        {"cuda:0", "hevc", MR_PIXEL_I420_10, 3840, 2160, NULL},
        {"cuda:0", "hevc", MR_PIXEL_I420_12, 3840, 2160, "NVDEC of cuda:0 does not take hevc 4:2:0 of 12 bits"},
        {"cuda:0", "hevc", MR_PIXEL_GRAY8, 640, 480, "NVDEC of cuda:0 does not take hevc monochrome of 8 bits"},
        {"cuda:0", "av1", MR_PIXEL_I420, 640, 480, "NVDEC of cuda:0 does not take av1 4:2:0 of 8 bits"},
        {"cuda:0", "h264", MR_PIXEL_I440, 640, 480, "NVDEC of cuda:0 does not take h264 I440 of 8 bits"},
        {"cuda:1", "h264", MR_PIXEL_I420, 640, 480, "NVDEC of cuda:1 does not take h264 4:2:0 of 8 bits"},
        {"cuda:GPU-a1a1a1a1-a1a1-a1a1-a1a1-a1a1a1a1a1a1", "h264", MR_PIXEL_I420, 640, 480,
         "NVDEC of cuda:GPU-a1a1a1a1-a1a1-a1a1-a1a1-a1a1a1a1a1a1 does not take h264 4:2:0 of 8 bits"},
        {"cuda:1", "wmv3", MR_PIXEL_I420, 640, 480, NULL},
        {"cuda:0", "h264", MR_PIXEL_I420, 0, 0, NULL},
        {"cuda:0", "h264", MR_PIXEL_ANY, 640, 480, NULL},
        {"cuda:0", NULL, MR_PIXEL_I420, 640, 480, NULL},
        {"cuda:2", "h264", MR_PIXEL_I422, 640, 480, NULL},
        {"sim:0", "h264", MR_PIXEL_I422, 640, 480, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const mr_format_set set = stream(cases[i].codec, cases[i].pixel, cases[i].width, cases[i].height);
        assert_int_equal(mr_decode_caps_check(cases[i].device, &set), cases[i].said ? MR_ERROR_UNAVAILABLE : MR_OK);
        if (cases[i].said)
            assert_string_equal(mr_message(), cases[i].said);
    }
    mr_format_set either = stream("h264", MR_PIXEL_I420, 640, 480);
    either.pixels |= MR_IN_SET(MR_PIXEL_I444);
    assert_int_equal(mr_decode_caps_check("cuda:0", &either), MR_OK);
}

/* Software decodes instead, unless the pipeline requires the hardware. */
static void expect_way(mr_hardware hardware, const mr_format_set *set, const char *device, int status, bool otherwise,
                       const char *said) {
    bool answered = false;
    assert_int_equal(mr_nvdec_check_input(hardware, set, device, &answered), status);
    assert_true(!status || answered == otherwise);
    if (status)
        assert_string_equal(mr_message(), said);
}

TEST(software_takes_over_where_it_may) {
    const mr_format_set plain = stream("h264", MR_PIXEL_I420, 640, 480),
                        deep = stream("h264", MR_PIXEL_I420_10, 640, 480),
                        av1 = stream("av1", MR_PIXEL_I420, 640, 480),
                        odd = stream("prores", MR_PIXEL_I422_10, 640, 480);
    expect_way(MR_HARDWARE_AUTO, &plain, "cpu", MR_OK, false, NULL);
    expect_way(MR_HARDWARE_AUTO, &deep, "sim:0", MR_OK, false, NULL);
    expect_way(MR_HARDWARE_OFF, &deep, "cuda:0", MR_OK, false, NULL);
    expect_way(MR_HARDWARE_REQUIRE, &plain, "cuda:0", MR_OK, false, NULL);
    expect_way(MR_HARDWARE_REQUIRE, &deep, "cuda:0", MR_ERROR_UNAVAILABLE, false,
               "hardware: require is not possible: NVDEC of cuda:0 does not take h264 4:2:0 of 10 bits; write "
               "hardware: auto");
    expect_way(MR_HARDWARE_AUTO, &odd, "cuda:0", MR_ERROR_CONFIG, true,
               "decoded by software (prores): NVDEC does not take prores");
    if (mr_nvdec_check()) {
        print_message("not all of it: %s\n", mr_message());
        return;
    }
    expect_way(MR_HARDWARE_AUTO, &plain, "cuda:0", MR_OK, false, NULL);
    expect_way(MR_HARDWARE_AUTO, &av1, "cuda:0", MR_ERROR_UNAVAILABLE, true,
               "decoded by software (libdav1d): NVDEC of cuda:0 does not take av1 4:2:0 of 8 bits");
    expect_way(MR_HARDWARE_AUTO, &deep, "cuda:0", MR_ERROR_UNAVAILABLE, true,
               "decoded by software (h264): NVDEC of cuda:0 does not take h264 4:2:0 of 10 bits");
}

RUN_TESTS(open_libraries, close_libraries)
