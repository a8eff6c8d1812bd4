/* RTMP messages through a socket, in several chunk sizes, and limits on the messages that a server can begin. */
#include <libavutil/error.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/base/memory.h"
#include "millrace/status.h"
#include "stages/live/rtmp/chunks.h"
#include "tests/support/suite.h"

enum { MOST = 4096, HALF = MOST / 2 };

static mr_rtmp_chunks near, far; /* the two ends of a connection */
static int refusal;

static int open_pair(void **state) {
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    refusal = MR_OK;
    const mr_rtmp_chunks fresh = {.url = "name", .refusal = &refusal, .most_bytes = MOST,
                                  .chunk_bytes = MR_RTMP_CHUNK, .own_chunk_bytes = MR_RTMP_CHUNK};
    near = far = fresh;
    near.socket.fd = fds[0];
    far.socket.fd = fds[1];
    return 0;
}

static int close_pair(void **state) {
    mr_rtmp_chunks_end(&near);
    mr_rtmp_chunks_end(&far);
    return 0;
}

static uint8_t sign(size_t i, uint32_t time_ms) {
    return (uint8_t)(i * 7 + time_ms);
}

static void send_one(uint8_t type, size_t bytes, uint32_t time_ms) {
    uint8_t data[MOST];
    for (size_t i = 0; i < bytes; i++)
        data[i] = sign(i, time_ms);
    const mr_rtmp_message message = {.type = type, .time_ms = time_ms, .stream = 5, .data = data, .bytes = bytes};
    assert_int_equal(mr_rtmp_chunks_write(&near, &message), 0);
}

static void expect(uint8_t type, size_t bytes, uint32_t time_ms) {
    mr_rtmp_message message;
    assert_int_equal(mr_rtmp_chunks_read(&far, &message), 0);
    assert_int_equal(message.type, type);
    assert_int_equal(message.stream, 5);
    assert_int_equal(message.time_ms, time_ms);
    assert_int_equal(message.bytes, bytes);
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(message.data[i], sign(i, time_ms));
    mr_free(message.data);
}

static void skip_control(uint8_t type) {
    mr_rtmp_message message;
    assert_int_equal(mr_rtmp_chunks_read(&far, &message), 0);
    assert_int_equal(message.type, type);
    mr_free(message.data);
}

/* Times of all widths. From 0xffffff ms, or 4.7 hours, they need 32 bits before each chunk. */
TEST_WITH(messages_arrive, open_pair, close_pair) {
    static const uint32_t times[] = {0, 40, 0xfffffe, 0xffffff, 0x1000000, UINT32_MAX};
    static const size_t sizes[] = {0, 1, 127, 128, 129, 256, 1000, MOST};
    for (uint32_t chunk = 1; chunk <= 8192; chunk *= 8) {
        assert_int_equal(mr_rtmp_chunks_number(&near, MR_RTMP_SIZE, chunk), 0);
        skip_control(MR_RTMP_SIZE);
        for (size_t i = 0; i < sizeof times / sizeof *times; i++)
            for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
                send_one(MR_RTMP_VIDEO, sizes[k], times[i]);
                send_one(MR_RTMP_AUDIO, 3, times[i]);
                expect(MR_RTMP_VIDEO, sizes[k], times[i]);
                expect(MR_RTMP_AUDIO, 3, times[i]);
            }
    }
    assert_int_equal(far.declared, 0);
}

TEST_WITH(what_was_read_is_acknowledged, open_pair, close_pair) {
    mr_rtmp_message message;
    assert_int_equal(mr_rtmp_chunks_number(&near, MR_RTMP_WINDOW, 1000), 0);
    skip_control(MR_RTMP_WINDOW);
    send_one(MR_RTMP_VIDEO, 900, 0);
    expect(MR_RTMP_VIDEO, 900, 0);
    assert_false(mr_rtmp_chunks_wait(&near));
    send_one(MR_RTMP_VIDEO, 900, 0);
    expect(MR_RTMP_VIDEO, 900, 0);
    assert_true(mr_rtmp_chunks_wait(&near));
    assert_int_equal(mr_rtmp_chunks_read(&near, &message), 0);
    assert_int_equal(message.type, 3);
    assert_int_equal(message.bytes, 4);
    assert_int_equal((uint32_t)message.data[2] << 8 | message.data[3], far.read);
    mr_free(message.data);
}

/* Sends a message header and the first chunk. */
static void begin(uint8_t id, size_t bytes) {
    uint8_t chunk[12 + MR_RTMP_CHUNK] = {id, [7] = MR_RTMP_VIDEO};
    mr_put24(chunk + 4, bytes);
    const size_t part = 12 + (bytes < MR_RTMP_CHUNK ? bytes : MR_RTMP_CHUNK);
    assert_int_equal(write(near.socket.fd, chunk, part), part);
}

static void expect_refusal(void) {
    mr_rtmp_message message;
    assert_true(mr_rtmp_chunks_read(&far, &message) < 0);
    assert_int_equal(refusal, MR_ERROR_DATA);
}

TEST_WITH(a_message_is_bounded, open_pair, close_pair) {
    begin(5, MOST + 1);
    expect_refusal();
}

TEST_WITH(messages_that_have_begun_are_bounded_together, open_pair, close_pair) {
    far.most_bytes = MR_RTMP_MORE;
    begin(5, MR_RTMP_MORE);
    begin(6, MR_RTMP_MORE - 3);
    begin(7, 3); /* complete at once */
    skip_control(MR_RTMP_VIDEO);
    assert_int_equal(far.declared, 2 * MR_RTMP_MORE - 3);
    begin(8, 4);
    expect_refusal();
}

/* An abort ends an unfinished message; so does the header for another message on the same chunk stream. */
TEST_WITH(a_message_that_is_given_up_no_longer_counts, open_pair, close_pair) {
    for (int i = 0; i < 1000; i++) {
        begin(5, MOST);
        begin(5, MOST - 1);
        assert_int_equal(mr_rtmp_chunks_number(&near, 2, 5), 0);
        skip_control(2);
        assert_int_equal(far.declared, 0);
    }
}

TEST_WITH(chunk_streams_are_bounded, open_pair, close_pair) {
    for (uint8_t id = 3; id < 63; id++) {
        begin(id, 1);
        skip_control(MR_RTMP_VIDEO);
    }
    assert_int_equal(far.count, 60);
    for (int i = 0; i <= MR_RTMP_STREAMS - 60; i++) {
        const uint8_t chunk[] = {0, (uint8_t)i, 0, 0, 0, 0, 0, 1, MR_RTMP_VIDEO, 0, 0, 0, 0, 9};
        assert_int_equal(write(near.socket.fd, chunk, sizeof chunk), sizeof chunk);
        if (i < MR_RTMP_STREAMS - 60)
            skip_control(MR_RTMP_VIDEO);
    }
    expect_refusal();
}

TEST_WITH(the_end_in_a_message, open_pair, close_pair) {
    mr_rtmp_message message;
    begin(5, HALF);
    assert_int_equal(shutdown(near.socket.fd, SHUT_WR), 0);
    assert_int_equal(mr_rtmp_chunks_read(&far, &message), AVERROR_EOF);
}

RUN_TESTS(NULL, NULL)
