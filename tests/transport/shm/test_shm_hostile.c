/* Ends of shared memory that lie to each other, or come uninvited: nothing they say may be believed. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "engine/data/pool.h"
#include "engine/device/pixel_memory.h"
#include "engine/transport/shm/shm_area.h"
#include "engine/transport/shm/shm_socket.h"
#include "millrace/log.h"
#include "millrace/status.h"
#include "tests/support/suite.h"
#include "tests/support/transport/shm_ends.h"

static void expect_refused(shm_ends *ends, mr_shm_reference reference) {
    mr_buffer *buffer = NULL;
    assert_int_equal(mr_shm_import_take(ends->import, &reference, &buffer), MR_ERROR_PROTOCOL);
    assert_null(buffer);
}

/* ---- a hostile producer ---------------------------------------------------------------------------------------- */

SHM_TEST(references_are_believed_only_within_bounds) {
    ENDED_BY(mr_buffer_unref) mr_buffer *sent = shm_ends_acquire(ends->pool), *taken = NULL;
    const mr_shm_reference right = shm_ends_lend(ends, sent);
    mr_shm_reference wrong[7];
    for (int i = 0; i < 7; i++)
        wrong[i] = right;
    wrong[0].pool++;
    wrong[1].slot = SHM_ENDS_SLOTS;
    wrong[2].lease = MR_SHM_LEASES;
    wrong[3].offset = 1;
    wrong[4].offset = SHM_ENDS_BYTES + 1, wrong[4].bytes = 0;
    wrong[5].offset = UINT64_MAX, wrong[5].bytes = 2;
    wrong[6].generation++;
    for (int i = 0; i < 7; i++)
        expect_refused(ends, wrong[i]);
    assert_int_equal(mr_shm_import_take(ends->import, &right, &taken), MR_OK);
    expect_refused(ends, right);
}

SHM_TEST(a_stale_reference_is_refused) {
    ENDED_BY(mr_buffer_unref) mr_buffer *sent = shm_ends_acquire(ends->pool);
    mr_shm_reference late = shm_ends_lend(ends, sent);
    mr_buffer *taken;
    assert_int_equal(mr_shm_import_take(ends->import, &late, &taken), MR_OK);
    mr_buffer_unref(&taken);
    mr_shm_export_drive(ends->export, false);
    const uint8_t *data = sent->data;
    mr_buffer_unref(&sent);
    sent = shm_ends_acquire(ends->pool);
    assert_ptr_equal(sent->data, data);
    expect_refused(ends, late);
    assert_non_null(strstr(mr_message(), "stale"));
}

/* ---- too few descriptors ---------------------------------------------------------------------------------------- */

