/* Both ends of shared memory in one process. test_shm_hostile.c has hostile ends, test_shm_processes.c processes that
 * die. */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "engine/data/pool.h"
#include "engine/device/device.h"
#include "millrace/status.h"
#include "tests/support/suite.h"
#include "tests/support/transport/shm_ends.h"

static bool readable(int fd) {
    return poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0) == 1;
}

/* ---- honest ends ----------------------------------------------------------------------------------------------- */

SHM_TEST(a_buffer_is_seen_where_it_lies) {
    mr_buffer *sent = shm_ends_acquire(ends->pool), *taken = NULL;
    for (size_t i = 0; i < sent->bytes; i++)
        sent->data[i] = (uint8_t)(i * 7);
    mr_shm_reference reference;
    assert_int_equal(mr_shm_export_lend(ends->export, ends->peer, sent, 1000, 5000, &reference), MR_OK);
    assert_int_equal(mr_shm_export_leased(ends->export, ends->peer), 1);
    mr_buffer_unref(&sent);
    assert_int_equal(mr_pool_free_count(ends->pool), SHM_ENDS_SLOTS - 1);
    assert_int_equal(mr_shm_import_take(ends->import, &reference, &taken), MR_OK);
    assert_int_equal(taken->memory, MR_MEMORY_SHARED);
    assert_int_equal(taken->bytes, 5000);
    for (size_t i = 0; i < taken->bytes; i++)
        assert_int_equal(taken->data[i], (uint8_t)((i + 1000) * 7));
    mr_shm_export_drive(ends->export, false);
    assert_int_equal(mr_pool_free_count(ends->pool), SHM_ENDS_SLOTS - 1);
    mr_buffer_unref(&taken);
    mr_shm_export_drive(ends->export, false);
    assert_int_equal(mr_pool_free_count(ends->pool), SHM_ENDS_SLOTS);
    assert_int_equal(mr_shm_export_leased(ends->export, ends->peer), 0);
}

static void lend_two(shm_ends *ends, mr_buffer *taken[2]) {
    for (int i = 0; i < 2; i++) {
        ENDED_BY(mr_buffer_unref) mr_buffer *sent = shm_ends_acquire(ends->pool);
        mr_shm_reference reference = shm_ends_lend(ends, sent);
        assert_int_equal(mr_shm_import_take(ends->import, &reference, &taken[i]), MR_OK);
    }
}

SHM_TEST(what_comes_back_wakes_only_who_sleeps) {
    mr_buffer *taken[2];
    lend_two(ends, taken);
    mr_shm_export_drive(ends->export, false);
    mr_buffer_unref(&taken[0]);
    assert_false(readable(mr_shm_export_fd(ends->export)));
    mr_shm_export_drive(ends->export, true);
    assert_int_equal(mr_pool_free_count(ends->pool), SHM_ENDS_SLOTS - 1);
    assert_false(readable(mr_shm_export_fd(ends->export)));
    mr_buffer_unref(&taken[1]);
    assert_true(readable(mr_shm_export_fd(ends->export)));
    mr_shm_export_drive(ends->export, true);
    assert_false(readable(mr_shm_export_fd(ends->export)));
    assert_int_equal(mr_pool_free_count(ends->pool), SHM_ENDS_SLOTS);
}

SHM_TEST(who_looks_for_what_comes_back_is_not_woken) {
    assert_false(mr_shm_export_poll(ends->export, false));
    for (int turn = 0; turn < 3; turn++) {
        mr_buffer *taken[2];
        lend_two(ends, taken);
        mr_shm_export_drive(ends->export, true);
        assert_false(mr_shm_export_poll(ends->export, false));
        mr_buffer_unref(&taken[0]);
        assert_true(mr_shm_export_poll(ends->export, false));
        assert_false(mr_shm_export_poll(ends->export, false)); /* It was already informed. */
        assert_false(readable(mr_shm_export_fd(ends->export)));
        mr_shm_export_drive(ends->export, true);
        assert_false(mr_shm_export_poll(ends->export, false));
        assert_false(mr_shm_export_poll(ends->export, true));
        mr_buffer_unref(&taken[1]);
        assert_true(readable(mr_shm_export_fd(ends->export)));
        mr_shm_export_drive(ends->export, true);
        assert_int_equal(mr_pool_free_count(ends->pool), SHM_ENDS_SLOTS);
        assert_false(mr_shm_export_poll(ends->export, false));
    }
}

