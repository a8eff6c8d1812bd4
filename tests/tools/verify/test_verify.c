/* How far apart two values are, and which parts of a frame are compared. tests/e2e/running/test_verify.py tests the
 * verb. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "millrace/objects.h"
#include "millrace/text.h"
#include "tests/support/suite.h"
#include "tools/millrace/verify/verify_compare.h"

static mr_part tensor(mr_dtype dtype, int64_t count, const void *data) {
    return (mr_part){.kind = mr_kind_tensor(),
                     .format = mr_tensor_format(dtype, MR_LAYOUT_FLAT, 1, &count),
                     .bytes = mr_dtype_bytes(dtype) * (size_t)count,
                     .data = data};
}

static mr_error_sum errors(const mr_part *a, const mr_part *b, double tolerance) {
    mr_error_sum sum = {0};
    assert_true(mr_compare_parts(a, b, tolerance, &sum));
    return sum;
}

static double f32_ulps(float a, int steps) {
    float b = a;
    for (int i = 0; i < steps; i++)
        b = nextafterf(b, (float)INFINITY);
    return mr_ulps_f32(a, b);
}

/* Compared with nextafter from the C library, across zero and powers of two. */
TEST(test_ulps) {
    const float from[] = {0, 1, -1, 0.99999994F, -1.4e-45F, 3.4e38F, -2.8e-45F, 1e-38F, -65504};
    for (size_t i = 0; i < sizeof from / sizeof from[0]; i++)
        for (int steps = 0; steps < 5; steps++)
            assert_true(f32_ulps(from[i], steps) == steps);
    assert_true(mr_ulps_f32(0.0F, -0.0F) == 0);
    assert_true(mr_ulps_f32(NAN, NAN) == 0 && isinf(mr_ulps_f32(NAN, 1)) && isinf(mr_ulps_f32(1, NAN)));
    assert_true(mr_ulps_f16(0x3c00, 0x3c01) == 1);
    assert_true(mr_ulps_f16(0x0001, 0x8001) == 2);
    assert_true(mr_ulps_f16(0x0000, 0x8000) == 0);
    assert_true(mr_ulps_f16(0x7e00, 0x7e01) == 0 && isinf(mr_ulps_f16(0x7e00, 0x3c00)));
}

TEST(test_floats) {
    const float a[] = {0.5F, 100, 3, (float)INFINITY, (float)NAN, 0},
                b[] = {0.5F, 100.0625F, 2.5F, (float)INFINITY, (float)NAN, 0};
    mr_part one = tensor(MR_DTYPE_F32, 6, a), other = tensor(MR_DTYPE_F32, 6, b);
    mr_error_sum sum = errors(&one, &other, 0.001);
    assert_true(sum.floats && sum.values == 6 && sum.differing == 2);
    assert_true(sum.beyond == 1); /* 0.0625 is within for 100, 0.5 is not for 3 */
    assert_true(sum.largest == 0.5 && sum.sum == 0.5625);
    assert_true(sum.most_ulps == 2097152 && sum.ulps_sum == 2097152 + 8192);
    const float nan[] = {(float)NAN}, number[] = {1};
    one = tensor(MR_DTYPE_F32, 1, nan);
    other = tensor(MR_DTYPE_F32, 1, number);
    sum = errors(&one, &other, 1e9);
    assert_true(isinf(sum.largest) && sum.beyond == 1);
    const uint16_t halves[] = {0x3c00, 0xc000}, others[] = {0x3c01, 0xc000};
    one = tensor(MR_DTYPE_F16, 2, halves);
    other = tensor(MR_DTYPE_F16, 2, others);
    sum = errors(&one, &other, 0.001);
    assert_true(sum.largest == ldexp(1, -10) && sum.most_ulps == 1 && sum.beyond == 0 && sum.differing == 1);
}

TEST(test_whole_numbers) {
    const int64_t a[] = {INT64_MAX, 5}, b[] = {INT64_MIN, 5};
    mr_part one = tensor(MR_DTYPE_I64, 2, a), other = tensor(MR_DTYPE_I64, 2, b);
    mr_error_sum sum = errors(&one, &other, 0);
    assert_true(!sum.floats && sum.largest == 18446744073709551615.0 && sum.differing == 1 && sum.beyond == 1);
    const int32_t c[] = {-2147483647 - 1}, d[] = {2147483647};
    one = tensor(MR_DTYPE_I32, 1, c);
    other = tensor(MR_DTYPE_I32, 1, d);
    assert_true(errors(&one, &other, 0).largest == 4294967295.0);
    /* A large whole number may not differ more than a small one. */
    const uint8_t e[] = {200, 7}, f[] = {199, 7};
    one = tensor(MR_DTYPE_U8, 2, e);
    other = tensor(MR_DTYPE_U8, 2, f);
    assert_true(errors(&one, &other, 0.5).beyond == 1 && errors(&one, &other, 1).beyond == 0);
}

