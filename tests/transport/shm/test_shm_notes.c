/* A ring of notes: both ends in one process, and impossible contents. */
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/transport/shm/shm.h"
#include "engine/transport/shm/shm_area.h"
#include "millrace/status.h"
#include "tests/support/suite.h"

enum { RING = MR_SHM_UP_BYTES, MOST = MR_SHM_RECORD_BYTES, PATIENCE_MS = 60000 };

/* The upward ring with both ends here. They share one mapping, so that a sanitizer can see what they do. */
typedef struct pair {
    mr_shm_area *area;
    int file;
    mr_shm_records *writer, reader;
} pair;

static void begin(pair *p) {
    assert_int_equal(mr_shm_area_create(&p->area, &p->file), MR_OK);
    p->writer = &p->area->up;
    p->reader = p->area->up;
}

static void end(pair *p) {
    mr_shm_area_unmap(&p->area);
    close(p->file);
}

/* A test with both ends, `p`. */
#define PAIR_TEST(name) TEST_GIVEN(name, pair, p, begin(&made), end(&made))

/* The bytes in note `number`. */
static uint8_t value_of(uint64_t number, size_t at) {
    return (uint8_t)(number * 31 + at);
}

static int post(mr_shm_records *writer, uint64_t number, size_t bytes, bool *rings) {
    uint8_t *place = NULL;
    size_t room = 0;
    int status = mr_shm_records_room(writer, &place, &room);
    if (status || room < bytes)
        return status ? status : MR_ERROR_AGAIN;
    for (size_t i = 0; i < bytes; i++)
        place[i] = value_of(number, i);
    *rings = mr_shm_records_post(writer, bytes);
    return MR_OK;
}

static int fetch(mr_shm_records *reader, uint64_t number, size_t *bytes) {
    static uint8_t record[MOST];
    int status = mr_shm_records_fetch(reader, record, sizeof record, bytes);
    for (size_t i = 0; !status && i < *bytes; i++)
        if (record[i] != value_of(number, i))
            return MR_ERROR_INTERNAL;
    return status;
}

/* With all lengths, so that notes begin and end everywhere in the ring and cross the end; some wait together. */
PAIR_TEST(every_note_is_read_as_it_was_written) {
    uint64_t posted = 0, fetched = 0;
    bool rings;
    for (size_t bytes, got; fetched < 5000; fetched++) {
        for (; posted < fetched + 3; posted++) {
            bytes = (size_t)(posted * posted % 3001);
            assert_int_equal(post(p->writer, posted, bytes, &rings), MR_OK);
        }
        assert_int_equal(fetch(&p->reader, fetched, &got), MR_OK);
        assert_int_equal(got, fetched * fetched % 3001);
    }
    assert_true(p->reader.mine > 10 * RING);
}

/* To the last byte: a note with the greatest length, and one that leaves 16 bytes, of which a length needs 8. */
PAIR_TEST(there_is_room_until_it_is_full) {
    bool rings;
    uint8_t *place;
    size_t room, got;
    for (int turn = 0; turn < 3; turn++) {
        assert_int_equal(post(p->writer, 0, MOST - 8, &rings), MR_OK);
        assert_int_equal(post(p->writer, 1, RING - MOST - 24, &rings), MR_OK);
        assert_int_equal(mr_shm_records_room(p->writer, &place, &room), MR_OK);
        assert_int_equal(room, 8);
        assert_int_equal(post(p->writer, 2, 3, &rings), MR_OK);
        assert_int_equal(mr_shm_records_room(p->writer, &place, &room), MR_OK);
        assert_int_equal(room, 0);
        for (uint64_t i = 0; i < 3; i++)
            assert_int_equal(fetch(&p->reader, i, &got), MR_OK);
        assert_int_equal(got, 3);
        assert_int_equal(fetch(&p->reader, 3, &got), MR_ERROR_AGAIN);
        assert_int_equal(mr_shm_records_room(p->writer, &place, &room), MR_OK);
        assert_int_equal(room, MOST);
    }
}

