/* Both ends of shared memory in one process, honest and hostile ones. What processes that die do stands in
 * test_shm_processes.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "engine/data/pool.h"
#include "engine/device/device.h"
#include "engine/transport/shm.h"
#include "engine/transport/shm_ring.h"
#include "engine/transport/shm_socket.h"
#include "millrace/status.h"

enum { SLOTS = 4, BYTES = 100000 };

typedef struct link {
    mr_pool *pool;
    mr_shm_export *export;
    mr_shm_peer *peer;
    mr_shm_offer offer;
    mr_shm_guest guest;
    mr_shm_import *import;
} link_ends;

static void begin_unattached(link_ends *ends) {
    *ends = (link_ends){0};
    assert_int_equal(mr_pool_create(&ends->pool, mr_device_cpu(), MR_MEMORY_SHARED, BYTES, SLOTS), MR_OK);
    assert_int_equal(mr_shm_export_create(&ends->export, "/tmp"), MR_OK);
    mr_shm_export_offer(ends->export, &ends->offer);
    assert_int_equal(mr_shm_guest_make(&ends->guest), MR_OK);
    assert_int_equal(mr_shm_export_invite(ends->export, &ends->guest, &ends->peer), MR_OK);
}

static void begin(link_ends *ends) {
    begin_unattached(ends);
    assert_int_equal(mr_shm_import_open(&ends->import, &ends->offer, &ends->guest), MR_OK);
    /* One call to accept it, one to read its token. */
    mr_shm_export_drive(ends->export, false);
    mr_shm_export_drive(ends->export, false);
    assert_true(mr_shm_export_attached(ends->export, ends->peer));
}

static void end(link_ends *ends) {
    mr_shm_import_close(&ends->import);
    mr_shm_export_destroy(&ends->export);
    assert_int_equal(mr_pool_free_count(ends->pool), SLOTS);
    mr_pool_release(&ends->pool);
}

static mr_buffer *acquire(mr_pool *pool) {
    mr_buffer *buffer = NULL;
    assert_int_equal(mr_pool_acquire(pool, &buffer), MR_OK);
    return buffer;
}

static mr_shm_reference lend(link_ends *ends, mr_buffer *buffer) {
    mr_shm_reference reference;
    assert_int_equal(mr_shm_export_lend(ends->export, ends->peer, buffer, 0, buffer->bytes, &reference), MR_OK);
    return reference;
}

static void expect_refused(link_ends *ends, mr_shm_reference reference) {
    mr_buffer *buffer = NULL;
    assert_int_equal(mr_shm_import_take(ends->import, &reference, &buffer), MR_ERROR_PROTOCOL);
    assert_null(buffer);
    assert_int_equal(mr_shm_import_return(ends->import, &reference), MR_ERROR_PROTOCOL);
}

static bool readable(int fd) {
    return poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0) == 1;
}

/* ---- honest ends ----------------------------------------------------------------------------------------------- */

static void a_buffer_is_seen_where_it_lies(void **state) {
    (void)state;
    link_ends ends;
    begin(&ends);
    mr_buffer *sent = acquire(ends.pool), *taken = NULL;
    for (size_t i = 0; i < sent->bytes; i++)
        sent->data[i] = (uint8_t)(i * 7);
    mr_shm_reference reference;
    assert_int_equal(mr_shm_export_lend(ends.export, ends.peer, sent, 1000, 5000, &reference), MR_OK);
    assert_int_equal(mr_shm_export_lent(ends.export, ends.peer), 1);
    mr_buffer_unref(&sent);
    assert_int_equal(mr_pool_free_count(ends.pool), SLOTS - 1);
    assert_int_equal(mr_shm_import_take(ends.import, &reference, &taken), MR_OK);
    assert_int_equal(taken->memory, MR_MEMORY_SHARED);
    assert_int_equal(taken->bytes, 5000);
    for (size_t i = 0; i < taken->bytes; i++)
        assert_int_equal(taken->data[i], (uint8_t)((i + 1000) * 7));
    mr_shm_export_drive(ends.export, false);
    assert_int_equal(mr_pool_free_count(ends.pool), SLOTS - 1);
    mr_buffer_unref(&taken);
    mr_shm_export_drive(ends.export, false);
    assert_int_equal(mr_pool_free_count(ends.pool), SLOTS);
    assert_int_equal(mr_shm_export_lent(ends.export, ends.peer), 0);
    end(&ends);
}

