#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/data/pool.h"
#include "engine/data/slab.h"
#include "engine/device/device.h"
#include "millrace/log.h"
#include "millrace/status.h"
#include "tests/support/suite.h"

TEST(slots_lie_behind_their_generations) {
    mr_slab_layout layout;
    assert_true(mr_slab_lay_out(100, 3, &layout));
    assert_int_equal(layout.first, 64);
    assert_int_equal(layout.stride, 128);
    assert_int_equal(layout.total, 64 + 3 * 128 + 512);
    assert_true(mr_slab_lay_out(64, 9, &layout));
    assert_int_equal(layout.first, 128);
    assert_int_equal(layout.stride, 64);
    assert_false(mr_slab_lay_out(0, 1, &layout));
    assert_false(mr_slab_lay_out(1, 0, &layout));
    assert_false(mr_slab_lay_out(1, (uint64_t)MR_SLAB_SLOTS + 1, &layout));
    assert_false(mr_slab_lay_out(SIZE_MAX, 1, &layout));
    assert_false(mr_slab_lay_out(SIZE_MAX / 4, 1024, &layout));
}

/* What a reader relies on: the file stays as large as it is, and nobody who gets the descriptor can write. */
TEST(nobody_else_can_change_it) {
    mr_slab *slab;
    void *data;
    assert_int_equal(mr_slab_create(&slab, 5000, 4), MR_OK);
    assert_int_equal(mr_slab_take_slot(slab, &data), MR_OK);
    memset(data, 7, 5000);
    int fd = mr_slab_fd(slab);
    struct stat found;
    assert_int_equal(fstat(fd, &found), 0);
    assert_int_equal(ftruncate(fd, 0), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(ftruncate(fd, found.st_size + 1), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(pwrite(fd, "x", 1, 64), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
    assert_int_equal(errno, EPERM);
    assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
    assert_int_equal(errno, EPERM);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
    const uint8_t *seen = mmap(NULL, (size_t)found.st_size, PROT_READ, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(seen, MAP_FAILED);
    assert_int_equal(seen[64], 7);
    assert_int_equal(seen[64 + 4999], 7);
    memset(data, 8, 5000);
    assert_int_equal(seen[64], 8);
    assert_int_equal(munmap((void *)(uintptr_t)seen, (size_t)found.st_size), 0);
    mr_slab_unref(&slab);
    assert_null(slab);
}

TEST(pages_are_made_as_slots_are_taken) {
    ENDED_BY(mr_slab_unref) mr_slab *slab;
    void *data;
    struct stat before, after;
    assert_int_equal(mr_slab_create(&slab, 1 << 20, 16), MR_OK);
    assert_int_equal(fstat(mr_slab_fd(slab), &before), 0);
    assert_in_range(before.st_blocks * 512, 1, (16 << 20) - 1);
    assert_int_equal(mr_slab_take_slot(slab, &data), MR_OK);
    assert_int_equal(fstat(mr_slab_fd(slab), &after), 0);
    assert_true(after.st_blocks * 512 >= 1 << 20);
    for (int i = 1; i < 16; i++)
        assert_int_equal(mr_slab_take_slot(slab, &data), MR_OK);
    assert_int_equal(mr_slab_take_slot(slab, &data), MR_ERROR_MEMORY);
    uint64_t generation;
    assert_int_equal(mr_slab_slot_of(slab, data, &generation), 15);
    assert_int_equal(generation, 0);
    mr_slab_renew(slab, data);
    assert_int_equal(mr_slab_slot_of(slab, data, &generation), 15);
    assert_int_equal(generation, 1);
}

static int stops; /* how often a stop of the process still interrupts it */

int __real_fallocate(int fd, int mode, off_t offset, off_t bytes);
int __wrap_fallocate(int fd, int mode, off_t offset, off_t bytes);

/* Like older systems: a signal interrupts it, whatever its handler wants, and here one always comes. */
int __wrap_fallocate(int fd, int mode, off_t offset, off_t bytes) {
    sigset_t blocked;
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &blocked), 0);
    if (stops == 0)
        return __real_fallocate(fd, mode, offset, bytes);
    stops -= sigismember(&blocked, SIGALRM);
    errno = EINTR;
    return -1;
}

TEST(signals_of_the_program_do_not_keep_it_from_memory) {
    ENDED_BY(mr_slab_unref) mr_slab *slab;
    void *data;
    sigset_t blocked;
    stops = 1;
    assert_int_equal(mr_slab_create(&slab, 5000, 2), MR_OK);
    stops = 2;
    assert_int_equal(mr_slab_take_slot(slab, &data), MR_OK);
    memset(data, 7, 5000);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &blocked), 0);
    assert_int_equal(sigismember(&blocked, SIGALRM), 0);
}

