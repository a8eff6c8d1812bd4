#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "millrace/millrace.h"
#include "stages/sink/output.h"
#include "tests/support/suite.h"
#include "tests/support/temporary.h"

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

TEST_WITH(one_file_takes_one_writer, make_temporary, remove_temporary) {
    const char *path = temporary_path;
    write_bytes(path, "old", 3);
    mr_output first = {0}, second = {0};
    assert_int_equal(mr_output_open(&first, path), MR_OK);
    assert_int_equal(mr_output_write(&first, NULL, "new text", 8), MR_OK);
    assert_int_equal(mr_output_open(&second, path), MR_ERROR_IO);
    expect_words(mr_message(), "another stage");
    struct stat found;
    assert_int_equal(stat(path, &found), 0);
    assert_int_equal(found.st_size, 8);
    mr_output_close(&first, NULL);
    assert_int_equal(mr_output_open(&second, path), MR_OK);
    mr_output_close(&second, NULL);
}

TEST(standard_output_takes_one_writer) {
    mr_output first = {0}, second = {0};
    assert_int_equal(mr_output_open(&first, "-"), MR_OK);
    assert_true(mr_output_takes_stdout());
    assert_int_equal(mr_output_open(&second, "-"), MR_ERROR_IO);
    mr_output_close(&second, NULL);
    assert_int_equal(mr_output_open(&second, "-"), MR_ERROR_IO);
    mr_output_close(&first, NULL);
    assert_int_equal(mr_output_open(&second, "-"), MR_OK);
    mr_output_close(&second, NULL);
    assert_true(fcntl(STDOUT_FILENO, F_GETFD) >= 0);
}

TEST(outputs_that_cannot_be_opened_are_reported) {
    mr_output output;
    assert_int_equal(mr_output_open(&output, "/nonexistent/x.jsonl"), MR_ERROR_IO);
    expect_words(mr_message(), "/nonexistent/x.jsonl: there is no folder /nonexistent");
    char path[64];
    snprintf(path, sizeof path, "%s/fifo", temporary_folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_true(mr_output_blocks(path));
    /* Without a reader, the first write opens it. */
    assert_int_equal(mr_output_open(&output, path), MR_OK);
    assert_true(output.awaits_reader && output.fd == 0);
    mr_output_close(&output, NULL);
}

RUN_TESTS(make_temporary_folder, remove_temporary_folder)
