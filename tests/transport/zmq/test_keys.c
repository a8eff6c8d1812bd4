/* Keys in files, key lists, and sockets that know their peers by keys. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <zmq.h>

#include "engine/observe/audit_log.h"
#include "engine/transport/zmq/curve_keys.h"
#include "engine/transport/zmq/socket.h"
#include "millrace/status.h"
#include "tests/support/suite.h"

typedef struct fixture {
    char folder[64], path[128], other[128];
} fixture;

static int begin(void **state) {
    fixture *made = calloc(1, sizeof *made);
    strcpy(made->folder, "/tmp/millrace-keys-XXXXXX");
    *state = made;
    return mkdtemp(made->folder) ? 0 : -1;
}

static int finish(void **state) {
    fixture *gone = *state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", gone->folder);
    int failed = system(command);
    free(gone);
    return failed;
}

static const char *put(fixture *in, const char *name, mode_t mode, const char *text) {
    snprintf(in->path, sizeof in->path, "%s/%s", in->folder, name);
    FILE *file = fopen(in->path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    chmod(in->path, mode);
    return in->path;
}

/* ---- files ----------------------------------------------------------------------------------------------------- */

TEST_WITH(a_pair_is_read_as_it_was_written, begin, finish) {
    fixture *in = *state;
    mr_key_pair made, read;
    struct stat found;
    char key[MR_KEY_TEXT], derived[MR_KEY_TEXT];
    assert_int_equal(mr_key_pair_generate(&made), MR_OK);
    assert_int_equal(mr_key_pair_write(&made, in->folder, "camera"), MR_OK);
    snprintf(in->path, sizeof in->path, "%s/camera.key", in->folder);
    assert_int_equal(stat(in->path, &found), 0);
    assert_int_equal(found.st_mode & 0777, 0600);
    assert_int_equal(mr_key_pair_read(&read, in->path), MR_OK);
    assert_string_equal(read.public_key, made.public_key);
    assert_string_equal(read.secret_key, made.secret_key);
    assert_int_equal(zmq_curve_public(derived, read.secret_key), 0);
    assert_string_equal(derived, made.public_key);
    snprintf(in->path, sizeof in->path, "%s/camera.pub", in->folder);
    assert_int_equal(mr_key_public(in->path, key), MR_OK);
    assert_string_equal(key, made.public_key);
    assert_int_equal(mr_key_pair_read(&read, in->path), MR_ERROR_PERMISSION);
    assert_int_equal(chmod(in->path, 0600), 0);
    assert_int_equal(mr_key_pair_read(&read, in->path), MR_ERROR_DATA);
    assert_non_null(strstr(mr_message(), "secret-key"));
}

TEST_WITH(nothing_is_written_over, begin, finish) {
    fixture *in = *state;
    mr_key_pair first, second, read;
    assert_int_equal(mr_key_pair_generate(&first), MR_OK);
    assert_int_equal(mr_key_pair_generate(&second), MR_OK);
    assert_string_not_equal(first.secret_key, second.secret_key);
    assert_int_equal(mr_key_pair_write(&first, in->folder, "a"), MR_OK);
    assert_int_equal(mr_key_pair_write(&second, in->folder, "a"), MR_ERROR_IO);
    snprintf(in->path, sizeof in->path, "%s/a.key", in->folder);
    assert_int_equal(mr_key_pair_read(&read, in->path), MR_OK);
    assert_string_equal(read.public_key, first.public_key);
    put(in, "b.pub", 0644, "mine\n");
    assert_int_equal(mr_key_pair_write(&second, in->folder, "b"), MR_ERROR_IO);
    snprintf(in->path, sizeof in->path, "%s/b.key", in->folder);
    assert_int_equal(access(in->path, F_OK), -1);
}