TEST(a_pool_of_shared_memory_renews_what_it_gives) {
    mr_pool *pool;
    mr_buffer *a, *b, *c = NULL;
    uint64_t first, second;
    assert_int_equal(mr_pool_create(&pool, mr_device_cpu(), MR_MEMORY_SHARED, 1000, 2), MR_OK);
    ENDED_BY(mr_slab_unref) mr_slab *slab = mr_slab_ref(mr_pool_slab(pool));
    assert_int_equal(mr_slab_slots(slab), 2);
    assert_int_equal(mr_slab_slot_bytes(slab), 1000);
    assert_int_equal(mr_pool_acquire(pool, &a), MR_OK);
    assert_int_equal(mr_pool_acquire(pool, &b), MR_OK);
    assert_int_equal(mr_pool_acquire(pool, &c), MR_ERROR_AGAIN);
    assert_int_equal(a->memory, MR_MEMORY_SHARED);
    assert_null(a->device);
    assert_int_equal(a->bytes, 1000);
    assert_int_equal((uintptr_t)a->data % 64, 0);
    assert_int_not_equal(mr_slab_slot_of(slab, a->data, &first), mr_slab_slot_of(slab, b->data, &second));
    const uint8_t *data = a->data;
    memset(a->data, 1, a->bytes);
    mr_buffer_unref(&a);
    assert_int_equal(mr_pool_acquire(pool, &a), MR_OK);
    assert_ptr_equal(a->data, data);
    mr_slab_slot_of(slab, data, &second);
    assert_int_equal(second, first + 1);
    mr_buffer_unref(&b);
    uint64_t closings = mr_slab_closings();
    mr_pool_release(&pool);
    assert_false(mr_slab_closed(slab));
    mr_buffer_unref(&a);
    assert_true(mr_slab_closed(slab));
    assert_true(mr_slab_closings() > closings);
}

static int warnings;
static char warning[256];

static void note_warning(void *context, mr_log_level level, const char *line) {
    warnings += level == MR_LOG_WARNING;
    strncpy(warning, line, sizeof warning - 1);
}

/* Runs last: a process prints this message once. */
TEST(without_shared_memory_a_pool_lies_in_plain_memory) {
    struct rlimit before, none;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    none = before;
    none.rlim_cur = 4096;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    mr_log_to(note_warning, NULL);
    for (int i = 0; i < 2; i++) {
        ENDED_BY(mr_pool_release) mr_pool *pool;
        ENDED_BY(mr_buffer_unref) mr_buffer *buffer;
        assert_int_equal(mr_pool_create(&pool, mr_device_cpu(), MR_MEMORY_SHARED, 100000, 2), MR_OK);
        assert_null(mr_pool_slab(pool));
        assert_int_equal(mr_pool_acquire(pool, &buffer), MR_OK);
        assert_int_equal(buffer->memory, MR_MEMORY_HOST);
        memset(buffer->data, 1, buffer->bytes);
    }
    mr_log_to(NULL, NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(warnings, 1);
    assert_non_null(strstr(warning, "as copies: shared memory: 200"));
}

TEST(what_cannot_be_sealed_or_opened_is_not_available) {
    struct rlimit before, none;
    mr_slab *slab = NULL;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    int status = mr_slab_create(&slab, 1000, 1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(status, MR_ERROR_UNAVAILABLE);
    assert_string_equal(mr_message(), "shared memory: memfd_create: Too many open files");
    assert_null(slab);
    assert_int_equal(mr_slab_create(&slab, SIZE_MAX, 1), MR_ERROR_UNAVAILABLE);
}

RUN_TESTS(NULL, NULL)
