/* Keys in files, key lists, and sockets that know their peers by keys. */
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include "engine/observe/audit_log.h"
#include "engine/transport/zmq/curve_keys.h"
#include "engine/transport/zmq/socket.h"
#include "millrace/status.h"
#include "tests/support/suite.h"
#include "tests/support/temporary.h"

static char path[128], where[128];

static const char *put(const char *name, mode_t mode, const char *text) {
    snprintf(path, sizeof path, "%s/%s", temporary_folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    chmod(path, mode);
    return path;
}

/* ---- files ----------------------------------------------------------------------------------------------------- */

TEST_WITH(a_pair_is_read_as_it_was_written, make_temporary_folder, remove_temporary_folder) {
    mr_key_pair made, read;
    struct stat found;
    char key[MR_KEY_TEXT], derived[MR_KEY_TEXT];
    assert_int_equal(mr_key_pair_generate(&made), MR_OK);
    assert_int_equal(mr_key_pair_write(&made, temporary_folder, "camera"), MR_OK);
    snprintf(path, sizeof path, "%s/camera.key", temporary_folder);
    assert_int_equal(stat(path, &found), 0);
    assert_int_equal(found.st_mode & 0777, 0600);
    assert_int_equal(mr_key_pair_read(&read, path), MR_OK);
    assert_string_equal(read.public_key, made.public_key);
    assert_string_equal(read.secret_key, made.secret_key);
    assert_int_equal(zmq_curve_public(derived, read.secret_key), 0);
    assert_string_equal(derived, made.public_key);
    snprintf(path, sizeof path, "%s/camera.pub", temporary_folder);
    assert_int_equal(mr_key_public(path, key), MR_OK);
    assert_string_equal(key, made.public_key);
    assert_int_equal(mr_key_pair_read(&read, path), MR_ERROR_PERMISSION);
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(mr_key_pair_read(&read, path), MR_ERROR_DATA);
    assert_non_null(strstr(mr_message(), "secret-key"));
}

TEST_WITH(nothing_is_written_over, make_temporary_folder, remove_temporary_folder) {
    mr_key_pair first, second, read;
    assert_int_equal(mr_key_pair_generate(&first), MR_OK);
    assert_int_equal(mr_key_pair_generate(&second), MR_OK);
    assert_string_not_equal(first.secret_key, second.secret_key);
    assert_int_equal(mr_key_pair_write(&first, temporary_folder, "a"), MR_OK);
    assert_int_equal(mr_key_pair_write(&second, temporary_folder, "a"), MR_ERROR_IO);
    snprintf(path, sizeof path, "%s/a.key", temporary_folder);
    assert_int_equal(mr_key_pair_read(&read, path), MR_OK);
    assert_string_equal(read.public_key, first.public_key);
    put("b.pub", 0644, "mine\n");
    assert_int_equal(mr_key_pair_write(&second, temporary_folder, "b"), MR_ERROR_IO);
    snprintf(path, sizeof path, "%s/b.key", temporary_folder);
    assert_int_equal(access(path, F_OK), -1);
}

/* A program may pass on a name from others: it must not lead out of the folder. */
TEST_WITH(names_are_those_of_files, make_temporary_folder, remove_temporary_folder) {
    static const char *const names[] = {"", ".", "..", ".hidden", "a/b", "../a", "/a"};
    mr_key_pair pair;
    assert_int_equal(mr_key_pair_generate(&pair), MR_OK);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_int_equal(mr_key_pair_write(&pair, temporary_folder, names[i]), MR_ERROR_USAGE);
        snprintf(path, sizeof path, "\"%s\"", names[i]);
        assert_non_null(strstr(mr_message(), path));
    }
}

enum { STRANGER = 65532 }; /* a user and a group */

