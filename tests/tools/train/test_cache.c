/* The vector cache after a killed program, a power cut or a failing disk: the next program finds each undamaged
 * vector, and no other. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "millrace/status.h"
#include "tests/support/quiet.h"
#include "tests/support/suite.h"
#include "tests/support/temporary.h"
#include "tools/millrace/train/cache.h"

enum { WIDTH = 3, HEAD = 64, VECTOR = WIDTH * sizeof(float), RECORD = sizeof(mr_cache_record) };

static char vectors[4096], made[4096];

static int make_folder(void **state) {
    int failed = make_temporary_folder(state);
    snprintf(vectors, sizeof vectors, "%s/key.vectors", temporary_folder);
    snprintf(made, sizeof made, "%s/key.made", temporary_folder);
    return failed;
}

static void unlink_both(void) {
    unlink(vectors);
    unlink(made);
}

/* ---- what programs do -------------------------------------------------------------------------------------------- */

static bool not_stopped(void) {
    return false;
}

static bool stopped(void) {
    return true;
}

static mr_content_key key_of(int content) {
    return mr_content_key_join(&(mr_content_key){0}, &content, sizeof content);
}

static void put(mr_cache *cache, size_t slot, int content) {
    const float vector[WIDTH] = {(float)content, 2, 3};
    const mr_cache_record record = {.key = key_of(content)};
    assert_int_equal(mr_cache_put(cache, slot, &record, vector, WIDTH), MR_OK);
}

static void begin(mr_cache *cache, size_t reserved) {
    assert_int_equal(mr_cache_open(cache, temporary_folder, "key"), MR_OK);
    assert_int_equal(mr_cache_lock(cache, not_stopped), MR_OK);
    assert_int_equal(mr_cache_begin(cache, reserved), MR_OK);
}

/* Makes the contents [first, end) and is killed: the system closes the files. */
static void make_and_die(int first, int end) {
    ENDED_BY(mr_cache_close) mr_cache cache;
    begin(&cache, (size_t)(end - first) + 2);
    for (int i = first; i < end; i++)
        put(&cache, (size_t)(i - first), i);
}

static bool has(mr_cache *cache, int content) {
    const mr_content_key key = key_of(content);
    const mr_cache_record *const *records;
    if (!mr_cache_find(cache, &key, &records))
        return false;
    const float expected[WIDTH] = {(float)content, 2, 3};
    assert_memory_equal(mr_cache_vector(cache, *records), expected, sizeof expected);
    return true;
}

static unsigned found_in(mr_cache *cache) {
    unsigned found = 0;
    for (int i = 0; i < 16; i++)
        found |= (unsigned)has(cache, i) << i;
    return found;
}

/* The contents below 16 that a reader finds, as bits. */
static unsigned found_now(void) {
    mr_cache cache;
    assert_int_equal(mr_cache_open(&cache, temporary_folder, "key"), MR_OK);
    const unsigned found = found_in(&cache);
    mr_cache_close(&cache);
    return found;
}

/* The same, and then the next program writes. */
static unsigned found_next(void) {
    mr_cache cache;
    const unsigned found = found_now();
    begin(&cache, 0);
    put(&cache, MR_CACHE_NEXT, 15);
    assert_int_equal(mr_cache_update(&cache), MR_OK);
    assert_int_equal(found_in(&cache), found | 0x8000);
    mr_cache_close(&cache);
    return found & 0x7fff;
}

/* ---- what happens to files --------------------------------------------------------------------------------------- */

static void change(const char *path, off_t at, size_t bytes, int flip) {
    char data[64];
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && bytes <= sizeof data);
    assert_int_equal(pread(fd, data, bytes, at), bytes);
    for (size_t i = 0; i < bytes; i++)
        data[i] = (char)(flip ? data[i] ^ flip : 0);
    assert_int_equal(pwrite(fd, data, bytes, at), bytes);
    close(fd);
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

