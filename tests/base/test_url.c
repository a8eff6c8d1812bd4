/* URLs: parts, and hiding user and password. */
#include <stdio.h>
#include <string.h>

#include "engine/base/url.h"
#include "tests/support/suite.h"

static void assert_part(mr_url_part part, const char *text) {
    char copy[256];
    if (!text) {
        assert_null(part.text);
        return;
    }
    snprintf(copy, sizeof copy, "%.*s", (int)part.bytes, part.text);
    assert_string_equal(copy, text);
}

TEST(test_parts) {
    static const struct {
        const char *url, *scheme, *user, *password, *host, *port, *rest;
    } cases[] = {
        {"rtsp://camera/a?b#c", "rtsp", NULL, NULL, "camera", NULL, "/a?b#c"},
        {"RTSP://u:p@10.0.0.7:554/", "RTSP", "u", "p", "10.0.0.7", "554", "/"},
        {"http://u@[fe80::1]:80", "http", "u", NULL, "fe80::1", "80", NULL},
        {"http://[::1]/x@y", "http", NULL, NULL, "::1", NULL, "/x@y"},
        {"rtsp://u:p@ss@h", "rtsp", "u", "p@ss", "h", NULL, NULL},
        {"rtsp://u:p/s?s#@h:5/x", "rtsp", "u", "p/s?s#", "h", "5", "/x"},
        {"udp://@:1234", "udp", "", NULL, "", "1234", NULL},
        {"srt://:7001?mode=listener", "srt", NULL, NULL, "", "7001", "?mode=listener"},
        {"rtsp://", "rtsp", NULL, NULL, "", NULL, NULL},
    };
    mr_url url;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_true(mr_url_split(cases[i].url, &url));
        assert_part(url.scheme, cases[i].scheme);
        assert_part(url.user, cases[i].user);
        assert_part(url.password, cases[i].password);
        assert_part(url.host, cases[i].host);
        assert_part(url.port, cases[i].port);
        assert_part(url.rest, cases[i].rest);
    }
    assert_false(mr_url_split("clip.mp4", &url));
    assert_false(mr_url_split("://a", &url));
    assert_false(mr_url_split("lavfi:testsrc", &url));
    assert_false(mr_url_split("", &url));
}

TEST(test_signs) {
    char text[16];
    assert_true(mr_url_decode((mr_url_part){"a%40%3a%zz%2", 12}, text, sizeof text));
    assert_string_equal(text, "a@:%zz%2");
    assert_false(mr_url_decode((mr_url_part){"a%00b", 5}, text, sizeof text));
    assert_false(mr_url_decode((mr_url_part){"0123456789abcdef", 16}, text, sizeof text));
    assert_true(mr_url_encode("a@:/-._~", text, sizeof text));
    assert_string_equal(text, "a%40%3A%2F-._~");
    assert_false(mr_url_encode("@@@@@@", text, sizeof text));
}

TEST(test_query) {
    mr_url url;
    assert_true(mr_url_split("srt://h:1?mode=x&passphrase=geheim#y", &url));
    assert_part(mr_url_query(&url, "passphrase"), "geheim");
    assert_part(mr_url_query(&url, "mode"), "x");
    assert_part(mr_url_query(&url, "pass"), NULL);
    assert_true(mr_url_split("srt://h:1", &url));
    assert_part(mr_url_query(&url, "mode"), NULL);
}

TEST(test_hiding) {
    static const char *const cases[][2] = {
        {"Opening 'http://u:p@h/a.ts' for reading", "Opening 'http://h/a.ts' for reading"},
        {"from rtsp://u:p/q@h/x to http://a:b@c", "from rtsp://h/x to http://c"},
        {"srt://h?passphrase=geheim&mode=x", "srt://h?passphrase=&mode=x"},
        {"srt://passphrase=a//b&u:p@h", "srt://h"},
        {"http://h/a@b and x@y", "http://h/a@b and x@y"},
        {"no URL: a:b@c ://", "no URL: c ://"},
        {"--input htp://u:p@h/x: error", "--input htp://h/x: error"},
        {"a rtsp:/u:p@h/x, rtsp//u:p@h, u:p@h/x", "a rtsp:/h/x, rtsp//h, h/x"},
        {"'rtsp;//u:p@h' uri=rtsp:/u:p=q@h uri=rtsp:u:p@h", "'rtsp;//h' uri=rtsp:/h uri=h"},
        {"rtsp://admin:p@ss/w#rd@host/a", "rtsp://host/a"},
        {"rtsp://a:b@h/x,rtsp://c:d@i", "rtsp://h/x,rtsp://i"},
        {"rtsp://a:b/c@h/x,rtsp://c:d/e@i", "rtsp://h/x,rtsp://i"},
        {"htp://u:p://@h/x", "htp://h/x"},
        {"'rtsp://u:it's@h/x' htp://u:it's@h/x rtsp:/u:it's@h", "'rtsp://h/x' htp://h/x rtsp:/h"},
        {"rtsp://u:a\"b@h/x rtsp://u:<a>@h", "rtsp://h/x rtsp://h"},
        {"\"http://h:80\",\"x@y\" <http://h>@x", "\"http://h:80\",\"x@y\" <http://h>@x"},
        {"ipc://@name [tcp @ 0x1] git@h:x x264@1", "ipc://@name [tcp @ 0x1] git@h:x x264@1"},
        {"/tmp/x/rtsp:u:p@h/x clips/u:p/q@c", "/tmp/x/h/x clips/c"},
        {"rtsp://h:554/a@1 http://h/@u/x", "rtsp://h:554/a@1 http://h/@u/x"},
    };
    char text[160];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(text, sizeof text, "%s", cases[i][0]);
        mr_url_hide(text);
        assert_string_equal(text, cases[i][1]);
    }
}

