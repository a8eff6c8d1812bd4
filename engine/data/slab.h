/* Slabs: the memory of pools of kind MR_MEMORY_SHARED. A slab is a memfd with slots of one size that this process
 * writes and others may map for reading (engine/transport/shm/shm.h).
 *
 * The file begins with one generation per slot, 64 bits each, which rises whenever the slot is about to be filled anew.
 * The slots follow, 64-byte aligned. The size never changes and no other process can write to it: seals ensure that,
 * and readers check them. Pages are allocated when slots are first used; a lack of them is an error then and not a
 * signal later.
 *
 * A slab lives as long as there are references to it. Any thread. */
#ifndef MILLRACE_DATA_SLAB_H
#define MILLRACE_DATA_SLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mr_slab mr_slab;

enum { MR_SLAB_SLOTS = 1 << 20 }; /* most slots of one slab */

/* How `slots` slots of `slot_bytes` lie in the file. */
typedef struct mr_slab_layout {
    size_t first;  /* bytes before slot 0 */
    size_t stride; /* bytes from slot to slot */
    size_t total;  /* bytes of the file */
} mr_slab_layout;
/* False if there can be no such slab: no slots, too many, or more bytes than can be counted. */
bool mr_slab_lay_out(size_t slot_bytes, uint64_t slots, mr_slab_layout *layout);

/* A memfd of that size that may be sealed; the descriptor is the caller's. MR_ERROR_UNAVAILABLE, with the reason, if
 * the system or a limit of the process forbids it. */
int mr_slab_open_file(const char *name, size_t bytes, int *fd);

/* As mr_slab_open_file. */
int mr_slab_create(mr_slab **slab, size_t slot_bytes, uint32_t slots);
mr_slab *mr_slab_ref(mr_slab *slab);
void mr_slab_unref(mr_slab **slab);

/* A slot that was not used before, with memory behind it. MR_ERROR_MEMORY: there is none left. */
int mr_slab_take_slot(mr_slab *slab, void **data);
/* The slot at `data` is about to be filled anew: references to its old contents become invalid. */
void mr_slab_renew(mr_slab *slab, const uint8_t *data);
/* Which slot lies at `data`, and its generation. */
uint32_t mr_slab_slot_of(const mr_slab *slab, const uint8_t *data, uint64_t *generation);

/* The descriptor stays the slab's. */
int mr_slab_fd(const mr_slab *slab);
uint32_t mr_slab_slots(const mr_slab *slab);
size_t mr_slab_slot_bytes(const mr_slab *slab);

/* The pool is gone: no buffer in the slab will be used again. mr_slab_closings counts these calls over all slabs, so
 * that the owner of many slabs need not check each. */
void mr_slab_close(mr_slab *slab);
bool mr_slab_closed(const mr_slab *slab);
uint64_t mr_slab_closings(void);

#endif