TEST_WITH(secrets_that_others_may_read_are_none, make_temporary_folder, remove_temporary_folder) {
    mr_key_pair pair;
    static const mode_t modes[] = {0640, 0604, 0660, 0602, 0610};
    assert_int_equal(mr_key_pair_generate(&pair), MR_OK);
    assert_int_equal(mr_key_pair_write(&pair, temporary_folder, "a"), MR_OK);
    snprintf(path, sizeof path, "%s/a.key", temporary_folder);
    if (geteuid() == 0)
        assert_int_equal(chown(path, STRANGER, STRANGER), 0);
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        chmod(path, modes[i]);
        assert_int_equal(mr_key_pair_read(&pair, path), MR_ERROR_PERMISSION);
        assert_string_equal(pair.secret_key, "");
    }
    assert_int_equal(mr_key_pair_read(&pair, "/nonexistent/a.key"), MR_ERROR_NO_INPUT);
    assert_non_null(strstr(mr_message(), "millrace keygen"));
}

/* As Kubernetes mounts a secret for a container whose user is not root: root's file, which a group may read. */
TEST_WITH(the_group_of_roots_secret_may_read_it, make_temporary_folder, remove_temporary_folder) {
    static const mode_t modes[] = {0640, 0440, 0604, 0660, 0602, 0610, 0444};
    mr_key_pair pair;
    int status = 0;
    if (geteuid() != 0)
        skip();
    assert_int_equal(mr_key_pair_generate(&pair), MR_OK);
    assert_int_equal(mr_key_pair_write(&pair, temporary_folder, "a"), MR_OK);
    snprintf(path, sizeof path, "%s/a.key", temporary_folder);
    assert_int_equal(chmod(temporary_folder, 0755), 0);
    assert_int_equal(chown(path, 0, STRANGER), 0);
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        chmod(path, modes[i]);
        assert_int_equal(mr_key_pair_read(&pair, path), i < 2 ? MR_OK : MR_ERROR_PERMISSION);
    }
    chmod(path, 0440);
    pid_t child = fork();
    if (child == 0)
        _exit(setgroups(0, NULL) || setgid(STRANGER) || setuid(STRANGER) || mr_key_pair_read(&pair, path));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

