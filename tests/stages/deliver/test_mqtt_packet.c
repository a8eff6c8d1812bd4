/* Packets of MQTT: bytes from the standards' own figures, and those that a hostile broker may send. */
#include <string.h>

#include "millrace/status.h"
#include "stages/deliver/mqtt_packet.h"
#include "tests/support/suite.h"

#define BYTES(text) (const uint8_t *)(text), sizeof(text) - 1

/* Reads from a block of exactly that size, so that the address sanitizer sees a read beyond it. */
static int read_packet(mr_mqtt_packet *packet, size_t *used, const uint8_t *data, size_t bytes, int version) {
    FREED uint8_t *copy = malloc(bytes ? bytes : 1);
    memcpy(copy, data, bytes);
    return mr_mqtt_read(packet, used, copy, bytes, version);
}

/* Whole with all its bytes, and with none of its beginnings. */
static mr_mqtt_packet whole(const uint8_t *data, size_t bytes, int version) {
    mr_mqtt_packet packet;
    size_t used = 0;
    for (size_t part = 0; part < bytes; part++)
        assert_int_equal(read_packet(&packet, &used, data, part, version), MR_ERROR_AGAIN);
    assert_int_equal(read_packet(&packet, &used, data, bytes, version), MR_OK);
    assert_int_equal(used, bytes);
    return packet;
}

static void refused(const uint8_t *data, size_t bytes, int version) {
    mr_mqtt_packet packet;
    size_t used;
    assert_int_equal(read_packet(&packet, &used, data, bytes, version), MR_ERROR_PROTOCOL);
    assert_non_null(strstr(mr_message(), "protocol error"));
}

TEST(an_answer_to_connect_has_limits) {
    mr_mqtt_packet packet = whole(BYTES("\x20\x03\0\0\0"), MR_MQTT_5);
    assert_int_equal(packet.type, MR_MQTT_CONNACK);
    assert_int_equal(packet.limits.open, 65535);
    assert_int_equal(packet.limits.bytes, MR_MQTT_MOST_WRITTEN);
    assert_true(packet.limits.retains && packet.limits.quality == 1 && packet.limits.keep_alive_s == -1);
    packet = whole(BYTES("\x20\x17\0\0\x14\x21\0\x05\x27\0\0\x01\0\x24\0\x25\0\x13\0\x0a\x1f\0\x02ok"), MR_MQTT_5);
    assert_int_equal(packet.limits.open, 5);
    assert_int_equal(packet.limits.bytes, 256);
    assert_true(!packet.limits.retains && packet.limits.quality == 0 && packet.limits.keep_alive_s == 10);
    packet = whole(BYTES("\x20\x02\0\x05"), MR_MQTT_311);
    assert_int_equal(packet.reason, 5);
    assert_string_equal(mr_mqtt_reason(5, MR_MQTT_311), "Not authorized");
    packet = whole(BYTES("\x20\x03\0\x87\0"), MR_MQTT_5);
    assert_string_equal(mr_mqtt_reason(packet.reason, MR_MQTT_5), "Not authorized");
    assert_string_equal(mr_mqtt_reason(0xff, MR_MQTT_5), "Unknown reason");
    assert_string_equal(mr_mqtt_reason(0xa2, MR_MQTT_5), "Wildcard subscriptions not supported");
}

/* To CONNECT of MQTT 5 it answers as MQTT 3.1.1 does. */
TEST(a_broker_that_knows_only_the_older_version_refuses) {
    static const char *const words[] = {"Unsupported protocol version", "Client identifier not valid",
                                        "Server unavailable", "Bad user name or password", "Not authorized"};
    for (uint8_t reason = 1; reason <= 5; reason++) {
        const mr_mqtt_packet packet = whole((const uint8_t[]){0x20, 2, 0, reason}, 4, MR_MQTT_5);
        assert_string_equal(mr_mqtt_reason(packet.reason, MR_MQTT_5), words[reason - 1]);
    }
    assert_int_equal(whole(BYTES("\x20\x02\0\x01"), MR_MQTT_5).reason, MR_MQTT_OLD_VERSION);
}

