/* Messages for an OpenTelemetry collector, and its answers. */
#include <stdlib.h>
#include <string.h>

#include "tests/support/suite.h"
#include "tools/millrace/otlp/otlp_bytes.h"

static void expect(mr_otlp_bytes *got, const char *wanted, size_t bytes) {
    assert_false(got->failed);
    assert_int_equal(got->length, bytes);
    assert_memory_equal(got->data, wanted, bytes);
    free(got->data);
}

#define EXPECT(got, wanted) expect(got, wanted, sizeof wanted - 1)

/* As Google's protobuf for Python writes them, which e2e_otlp reads them with. */
TEST(fields_are_as_published) {
    mr_otlp_bytes to = {0};
    mr_otlp_uint(&to, 1, 0);
    mr_otlp_uint(&to, 2, 300);
    mr_otlp_uint(&to, 16, UINT64_MAX);
    mr_otlp_fixed64(&to, 3, 0x0102030405060708);
    mr_otlp_fixed32(&to, 4, 0x01020304);
    mr_otlp_double(&to, 5, 0.25);
    mr_otlp_data(&to, 6, "\0\xff", 2);
    mr_otlp_text(&to, 7, "a\xff\xc3\xa9");
    EXPECT(&to, "\x08\x00\x10\xac\x02\x80\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x19\x08\x07\x06\x05\x04\x03\x02"
                "\x01\x25\x04\x03\x02\x01\x29\x00\x00\x00\x00\x00\x00\xd0\x3f\x32\x02\x00\xff\x3a\x04" "a?\xc3\xa9");
}

TEST(attributes_are_pairs) {
    mr_otlp_bytes to = {0};
    mr_otlp_attribute(&to, 7, "k", "v");
    mr_otlp_attribute(&to, 7, "none", "");
    mr_otlp_attribute(&to, 7, "none", NULL);
    mr_otlp_attribute_int(&to, 7, "n", -1);
    EXPECT(&to, "\x3a\x08\x0a\x01k\x12\x03\x0a\x01v"
                "\x3a\x10\x0a\x01n\x12\x0b\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
}

TEST(lengths_of_nested_messages_have_as_many_bytes_as_they_need) {
    static const struct {
        size_t bytes, length_bytes;
    } cases[] = {{0, 1}, {127, 1}, {128, 2}, {16383, 2}, {16384, 3}, {70000, 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mr_otlp_bytes to = {0};
        uint8_t *content = calloc(1, cases[i].bytes + 1);
        assert_non_null(content);
        memset(content, 7, cases[i].bytes);
        const size_t outer = mr_otlp_begin(&to, 1), inner = mr_otlp_begin(&to, 2);
        mr_otlp_add(&to, content, cases[i].bytes);
        mr_otlp_end(&to, inner);
        mr_otlp_end(&to, outer);
        mr_otlp_uint(&to, 3, 1);
        size_t length = 0, at = 1;
        for (int shift = 0; shift < 21; shift += 7) {
            length |= (size_t)(to.data[at] & 0x7f) << shift;
            if (!(to.data[at++] & 0x80))
                break;
        }
        assert_int_equal(length, 1 + cases[i].length_bytes + cases[i].bytes);
        assert_int_equal(to.length, at + length + 2);
        assert_memory_equal(to.data + to.length - 2, "\x18\x01", 2);
        assert_memory_equal(to.data + to.length - 2 - cases[i].bytes, content, cases[i].bytes);
        free(content);
        free(to.data);
    }
}

static bool read_bytes_of(const char *answer, size_t bytes, bool cut, uint64_t *rejected, char why[MR_OTLP_WHY]) {
    uint8_t *copy = malloc(bytes + !bytes); /* so that a sanitizer sees reads after it */
    assert_non_null(copy);
    memcpy(copy, answer, bytes);
    const bool read = mr_otlp_read_rejected(copy, bytes, cut, rejected, why);
    free(copy);
    return read;
}

static bool read_bytes(const char *answer, size_t bytes, uint64_t *rejected, char why[MR_OTLP_WHY]) {
    return read_bytes_of(answer, bytes, false, rejected, why);
}

TEST(answers_say_what_was_rejected) {
    static const char part[] = "\x12\x01x\x0a\x09\x08\xac\x02\x12\x04" "full";
    char why[MR_OTLP_WHY];
    uint64_t rejected = 9;
    assert_true(read_bytes("", 0, &rejected, why));
    assert_int_equal(rejected, 0);
    assert_true(read_bytes(part, sizeof part - 1, &rejected, why));
    assert_int_equal(rejected, 300);
    assert_string_equal(why, "full");
}

TEST(broken_answers_are_seen) {
    static const char part[] = "\x0a\x09\x08\xac\x02\x12\x04" "full";
    char why[MR_OTLP_WHY];
    uint64_t rejected;
    for (size_t bytes = 1; bytes < sizeof part - 1; bytes++)
        assert_false(read_bytes(part, bytes, &rejected, why));
    assert_false(read_bytes("\x0b", 1, &rejected, why));
    assert_false(read_bytes("\x0a\x02\x08\x80", 4, &rejected, why));
    assert_false(read_bytes("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01", 13, &rejected, why));
    assert_false(read_bytes("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, &rejected, why));
}

/* Of an answer that is longer than what was kept, the beginning counts. */
TEST(cut_answers_say_what_is_there) {
    static const char part[] = "\x0a\x09\x08\xac\x02\x12\x04" "full\x12\x01x";
    char why[MR_OTLP_WHY];
    uint64_t rejected;
    for (size_t bytes = 0; bytes < sizeof part; bytes++) {
        assert_true(read_bytes_of(part, bytes, true, &rejected, why));
        assert_int_equal(rejected, bytes < 5 ? 0 : 300);
        assert_int_equal(strlen(why), bytes < 7 ? 0 : bytes < 11 ? bytes - 7 : 4);
        assert_memory_equal(why, "full", strlen(why));
    }
    assert_false(read_bytes_of("\x0a\x02\x08\x80\x12", 5, true, &rejected, why)); /* the broken part is there */
}

RUN_TESTS(NULL, NULL)
