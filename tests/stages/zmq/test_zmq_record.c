/* Names and formats in records from other programs. Texts are complete UTF-8 or refused, as JSON and as protobuf. */
#include <string.h>

#include "millrace/status.h"
#include "stages/zmq/zmq_record.h"
#include "tests/support/suite.h"

static int read_text(mr_zmq_record *to, const char *text) {
    return mr_zmq_record_read(to, (const uint8_t *)text, strlen(text));
}

/* Adds a text to a Record: field number and wire type (2), the length, and the bytes. */
static size_t put_text(uint8_t *to, unsigned field, const char *text) {
    const unsigned key = field << 3 | 2;
    const size_t length = strlen(text);
    size_t at = 0;
    if (key > 127)
        to[at++] = (uint8_t)(key | 128);
    to[at++] = (uint8_t)(key > 127 ? key >> 7 : key);
    to[at++] = (uint8_t)(length | 128);
    to[at++] = (uint8_t)(length >> 7);
    memcpy(to + at, text, length);
    return at + length;
}

/* Field numbers in Record. */
enum { FILE_NAME = 6, LABEL = 7, FORMAT = 12, ID = 17 };

static int read_field(mr_zmq_record *to, unsigned field, const char *text) {
    uint8_t packed[MR_FRAME_FILE + 64];
    return mr_zmq_record_read(to, packed, put_text(packed, field, text));
}

TEST(names_are_taken_as_they_are) {
    mr_zmq_record record;
    assert_int_equal(read_text(&record, "{\"id\": \"T\\u00fcr \\\"1\\\"\", \"pts\": 1.5}"), MR_OK);
    assert_string_equal(record.id, "T\xc3\xbcr \"1\"");
    assert_int_equal(record.pts_ns, 1500000000);
    assert_int_equal(read_text(&record, "{\"id\": -7}"), MR_OK);
    assert_string_equal(record.id, "-7");
    assert_int_equal(read_text(&record, "{\"id\": 18446744073709551616, \"label\": 1e2}"), MR_OK);
    assert_string_equal(record.id, "18446744073709551616");
    assert_string_equal(record.label, "1e2");
    assert_int_equal(read_text(&record, "{\"file\": \"/x/a.jpg\", \"label\": \"dog\", \"more\": {\"file\": \"b\"}}"),
                     MR_OK);
    assert_string_equal(record.file, "/x/a.jpg");
    assert_string_equal(record.label, "dog");
    assert_string_equal(record.id, "");
    assert_int_equal(read_field(&record, ID, "T\xc3\xbcr"), MR_OK);
    assert_string_equal(record.id, "T\xc3\xbcr");
    assert_int_equal(read_field(&record, FILE_NAME, "T\xc3\xbcr"), MR_OK);
    assert_string_equal(record.file, "T\xc3\xbcr");
    assert_int_equal(read_field(&record, LABEL, "dog"), MR_OK);
    assert_string_equal(record.label, "dog");
}

/* Such names would go into protobuf records, and strict readers reject those. */
TEST(names_that_are_no_text_are_refused) {
    static const char *const wrong[] = {"\xff", "a\xc3", "\xed\xa0\x80", "\xc0\xaf"};
    static const struct {
        unsigned number, most;
    } fields[] = {{ID, MR_FRAME_ID}, {FILE_NAME, MR_FRAME_FILE}, {LABEL, MR_FRAME_LABEL}};
    mr_zmq_record record;
    for (size_t f = 0; f < sizeof fields / sizeof *fields; f++) {
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
            assert_int_equal(read_field(&record, fields[f].number, wrong[i]), MR_ERROR_DATA);
            expect_words(mr_message(), "UTF-8");
        }
        char longer[MR_FRAME_FILE + 2];
        memset(longer, 'x', sizeof longer);
        longer[fields[f].most + 1] = '\0';
        assert_int_equal(read_field(&record, fields[f].number, longer + 1), MR_OK);
        assert_int_equal(read_field(&record, fields[f].number, longer), MR_ERROR_DATA);
    }
    assert_int_equal(read_text(&record, "{\"id\": \"a\\u0000b\"}"), MR_ERROR_DATA);
}

/* Stages add and subtract times, so these must fit in 64 bits. */
TEST(times_are_bounded) {
    static const char *const wrong[] = {"{\"pts\": 3.08e9}",
                                        "{\"pts\": -9.1e9}", "{\"pts\": 9000000000}", "{\"pts\": 1e300}"};
    /* pts_ns is field 5 in Record: 2^63 - 1, and -2^63, which means no time. */
    static const uint8_t most[] = {0x28, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f};
    static const uint8_t least[] = {0x28, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01};
    mr_zmq_record record;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(read_text(&record, wrong[i]), MR_ERROR_DATA);
    assert_int_equal(mr_zmq_record_read(&record, most, sizeof most), MR_ERROR_DATA);
    assert_int_equal(mr_zmq_record_read(&record, least, sizeof least), MR_ERROR_DATA);
    assert_int_equal(read_text(&record, "{\"pts\": -3000000000}"), MR_OK);
    assert_int_equal(record.pts_ns, INT64_C(-3000000000) * 1000000000);
}

/* Messages quote the text of an unknown format. The text ends with a whole character. */
TEST(formats_are_cut_between_characters) {
    char format[128] = "";
    mr_zmq_record record;
    for (int i = 0; i < 40; i++)
        strcat(format, "\xc3\xbc");
    assert_int_equal(read_field(&record, FORMAT, format), MR_OK);
    assert_int_equal(strlen(record.format_text), 62);
    assert_int_equal(record.format.payload, MR_PAYLOAD_ANY);
    assert_int_equal(read_field(&record, FORMAT, "a\xff"), MR_OK);
    assert_string_equal(record.format_text, "a");
}

RUN_TESTS(NULL, NULL)