TEST(test_classes) {
    const mr_class a[] = {{7, 0.5F, NULL}, {3, 0.25F, NULL}, {1, 0.125F, NULL}};
    const mr_class swapped[] = {{3, 0.25F, NULL}, {7, 0.25F, NULL}, {1, 0.125F, NULL}};
    const mr_class another[] = {{7, 0.5F, NULL}, {3, 0.25F, NULL}, {9, 0.1875F, NULL}};
    mr_part one = {.kind = mr_kind_classes(), .count = 3, .bytes = sizeof a, .data = a}, other = one;
    assert_true(errors(&one, &other, 0).differing == 0);
    other.data = swapped;
    mr_error_sum sum = errors(&one, &other, 0.3);
    assert_true(sum.reordered == 2 && sum.largest == 0.25 && sum.beyond == 0 && sum.differing == 1);
    /* 1 is missing: 0.125 from the other's lowest; 9 is new: 0.1875 from the first's lowest. */
    other.data = another;
    sum = errors(&one, &other, 0.05);
    assert_true(sum.reordered == 1 && sum.values == 4 && sum.largest == 0.0625 && sum.beyond == 2);
}

TEST(test_unlike) {
    const uint8_t bytes[8] = {0};
    mr_error_sum sum = {0};
    const mr_part parts[] = {tensor(MR_DTYPE_U8, 8, bytes),
                             tensor(MR_DTYPE_F16, 4, bytes),
                             tensor(MR_DTYPE_F32, 2, bytes),
                             tensor(MR_DTYPE_U8, 7, bytes),
                             {.kind = mr_kind_classes(), .bytes = 8, .data = bytes}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        for (size_t k = 0; k < sizeof parts / sizeof parts[0]; k++)
            if (i != k)
                assert_false(mr_compare_parts(&parts[i], &parts[k], 1, &sum));
    assert_true(sum.values == 0);
}

/* Rows without padding, only the stage's results, and the payload only on request. */
TEST(test_captures) {
    uint8_t pixels[4 * 16];
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)i;
    const mr_class classes[] = {{2, 0.75F, "two"}};
    mr_result own = {
        .kind = mr_kind_classes(), .stage = "mine", .count = 1, .classes = (mr_class *)(uintptr_t)classes};
    mr_result older = {.kind = mr_kind_classes(), .stage = "other", .count = 1, .classes = own.classes};
    own.next = &older;
    mr_frame frame = {.format = {.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_GRAY8, .width = 5, .height = 4},
                      .plane[0] = {.data = pixels, .stride = 16},
                      .identity = {.source = 3, .seq = 9},
                      .results = &own};
    mr_capture *capture = mr_capture_create(&frame, "mine", true);
    assert_non_null(capture);
    assert_int_equal(capture->part_count, 2);
    assert_int_equal(capture->identity.seq, 9);
    assert_int_equal(capture->part[0].bytes, 20);
    assert_int_equal(((const uint8_t *)capture->part[0].data)[5], 16);
    assert_int_equal(((const uint8_t *)capture->part[0].data)[19], 52);
    assert_int_equal(((const mr_class *)capture->part[1].data)->index, 2);
    free(capture);
    capture = mr_capture_create(&frame, "other", false);
    assert_non_null(capture);
    assert_int_equal(capture->part_count, 1);
    assert_ptr_equal(capture->part[0].kind, mr_kind_classes());
    free(capture);
}

/* A capture has copies of items, and they are compared. */
TEST(test_items) {
    float corners[] = {1, 2, 3, 4};
    char words[] = "one\0two";
    const mr_text texts[] = {{{16, 3}, 0.5F}, {{20, 3}, 0.25F}};
    const mr_object objects[] = {{.right = 2, .bottom = 3, .quad = {0, 4}}};
    uint8_t items[24];
    memcpy(items, corners, sizeof corners);
    memcpy(items + 16, words, sizeof words);
    mr_result read = {.kind = mr_kind_text(), .stage = "mine", .count = 2, .data = (void *)(uintptr_t)texts,
                      .items = items, .items_bytes = sizeof items};
    mr_result found = {.kind = mr_kind_objects(), .stage = "mine", .count = 1, .data = (void *)(uintptr_t)objects,
                       .items = items, .items_bytes = sizeof items, .next = &read};
    const mr_frame frame = {.results = &found};
    FREED mr_capture *before = mr_capture_create(&frame, "mine", false);
    corners[2] = 3.25F;
    memcpy(items, corners, sizeof corners);
    items[20] = 'T';
    FREED mr_capture *after = mr_capture_create(&frame, "mine", false);
    memset(items, 0, sizeof items);
    mr_error_sum sum = errors(&before->part[0], &before->part[0], 0);
    assert_true(sum.values == 6 + 4 && sum.differing == 0);
    sum = errors(&before->part[0], &after->part[0], 0.1);
    assert_true(sum.differing == 1 && sum.largest == 0.25 && sum.beyond == 0);
    sum = errors(&before->part[1], &after->part[1], 0.1);
    assert_true(sum.values == 4 && sum.differing == 1 && sum.beyond == 1);
}

RUN_TESTS(NULL, NULL)
