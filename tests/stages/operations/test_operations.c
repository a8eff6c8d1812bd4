/* The operations that `millrace bench ops` measures: the bytes and arithmetic that each declares, beside counts of
 * another kind; the memory that it touches; and running them on every device.
 *
 * Arithmetic is counted here as it is done: sums are written out with functions that count, or the row operations of
 * preprocess report how many samples they weigh. Bytes are those of the shapes, written out. */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/classical/classical_pixel.h"
#include "kernels/preprocess/choice.h"
#include "kernels/preprocess/preprocess.h"
#include "millrace/operations.h"
#include "millrace/status.h"
#include "tests/support/on_device.h"
#include "tests/support/sanitized.h"
#include "tests/support/suite.h"

/* ---- arithmetic that counts ------------------------------------------------------------------------------------- */

static double counted;

static double add(double a, double b) {
    counted++;
    return a + b;
}
static double subtract(double a, double b) {
    counted++;
    return a - b;
}
static double multiply(double a, double b) {
    counted++;
    return a * b;
}
static double divide(double a, double b) {
    counted++;
    return a / b;
}
static bool less(double a, double b) {
    counted++;
    return a < b;
}
static double function_of(double (*function)(double), double a) {
    counted++;
    return function(a);
}
static double sample(int x, int y) {
    return (x * 7 + y * 13) % 251;
}

static void dot(int count, double start) {
    double sum = start;
    for (int i = 0; i < count; i++)
        sum = add(sum, multiply(i, 2));
}

static void count_gemm(void) {
    dot(1024, 0);
    counted *= 1024.0 * 1024;
}
static void count_triad(void) {
    add(1, multiply(3, 2));
    counted *= 16777216;
}
static void count_read(void) {
    add(1, 2);
    counted *= 16777216;
}
static void count_products(void) {
    add(add(1, multiply(3, 2)), multiply(-5, 2));
    counted *= 192.0 * 65536;
}
static void count_linear(int batch) {
    dot(1280, 1);
    counted *= 1000.0 * batch;
}
static void count_linear_1(void) {
    count_linear(1);
}
static void count_linear_8(void) {
    count_linear(8);
}
static void count_linear_64(void) {
    count_linear(64);
}
static void count_top_k(void) {
    double sum = 0, best = -INFINITY;
    for (int i = 0; i < 1000; i++) {
        best = less(best, i) ? i : best;
        sum = add(sum, function_of(exp, subtract(i, best)));
    }
    for (int i = 0; i < 5; i++)
        less(divide(function_of(exp, subtract(best - i, best)), sum), 0.5);
    counted *= 32;
}

static void count_rectify(void) {
    for (int i = 0; i < 128 * 32; i++)
        less(0, i);
}

static void count_votes(void) {
    double votes = 0;
    for (int i = 0; i < 10000; i++)
        less(votes, i);
    for (int i = 0; i < 5; i++)
        votes = add(votes, 1);
    for (int i = 0; i < 1000; i++)
        divide(i, votes);
    counted *= 8;
}

static void count_normalize(void) {
    double sum = 0;
    for (int i = 0; i < 1280; i++)
        sum = add(sum, multiply(i, i));
    double length = function_of(sqrt, sum);
    double factor = divide(1, less(length, 1e-12) ? 1e-12 : length);
    for (int i = 0; i < 1280; i++)
        multiply(i, factor);
    counted *= 32;
}

static void count_pool(void) {
    double sum = 1;
    for (int i = 1; i < 49; i++)
        sum = add(sum, i);
    multiply(sum, 1.0 / 49);
    counted *= 1280.0 * 8;
}

static void count_rgb_histogram(void) {
    static double bins[96];
    for (int i = 0; i < 224 * 224 * 3; i++)
        bins[i % 96] = add(bins[i % 96], 1);
    for (int i = 0; i < 96; i++)
        divide(bins[i], 224 * 224);
    counted *= 24;
}