/* A program may pass on a name from others: it must not lead out of the folder. */
TEST_WITH(names_are_those_of_files, begin, finish) {
    static const char *const names[] = {"", ".", "..", ".hidden", "a/b", "../a", "/a"};
    fixture *in = *state;
    mr_key_pair pair;
    assert_int_equal(mr_key_pair_generate(&pair), MR_OK);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_int_equal(mr_key_pair_write(&pair, in->folder, names[i]), MR_ERROR_USAGE);
        snprintf(in->path, sizeof in->path, "\"%s\"", names[i]);
        assert_non_null(strstr(mr_message(), in->path));
    }
}

TEST_WITH(secrets_that_others_may_read_are_none, begin, finish) {
    fixture *in = *state;
    mr_key_pair pair;
    static const mode_t modes[] = {0640, 0604, 0660, 0602, 0610};
    assert_int_equal(mr_key_pair_generate(&pair), MR_OK);
    assert_int_equal(mr_key_pair_write(&pair, in->folder, "a"), MR_OK);
    snprintf(in->path, sizeof in->path, "%s/a.key", in->folder);
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        chmod(in->path, modes[i]);
        assert_int_equal(mr_key_pair_read(&pair, in->path), MR_ERROR_PERMISSION);
        assert_string_equal(pair.secret_key, "");
    }
    assert_int_equal(mr_key_pair_read(&pair, "/nonexistent/a.key"), MR_ERROR_NO_INPUT);
    assert_non_null(strstr(mr_message(), "millrace keygen"));
}

TEST_WITH(what_is_no_pair_is_none, begin, finish) {
    fixture *in = *state;
    mr_key_pair pair, other;
    char text[512];
    assert_int_equal(mr_key_pair_generate(&pair), MR_OK);
    assert_int_equal(mr_key_pair_generate(&other), MR_OK);
    snprintf(text, sizeof text, "public-key = \"%s\"\nsecret-key = \"%s\"\n", other.public_key, pair.secret_key);
    assert_int_equal(mr_key_pair_read(&pair, put(in, "mixed.key", 0600, text)), MR_ERROR_DATA);
    assert_non_null(strstr(mr_message(), "mixed.key: the public key does not belong"));
    assert_string_equal(pair.secret_key, "");
    snprintf(in->path, sizeof in->path, "%s/pipe.key", in->folder);
    assert_int_equal(mkfifo(in->path, 0600), 0);
    assert_int_equal(mr_key_pair_read(&pair, in->path), MR_ERROR_DATA);
    assert_int_equal(mr_key_pair_read(&pair, in->folder), MR_ERROR_DATA);
    assert_non_null(strstr(mr_message(), "is not a regular file"));
}

/* RFC 32's test vector has 8 bytes; RFC 26's long-term CURVE keys have 32. */
static const char bob[] = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7";
static const char alice[] = "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID";

/* As an editor on Windows saves it. */
TEST_WITH(lists_may_begin_with_a_mark, begin, finish) {
    fixture *in = *state;
    mr_allow_list list = {0};
    uint8_t key[MR_KEY_BYTES];
    char text[128];
    snprintf(text, sizeof text, "\xef\xbb\xbf%s\r\n%s\r\n", bob, alice);
    assert_int_equal(mr_allow_list_add(&list, put(in, "allow", 0644, text)), MR_OK);
    assert_int_equal(list.count, 2);
    assert_true(mr_key_decode(bob, key));
    assert_true(mr_allow_list_has(&list, key));
    mr_allow_list_fini(&list);
}

