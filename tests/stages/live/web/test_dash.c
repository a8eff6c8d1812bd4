/* Manifests of DASH as playlists: each way in which segments are told, by the rules of ISO/IEC 23009-1, 5.3.9; live
 * ones from one to the next; what is refused; and manifests that are damaged at random. That playlists of FFmpeg's
 * manifests are played is tests/e2e/live/test_streams.py's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/memory.h"
#include "millrace/status.h"
#include "stages/live/web/dash.h"
#include "tests/support/seeded.h"

#define MPD(type, content) \
    "<?xml version='1.0'?>\n<MPD xmlns='urn:mpeg:dash:schema:mpd:2011' type='" type "' " content "</MPD>"
#define STATIC(content) MPD("static", "mediaPresentationDuration='PT10S'>" content)
#define SET(content) "<Period><AdaptationSet contentType='video'>" content "</AdaptationSet></Period>"
#define VIDEO(content) "<Representation id='v1' bandwidth='1000'>" content "</Representation>"
#define HEAD(longest, number) \
    "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:" longest "\n#EXT-X-MEDIA-SEQUENCE:" number "\n"
#define MAP(url) "#EXT-X-MAP:URI=\"http://a/b/" url "\"\n"
#define PART(seconds, url) "#EXTINF:" seconds ",\nhttp://a/b/" url "\n"
#define END "#EXT-X-ENDLIST\n"
#define FIRST "1048576"

static const int64_t now_ns = INT64_C(1000000000) * 1000000; /* 1970-01-12T13:46:40Z */

static int translate(mr_dash *dash, const char *text, size_t bytes, int stream, char **playlist) {
    const mr_dash_params params = {.url = "http://a/b/x.mpd?k=v", .name = "source", .date_ns = now_ns,
                                   .max_pixels = 1280 * 720, .stream = stream};
    return mr_dash_to_hls(dash, &params, text, bytes, playlist);
}

static void expect(mr_dash *dash, const char *manifest, const char *wanted) {
    char *playlist = NULL;
    mr_dash own = {0};
    assert_int_equal(translate(dash ? dash : &own, manifest, strlen(manifest), -1, &playlist), MR_OK);
    assert_non_null(playlist);
    assert_string_equal(playlist, wanted);
    mr_free(playlist);
    mr_dash_fini(&own);
}

/* ---- recorded ---------------------------------------------------------------------------------------------------- */

static const char timeline[] = STATIC("<BaseURL>d/</BaseURL>" SET(
    "<SegmentTemplate timescale='100' initialization='i-$RepresentationID$.mp4' startNumber='7' "
    "media='$Bandwidth$/$Number%03d$-$Time$.m4s' presentationTimeOffset='50'><SegmentTimeline>"
    "<S t='50' d='400' r='1'/><S d='250'/></SegmentTimeline></SegmentTemplate>" VIDEO("<BaseURL>\n e/ \n</BaseURL>")));

static void templates(void **state) {
    (void)state;
    expect(NULL, timeline, HEAD("4", FIRST) MAP("d/e/i-v1.mp4") PART("4.000000", "d/e/1000/007-50.m4s")
           PART("4.000000", "d/e/1000/008-450.m4s") PART("2.500000", "d/e/1000/009-850.m4s") END);
    /* Of one length: as many as the whole has, the last one shorter. */
    expect(NULL, STATIC(SET("<SegmentTemplate duration='4' media='$$$Number$.m4s'/>" VIDEO(""))),
           HEAD("4", FIRST) PART("4.000000", "$1.m4s") PART("4.000000", "$2.m4s") PART("4.000000", "$3.m4s") END);
    /* Described in several places: the innermost counts. */
    expect(NULL, STATIC("<Period><SegmentTemplate duration='5' startNumber='3' media='p$Number$'/>"
           "<AdaptationSet mimeType='video/mp4'>"
           "<SegmentTemplate media='s$Number$'/>" VIDEO("") "</AdaptationSet></Period>"),
           HEAD("5", FIRST) PART("5.000000", "s3") PART("5.000000", "s4") END);
    /* To the end of the period. */
    expect(NULL, STATIC(SET("<SegmentTemplate media='$Time$'><SegmentTimeline><S t='0' d='2' r='-1'/><S t='6' d='4'/>"
           "</SegmentTimeline></SegmentTemplate>" VIDEO(""))),
           HEAD("4", FIRST) PART("2.000000", "0") PART("2.000000", "2") PART("2.000000", "4")
           PART("4.000000", "6") END);
}

