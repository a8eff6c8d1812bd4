#include "engine/transport/shm_ring.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/data/slab.h"
#include "millrace/status.h"

static int unavailable(const char *call) {
    return mr_fail(MR_ERROR_UNAVAILABLE, "shared memory: %s of the ring: %s", call, strerror(errno));
}

static int map(mr_shm_ring **ring, int fd) {
    void *base = mmap(NULL, sizeof **ring, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED)
        return unavailable("mmap");
    *ring = base;
    return MR_OK;
}

int mr_shm_ring_create(mr_shm_ring **ring, int *fd) {
    int made = -1, status = mr_slab_open_file("millrace-ring", sizeof **ring, &made);
    if (status)
        return status;
    if (fallocate(made, 0, 0, sizeof **ring) || fcntl(made, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
        status = unavailable("size");
    if (!status)
        status = map(ring, made);
    if (status)
        close(made);
    else
        *fd = made;
    return status;
}

int mr_shm_check_file(int fd, int seals, uint64_t bytes) {
    struct stat found;
    int have = fcntl(fd, F_GET_SEALS);
    if (have < 0 || (have & seals) != seals)
        return mr_fail(MR_ERROR_PROTOCOL, "shared memory: the other end has passed a file that can still change");
    if (fstat(fd, &found) || (uint64_t)found.st_size != bytes)
        return mr_fail(MR_ERROR_PROTOCOL, "shared memory: the other end has passed a file of a wrong size");
    return MR_OK;
}

int mr_shm_ring_map(mr_shm_ring **ring, int fd) {
    int status = mr_shm_check_file(fd, F_SEAL_SHRINK | F_SEAL_GROW, sizeof **ring);
    return status ? status : map(ring, fd);
}

void mr_shm_ring_unmap(mr_shm_ring **ring) {
    if (*ring)
        munmap(*ring, sizeof **ring);
    *ring = NULL;
}

/* ---- leases ---------------------------------------------------------------------------------------------------- */

/* Of the two that write `returned` and `asleep` and then read the other's, at least one sees what the other wrote:
 * all four are sequentially consistent. */
bool mr_shm_ring_put(mr_shm_ring *ring, uint32_t lease) {
    uint64_t count = atomic_load_explicit(&ring->returned, memory_order_relaxed);
    atomic_store_explicit(&ring->lease[count % MR_SHM_LEASES], lease, memory_order_relaxed);
    atomic_store(&ring->returned, count + 1);
    return atomic_load(&ring->asleep) && atomic_exchange(&ring->asleep, 0);
}

int mr_shm_ring_take(mr_shm_ring *ring, uint64_t taken, uint32_t *lease) {
    uint64_t there = atomic_load_explicit(&ring->returned, memory_order_acquire) - taken;
    if (there == 0)
        return MR_ERROR_AGAIN;
    if (there > MR_SHM_LEASES)
        return mr_fail(MR_ERROR_PROTOCOL, "shared memory: more has come back than was lent");
    *lease = atomic_load_explicit(&ring->lease[taken % MR_SHM_LEASES], memory_order_relaxed);
    return MR_OK;
}

bool mr_shm_ring_arm(mr_shm_ring *ring, uint64_t taken) {
    atomic_store(&ring->asleep, 1);
    return atomic_load(&ring->returned) == taken;
}