/* Frames in other memory, and frames before and after the peer's stay, must go inline. */
SHM_TEST_UNATTACHED(what_cannot_be_lent_is_to_be_sent_inline) {
    mr_shm_reference reference;
    ENDED_BY(mr_buffer_unref) mr_buffer *shared = shm_ends_acquire(ends->pool);
    assert_int_equal(mr_shm_export_lend(ends->export, ends->peer, shared, 0, 1, &reference), MR_ERROR_AGAIN);
    assert_int_equal(shm_ends_post(ends, "x", 1), MR_ERROR_AGAIN);
    shm_ends_come(ends);
    mr_shm_export_drive(ends->export, false);
    mr_shm_export_drive(ends->export, false);
    static uint8_t bytes[100];
    mr_buffer *plain = mr_buffer_wrap(bytes, sizeof bytes, NULL, NULL);
    assert_int_equal(mr_shm_export_lend(ends->export, ends->peer, plain, 0, 1, &reference), MR_ERROR_AGAIN);
    mr_buffer_unref(&plain);
    for (int i = 0; i < MR_SHM_LEASES; i++)
        shm_ends_lend(ends, shared);
    assert_int_equal(mr_shm_export_lend(ends->export, ends->peer, shared, 0, 1, &reference), MR_ERROR_AGAIN);
    mr_shm_import_close(&ends->import);
    assert_true(readable(mr_shm_export_fd(ends->export)));
    mr_shm_export_drive(ends->export, false);
    assert_false(mr_shm_export_attached(ends->export, ends->peer));
    assert_int_equal(mr_shm_export_leased(ends->export, ends->peer), 0);
    assert_int_equal(mr_shm_export_lend(ends->export, ends->peer, shared, 0, 1, &reference), MR_ERROR_AGAIN);
}