static void what_comes_back_wakes_only_who_sleeps(void **state) {
    (void)state;
    link_ends ends;
    begin(&ends);
    mr_buffer *taken[2];
    for (int i = 0; i < 2; i++) {
        mr_buffer *sent = acquire(ends.pool);
        mr_shm_reference reference = lend(&ends, sent);
        assert_int_equal(mr_shm_import_take(ends.import, &reference, &taken[i]), MR_OK);
        mr_buffer_unref(&sent);
    }
    mr_shm_export_drive(ends.export, false);
    mr_buffer_unref(&taken[0]);
    assert_false(readable(mr_shm_export_fd(ends.export)));
    mr_shm_export_drive(ends.export, true);
    assert_int_equal(mr_pool_free_count(ends.pool), SLOTS - 1);
    assert_false(readable(mr_shm_export_fd(ends.export)));
    mr_buffer_unref(&taken[1]);
    assert_true(readable(mr_shm_export_fd(ends.export)));
    mr_shm_export_drive(ends.export, true);
    assert_false(readable(mr_shm_export_fd(ends.export)));
    assert_int_equal(mr_pool_free_count(ends.pool), SLOTS);
    end(&ends);
}

static void what_was_not_sent_or_not_wanted_comes_back(void **state) {
    (void)state;
    link_ends ends;
    begin(&ends);
    mr_buffer *sent = acquire(ends.pool);
    mr_shm_reference first = lend(&ends, sent), second = lend(&ends, sent);
    assert_int_not_equal(first.lease, second.lease);
    mr_shm_export_recall(ends.export, ends.peer, &first);
    assert_int_equal(mr_shm_export_lent(ends.export, ends.peer), 1);
    assert_int_equal(mr_shm_import_return(ends.import, &second), MR_OK);
    mr_shm_export_drive(ends.export, false);
    assert_int_equal(mr_shm_export_lent(ends.export, ends.peer), 0);
    mr_buffer_unref(&sent);
    end(&ends);
}

/* Frames of other memory, and those of before and after the peer was there, travel inline. */
static void what_cannot_be_lent_is_to_be_sent_inline(void **state) {
    (void)state;
    link_ends ends;
    begin_unattached(&ends);
    mr_shm_reference reference;
    mr_buffer *shared = acquire(ends.pool);
    assert_int_equal(mr_shm_export_lend(ends.export, ends.peer, shared, 0, 1, &reference), MR_ERROR_AGAIN);
    assert_int_equal(mr_shm_export_post(ends.export, ends.peer, 0, "x", 1), MR_ERROR_AGAIN);
    assert_int_equal(mr_shm_import_open(&ends.import, &ends.offer, &ends.guest), MR_OK);
    mr_shm_export_drive(ends.export, false);
    mr_shm_export_drive(ends.export, false);
    static uint8_t bytes[100];
    mr_buffer *plain = mr_buffer_wrap(bytes, sizeof bytes, NULL, NULL);
    assert_int_equal(mr_shm_export_lend(ends.export, ends.peer, plain, 0, 1, &reference), MR_ERROR_AGAIN);
    mr_buffer_unref(&plain);
    for (int i = 0; i < MR_SHM_LEASES; i++)
        lend(&ends, shared);
    assert_int_equal(mr_shm_export_lend(ends.export, ends.peer, shared, 0, 1, &reference), MR_ERROR_AGAIN);
    mr_shm_import_close(&ends.import);
    assert_true(readable(mr_shm_export_fd(ends.export)));
    mr_shm_export_drive(ends.export, false);
    assert_false(mr_shm_export_attached(ends.export, ends.peer));
    assert_int_equal(mr_shm_export_lent(ends.export, ends.peer), 0);
    assert_int_equal(mr_shm_export_lend(ends.export, ends.peer, shared, 0, 1, &reference), MR_ERROR_AGAIN);
    mr_buffer_unref(&shared);
    end(&ends);
}

