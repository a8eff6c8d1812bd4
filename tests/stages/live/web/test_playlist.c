/* HLS playlists by RFC 8216, 4.3: the meaning of lines, the chosen variant, and playlists that must be refused
 * whole. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/memory.h"
#include "millrace/status.h"
#include "stages/live/web/playlist.h"
#include "tests/support/suite.h"

#define MEDIA "#EXTM3U\n#EXT-X-TARGETDURATION:6\n"
#define MASTER "#EXTM3U\n#EXT-X-STREAM-INF:"

static int parse_bytes(mr_playlist *list, const char *text, size_t bytes) {
    char *copy = mr_alloc(bytes + 1);
    memcpy(copy, text, bytes);
    return mr_playlist_parse(list, "http://a/b", copy, bytes);
}

static int parse(mr_playlist *list, const char *text) {
    return parse_bytes(list, text, strlen(text));
}

TEST(segments) {
    mr_playlist list;
    assert_int_equal(parse(&list, "\xEF\xBB\xBF#EXTM3U\r\n#EXT-X-TARGETDURATION:6\r\n#EXT-X-MEDIA-SEQUENCE:7\r\n"
                                  "#EXT-X-DISCONTINUITY-SEQUENCE:2\r\n#EXTINF:5.25,a, title\r\n a b.ts?x=1 \r\n\r\n"
                                  "# comment\r\n#EXT-X-PART:DURATION=1,URI=\"file:///x\"\r\n#EXT-X-DISCONTINUITY\r\n"
                                  "#EXTINF:6,\r\nhttps://h/c.ts\r\n#EXT-X-GAP\r\n#EXTINF:99999999999999999999,\r\n"
                                  "d.ts\r\n"
                                  "#EXT-X-ENDLIST"), MR_OK);
    assert_int_equal(list.count, 3);
    assert_int_equal(list.sequence, 7);
    assert_int_equal(list.discontinuities, 2);
    assert_int_equal(list.target_ns, 6000000000);
    assert_true(list.ended);
    assert_string_equal(list.segments[0].uri, "a b.ts?x=1");
    assert_int_equal(list.segments[0].duration_ns, 5250000000);
    assert_false(list.segments[0].discontinuity);
    assert_string_equal(list.segments[1].uri, "https://h/c.ts");
    assert_true(list.segments[1].discontinuity);
    assert_true(!list.segments[1].gap && list.segments[2].gap);
    assert_int_equal(list.segments[2].duration_ns, 0);
    mr_playlist_fini(&list);
    assert_int_equal(parse(&list, MEDIA "#EXT-X-PLAYLIST-TYPE:EVENT\n2026:1.ts\n"), MR_OK);
    assert_false(list.ended);
    assert_int_equal(list.discontinuities, -1);
    assert_int_equal(list.sequence, 0);
    mr_playlist_fini(&list);
    assert_int_equal(parse(&list, "\xEF\xBB\xBF\r\n \t\n #EXTM3U\n\n  #EXT-X-TARGETDURATION:6\n\n"
                                  "\t#EXTINF:2\n \ta.ts\t \n"), MR_OK);
    assert_true(list.count == 1 && list.segments[0].duration_ns == 2000000000);
    assert_string_equal(list.segments[0].uri, "a.ts");
    mr_playlist_fini(&list);
    assert_int_equal(parse(&list, MEDIA "#EXT-X-PLAYLIST-TYPE:VOD\n"), MR_OK);
    assert_true(list.ended && !list.count);
    mr_playlist_fini(&list);
}

TEST(ranges) {
    ENDED_BY(mr_playlist_fini) mr_playlist list;
    assert_int_equal(parse(&list, MEDIA "#EXT-X-MAP:BYTERANGE=\"50@2\",URI=\"a\"\n#EXT-X-BYTERANGE:100@52\na\n"
                                  "#EXT-X-BYTERANGE:20\na\n#EXT-X-BYTERANGE:8@0\nb\nc\n#EXT-X-MAP:URI=\"m\"\nd\n"),
                     MR_OK);
    static const int64_t wanted[][3] = {{52, 100, 1}, {152, 20, 1}, {0, 8, 1}, {0, 0, 1}, {0, 0, 2}};
    assert_int_equal(list.count, 5);
    for (size_t i = 0; i < list.count; i++) {
        assert_int_equal(list.segments[i].bytes, wanted[i][1]);
        assert_int_equal(list.segments[i].map, wanted[i][2]);
        if (wanted[i][1])
            assert_int_equal(list.segments[i].first, wanted[i][0]);
    }
    assert_true(list.maps[0].first == 2 && list.maps[0].bytes == 50 && !list.maps[0].key);
    assert_string_equal(list.maps[0].uri, "a");
    assert_true(list.maps[1].first == 0 && list.maps[1].bytes == 0);
}

TEST(keys) {
    ENDED_BY(mr_playlist_fini) mr_playlist list;
    assert_int_equal(parse(&list, MEDIA "#EXT-X-KEY:METHOD=AES-128,URI=\"k,1\",IV=0X000102030405060708090a0B0c0D0e0F\n"
                                  "#EXT-X-MAP:URI=\"m\"\na\nb\n"
                                  "#EXT-X-KEY:METHOD=AES-128,URI=\"k2\",KEYFORMAT=\"identity\"\nc\n"
                                  "#EXT-X-KEY:METHOD=NONE\nd\n"
                                  "#EXT-X-KEY:METHOD=AES-128,URI=\"skd://x\",KEYFORMAT=\"com.apple\"\n"
                                  "#EXT-X-KEY:METHOD=AES-128,URI=\"k3\"\ne\n"
                                  "#EXT-X-KEY:METHOD=AES-128,URI=\"skd://y\",KEYFORMAT=\"com.apple\"\nf\n"), MR_OK);
    static const uint32_t wanted[] = {1, 1, 2, 0, 3, 3};
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(list.segments[i].key, wanted[i]);
    assert_string_equal(list.keys[0].uri, "k,1");
    assert_true(list.keys[0].has_iv && !list.keys[1].has_iv);
    for (int i = 0; i < MR_PLAYLIST_IV; i++)
        assert_int_equal(list.keys[0].iv[i], i);
    assert_int_equal(list.maps[0].key, 1);
}

#define LOW "BANDWIDTH=900,RESOLUTION=320x240\nlow\n"
#define HIGH "RESOLUTION=1920x1080,BANDWIDTH=100,CODECS=\"avc1.64,mp4a.40.2\"\nhigh\n"
#define RICH "CODECS=\"hvc1.1\",RESOLUTION=1920x1080,BANDWIDTH=500\nrich\n"
#define SOUND "BANDWIDTH=9000,CODECS=\"mp4a.40.2, ac-3\"\nsound\n"
#define AND "#EXT-X-STREAM-INF:"

TEST(variants) {
    static const struct {
        const char *text;
        int64_t max_pixels;
        int wanted;
        const char *chosen;
    } cases[] = {
        {MASTER LOW AND HIGH AND RICH AND SOUND, 1 << 30, -1, "rich"},
        {MASTER SOUND AND RICH AND HIGH AND LOW, 1 << 30, -1, "rich"},
        {MASTER LOW AND HIGH AND RICH, 320 * 240, -1, "low"},
        {MASTER LOW AND HIGH AND RICH, 1 << 30, 1, "high"},
        {MASTER LOW AND HIGH AND RICH, 1 << 30, 3, NULL},
        {MASTER LOW AND HIGH, 100, -1, NULL},
        {MASTER SOUND, 1 << 30, -1, NULL},
        {MASTER "BANDWIDTH=5\na\n" AND "BANDWIDTH=7\nb\n" AND "\nc\n", 1 << 30, -1, "b"},
        {MASTER "BANDWIDTH=5\na\n#EXT-X-I-FRAME-STREAM-INF:BANDWIDTH=9,URI=\"i\"\n#EXT-X-MEDIA:TYPE=AUDIO,URI=\"s\"\n",
         1 << 30, -1, "a"},
        {MASTER "BANDWIDTH=5.5,RESOLUTION=8.0x4.0\na\n" AND "BANDWIDTH=9,RESOLUTION=9X4\nb\n", 35, -1, "a"},
        {MASTER "BANDWIDTH=None,RESOLUTION=unknown\na\n", 1 << 30, -1, "a"},
        {MASTER "BANDWIDTH=-1,RESOLUTION=9999999999x2\na\n" AND "BANDWIDTH=1,RESOLUTION=2x\nb\n", 1 << 30, -1, "b"},
        {MASTER "RESOLUTION=0x0,CODECS=\"avc1\"\na\n", 1 << 30, -1, "a"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ENDED_BY(mr_playlist_fini) mr_playlist list;
        assert_int_equal(parse(&list, cases[i].text), MR_OK);
        const mr_variant *best = mr_playlist_choose(&list, "n", cases[i].max_pixels, cases[i].wanted);
        assert_int_equal(best != NULL, cases[i].chosen != NULL);
        if (best)
            assert_string_equal(best->uri, cases[i].chosen);
    }
}

TEST(refused) {
    static const struct {
        const char *text;
        int status;
        const char *words;
    } cases[] = {
        {"", MR_ERROR_DATA, "does not begin with #EXTM3U"},
        {" a\n#EXTM3U\n", MR_ERROR_DATA, "does not begin with #EXTM3U"},
        {"#EXTM3U\n#EXTINF:-1,News\nhttp://h/live.m3u8\n", MR_ERROR_DATA, "not a playlist of HLS"},
        {MEDIA "file:///etc/hostname\n", MR_ERROR_DATA, "line 3 of its playlist: it leads to an address"},
        {MEDIA "a.ts\nconcat:a|b\n", MR_ERROR_DATA, "line 4"},
        {MEDIA "data:,x\n", MR_ERROR_DATA, "not of http"},
        {MEDIA "crypto+http://h/x\n", MR_ERROR_DATA, "not of http"},
        {MEDIA "gopher://x\n", MR_ERROR_DATA, "not of http"},
        {MEDIA "#EXT-X-MAP:URI=\"file:x\"\na\n", MR_ERROR_DATA, "line 3"},
        {MEDIA "#EXT-X-KEY:METHOD=AES-128,URI=\"subfile,,x:y\"\na\n", MR_OK, ""}, /* a name: it has no scheme */
        {MEDIA "#EXT-X-KEY:METHOD=AES-128,URI=\"async:y\"\na\n", MR_ERROR_DATA, "not of http"},
        {MASTER "BANDWIDTH=1\nfile:x\n", MR_ERROR_DATA, "not of http"},
        {MEDIA "a\rb.ts\n", MR_ERROR_DATA, "signs that cannot be asked for"},
        {MEDIA "#EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"k\"\na\n", MR_ERROR_UNAVAILABLE, "only AES-128"},
        {MEDIA "#EXT-X-KEY:METHOD=AES-128,URI=\"k\",KEYFORMAT=\"com.apple\"\na\n", MR_ERROR_UNAVAILABLE, "protected"},
        {MEDIA "#EXT-X-KEY:METHOD=AES-128,URI=\"k\"\na\n#EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"k\"\na\n",
         MR_ERROR_UNAVAILABLE, "only AES-128"},
        {MEDIA "#EXT-X-KEY:METHOD=AES-128\na\n", MR_ERROR_DATA, "(URI) is missing"},
        {MEDIA "#EXT-X-KEY:METHOD=AES-128,IV=0x12,URI=\"k\"\na\n", MR_ERROR_DATA, "the IV"},
        {MEDIA "#EXT-X-KEY:METHOD=AES-128,IV=0x0000000000000000000000000000000g,URI=\"k\"\na\n", MR_ERROR_DATA,
         "the IV"},
        {MEDIA "#EXT-X-MEDIA-SEQUENCE:x\na\n", MR_ERROR_DATA, "is not understood"},
        {MEDIA "#EXT-X-MEDIA-SEQUENCE:9999999999999999999\na\n", MR_ERROR_DATA, "is not understood"},
        {MEDIA "#EXT-X-MEDIA-SEQUENCE:20000000000000000000\na\n", MR_ERROR_DATA, "is not understood"},
        {MEDIA "a\n#EXT-X-MEDIA-SEQUENCE:1\n", MR_ERROR_DATA, "comes after it"},
        {MEDIA "#EXT-X-BYTERANGE:10\na\n", MR_ERROR_DATA, "follows none"},
        {MEDIA "#EXT-X-BYTERANGE:0@1\na\n", MR_ERROR_DATA, "not understood"},
        {MEDIA "#EXT-X-BYTERANGE:2000000000000000000@2000000000000000000\na\n", MR_ERROR_DATA, "too long"},
        {MEDIA "#EXT-X-SKIP:SKIPPED-SEGMENTS=3\na\n", MR_ERROR_DATA, "EXT-X-SKIP"},
        {MEDIA "#EXT-X-DEFINE:NAME=\"a\",VALUE=\"b\"\na\n", MR_ERROR_UNAVAILABLE, "variables"},
        {MASTER "BANDWIDTH=1\na\nb\n", MR_ERROR_DATA, "both variants and segments"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mr_playlist list;
        assert_int_equal(parse(&list, cases[i].text), cases[i].status);
        if (cases[i].status)
            expect_words(mr_message(), cases[i].words);
        else
            mr_playlist_fini(&list);
    }
    mr_playlist list;
    assert_int_equal(parse_bytes(&list, MEDIA "a\0b", sizeof MEDIA "a\0b" - 1), MR_ERROR_DATA);
}