static void count_joint_histogram(void) {
    static double boxes[512];
    for (int i = 0; i < 224 * 224; i++)
        boxes[i % 512] = add(boxes[i % 512], 1);
    for (int i = 0; i < 512; i++)
        divide(boxes[i], 224 * 224);
    counted *= 24;
}

/* The least that a pixel needs: its red is the largest, and its hue not below 0. */
static void count_one_hsv(double r, double g, double b) {
    double most = less(r, g) ? g : r, least = less(r, g) ? r : g;
    most = less(most, b) ? b : most;
    least = less(b, least) ? b : least;
    double spread = subtract(most, least);
    counted++; /* which channel is the largest */
    double sixths = subtract(g, b);
    double angle = add(multiply(sixths, 3), 0.5), saturation = add(multiply(spread, 3), 0.5);
    function_of(floor, angle);
    function_of(floor, saturation);
    less(angle, 0);
}

static void count_hsv_histogram(void) {
    count_rgb_histogram();
    double before = counted;
    counted = 0;
    count_one_hsv(200, 100, 50);
    counted = before + counted * 224 * 224 * 24;
}

static double turn(double dx, double dy) {
    static const double factor[8] = {-0.0026, 0.0139, -0.0356, 0.0614, -0.0885, 0.127, -0.2122, 0.6366};
    double ax = function_of(fabs, dx), ay = function_of(fabs, dy);
    bool steep = less(ax, ay);
    double most = steep ? ay : ax, least = steep ? ax : ay, q = divide(least, less(most, 1e-30) ? 1e-30 : most);
    double square = multiply(q, q), t = factor[0];
    for (int i = 1; i < 8; i++)
        t = add(multiply(t, square), factor[i]);
    t = multiply(t, q);
    less(ax, ay);
    less(dx, 0);
    less(dy, 0);
    return t;
}

static void count_one_vote(int x, int y) {
    double dx = subtract(sample(x + 1, y), sample(x - 1, y)), dy = subtract(sample(x, y + 1), sample(x, y - 1));
    double length = function_of(sqrt, add(multiply(dx, dx), multiply(dy, dy)));
    double position = subtract(multiply(turn(dx, dy), 4.5), 0.5), low = function_of(floor, position);
    double rest = subtract(position, low);
    less(low, 0);
    less(9, low);
    multiply(length, subtract(1, rest));
    multiply(length, rest);
}

/* Only cells that a pixel is near get votes of it. */
static void count_one_block(void) {
    for (int y = 0; y < 16; y++)
        for (int x = 0; x < 16; x++)
            for (int cell = 0; cell < 4; cell++)
                if (mr_hog_nearness(x, cell % 2, 8) > 0 && mr_hog_nearness(y, cell / 2, 8) > 0) {
                    add(0, multiply(1, 2));
                    add(0, multiply(1, 2));
                }
    for (int i = 0; i < 36; i++) {
        add(0, multiply(i, i));
        less(multiply(i, 2), 0.2);
        add(0, multiply(i, i));
        multiply(i, 2);
    }
}

static void count_hog(void) {
    for (int y = 0; y < 128; y++)
        for (int x = 0; x < 64; x++)
            count_one_vote(x, y);
    for (int block = 0; block < 7 * 15; block++)
        count_one_block();
    counted *= 24;
}

static void count_phash(void) {
    for (int k = 0; k < 8; k++)
        for (int x = 0; x < 32; x++)
            dot(32, 0);
    for (int i = 0; i < 64; i++)
        dot(32, 0);
    for (int i = 0; i < 64; i++)
        less(i, 32);
    counted *= 24;
}

static void count_sharpness(void) {
    double sum = 0, squares = 0;
    for (int y = 0; y < 1080; y++)
        for (int x = 0; x < 1920; x++) {
            double around = add(add(add(sample(x, y - 1), sample(x - 1, y)), sample(x + 1, y)), sample(x, y + 1));
            double value = subtract(around, multiply(4, sample(x, y)));
            sum = add(sum, value);
            squares = add(squares, multiply(value, value));
        }
    double mean = divide(sum, 1920 * 1080);
    double variance = subtract(divide(squares, 1920 * 1080), multiply(mean, mean));
    multiply(variance, multiply(1, 1));
}