static void buffers_outlive_the_import_and_the_export(void **state) {
    (void)state;
    link_ends ends;
    begin(&ends);
    mr_buffer *sent = acquire(ends.pool), *taken = NULL;
    memset(sent->data, 9, sent->bytes);
    mr_shm_reference reference = lend(&ends, sent);
    mr_buffer_unref(&sent);
    assert_int_equal(mr_shm_import_take(ends.import, &reference, &taken), MR_OK);
    end(&ends);
    assert_int_equal(taken->data[0], 9);
    assert_int_equal(taken->data[BYTES - 1], 9);
    mr_buffer_unref(&taken);
}

static size_t mappings(void) {
    char line[512];
    size_t count = 0;
    FILE *file = fopen("/proc/self/maps", "re");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        count += strstr(line, "memfd:millrace") != NULL;
    fclose(file);
    return count;
}

/* More pools than a link has numbers for come and go, as with a folder of pictures of many sizes. */
static void pools_come_and_go(void **state) {
    (void)state;
    link_ends ends;
    begin(&ends);
    uint64_t order;
    size_t bytes;
    /* Takes the ring in. */
    assert_int_equal(mr_shm_import_fetch(ends.import, &order, NULL, 0, &bytes), MR_ERROR_AGAIN);
    size_t before = mappings();
    for (int i = 0; i < 2 * MR_SHM_POOLS; i++) {
        mr_pool *pool;
        mr_buffer *taken = NULL;
        assert_int_equal(mr_pool_create(&pool, mr_device_cpu(), MR_MEMORY_SHARED, 64, 1), MR_OK);
        mr_buffer *sent = acquire(pool);
        memset(sent->data, i, sent->bytes);
        mr_shm_reference reference = lend(&ends, sent);
        mr_buffer_unref(&sent);
        assert_int_equal(mr_shm_import_take(ends.import, &reference, &taken), MR_OK);
        assert_int_equal(taken->data[63], (uint8_t)i);
        mr_pool_release(&pool);
        mr_buffer_unref(&taken);
        mr_shm_export_drive(ends.export, false);
    }
    assert_int_equal(mr_shm_import_fetch(ends.import, &order, NULL, 0, &bytes), MR_ERROR_AGAIN);
    assert_int_equal(mappings(), before);
    end(&ends);
}

static void notes_come_in_order_and_after_their_pools(void **state) {
    (void)state;
    link_ends ends;
    begin(&ends);
    uint64_t order = 0;
    size_t bytes = 0;
    static char text[MR_SHM_NOTE_BYTES];
    mr_shm_reference seen;
    mr_buffer *sent = acquire(ends.pool), *taken = NULL;
    mr_shm_reference reference = lend(&ends, sent);
    assert_int_equal(mr_shm_export_post(ends.export, ends.peer, 5, &reference, sizeof reference), MR_OK);
    assert_int_equal(mr_shm_export_post(ends.export, ends.peer, 6, text, sizeof text), MR_OK);
    assert_int_equal(mr_shm_export_post(ends.export, ends.peer, 7, text, sizeof text + 1), MR_ERROR_AGAIN);
    assert_true(readable(mr_shm_import_fd(ends.import)));
    assert_int_equal(mr_shm_import_fetch(ends.import, &order, &seen, sizeof seen, &bytes), MR_OK);
    assert_int_equal(order, 5);
    assert_int_equal(bytes, sizeof seen);
    assert_int_equal(mr_shm_import_take(ends.import, &seen, &taken), MR_OK);
    mr_buffer_unref(&taken);
    assert_int_equal(mr_shm_import_fetch(ends.import, &order, text, sizeof text, &bytes), MR_OK);
    assert_int_equal(order, 6);
    assert_int_equal(bytes, sizeof text);
    assert_int_equal(mr_shm_import_fetch(ends.import, &order, text, sizeof text, &bytes), MR_ERROR_AGAIN);
    /* A consumer that does not fetch fills the socket; what then goes the other way is not lost. */
    size_t count = 0;
    while (mr_shm_export_post(ends.export, ends.peer, 8 + count, text, 1000) == MR_OK)
        count++;
    assert_in_range(count, 10, 100000);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(mr_shm_import_fetch(ends.import, &order, text, sizeof text, &bytes), MR_OK);
        assert_int_equal(order, 8 + i);
    }
    mr_buffer_unref(&sent);
    mr_shm_export_drop(ends.export, &ends.peer);
    assert_int_equal(mr_shm_import_fetch(ends.import, &order, text, sizeof text, &bytes), MR_ERROR_UNAVAILABLE);
    end(&ends);
}