TEST_WITH(lists_have_comments, begin, finish) {
    fixture *in = *state;
    mr_allow_list list = {0};
    uint8_t key[MR_KEY_BYTES], hash[MR_KEY_BYTES];
    char text[512], hashed[MR_KEY_TEXT];
    memset(hash, 0, sizeof hash);
    /* The highest digit, #, is 84 x 85^4 in the first four bytes. */
    hash[0] = 0xff, hash[1] = 0xff, hash[2] = 0xff, hash[3] = 0xff;
    mr_key_encode(hash, hashed);
    snprintf(text, sizeof text, "# who may connect\n\n  %s  # bob\r\n#%s\n%s # 84\n", bob, alice, hashed);
    assert_int_equal(mr_allow_list_add(&list, put(in, "allow", 0644, text)), MR_OK);
    assert_int_equal(list.count, 2);
    assert_true(mr_key_decode(bob, key));
    assert_true(mr_allow_list_has(&list, key));
    assert_true(mr_allow_list_has(&list, hash));
    assert_true(mr_key_decode(alice, key));
    assert_false(mr_allow_list_has(&list, key));
    assert_int_equal(mr_allow_list_add(&list, alice), MR_OK);
    assert_true(mr_allow_list_has(&list, key));
    mr_allow_list_fini(&list);
}

TEST_WITH(what_is_no_key_is_told_with_its_line, begin, finish) {
    fixture *in = *state;
    mr_allow_list list = {0};
    char key[MR_KEY_TEXT], text[256];
    uint8_t bytes[MR_KEY_BYTES];
    assert_int_equal(mr_allow_list_add(&list, put(in, "allow", 0644, "# one\nnonsense\n")), MR_ERROR_DATA);
    assert_non_null(strstr(mr_message(), "allow:2:"));
    assert_int_equal(mr_allow_list_add(&list, put(in, "empty", 0644, "# none\n")), MR_ERROR_DATA);
    assert_int_equal(mr_allow_list_add(&list, "/nonexistent"), MR_ERROR_NO_INPUT);
    snprintf(text, sizeof text, "%s\n%s\n", bob, alice);
    assert_int_equal(mr_key_public(put(in, "two", 0644, text), key), MR_ERROR_DATA);
    mr_allow_list_fini(&list);
    assert_false(mr_key_decode("too short", bytes));
    assert_false(mr_key_decode("rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf ", bytes));
    assert_false(mr_key_decode("rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf\xc3", bytes));
}

/* ---- sockets --------------------------------------------------------------------------------------------------- */

static void check(const char *expected, mr_zmq_params params) {
    const char *wrong = "nothing";
    params.id = "here";
    int status = mr_zmq_check(&params, &wrong);
    assert_int_equal(status, expected ? MR_ERROR_CONFIG : MR_OK);
    if (expected)
        assert_string_equal(wrong, expected);
}

TEST(only_this_machine_without_keys) {
    const char *const list[] = {bob};
    static const char *const near[] = {"tcp://127.0.0.1:5555", "tcp://localhost:1",     "tcp://[::1]:5555",
                                       "tcp://127.9.9.9:*",    "ipc:///run/millrace/a", "ipc://a"};
    static const char *const far[] = {"tcp://*:5555", "tcp://0.0.0.0:5555", "tcp://[::]:1", "tcp://eth0:5555",
                                      "tcp://127.0.0.1.example.org:5555", "tcp://128.0.0.1:5", "tcp://camera:5555"};
    for (size_t i = 0; i < sizeof near / sizeof near[0]; i++) {
        check(NULL, (mr_zmq_params){.endpoint = near[i], .bind = true});
        check(NULL, (mr_zmq_params){.endpoint = near[i]});
    }
    for (size_t i = 0; i < sizeof far / sizeof far[0]; i++) {
        check("endpoint", (mr_zmq_params){.endpoint = far[i], .bind = true});
        check("endpoint", (mr_zmq_params){.endpoint = far[i]});
        check(NULL, (mr_zmq_params){.endpoint = far[i], .bind = true, .key = "k", .allow_count = 1, .allow = list});
        check(NULL, (mr_zmq_params){.endpoint = far[i], .key = "k", .server = bob});
    }
    check("key", (mr_zmq_params){.endpoint = far[0], .bind = true, .key = "k"});
    check("key", (mr_zmq_params){.endpoint = far[0], .key = "k"});
    check("allow", (mr_zmq_params){.endpoint = near[0], .bind = true, .allow_count = 1, .allow = list});
    check("server", (mr_zmq_params){.endpoint = near[0], .server = bob});
    check("server", (mr_zmq_params){.endpoint = near[0], .bind = true, .key = "k", .allow_count = 1, .allow = list,
                                    .server = bob});
    check("endpoint", (mr_zmq_params){.endpoint = "tcp://5555"});
    check("endpoint", (mr_zmq_params){.endpoint = "udp://127.0.0.1:1"});
    check("endpoint", (mr_zmq_params){.endpoint = "ipc://@name", .bind = true});
    check("endpoint", (mr_zmq_params){.endpoint = "inproc://a"});
}