static void count_change(void) {
    double changed = 0;
    for (int i = 0; i < 640 * 360; i++)
        changed = add(changed, less(12, function_of(fabs, subtract(i % 251, i % 241))));
}

/* ---- preprocess: its row operations report ---------------------------------------------------------------------- */

static const mr_preprocess_rows *rows;

static void count_vertical8(int16_t *dst, const uint8_t *src, ptrdiff_t stride, const int16_t *weights, int taps,
                            int width, int shift, mr_prefetch *ahead) {
    counted += 2.0 * taps * width;
    rows->vertical8(dst, src, stride, weights, taps, width, shift, ahead);
}

static void count_vertical16(int16_t *dst, const uint8_t *src, ptrdiff_t stride, const int16_t *weights, int taps,
                             int width, int shift, mr_word word, mr_prefetch *ahead) {
    counted += 2.0 * taps * width;
    rows->vertical16(dst, src, stride, weights, taps, width, shift, word, ahead);
}

static void count_horizontal(int16_t *dst, ptrdiff_t dst_stride, const int16_t *src, ptrdiff_t src_stride, int lines,
                             const mr_filter *filter, int limit, mr_prefetch *ahead) {
    for (int i = 0; i < filter->count; i++)
        counted += 2.0 * filter->length[i] * lines;
    rows->horizontal(dst, dst_stride, src, src_stride, lines, filter, limit, ahead);
}

/* One run on a picture of zeros, and `conversion` for each pixel of the result. */
static double count_preprocess(mr_pixel pixel, mr_preprocess_params params, double conversion) {
    const mr_format source = {.payload = MR_PAYLOAD_PICTURE, .pixel = pixel, .width = 1920, .height = 1080};
    const mr_format output = mr_preprocess_output(&params);
    mr_preprocess *plan = NULL;
    rows = mr_preprocess_rows_get();
    mr_preprocess_rows counting = *rows;
    counting.vertical8 = count_vertical8;
    counting.vertical16 = count_vertical16;
    counting.horizontal = count_horizontal;
    assert_int_equal(mr_preprocess_create(&plan, &params, &source), MR_OK);
    uint8_t *zeros = calloc(1, 1920 * 1080 * 3), *dst = calloc(1, mr_tensor_bytes(&output));
    void *scratch = aligned_alloc(64, (mr_preprocess_scratch_bytes(plan) + 63) / 64 * 64);
    mr_picture picture = {{0}, {0}};
    for (int p = 0; p < mr_pixel_describe(pixel)->planes; p++) {
        picture.data[p] = zeros;
        picture.stride[p] = (ptrdiff_t)mr_plane_row_bytes(pixel, p, 1920);
    }
    counted = 0;
    mr_preprocess_run(plan, &counting, &picture, dst, scratch);
    free(scratch);
    free(dst);
    free(zeros);
    mr_preprocess_destroy(&plan);
    return counted + conversion * params.width * params.height;
}

enum { YUV = 10 + 12, RGB = 6 + 12, GRAY = 2 + 4 };

static mr_preprocess_params stretched(mr_interpolation interpolation, bool antialias) {
    return (mr_preprocess_params){.width = 224, .height = 224, .crop_fraction = 1, .interpolation = interpolation,
                                  .antialias = antialias, .std = {1, 1, 1}, .dtype = MR_DTYPE_F32,
                                  .layout = MR_LAYOUT_NCHW};
}

