#include "stages/operations/room.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/memory.h"
#include "engine/device/finish.h"
#include "millrace/status.h"

/* After twice the last cache's size has been read, a set must be gone from the cache when it is used again. No known
 * card has a larger cache than cuda_cache. */
enum { MOST_SETS = 1 << 20 };
static const size_t cuda_cache = (size_t)128 << 20, unknown_cache = (size_t)64 << 20;

static size_t cache_of(const mr_device *device) {
    long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
    if (device->type->kind == MR_DEVICE_CUDA)
        return cuda_cache;
    return bytes > 0 ? (size_t)bytes : unknown_cache;
}

static size_t sets_of(const mr_device *device, const mr_region *regions, size_t count) {
    size_t bytes = 0, sets;
    if (device->type->kind == MR_DEVICE_SIM)
        return 1; /* no cache is simulated */
    for (size_t r = 0; r < count; r++)
        bytes += mr_aligned_bytes(regions[r].bytes);
    sets = bytes ? 1 + 2 * cache_of(device) / bytes : 1;
    return sets < MOST_SETS ? sets : MOST_SETS;
}

/* ---- noise ------------------------------------------------------------------------------------------------------ */

/* xorshift64*, as in the executor: the same data on every machine. */
static uint64_t draw(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

static void make_noise(void *data, const mr_region *region) {
    uint64_t state = 1 + region->bytes;
    if (region->noise == MR_NOISE_FLOATS) {
        float *to = data;
        for (size_t i = 0; i < region->bytes / sizeof *to; i++)
            to[i] = (float)(draw(&state) >> 40) / (float)(1 << 23) - 1.0f;
        return;
    }
    uint8_t *to = data;
    for (size_t i = 0; i < region->bytes; i += sizeof state) {
        uint64_t eight = draw(&state);
        memcpy(to + i, &eight, region->bytes - i < sizeof eight ? region->bytes - i : sizeof eight);
    }
}

/* Writes to every page in every set, so that the measurement allocates none. */
static int fill(mr_room *room, mr_stream *stream, int64_t *now_ns, size_t r, const mr_region *region) {
    int status = MR_OK;
    void *noise = region->noise == MR_NOISE_NONE ? NULL : mr_alloc_aligned(64, region->bytes);
    if (region->noise != MR_NOISE_NONE && !noise)
        return mr_fail(MR_ERROR_MEMORY, "no memory for %zu bytes of noise", region->bytes);
    if (noise)
        make_noise(noise, region);
    for (size_t set = 0; set < room->sets && !status; set++) {
        void *to = mr_room_at(room, set, r);
        if (region->memory == MR_MEMORY_DEVICE)
            status = mr_stream_copy(stream, to, noise, region->bytes);
        else if (noise)
            memcpy(to, noise, region->bytes);
        else
            memset(to, 0, region->bytes);
    }
    int finished = mr_stream_finish(stream, now_ns);
    mr_free(noise);
    return status ? status : finished;
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

/* Asks for large pages: millions of small ones would take longer than the measurement. */
static void want_large_pages(const mr_room *room, void *block, size_t bytes) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = ((uintptr_t)block + page - 1) / page * page, end = ((uintptr_t)block + bytes) / page * page;
    if (room->device->type->kind != MR_DEVICE_CUDA && first < end)
        madvise((void *)first, end - first, MADV_HUGEPAGE);
}

/* A simulated device counts a whole block if work touches part of it: there, each set must have separate blocks. */
static int allocate(mr_room *room, size_t r, const mr_region *region) {
    const bool apart = room->device->type->kind == MR_DEVICE_SIM;
    size_t bytes = mr_aligned_bytes(region->bytes);
    int status = MR_OK;
    room->memory[r] = region->memory;
    room->step[r] = apart ? 0 : bytes;
    const size_t blocks = apart ? room->sets : 1, block_bytes = apart ? region->bytes : bytes * room->sets;
    for (size_t i = 0; i < blocks && !status; i++) {
        void **block = &room->blocks[i * room->regions + r];
        status = mr_device_allocate(room->device, region->memory, block_bytes, block);
        if (!status)
            want_large_pages(room, *block, block_bytes);
    }
    return status;
}

int mr_room_open(mr_room *room, mr_stream *stream, int64_t *now_ns, const mr_region *regions, size_t count) {
    int status = MR_OK;
    *room = (mr_room){.device = stream->device, .regions = count, .sets = sets_of(stream->device, regions, count)};
    room->blocks = mr_calloc(count * room->sets + 1, sizeof *room->blocks);
    if (!room->blocks)
        return mr_fail(MR_ERROR_MEMORY, "no memory for an operation");
    for (size_t r = 0; r < count && !status; r++)
        status = allocate(room, r, &regions[r]);
    for (size_t r = 0; r < count && !status; r++)
        status = fill(room, stream, now_ns, r, &regions[r]);
    return status;
}

void mr_room_close(mr_room *room) {
    for (size_t i = 0; room->blocks && i < room->regions * room->sets; i++)
        if (room->blocks[i])
            mr_device_free(room->device, room->memory[i % room->regions], room->blocks[i]);
    mr_free(room->blocks);
    *room = (mr_room){0};
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

int mr_room_begin(mr_stream *stream) {
    mr_event *event = NULL;
    int status = mr_event_create(&event, stream->device, NULL);
    if (!status)
        status = mr_stream_record(stream, event);
    mr_event_unref(&event);
    return status;
}