PAIR_TEST(who_rests_is_rung_for_once) {
    size_t got;
    bool rings = false;
    assert_int_equal(post(p->writer, 0, 1, &rings), MR_OK);
    assert_true(rings);
    assert_int_equal(post(p->writer, 1, 1, &rings), MR_OK);
    assert_false(rings);
    assert_false(mr_shm_records_rest(&p->reader));
    for (uint64_t i = 0; i < 2; i++)
        assert_int_equal(fetch(&p->reader, i, &got), MR_OK);
    assert_true(mr_shm_records_rest(&p->reader));
    assert_int_equal(post(p->writer, 2, 1, &rings), MR_OK);
    assert_true(rings);
    /* A reader that has closed gets nothing more, and stays closed. */
    mr_shm_records_close(&p->reader);
    assert_true(mr_shm_records_closed(p->writer));
    assert_int_equal(post(p->writer, 3, 1, &rings), MR_ERROR_AGAIN);
    assert_int_equal(fetch(&p->reader, 2, &got), MR_OK);
    assert_true(mr_shm_records_rest(&p->reader));
    assert_true(mr_shm_records_closed(p->writer));
}

PAIR_TEST(who_looks_is_not_rung_for) {
    size_t got;
    bool rings = true;
    assert_false(mr_shm_records_look(&p->reader, false)); /* It is not resting yet. */
    for (uint64_t i = 0; i < 6; i += 2) {
        assert_true(mr_shm_records_rest(&p->reader));
        for (int again = 0; again < 2; again++)
            assert_false(mr_shm_records_look(&p->reader, false));
        assert_int_equal(post(p->writer, i, 1, &rings), MR_OK);
        assert_false(rings);
        assert_true(mr_shm_records_look(&p->reader, false));
        for (int last = 0; last < 2; last++)
            assert_false(mr_shm_records_look(&p->reader, last)); /* It was already informed. */
        assert_int_equal(post(p->writer, i + 1, 1, &rings), MR_OK);
        assert_true(rings);
        assert_false(mr_shm_records_look(&p->reader, false));
        for (uint64_t record = i; record < i + 2; record++)
            assert_int_equal(fetch(&p->reader, record, &got), MR_OK);
        assert_false(mr_shm_records_look(&p->reader, false));
    }
    /* After the last look everything is as if nobody had looked. */
    assert_true(mr_shm_records_rest(&p->reader));
    assert_false(mr_shm_records_look(&p->reader, false));
    assert_false(mr_shm_records_look(&p->reader, true));
    assert_int_equal(post(p->writer, 6, 1, &rings), MR_OK);
    assert_true(rings);
    assert_true(mr_shm_records_look(&p->reader, false));
    assert_int_equal(fetch(&p->reader, 6, &got), MR_OK);
    /* A closed reader stays closed, however often it is checked. */
    mr_shm_records_close(&p->reader);
    assert_true(mr_shm_records_rest(&p->reader));
    for (int last = 0; last < 2; last++)
        assert_false(mr_shm_records_look(&p->reader, last));
    assert_true(mr_shm_records_closed(p->writer));
}

/* ---- what cannot be ---------------------------------------------------------------------------------------------- */

TEST(what_the_reader_cannot_have_read_is_refused) {
    for (int lie = 0; lie < 4; lie++) {
        ENDED_BY(end) pair p;
        bool rings;
        size_t got;
        begin(&p);
        assert_int_equal(post(p.writer, 0, MOST - 8, &rings), MR_OK);
        assert_int_equal(fetch(&p.reader, 0, &got), MR_OK);
        assert_int_equal(post(p.writer, 1, MOST - 8, &rings), MR_OK);
        assert_int_equal(post(p.writer, 2, 8, &rings), MR_OK);
        const uint64_t wrong[] = {0, p.writer->mine + 8, MOST + 4, UINT64_MAX - 7};
        atomic_store(&p.area->head->up.read, wrong[lie]);
        assert_int_equal(post(p.writer, 3, MOST - 8, &rings), MR_ERROR_PROTOCOL);
    }
}