static double count_smooth(mr_pixel pixel, double conversion) {
    return count_preprocess(pixel, stretched(MR_BILINEAR, true), conversion);
}
static void count_i420(void) {
    counted = count_smooth(MR_PIXEL_I420, YUV);
}
static void count_nv12(void) {
    counted = count_smooth(MR_PIXEL_NV12, YUV);
}
static void count_p010(void) {
    counted = count_smooth(MR_PIXEL_P010, YUV);
}
static void count_rgb24(void) {
    counted = count_smooth(MR_PIXEL_RGB24, RGB);
}
static void count_bicubic(void) {
    counted = count_preprocess(MR_PIXEL_I420, stretched(MR_BICUBIC, true), YUV);
}
static void count_area(void) {
    counted = count_preprocess(MR_PIXEL_I420, stretched(MR_AREA, false), YUV);
}
static void count_nearest(void) {
    counted = count_preprocess(MR_PIXEL_I420, stretched(MR_NEAREST, false), YUV);
}
static void count_gray(void) {
    mr_preprocess_params params = stretched(MR_BILINEAR, true);
    params.gray = true;
    counted = count_preprocess(MR_PIXEL_I420, params, GRAY);
}
/* The picture fills 640x360 of the square, and nothing is converted around it. */
static void count_boxed(void) {
    mr_preprocess_params params = stretched(MR_BILINEAR, true);
    params.width = params.height = 640;
    params.fit = MR_FIT_LETTERBOX;
    counted = count_preprocess(MR_PIXEL_NV12, params, YUV * 360.0 / 640);
}

/* ---- what each declares ----------------------------------------------------------------------------------------- */

#define I420_BYTES (1920 * 1080 * 3 / 2)
#define TENSOR_BYTES (3 * 224 * 224 * 4)
#define MIB64 67108864.0

static void count_none(void) {
}

/* `whole`: every byte of its memory is read or written, padding apart. */
static const struct {
    const char *name;
    double bytes;
    void (*count)(void);
    bool whole;
} wanted[] = {
    {"read", MIB64 + 4, count_read, true},
    {"triad", 3 * MIB64, count_triad, true},
    {"copy", 2 * MIB64, count_none, true},
    {"gemm", 3 * 1024 * 1024 * 4, count_gemm, true},
    {"products", 2 * 192 * 4, count_products, true},
    {"upload", MIB64, count_none, true},
    {"download", MIB64, count_none, true},
    {"launch", 0, count_none, false},
    {"preprocess-i420", I420_BYTES + TENSOR_BYTES, count_i420, true},
    {"preprocess-nv12", I420_BYTES + TENSOR_BYTES, count_nv12, true},
    {"preprocess-p010", 2 * I420_BYTES + TENSOR_BYTES, count_p010, true},
    {"preprocess-rgb24", 1920 * 1080 * 3 + TENSOR_BYTES, count_rgb24, true},
    {"preprocess-boxed", I420_BYTES + 3 * 640 * 640 * 2, count_boxed, true},
    {"preprocess-bicubic", I420_BYTES + TENSOR_BYTES, count_bicubic, true},
    {"preprocess-area", I420_BYTES + TENSOR_BYTES / 4, count_area, true},
    {"preprocess-nearest", 224 * 224 * 3 + TENSOR_BYTES, count_nearest, false},
    {"preprocess-gray", 1920 * 1080 + 224 * 224, count_gray, false},
    {"histogram-rgb", 24 * (3 * 224 * 224 + 96 * 4), count_rgb_histogram, true},
    {"histogram-hsv", 24 * (3 * 224 * 224 + 96 * 4), count_hsv_histogram, true},
    {"histogram-joint", 24 * (3 * 224 * 224 + 512 * 4), count_joint_histogram, true},
    {"hog", 24 * (64 * 128 + 3780 * 4), count_hog, true},
    {"phash", 24 * (32 * 32 + 8), count_phash, true},
    {"sharpness", 1920 * 1080 + 4, count_sharpness, true},
    {"change", 2 * 640 * 360 + 4, count_change, true},
    {"linear-1", 4 * (1280 * 1000 + 1000 + 1280 + 1000), count_linear_1, true},
    {"linear-8", 4 * (1280 * 1000 + 1000 + 8 * 2280), count_linear_8, true},
    {"linear-64", 4 * (1280 * 1000 + 1000 + 64 * 2280), count_linear_64, true},
    {"top-k", 32 * 4 * (1000 + 5 + 5 + 1), count_top_k, true},
    {"rectify", 32 * 4 * 2 * 128, count_rectify, true},
    {"nearest", 8 * 4 * (10000 + 5 + 1000), count_votes, false},
    {"normalize", 32 * 4 * 2 * 1280, count_normalize, true},
    {"pool", 8 * 4 * 1280 * (49 + 1), count_pool, true},
    {"pool-nhwc", 8 * 4 * 1280 * (49 + 1), count_pool, true},
    {"copy-picture", 2 * I420_BYTES, count_none, true},
    {"upload-picture", I420_BYTES, count_none, true},
    {"download-picture", I420_BYTES, count_none, true},
    {"upload-tensor", TENSOR_BYTES, count_none, true},
    {"download-results", 32 * 1000 * 4, count_none, true},
};
/* Every STEP-th operation is looked at. */
enum { WANTED = sizeof wanted / sizeof wanted[0], STEP = UNDER_TSAN(5, 1) };