TEST_WITH(vectors_are_kept, make_folder, remove_temporary_folder) {
    make_and_die(0, 0);
    assert_int_equal(found_next(), 0);
    unlink_both();
    make_and_die(0, 4);
    assert_int_equal(found_next(), 0xf);
    assert_int_equal(found_next(), 0xf);
    /* After old ones; with empty slots between them; and by a process for which another holds the lock. */
    make_and_die(4, 6);
    mr_cache cache, child;
    begin(&cache, 9);
    put(&cache, 5, 7);
    put(&cache, 2, 8);
    put(&cache, MR_CACHE_NEXT, 9);
    assert_int_equal(mr_cache_open(&child, temporary_folder, "key"), MR_OK);
    assert_int_equal(mr_cache_begin(&child, 0), MR_OK);
    put(&child, MR_CACHE_NEXT, 6);
    mr_cache_close(&child);
    mr_cache_close(&cache);
    assert_int_equal(found_next(), 0x3ff);
}

TEST_WITH(an_end_that_was_not_written_is_made_anew, make_folder, remove_temporary_folder) {
    for (int file = 0; file < 2; file++)
        for (int cut = 1; cut <= (file ? RECORD : VECTOR) + 1; cut += 4) {
            make_and_die(0, 4);
            assert_int_equal(truncate(file ? made : vectors, (file ? HEAD + 4 * RECORD : 4 * VECTOR) - cut), 0);
            assert_int_equal(found_next(), cut <= (file ? RECORD : VECTOR) ? 0x7 : 0x3);
            make_and_die(2, 4);
            assert_int_equal(found_next(), 0xf);
            unlink_both();
        }
    for (int file = 0; file < 2; file++) {
        make_and_die(0, 4);
        unlink(file ? made : vectors);
        assert_int_equal(found_next(), 0);
        make_and_die(0, 2);
        assert_int_equal(found_next(), 0x3);
        unlink_both();
    }
}

TEST_WITH(zeros_of_a_power_cut_are_made_anew, make_folder, remove_temporary_folder) {
    make_and_die(0, 5);
    change(vectors, 1 * VECTOR, VECTOR, 0);
    change(made, HEAD + 3 * RECORD, RECORD, 0);
    assert_int_equal(found_next(), 0x15);
    make_and_die(0, 5);
    assert_int_equal(found_next(), 0x1f);
}

/* A flipped byte makes no vector wrong (`has`), and only the vector with that byte is lost. */
TEST_WITH(each_flipped_byte_is_found, make_folder, remove_temporary_folder) {
    const off_t ends[] = {4 * VECTOR, HEAD + 4 * RECORD};
    make_and_die(0, 4);
    for (int file = 0; file < 2; file++)
        for (off_t at = 0; at < ends[file]; at++) {
            const off_t begin_at = file ? HEAD : 0;
            change(file ? made : vectors, at, 1, 0x10);
            const unsigned found = found_now();
            change(file ? made : vectors, at, 1, 0x10);
            if (at >= begin_at)
                assert_int_equal(found, 0xf & ~(1u << (at - begin_at) / (file ? RECORD : VECTOR)));
            else
                assert_int_equal(found, at < 16 + 4 ? 0 : 0xf); /* the rest is unused */
        }
}

/* Each picture in a video counts once, in order, however often and in whatever order it came; none counts if one is
 * damaged. */
TEST_WITH(pictures_of_a_video_are_in_order, make_folder, remove_temporary_folder) {
    const mr_content_key key = key_of(1);
    const mr_cache_record *const *records;
    mr_cache cache;
    for (int damaged = 0; damaged < 2; damaged++) {
        for (int round = 0; round < 2; round++) {
            begin(&cache, 0);
            for (uint64_t i = 0; i < 5; i++) {
                const mr_cache_record record = {.key = key, .at_ns = 40, .seq = i * 3 % 5, .sub = i % 2};
                assert_int_equal(mr_cache_put(&cache, MR_CACHE_NEXT, &record, (float[]){(float)record.seq}, 1), MR_OK);
            }
            mr_cache_close(&cache);
        }
        if (damaged)
            change(vectors, 2 * sizeof(float), 1, 1);
        assert_int_equal(mr_cache_open(&cache, temporary_folder, "key"), MR_OK);
        assert_int_equal(cache.slots, 5);
        assert_int_equal(mr_cache_find(&cache, &key, &records), damaged ? 0 : 5);
        for (size_t i = 0; i < 5 && !damaged; i++)
            assert_true(records[i]->seq == i && *mr_cache_vector(&cache, records[i]) == (float)i);
        mr_cache_close(&cache);
    }
}

