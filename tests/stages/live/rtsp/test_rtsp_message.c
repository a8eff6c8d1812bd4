/* RTSP messages, URLs and passwords. */
#include <libavutil/md5.h>
#include <libavutil/sha.h>
#include <libavutil/mem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "millrace/status.h"
#include "stages/live/rtsp/rtsp_message.h"
#include "tests/support/suite.h"

static mr_rtsp_message message;

static int read_text(const char *text) {
    return mr_rtsp_message_read(&message, text, strlen(text));
}

TEST(test_messages) {
    static const char answer[] =
        "RTSP/1.0 200 OK\r\nCSeq: 3\r\ncontent-length:  5 \r\nSession: 12;timeout=30\r\n\r\nhelloRTSP";
    char value[32];
    for (size_t cut = 0; cut < sizeof answer - 5; cut++)
        assert_int_equal(mr_rtsp_message_read(&message, answer, cut), MR_ERROR_AGAIN);
    assert_int_equal(read_text(answer), MR_OK);
    assert_int_equal(message.status, 200);
    assert_string_equal(message.words, "OK");
    assert_int_equal(message.bytes, sizeof answer - 5);
    assert_int_equal(message.body_bytes, 5);
    assert_memory_equal(message.body, "hello", 5);
    assert_int_equal(mr_rtsp_header_number(&message, "CSeq", 100, -1), 3);
    assert_true(mr_rtsp_header(&message, "session", 0, value, sizeof value));
    assert_false(mr_rtsp_header(&message, "session", 1, value, sizeof value));
    assert_false(mr_rtsp_header(&message, "session", 0, value, 13)); /* buffer too small */
    assert_string_equal(value, "12;timeout=30");
    assert_true(mr_rtsp_field("12;timeout=30", "timeout", value, sizeof value));
    assert_string_equal(value, "30");
    /* Without carriage returns, without a reason, and a request from the server. */
    assert_int_equal(read_text("RTSP/1.0 404\n\n"), MR_OK);
    assert_int_equal(message.status, 404);
    assert_int_equal(read_text("OPTIONS rtsp://x RTSP/1.0\r\nCSeq: 1\r\n\r\n"), MR_OK);
    assert_int_equal(message.status, 0);
    assert_string_equal(message.words, "OPTIONS");
}