TEST(what_the_writer_cannot_have_written_is_refused) {
    for (int lie = 0; lie < 4; lie++) {
        ENDED_BY(end) pair p;
        bool rings;
        size_t got;
        begin(&p);
        for (uint64_t i = 0; i < 2; i++)
            assert_int_equal(post(p.writer, i, 24, &rings), MR_OK);
        for (uint64_t i = 0; i < 2; i++)
            assert_int_equal(fetch(&p.reader, i, &got), MR_OK);
        const uint64_t wrong[] = {32, 64 + RING + 8, 68, UINT64_MAX - 7};
        atomic_store(&p.area->head->up.written, wrong[lie]);
        assert_int_equal(fetch(&p.reader, 2, &got), MR_ERROR_PROTOCOL);
    }
}

TEST(a_length_that_cannot_be_is_refused) {
    static const uint64_t wrong[] = {25, 33, MOST, MOST + 1, RING, UINT64_MAX - 15, UINT64_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ENDED_BY(end) pair p;
        bool rings;
        size_t got;
        begin(&p);
        assert_int_equal(post(p.writer, 0, 24, &rings), MR_OK);
        memcpy(p.area->up.data, &wrong[i], sizeof wrong[i]);
        assert_int_equal(fetch(&p.reader, 0, &got), MR_ERROR_PROTOCOL);
    }
    ENDED_BY(end) pair p;
    bool rings;
    size_t got;
    uint8_t small[23];
    begin(&p);
    assert_int_equal(post(p.writer, 0, 24, &rings), MR_OK);
    assert_int_equal(mr_shm_records_fetch(&p.reader, small, sizeof small, &got), MR_ERROR_PROTOCOL);
}

/* ---- two threads ------------------------------------------------------------------------------------------------- */

enum { NOTES = 30000 };

typedef struct talk {
    pair p;
    int doorbell;
    unsigned seed;
} talk;

static void pause_now_and_then(unsigned *seed) {
    if (rand_r(seed) % 64 == 0)
        nanosleep(&(struct timespec){.tv_nsec = rand_r(seed) % 100000}, NULL);
}

static void *write_notes(void *context) {
    talk *t = context;
    bool rings = false;
    for (uint64_t i = 0; i < NOTES;) {
        pause_now_and_then(&t->seed);
        if (post(t->p.writer, i, (size_t)(i * 7919 % 4000), &rings)) {
            nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
            continue;
        }
        const uint64_t one = 1;
        if (rings && write(t->doorbell, &one, sizeof one) != sizeof one)
            return context;
        i++;
    }
    return NULL;
}

/* Checks a resting reader a few times before it sleeps. Returns whether to sleep. */
static bool look_for_a_while(mr_shm_records *reader, unsigned *seed) {
    for (int looks = rand_r(seed) % 32; looks > 0; looks--) {
        if (mr_shm_records_look(reader, looks == 1))
            return false;
        pause_now_and_then(seed);
    }
    return true;
}

/* When there is nothing, the reader may look for a while, and then sleeps. A lost wake-up would stop it for ever. */
TEST(no_ring_of_the_bell_is_lost) {
    talk t = {.seed = (unsigned)getpid()};
    print_message("seed %u\n", t.seed);
    pthread_t thread;
    void *failed;
    size_t got = 0;
    begin(&t.p);
    assert_int_equal(mr_shm_doorbell(&t.doorbell), MR_OK);
    assert_int_equal(pthread_create(&thread, NULL, write_notes, &t), 0);
    unsigned seed = t.seed + 1;
    for (uint64_t i = 0; i < NOTES;) {
        int status = fetch(&t.p.reader, i, &got);
        if (status == MR_ERROR_AGAIN && mr_shm_records_rest(&t.p.reader) && look_for_a_while(&t.p.reader, &seed)) {
            uint64_t rings;
            assert_int_equal(poll(&(struct pollfd){.fd = t.doorbell, .events = POLLIN}, 1, PATIENCE_MS), 1);
            assert_int_equal(read(t.doorbell, &rings, sizeof rings), sizeof rings);
        } else if (status != MR_ERROR_AGAIN) {
            assert_int_equal(status, MR_OK);
            assert_int_equal(got, i++ * 7919 % 4000);
        }
        pause_now_and_then(&seed);
    }
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
    close(t.doorbell);
    end(&t.p);
}

RUN_TESTS(NULL, NULL)