static void lists_and_files(void **state) {
    (void)state;
    expect(NULL, STATIC(SET(VIDEO("<SegmentList duration='5'><Initialization sourceURL='/i'/><SegmentURL media='?1'/>"
           "<SegmentURL media='//c/2'/></SegmentList>"))),
           HEAD("5", FIRST) "#EXT-X-MAP:URI=\"http://a/i\"\n" PART("5.000000", "x.mpd?1")
           "#EXTINF:5.000000,\nhttp://c/2\n" END);
    expect(NULL, STATIC(SET(VIDEO("<BaseURL>v.mp4</BaseURL><SegmentList duration='5'><Initialization range='0-99'/>"
           "<SegmentURL mediaRange='100-299'/><SegmentURL mediaRange='300-310'/></SegmentList>"))),
           HEAD("5", FIRST) "#EXT-X-MAP:URI=\"http://a/b/v.mp4\",BYTERANGE=\"100@0\"\n"
           "#EXTINF:5.000000,\n#EXT-X-BYTERANGE:200@100\nhttp://a/b/v.mp4\n"
           "#EXTINF:5.000000,\n#EXT-X-BYTERANGE:11@300\nhttp://a/b/v.mp4\n" END);
    expect(NULL, STATIC(SET(VIDEO("<BaseURL>a \"b\".mp4</BaseURL><SegmentBase indexRange='1-2'/>"))),
           HEAD("10", FIRST) PART("10.000000", "a") END);
    expect(NULL, STATIC(SET(VIDEO("<BaseURL>a\"b.mp4</BaseURL>"))),
           HEAD("10", FIRST) PART("10.000000", "a%22b.mp4") END);
}

#define PERIOD(attributes, name) \
    "<Period " attributes "><BaseURL>" name "/</BaseURL><AdaptationSet contentType='audio'>" \
    "<Representation id='a' bandwidth='9999999'/></AdaptationSet><AdaptationSet contentType='video'><SegmentTemplate " \
    "duration='5' initialization='i' media='$RepresentationID$-$Number$'/>" \
    "<Representation id='small' bandwidth='10' width='320' height='180'/>" \
    "<Representation id='fits' bandwidth='30' width='1280' height='720'/>" \
    "<Representation id='other' bandwidth='20' width='1280' height='720'/>" \
    "<Representation id='large' bandwidth='90' width='1920' height='1080'/></AdaptationSet></Period>"

static void several_videos_and_periods(void **state) {
    (void)state;
    static const char manifest[] = STATIC(PERIOD("duration='PT4S'", "p") PERIOD("start='PT4S'", "q"));
    expect(NULL, manifest, HEAD("5", FIRST) MAP("q/i") PART("5.000000", "q/fits-1") PART("5.000000", "q/fits-2") END);
    mr_dash dash = {0};
    char *playlist;
    assert_int_equal(translate(&dash, manifest, sizeof manifest - 1, 3, &playlist), MR_OK);
    assert_non_null(strstr(playlist, "/q/large-1"));
    mr_free(playlist);
    assert_int_equal(translate(&dash, manifest, sizeof manifest - 1, 4, &playlist), MR_ERROR_DATA);
    mr_dash_fini(&dash);
}

/* By how many segments of a minute there are. */
static void durations(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int minutes;
    } cases[] = {{"PT60S", 1}, {"P0Y0M0DT0H2M0.000S", 2}, {"PT1H", 60}, {"P1DT1M", 1441}, {"P1M", 43200}, {"PT0.5M", 1},
                 {"", 0}, {"P", 0}, {"60S", 0}, {"PT60", 0}, {"P60S", 0}, {"PT-60S", 0}, {"PTinfS", 0}, {"PT1e99S", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char manifest[512], *playlist = NULL;
        mr_dash dash = {0};
        int minutes = 0;
        snprintf(manifest, sizeof manifest, MPD("static", "mediaPresentationDuration='%s'>%s"), cases[i].text,
                 SET("<SegmentTemplate duration='60' media='$Number$'/>" VIDEO("")));
        const int status = translate(&dash, manifest, strlen(manifest), -1, &playlist);
        assert_int_equal(status, cases[i].minutes ? MR_OK : MR_ERROR_DATA);
        for (const char *at = playlist; at && (at = strstr(at, "#EXTINF")); at++)
            minutes++;
        assert_int_equal(minutes, cases[i].minutes);
        mr_free(playlist);
        mr_dash_fini(&dash);
    }
}