TEST(buffers_outlive_the_import_and_the_export) {
    shm_ends ends;
    shm_ends_begin(&ends);
    mr_buffer *sent = shm_ends_acquire(ends.pool), *taken = NULL;
    memset(sent->data, 9, sent->bytes);
    mr_shm_reference reference = shm_ends_lend(&ends, sent);
    mr_buffer_unref(&sent);
    assert_int_equal(mr_shm_import_take(ends.import, &reference, &taken), MR_OK);
    shm_ends_end(&ends);
    assert_int_equal(taken->data[0], 9);
    assert_int_equal(taken->data[SHM_ENDS_BYTES - 1], 9);
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

/* More pools come and go than a link has numbers, as with a folder of differently sized pictures. */
SHM_TEST(pools_come_and_go) {
    size_t bytes;
    /* Receives the ring. */
    assert_int_equal(mr_shm_import_fetch(ends->import, NULL, 0, &bytes), MR_ERROR_AGAIN);
    size_t before = mappings();
    for (int i = 0; i < 2 * MR_SHM_POOLS; i++) {
        mr_pool *pool;
        mr_buffer *taken = NULL;
        assert_int_equal(mr_pool_create(&pool, mr_device_cpu(), MR_MEMORY_SHARED, 64, 1), MR_OK);
        mr_buffer *sent = shm_ends_acquire(pool);
        memset(sent->data, i, sent->bytes);
        mr_shm_reference reference = shm_ends_lend(ends, sent);
        mr_buffer_unref(&sent);
        assert_int_equal(mr_shm_import_take(ends->import, &reference, &taken), MR_OK);
        assert_int_equal(taken->data[63], (uint8_t)i);
        mr_pool_release(&pool);
        mr_buffer_unref(&taken);
        mr_shm_export_drive(ends->export, false);
    }
    assert_int_equal(mr_shm_import_fetch(ends->import, NULL, 0, &bytes), MR_ERROR_AGAIN);
    assert_int_equal(mappings(), before);
}

SHM_TEST(notes_come_in_order) {
    size_t bytes = 0;
    static char text[MR_SHM_RECORD_BYTES + 1];
    mr_shm_reference seen;
    mr_buffer *sent = shm_ends_acquire(ends->pool), *taken = NULL;
    mr_shm_reference reference = shm_ends_lend(ends, sent);
    assert_int_equal(shm_ends_post(ends, &reference, sizeof reference), MR_OK);
    assert_int_equal(shm_ends_post(ends, text, MR_SHM_RECORD_BYTES), MR_OK);
    assert_int_equal(shm_ends_post(ends, text, MR_SHM_RECORD_BYTES + 1), MR_ERROR_AGAIN);
    assert_int_equal(mr_shm_import_fetch(ends->import, &seen, sizeof seen, &bytes), MR_OK);
    assert_int_equal(bytes, sizeof seen);
    assert_int_equal(mr_shm_import_take(ends->import, &seen, &taken), MR_OK);
    mr_buffer_unref(&taken);
    assert_int_equal(mr_shm_import_fetch(ends->import, text, sizeof text, &bytes), MR_OK);
    assert_int_equal(bytes, MR_SHM_RECORD_BYTES);
    assert_int_equal(mr_shm_import_fetch(ends->import, text, sizeof text, &bytes), MR_ERROR_AGAIN);
    mr_buffer_unref(&sent);
}

/* A consumer that fetches nothing fills the ring; later messages use the other path and are not lost. Repeated, so that
 * notes cross the ring's end. */
SHM_TEST(a_full_ring_has_no_room) {
    static char text[MR_SHM_RECORD_BYTES], seen[MR_SHM_RECORD_BYTES];
    size_t number = 0, fetched = 0, bytes = 0;
    for (int turn = 0; turn < 20; turn++) {
        size_t before = number, length = sizeof number + (size_t)turn * 911;
        for (memcpy(text, &number, sizeof number); shm_ends_post(ends, text, length) == MR_OK;
             memcpy(text, &number, sizeof number))
            number++;
        assert_in_range(number - before, 10, 100000);
        for (; fetched < number; fetched++) {
            assert_int_equal(mr_shm_import_fetch(ends->import, seen, sizeof seen, &bytes), MR_OK);
            assert_int_equal(bytes, length);
            assert_memory_equal(seen, &fetched, sizeof fetched);
        }
        assert_int_equal(mr_shm_import_fetch(ends->import, seen, sizeof seen, &bytes), MR_ERROR_AGAIN);
    }
}

/* Only a sleeping peer is woken, and only once. */
SHM_TEST(the_bell_is_rung_for_who_rests) {
    char text[8];
    size_t bytes;
    /* At first nobody has come who could be awake. */
    assert_int_equal(shm_ends_post(ends, "1", 1), MR_OK);
    assert_true(shm_ends_rung(ends));
    assert_int_equal(shm_ends_post(ends, "2", 1), MR_OK);
    assert_false(shm_ends_rung(ends));
    for (int i = 0; i < 2; i++)
        assert_int_equal(mr_shm_import_fetch(ends->import, text, sizeof text, &bytes), MR_OK);
    assert_true(mr_shm_import_arm(ends->import));
    assert_int_equal(shm_ends_post(ends, "3", 1), MR_OK);
    assert_int_equal(shm_ends_post(ends, "4", 1), MR_OK);
    assert_true(shm_ends_rung(ends));
    assert_false(shm_ends_rung(ends));
    assert_int_equal(mr_shm_import_fetch(ends->import, text, sizeof text, &bytes), MR_OK);
    assert_false(mr_shm_import_arm(ends->import));
    assert_int_equal(mr_shm_import_fetch(ends->import, text, sizeof text, &bytes), MR_OK);
    assert_memory_equal(text, "4", 1);
    assert_true(mr_shm_import_arm(ends->import));
}

/* The doorbell rings for a note from a peer not heard before: whoever hears it and rests must look. */
SHM_TEST_UNATTACHED(a_first_note_is_not_overheard) {
    char text[8];
    size_t bytes;
    shm_ends_come(ends);
    assert_int_equal(mr_shm_import_fetch(ends->import, text, sizeof text, &bytes), MR_ERROR_AGAIN);
    assert_true(mr_shm_import_arm(ends->import));
    mr_shm_export_drive(ends->export, false);
    mr_shm_export_drive(ends->export, false);
    assert_int_equal(shm_ends_post(ends, "1", 1), MR_OK);
    assert_true(shm_ends_rung(ends));
    assert_false(mr_shm_import_arm(ends->import));
    assert_int_equal(mr_shm_import_fetch(ends->import, text, sizeof text, &bytes), MR_OK);
    assert_true(mr_shm_import_arm(ends->import));
}

/* A consumer may send when it knows that the producer knows it. */
SHM_TEST(notes_go_back_as_well) {
    static char text[MR_SHM_RECORD_BYTES + 1];
    size_t bytes = 0, count = 0;
    assert_int_equal(shm_ends_post_back(ends, "x", 1), MR_ERROR_AGAIN);
    assert_int_equal(mr_shm_export_fetch(ends->export, ends->peer, text, sizeof text, &bytes), MR_ERROR_AGAIN);
    assert_int_equal(mr_shm_import_fetch(ends->import, NULL, 0, &bytes), MR_ERROR_AGAIN);
    assert_int_equal(shm_ends_post_back(ends, text, sizeof text), MR_ERROR_AGAIN);
    assert_false(readable(mr_shm_export_fd(ends->export)));
    for (memcpy(text, &count, sizeof count); shm_ends_post_back(ends, text, 1000) == MR_OK;
         memcpy(text, &count, sizeof count))
        count++;
    assert_in_range(count, 10, 100000);
    assert_true(readable(mr_shm_export_fd(ends->export)));
    /* Driving leaves the notes, and the descriptor shows that they are there, unless nobody cares. */
    mr_shm_export_drive(ends->export, true);
    assert_true(readable(mr_shm_export_fd(ends->export)));
    mr_shm_export_watch(ends->export, ends->peer, false);
    mr_shm_export_drive(ends->export, true);
    assert_false(readable(mr_shm_export_fd(ends->export)));
    mr_shm_export_watch(ends->export, ends->peer, true);
    mr_shm_export_drive(ends->export, true);
    assert_true(readable(mr_shm_export_fd(ends->export)));
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(mr_shm_export_fetch(ends->export, ends->peer, text, sizeof text, &bytes), MR_OK);
        assert_int_equal(bytes, 1000);
        assert_memory_equal(text, &i, sizeof i);
    }
    assert_int_equal(mr_shm_export_fetch(ends->export, ends->peer, text, sizeof text, &bytes), MR_ERROR_AGAIN);
    mr_shm_export_drive(ends->export, true);
    assert_false(readable(mr_shm_export_fd(ends->export)));
    assert_int_equal(shm_ends_post_back(ends, "x", 1), MR_OK);
    assert_true(readable(mr_shm_export_fd(ends->export)));
}

