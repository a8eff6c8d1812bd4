/* Encrypted playlist parts: the example in NIST SP 800-38A, F.2.2, with a last block that is PKCS #7 padding. They are
 * truncated at each length, and read in pieces of each size. */
#include <errno.h>
#include <libavutil/error.h>
#include <stdio.h>
#include <string.h>

#include "stages/live/web/sealed.h"
#include "tests/support/suite.h"

enum { BYTES = 64, KEPT = 48 };

static const uint8_t key[] = {0x2b, 0x7e, 0x15, 0x16, 0x28, 0xae, 0xd2, 0xa6, 0xab, 0xf7, 0x15, 0x88,
                              0x09, 0xcf, 0x4f, 0x3c};
static const uint8_t iv[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
static const char cipher[] = "7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b2"
                             "73bed6b8e3c1743b7116e69e222295163ff1caa1681fac09120eca307586e1a7";
static const char plain[] = "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
                            "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710";

static void from_hex(uint8_t *bytes, const char *text) {
    for (size_t i = 0; i < BYTES; i++)
        assert_int_equal(sscanf(text + 2 * i, "%2hhx", &bytes[i]), 1);
}

static AVIOContext *open_bytes(size_t count) {
    char url[64 + 2 * 2 * BYTES] = "data:a/b;base64,";
    static const char signs[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint8_t bytes[BYTES + 2] = {0};
    AVIOContext *io = NULL;
    from_hex(bytes, cipher);
    size_t at = strlen(url);
    for (size_t i = 0; i < count; i += 3) {
        const unsigned three = (unsigned)(bytes[i] << 16 | bytes[i + 1] << 8 | bytes[i + 2]);
        for (size_t k = 0; k < 4; k++)
            url[at++] = i + k > count ? '=' : signs[three >> (18 - 6 * k) & 63];
    }
    assert_true(avio_open2(&io, url, AVIO_FLAG_READ, NULL, NULL) >= 0);
    return io;
}

static int read_all(size_t count, int piece, uint8_t *to) {
    AVIOContext *io = NULL;
    int bytes = 0, got;
    assert_int_equal(mr_sealed_open(&io, open_bytes(count), INT64_MAX, key, iv), 0);
    while ((got = avio_read(io, to + bytes, piece)) > 0)
        bytes += got;
    assert_int_equal(got, AVERROR_EOF);
    assert_true(mr_sealed_close(io));
    return bytes;
}

TEST(a_whole_part) {
    uint8_t wanted[BYTES], got[2 * BYTES];
    from_hex(wanted, plain);
    for (int piece = 1; piece <= BYTES; piece++) {
        assert_int_equal(read_all(BYTES, piece, got), KEPT);
        assert_memory_equal(got, wanted, KEPT);
    }
}

/* The output is a prefix of the text. An incomplete block gives nothing. */
TEST(a_part_that_is_cut_off) {
    uint8_t wanted[BYTES], got[2 * BYTES];
    from_hex(wanted, plain);
    for (size_t count = 1; count < BYTES; count++) {
        const int bytes = read_all(count, BYTES, got);
        assert_int_equal(bytes, count / 16 * 16);
        assert_memory_equal(got, wanted, (size_t)bytes);
    }
}

TEST(a_part_that_is_not_sealed) {
    AVIOContext *from = open_bytes(BYTES);
    assert_false(mr_sealed_close(from));
    avio_close(from);
}

RUN_TESTS(NULL, NULL)