static mr_operations *open_on(const char *device) {
    mr_operations *ops = NULL;
    assert_int_equal(mr_operations_open(&ops, &(mr_operations_params){.device = device}), MR_OK);
    return ops;
}

static size_t find(const mr_operations *ops, const char *name) {
    const mr_operations_view *view = mr_operations_look(ops);
    size_t i = 0;
    while (i < view->count && strcmp(view->list[i].name, name) != 0)
        i++;
    assert_true(i < view->count);
    return i;
}

static void check_near(const char *name, const char *what, double got, double expected, double tolerance) {
    if (fabs(got - expected) > tolerance * expected)
        fail_msg("%s: %s is %.0f, and %.0f by another count", name, what, got, expected);
}

/* A vertical pass begins at a multiple of 64 samples and ends at one. All other counts are exact. */
static void check_declared(const mr_operation *operation, size_t i) {
    const bool resized = strncmp(wanted[i].name, "preprocess", 10) == 0;
    counted = 0;
    wanted[i].count();
    check_near(wanted[i].name, "bytes", operation->bytes, wanted[i].bytes, resized ? 0.002 : 0);
    check_near(wanted[i].name, "arithmetic", operation->flops, counted, resized ? 0.02 : 1e-9);
}

/* A simulated device takes its times from the memory that work touches: none declares more than that, and one that uses
 * all of it no less. Times of many small pieces are whole nanoseconds each. */
static void check_touched(mr_operations *ops, const mr_operation *operation, bool whole) {
    static const double rates[MR_PATHS] = {10, 5, 4}; /* bytes in a nanosecond */
    int64_t ns = -1;
    assert_int_equal(mr_operations_run(ops, 1, &ns), MR_OK);
    double touched = (double)ns * rates[operation->path], rest = 32 * rates[operation->path];
    if (operation->bytes > touched + rest || (whole && operation->bytes < 0.98 * touched - rest))
        fail_msg("%s declares %.0f bytes and touches %.0f", operation->name, operation->bytes, touched);
}

PLAIN_TEST(bytes_and_arithmetic) {
    mr_operations *ops = open_on("sim:0?compute=10GB/s&upload=5GB/s&download=4GB/s");
    assert_true(mr_operations_look(ops)->simulated);
    assert_int_equal(mr_operations_look(ops)->count, WANTED);
    for (size_t i = 0; i < WANTED; i += STEP) {
        size_t at = find(ops, wanted[i].name);
        const mr_operation *operation = &mr_operations_look(ops)->list[at];
        assert_int_equal(mr_operations_prepare(ops, at), MR_OK);
        check_declared(operation, i);
        check_touched(ops, operation, wanted[i].whole);
    }
    mr_operations_close(&ops);
}