/* ---- a hostile producer ---------------------------------------------------------------------------------------- */

static void references_are_believed_only_within_bounds(void **state) {
    (void)state;
    link_ends ends;
    begin(&ends);
    mr_buffer *sent = acquire(ends.pool), *taken = NULL;
    const mr_shm_reference right = lend(&ends, sent);
    mr_shm_reference wrong = right;
    wrong.pool++;
    expect_refused(&ends, wrong);
    wrong = right;
    wrong.slot = SLOTS;
    expect_refused(&ends, wrong);
    wrong = right;
    wrong.lease = MR_SHM_LEASES;
    expect_refused(&ends, wrong);
    wrong = right;
    wrong.offset = 1;
    expect_refused(&ends, wrong);
    wrong.offset = BYTES + 1;
    wrong.bytes = 0;
    expect_refused(&ends, wrong);
    wrong.offset = UINT64_MAX;
    wrong.bytes = 2;
    expect_refused(&ends, wrong);
    wrong = right;
    wrong.generation++;
    expect_refused(&ends, wrong);
    assert_int_equal(mr_shm_import_take(ends.import, &right, &taken), MR_OK);
    expect_refused(&ends, right);
    mr_buffer_unref(&taken);
    mr_buffer_unref(&sent);
    end(&ends);
}

static void a_reference_of_former_times_is_refused(void **state) {
    (void)state;
    link_ends ends;
    begin(&ends);
    mr_buffer *sent = acquire(ends.pool);
    mr_shm_reference late = lend(&ends, sent);
    mr_shm_export_recall(ends.export, ends.peer, &late);
    const uint8_t *data = sent->data;
    mr_buffer_unref(&sent);
    sent = acquire(ends.pool);
    assert_ptr_equal(sent->data, data);
    expect_refused(&ends, late);
    assert_non_null(strstr(mr_message(), "former times"));
    mr_buffer_unref(&sent);
    end(&ends);
}

/* Plays a producer: what it sends is not what there can be. */
static void expect_hang_up(const mr_shm_message *message, const int *fds, size_t count, int status) {
    char path[108];
    int listener, fd = -1;
    mr_shm_import *import;
    mr_shm_offer offer = {.path = ""};
    assert_int_equal(mr_shm_listen("/tmp", path, &listener), MR_OK);
    mr_shm_guest guest;
    memcpy(offer.path, path, sizeof path);
    mr_shm_host(offer.host);
    assert_int_equal(mr_shm_guest_make(&guest), MR_OK);
    assert_int_equal(mr_shm_import_open(&import, &offer, &guest), MR_OK);
    assert_int_equal(mr_shm_accept(listener, &fd), MR_OK);
    assert_int_equal(mr_shm_send(fd, message, NULL, 0, fds, count), MR_OK);
    uint64_t order;
    size_t bytes;
    assert_int_equal(mr_shm_import_fetch(import, &order, NULL, 0, &bytes), status);
    char gone[64];
    assert_int_equal(recv(fd, gone, sizeof gone, MSG_DONTWAIT), sizeof(mr_shm_message) + MR_SHM_TOKEN_BYTES);
    assert_int_equal(recv(fd, gone, sizeof gone, MSG_DONTWAIT), 0);
    mr_shm_import_close(&import);
    close(fd);
    close(listener);
    mr_shm_unlisten(path);
}