/* If one cannot be accepted, it must be turned away, so that pollers are not woken again and again. */
TEST(one_that_comes_when_there_are_no_descriptors_is_turned_away) {
    enum { COME = 3 };
    mr_shm_listener listener;
    struct rlimit before;
    int fds[COME], taken = -1;
    char got;
    assert_int_equal(mr_shm_listen(&listener, "/tmp"), MR_OK);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, listener.path, sizeof listener.path);
    for (int i = 0; i < COME; i++)
        fds[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    const struct rlimit none = {.rlim_cur = (rlim_t)fds[COME - 1] + 1, .rlim_max = before.rlim_max};
    for (int i = 0; i < COME; i++)
        assert_int_equal(connect(fds[i], (struct sockaddr *)&address, sizeof address), 0);
    struct pollfd one = {.fd = listener.fd, .events = POLLIN};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    for (int i = 0; i < COME; i++)
        assert_int_equal(mr_shm_accept(&listener, &taken), MR_ERROR_UNAVAILABLE);
    assert_int_equal(poll(&one, 1, 0), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    for (int i = 0; i < COME; i++) {
        assert_int_equal(recv(fds[i], &got, 1, MSG_DONTWAIT), 0);
        close(fds[i]);
    }
    assert_int_equal(mr_shm_accept(&listener, &taken), MR_ERROR_AGAIN);
    mr_shm_unlisten(&listener);
}

/* The consumer's greeting has come, and then what recv returns: 0 if the consumer has hung up. */
static void expect_greeting_and(int fd, ssize_t next) {
    char got[64];
    assert_int_equal(recv(fd, got, sizeof got, MSG_DONTWAIT), sizeof(mr_shm_message) + MR_SHM_TOKEN_BYTES);
    assert_int_equal(recv(fd, got, sizeof got, MSG_DONTWAIT), next);
}

/* Imitates a producer that sends something impossible. */
static void expect_hang_up(const mr_shm_message *message, const int *fds, size_t count, int status) {
    mr_shm_listener listener;
    int doorbell, fd = -1;
    mr_shm_import *import;
    mr_shm_offer offer = {.path = ""};
    assert_int_equal(mr_shm_listen(&listener, "/tmp"), MR_OK);
    mr_shm_guest guest;
    memcpy(offer.path, listener.path, sizeof offer.path);
    mr_shm_host(offer.host);
    assert_int_equal(mr_shm_guest_make(&guest), MR_OK);
    assert_int_equal(mr_shm_doorbell(&doorbell), MR_OK);
    assert_int_equal(mr_shm_import_open(&import, &offer, &guest, doorbell), MR_OK);
    assert_int_equal(mr_shm_accept(&listener, &fd), MR_OK);
    assert_int_equal(mr_shm_send(fd, message, NULL, 0, fds, count), MR_OK);
    size_t bytes;
    assert_int_equal(mr_shm_import_fetch(import, NULL, 0, &bytes), status);
    expect_greeting_and(fd, status == MR_ERROR_AGAIN ? -1 : 0);
    mr_shm_import_close(&import);
    close(fd);
    close(doorbell);
    mr_shm_unlisten(&listener);
}

static int file_of(size_t bytes, int seals) {
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

TEST(files_that_could_still_change_are_refused) {
    const int sealed = F_SEAL_SHRINK | F_SEAL_GROW;
    const mr_shm_message pool = {.kind = MR_SHM_POOL, .a = 2, .b = 64}, rings = {.kind = MR_SHM_RINGS};
    const int open_file = file_of(64 + 128 + MR_SLACK_BYTES, F_SEAL_GROW);
    const int small = file_of(64 + 64 + MR_SLACK_BYTES, sealed);
    const int open_rings = file_of(mr_shm_area_bytes(), 0), good_rings = file_of(mr_shm_area_bytes(), sealed);
    int doorbell, slow_bell = eventfd(0, EFD_CLOEXEC), pipe_ends[2];
    assert_int_equal(mr_shm_doorbell(&doorbell), MR_OK);
    assert_int_equal(pipe2(pipe_ends, O_CLOEXEC | O_NONBLOCK), 0);
    expect_hang_up(&pool, &open_file, 1, MR_ERROR_PROTOCOL);
    expect_hang_up(&pool, &small, 1, MR_ERROR_PROTOCOL);
    expect_hang_up(&pool, NULL, 0, MR_ERROR_PROTOCOL);
    expect_hang_up(&(mr_shm_message){.kind = MR_SHM_POOL, .a = UINT64_MAX, .b = 64}, &small, 1, MR_ERROR_PROTOCOL);
    expect_hang_up(&(mr_shm_message){.kind = MR_SHM_POOL, .a = 2, .b = UINT64_MAX}, &small, 1, MR_ERROR_PROTOCOL);
    expect_hang_up(&(mr_shm_message){.kind = MR_SHM_GONE, .number = 3}, NULL, 0, MR_ERROR_PROTOCOL);
    expect_hang_up(&(mr_shm_message){.kind = 99}, NULL, 0, MR_ERROR_PROTOCOL);
    expect_hang_up(&rings, (const int[]){open_rings, doorbell}, 2, MR_ERROR_PROTOCOL);
    assert_non_null(strstr(mr_message(), "is not sealed"));
    expect_hang_up(&rings, (const int[]){small, doorbell}, 2, MR_ERROR_PROTOCOL);
    assert_non_null(strstr(mr_message(), "of the wrong size"));
    expect_hang_up(&rings, &good_rings, 1, MR_ERROR_PROTOCOL);
    const int no_bells[] = {small, pipe_ends[1], slow_bell};
    for (size_t i = 0; i < 3; i++) {
        expect_hang_up(&rings, (const int[]){good_rings, no_bells[i]}, 2, MR_ERROR_PROTOCOL);
        assert_non_null(strstr(mr_message(), "a doorbell that is not an eventfd"));
    }
    const int fds[] = {open_file, small, open_rings, good_rings, doorbell, slow_bell, pipe_ends[0], pipe_ends[1]};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        close(fds[i]);
}

/* Imitates a producer up to the rings; the importer has not received them yet. */
static mr_shm_area *lend_by_hand(shm_ends *ends, int *fd) {
    mr_shm_listener listener;
    int file;
    mr_shm_area *area;
    shm_ends_begin_unattached(ends);
    assert_int_equal(mr_shm_listen(&listener, "/tmp"), MR_OK);
    memcpy(ends->offer.path, listener.path, sizeof ends->offer.path);
    shm_ends_come(ends);
    assert_int_equal(mr_shm_accept(&listener, fd), MR_OK);
    assert_int_equal(mr_shm_area_create(&area, &file), MR_OK);
    const mr_shm_message rings = {.kind = MR_SHM_RINGS};
    assert_int_equal(mr_shm_send(*fd, &rings, NULL, 0, (const int[]){file, ends->doorbell}, 2), MR_OK);
    close(file);
    mr_shm_unlisten(&listener);
    return area;
}

static void post_by_hand(mr_shm_records *records, size_t bytes) {
    uint8_t *place;
    size_t room;
    assert_int_equal(mr_shm_records_room(records, &place, &room), MR_OK);
    assert_true(bytes <= room);
    mr_shm_records_post(records, bytes);
}

/* A producer that lies about notes loses the link: the consumer hangs up. */
TEST(notes_that_cannot_be_cost_the_producer_its_place) {
    const mr_shm_message pool = {.kind = MR_SHM_POOL, .number = 1, .a = 2, .b = 64};
    for (int lie = 0; lie < 4; lie++) {
        ENDED_BY(shm_ends_end) shm_ends ends;
        int fd;
        uint8_t record[8], *place;
        size_t bytes;
        mr_shm_area *area = lend_by_hand(&ends, &fd);
        const int file = file_of(64 + 128 + MR_SLACK_BYTES, F_SEAL_SHRINK | F_SEAL_GROW);
        post_by_hand(&area->down, sizeof record);
        assert_int_equal(mr_shm_send(fd, &pool, NULL, 0, &file, 1), MR_OK);
        assert_int_equal(mr_shm_import_fetch(ends.import, record, sizeof record, &bytes), MR_OK);
        if (lie == 0)
            atomic_store(&area->head->down.written, 0);
        else if (lie == 1)
            post_by_hand(&area->down, 0); /* Nothing was withdrawn. */
        else if (lie == 2)
            atomic_store(&area->head->up.read, 8 * MR_SHM_UP_BYTES);
        else
            post_by_hand(&area->down, sizeof record + 1);
        /* Its counter is only read when the ring may be full. */
        for (int i = 0; lie == 2 && i < MR_SHM_UP_BYTES / MR_SHM_RECORD_BYTES; i++)
            if (mr_shm_import_room(ends.import, &place))
                mr_shm_import_post(ends.import, MR_SHM_RECORD_BYTES - 16);
        if (lie == 2)
            assert_int_equal(mr_shm_import_room(ends.import, &place), 0);
        else
            assert_int_equal(mr_shm_import_fetch(ends.import, record, sizeof record, &bytes), MR_ERROR_PROTOCOL);
        expect_greeting_and(fd, 0);
        mr_shm_area_unmap(&area);
        close(file);
        close(fd);
    }
}

/* A pool before the rings, and nothing else. */
TEST(who_passes_no_rings_has_sent_no_notes) {
    const int file = file_of(64 + 128 + MR_SLACK_BYTES, F_SEAL_SHRINK | F_SEAL_GROW);
    expect_hang_up(&(mr_shm_message){.kind = MR_SHM_POOL, .a = 2, .b = 64}, &file, 1, MR_ERROR_AGAIN);
    close(file);
}

/* ---- a hostile consumer ---------------------------------------------------------------------------------------- */

static char reported[512];

static void note_log(void *context, mr_log_level level, const char *line) {
    strncpy(reported, line, sizeof reported - 1);
}

static void drive_and_note(mr_shm_export *export) {
    mr_log_to(note_log, NULL);
    mr_shm_export_drive(export, true);
    mr_log_to(NULL, NULL);
}

/* Imitates a consumer up to the rings. */
static mr_shm_area *attach_by_hand(shm_ends *ends, int *fd) {
    shm_ends_begin_unattached(ends);
    assert_int_equal(mr_shm_connect(ends->offer.path, fd), MR_OK);
    const mr_shm_message hello = {.kind = MR_SHM_HELLO, .a = MR_SHM_VERSION};
    assert_int_equal(mr_shm_send(*fd, &hello, ends->guest.token, sizeof ends->guest.token, &ends->doorbell, 1), MR_OK);
    mr_shm_export_drive(ends->export, false);
    mr_shm_export_drive(ends->export, false);
    assert_true(mr_shm_export_attached(ends->export, ends->peer));
    mr_shm_received got;
    mr_shm_area *area = NULL;
    assert_int_equal(mr_shm_receive(*fd, &got, NULL, 0), MR_OK);
    assert_int_equal(mr_shm_area_map(&area, got.fds[0]), MR_OK);
    mr_shm_close_received(&got);
    return area;
}

/* A consumer that writes false leases into the ring is not believed: it loses what it held and gets nothing more. */
TEST(a_ring_that_lies_costs_the_peer_its_place) {
    for (int lie = 0; lie < 4; lie++) {
        ENDED_BY(shm_ends_end) shm_ends ends;
        int fd;
        mr_shm_area *area = attach_by_hand(&ends, &fd);
        mr_shm_ring *ring = &area->head->leases;
        mr_buffer *sent = shm_ends_acquire(ends.pool);
        const mr_shm_reference reference = shm_ends_lend(&ends, sent);
        mr_buffer_unref(&sent);
        if (lie == 0)
            atomic_store(&ring->returned, UINT64_MAX);
        else if (lie == 1)
            mr_shm_ring_put(ring, UINT32_MAX);
        else
            mr_shm_ring_put(ring, reference.lease + (lie == 2));
        if (lie == 3)
            mr_shm_ring_put(ring, reference.lease);
        drive_and_note(ends.export);
        assert_false(mr_shm_export_attached(ends.export, ends.peer));
        assert_non_null(strstr(reported, lie ? "does not hold" : "than are out"));
        assert_int_equal(mr_pool_free_count(ends.pool), SHM_ENDS_SLOTS);
        mr_shm_area_unmap(&area);
        close(fd);
    }
}

/* The same for the consumer's notes, and for what it claims to have read: the producer takes back what it lent. */
TEST(notes_that_cannot_be_cost_the_peer_its_place) {
    for (int lie = 0; lie < 4; lie++) {
        ENDED_BY(shm_ends_end) shm_ends ends;
        int fd;
        uint8_t record[8], *place;
        size_t bytes;
        mr_shm_area *area = attach_by_hand(&ends, &fd);
        mr_buffer *sent = shm_ends_acquire(ends.pool);
        shm_ends_lend(&ends, sent);
        mr_buffer_unref(&sent);
        if (lie == 0)
            atomic_store(&area->head->up.written, MR_SHM_UP_BYTES + 8);
        else if (lie == 1)
            post_by_hand(&area->up, 0);
        else if (lie == 2)
            post_by_hand(&area->up, sizeof record + 1);
        else
            atomic_store(&area->head->down.read, 8 * MR_SHM_DOWN_BYTES);
        mr_log_to(note_log, NULL);
        mr_shm_export_drive(ends.export, true);
        assert_true(mr_shm_export_attached(ends.export, ends.peer));
        /* Its counter is only read when the ring may be full. */
        for (int i = 0; lie == 3 && i <= MR_SHM_DOWN_BYTES / MR_SHM_RECORD_BYTES; i++)
            if (mr_shm_export_room(ends.export, ends.peer, &place))
                mr_shm_export_post(ends.export, ends.peer, MR_SHM_RECORD_BYTES - 16);
        if (lie < 3)
            assert_int_equal(mr_shm_export_fetch(ends.export, ends.peer, record, sizeof record, &bytes),
                             MR_ERROR_PROTOCOL);
        mr_log_to(NULL, NULL);
        assert_false(mr_shm_export_attached(ends.export, ends.peer));
        assert_int_equal(mr_shm_export_room(ends.export, ends.peer, &place), 0);
        assert_int_equal(mr_shm_export_fetch(ends.export, ends.peer, record, sizeof record, &bytes),
                         MR_ERROR_UNAVAILABLE);
        assert_int_equal(mr_pool_free_count(ends.pool), SHM_ENDS_SLOTS);
        mr_shm_export_drive(ends.export, true);
        mr_shm_area_unmap(&area);
        close(fd);
    }
}

/* After the greeting a consumer may send nothing through the socket. */
TEST(a_peer_that_talks_loses_its_place) {
    ENDED_BY(shm_ends_end) shm_ends ends;
    int fd;
    mr_shm_area *area = attach_by_hand(&ends, &fd);
    assert_int_equal(send(fd, "garbage", 7, MSG_DONTWAIT), 7);
    drive_and_note(ends.export);
    assert_false(mr_shm_export_attached(ends.export, ends.peer));
    assert_non_null(strstr(reported, "unknown message"));
    mr_shm_area_unmap(&area);
    close(fd);
}

static void say(shm_ends *ends, const mr_shm_message *hello, const void *data, size_t bytes) {
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

SHM_TEST_UNATTACHED(only_who_was_invited_comes_in) {
    uint8_t token[MR_SHM_TOKEN_BYTES], wrong[MR_SHM_TOKEN_BYTES];
    memcpy(token, ends->guest.token, sizeof token);
    memcpy(wrong, token, sizeof wrong);
    wrong[15] ^= 1;
    mr_log_to(note_log, NULL);
    say(ends, &(mr_shm_message){.kind = MR_SHM_HELLO, .a = MR_SHM_VERSION}, wrong, sizeof wrong);
    assert_non_null(strstr(reported, "no valid token"));
    say(ends, &(mr_shm_message){.kind = MR_SHM_HELLO, .a = MR_SHM_VERSION + 1}, token, sizeof token);
    assert_non_null(strstr(reported, "of another version"));
    say(ends, &(mr_shm_message){.kind = MR_SHM_GONE, .a = MR_SHM_VERSION}, token, sizeof token);
    say(ends, &(mr_shm_message){.kind = MR_SHM_HELLO, .a = MR_SHM_VERSION}, token, 15);
    say(ends, &(mr_shm_message){.kind = MR_SHM_HELLO, .a = MR_SHM_VERSION}, reported, sizeof reported);
    /* Nobody can come without a doorbell either. */
    say(ends, &(mr_shm_message){.kind = MR_SHM_HELLO, .a = MR_SHM_VERSION}, token, sizeof token);
    assert_non_null(strstr(reported, "a doorbell that is not an eventfd"));
    mr_log_to(NULL, NULL);
    /* Silent connections must not keep others out. */
    int silent[64];
    for (int i = 0; i < 64; i++) {
        assert_int_equal(mr_shm_connect(ends->offer.path, &silent[i]), MR_OK);
        mr_shm_export_drive(ends->export, false);
    }
    shm_ends_come(ends);
    mr_shm_export_drive(ends->export, false);
    mr_shm_export_drive(ends->export, false);
    assert_true(mr_shm_export_attached(ends->export, ends->peer));
    /* A token is valid once. */
    int second = -1;
    mr_log_to(note_log, NULL);
    assert_int_equal(mr_shm_connect(ends->offer.path, &second), MR_OK);
    const mr_shm_message hello = {.kind = MR_SHM_HELLO, .a = MR_SHM_VERSION};
    assert_int_equal(mr_shm_send(second, &hello, token, sizeof token, NULL, 0), MR_OK);
    mr_shm_export_drive(ends->export, false);
    mr_shm_export_drive(ends->export, false);
    mr_log_to(NULL, NULL);
    assert_non_null(strstr(reported, "no valid token"));
    close(second);
    for (int i = 0; i < 64; i++)
        close(silent[i]);
}

TEST(the_folder_is_the_users_alone_and_goes_with_the_export) {
    shm_ends ends;
    struct stat found;
    char folder[108];
    shm_ends_begin_unattached(&ends);
    snprintf(folder, sizeof folder, "%s", ends.offer.path);
    *strrchr(folder, '/') = 0;
    assert_int_equal(stat(folder, &found), 0);
    assert_int_equal(found.st_mode & 07777, 0700);
    assert_int_equal(found.st_uid, geteuid());
    shm_ends_end(&ends);
    assert_int_equal(stat(folder, &found), -1);
}

SHM_TEST_UNATTACHED(what_hinders_sharing_is_said) {
    mr_shm_export *none = NULL;
    mr_shm_offer offer = ends->offer;
    offer.host[0] ^= 1;
    assert_int_equal(mr_shm_import_open(&ends->import, &offer, &ends->guest, ends->doorbell), MR_ERROR_UNAVAILABLE);
    assert_non_null(strstr(mr_message(), "another host"));
    mr_shm_guest stranger = ends->guest;
    mr_shm_peer *nobody = NULL;
    stranger.host[0] ^= 1;
    assert_int_equal(mr_shm_export_invite(ends->export, &stranger, &nobody), MR_ERROR_UNAVAILABLE);
    assert_null(nobody);
    offer = ends->offer;
    snprintf(offer.path, sizeof offer.path, "/nowhere/shm");
    assert_int_equal(mr_shm_import_open(&ends->import, &offer, &ends->guest, ends->doorbell), MR_ERROR_UNAVAILABLE);
    assert_non_null(strstr(mr_message(), "/nowhere/shm: No such file"));
    memset(offer.path, 'x', sizeof offer.path);
    assert_int_equal(mr_shm_import_open(&ends->import, &offer, &ends->guest, ends->doorbell), MR_ERROR_UNAVAILABLE);
    assert_null(ends->import);
    assert_int_equal(mr_shm_export_create(&none, "/nowhere/at/all"), MR_ERROR_UNAVAILABLE);
    assert_null(none);
    char deep[200];
    memset(deep, 'x', sizeof deep - 1);
    deep[sizeof deep - 1] = 0;
    assert_int_equal(mr_shm_export_create(&none, deep), MR_ERROR_UNAVAILABLE);
}

/* A consumer that cannot open more files takes no pool, and gets copies from then on. */
SHM_TEST(a_consumer_without_descriptors_hangs_up) {
    struct rlimit before, none;
    mr_buffer *sent = shm_ends_acquire(ends->pool), *taken = NULL;
    size_t bytes;
    assert_int_equal(mr_shm_import_fetch(ends->import, NULL, 0, &bytes), MR_ERROR_AGAIN);
    mr_shm_reference reference = shm_ends_lend(ends, sent);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    int status = mr_shm_import_take(ends->import, &reference, &taken);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(status, MR_ERROR_UNAVAILABLE);
    assert_string_equal(mr_message(), "shared memory: this process may open no more files");
    mr_shm_export_drive(ends->export, false);
    assert_false(mr_shm_export_attached(ends->export, ends->peer));
    mr_buffer_unref(&sent);
}

RUN_TESTS(NULL, NULL)