TEST(other_packets_of_a_broker) {
    mr_mqtt_packet packet = whole(BYTES("\x40\x02\x12\x34"), MR_MQTT_311);
    assert_true(packet.type == MR_MQTT_PUBACK && packet.id == 0x1234 && packet.reason == 0);
    packet = whole(BYTES("\x40\x03\0\x01\x97"), MR_MQTT_5);
    assert_true(packet.id == 1 && packet.reason == 0x97);
    packet = whole(BYTES("\x40\x0b\0\x01\x87\x07\x26\0\x01k\0\x01v"), MR_MQTT_5);
    assert_int_equal(packet.reason, MR_MQTT_NOT_AUTHORIZED);
    assert_int_equal(whole(BYTES("\xd0\0"), MR_MQTT_5).type, MR_MQTT_PINGRESP);
    assert_int_equal(whole(BYTES("\xe0\0"), MR_MQTT_5).reason, 0);
    assert_int_equal(whole(BYTES("\xe0\x01\x8e"), MR_MQTT_5).reason, MR_MQTT_TAKEN_OVER);
    packet = whole(BYTES("\x3d\x08\0\x01t\0\x07\0hi"), MR_MQTT_5);
    assert_true(packet.type == MR_MQTT_PUBLISH && packet.quality == 2 && packet.id == 7);
    assert_int_equal(whole(BYTES("\x31\x04\0\x01th"), MR_MQTT_311).quality, 0);
    assert_int_equal(whole(BYTES("\x62\x02\0\x07"), MR_MQTT_5).type, MR_MQTT_PUBREL);
}

TEST(hostile_packets_are_refused) {
    static const struct {
        const char *data;
        size_t bytes;
    } hostile[] = {
#define ROW(text) {text, sizeof(text) - 1}
        ROW("\0\0"), ROW("\x10\0"), ROW("\x80\0"), ROW("\x90\x03\0\x01\0"), ROW("\xf0\0"), ROW("HTTP/1.1"),
        ROW("\x15\x03\x01"), ROW("\x21\x03\0\0\0"), ROW("\x42\x02\0\x01"), ROW("\x60\x02\0\x01"),
        ROW("\x36\x05\0\x01t\0\x01"),
        ROW("\x20\xff\xff\xff\xff"), ROW("\x20\xff\xff\xff\x7f"), ROW("\x20\x81\x80\x04"), /* lengths */
        ROW("\x20\0"), ROW("\x20\x01\0"), ROW("\x20\x02\0\0"), ROW("\x20\x02\0\x06"), ROW("\x20\x02\x01\x01"),
        ROW("\x20\x02\0\x84"), ROW("\x20\x04\0\0\0\0"), ROW("\x20\x03\x02\0\0"),
        ROW("\x20\x03\0\0\x01"), ROW("\x20\x04\0\0\x80\x80"), ROW("\x20\x07\0\0\xff\xff\xff\xff\x7f"),
        ROW("\x20\x05\0\0\x02\x7e\0"), ROW("\x20\x05\0\0\x02\x01\0"), /* properties */
        ROW("\x20\x06\0\0\x03\x80\x80\0"),
        ROW("\x20\x06\0\0\x03\x21\0\0"), ROW("\x20\x08\0\0\x05\x27\0\0\0\0"), ROW("\x20\x05\0\0\x02\x24\x02"),
        ROW("\x20\x09\0\0\x06\x21\0\x01\x21\0\x01"), ROW("\x20\x08\0\0\x05\x1f\xff\xff" "ab"),
        ROW("\x20\x05\0\0\x02\x27\0"),
        ROW("\x20\x09\0\0\x06\x26\0\x01k\0\x09"), ROW("\x20\x04\0\0\x01\x21"),
        ROW("\x40\0"), ROW("\x40\x01\0"), ROW("\x40\x02\0\0"), ROW("\x40\x04\0\x01\0\x01"), ROW("\x40\x05\0\x01\0\0\0"),
        ROW("\x40\x08\0\x01\0\xff\xff\xff\x7f\0"), ROW("\x40\x08\0\x01\0\x04\x21\0\x01\0"), ROW("\xd0\x01\0"),
        ROW("\xe0\x03\0\x02\0"), ROW("\x30\x02\0\x05"), ROW("\x32\x03\0\x01t"), ROW("\x32\x06\0\x01t\0\0\0"),
        ROW("\x30\x05\0\x01t\x09" "a"),
#undef ROW
    };
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++)
        refused((const uint8_t *)hostile[i].data, hostile[i].bytes, MR_MQTT_5);
    refused(BYTES("\xe0\0"), MR_MQTT_311);
    refused(BYTES("\x40\x03\0\x01\0"), MR_MQTT_311);
    refused(BYTES("\x20\x03\0\0\0"), MR_MQTT_311);
}

