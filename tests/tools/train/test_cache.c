/* What a killed program has left of the vectors that it made: the next one keeps each that is as it was written, and no
 * other. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "millrace/status.h"
#include "tests/support/quiet.h"
#include "tests/support/suite.h"
#include "tests/support/temporary.h"
#include "tools/millrace/train/cache.h"

enum { WIDTH = 3, HEAD = 64, VECTOR = WIDTH * sizeof(float), LISTED = sizeof(mr_cache_record) + 8 };

static char vectors[4096], part[4096], list[4096];

/* The folder of a test takes the place of its temporary file. */
static int make_folder(void **state) {
    int failed = make_temporary(state) || unlink(temporary_path) || mkdir(temporary_path, 0700);
    snprintf(vectors, sizeof vectors, "%s/key.vectors", temporary_path);
    snprintf(part, sizeof part, "%s/key.vectors.part", temporary_path);
    snprintf(list, sizeof list, "%s/key.vectors.part.made", temporary_path);
    return failed;
}

static int remove_folder(void **state) {
    (void)state;
    unlink(vectors);
    unlink(part);
    unlink(list);
    return rmdir(temporary_path);
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

static void put(mr_cache_writer *writer, size_t slot, int content) {
    const float vector[WIDTH] = {(float)content, 2, 3};
    const mr_cache_record record = {.key = key_of(content), .made = 1};
    assert_int_equal(mr_cache_put(writer, slot, &record, vector, WIDTH), MR_OK);
}

static void lock(mr_cache *cache, mr_cache_writer *writer, bool elsewhere) {
    assert_int_equal(mr_cache_open(cache, temporary_path, "key"), MR_OK);
    assert_int_equal(mr_cache_lock(writer, cache, elsewhere, not_stopped), MR_OK);
}

/* As the system does for a process that is killed. */
static void die(mr_cache *cache, mr_cache_writer *writer) {
    close(writer->fd);
    if (writer->list_fd >= 0)
        close(writer->list_fd);
    free(writer->records);
    mr_cache_close(cache);
}

/* Makes the contents [first, end) in slots behind the old ones, and is killed. */
static void make_and_die(int first, int end) {
    mr_cache cache;
    mr_cache_writer writer;
    lock(&cache, &writer, false);
    assert_int_equal(mr_cache_begin(&writer, (size_t)(end - first) + 2), MR_OK);
    for (int i = first; i < end; i++)
        put(&writer, (size_t)(i - first), i);
    die(&cache, &writer);
}

static void make_and_finish(int first, int end) {
    mr_cache cache;
    mr_cache_writer writer;
    lock(&cache, &writer, false);
    assert_int_equal(mr_cache_begin(&writer, (size_t)(end - first)), MR_OK);
    for (int i = first; i < end; i++)
        put(&writer, (size_t)(i - first), i);
    assert_int_equal(mr_cache_finish(&writer), MR_OK);
    mr_cache_close(&cache);
}

static bool has(mr_cache *cache, int content) {
    const mr_content_key key = key_of(content);
    const size_t slot = mr_cache_find(cache, &key);
    if (slot == SIZE_MAX)
        return false;
    const float expected[WIDTH] = {(float)content, 2, 3};
    assert_memory_equal(cache->vectors + slot * cache->width, expected, sizeof expected);
    return true;
}

/* The contents below 16 that the next program finds, as bits. Nothing is left beside the cache. */
static unsigned found_next(void) {
    mr_cache cache;
    mr_cache_writer writer;
    unsigned found = 0;
    lock(&cache, &writer, false);
    for (int i = 0; i < 16; i++)
        found |= (unsigned)has(&cache, i) << i;
    mr_cache_abandon(&writer);
    mr_cache_close(&cache);
    assert_int_equal(access(part, F_OK), -1);
    assert_int_equal(access(list, F_OK), -1);
    return found;
}

/* ---- what happens to files --------------------------------------------------------------------------------------- */

static off_t size_of(const char *path) {
    struct stat found;
    assert_int_equal(stat(path, &found), 0);
    return found.st_size;
}

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

TEST_WITH(vectors_are_kept, make_folder, remove_folder) {
    make_and_die(0, 4);
    assert_int_equal(found_next(), 0xf);
    assert_int_equal(found_next(), 0xf);
    /* Behind old ones; and again by a program that is killed as well. */
    make_and_die(4, 6);
    make_and_die(6, 7);
    assert_int_equal(found_next(), 0x7f);
    /* With slots between them that nothing came into. */
    mr_cache cache;
    mr_cache_writer writer;
    lock(&cache, &writer, false);
    assert_int_equal(mr_cache_begin(&writer, 9), MR_OK);
    put(&writer, 5, 7);
    put(&writer, 2, 8);
    die(&cache, &writer);
    assert_int_equal(found_next(), 0x1ff);
}

TEST_WITH(a_program_that_made_none_leaves_none, make_folder, remove_folder) {
    make_and_die(0, 0);
    assert_int_equal(found_next(), 0);
    assert_int_equal(access(vectors, F_OK), -1);
}

TEST_WITH(the_end_that_was_not_written_is_made_anew, make_folder, remove_folder) {
    for (int cut = 1; cut <= LISTED + 1; cut++) {
        make_and_die(0, 4);
        assert_int_equal(truncate(list, size_of(list) - cut), 0);
        assert_int_equal(found_next(), cut <= LISTED ? 0x7 : 0x3);
        unlink(vectors);
    }
    for (int cut = 1; cut <= VECTOR + 1; cut++) {
        make_and_die(0, 4);
        assert_int_equal(truncate(part, HEAD + 4 * VECTOR - cut), 0);
        assert_int_equal(found_next(), cut <= VECTOR ? 0x7 : 0x3);
        unlink(vectors);
    }
    make_and_die(0, 4);
    assert_int_equal(truncate(part, HEAD - 1), 0);
    assert_int_equal(found_next(), 0);
}

TEST_WITH(zeros_of_a_power_cut_are_made_anew, make_folder, remove_folder) {
    make_and_die(0, 5);
    change(part, HEAD + 1 * VECTOR, VECTOR, 0);
    change(list, HEAD + 3 * LISTED, LISTED, 0);
    assert_int_equal(found_next(), 0x15);
    /* Old vectors may be zeros in the part, too: they come from the old file. */
    make_and_die(5, 7);
    change(part, HEAD, 5 * VECTOR, 0);
    assert_int_equal(found_next(), 0x75);
}

/* Of each byte: no vector is wrong (has), and none but the one whose byte it is is lost. */
TEST_WITH(each_flipped_byte_is_found, make_folder, remove_folder) {
    const off_t ends[] = {HEAD + 4 * VECTOR, HEAD + 4 * LISTED};
    for (int file = 0; file < 2; file++)
        for (off_t at = 0; at < ends[file]; at++) {
            make_and_die(0, 4);
            change(file ? list : part, at, 1, 0x10);
            const unsigned found = found_next();
            const off_t record = (at - HEAD) / (off_t)(file ? LISTED : VECTOR);
            if (at >= HEAD)
                assert_int_equal(found, 0xf & ~(1u << record));
            else if (!file)
                assert_int_equal(found, 0xf);
            unlink(vectors);
        }
}

/* Pictures of a video count only together. */
TEST_WITH(what_is_not_complete_is_made_anew, make_folder, remove_folder) {
    mr_cache cache;
    mr_cache_writer writer;
    lock(&cache, &writer, false);
    assert_int_equal(mr_cache_begin(&writer, 2), MR_OK);
    put(&writer, MR_CACHE_NEXT, 0);
    put(&writer, 1, 1);
    put(&writer, MR_CACHE_NEXT, 2);
    die(&cache, &writer);
    assert_int_equal(found_next(), 0x2);
}

/* The program was killed when all but the name was there. */
TEST_WITH(a_finished_part_is_kept_whole, make_folder, remove_folder) {
    mr_cache cache;
    mr_cache_writer writer;
    for (int old = 0; old < 2; old++)
        for (int damaged = 0; damaged < 2; damaged++) {
            if (old)
                make_and_finish(0, 1);
            lock(&cache, &writer, false);
            assert_int_equal(mr_cache_begin(&writer, 1), MR_OK);
            put(&writer, 0, 1);
            put(&writer, MR_CACHE_NEXT, 2);
            char *before = old ? whole_file(vectors) : NULL;
            const size_t bytes = old ? (size_t)size_of(vectors) : 0;
            assert_int_equal(mr_cache_finish(&writer), MR_OK);
            mr_cache_close(&cache);
            assert_int_equal(rename(vectors, part), 0);
            int fd = old ? open(vectors, O_WRONLY | O_CREAT, 0600) : -1;
            assert_true(!old || write(fd, before, bytes) == (ssize_t)bytes);
            close(fd);
            free(before);
            if (damaged)
                change(part, HEAD + old * VECTOR, 1, 1);
            assert_int_equal(found_next(), (damaged ? 0 : 0x6) | (old ? 0x1 : 0));
            unlink(vectors);
        }
}

TEST_WITH(the_old_file_may_be_gone_or_of_another_version, make_folder, remove_folder) {
    make_and_finish(0, 3);
    make_and_die(3, 5);
    unlink(vectors);
    assert_int_equal(found_next(), 0x18);
    change(vectors, 7, 1, 1);
    make_and_die(5, 7);
    assert_int_equal(found_next(), 0x60);
    /* A list of another version says nothing. */
    make_and_die(7, 8);
    change(list, 7, 1, 1);
    assert_int_equal(found_next(), 0x60);
}

TEST_WITH(what_is_kept_elsewhere_is_not_listed, make_folder, remove_folder) {
    mr_cache cache;
    mr_cache_writer writer;
    lock(&cache, &writer, true);
    assert_int_equal(mr_cache_begin(&writer, 1), MR_OK);
    put(&writer, 0, 0);
    assert_int_equal(access(list, F_OK), -1);
    die(&cache, &writer);
    assert_int_equal(found_next(), 0);
    /* What another program has left is kept by this one, too. */
    make_and_die(0, 2);
    lock(&cache, &writer, true);
    assert_true(has(&cache, 0) && has(&cache, 1));
    mr_cache_abandon(&writer);
    mr_cache_close(&cache);
}

TEST_WITH(nothing_is_taken_from_a_program_that_lives, make_folder, remove_folder) {
    mr_cache cache, other;
    mr_cache_writer writer, waits;
    lock(&cache, &writer, false);
    assert_int_equal(mr_cache_begin(&writer, 2), MR_OK);
    put(&writer, 0, 0);
    assert_int_equal(mr_cache_open(&other, temporary_path, "key"), MR_OK);
    assert_int_equal(mr_cache_lock(&waits, &other, false, stopped), MR_ERROR_CANCELLED);
    assert_int_equal(other.slots, 0);
    mr_cache_close(&other);
    put(&writer, 1, 1);
    assert_int_equal(mr_cache_finish(&writer), MR_OK);
    assert_int_equal(access(list, F_OK), -1);
    mr_cache_close(&cache);
    assert_int_equal(found_next(), 0x3);
}

/* ---- files that others make shorter ----------------------------------------------------------------------------- */

static void read_what_was_cut(void) {
    mr_cache cache;
    if (mr_cache_open(&cache, temporary_path, "key") || truncate(vectors, 0))
        _exit(1);
    _exit(cache.vectors[0] > 0.0f ? 2 : 3);
}

static void raise_elsewhere(void) {
    mr_cache cache;
    if (mr_cache_open(&cache, temporary_path, "key"))
        _exit(1);
    mr_cache_close(&cache);
    raise(SIGBUS);
    _exit(4);
}

/* Returns the state of the process; what it has printed is in `printed`. */
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

TEST_WITH(a_file_that_is_cut_is_named, make_folder, remove_folder) {
    char printed[8192];
    make_and_finish(0, 4);
    int how = run_apart(read_what_was_cut, printed, sizeof printed);
    if (!WIFEXITED(how) || WEXITSTATUS(how) != 74 || !strstr(printed, vectors) || !strstr(printed, "became shorter"))
        fail_msg("state %x: %s", (unsigned)how, printed);
}

TEST_WITH(another_fault_ends_as_before, make_folder, remove_folder) {
    char printed[8192];
    make_and_finish(0, 4);
    int how = run_apart(raise_elsewhere, printed, sizeof printed);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGBUS);
    assert_null(strstr(printed, "became shorter"));
}

RUN_TESTS(be_quiet, NULL)
