/* Format sets: intersection, inclusion, the largest format's memory, and printing. The operations are compared with
 * membership, tried for single formats one by one. */
#include <string.h>

#include "millrace/format_set.h"
#include "tests/support/suite.h"

static mr_format picture(mr_pixel pixel, int32_t width, int32_t height) {
    return (mr_format){.payload = MR_PAYLOAD_PICTURE, .pixel = pixel, .width = width, .height = height};
}

/* ---- against membership ---- */
enum { PIXELS = 3, LARGEST = 4, MEMBERS = PIXELS * LARGEST * LARGEST };

static mr_format member(int index) {
    return picture((mr_pixel)(MR_PIXEL_I420 + index % PIXELS), 1 + index / PIXELS % LARGEST,
                   1 + index / PIXELS / LARGEST);
}

static uint32_t draw(uint32_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

static mr_bounds random_bounds(uint32_t *state) {
    int64_t a = draw(state) % (LARGEST + 1), b = 1 + draw(state) % LARGEST;
    return a == 0 ? (mr_bounds){0, 0} : a < b ? (mr_bounds){a, b} : (mr_bounds){b, a};
}

static mr_format_set random_set(uint32_t *state) {
    return (mr_format_set){.payload = MR_PAYLOAD_PICTURE,
                           .pixels = draw(state) % (1 << PIXELS) << MR_PIXEL_I420,
                           .width = random_bounds(state),
                           .height = random_bounds(state)};
}

static void check_pair(const mr_format_set *a, const mr_format_set *b) {
    mr_format_set met, wide = *a;
    bool meets = mr_format_set_meet(a, b, &met), some = false, within = true;
    assert_true(mr_format_set_widen(&wide, b));
    for (int i = 0; i < MEMBERS; i++) {
        mr_format one = member(i);
        bool in_a = mr_format_set_has(a, &one), in_b = mr_format_set_has(b, &one);
        assert_int_equal(meets && mr_format_set_has(&met, &one), in_a && in_b);
        if (in_a || in_b)
            assert_true(mr_format_set_has(&wide, &one));
        some |= in_a && in_b;
        within &= in_a || !in_b;
    }
    assert_int_equal(meets, some);
    /* An open size has members beyond those that were tried. */
    if (mr_format_set_holds(a, b))
        assert_true(within);
    assert_true(mr_format_set_holds(&wide, a) && mr_format_set_holds(&wide, b));
}

TEST(operations_mean_what_membership_means) {
    uint32_t random = 20261121;
    for (int i = 0; i < 5000; i++) {
        mr_format_set a = random_set(&random), b = random_set(&random);
        check_pair(&a, &b);
    }
}

/* ---- single formats ---- */
TEST(an_open_field_takes_the_other_side) {
    mr_format given = {.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_I420, .width = 640, .height = 480,
                       .rotation = 90, .sar_num = 4, .sar_den = 3};
    mr_format_set any = {0}, one = mr_format_set_of(&given), met;
    assert_true(mr_format_set_meet(&any, &one, &met));
    mr_format common = mr_format_set_common(&met);
    assert_memory_equal(&common, &given, sizeof common);
    assert_true(mr_format_set_is_fixed(&met));

    mr_format a = mr_tensor_format(MR_DTYPE_F32, MR_LAYOUT_ANY, 3, (int64_t[]){3, 0, 224});
    mr_format b = mr_tensor_format(MR_DTYPE_ANY, MR_LAYOUT_NCHW, 3, (int64_t[]){0, 224, 224});
    mr_format_set set_a = mr_format_set_of(&a), set_b = mr_format_set_of(&b);
    assert_false(mr_format_set_is_fixed(&set_a));
    assert_true(mr_format_set_meet(&set_a, &set_b, &met));
    common = mr_format_set_common(&met);
    assert_int_equal(common.dtype, MR_DTYPE_F32);
    assert_int_equal(common.layout, MR_LAYOUT_NCHW);
    assert_int_equal(mr_tensor_count(&common), 3 * 224 * 224);
}

TEST(what_differs_does_not_meet) {
    mr_format wide = mr_tensor_format(MR_DTYPE_F32, MR_LAYOUT_NCHW, 3, (int64_t[]){3, 224, 224});
    mr_format deep = mr_tensor_format(MR_DTYPE_F32, MR_LAYOUT_NHWC, 3, (int64_t[]){224, 224, 3});
    mr_format flat = mr_tensor_format(MR_DTYPE_F32, MR_LAYOUT_NCHW, 2, (int64_t[]){3, 224});
    mr_format image = picture(MR_PIXEL_I420, 224, 224);
    mr_format_set met = {.rank = 77}, a = mr_format_set_of(&wide);
    const mr_format *others[] = {&deep, &flat, &image};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        mr_format_set b = mr_format_set_of(others[i]);
        assert_false(mr_format_set_meet(&a, &b, &met));
    }
    assert_int_equal(met.rank, 77);
}