/* Each end finds what the other sent before it went, even if that had not read everything. */
TEST(notes_outlive_who_sent_them) {
    for (int turn = 0; turn < 2; turn++) {
        ENDED_BY(shm_ends_end) shm_ends ends;
        shm_ends_begin(&ends);
        char text[8];
        size_t bytes = 0;
        assert_int_equal(mr_shm_import_fetch(ends.import, NULL, 0, &bytes), MR_ERROR_AGAIN);
        mr_buffer *sent = shm_ends_acquire(ends.pool);
        shm_ends_lend(&ends, sent);
        mr_buffer_unref(&sent);
        assert_int_equal(shm_ends_post_back(&ends, "back", 4), MR_OK);
        assert_int_equal(shm_ends_post(&ends, "there", 5), MR_OK);
        if (turn == 0) {
            mr_shm_import_close(&ends.import);
            assert_int_equal(shm_ends_post(&ends, "x", 1), MR_ERROR_AGAIN);
            mr_shm_export_drive(ends.export, true);
            assert_false(mr_shm_export_attached(ends.export, ends.peer));
            assert_int_equal(mr_shm_export_leased(ends.export, ends.peer), 0);
            assert_true(readable(mr_shm_export_fd(ends.export)));
            assert_int_equal(mr_shm_export_fetch(ends.export, ends.peer, text, sizeof text, &bytes), MR_OK);
            assert_memory_equal(text, "back", 4);
            assert_int_equal(mr_shm_export_fetch(ends.export, ends.peer, text, sizeof text, &bytes),
                             MR_ERROR_UNAVAILABLE);
            mr_shm_export_drive(ends.export, true);
            assert_false(readable(mr_shm_export_fd(ends.export)));
        } else {
            mr_shm_export_drop(ends.export, &ends.peer);
            assert_int_equal(shm_ends_post_back(&ends, "x", 1), MR_ERROR_AGAIN);
            assert_int_equal(mr_shm_import_fetch(ends.import, text, sizeof text, &bytes), MR_OK);
            assert_memory_equal(text, "there", 5);
            assert_int_equal(mr_shm_import_fetch(ends.import, text, sizeof text, &bytes), MR_ERROR_AGAIN);
        }
    }
}

TEST(what_the_ends_tell_each_other_is_one_line) {
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
        ENDED_BY(mr_buffer_unref) mr_buffer *buffer = over->buffer;
        over->buffer = NULL;
        pthread_cond_broadcast(&over->changed);
        pthread_mutex_unlock(&over->lock);
        if (!buffer)
            return NULL;
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

static mr_buffer *acquire_or_sleep(shm_ends *ends) {
    mr_buffer *buffer = NULL;
    while (mr_pool_acquire(ends->pool, &buffer) == MR_ERROR_AGAIN) {
        mr_shm_export_drive(ends->export, true);
        if (mr_pool_free_count(ends->pool) == 0)
            assert_int_equal(poll(&(struct pollfd){mr_shm_export_fd(ends->export), POLLIN, 0}, 1, 60000), 1);
    }
    return buffer;
}

/* One thread lends, others drop; the lender sleeps when all buffers are out. A lost wake-up would stop it for ever. */
SHM_TEST(buffers_come_back_from_many_threads) {
    hand_over over = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, drop_buffers, &over), 0);
    for (int i = 0; i < FRAMES; i++) {
        mr_buffer *sent = acquire_or_sleep(ends), *taken = NULL;
        memcpy(sent->data, &i, sizeof i);
        mr_shm_reference reference = shm_ends_lend(ends, sent);
        mr_buffer_unref(&sent);
        assert_int_equal(mr_shm_import_take(ends->import, &reference, &taken), MR_OK);
        assert_memory_equal(taken->data, &i, sizeof i);
        pass_on(&over, taken, false);
    }
    pass_on(&over, NULL, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    mr_shm_export_drive(ends->export, false);
    assert_int_equal(mr_shm_export_leased(ends->export, ends->peer), 0);
}

RUN_TESTS(NULL, NULL)
