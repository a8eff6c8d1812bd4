/* Addresses that a server listens at, names by which it is asked for, and tokens. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/serve/http_address.h"
#include "engine/serve/http_token.h"
#include "millrace/status.h"
#include "tests/support/suite.h"

TEST(addresses_are_read) {
    static const struct {
        const char *text;
        bool right, loopback;
    } cases[] = {{"127.0.0.1:8090", true, true}, {"127.9.9.9:1", true, true},  {"localhost:0", true, true},
                 {"[::1]:65535", true, true},    {"0.0.0.0:80", true, false},  {"[::]:80", true, false},
                 {"10.0.0.7:8090", true, false}, {"8090", false, false},       {":8090", false, false},
                 {"127.0.0.1", false, false},    {"127.0.0.1:", false, false}, {"127.0.0.1:65536", false, false},
                 {"127.0.0.1:-1", false, false}, {"::1:80", false, false},     {"[::1]80", false, false},
                 {"camera.example:80", false, false}, {"[::1", false, false},  {"", false, false},
                 {"http://127.0.0.1:80", false, false}, {"unix:/tmp/x", true, true}, {"unix:", false, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mr_http_address address;
        int status = mr_http_address_parse(cases[i].text, &address);
        if ((status == MR_OK) != cases[i].right || address.loopback != cases[i].loopback)
            fail_msg("%s: %d, loopback %d", cases[i].text, status, address.loopback);
    }
}

TEST(hosts_are_told_apart) {
    static const char *const local[] = {"localhost", "localhost:8090", "127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:80"};
    static const char *const others[] = {"camera.example", "127.0.0.1.example.com", "localhost.example.com:80",
                                         "0.0.0.0", "10.0.0.1:80", "[::2]", "", ":80", "127.0.0.1:x", "[127.0.0.1]",
                                         "localhost:"};
    for (size_t i = 0; i < sizeof local / sizeof *local; i++)
        if (!mr_http_host_is_local(local[i]))
            fail_msg("%s is this machine", local[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (mr_http_host_is_local(others[i]))
            fail_msg("\"%s\" is not", others[i]);
}

TEST(a_port_in_use_is_refused) {
    mr_http_address address;
    int first, second, port, none;
    char text[64];
    assert_int_equal(mr_http_address_parse("127.0.0.1:0", &address), MR_OK);
    assert_int_equal(mr_http_address_listen(&address, "127.0.0.1:0", &first, &port), MR_OK);
    snprintf(text, sizeof text, "127.0.0.1:%d", port);
    assert_int_equal(mr_http_address_parse(text, &address), MR_OK);
    assert_int_equal(mr_http_address_listen(&address, text, &second, &none), MR_ERROR_UNAVAILABLE);
    assert_non_null(strstr(mr_message(), text));
    assert_non_null(strstr(mr_message(), "choose another port, or port 0"));
    close(first);
    /* An address for documentation (RFC 5737), which no machine has. */
    assert_int_equal(mr_http_address_parse("192.0.2.1:0", &address), MR_OK);
    assert_int_equal(mr_http_address_listen(&address, "192.0.2.1:0", &second, &none), MR_ERROR_UNAVAILABLE);
}

TEST(a_dead_programs_socket_is_replaced) {
    mr_http_address address;
    int first, second, port;
    char text[64];
    struct stat found;
    snprintf(text, sizeof text, "unix:http-%d.sock", (int)getpid());
    assert_int_equal(mr_http_address_parse(text, &address), MR_OK);
    assert_int_equal(mr_http_address_listen(&address, text, &first, &port), MR_OK);
    assert_int_equal(stat(text + 5, &found), 0);
    assert_int_equal(found.st_mode & 0777, 0600);
    assert_int_equal(mr_http_address_listen(&address, text, &second, &port), MR_ERROR_UNAVAILABLE);
    expect_words(mr_message(), "is in use by another program or stage: end that, or choose another path");
    close(first);
    assert_int_equal(mr_http_address_listen(&address, text, &second, &port), MR_OK);
    close(second);
    unlink(text + 5);
    FILE *file = fopen(text + 5, "w");
    assert_non_null(file);
    fclose(file);
    assert_int_equal(mr_http_address_listen(&address, text, &second, &port), MR_ERROR_UNAVAILABLE);
    expect_words(mr_message(), "a file that is no socket is there already: name a path at which there is nothing");
    assert_int_equal(unlink(text + 5), 0);
}

TEST(tokens_are_compared_whole) {
    static const char token[] = "0123456789abcdef";
    assert_true(mr_http_token_is(token, token));
    static const char *const wrong[] = {"", "0", "0123456789abcde", "0123456789abcdef0", "0123456789abcdeg",
                                        "0123456789abcdef0123456789abcdef"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(mr_http_token_is(token, wrong[i]));
}

TEST(weak_tokens_are_refused) {
    char longest[1026];
    memset(longest, 'a', 1025);
    longest[1025] = '\0';
    assert_int_equal(mr_http_token_check("0123456789abcdef", ""), MR_OK);
    assert_int_equal(mr_http_token_check(longest + 1, ""), MR_OK);
    assert_int_equal(mr_http_token_check(longest, ""), MR_ERROR_CONFIG);
    assert_int_equal(mr_http_token_check("0123456789abcde", " in FILE"), MR_ERROR_CONFIG);
    assert_non_null(strstr(mr_message(), "the token in FILE has 15 characters"));
    assert_int_equal(mr_http_token_check("0123456789 abcdef", ""), MR_ERROR_CONFIG);
    assert_int_equal(mr_http_token_check("0123456789\x80" "bcdef", ""), MR_ERROR_CONFIG);
    assert_null(strstr(mr_message(), "0123"));
}

RUN_TESTS(NULL, NULL)