/* ---- live -------------------------------------------------------------------------------------------------------- */

#define LIVE(content) \
    MPD("dynamic", "availabilityStartTime='1970-01-12T13:46:20Z' timeShiftBufferDepth='PT9S'>" content)
#define WINDOW(first, more) \
    LIVE("<Period start='PT0S'><AdaptationSet contentType='video'><SegmentTemplate media='$Time$'" \
    " initialization='i'><SegmentTimeline><S t='" first "' d='2'/>" more "</SegmentTimeline></SegmentTemplate>" \
    VIDEO("") "</AdaptationSet></Period>")

/* The window moves on: segments keep their numbers, and the header is given once. */
static void windows(void **state) {
    (void)state;
    mr_dash dash = {0};
    expect(&dash, WINDOW("10", "<S d='3'/>"), HEAD("3", FIRST) MAP("i") PART("2.000000", "10") PART("3.000000", "12"));
    expect(&dash, WINDOW("12", "<S d='3'/>"), HEAD("3", "1048577") PART("2.000000", "12") PART("3.000000", "14"));
    expect(&dash, WINDOW("12", "<S d='3'/>"), HEAD("3", "1048577") PART("2.000000", "12") PART("3.000000", "14"));
    /* None that was there before is there now. */
    expect(&dash, WINDOW("100", ""), HEAD("2", "1048579") PART("2.000000", "100"));
    /* Another period. */
    char *playlist;
    static const char other[] = LIVE(PERIOD("start='PT0S'", "p") PERIOD("start='PT10S'", "q")
                                     PERIOD("start='PT30S'", "r"));
    assert_int_equal(translate(&dash, other, sizeof other - 1, -1, &playlist), MR_ERROR_IO);
    assert_non_null(strstr(mr_message(), "another header"));
    mr_dash_fini(&dash);
    expect(&dash, other, HEAD("5", FIRST) MAP("q/i") PART("5.000000", "q/fits-1") PART("5.000000", "q/fits-2"));
    mr_dash_fini(&dash);
}

/* Twenty seconds on: of segments of two seconds ten are there, and nine seconds of them are kept. */
static void by_the_clock(void **state) {
    (void)state;
    static const char even[] = "<Period start='PT0S'><AdaptationSet contentType='video'><SegmentTemplate duration='2' "
                               "media='$Number$'/>" VIDEO("") "</AdaptationSet></Period>";
    char manifest[1024];
    mr_dash dash = {0};
    snprintf(manifest, sizeof manifest, LIVE("%s"), even);
    expect(&dash, manifest, HEAD("2", FIRST) PART("2.000000", "6") PART("2.000000", "7") PART("2.000000", "8")
           PART("2.000000", "9") PART("2.000000", "10"));
    /* The server's clock is four seconds ahead of ours. */
    snprintf(manifest, sizeof manifest, LIVE("<UTCTiming schemeIdUri='urn:mpeg:dash:utc:direct:2014' "
                                             "value='1970-01-12T13:46:44Z'/>%s"), even);
    expect(&dash, manifest, HEAD("2", "1048578") PART("2.000000", "8") PART("2.000000", "9") PART("2.000000", "10")
           PART("2.000000", "11") PART("2.000000", "12"));
    mr_dash_fini(&dash);
}

/* Of years only the newest segments are listed. */
static void long_windows(void **state) {
    (void)state;
    mr_dash dash = {0};
    char *playlist;
    static const char manifest[] = WINDOW("0", "<S d='2' r='100000000'/>");
    assert_int_equal(translate(&dash, manifest, sizeof manifest - 1, -1, &playlist), MR_OK);
    assert_non_null(strstr(playlist, "http://a/b/200000002\n"));
    assert_non_null(strstr(playlist, "http://a/b/199999884\n"));
    assert_null(strstr(playlist, "http://a/b/199999882\n"));
    mr_free(playlist);
    mr_dash_fini(&dash);
}

/* Sums of times that are each within bounds. */
#define LONG "<Period duration='PT999999999S'><AdaptationSet contentType='video'>" VIDEO("<BaseURL>x</BaseURL>") \
             "</AdaptationSet></Period>"
#define ENDLESS "<S t='0' d='1' r='2305843009213693000'/>"