static mr_zmq *listen_at(fixture *in, const char *endpoint, const char *key, const char *const *allow) {
    (void)in;
    mr_zmq *made = NULL;
    const mr_zmq_params params = {.id = "here", .type = ZMQ_PULL, .endpoint = endpoint, .bind = true, .key = key,
                                  .allow_count = allow ? 1 : 0, .allow = allow, .receive_hwm = 10};
    assert_int_equal(mr_zmq_create(&made, &params), MR_OK);
    assert_int_equal(mr_zmq_attach(made), MR_OK);
    return made;
}

/* A bound unix socket's file. */
static int socket_at(fixture *in, struct sockaddr_un *address) {
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(address->sun_path, sizeof address->sun_path, "%s/dead", in->folder);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)address, sizeof *address), 0);
    return fd;
}

static int attach(const char *endpoint) {
    mr_zmq *socket = NULL;
    const mr_zmq_params params = {.id = "here", .type = ZMQ_PULL, .endpoint = endpoint, .bind = true};
    assert_int_equal(mr_zmq_create(&socket, &params), MR_OK);
    int status = mr_zmq_attach(socket);
    mr_zmq_close(&socket, 0);
    return status;
}

/* libzmq alone would take the path away from the listener, which would never hear from anyone again. */
TEST_WITH(a_path_is_not_taken_from_who_listens_there, begin, finish) {
    fixture *in = *state;
    char left[sizeof in->path + 16];
    snprintf(in->path, sizeof in->path, "ipc://%s/a", in->folder);
    mr_zmq *socket = listen_at(in, in->path, NULL, NULL);
    assert_int_equal(attach(in->path), MR_ERROR_UNAVAILABLE);
    assert_non_null(strstr(mr_message(), "another process listens there"));
    void *context = zmq_ctx_new(), *writer = zmq_socket(context, ZMQ_PUSH);
    char got[8];
    assert_int_equal(zmq_connect(writer, in->path), 0);
    assert_int_equal(zmq_send(writer, "still", 5, 0), 5);
    assert_int_equal(zmq_recv(mr_zmq_handle(socket), got, sizeof got, 0), 5);
    zmq_close(writer);
    zmq_ctx_term(context);
    assert_int_equal(access(in->path + strlen("ipc://"), F_OK), 0);
    mr_zmq_close(&socket, 0);
    assert_int_equal(access(in->path + strlen("ipc://"), F_OK), -1);
    /* A file without a listener, as a killed process leaves it. */
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int dead = socket_at(in, &address);
    close(dead);
    snprintf(left, sizeof left, "ipc://%.100s", address.sun_path);
    assert_int_equal(attach(left), MR_OK);
}

TEST_WITH(the_folder_of_a_socket_is_a_folder_of_its_own, begin, finish) {
    fixture *in = *state;
    put(in, "file", 0600, "");
    snprintf(in->other, sizeof in->other, "ipc://%s/file/a", in->folder);
    assert_int_equal(attach(in->other), MR_ERROR_IO);
    assert_non_null(strstr(mr_message(), "is not a folder"));
    snprintf(in->other, sizeof in->other, "%s/theirs", in->folder);
    assert_int_equal(mkdir(in->other, 0700), 0);
    if (chown(in->other, geteuid() + 1, (gid_t)-1))
        return; /* only root can, and not in every container */
    snprintf(in->path, sizeof in->path, "ipc://%s/theirs/a", in->folder);
    assert_int_equal(attach(in->path), MR_ERROR_PERMISSION);
    assert_non_null(strstr(mr_message(), "belongs to another user"));
}

