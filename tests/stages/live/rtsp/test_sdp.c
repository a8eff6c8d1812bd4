/* Session descriptions, valid and invalid. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "millrace/status.h"
#include "stages/live/rtsp/sdp.h"
#include "tests/support/seeded.h"
#include "tests/support/suite.h"

static mr_sdp sdp;

static int read_text(const char *text) {
    return mr_sdp_read(&sdp, text, strlen(text), "rtsp://camera/x");
}

#define HEAD "v=0\r\no=- 1 1 IN IP4 10.0.0.1\r\ns=x\r\nt=0 0\r\n"

/* A camera's description: audio first, and an absolute URL as the video's control. */
static const char camera[] =
    HEAD "a=control:rtsp://10.0.0.1/s/\r\na=range:npt=now-\r\n"
         "m=audio 0 RTP/AVP 0\r\na=control:rtsp://10.0.0.1/s/trackID=2\r\na=rtpmap:0 PCMU/8000\r\n"
         "m=video 0 RTP/AVP 98 99\r\nb=AS:4000\r\na=control:rtsp://10.0.0.1/s/trackID=1\r\na=framerate:12.5\r\n"
         "a=rtpmap:98 H264/90000\r\n"
         "a=fmtp:98 profile-level-id=420029; packetization-mode=1; "
         "sprop-parameter-sets=Z0IAKeNQFAe2AtwEBAaQeJEV,aM48gA==\r\n"
         "m=video 0 RTP/AVP 100\r\na=control:second\r\na=rtpmap:100 H265/90000\r\n";

TEST(test_a_camera) {
    static const uint8_t sps[] = {0x67, 0x42, 0x00, 0x29, 0xe3, 0x50, 0x14, 0x07, 0xb6,
                                  0x02, 0xdc, 0x04, 0x04, 0x06, 0x90, 0x78, 0x91, 0x15};
    static const uint8_t pps[] = {0x68, 0xce, 0x3c, 0x80};
    assert_int_equal(read_text(camera), MR_OK);
    assert_int_equal(sdp.codec, MR_RTP_H264);
    assert_int_equal(sdp.payload, 98);
    assert_int_equal(sdp.rate, 90000);
    assert_string_equal(sdp.control, "rtsp://10.0.0.1/s/trackID=1");
    assert_string_equal(sdp.session_control, "rtsp://10.0.0.1/s/");
    assert_true(sdp.live && sdp.timed);
    assert_true(sdp.framerate > 12.49 && sdp.framerate < 12.51);
    assert_int_equal(sdp.set_count, 2);
    assert_int_equal(sdp.set_bytes[0], sizeof sps);
    assert_memory_equal(sdp.sets, sps, sizeof sps);
    assert_int_equal(sdp.set_bytes[1], sizeof pps);
    assert_memory_equal(sdp.sets + sizeof sps, pps, sizeof pps);
}

TEST(test_hevc_and_jpeg) {
    assert_int_equal(read_text(HEAD "m=video 0 RTP/AVP 96\na=rtpmap:96 h265/90000\na=control:track1\n"
                                    "a=fmtp:96 sprop-vps=QAEM;sprop-sps=QgEB;sprop-pps=RAHA;tx-mode=SRST\n"), MR_OK);
    assert_int_equal(sdp.codec, MR_RTP_HEVC);
    assert_int_equal(sdp.set_count, 3);
    assert_memory_equal(sdp.sets, "\x40\x01\x0c\x42\x01\x01\x44\x01\xc0", 9);
    assert_true(sdp.timed && !sdp.live);
    assert_int_equal(read_text(HEAD "m=video 0 RTP/AVP 26\r\na=x-dimensions:2592,1944\r\n"), MR_OK);
    assert_int_equal(sdp.codec, MR_RTP_JPEG);
    assert_int_equal(sdp.payload, 26);
    assert_int_equal(sdp.width, 2592);
    assert_int_equal(sdp.height, 1944);
    assert_int_equal(read_text(HEAD "m=video 0 RTP/AVP 96\r\na=rtpmap:96 JPEG/90000\r\na=framesize:96 640-480\r\n"),
                     MR_OK);
    assert_int_equal(sdp.width, 640);
    /* The first known format counts. */
    assert_int_equal(read_text(HEAD "m=video 0 RTP/AVP 96\r\na=rtpmap:96 VP8/90000\r\na=control:a\r\n"
                                    "m=video 0 RTP/AVP 97\r\na=rtpmap:97 H264/90000\r\na=control:b\r\n"), MR_OK);
    assert_int_equal(sdp.payload, 97);
    assert_string_equal(sdp.control, "b");
}

static void expect_refused(const char *text, int status, const char *words) {
    assert_int_equal(read_text(text), status);
    expect_words(mr_message(), words);
}

