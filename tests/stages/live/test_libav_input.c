/* Closing TLS connections. Closing sends the peer a last message, and libavformat then asks whether to stop. The
 * callback must not touch anything that is already closed; the address sanitizer would report it. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "millrace/status.h"
#include "stages/live/libav_input.h"
#include "tests/support/suite.h"
#include "tests/support/temporary.h"

enum { PATH = 64 };

static char ca_file[PATH + 16];
static FILE *server; /* openssl's server: each file is a complete answer, one connection at a time */
static pid_t child;
static int port;

static void put(const char *name, const char *head, const char *body) {
    char path[2 * PATH];
    snprintf(path, sizeof path, "%s/%s", temporary_folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "HTTP/1.0 %s\r\nContent-Length: %zu\r\n\r\n%s", head, strlen(body), body);
    assert_int_equal(fclose(file), 0);
}

static int begin(void **state) {
    char line[512];
    int number = 0;
    assert_int_equal(make_temporary_folder(state), 0);
    snprintf(ca_file, sizeof ca_file, "%s/cert.pem", temporary_folder);
    snprintf(line, sizeof line,
             "cd %s && openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=a "
             "-addext subjectAltName=IP:127.0.0.1,DNS:localhost >/dev/null 2>&1 && echo $$ && "
             "exec openssl s_server -accept 127.0.0.1:0 -cert cert.pem -key key.pem -HTTP 2>&1", temporary_folder);
    server = popen(line, "r");
    assert_non_null(server);
    while (!port && fgets(line, sizeof line, server)) {
        if (sscanf(line, "%d", &number) == 1)
            child = number;
        sscanf(line, "ACCEPT 127.0.0.1:%d", &port);
    }
    return 0;
}

static int end(void **state) {
    if (child)
        kill(child, SIGKILL);
    pclose(server);
    return remove_temporary_folder(state);
}

/* Opens an address that has no stream, and closes it. */
static void refuse(const char *name, int wanted) {
    mr_libav_input input;
    char url[PATH];
    const atomic_bool cancelled = false;
    if (!port)
        skip();
    snprintf(url, sizeof url, "https://127.0.0.1:%d/%s", port, name);
    const mr_connection_params params = {.url = url, .ca_file = ca_file, .allow_hosts = "127.0.0.1", .wake = -1,
                                         .open_timeout_ns = 60000000000, .most_bytes = 1 << 22,
                                         .media = {.uri = url, .max_pixels = 1000000, .stream = -1}};
    const int status = mr_libav_input_open(&input, &params, &cancelled);
    mr_libav_input_close(&input);
    if (status != wanted)
        fail_msg("%d: %s", status, mr_message());
}

TEST(of_a_playlist) {
    put("list", "200 OK", "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nfile:///etc/passwd\n");
    refuse("list", MR_ERROR_DATA);
}

TEST(of_bytes_without_a_stream) {
    put("bytes", "200 OK", "neither video nor playlist");
    refuse("bytes", MR_ERROR_DATA);
}

TEST(of_a_host_that_is_not_allowed) {
    char head[2 * PATH];
    put("there", "200 OK", "");
    snprintf(head, sizeof head, "302 Found\r\nLocation: https://localhost:%d/there", port);
    put("led", head, "");
    refuse("led", MR_ERROR_CONFIG);
}

RUN_TESTS(begin, end)