TEST_WITH(what_is_no_pair_is_none, make_temporary_folder, remove_temporary_folder) {
    mr_key_pair pair, other;
    char text[512];
    assert_int_equal(mr_key_pair_generate(&pair), MR_OK);
    assert_int_equal(mr_key_pair_generate(&other), MR_OK);
    snprintf(text, sizeof text, "public-key = \"%s\"\nsecret-key = \"%s\"\n", other.public_key, pair.secret_key);
    assert_int_equal(mr_key_pair_read(&pair, put("mixed.key", 0600, text)), MR_ERROR_DATA);
    assert_non_null(strstr(mr_message(), "mixed.key: the public key does not belong"));
    assert_string_equal(pair.secret_key, "");
    snprintf(path, sizeof path, "%s/pipe.key", temporary_folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(mr_key_pair_read(&pair, path), MR_ERROR_DATA);
    assert_int_equal(mr_key_pair_read(&pair, temporary_folder), MR_ERROR_DATA);
    assert_non_null(strstr(mr_message(), "is not a regular file"));
}

/* RFC 32's test vector has 8 bytes; RFC 26's long-term CURVE keys have 32. */
static const char bob[] = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7";
static const char alice[] = "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID";

/* As an editor on Windows saves it. */
TEST_WITH(lists_may_begin_with_a_mark, make_temporary_folder, remove_temporary_folder) {
    ENDED_BY(mr_allow_list_fini) mr_allow_list list = {0};
    uint8_t key[MR_KEY_BYTES];
    char text[128];
    snprintf(text, sizeof text, "\xef\xbb\xbf%s\r\n%s\r\n", bob, alice);
    assert_int_equal(mr_allow_list_add(&list, put("allow", 0644, text)), MR_OK);
    assert_int_equal(list.count, 2);
    assert_true(mr_key_decode(bob, key));
    assert_true(mr_allow_list_has(&list, key));
}

TEST_WITH(lists_have_comments, make_temporary_folder, remove_temporary_folder) {
    ENDED_BY(mr_allow_list_fini) mr_allow_list list = {0};
    uint8_t key[MR_KEY_BYTES], hash[MR_KEY_BYTES];
    char text[512], hashed[MR_KEY_TEXT];
    memset(hash, 0, sizeof hash);
    /* The highest digit, #, is 84 x 85^4 in the first four bytes. */
    hash[0] = 0xff, hash[1] = 0xff, hash[2] = 0xff, hash[3] = 0xff;
    mr_key_encode(hash, hashed);
    snprintf(text, sizeof text, "# who may connect\n\n  %s  # bob\r\n#%s\n%s # 84\n", bob, alice, hashed);
    assert_int_equal(mr_allow_list_add(&list, put("allow", 0644, text)), MR_OK);
    assert_int_equal(list.count, 2);
    assert_true(mr_key_decode(bob, key));
    assert_true(mr_allow_list_has(&list, key));
    assert_true(mr_allow_list_has(&list, hash));
    assert_true(mr_key_decode(alice, key));
    assert_false(mr_allow_list_has(&list, key));
    assert_int_equal(mr_allow_list_add(&list, alice), MR_OK);
    assert_true(mr_allow_list_has(&list, key));
}

TEST_WITH(what_is_no_key_is_told_with_its_line, make_temporary_folder, remove_temporary_folder) {
    mr_allow_list list = {0};
    char key[MR_KEY_TEXT], text[256];
    uint8_t bytes[MR_KEY_BYTES];
    assert_int_equal(mr_allow_list_add(&list, put("allow", 0644, "# one\nnonsense\n")), MR_ERROR_DATA);
    assert_non_null(strstr(mr_message(), "allow:2:"));
    assert_int_equal(mr_allow_list_add(&list, put("empty", 0644, "# none\n")), MR_ERROR_DATA);
    assert_int_equal(mr_allow_list_add(&list, "/nonexistent"), MR_ERROR_NO_INPUT);
    snprintf(text, sizeof text, "%s\n%s\n", bob, alice);
    assert_int_equal(mr_key_public(put("two", 0644, text), key), MR_ERROR_DATA);
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

static mr_zmq *listen_at(const char *endpoint, const char *key, const char *const *allow) {
    mr_zmq *made = NULL;
    const mr_zmq_params params = {.id = "here", .type = ZMQ_PULL, .endpoint = endpoint, .bind = true, .key = key,
                                  .allow_count = allow ? 1 : 0, .allow = allow, .receive_hwm = 10};
    assert_int_equal(mr_zmq_create(&made, &params), MR_OK);
    assert_int_equal(mr_zmq_attach(made), MR_OK);
    return made;
}

/* A bound unix socket's file. */
static int socket_at(struct sockaddr_un *address) {
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(address->sun_path, sizeof address->sun_path, "%s/dead", temporary_folder);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)address, sizeof *address), 0);
    return fd;
}

/* The linker redirects all calls here (tests/CMakeLists.txt). */
static bool in_use;
int __real_zmq_bind(void *socket, const char *endpoint);
int __wrap_zmq_bind(void *socket, const char *endpoint);