TEST_WITH(what_cannot_be_a_cache_counts_as_none, make_folder, remove_temporary_folder) {
    /* Some would give a vector with 0 bytes, since sizes have 64 bits; others one that is too large. */
    const uint64_t widths[] = {0, UINT64_C(1) << 62, (UINT64_C(1) << 62) - 10, UINT64_MAX, (1 << 24) + 1};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        make_and_die(0, 3);
        int fd = open(made, O_WRONLY);
        assert_int_equal(pwrite(fd, &widths[i], sizeof *widths, 8), sizeof *widths);
        close(fd);
        assert_int_equal(found_next(), 0);
        unlink_both();
    }
    ENDED_BY(mr_cache_close) mr_cache cache;
    begin(&cache, 0);
    put(&cache, MR_CACHE_NEXT, 1);
    assert_int_equal(mr_cache_put(&cache, MR_CACHE_NEXT, &(mr_cache_record){.seq = 1}, (float[]){1, 2}, 2),
                     MR_ERROR_DATA);
}

TEST_WITH(one_program_at_a_time_writes, make_folder, remove_temporary_folder) {
    ENDED_BY(mr_cache_close) mr_cache cache, other;
    begin(&cache, 2);
    put(&cache, 0, 0);
    assert_int_equal(mr_cache_open(&other, temporary_folder, "key"), MR_OK);
    assert_true(has(&other, 0));
    assert_int_equal(mr_cache_lock(&other, stopped), MR_ERROR_CANCELLED);
    put(&cache, 1, 1);
    mr_cache_unlock(&cache);
    assert_int_equal(mr_cache_lock(&other, stopped), MR_OK);
    assert_int_equal(found_in(&other), 0x3);
}

/* ---- files that others make shorter ----------------------------------------------------------------------------- */

static void read_what_was_cut(void) {
    mr_cache cache;
    if (mr_cache_open(&cache, temporary_folder, "key") || truncate(vectors, 0))
        _exit(1);
    _exit(mr_cache_vector(&cache, cache.sorted[0])[0] > 0.0f ? 2 : 3);
}

static void raise_elsewhere(void) {
    mr_cache cache;
    if (mr_cache_open(&cache, temporary_folder, "key"))
        _exit(1);
    mr_cache_close(&cache);
    raise(SIGBUS);
    _exit(4);
}

/* Returns the process's state; `printed` has what it printed. */
static int run_apart(void (*function)(void), char *printed, size_t room) {
    int ends[2], how = 0;
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        function();
    }
    close(ends[1]);
    size_t length = 0;
    for (ssize_t got; length < room - 1 && (got = read(ends[0], printed + length, room - 1 - length)) > 0;)
        length += (size_t)got;
    printed[length] = 0;
    close(ends[0]);
    assert_int_equal(waitpid(child, &how, 0), child);
    return how;
}

TEST_WITH(a_file_that_is_cut_is_named, make_folder, remove_temporary_folder) {
    char printed[8192];
    make_and_die(0, 4);
    int how = run_apart(read_what_was_cut, printed, sizeof printed);
    if (!WIFEXITED(how) || WEXITSTATUS(how) != 74 || !strstr(printed, vectors) || !strstr(printed, "became shorter"))
        fail_msg("state %x: %s", (unsigned)how, printed);
}

TEST_WITH(another_fault_ends_as_before, make_folder, remove_temporary_folder) {
    char printed[8192];
    make_and_die(0, 4);
    int how = run_apart(raise_elsewhere, printed, sizeof printed);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGBUS);
    assert_null(strstr(printed, "became shorter"));
}

RUN_TESTS(be_quiet, NULL)