/* libzmq ends the process if it gets no file descriptor, so it must not be asked then. */
TEST(a_socket_wants_file_descriptors) {
    struct rlimit before, few;
    mr_zmq *socket = NULL;
    mr_zmq_params params = {.id = "here", .type = ZMQ_PULL, .endpoint = "tcp://127.0.0.1:*", .bind = true,
                            .max_peers = 500};
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = (struct rlimit){.rlim_cur = 200, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    int status = mr_zmq_create(&socket, &params);
    char *reported = strdup(mr_message());
    params.max_peers = 100;
    int fits = mr_zmq_create(&socket, &params);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(status, MR_ERROR_UNAVAILABLE);
    assert_non_null(strstr(reported, "of the 200 that this process may have"));
    assert_non_null(strstr(reported, "ulimit -n"));
    assert_int_equal(fits, MR_OK);
    free(reported);
    mr_zmq_close(&socket, 0);
}

TEST_WITH(others_may_not_enter_the_folder, begin, finish) {
    fixture *in = *state;
    struct stat found;
    snprintf(in->path, sizeof in->path, "ipc://%s/sockets/a", in->folder);
    mr_zmq *socket = listen_at(in, in->path, NULL, NULL);
    snprintf(in->other, sizeof in->other, "%s/sockets", in->folder);
    assert_int_equal(stat(in->other, &found), 0);
    assert_int_equal(found.st_mode & 0777, 0700);
    mr_zmq_close(&socket, 0);
    assert_null(socket);
    /* The folder is removed with the socket that created it, unless others use it; one that existed before stays. */
    assert_int_equal(access(in->other, F_OK), -1);
    socket = listen_at(in, in->path, NULL, NULL);
    put(in, "sockets/b", 0600, "");
    snprintf(in->path, sizeof in->path, "ipc://%s/sockets/a", in->folder);
    snprintf(in->other, sizeof in->other, "%s/sockets", in->folder);
    mr_zmq_close(&socket, 0);
    assert_int_equal(access(in->other, F_OK), 0);
    assert_int_equal(attach(in->path), MR_OK);
    assert_int_equal(access(in->other, F_OK), 0);
    chmod(in->other, 0755);
    const mr_zmq_params params = {.id = "here", .type = ZMQ_PULL, .endpoint = in->path, .bind = true};
    assert_int_equal(mr_zmq_create(&socket, &params), MR_OK);
    assert_int_equal(mr_zmq_attach(socket), MR_ERROR_PERMISSION);
    mr_zmq_close(&socket, 0);
}

/* Sends one message with this key pair, if any. The caller must close the socket. */
static void *send_with(void *context, const char *endpoint, const mr_key_pair *pair, const char *server) {
    int linger = 0;
    void *socket = zmq_socket(context, ZMQ_PUSH);
    assert_non_null(socket);
    zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger);
    if (pair) {
        zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, server, MR_KEY_TEXT);
        zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, pair->public_key, MR_KEY_TEXT);
        zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, pair->secret_key, MR_KEY_TEXT);
    }
    assert_int_equal(zmq_connect(socket, endpoint), 0);
    assert_int_equal(zmq_send(socket, pair ? "known" : "plain", 5, 0), 5);
    return socket;
}

static size_t count_lines(const char *path, const char *with) {
    char line[1024];
    size_t count = 0;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        count += strstr(line, with) != NULL;
    fclose(file);
    return count;
}