int __wrap_zmq_bind(void *socket, const char *endpoint) {
    if (!in_use || strncmp(endpoint, "inproc:", 7) == 0)
        return __real_zmq_bind(socket, endpoint);
    errno = EADDRINUSE;
    return -1;
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
TEST_WITH(a_path_is_not_taken_from_who_listens_there, make_temporary_folder, remove_temporary_folder) {
    char left[sizeof path + 16];
    snprintf(path, sizeof path, "ipc://%s/a", temporary_folder);
    mr_zmq *socket = listen_at(path, NULL, NULL);
    assert_int_equal(attach(path), MR_ERROR_UNAVAILABLE);
    assert_non_null(strstr(mr_message(), "another process listens there"));
    void *context = zmq_ctx_new(), *writer = zmq_socket(context, ZMQ_PUSH);
    char got[8];
    assert_int_equal(zmq_connect(writer, path), 0);
    assert_int_equal(zmq_send(writer, "still", 5, 0), 5);
    assert_int_equal(zmq_recv(mr_zmq_handle(socket), got, sizeof got, 0), 5);
    zmq_close(writer);
    zmq_ctx_term(context);
    assert_int_equal(access(path + strlen("ipc://"), F_OK), 0);
    mr_zmq_close(&socket, 0);
    assert_int_equal(access(path + strlen("ipc://"), F_OK), -1);
    /* A file without a listener, as a killed process leaves it. */
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int dead = socket_at(&address);
    close(dead);
    snprintf(left, sizeof left, "ipc://%.100s", address.sun_path);
    assert_int_equal(attach(left), MR_OK);
}

/* libzmq removed the file and took its place. */
TEST_WITH(a_file_is_not_replaced_by_a_socket, make_temporary_folder, remove_temporary_folder) {
    char at[sizeof path + 16];
    snprintf(at, sizeof at, "ipc://%s", put("rows.csv", 0600, "precious"));
    assert_int_equal(attach(at), MR_ERROR_CONFIG);
    expect_words(mr_message(), "a file that is no socket is there already: name a path at which there is nothing");
    FREED char *left = whole_file(path);
    assert_string_equal(left, "precious");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(attach(at), MR_ERROR_CONFIG);
    expect_words(mr_message(), "a folder is there already");
    assert_int_equal(rmdir(path), 0);
}

/* Another process takes the address after the check. */
TEST(words_for_an_address_in_use_fit_the_transport) {
    static const char *const endpoints[][2] = {{"tcp://127.0.0.1:5555", "or choose another port"},
                                               {"ipc://in-use/a", "or choose another path"}};
    for (size_t i = 0; i < 2; i++) {
        in_use = true;
        assert_int_equal(attach(endpoints[i][0]), MR_ERROR_UNAVAILABLE);
        in_use = false;
        expect_words(mr_message(), endpoints[i][1]);
    }
    rmdir("in-use");
}

TEST_WITH(the_folder_of_a_socket_is_a_folder_of_its_own, make_temporary_folder, remove_temporary_folder) {
    put("file", 0600, "");
    snprintf(where, sizeof where, "ipc://%s/file/a", temporary_folder);
    assert_int_equal(attach(where), MR_ERROR_IO);
    assert_non_null(strstr(mr_message(), "is not a folder"));
    snprintf(where, sizeof where, "%s/theirs", temporary_folder);
    assert_int_equal(mkdir(where, 0700), 0);
    if (chown(where, geteuid() + 1, (gid_t)-1))
        return; /* only root can, and not in every container */
    snprintf(path, sizeof path, "ipc://%s/theirs/a", temporary_folder);
    assert_int_equal(attach(path), MR_ERROR_PERMISSION);
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
    /* A limit on messages needs a second descriptor for each peer. */
    mr_zmq *limited = NULL;
    params.max_message_bytes = 65536;
    int limited_fits = mr_zmq_create(&limited, &params);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(limited_fits, MR_ERROR_UNAVAILABLE);
    assert_int_equal(status, MR_ERROR_UNAVAILABLE);
    assert_non_null(strstr(reported, "of the 200 that this process may have"));
    assert_non_null(strstr(reported, "ulimit -n"));
    assert_int_equal(fits, MR_OK);
    free(reported);
    mr_zmq_close(&socket, 0);
}

TEST_WITH(others_may_not_enter_the_folder, make_temporary_folder, remove_temporary_folder) {
    struct stat found;
    snprintf(path, sizeof path, "ipc://%s/sockets/a", temporary_folder);
    mr_zmq *socket = listen_at(path, NULL, NULL);
    snprintf(where, sizeof where, "%s/sockets", temporary_folder);
    assert_int_equal(stat(where, &found), 0);
    assert_int_equal(found.st_mode & 0777, 0700);
    mr_zmq_close(&socket, 0);
    assert_null(socket);
    /* The folder is removed with the socket that created it, unless others use it; one that existed before stays. */
    assert_int_equal(access(where, F_OK), -1);
    socket = listen_at(path, NULL, NULL);
    put("sockets/b", 0600, "");
    snprintf(path, sizeof path, "ipc://%s/sockets/a", temporary_folder);
    snprintf(where, sizeof where, "%s/sockets", temporary_folder);
    mr_zmq_close(&socket, 0);
    assert_int_equal(access(where, F_OK), 0);
    assert_int_equal(attach(path), MR_OK);
    assert_int_equal(access(where, F_OK), 0);
    chmod(where, 0755);
    const mr_zmq_params params = {.id = "here", .type = ZMQ_PULL, .endpoint = path, .bind = true};
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

TEST_WITH(only_those_with_a_key_of_the_list, make_temporary_folder, remove_temporary_folder) {
    mr_key_pair server, friend, stranger;
    char key_path[128], list[128], text[64], got[16] = "";
    int patience_ms = 240000;
    assert_int_equal(mr_key_pair_generate(&server) | mr_key_pair_generate(&friend) | mr_key_pair_generate(&stranger),
                     0);
    assert_int_equal(mr_key_pair_write(&server, temporary_folder, "server"), MR_OK);
    snprintf(key_path, sizeof key_path, "%s/server.key", temporary_folder);
    snprintf(text, sizeof text, "%s\n", friend.public_key);
    snprintf(list, sizeof list, "%s", put("allow", 0644, text));
    snprintf(where, sizeof where, "%s/audit.jsonl", temporary_folder);
    assert_int_equal(mr_audit_open(where), MR_OK);
    const char *const allow[] = {list};
    mr_zmq *socket = listen_at("tcp://127.0.0.1:*", key_path, allow);

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
    const int accepted = count_lines(where, "\"peer accepted\"", "");
    assert_true(accepted >= 1);
    assert_int_equal(count_lines(where, friend.public_key, ""), accepted);
    assert_true(count_lines(where, "\"key not allowed\"", "") >= 1);
    assert_true(count_lines(where, stranger.public_key, "") >= 1);
    assert_true(count_lines(where, "handshake failed", "") >= 1);
}

/* ---- the audit log --------------------------------------------------------------------------------------------- */

TEST_WITH(entries_are_appended, make_temporary_folder, remove_temporary_folder) {
    put("audit.jsonl", 0600, "{\"event\":\"of old\"}\n{\"event\":\"cut o");
    mr_audit("nobody hears", mr_audit_text("a", "b"));
    assert_int_equal(mr_audit_open(path), MR_OK);
    assert_true(mr_audit_wanted());
    mr_audit("run begins", mr_audit_text("pipeline", "a \"b\"\n\xff"), mr_audit_text("digest", NULL));
    mr_audit("run ends", mr_audit_number("in", 0), mr_audit_number("delivered", 5000000000));
    mr_audit_close();
    assert_false(mr_audit_wanted());
    assert_int_equal(count_lines(path, "\n", ""), 4);
    assert_int_equal(count_lines(path, "nobody hears", ""), 0);
    assert_int_equal(count_lines(path, "\"event\":\"run begins\",\"pipeline\":\"a \\\"b\\\"\\n?\",",
                                 "\"digest\":null}\n"), 1);
    assert_int_equal(count_lines(path, "\"event\":\"run ends\",\"in\":0,\"delivered\":5000000000}\n", ""), 1);
    assert_int_equal(mr_audit_open("/nonexistent/audit"), MR_ERROR_IO);
}

RUN_TESTS(NULL, NULL)