TEST(what_is_written) {
    mr_mqtt_out out = {0};
    const mr_mqtt_connect five = {.id = "me", .user = "u", .password = "pw", .will_topic = "t", .will = "gone",
                                  .will_retain = true, .keep_alive_s = 30, .version = MR_MQTT_5};
    static const char connect[] = "\x10\x25\0\x04MQTT\x05\xee\0\x1e\x05\x27\0\x01\0\0\0\x02me\0\0\x01t\0\x04gone\0\x01u"
                                  "\0\x02pw";
    assert_true(mr_mqtt_write_connect(&out, &five));
    assert_int_equal(out.bytes, sizeof connect - 1);
    assert_memory_equal(out.data, connect, out.bytes);
    out.bytes = 0;
    const mr_mqtt_connect old = {.id = "me", .will_topic = "t", .will = "", .keep_alive_s = 300,
                                 .version = MR_MQTT_311};
    assert_true(mr_mqtt_write_connect(&out, &old));
    assert_int_equal(out.bytes, 2 + 10 + 4 + 3 + 2);
    assert_memory_equal(out.data, "\x10\x13\0\x04MQTT\x04\x0e\x01\x2c\0\x02me\0\x01t\0\0", out.bytes);
    out.bytes = 0;
    assert_true(mr_mqtt_write_publish(&out, MR_MQTT_5, 0x0102, "a/b", "hi", 2, true));
    assert_memory_equal(out.data, "\x33\x0a\0\x03" "a/b\x01\x02\0hi", out.bytes);
    assert_int_equal(out.bytes, 12);
    assert_int_equal(mr_mqtt_publish_bytes(MR_MQTT_5, "a/b", 2), 12);
    assert_true(mr_mqtt_write_answer(&out, MR_MQTT_PUBCOMP, 7) && mr_mqtt_write_empty(&out, MR_MQTT_PINGREQ));
    assert_memory_equal(out.data + 12, "\x70\x02\0\x07\xc0\0", 6);
    assert_int_equal(out.bytes, 18);
    free(out.data);
}

/* Each form of the length: the lengths at which it grows. */
TEST(lengths_of_messages) {
    static const size_t edges[] = {1, 127, 128, 16383, 16384, 2097151, 2097152};
    FREED char *payload = calloc(1, 2097152);
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
        mr_mqtt_out out = {0};
        const size_t bytes = edges[i] > 5 ? edges[i] - 5 : 0;
        assert_true(mr_mqtt_write_publish(&out, MR_MQTT_311, 1, "t", payload, bytes, false));
        assert_int_equal(out.bytes, mr_mqtt_publish_bytes(MR_MQTT_311, "t", bytes));
        mr_mqtt_packet packet;
        size_t used = 0;
        const int status = mr_mqtt_read(&packet, &used, out.data, out.bytes, MR_MQTT_311);
        assert_int_equal(status, edges[i] > MR_MQTT_MOST_READ ? MR_ERROR_PROTOCOL : MR_OK);
        assert_true(status || (used == out.bytes && packet.quality == 1));
        free(out.data);
    }
}

TEST(topics) {
    FREED char *longest = malloc(65537);
    memset(longest, 'a', 65536);
    longest[65536] = 0;
    assert_true(mr_mqtt_is_topic("a/\xc3\xb6") && mr_mqtt_is_topic("/") && !mr_mqtt_is_topic(longest));
    assert_true(mr_mqtt_is_topic(longest + 1));
    static const char *const wrong[] = {"", "a/+", "#", "a\tb", "\x7f", "\xc2\x85", "\xff", "a\xc3"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(mr_mqtt_is_topic(wrong[i]));
}

RUN_TESTS(NULL, NULL)