TEST(test_messages_that_are_wrong) {
    static char endless[MR_RTSP_MOST_HEAD + 100];
    static const char *const wrong[] = {"HTTP/1.1 200 OK\r\n\r\n", "RTSP/1.0 2x0 OK\r\n\r\n", "RTSP/1.0\r\n\r\n",
                                        "\r\n\r\n", "RTSP/1.0 099 X\r\n\r\n",
                                        "RTSP/1.0 200 OK\r\nContent-Length: 99999999999999\r\n\r\n",
                                        "RTSP/1.0 200 OK\r\nContent-Length: 65537\r\n\r\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(read_text(wrong[i]), MR_ERROR_DATA);
    memset(endless, 'x', sizeof endless - 1);
    assert_int_equal(mr_rtsp_message_read(&message, endless, MR_RTSP_MOST_HEAD - 1), MR_ERROR_AGAIN);
    assert_int_equal(read_text(endless), MR_ERROR_DATA);
    assert_int_equal(read_text("RTSP/1.0 200 OK\r\nContent-Length: -5\r\n\r\n"), MR_OK);
    assert_int_equal(message.body_bytes, 0);
}

TEST(test_urls) {
    mr_rtsp_url url;
    char joined[64];
    assert_int_equal(mr_rtsp_url_read(&url, "rtsp://user:pa@ss@10.0.0.5:8554/a/b?c=d@e"), MR_OK);
    assert_string_equal(url.text, "rtsp://10.0.0.5:8554/a/b?c=d@e");
    assert_string_equal(url.host, "10.0.0.5");
    assert_string_equal(url.port, "8554");
    assert_int_equal(mr_rtsp_url_read(&url, "RTSPS://[fe80::1]/x"), MR_OK);
    assert_string_equal(url.host, "fe80::1");
    assert_string_equal(url.port, "322");
    assert_true(url.tls);
    assert_int_equal(mr_rtsp_url_read(&url, "rtsp://camera"), MR_OK);
    assert_string_equal(url.port, "554");
    static const char *const wrong[] = {"http://x/", "rtsp://", "rtsp:///x", "rtsp://a:0/", "rtsp://a:99999/",
                                        "rtsp://a:x/", "rtsp://a/b c", "rtsp://a/b\nc", "rtsp://[::1/x",
                                        "rtsp://[::1]x/"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (mr_rtsp_url_read(&url, wrong[i]) != MR_ERROR_CONFIG)
            fail_msg("%s is read", wrong[i]);
    static const struct {
        const char *base, *control, *url;
    } joins[] = {{"rtsp://h/s/", "trackID=1", "rtsp://h/s/trackID=1"},
                 {"rtsp://h/s", "trackID=1", "rtsp://h/s/trackID=1"},
                 {"rtsp://h/s", "*", "rtsp://h/s"}, {"rtsp://h/s", "", "rtsp://h/s"},
                 {"rtsp://h/s", "rtsp://g/t", "rtsp://g/t"}, {"rtsp://h/s/", "/t", "rtsp://h/s/t"}};
    for (size_t i = 0; i < sizeof joins / sizeof *joins; i++) {
        assert_true(mr_rtsp_url_join(joined, sizeof joined, joins[i].base, joins[i].control));
        assert_string_equal(joined, joins[i].url);
    }
    assert_false(mr_rtsp_url_join(joined, sizeof joined, "rtsp://h/s", "a\r\nPLAY"));
    assert_false(mr_rtsp_url_join(joined, 12, "rtsp://h/s", "abc"));
}

/* ---- passwords --------------------------------------------------------------------------------------------------- */

static char line[4096];

static void answer_to(mr_rtsp_auth *auth, const char *challenges) {
    char text[2048];
    snprintf(text, sizeof text, "RTSP/1.0 401 Unauthorized\r\nCSeq: 2\r\n%s\r\n", challenges);
    assert_int_equal(read_text(text), MR_OK);
    assert_true(mr_rtsp_auth_read(auth, &message, false));
    assert_true(mr_rtsp_auth_write(auth, line, sizeof line, "Mufasa", "Circle Of Life", "GET", "/dir/index.html"));
}

static void expect(const char *part) {
    expect_words(line, part);
}

#define NONCE "realm=\"testrealm@host.com\", nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\""

TEST(test_passwords) {
    mr_rtsp_auth auth = {0};
    answer_to(&auth, "WWW-Authenticate: Basic realm=\"x\"\r\n");
    assert_string_equal(line, "Authorization: Basic TXVmYXNhOkNpcmNsZSBPZiBMaWZl\r\n");
    /* RFC 2069. Python computed the responses. */
    answer_to(&auth, "WWW-Authenticate: Basic realm=\"x\"\r\nWWW-Authenticate: Digest " NONCE ", stale=FALSE\r\n");
    expect("username=\"Mufasa\", " NONCE ", uri=\"/dir/index.html\", response=\"670fd8c2df070c60b045671b8b24ff02\"");
    answer_to(&auth, "WWW-Authenticate: Digest " NONCE "\r\nWWW-Authenticate: Digest " NONCE ", algorithm=SHA-256\r\n");
    expect("response=\"e71f89d8267982ee1cd4dfb3637698eaf2f55848fe056aee7be175262aab5d2a\"");
    assert_false(mr_rtsp_auth_write(&auth, line, 100, "Mufasa", "x", "GET", "/"));
    assert_false(mr_rtsp_auth_write(&auth, line, sizeof line, "a\"b", "x", "GET", "/"));
}

/* Computes a hash with libavutil, in hexadecimal. */
static void hash(bool sha, char hex[65], const char *text) {
    uint8_t sum[32];
    if (sha) {
        struct AVSHA *of = av_sha_alloc();
        av_sha_init(of, 256);
        av_sha_update(of, (const uint8_t *)text, strlen(text));
        av_sha_final(of, sum);
        av_free(of);
    } else {
        av_md5_sum(sum, (const uint8_t *)text, strlen(text));
    }
    for (int i = 0; i < (sha ? 32 : 16); i++)
        snprintf(hex + 2 * i, 3, "%02x", sum[i]);
}

/* With qop, the response must contain our own random number. */
static void check_quality(bool sha, bool session, uint32_t count) {
    char first[65], second[65], wanted[65], text[512], own[33], part[128];
    const char *at = strstr(line, "cnonce=\"");
    assert_non_null(at);
    memcpy(own, at + 8, 32);
    own[32] = '\0';
    hash(sha, first, "Mufasa:testrealm@host.com:Circle Of Life");
    if (session) {
        snprintf(text, sizeof text, "%s:dcd98b7102dd2f0e8b11d0f600bfb0c093:%s", first, own);
        hash(sha, first, text);
    }
    hash(sha, second, "GET:/dir/index.html");
    snprintf(text, sizeof text, "%s:dcd98b7102dd2f0e8b11d0f600bfb0c093:%08x:%s:auth:%s", first, count, own, second);
    hash(sha, wanted, text);
    snprintf(part, sizeof part, "response=\"%s\"", wanted);
    expect(part);
    expect("opaque=\"5ccc\"");
    snprintf(part, sizeof part, "nc=%08x,", count);
    expect(part);
}

TEST(test_passwords_with_quality) {
    static const char *const names[] = {"MD5", "MD5-sess", "SHA-256", "SHA-256-sess"};
    for (int i = 0; i < 4; i++) {
        mr_rtsp_auth auth = {0};
        char offer[512];
        snprintf(offer, sizeof offer,
                 "WWW-Authenticate: Digest " NONCE ", qop=\"auth-int,auth\", opaque=\"5ccc\", algorithm=%s\r\n",
                 names[i]);
        answer_to(&auth, offer);
        check_quality(i >= 2, i % 2, 1);
        assert_true(mr_rtsp_auth_write(&auth, line, sizeof line, "Mufasa", "Circle Of Life", "GET", "/dir/index.html"));
        check_quality(i >= 2, i % 2, 2);
    }
}

TEST(test_offers_that_are_wrong) {
    static const char *const offers[] = {"", "WWW-Authenticate: Digest\r\n", "WWW-Authenticate: Digest realm=\"x\"\r\n",
                                         "WWW-Authenticate: Negotiate\r\n",
                                         "WWW-Authenticate: Digest realm=\"x\", nonce=\"y\", algorithm=SHA-512\r\n",
                                         "WWW-Authenticate: Digest realm=\"x\", nonce=\"y\", qop=\"auth-int\"\r\n",
                                         "WWW-Authenticate: Digest realm=\"a\\\"b\", nonce=\"y\"\r\n",
                                         "WWW-Authenticate: Digest realm=\"x, nonce=\"y\r\n"};
    for (size_t i = 0; i < sizeof offers / sizeof *offers; i++) {
        mr_rtsp_auth auth = {0};
        char text[512];
        snprintf(text, sizeof text, "RTSP/1.0 401 Unauthorized\r\n%s\r\n", offers[i]);
        assert_int_equal(read_text(text), MR_OK);
        if (mr_rtsp_auth_read(&auth, &message, false))
            fail_msg("%s is taken", offers[i]);
        assert_true(mr_rtsp_auth_write(&auth, line, sizeof line, "a", "b", "GET", "/"));
        assert_string_equal(line, "");
    }
}

RUN_TESTS(NULL, NULL)