static void far_times(void **state) {
    (void)state;
    expect(NULL, MPD("static", ">" LONG LONG LONG LONG LONG LONG LONG LONG LONG LONG LONG LONG),
           HEAD("999999999", FIRST) PART("999999999.000000", "x") END);
    static const char future[] = MPD("dynamic", "availabilityStartTime='1970-01-01T00:00:00Z'><UTCTiming "
        "schemeIdUri='urn:mpeg:dash:utc:direct:2014' value='2262-01-01T00:00:00Z'/>" SET("<SegmentTemplate "
        "timescale='1000000000' presentationTimeOffset='1000000000000000000' duration='1000000000' media='$Number$'/>"
        VIDEO("")));
    mr_dash dash = {0};
    char *playlist;
    assert_int_equal(translate(&dash, future, sizeof future - 1, -1, &playlist), MR_ERROR_DATA);
    assert_non_null(strstr(mr_message(), "times that make no sense"));
    assert_null(playlist);
}

/* ---- refused ----------------------------------------------------------------------------------------------------- */

static void what_is_refused(void **state) {
    (void)state;
    static const char senseless[] = "number or a URL that makes no sense";
    const struct {
        const char *manifest, *words;
        int status;
    } cases[] = {
        {STATIC(SET("<SegmentTemplate duration='5' media='$Number$'/><ContentProtection/>" VIDEO(""))), "is encrypted",
         MR_ERROR_UNAVAILABLE},
        {STATIC("<Period/>"), "has no video", MR_ERROR_DATA},
        {STATIC(""), "has no segments", MR_ERROR_DATA},
        {LIVE(""), "has no segment yet", MR_ERROR_IO},
        {STATIC(SET("<SegmentTemplate media='$Number$'/>" VIDEO(""))), "how long segments are", MR_ERROR_DATA},
        {STATIC(SET("<SegmentTemplate duration='5' media='$Frame$'/>" VIDEO(""))), senseless, MR_ERROR_DATA},
        {STATIC(SET("<SegmentTemplate duration='5' media='$Number%99999d$'/>" VIDEO(""))), senseless, MR_ERROR_DATA},
        {STATIC(SET("<SegmentTemplate duration='5' media='$Number'/>" VIDEO(""))), senseless, MR_ERROR_DATA},
        {STATIC(SET("<SegmentTemplate duration='5'/>" VIDEO(""))), senseless, MR_ERROR_DATA},
        {STATIC(SET("<SegmentTemplate timescale='0' duration='5' media='a'/>" VIDEO(""))), senseless, MR_ERROR_DATA},
        {STATIC(SET("<SegmentTemplate timescale='1000000000' duration='1' media='a'/>" VIDEO(""))), "more than 100000",
         MR_ERROR_DATA},
        {WINDOW("9223372036854775807", ""), "times that make no sense", MR_ERROR_DATA},
        {WINDOW("0", "<S d='9223372036854775807'/>"), "times that make no sense", MR_ERROR_DATA},
        {WINDOW("0", "<S d='2' r='9223372036854775807'/>"), "times that make no sense", MR_ERROR_DATA},
        {WINDOW("0", ENDLESS ENDLESS ENDLESS ENDLESS ENDLESS), "times that make no sense", MR_ERROR_DATA},
        {STATIC("<Period start='PT20S'><AdaptationSet contentType='video'>" VIDEO("") "</AdaptationSet></Period>"),
         "times that make no sense", MR_ERROR_DATA},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mr_dash dash = {0};
        char *playlist;
        const int status = translate(&dash, cases[i].manifest, strlen(cases[i].manifest), -1, &playlist);
        if (status != cases[i].status || playlist || !strstr(mr_message(), cases[i].words))
            fail_msg("case %zu: %d, %s, %s", i, status, mr_message(), playlist ? playlist : "no playlist");
        mr_dash_fini(&dash);
    }
}

static void what_is_no_manifest(void **state) {
    (void)state;
    static const char *const texts[] = {"", "<", "<html></html>", "<MPD", "#EXTM3U\n", "<a:MPDs/>"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        mr_dash dash = {0};
        char *playlist;
        assert_int_equal(translate(&dash, texts[i], strlen(texts[i]), -1, &playlist), MR_OK);
        assert_null(playlist);
    }
    assert_true(mr_dash_may_be((const uint8_t *)"\xef\xbb\xbf \n<?xml", 10));
    assert_false(mr_dash_may_be((const uint8_t *)"\xff\xd8", 2));
    assert_false(mr_dash_may_be((const uint8_t *)"\0<", 2));
    assert_false(mr_dash_may_be((const uint8_t *)"  ", 2));
}

