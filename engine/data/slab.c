#include "engine/data/slab.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "engine/device/pixel_memory.h"
#include "millrace/status.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

struct mr_slab {
    atomic_int references;
    atomic_bool closed;
    atomic_uint used; /* slots taken, or attempted */
    int fd;
    uint32_t slots;
    size_t slot_bytes;
    mr_slab_layout layout;
    uint8_t *base;
};

static _Atomic uint64_t closings;

bool mr_slab_lay_out(size_t slot_bytes, uint64_t slots, mr_slab_layout *layout) {
    if (slots == 0 || slots > MR_SLAB_SLOTS || slot_bytes == 0 || slot_bytes > SIZE_MAX / 2)
        return false;
    layout->first = mr_aligned_bytes((size_t)slots * sizeof(uint64_t));
    layout->stride = mr_aligned_bytes(slot_bytes);
    size_t bytes;
    return !__builtin_mul_overflow(layout->stride, (size_t)slots, &bytes) &&
           !__builtin_add_overflow(bytes, layout->first + MR_SLACK_BYTES, &layout->total) &&
           layout->total <= INT64_MAX;
}

/* ---- the file -------------------------------------------------------------------------------------------------- */

static int unavailable(const char *call) {
    return mr_fail(MR_ERROR_UNAVAILABLE, "shared memory: %s: %s", call, strerror(errno));
}

/* In older systems a signal interrupts the call, whatever its handler wants, and the next call begins anew: with a
 * timer's signals that would never end. */
static int allocate(int fd, size_t offset, size_t bytes) {
    sigset_t all, before;
    int failed;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    do
        failed = fallocate(fd, 0, (off_t)offset, (off_t)bytes);
    while (failed && errno == EINTR); /* by a stop, which cannot be blocked */
    const int error = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return failed;
}

int mr_slab_open_file(const char *name, size_t bytes, int *fd) {
    /* Beyond this limit the system would kill the process instead of failing. */
    struct rlimit limit;
    if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur < bytes)
        return mr_fail(MR_ERROR_UNAVAILABLE, "shared memory: %zu bytes are beyond the limit of one file (ulimit -f)",
                       bytes);
    int made = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if (made < 0 && errno == EINVAL)
        made = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (made < 0)
        return unavailable("memfd_create");
    int status = ftruncate(made, (off_t)bytes) ? unavailable("ftruncate") : MR_OK;
    if (status)
        close(made);
    else
        *fd = made;
    return status;
}

/* The seal against writers does not affect existing mappings. */
static int map_and_seal(mr_slab *slab) {
    void *base = mmap(NULL, slab->layout.total, PROT_READ | PROT_WRITE, MAP_SHARED, slab->fd, 0);
    if (base == MAP_FAILED)
        return unavailable("mmap");
    slab->base = base;
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
    if (fcntl(slab->fd, F_ADD_SEALS, seals))
        return unavailable("F_SEAL_FUTURE_WRITE");
    return allocate(slab->fd, 0, slab->layout.first) ? unavailable("fallocate") : MR_OK;
}

int mr_slab_create(mr_slab **slab, size_t slot_bytes, uint32_t slots) {
    mr_slab *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a slab");
    atomic_init(&made->references, 1);
    made->fd = -1;
    made->slots = slots;
    made->slot_bytes = slot_bytes;
    int status = mr_slab_lay_out(slot_bytes, slots, &made->layout)
                     ? mr_slab_open_file("millrace", made->layout.total, &made->fd)
                     : mr_fail(MR_ERROR_UNAVAILABLE, "shared memory: there can be no %u slots of %zu bytes", slots,
                               slot_bytes);
    if (!status)
        status = map_and_seal(made);
    if (status) {
        mr_slab_unref(&made);
        return status;
    }
    *slab = made;
    return MR_OK;
}

mr_slab *mr_slab_ref(mr_slab *slab) {
    atomic_fetch_add_explicit(&slab->references, 1, memory_order_relaxed);
    return slab;
}

void mr_slab_unref(mr_slab **slab) {
    mr_slab *gone = *slab;
    *slab = NULL;
    if (!gone || atomic_fetch_sub_explicit(&gone->references, 1, memory_order_acq_rel) != 1)
        return;
    if (gone->base)
        munmap(gone->base, gone->layout.total);
    if (gone->fd >= 0)
        close(gone->fd);
    mr_free(gone);
}

/* ---- slots ----------------------------------------------------------------------------------------------------- */

int mr_slab_take_slot(mr_slab *slab, void **data) {
    unsigned slot = atomic_load(&slab->used);
    while (slot < slab->slots && !atomic_compare_exchange_weak(&slab->used, &slot, slot + 1))
        ;
    if (slot >= slab->slots)
        return mr_fail(MR_ERROR_MEMORY, "all %u slots of a slab are taken", slab->slots);
    size_t offset = slab->layout.first + slot * slab->layout.stride;
    if (allocate(slab->fd, offset, slab->layout.stride))
        return mr_fail(MR_ERROR_MEMORY, "no shared memory for %zu bytes: %s", slab->layout.stride, strerror(errno));
    *data = slab->base + offset;
    return MR_OK;
}

static _Atomic uint64_t *generation_of(const mr_slab *slab, uint32_t slot) {
    return (_Atomic uint64_t *)(void *)slab->base + slot;
}

static uint32_t slot_at(const mr_slab *slab, const uint8_t *data) {
    return (uint32_t)(((size_t)(data - slab->base) - slab->layout.first) / slab->layout.stride);
}

void mr_slab_renew(mr_slab *slab, const uint8_t *data) {
    atomic_fetch_add_explicit(generation_of(slab, slot_at(slab, data)), 1, memory_order_release);
}

uint32_t mr_slab_slot_of(const mr_slab *slab, const uint8_t *data, uint64_t *generation) {
    uint32_t slot = slot_at(slab, data);
    *generation = atomic_load_explicit(generation_of(slab, slot), memory_order_relaxed);
    return slot;
}

int mr_slab_fd(const mr_slab *slab) {
    return slab->fd;
}

uint32_t mr_slab_slots(const mr_slab *slab) {
    return slab->slots;
}

size_t mr_slab_slot_bytes(const mr_slab *slab) {
    return slab->slot_bytes;
}

/* ---- the end --------------------------------------------------------------------------------------------------- */

void mr_slab_close(mr_slab *slab) {
    atomic_store(&slab->closed, true);
    atomic_fetch_add(&closings, 1);
}

bool mr_slab_closed(const mr_slab *slab) {
    return atomic_load(&slab->closed);
}

uint64_t mr_slab_closings(void) {
    return atomic_load(&closings);
}