/* RFC 3986, 5.4, as far as it is about URLs with an authority. */
TEST(test_references) {
    static const char base[] = "http://a/b/c/d;p?q";
    static const char *const cases[][2] = {
        {"g:h", "g:h"}, {"g", "http://a/b/c/g"}, {"./g", "http://a/b/c/g"}, {"g/", "http://a/b/c/g/"},
        {"/g", "http://a/g"}, {"//g", "http://g"}, {"?y", "http://a/b/c/d;p?y"}, {"g?y", "http://a/b/c/g?y"},
        {"#s", "http://a/b/c/d;p?q"}, {"g#s", "http://a/b/c/g"}, {"g?y#s", "http://a/b/c/g?y"},
        {";x", "http://a/b/c/;x"}, {"g;x=1/../y", "http://a/b/c/y"}, {"", "http://a/b/c/d;p?q"},
        {".", "http://a/b/c/"}, {"./", "http://a/b/c/"}, {"..", "http://a/b/"}, {"../", "http://a/b/"},
        {"../g", "http://a/b/g"}, {"../..", "http://a/"}, {"../../g", "http://a/g"}, {"../../../g", "http://a/g"},
        {"/./g", "http://a/g"}, {"/../g", "http://a/g"}, {"g.", "http://a/b/c/g."}, {"..g", "http://a/b/c/..g"},
        {"./../g", "http://a/b/g"}, {"./g/.", "http://a/b/c/g/"}, {"g/./h", "http://a/b/c/g/h"},
        {"g/../h", "http://a/b/c/h"}, {"g?y/../x", "http://a/b/c/g?y/../x"}, {"https://x/y", "https://x/y"},
        {"2026:1.ts", "http://a/b/c/2026:1.ts"}, {"a_b:1.ts", "http://a/b/c/a_b:1.ts"},
    };
    char url[64];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_true(mr_url_resolve(base, cases[i][0], url, sizeof url));
        assert_string_equal(url, cases[i][1]);
    }
    assert_true(mr_url_resolve("http://a", "g", url, sizeof url));
    assert_string_equal(url, "http://a/g");
    assert_true(mr_url_resolve("http://a?x", "g", url, sizeof url));
    assert_string_equal(url, "http://a/g");
    assert_true(mr_url_resolve("http://u:p@a/x/y?z=/1", "g", url, sizeof url));
    assert_string_equal(url, "http://u:p@a/x/g");
    assert_false(mr_url_resolve("http://a/b/c", "g", url, 12));
    assert_false(mr_url_resolve("http://a/b/c", "http://x/y", url, 10));
}

TEST(test_hosts) {
    assert_true(mr_host_is_allowed(NULL, "a"));
    assert_true(mr_host_is_allowed("10.0.*,*.local", "Cam1.LOCAL"));
    assert_true(mr_host_is_allowed("10.0.*,*.local", "10.0.3.4"));
    assert_false(mr_host_is_allowed("10.0.*,*.local", "10.1.3.4"));
    assert_false(mr_host_is_allowed("", "a"));
}

TEST(test_doubt) {
    static const struct {
        const char *text;
        mr_url_doubt doubt;
    } cases[] = {{"rtsp://admin:p@ss/w#rd@host", MR_URL_SIGNS}, {"rtsp://u:p@h/a@1", MR_URL_SIGNS},
                 {"rtsp://u:p@s<:x/y@h", MR_URL_SIGNS},
                 {"rtsp://u:p@h/a", MR_URL_CLEAR},              {"rtsp://u:p@q@h/a", MR_URL_CLEAR},
                 {"rtsp://u:p/q@h/a", MR_URL_CLEAR},            {"rtsp://h:554/a@1", MR_URL_CLEAR},
                 {"http://h/@u/x", MR_URL_CLEAR},               {"rtsp:/u:p@h/x", MR_URL_SCHEME},
                 {"rtsp//u:p@h", MR_URL_SCHEME},                {"clip 12:30@home.mp4", MR_URL_CLEAR},
                 {"/mnt/T10:00/cam@a.mp4", MR_URL_CLEAR},       {"/cam:1@a.mp4", MR_URL_CLEAR},
                 {"C:/a/b@c.mp4", MR_URL_CLEAR},                {"clips/a:b@c.mp4", MR_URL_CLEAR},
                 {"a:b@c", MR_URL_CLEAR},                       {"lavfi:testsrc", MR_URL_CLEAR},
                 {"ipc://@name", MR_URL_CLEAR},                 {"", MR_URL_CLEAR}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(mr_url_doubt_of(cases[i].text), cases[i].doubt);
}

RUN_TESTS(NULL, NULL)