static int file_of(size_t bytes, int seals) {
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static void files_that_could_still_change_are_refused(void **state) {
    (void)state;
    const int sealed = F_SEAL_SHRINK | F_SEAL_GROW;
    const mr_shm_message pool = {.kind = MR_SHM_POOL, .a = 2, .b = 64}, ring = {.kind = MR_SHM_RING};
    const int open_file = file_of(64 + 128, F_SEAL_GROW), small = file_of(64 + 64, sealed);
    const int open_ring[] = {file_of(sizeof(mr_shm_ring), 0), small};
    expect_hang_up(&pool, &open_file, 1, MR_ERROR_PROTOCOL);
    expect_hang_up(&pool, &small, 1, MR_ERROR_PROTOCOL);
    expect_hang_up(&pool, NULL, 0, MR_ERROR_PROTOCOL);
    expect_hang_up(&(mr_shm_message){.kind = MR_SHM_POOL, .a = UINT64_MAX, .b = 64}, &small, 1, MR_ERROR_PROTOCOL);
    expect_hang_up(&(mr_shm_message){.kind = MR_SHM_POOL, .a = 2, .b = UINT64_MAX}, &small, 1, MR_ERROR_PROTOCOL);
    expect_hang_up(&(mr_shm_message){.kind = MR_SHM_GONE, .number = 3}, NULL, 0, MR_ERROR_PROTOCOL);
    expect_hang_up(&(mr_shm_message){.kind = 99}, NULL, 0, MR_ERROR_PROTOCOL);
    expect_hang_up(&ring, open_ring, 2, MR_ERROR_PROTOCOL);
    expect_hang_up(&ring, &open_ring[1], 1, MR_ERROR_PROTOCOL);
    close(open_file);
    close(small);
    close(open_ring[0]);
}

/* ---- a hostile consumer ---------------------------------------------------------------------------------------- */

static char told[512];

static void note_log(void *context, mr_log_level level, const char *line) {
    (void)context;
    (void)level;
    strncpy(told, line, sizeof told - 1);
}

/* Plays a consumer up to its ring. */
static mr_shm_ring *attach_by_hand(link_ends *ends, int *fd) {
    begin_unattached(ends);
    assert_int_equal(mr_shm_connect(ends->offer.path, fd), MR_OK);
    const mr_shm_message hello = {.kind = MR_SHM_HELLO, .a = MR_SHM_VERSION};
    assert_int_equal(mr_shm_send(*fd, &hello, ends->guest.token, sizeof ends->guest.token, NULL, 0), MR_OK);
    mr_shm_export_drive(ends->export, false);
    mr_shm_export_drive(ends->export, false);
    assert_true(mr_shm_export_attached(ends->export, ends->peer));
    mr_shm_received got;
    mr_shm_ring *ring = NULL;
    assert_int_equal(mr_shm_receive(*fd, &got, NULL, 0), MR_OK);
    assert_int_equal(mr_shm_ring_map(&ring, got.fds[0]), MR_OK);
    mr_shm_close_received(&got);
    return ring;
}

/* Nothing of what the consumer writes into the ring is believed that is not so; it loses what it held and is told
 * no more. */
static void a_ring_that_lies_costs_the_peer_its_place(void **state) {
    (void)state;
    for (int lie = 0; lie < 4; lie++) {
        link_ends ends;
        int fd;
        mr_shm_ring *ring = attach_by_hand(&ends, &fd);
        mr_buffer *sent = acquire(ends.pool);
        const mr_shm_reference reference = lend(&ends, sent);
        mr_buffer_unref(&sent);
        if (lie == 0)
            atomic_store(&ring->returned, UINT64_MAX);
        else if (lie == 1)
            mr_shm_ring_put(ring, UINT32_MAX);
        else
            mr_shm_ring_put(ring, reference.lease + (lie == 2));
        if (lie == 3)
            mr_shm_ring_put(ring, reference.lease);
        mr_log_to(note_log, NULL);
        mr_shm_export_drive(ends.export, true);
        mr_log_to(NULL, NULL);
        assert_false(mr_shm_export_attached(ends.export, ends.peer));
        assert_non_null(strstr(told, lie ? "was not lent" : "than was lent"));
        assert_int_equal(mr_pool_free_count(ends.pool), SLOTS);
        mr_shm_ring_unmap(&ring);
        close(fd);
        end(&ends);
    }
}

static void say(link_ends *ends, const mr_shm_message *hello, const void *data, size_t bytes) {
    int fd = -1;
    assert_int_equal(mr_shm_connect(ends->offer.path, &fd), MR_OK);
    assert_int_equal(mr_shm_send(fd, hello, data, bytes, NULL, 0), MR_OK);
    mr_shm_export_drive(ends->export, false);
    mr_shm_export_drive(ends->export, false);
    char gone;
    assert_true(recv(fd, &gone, 1, MSG_DONTWAIT) <= 0);
    assert_false(mr_shm_export_attached(ends->export, ends->peer));
    close(fd);
}

static void only_who_was_invited_comes_in(void **state) {
    (void)state;
    link_ends ends;
    begin_unattached(&ends);
    uint8_t token[MR_SHM_TOKEN_BYTES], wrong[MR_SHM_TOKEN_BYTES];
    memcpy(token, ends.guest.token, sizeof token);
    memcpy(wrong, token, sizeof wrong);
    wrong[15] ^= 1;
    mr_log_to(note_log, NULL);
    say(&ends, &(mr_shm_message){.kind = MR_SHM_HELLO, .a = MR_SHM_VERSION}, wrong, sizeof wrong);
    assert_non_null(strstr(told, "no valid token"));
    say(&ends, &(mr_shm_message){.kind = MR_SHM_HELLO, .a = MR_SHM_VERSION + 1}, token, sizeof token);
    assert_non_null(strstr(told, "of another version"));
    say(&ends, &(mr_shm_message){.kind = MR_SHM_NOTE, .a = MR_SHM_VERSION}, token, sizeof token);
    say(&ends, &(mr_shm_message){.kind = MR_SHM_HELLO, .a = MR_SHM_VERSION}, token, 15);
    say(&ends, &(mr_shm_message){.kind = MR_SHM_HELLO, .a = MR_SHM_VERSION}, told, sizeof told);
    mr_log_to(NULL, NULL);
    /* Those who say nothing keep nobody out. */
    int silent[64];
    for (int i = 0; i < 64; i++) {
        assert_int_equal(mr_shm_connect(ends.offer.path, &silent[i]), MR_OK);
        mr_shm_export_drive(ends.export, false);
    }
    assert_int_equal(mr_shm_import_open(&ends.import, &ends.offer, &ends.guest), MR_OK);
    mr_shm_export_drive(ends.export, false);
    mr_shm_export_drive(ends.export, false);
    assert_true(mr_shm_export_attached(ends.export, ends.peer));
    /* A token serves once. */
    int second = -1;
    mr_log_to(note_log, NULL);
    assert_int_equal(mr_shm_connect(ends.offer.path, &second), MR_OK);
    const mr_shm_message hello = {.kind = MR_SHM_HELLO, .a = MR_SHM_VERSION};
    assert_int_equal(mr_shm_send(second, &hello, token, sizeof token, NULL, 0), MR_OK);
    mr_shm_export_drive(ends.export, false);
    mr_shm_export_drive(ends.export, false);
    mr_log_to(NULL, NULL);
    assert_non_null(strstr(told, "no valid token"));
    close(second);
    for (int i = 0; i < 64; i++)
        close(silent[i]);
    end(&ends);
}

static void the_folder_is_the_users_alone_and_goes_with_the_export(void **state) {
    (void)state;
    link_ends ends;
    struct stat found;
    char folder[108];
    begin_unattached(&ends);
    snprintf(folder, sizeof folder, "%s", ends.offer.path);
    *strrchr(folder, '/') = 0;
    assert_int_equal(stat(folder, &found), 0);
    assert_int_equal(found.st_mode & 07777, 0700);
    assert_int_equal(found.st_uid, geteuid());
    end(&ends);
    assert_int_equal(stat(folder, &found), -1);
}

static void what_the_ends_tell_each_other_is_one_line(void **state) {
    (void)state;
    const mr_shm_offer offer = {.path = "/tmp/millrace-a b/shm", .host = "0000-11"};
    mr_shm_offer offered;
    mr_shm_guest guest = {.host = "0000-11"}, come, other;
    char text[2 * MR_SHM_TEXT];
    for (int i = 0; i < 16; i++)
        guest.token[i] = (uint8_t)(i * 17);
    assert_string_equal(mr_shm_offer_print(&offer, text), "0000-11 /tmp/millrace-a b/shm");
    assert_int_equal(mr_shm_offer_parse(text, &offered), MR_OK);
    assert_string_equal(offered.path, offer.path);
    assert_string_equal(offered.host, offer.host);
    assert_string_equal(mr_shm_guest_print(&guest, text), "0000-11 00112233445566778899aabbccddeeff");
    assert_int_equal(mr_shm_guest_parse(text, &come), MR_OK);
    assert_string_equal(come.host, guest.host);
    assert_memory_equal(come.token, guest.token, sizeof guest.token);
    static const char *const wrong[] = {"", " ", "host", "host 00112233445566778899aabbccddeef", "host shm",
                                        "host 00112233445566778899aabbccddeefg",
                                        "host 00112233445566778899aabbccddeeff0",
                                        "a-host-whose-name-is-longer-than-any-identifier /shm"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(mr_shm_offer_parse(wrong[i], &offered), MR_ERROR_PROTOCOL);
        assert_int_equal(mr_shm_guest_parse(wrong[i], &come), MR_ERROR_PROTOCOL);
    }
    snprintf(text, sizeof text, "h /%0120d", 0);
    assert_int_equal(mr_shm_offer_parse(text, &offered), MR_ERROR_PROTOCOL);
    assert_int_equal(mr_shm_guest_make(&guest), MR_OK);
    assert_int_equal(mr_shm_guest_make(&other), MR_OK);
    assert_memory_not_equal(guest.token, other.token, sizeof guest.token);
}

static void what_hinders_sharing_is_said(void **state) {
    (void)state;
    link_ends ends;
    mr_shm_export *none = NULL;
    begin_unattached(&ends);
    mr_shm_offer offer = ends.offer;
    offer.host[0] ^= 1;
    assert_int_equal(mr_shm_import_open(&ends.import, &offer, &ends.guest), MR_ERROR_UNAVAILABLE);
    assert_non_null(strstr(mr_message(), "another host"));
    mr_shm_guest stranger = ends.guest;
    mr_shm_peer *nobody = NULL;
    stranger.host[0] ^= 1;
    assert_int_equal(mr_shm_export_invite(ends.export, &stranger, &nobody), MR_ERROR_UNAVAILABLE);
    assert_null(nobody);
    offer = ends.offer;
    snprintf(offer.path, sizeof offer.path, "/nowhere/shm");
    assert_int_equal(mr_shm_import_open(&ends.import, &offer, &ends.guest), MR_ERROR_UNAVAILABLE);
    assert_non_null(strstr(mr_message(), "/nowhere/shm: No such file"));
    memset(offer.path, 'x', sizeof offer.path);
    assert_int_equal(mr_shm_import_open(&ends.import, &offer, &ends.guest), MR_ERROR_UNAVAILABLE);
    assert_null(ends.import);
    assert_int_equal(mr_shm_export_create(&none, "/nowhere/at/all"), MR_ERROR_UNAVAILABLE);
    assert_null(none);
    char deep[200];
    memset(deep, 'x', sizeof deep - 1);
    deep[sizeof deep - 1] = 0;
    assert_int_equal(mr_shm_export_create(&none, deep), MR_ERROR_UNAVAILABLE);
    end(&ends);
}

/* A consumer that can open no more files takes no pool, and gets copies from then on. */
static void a_consumer_without_descriptors_hangs_up(void **state) {
    (void)state;
    link_ends ends;
    struct rlimit before, none;
    begin(&ends);
    mr_buffer *sent = acquire(ends.pool), *taken = NULL;
    uint64_t order;
    size_t bytes;
    assert_int_equal(mr_shm_import_fetch(ends.import, &order, NULL, 0, &bytes), MR_ERROR_AGAIN);
    mr_shm_reference reference = lend(&ends, sent);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    int status = mr_shm_import_take(ends.import, &reference, &taken);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(status, MR_ERROR_UNAVAILABLE);
    assert_string_equal(mr_message(), "shared memory: this process may open no more files");
    mr_shm_export_drive(ends.export, false);
    assert_false(mr_shm_export_attached(ends.export, ends.peer));
    mr_buffer_unref(&sent);
    end(&ends);
}

/* ---- threads --------------------------------------------------------------------------------------------------- */

enum { THREADS = 3, FRAMES = 20000 };

typedef struct hand_over {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    mr_buffer *buffer; /* NULL: taken */
    bool ended;
} hand_over;

static void *drop_buffers(void *argument) {
    hand_over *over = argument;
    for (;;) {
        pthread_mutex_lock(&over->lock);
        while (!over->buffer && !over->ended)
            pthread_cond_wait(&over->changed, &over->lock);
        mr_buffer *buffer = over->buffer;
        over->buffer = NULL;
        pthread_cond_broadcast(&over->changed);
        pthread_mutex_unlock(&over->lock);
        if (!buffer)
            return NULL;
        mr_buffer_unref(&buffer);
    }
}

static void pass_on(hand_over *over, mr_buffer *buffer, bool ended) {
    pthread_mutex_lock(&over->lock);
    while (over->buffer)
        pthread_cond_wait(&over->changed, &over->lock);
    over->buffer = buffer;
    over->ended = ended;
    pthread_cond_broadcast(&over->changed);
    pthread_mutex_unlock(&over->lock);
}

static mr_buffer *acquire_or_sleep(link_ends *ends) {
    mr_buffer *buffer = NULL;
    while (mr_pool_acquire(ends->pool, &buffer) == MR_ERROR_AGAIN) {
        mr_shm_export_drive(ends->export, true);
        if (mr_pool_free_count(ends->pool) == 0)
            assert_int_equal(poll(&(struct pollfd){mr_shm_export_fd(ends->export), POLLIN, 0}, 1, 60000), 1);
    }
    return buffer;
}

/* One lends, others drop; the one that lends sleeps when all is out. A wake-up that were lost would stop it for
 * ever. */
static void buffers_come_back_from_many_threads(void **state) {
    (void)state;
    link_ends ends;
    begin(&ends);
    hand_over over = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, drop_buffers, &over), 0);
    for (int i = 0; i < FRAMES; i++) {
        mr_buffer *sent = acquire_or_sleep(&ends), *taken = NULL;
        memcpy(sent->data, &i, sizeof i);
        mr_shm_reference reference = lend(&ends, sent);
        mr_buffer_unref(&sent);
        assert_int_equal(mr_shm_import_take(ends.import, &reference, &taken), MR_OK);
        assert_memory_equal(taken->data, &i, sizeof i);
        pass_on(&over, taken, false);
    }
    pass_on(&over, NULL, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    mr_shm_export_drive(ends.export, false);
    assert_int_equal(mr_shm_export_lent(ends.export, ends.peer), 0);
    end(&ends);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_buffer_is_seen_where_it_lies),
        cmocka_unit_test(what_comes_back_wakes_only_who_sleeps),
        cmocka_unit_test(what_was_not_sent_or_not_wanted_comes_back),
        cmocka_unit_test(what_cannot_be_lent_is_to_be_sent_inline),
        cmocka_unit_test(buffers_outlive_the_import_and_the_export),
        cmocka_unit_test(pools_come_and_go),
        cmocka_unit_test(notes_come_in_order_and_after_their_pools),
        cmocka_unit_test(references_are_believed_only_within_bounds),
        cmocka_unit_test(a_reference_of_former_times_is_refused),
        cmocka_unit_test(files_that_could_still_change_are_refused),
        cmocka_unit_test(a_ring_that_lies_costs_the_peer_its_place),
        cmocka_unit_test(only_who_was_invited_comes_in),
        cmocka_unit_test(the_folder_is_the_users_alone_and_goes_with_the_export),
        cmocka_unit_test(what_the_ends_tell_each_other_is_one_line),
        cmocka_unit_test(what_hinders_sharing_is_said),
        cmocka_unit_test(a_consumer_without_descriptors_hangs_up),
        cmocka_unit_test(buffers_come_back_from_many_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
