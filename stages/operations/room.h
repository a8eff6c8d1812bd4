/* Device memory for an operation to measure: regions filled with noise, in several sets. Calls that take the sets in
 * turn cannot find their data in a cache.
 *
 * Ownership: a room owns its memory; the caller owns device and stream. One thread. */
#pragma once

#include "engine/device/device.h"

typedef enum mr_noise { MR_NOISE_NONE, MR_NOISE_BYTES, MR_NOISE_FLOATS } mr_noise; /* floats: -1 to 1 */

typedef struct mr_region {
    size_t bytes;
    mr_noise noise;
    mr_memory memory;
} mr_region;

enum { MR_ROOM_REGIONS = 6 };

/* All zero owns nothing. */
typedef struct mr_room {
    mr_device *device;
    mr_memory memory[MR_ROOM_REGIONS];
    size_t regions, sets;
    size_t step[MR_ROOM_REGIONS]; /* distance between sets in a block; 0 if each set has a separate block */
    void **blocks;                /* regions x sets; with a step, only the first set's */
} mr_room;

/* `now_ns`: as in mr_stream_finish. MR_ERROR_MEMORY, MR_ERROR_DEVICE; the room must then be closed too. */
int mr_room_open(mr_room *room, mr_stream *stream, int64_t *now_ns, const mr_region *regions, size_t count);
/* Accepts a zeroed and a half-opened room. */
void mr_room_close(mr_room *room);
static inline void *mr_room_at(const mr_room *room, size_t set, size_t region) {
    size_t step = room->step[region];
    return step ? (char *)room->blocks[region] + set * step : room->blocks[set * room->regions + region];
}

/* Records an event on the stream that nothing waits for: a CUDA device then starts the enqueued work. */
int mr_room_begin(mr_stream *stream);