TEST_WITH(only_those_with_a_key_of_the_list, begin, finish) {
    fixture *in = *state;
    mr_key_pair server, friend, stranger;
    char key_path[128], list[128], text[64], got[16] = "";
    int patience_ms = 240000;
    assert_int_equal(mr_key_pair_generate(&server) | mr_key_pair_generate(&friend) | mr_key_pair_generate(&stranger),
                     0);
    assert_int_equal(mr_key_pair_write(&server, in->folder, "server"), MR_OK);
    snprintf(key_path, sizeof key_path, "%s/server.key", in->folder);
    snprintf(text, sizeof text, "%s\n", friend.public_key);
    snprintf(list, sizeof list, "%s", put(in, "allow", 0644, text));
    snprintf(in->other, sizeof in->other, "%s/audit.jsonl", in->folder);
    assert_int_equal(mr_audit_open(in->other), MR_OK);
    const char *const allow[] = {list};
    mr_zmq *socket = listen_at(in, "tcp://127.0.0.1:*", key_path, allow);

    void *context = zmq_ctx_new();
    void *wrong = send_with(context, mr_zmq_endpoint(socket), &stranger, server.public_key);
    void *plain = send_with(context, mr_zmq_endpoint(socket), NULL, NULL);
    for (int i = 0; mr_zmq_refused(socket) < 2 && i < 24000; i++)
        usleep(10000);
    assert_true(mr_zmq_refused(socket) >= 2);
    void *right = send_with(context, mr_zmq_endpoint(socket), &friend, server.public_key);
    zmq_setsockopt(mr_zmq_handle(socket), ZMQ_RCVTIMEO, &patience_ms, sizeof patience_ms);
    assert_int_equal(zmq_recv(mr_zmq_handle(socket), got, sizeof got, 0), 5);
    assert_string_equal(got, "known");
    assert_int_equal(zmq_recv(mr_zmq_handle(socket), got, sizeof got, ZMQ_DONTWAIT), -1);
    zmq_close(wrong);
    zmq_close(plain);
    zmq_close(right);
    zmq_ctx_term(context);
    mr_zmq_close(&socket, 0);
    mr_audit_close();
    /* A handshake that takes too long is tried again. */
    const size_t accepted = count_lines(in->other, "\"peer accepted\"");
    assert_true(accepted >= 1);
    assert_int_equal(count_lines(in->other, friend.public_key), accepted);
    assert_true(count_lines(in->other, "\"key not allowed\"") >= 1);
    assert_true(count_lines(in->other, stranger.public_key) >= 1);
    assert_true(count_lines(in->other, "handshake failed") >= 1);
}

/* ---- the audit log --------------------------------------------------------------------------------------------- */

TEST_WITH(entries_are_appended, begin, finish) {
    fixture *in = *state;
    const char *path = put(in, "audit.jsonl", 0600, "{\"event\":\"of old\"}\n{\"event\":\"cut o");
    mr_audit("nobody hears", mr_audit_text("a", "b"));
    assert_int_equal(mr_audit_open(path), MR_OK);
    assert_true(mr_audit_wanted());
    mr_audit("run begins", mr_audit_text("pipeline", "a \"b\"\n\xff"), mr_audit_text("digest", NULL));
    mr_audit("run ends", mr_audit_number("in", 0), mr_audit_number("delivered", 5000000000));
    mr_audit_close();
    assert_false(mr_audit_wanted());
    assert_int_equal(count_lines(path, "\n"), 4);
    assert_int_equal(count_lines(path, "nobody hears"), 0);
    assert_int_equal(count_lines(path, "\"event\":\"run begins\",\"pipeline\":\"a \\\"b\\\"\\n?\",\"digest\":null}\n"),
                     1);
    assert_int_equal(count_lines(path, "\"event\":\"run ends\",\"in\":0,\"delivered\":5000000000}\n"), 1);
    assert_int_equal(mr_audit_open("/nonexistent/audit"), MR_ERROR_IO);
}

RUN_TESTS(NULL, NULL)
