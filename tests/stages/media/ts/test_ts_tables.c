/* Generated tables: some replace the video, others must not. */
#include <string.h>

#include <libavutil/crc.h>

#include "stages/media/ts/ts_tables.h"
#include "tests/support/suite.h"

enum { H264 = 0x1b, HEVC = 0x24, AUDIO = 0x0f, TABLE = 0x1000, VIDEO = 0x100, OTHER = 0x200 };

static mr_ts_tables tables;

/* Sends one section in as many packets as it needs. Returns the answer to the last packet. */
static bool send(int pid, int table, int number, const uint8_t *body, size_t bytes) {
    uint8_t section[MR_TS_SECTION] = {0, (uint8_t)table, (uint8_t)(0xb0 | (bytes + 9) >> 8), (uint8_t)(bytes + 9),
                                      (uint8_t)(number >> 8), (uint8_t)number, 0xc1, 0, 0};
    bool changed = false;
    memcpy(section + 9, body, bytes);
    const uint32_t sum = av_crc(av_crc_get_table(AV_CRC_32_IEEE), UINT32_MAX, section + 1, bytes + 8);
    memcpy(section + 9 + bytes, &sum, sizeof sum);
    for (size_t at = 0, all = bytes + 13; at < all; at += 184) {
        uint8_t packet[MR_TS_BYTES] = {0x47, (uint8_t)((at == 0) << 6 | pid >> 8), (uint8_t)pid, 0x10};
        memset(packet + 4, 0xff, sizeof packet - 4);
        memcpy(packet + 4, section + at, all - at < 184 ? all - at : 184);
        changed = mr_ts_tables_take(&tables, packet);
    }
    return changed;
}

static bool list(int number) {
    const uint8_t body[] = {0, 0, 0xe0, 0x10, (uint8_t)(number >> 8), (uint8_t)number, 0xe0 | TABLE >> 8, TABLE & 255};
    return send(0, 0, 1, body, sizeof body);
}

/* Sends a program: a stream with this type, audio after it, and `about` descriptor bytes. */
static bool program(int number, int type, int pid, size_t about) {
    uint8_t body[MR_TS_SECTION] = {(uint8_t)(0xe0 | pid >> 8), (uint8_t)pid, (uint8_t)(0xf0 | about >> 8),
                                   (uint8_t)about};
    const uint8_t streams[] = {(uint8_t)type, (uint8_t)(0xe0 | pid >> 8), (uint8_t)pid, 0xf0, 2, 0x52, 1,
                               AUDIO, 0xe1, 0xff, 0xf0, 0};
    memcpy(body + 4 + about, streams, sizeof streams);
    return send(TABLE, 2, number, body, 4 + about + sizeof streams);
}

static int begin(void **state) {
    tables = (mr_ts_tables){0};
    assert_false(list(1));
    assert_false(program(1, H264, VIDEO, 0));
    mr_ts_tables_watch(&tables, VIDEO);
    return 0;
}

TEST_WITH(test_replaced, begin, NULL) {
    assert_true(program(1, H264, OTHER, 0));
    assert_int_equal(tables.changed->table.packet_count, 1);
    assert_false(program(1, H264, VIDEO, 0)); /* ignored until mr_ts_tables_go_on */
    mr_ts_tables_go_on(&tables);
    assert_false(program(1, H264, OTHER, 0));
    assert_true(program(1, HEVC, OTHER, 0));
    mr_ts_tables_go_on(&tables);
    assert_true(program(1, HEVC, VIDEO, 500));
    assert_int_equal(tables.changed->table.packet_count, 3);
}

TEST_WITH(test_another_program, begin, NULL) {
    assert_false(list(7)); /* the video is not known yet */
    assert_true(program(7, H264, OTHER, 0));
    mr_ts_tables_go_on(&tables);
    assert_false(list(7));
    assert_false(program(7, H264, OTHER, 0));
}

TEST_WITH(test_the_same_video, begin, NULL) {
    assert_false(program(1, H264, VIDEO, 300)); /* with other descriptors */
    assert_false(program(1, AUDIO, OTHER, 0));  /* temporarily without video */
    assert_false(program(1, H264, VIDEO, 0));
    assert_false(program(2, H264, OTHER, 0));   /* the program is not listed */
}

/* A damaged section has a wrong checksum. */
TEST_WITH(test_damaged, begin, NULL) {
    static const uint8_t start[] = {0x47, 0x40 | TABLE >> 8, TABLE & 255, 0x10, 0, 2, 0xb0, 18, 0, 1, 0xc1, 0, 0};
    uint8_t packet[MR_TS_BYTES] = {0};
    memcpy(packet, start, sizeof start);
    packet[17] = HEVC;
    assert_false(mr_ts_tables_take(&tables, packet));
    assert_false(program(1, H264, VIDEO, 0));
}

RUN_TESTS(NULL, NULL)