/* ---- running ---------------------------------------------------------------------------------------------------- */

/* Clocks of processor time may stand still for a tick. Only a codec may be missing. */
static void run_one(mr_operations *ops, size_t index, int calls) {
    int64_t ns = -1;
    const mr_operation *operation = &mr_operations_look(ops)->list[index];
    int status = mr_operations_prepare(ops, index);
    if (status == MR_ERROR_UNAVAILABLE && operation->group == MR_OPERATION_CODEC) {
        print_message("left out: %s: %s\n", operation->name, mr_message());
        return;
    }
    if (status || mr_operations_run(ops, calls, &ns))
        fail_msg("%s: %s", operation->name, mr_message());
    assert_true(ns >= 0);
    assert_true(operation->bytes > 0 || strcmp(operation->name, "launch") == 0);
    assert_true(operation->works_on[0]);
}

PLAIN_TEST(all_on_the_processors) {
    mr_operations *ops = open_on("cpu");
    const mr_operations_view *view = mr_operations_look(ops);
    assert_string_equal(view->device, "cpu");
    assert_false(view->simulated);
    for (size_t i = 0; i < view->count; i += STEP) {
        assert_int_equal(view->list[i].path, MR_PATH_MEMORY);
        run_one(ops, i, 2);
        for (size_t before = 0; before < i; before++)
            assert_string_not_equal(view->list[i].name, view->list[before].name);
    }
    const mr_operations_clocks *clocks = mr_operations_read_clocks(ops);
    assert_true(clocks->core_mhz > 10 && clocks->core_mhz < 10000 && clocks->memory_mhz == 0);
    mr_operations_close(&ops);
    assert_null(ops);
}

/* Of a launch more calls than there are between two events; the largest operations are left to real cards. Whether a
 * card has a unit for a codec is not known. */
TEST(some_on_cuda) {
    static const char *const names[] = {"launch", "preprocess-nearest", "hog", "change", "top-k", "upload-tensor",
                                        "download-results", "copy-picture", "decode-h264", "decode-mjpeg",
                                        "encode-h264", "encode-av1"};
    mr_operations *ops = NULL;
    int status = mr_operations_open(&ops, &(mr_operations_params){.device = "cuda:0"});
    if (status == MR_ERROR_UNAVAILABLE) {
        print_message("skipped: %s\n", mr_message());
        skip();
    }
    assert_int_equal(status, MR_OK);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        run_one(ops, find(ops, names[i]), strcmp(names[i], "launch") == 0 ? 200 : 2);
    mr_operations_close(&ops);
}

#ifdef MILLRACE_CUDA_HOST
/* The fakes keep count of what is open, and of the pictures. */
static int ask(const char *library, const char *what) {
    int (*function)(void) = NULL;
    void *fake = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    *(void **)&function = dlsym(fake, what);
    assert_non_null(function);
    int answer = function();
    dlclose(fake);
    return answer;
}

static void open_fake(const char *path, int mode) {
    void *fake = dlopen(path, RTLD_NOW | mode);
    void (*use)(int) = NULL;
    assert_non_null(fake);
    *(void **)&use = dlsym(fake, "fake_cuda_use");
    if (use)
        use(0);
}

static void run_codec(mr_operations *ops, const char *name) {
    int64_t ns;
    if (mr_operations_prepare(ops, find(ops, name)) || mr_operations_run(ops, 2, &ns))
        fail_msg("%s: %s", name, mr_message());
}

/* Eight pictures are encoded before, and in each call. Without the header of NVENC's interface there is no fake of
 * it. */