TEST(test_what_is_refused) {
    expect_refused("", MR_ERROR_DATA, "rtsp://camera/x: does not describe a session");
    expect_refused("<html>\r\n<body>404</body>\r\n", MR_ERROR_DATA, "not SDP");
    expect_refused(HEAD, MR_ERROR_NO_INPUT, "has no video");
    expect_refused(HEAD "m=audio 0 RTP/AVP 0\r\n", MR_ERROR_NO_INPUT, "has no video");
    expect_refused(HEAD "m=video 0 RTP/AVP 96\r\na=rtpmap:96 VP9/90000\r\n", MR_ERROR_UNAVAILABLE, "its video is VP9");
    expect_refused(HEAD "m=video 0 RTP/AVP 96\r\n", MR_ERROR_UNAVAILABLE, "not described");
    expect_refused(HEAD "m=video 0 udp 33\r\n", MR_ERROR_UNAVAILABLE, "its video is udp");
    expect_refused(HEAD "m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=fmtp:96 packetization-mode=2\r\n",
                   MR_ERROR_UNAVAILABLE, "interleaved");
    expect_refused(HEAD "m=video 0 RTP/AVP 96\r\na=rtpmap:96 H265/90000\r\na=fmtp:96 sprop-max-don-diff=3\r\n",
                   MR_ERROR_UNAVAILABLE, "interleaved");
}

/* As cameras write them: quotes, spaces, another name for the codec. */
TEST(test_sloppy_parameters) {
    static const char *const written[] = {
        "sprop-parameter-sets=\"Z0IAKeNQ,aM48gA==\"", "sprop-parameter-sets = Z0IAKeNQ , aM48gA== ; x",
        "; packetization-mode = 1;SPROP-PARAMETER-SETS=\t\"Z0IAKeNQ\",\"aM48gA\" "};
    for (size_t i = 0; i < sizeof written / sizeof *written; i++) {
        char text[512];
        snprintf(text, sizeof text, HEAD "m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=fmtp:96 %s\r\n",
                 written[i]);
        assert_int_equal(read_text(text), MR_OK);
        assert_int_equal(sdp.set_count, 2);
        assert_memory_equal(sdp.sets, "\x67\x42\x00\x29\xe3\x50\x68\xce\x3c\x80", 10);
    }
    assert_int_equal(read_text(HEAD "m=video 0 RTP/AVP 96\r\na=rtpmap:96 HEVC/90000\r\n"), MR_OK);
    assert_int_equal(sdp.codec, MR_RTP_HEVC);
    expect_refused(HEAD "m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=fmtp:96 packetization-mode = \"2\"\r\n",
                   MR_ERROR_UNAVAILABLE, "interleaved");
}

TEST(test_fields_that_are_wrong) {
    static char text[100000];
    /* Each field has an invalid value in turn, and counts as missing. */
    assert_int_equal(read_text(HEAD "a=control:\r\nm=video x RTP/AVP 96\r\na=rtpmap:96 H264/-5\r\na=framerate:-3\r\n"
                                    "a=fmtp:96 sprop-parameter-sets=***,,Z0IAKQ==;;=;sprop-parameter-sets\r\n"
                                    "a=range:npt=\r\na=framesize:96 0-70000\r\na=x-dimensions:-1,99999999\r\n"
                                    "a=\r\na\r\n=\r\nm=\r\n"), MR_OK);
    assert_int_equal(sdp.rate, 90000);
    assert_int_equal(sdp.set_count, 1);
    assert_int_equal(sdp.width, 0);
    assert_true(sdp.framerate == 0);
    assert_int_equal(read_text(HEAD "m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/99999999999\r\na=framerate:1e999\r\n"),
                     MR_OK);
    assert_int_equal(sdp.rate, 90000);
    assert_true(sdp.framerate == 0);
    /* Overlong fields. */
    int bytes = snprintf(text, sizeof text, HEAD "m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=control:");
    memset(text + bytes, 'x', 3000);
    snprintf(text + bytes + 3000, 100, "\r\na=framerate:30\r\n");
    assert_int_equal(read_text(text), MR_OK);
    assert_string_equal(sdp.control, "");
    assert_true(sdp.framerate == 30);
    memset(text + bytes, 'A', 60000);
    text[bytes + 60000] = '\0';
    assert_int_equal(read_text(text), MR_OK);
    memset(text + bytes, 'A', 70000);
    text[bytes + 70000] = '\0';
    expect_refused(text, MR_ERROR_DATA, "more than 65536 bytes");
    /* More sets than fit: only those that fit may be kept. */
    bytes = snprintf(text, sizeof text,
                     HEAD "m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=fmtp:96 sprop-parameter-sets=");
    for (int i = 0; i < 200; i++)
        bytes += snprintf(text + bytes, sizeof text - (size_t)bytes, "%sZ0IAKeNQ", i ? "," : "");
    assert_int_equal(read_text(text), MR_OK);
    assert_int_equal(sdp.set_count, MR_SDP_MOST_SETS);
}

/* Each prefix, and each description with one byte changed, must be read or refused without reading past the end. */
TEST(test_every_cut_and_change) {
    const size_t bytes = strlen(camera);
    FREED char *copy = malloc(bytes);
    assert_non_null(copy);
    for (size_t cut = 0; cut < bytes; cut++) {
        FREED char *exact = malloc(cut + 1); /* so that a sanitizer sees any read past the end */
        memcpy(exact, camera, cut);
        (void)mr_sdp_read(&sdp, exact, cut, "x");
    }
    for (size_t i = 0; i < bytes; i++) {
        memcpy(copy, camera, bytes);
        copy[i] = (char)between(0, 255);
        (void)mr_sdp_read(&sdp, copy, bytes, "x");
        assert_in_range(sdp.set_count, 0, MR_SDP_MOST_SETS);
        assert_in_range(sdp.payload, 0, 127);
    }
}

RUN_TESTS(NULL, NULL)
