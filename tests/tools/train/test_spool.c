/* The spool of vectors on the home node: what was put is given once, and damaged files are refused. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "millrace/status.h"
#include "tests/support/suite.h"
#include "tests/support/temporary.h"
#include "tools/millrace/train/spool.h"

enum { FILES = 3 };

/* The folder of a test takes the place of its temporary file. */
static int make_folder(void **state) {
    return make_temporary(state) || unlink(temporary_path) || mkdir(temporary_path, 0700);
}

static int remove_folder(void **state) {
    (void)state;
    char path[4096];
    snprintf(path, sizeof path, "%s/vectors", temporary_path);
    return unlink(path) || rmdir(temporary_path);
}

/* A head as another machine, or a disk, might have left it, with a record behind it. */
static void forge(uint64_t width, uint64_t files) {
    char path[4096];
    uint64_t block[32] = {width, files};
    snprintf(path, sizeof path, "%s/vectors", temporary_path);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, block, sizeof block), sizeof block);
    assert_int_equal(close(fd), 0);
}

TEST_WITH(a_head_that_makes_no_sense_is_refused, make_folder, remove_folder) {
    /* The first makes a record of 0 bytes, since its size is counted in 64 bits; others make records of more than
     * fits. */
    const uint64_t widths[] = {(UINT64_C(1) << 62) - 8, (UINT64_C(1) << 62) - 10, UINT64_MAX, (1 << 24) + 1};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        mr_spool spool;
        forge(widths[i], FILES);
        assert_int_equal(mr_spool_open(&spool, temporary_path, FILES), MR_ERROR_DATA);
    }
}

TEST_WITH(that_of_other_files_is_refused, make_folder, remove_folder) {
    mr_spool spool;
    forge(4, FILES + 1);
    assert_int_equal(mr_spool_open(&spool, temporary_path, FILES), MR_ERROR_DATA);
}

TEST_WITH(what_was_put_is_still_there, make_folder, remove_folder) {
    const float vector[4] = {1, 2, 3, 4};
    mr_spool spool;
    assert_int_equal(mr_spool_open(&spool, temporary_path, FILES), MR_OK);
    assert_int_equal(mr_spool_put(&spool, &(mr_taken){.file = 1}, vector, 4), MR_OK);
    assert_int_equal(mr_spool_put(&spool, &(mr_taken){.file = 2}, vector, 3), MR_ERROR_DATA);
    mr_spool_close(&spool);
    assert_int_equal(mr_spool_open(&spool, temporary_path, FILES), MR_OK);
    assert_int_equal(spool.records, 1);
    assert_int_equal(spool.width, 4);
    mr_spool_close(&spool);
}

static int count(void *user, const mr_taken *from, const float *vector, size_t length) {
    assert_int_equal(length, 4);
    assert_true(vector[0] == (float)from->file && vector[3] == 4.0f);
    *(unsigned *)user |= 1u << from->file;
    return MR_OK;
}

/* Of three records each byte is changed in turn, and each is made zeros, as by a power cut. */
TEST_WITH(what_is_damaged_is_not_given, make_folder, remove_folder) {
    enum { RECORD = 48 + 4 * sizeof(float) };
    char path[4096], whole[64 + FILES * RECORD];
    mr_spool spool;
    assert_int_equal(mr_spool_open(&spool, temporary_path, FILES), MR_OK);
    for (size_t i = 0; i < FILES; i++)
        assert_int_equal(mr_spool_put(&spool, &(mr_taken){.file = i}, (float[]){(float)i, 2, 3, 4}, 4), MR_OK);
    mr_spool_close(&spool);
    snprintf(path, sizeof path, "%s/vectors", temporary_path);
    int fd = open(path, O_RDWR);
    assert_int_equal(read(fd, whole, sizeof whole), sizeof whole);
    for (size_t i = 0; i <= FILES * RECORD + FILES; i++) {
        const size_t at = i < FILES * RECORD ? i : (i - FILES * RECORD) * RECORD;
        const size_t bytes = i < FILES * RECORD ? 1 : i < FILES * RECORD + FILES ? RECORD : 0;
        char changed[sizeof whole];
        memcpy(changed, whole, sizeof whole);
        for (size_t b = 0; b < bytes; b++)
            changed[64 + at + b] = bytes > 1 ? 0 : (char)(whole[64 + at] ^ 1);
        unsigned found = 0;
        assert_int_equal(pwrite(fd, changed, sizeof changed, 0), sizeof changed);
        assert_int_equal(mr_spool_open(&spool, temporary_path, FILES), MR_OK);
        assert_int_equal(mr_spool_read(&spool, count, &found), MR_OK);
        assert_int_equal(found, bytes ? 7u & ~(1u << (at / RECORD)) : 7u);
        assert_int_equal(spool.damaged, bytes > 0);
        mr_spool_close(&spool);
    }
    close(fd);
}

RUN_TESTS(NULL, NULL)
