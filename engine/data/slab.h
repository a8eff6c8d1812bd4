/* Slabs: memory for MR_MEMORY_SHARED pools. A slab is a memfd with equal slots that this process writes; other
 * processes can map it for reading (engine/transport/shm/shm.h).
 *
 * The file begins with one 64-bit generation per slot, which rises whenever the slot is about to be refilled. The slots
 * follow, 64-byte aligned. Seals ensure that the size never changes and no other process can write; readers must check
 * them. Pages are allocated when a slot is first used: a shortage is then an error, and not a later signal.
 *
 * A slab lives as long as it is referenced. Any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mr_slab mr_slab;

enum { MR_SLAB_SLOTS = 1 << 20 }; /* the most slots in one slab */

/* Where a slab's slots lie in the file. */
typedef struct mr_slab_layout {
    size_t first;  /* bytes before slot 0 */
    size_t stride; /* bytes from slot to slot */
    size_t total;  /* file size in bytes */
} mr_slab_layout;
/* False if no such slab can exist: no slots, too many slots, or a size that overflows. */
bool mr_slab_lay_out(size_t slot_bytes, uint64_t slots, mr_slab_layout *layout);

/* Creates a memfd that can be sealed; the caller owns the descriptor. MR_ERROR_UNAVAILABLE: the system or a process
 * limit forbids it; the message says which. */
int mr_slab_open_file(const char *name, size_t bytes, int *fd);

/* Returns mr_slab_open_file's errors. */
int mr_slab_create(mr_slab **slab, size_t slot_bytes, uint32_t slots);
mr_slab *mr_slab_ref(mr_slab *slab);
void mr_slab_unref(mr_slab **slab);

/* Takes a slot that was never used, and allocates its memory. MR_ERROR_MEMORY: none is left. */
int mr_slab_take_slot(mr_slab *slab, void **data);
/* The slot at `data` is about to be refilled: references to the old contents become invalid. */
void mr_slab_renew(mr_slab *slab, const uint8_t *data);
/* The slot at `data`, and its generation. */
uint32_t mr_slab_slot_of(const mr_slab *slab, const uint8_t *data, uint64_t *generation);

/* The slab keeps ownership of the descriptor. */
int mr_slab_fd(const mr_slab *slab);
uint32_t mr_slab_slots(const mr_slab *slab);
size_t mr_slab_slot_bytes(const mr_slab *slab);

/* The pool is gone, so no buffer in the slab will be used again. mr_slab_closings counts these calls for all slabs, so
 * that an owner with many need not check each. */
void mr_slab_close(mr_slab *slab);
bool mr_slab_closed(const mr_slab *slab);
uint64_t mr_slab_closings(void);
