/* Stream headers: parameter sets after lengths or start codes, and streams without any. */
#include <string.h>

#include "stages/media/coded/nal.h"
#include "tests/support/suite.h"

typedef struct noted {
    size_t count, bytes[8];
    uint8_t first[8];
} noted;

static void note(void *context, mr_nal one) {
    noted *to = context;
    assert_in_range(to->count, 0, 7);
    assert_in_range(one.bytes, 1, 64);
    to->first[to->count] = one.data[0];
    to->bytes[to->count++] = one.bytes;
}

/* HEVC over RTSP without sprop sets has no header. Arithmetic on a null pointer would stop clang's sanitizer. */
TEST(test_no_header) {
    noted found = {0};
    for (int hevc = 0; hevc < 2; hevc++) {
        assert_int_equal(mr_nal_read_header(hevc, NULL, 0, note, &found), 0);
        assert_int_equal(mr_nal_read_header(hevc, NULL, 0, NULL, NULL), 0);
        assert_int_equal(mr_nal_read_header(hevc, (const uint8_t *)"\0\0\1", 3, note, &found), 0);
    }
    assert_int_equal(found.count, 0);
}

TEST(test_start_codes) {
    static const uint8_t sets[] = {0, 0, 0, 1, 0x67, 1, 2, 0, 0, 1, 0x68, 3};
    noted found = {0};
    assert_int_equal(mr_nal_read_header(false, sets, sizeof sets, note, &found), 0);
    assert_int_equal(found.count, 2);
    assert_int_equal(found.first[0], 0x67);
    assert_int_equal(found.bytes[0], 3);
    assert_int_equal(found.first[1], 0x68);
    assert_int_equal(found.bytes[1], 2);
}

/* ISO/IEC 14496-15, 5.3.3.1: one SPS, one PPS, four-byte lengths; also each prefix. */
TEST(test_lengths) {
    static const uint8_t avc[] = {1, 100, 0, 30, 0xff, 0xe1, 0, 2, 0x67, 9, 1, 0, 3, 0x68, 8, 7};
    for (size_t bytes = 0; bytes <= sizeof avc; bytes++) {
        noted found = {0};
        const int length = mr_nal_read_header(false, avc, bytes, note, &found);
        assert_int_equal(length, bytes >= 7 ? 4 : 0);
        assert_int_equal(found.count, (bytes >= 10) + (bytes == sizeof avc));
        if (found.count == 2)
            assert_int_equal(found.first[1], 0x68);
    }
}

RUN_TESTS(NULL, NULL)