TEST(codecs_of_a_card) {
    setenv("FAKE_ALL", "1", 1);
    open_fake(FAKE_CUDA, RTLD_GLOBAL);
    open_fake(FAKE_NVCUVID, RTLD_LOCAL);
    mr_operations *ops = open_on("cuda:0");
    run_codec(ops, "decode-hevc");
    assert_int_equal(ask("libnvcuvid.so.1", "fake_nvdec_open"), 1);
    assert_int_equal(ask("libnvcuvid.so.1", "fake_nvdec_mapped"), 0);
#ifdef FAKE_NVENCODE
    open_fake(FAKE_NVENCODE, RTLD_LOCAL);
    run_codec(ops, "encode-h264");
    assert_int_equal(ask("libnvidia-encode.so.1", "fake_nvenc_open"), 1);
    assert_int_equal(ask("libnvidia-encode.so.1", "fake_nvenc_encoded"), 3 * 8);
#endif
    mr_operations_close(&ops);
    assert_int_equal(ask("libnvcuvid.so.1", "fake_nvdec_open"), 0);
#ifdef FAKE_NVENCODE
    assert_int_equal(ask("libnvidia-encode.so.1", "fake_nvenc_open"), 0);
    assert_int_equal(ask("libnvidia-encode.so.1", "fake_nvenc_kept"), 0);
#endif
}
#endif

PLAIN_TEST(work_that_fails) {
    int64_t ns;
    mr_operations *ops = open_on("sim:0?fail_after=3");
    size_t at = find(ops, "phash");
    int status = mr_operations_prepare(ops, at);
    if (!status)
        status = mr_operations_run(ops, 5, &ns);
    assert_int_equal(status, MR_ERROR_DEVICE);
    mr_operations_close(&ops);
}

PLAIN_TEST(wrong_calls) {
    mr_operations *ops = (void *)1;
    int64_t ns;
    assert_int_equal(mr_operations_open(&ops, &(mr_operations_params){0}), MR_ERROR_USAGE);
    assert_null(ops);
    assert_int_equal(mr_operations_open(&ops, &(mr_operations_params){.device = "gpu"}), MR_ERROR_CONFIG);
    const struct {
        mr_operations_params params;
        void *more;
    } later = {{.device = "cpu"}, &ns};
    assert_int_equal(mr_operations_open_sized(&ops, &later.params, sizeof later), MR_ERROR_USAGE);
    assert_int_equal(mr_operations_open_sized(&ops, &later.params, 4), MR_ERROR_USAGE);
    ops = open_on("cpu");
    assert_int_equal(mr_operations_run(ops, 1, &ns), MR_ERROR_USAGE);
    assert_int_equal(mr_operations_prepare(ops, 1000), MR_ERROR_USAGE);
    assert_int_equal(mr_operations_prepare(ops, find(ops, "launch")), MR_OK);
    assert_int_equal(mr_operations_run(ops, 0, &ns), MR_ERROR_USAGE);
    mr_operations_close(&ops);
    mr_operations_close(&ops);
}

/* A network needs a file that is one; on a simulated device none is measured. */
PLAIN_TEST(networks) {
    static const char *const models[] = {"/nonexistent/some.net.onnx", NULL};
    mr_operations *ops = NULL;
    assert_int_equal(mr_operations_open(&ops, &(mr_operations_params){.device = "cpu", .models = models}), MR_OK);
    const mr_operations_view *view = mr_operations_look(ops);
    const mr_operation *last = &view->list[view->count - 1];
    assert_string_equal(last->name, "network-some.net");
    assert_int_equal(last->group, MR_OPERATION_NETWORK);
    int status = mr_operations_prepare(ops, view->count - 1);
    assert_true(status == MR_ERROR_NO_INPUT || status == MR_ERROR_UNAVAILABLE);
    mr_operations_close(&ops);
    assert_int_equal(mr_operations_open(&ops, &(mr_operations_params){.device = "sim", .models = models}), MR_OK);
    assert_int_equal(mr_operations_prepare(ops, mr_operations_look(ops)->count - 1), MR_ERROR_UNAVAILABLE);
    mr_operations_close(&ops);
}

RUN_TESTS(NULL, NULL)