/* Parses `head`, then `piece` repeated `count` times: a long address, or many lines. */
static int parse_long(const char *head, const char *piece, size_t count) {
    const size_t bytes = strlen(head), step = strlen(piece);
    char *text = mr_alloc(bytes + count * step + 1);
    memcpy(text, head, bytes);
    for (size_t i = 0; i < count; i++)
        memcpy(text + bytes + i * step, piece, step);
    mr_playlist list;
    const int status = mr_playlist_parse(&list, "n", text, bytes + count * step);
    if (!status)
        mr_playlist_fini(&list);
    return status;
}

TEST(bounds) {
    assert_int_equal(parse_long(MEDIA, "a", MR_PLAYLIST_MOST_ADDRESS), MR_OK);
    assert_int_equal(parse_long(MEDIA, "a", MR_PLAYLIST_MOST_ADDRESS + 1), MR_ERROR_DATA);
    assert_int_equal(parse_long(MEDIA "#", "a", 100000), MR_OK);
    assert_int_equal(parse_long(MEDIA, "a\n", MR_PLAYLIST_MOST_SEGMENTS), MR_OK);
    assert_int_equal(parse_long(MEDIA, "a\n", MR_PLAYLIST_MOST_SEGMENTS + 1), MR_ERROR_DATA);
    assert_int_equal(parse_long("#EXTM3U\n", "#EXT-X-STREAM-INF:\na\n", MR_PLAYLIST_MOST_VARIANTS), MR_OK);
    assert_int_equal(parse_long("#EXTM3U\n", "#EXT-X-STREAM-INF:\na\n", MR_PLAYLIST_MOST_VARIANTS + 1), MR_ERROR_DATA);
}

/* A playlist with all supported tags: each byte changed, and cut after each byte. */
TEST(damaged) {
    static const char text[] = MEDIA "#EXT-X-MEDIA-SEQUENCE:5\n#EXT-X-KEY:METHOD=AES-128,URI=\"k\",IV="
                               "0x00000000000000000000000000000001\n#EXT-X-MAP:URI=\"m\",BYTERANGE=\"1@2\"\n"
                               "#EXT-X-BYTERANGE:3@4\n#EXTINF:1.5,\na.ts\n#EXT-X-BYTERANGE:3\na.ts\n#EXT-X-ENDLIST\n";
    static const char signs[] = {'\0', '\n', '\r', '"', ',', ':', '=', '#', '@', '9', (char)0xff};
    for (size_t at = 0; at < sizeof text; at++)
        for (size_t i = 0; i <= sizeof signs; i++) {
            char changed[sizeof text];
            mr_playlist list;
            memcpy(changed, text, sizeof text);
            if (i < sizeof signs)
                changed[at] = signs[i];
            if (parse_bytes(&list, changed, i < sizeof signs ? sizeof text - 1 : at) == MR_OK)
                mr_playlist_fini(&list);
        }
}

RUN_TESTS(NULL, NULL)