/* libxml2 would take minutes for the one, and hundreds of megabytes for the other. */
static void what_is_too_much(void **state) {
    (void)state;
    enum { BYTES = 3 << 20 };
    char *text = malloc(BYTES), *playlist;
    assert_non_null(text);
    for (int many = 0; many < 2; many++) {
        mr_dash dash = {0};
        int bytes = snprintf(text, BYTES, many ? "<MPD>" : "<MPD ");
        for (int i = 0; bytes < BYTES - 64; i++)
            bytes += snprintf(text + bytes, 32, many ? "<a/>" : "a%d='' ", i);
        bytes += snprintf(text + bytes, 32, many ? "</MPD>" : "/>");
        assert_int_equal(translate(&dash, text, (size_t)bytes, -1, &playlist), MR_OK);
        assert_null(playlist);
    }
    free(text);
}

/* The playlist leads to where the manifest is, with the password; messages do not tell it. */
static void passwords_are_not_told(void **state) {
    (void)state;
    const mr_dash_params params = {.url = "http://me:secret@a/x.mpd", .name = "http://a/x.mpd", .date_ns = now_ns,
                                   .max_pixels = 1280 * 720, .stream = -1};
    static const char good[] = "\xef\xbb\xbf" STATIC(SET("<SegmentTemplate duration='10' media='y'/>" VIDEO(""))),
                      empty[] = STATIC("<Period/>");
    mr_dash dash = {0};
    char *playlist;
    assert_int_equal(mr_dash_to_hls(&dash, &params, good, sizeof good - 1, &playlist), MR_OK);
    assert_non_null(strstr(playlist, "\nhttp://me:secret@a/y\n"));
    mr_free(playlist);
    assert_int_equal(mr_dash_to_hls(&dash, &params, empty, sizeof empty - 1, &playlist), MR_ERROR_DATA);
    assert_string_equal(mr_message(), "http://a/x.mpd: the manifest has no video");
    mr_dash_fini(&dash);
}

static void entities_are_not_followed(void **state) {
    (void)state;
    static const char manifest[] = "<!DOCTYPE MPD [<!ENTITY f SYSTEM 'file:///etc/hostname'><!ENTITY a 'aaaaaaaaaa'>"
        "<!ENTITY b '&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;'>]><MPD type='static' mediaPresentationDuration='PT5S'><BaseURL>&f;"
        "</BaseURL>" SET("<SegmentTemplate duration='5' media='x$Number$'/>" VIDEO("")) "</MPD>";
    expect(NULL, manifest, HEAD("5", FIRST) PART("5.000000", "x1") END);
}

/* Bytes are changed, left out and written twice: there is a playlist, or an error. */
static void damaged(void **state) {
    (void)state;
    static const char *const whole[] = {timeline, STATIC(PERIOD("duration='PT5S'", "p") PERIOD("start='PT5S'", "q")),
                                        WINDOW("10", "<S d='3' r='-1'/>")};
    size_t played = 0;
    random_state = seed;
    for (int i = 0; i < 6000; i++) {
        char text[4096];
        mr_dash dash = {0};
        char *playlist;
        size_t bytes = strlen(whole[i % 3]);
        memcpy(text, whole[i % 3], bytes);
        for (int changes = between(1, 4); changes > 0; changes--) {
            const size_t at = (size_t)between(0, (int)bytes - 2), room = bytes - at - 1;
            const size_t count = (size_t)between(1, room < 8 ? (int)room : 8);
            const int what = between(0, 3);
            if (what == 0)
                memmove(text + at, text + at + count, bytes -= count);
            else
                text[at] = "0123456789-'<>&$%/"[between(0, 17)];
        }
        const int status = translate(&dash, text, bytes, -1, &playlist);
        assert_true(status <= MR_OK && (!playlist || !status));
        played += playlist != NULL;
        mr_free(playlist);
        mr_dash_fini(&dash);
    }
    print_message("%zu of 6000 damaged manifests give a playlist\n", played);
    assert_in_range(played, 100, 5900);
}

int main(void) {
    find_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(templates),
        cmocka_unit_test(lists_and_files),
        cmocka_unit_test(several_videos_and_periods),
        cmocka_unit_test(durations),
        cmocka_unit_test(windows),
        cmocka_unit_test(by_the_clock),
        cmocka_unit_test(long_windows),
        cmocka_unit_test(far_times),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(what_is_no_manifest),
        cmocka_unit_test(what_is_too_much),
        cmocka_unit_test(passwords_are_not_told),
        cmocka_unit_test(entities_are_not_followed),
        cmocka_unit_test(damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
