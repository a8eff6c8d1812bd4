#include "engine/transport/shm/shm_area.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/memory.h"
#include "engine/data/slab.h"
#include "millrace/status.h"

enum { MOST_PAGE_BYTES = 1 << 16 };
enum { HEAD_BYTES = (sizeof(mr_shm_head) + MOST_PAGE_BYTES - 1) / MOST_PAGE_BYTES * MOST_PAGE_BYTES };
enum { FILE_BYTES = HEAD_BYTES + MR_SHM_DOWN_BYTES + MR_SHM_UP_BYTES };

_Static_assert((int)MR_SHM_UP_BYTES > (int)MR_SHM_RECORD_BYTES, "the longest record fits into either ring");

static int unavailable(const char *call) {
    return mr_fail(MR_ERROR_UNAVAILABLE, "shared memory: %s of the rings: %s", call, strerror(errno));
}

/* ---- mapping ----------------------------------------------------------------------------------------------------- */

/* Maps the same bytes twice in a row, with pages present: otherwise each page would fault when it is first used. */
static int map_ring(mr_shm_records *records, mr_shm_channel *channel, int fd, off_t offset, size_t bytes) {
    uint8_t *base = mmap(NULL, 2 * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return unavailable("mmap");
    *records = (mr_shm_records){.channel = channel, .data = base, .size = bytes};
    for (size_t i = 0; i < 2; i++)
        if (mmap(base + i * bytes, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE, fd,
                 offset) == MAP_FAILED)
            return unavailable("mmap");
    return MR_OK;
}

static int map(mr_shm_area *area, int fd) {
    void *base = mmap(NULL, sizeof *area->head, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED)
        return unavailable("mmap");
    area->head = base;
    int status = map_ring(&area->down, &area->head->down, fd, HEAD_BYTES, MR_SHM_DOWN_BYTES);
    return status ? status
                  : map_ring(&area->up, &area->head->up, fd, HEAD_BYTES + MR_SHM_DOWN_BYTES, MR_SHM_UP_BYTES);
}

static int map_new(mr_shm_area **area, int fd) {
    mr_shm_area *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a link");
    int status = map(made, fd);
    if (status)
        mr_shm_area_unmap(&made);
    *area = made;
    return status;
}

static void unmap_ring(const mr_shm_records *records) {
    if (records->data)
        munmap(records->data, 2 * records->size);
}

void mr_shm_area_unmap(mr_shm_area **area) {
    mr_shm_area *gone = *area;
    *area = NULL;
    if (!gone)
        return;
    unmap_ring(&gone->down);
    unmap_ring(&gone->up);
    if (gone->head)
        munmap(gone->head, sizeof *gone->head);
    mr_free(gone);
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

size_t mr_shm_area_bytes(void) {
    return FILE_BYTES;
}

/* A reader that has not attached yet counts as asleep: the first record of either direction wakes it. */
int mr_shm_area_create(mr_shm_area **area, int *fd) {
    int made = -1, status = mr_slab_open_file("millrace-ring", FILE_BYTES, &made);
    *area = NULL;
    if (status)
        return status;
    if (fallocate(made, 0, 0, FILE_BYTES) || fcntl(made, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
        status = unavailable("size");
    if (!status)
        status = map_new(area, made);
    if (status) {
        close(made);
        return status;
    }
    atomic_store(&(*area)->head->down.reader, MR_SHM_ASLEEP);
    atomic_store(&(*area)->head->up.reader, MR_SHM_ASLEEP);
    *fd = made;
    return MR_OK;
}

int mr_shm_area_map(mr_shm_area **area, int fd) {
    int status = mr_shm_check_file(fd, F_SEAL_SHRINK | F_SEAL_GROW, FILE_BYTES);
    *area = NULL;
    return status ? status : map_new(area, fd);
}

int mr_shm_check_file(int fd, int seals, uint64_t bytes) {
    struct stat found;
    int have = fcntl(fd, F_GET_SEALS);
    if (have < 0 || (have & seals) != seals)
        return mr_fail(MR_ERROR_PROTOCOL, "shared memory: the other end has passed a file that is not sealed");
    if (fstat(fd, &found) || (uint64_t)found.st_size != bytes)
        return mr_fail(MR_ERROR_PROTOCOL, "shared memory: the other end has passed a file of the wrong size");
    return MR_OK;
}

void mr_shm_ring_doorbell(int fd) {
    const uint64_t one = 1;
    ssize_t written = write(fd, &one, sizeof one);
    (void)written; /* It fails if the counter of the eventfd is full: then it is readable anyway. */
}

/* Only the name identifies it. */
int mr_shm_check_doorbell(int fd) {
    char path[64], name[64] = "";
    int flags = fcntl(fd, F_GETFL);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (readlink(path, name, sizeof name - 1) > 0 && strcmp(name, "anon_inode:[eventfd]") == 0 && flags & O_NONBLOCK)
        return MR_OK;
    return mr_fail(MR_ERROR_PROTOCOL, "shared memory: the other end has passed a doorbell that is not an eventfd");
}