TEST(colour_and_display_never_conflict) {
    mr_format a = {.payload = MR_PAYLOAD_PICTURE, .matrix = MR_MATRIX_BT709, .rotation = 90, .sar_num = 1,
                   .sar_den = 1};
    mr_format b = {.payload = MR_PAYLOAD_PICTURE, .matrix = MR_MATRIX_BT601, .range = MR_RANGE_FULL, .rotation = 180};
    mr_format_set set_a = mr_format_set_of(&a), set_b = mr_format_set_of(&b), met;
    assert_true(mr_format_set_meet(&set_a, &set_b, &met));
    assert_int_equal(met.look.matrix, MR_MATRIX_BT709);
    assert_int_equal(met.look.range, MR_RANGE_FULL);
    assert_int_equal(met.look.rotation, 90);
    assert_true(mr_format_set_widen(&set_a, &set_b));
    assert_int_equal(set_a.look.matrix, MR_MATRIX_ANY);
    assert_int_equal(set_a.look.rotation, 0);
}

/* ---- memory ---- */
TEST(the_largest_member_is_what_must_fit) {
    mr_format_set set = {.payload = MR_PAYLOAD_PICTURE,
                         .pixels = MR_IN_SET(MR_PIXEL_I420) | MR_IN_SET(MR_PIXEL_RGB24) | MR_IN_SET(MR_PIXEL_GRAY8),
                         .width = {1, 640}, .height = {1, 480}};
    assert_int_equal(mr_format_set_most_bytes(&set), 640 * 480 * 3);
    set.pixels = MR_IN_SET(MR_PIXEL_I420);
    assert_int_equal(mr_format_set_most_bytes(&set), 640 * 480 * 3 / 2);
    set.width = (mr_bounds){1, 641}; /* rows are padded to 704, and to 384 for 321 chroma samples */
    assert_int_equal(mr_format_set_most_bytes(&set), 704 * 480 + 2 * 384 * 240);
    set.height = (mr_bounds){0, 0};
    assert_int_equal(mr_format_set_most_bytes(&set), 0);
    set = (mr_format_set){.payload = MR_PAYLOAD_TENSOR, .dtypes = MR_IN_SET(MR_DTYPE_F16) | MR_IN_SET(MR_DTYPE_F32),
                          .rank = 2, .dims = {{3, 3}, {1, 100}}};
    assert_int_equal(mr_format_set_most_bytes(&set), 3 * 100 * 4);
    set.dims[1].max = INT64_C(1) << 61; /* f16 bytes could be counted, f32 bytes cannot: there is no bound */
    set.dims[0].max = 2;
    assert_int_equal(mr_format_set_most_bytes(&set), 0);
    set = (mr_format_set){.payload = MR_PAYLOAD_PACKET, .width = {640, 640}, .height = {480, 480}};
    assert_int_equal(mr_format_set_most_bytes(&set), 0);
}

/* ---- text ---- */
static void expect_text(const mr_format_set *set, const char *expected) {
    char text[MR_FORMAT_SET_TEXT];
    assert_string_equal(mr_format_set_print(set, text, sizeof text), expected);
}

TEST(sets_read_well) {
    mr_format_set set = {.payload = MR_PAYLOAD_PICTURE, .pixels = MR_IN_SET(MR_PIXEL_I420), .width = {1280, 1280},
                         .height = {720, 720}};
    expect_text(&set, "picture I420 1280x720");
    set.pixels |= MR_IN_SET(MR_PIXEL_RGB24);
    set.width.min = set.height.min = 1;
    expect_text(&set, "picture I420|RGB24 up to 1280x720");
    set.width.min = 640;
    set.pixels = 0;
    expect_text(&set, "picture 640..1280x1..720");
    set.height = (mr_bounds){0, 0};
    expect_text(&set, "picture 640..1280x?");
    set = (mr_format_set){.payload = MR_PAYLOAD_PACKET, .codec = "h264", .pixels = MR_IN_SET(MR_PIXEL_I420),
                          .width = {1920, 1920}, .height = {1080, 1080}};
    expect_text(&set, "packet h264 1920x1080");
    set = (mr_format_set){.payload = MR_PAYLOAD_TENSOR, .dtypes = MR_IN_SET(MR_DTYPE_F32), .rank = 3,
                          .layouts = MR_IN_SET(MR_LAYOUT_NCHW), .dims = {{3, 3}, {224, 224}, {224, 224}}};
    expect_text(&set, "tensor f32 3x224x224");
    set.dims[2] = (mr_bounds){0, 0};
    set.dtypes |= MR_IN_SET(MR_DTYPE_F16);
    expect_text(&set, "tensor f16|f32 3x224x? NCHW");
    expect_text(&(mr_format_set){0}, "anything");
    char cut[12];
    set = (mr_format_set){.payload = MR_PAYLOAD_PICTURE, .pixels = MR_IN_SET(MR_PIXEL_I420_10)};
    assert_string_equal(mr_format_set_print(&set, cut, sizeof cut), "picture I42");
}

RUN_TESTS(NULL, NULL)
