#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "millrace/frame.h"
#include "stages/sink/number_text.h"
#include "tests/support/suite.h"

TEST(floats_read_back_as_themselves) {
    char text[MR_NUMBER_TEXT];
    uint32_t bits = 12345;
    for (int i = 0; i < 20000; i++) {
        bits = bits * 1664525u + 1013904223u;
        float value;
        memcpy(&value, &bits, sizeof value);
        size_t length = mr_float_text(text, value);
        assert_int_equal(length, strlen(text));
        if (isfinite(value))
            assert_true(strtof(text, NULL) == value);
        else
            assert_int_equal(length, 0);
    }
}

static void expect_library_text(float value) {
    char text[MR_NUMBER_TEXT], expected[MR_NUMBER_TEXT];
    snprintf(expected, sizeof expected, "%.8g", (double)value);
    if (strtof(expected, NULL) != value)
        snprintf(expected, sizeof expected, "%.9g", (double)value);
    assert_int_equal(mr_float_text(text, value), strlen(expected));
    assert_string_equal(text, expected);
}

/* Pixels, scores, floats beside decimals and powers of two, and what no float stands for exactly. */
TEST(floats_have_the_digits_of_the_library) {
    uint32_t bits = 98765;
    for (int i = 0; i < 100000; i++) {
        bits = bits * 1664525u + 1013904223u;
        const float part = (float)(bits >> 8) / 16777216.0f;
        expect_library_text(part);
        expect_library_text(-part * 4096);
        expect_library_text(ldexpf(1 + part, (int)(bits % 48) - 20));
    }
    for (int exponent = -16; exponent <= 28; exponent++)
        for (float value = ldexpf(1, exponent), i = 0; i < 4; i++, value = nextafterf(value, 0))
            expect_library_text(value);
    for (int places = 0; places <= 12; places++)
        for (int i = 1; i < 2000; i++) {
            const float value = (float)(i / pow(10, places));
            expect_library_text(value);
            expect_library_text(nextafterf(value, 0));
            expect_library_text(nextafterf(value, INFINITY));
        }
    for (float value = 1e-5f; value < 1e9f; value *= 10) {
        expect_library_text(nextafterf(value, 0));
        expect_library_text(value);
    }
}

TEST(simple_floats_are_short) {
    static const struct {
        float value;
        const char *text;
    } cases[] = {{0.5f, "0.5"}, {0.1f, "0.1"}, {-3.0f, "-3"}, {1e-7f, "1e-07"}};
    char text[MR_NUMBER_TEXT];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mr_float_text(text, cases[i].value);
        assert_string_equal(text, cases[i].text);
    }
}

TEST(times_are_exact_seconds) {
    static const struct {
        int64_t ns;
        const char *text;
    } cases[] = {{0, "0"}, {1033333333, "1.033333333"}, {50000000, "0.05"}, {-20000000000, "-20"},
                 {INT64_MAX, "9223372036.854775807"}};
    char text[MR_NUMBER_TEXT];
    assert_int_equal(mr_seconds_text(text, MR_NO_TIME), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mr_seconds_text(text, cases[i].ns);
        assert_string_equal(text, cases[i].text);
    }
}

/* Values by IEEE 754-2019, binary16 in table 3.5: 2^-24, the largest subnormal, 1, the largest, -2. */
TEST(halves_are_widened_exactly) {
    assert_true(mr_half_to_float(0x0001) == ldexpf(1, -24));
    assert_true(mr_half_to_float(0x03ff) == ldexpf(1023, -24));
    assert_true(mr_half_to_float(0x3c00) == 1.0f);
    assert_true(mr_half_to_float(0x3555) == ldexpf(1365, -12));
    assert_true(mr_half_to_float(0x7bff) == 65504.0f);
    assert_true(mr_half_to_float(0xc000) == -2.0f);
    assert_true(signbit(mr_half_to_float(0x8000)));
    assert_true(isinf(mr_half_to_float(0x7c00)));
    assert_true(isnan(mr_half_to_float(0x7e00)));
}

TEST(elements_have_the_text_of_their_type) {
    char text[MR_NUMBER_TEXT];
    const int64_t wide[] = {1, -9000000000000000000};
    const int32_t narrow[] = {0, INT32_MIN};
    const uint8_t bytes[] = {0, 255};
    const uint16_t halves[] = {0, 0x3800};
    mr_element_text(text, MR_DTYPE_I64, (const uint8_t *)wide, 1);
    assert_string_equal(text, "-9000000000000000000");
    mr_element_text(text, MR_DTYPE_I32, (const uint8_t *)narrow, 1);
    assert_string_equal(text, "-2147483648");
    mr_element_text(text, MR_DTYPE_U8, bytes, 1);
    assert_string_equal(text, "255");
    mr_element_text(text, MR_DTYPE_F16, (const uint8_t *)halves, 1);
    assert_string_equal(text, "0.5");
}

RUN_TESTS(NULL, NULL)
