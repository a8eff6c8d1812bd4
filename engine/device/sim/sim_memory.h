/* Simulated device memory, and the check for work that touches it. */
#pragma once

#include "engine/device/sim/sim_parts.h"

/* The lock that all simulated devices share (sim_parts.h). */
void mr_sim_lock(void);
void mr_sim_unlock(void);
int mr_sim_allocate(sim_device *self, mr_memory memory, size_t bytes, void **data);
void mr_sim_free(sim_device *self, mr_memory memory, void *data);
void mr_sim_reuse(mr_device *device, void *data);
bool mr_sim_is_pinned(mr_device *device, const void *data);
int mr_sim_host_reads(mr_device *device, const void *data, const mr_stage *stage, const mr_identity *frame);
/* Frees all blocks on the device, which must have no work left. */
void mr_sim_forget_memory(sim_device *self);
/* Records the blocks that the work to be submitted touches, and its engine. MR_ERROR_INTERNAL if it must not touch
 * them. */
int mr_sim_touch_copy(sim_item *item, void *to, ptrdiff_t to_stride, const void *from, ptrdiff_t from_stride,
                      size_t bytes, size_t rows);
int mr_sim_touch_arguments(sim_item *item, const void *arguments, size_t bytes);
/* Whether the work may still be done. */
int mr_sim_check_touched(const sim_item *item);
void mr_sim_untouch(sim_item *item);
/* All device memory that the work touches, one block after the other, which the caller must free; NULL if memory is
 * out. */
uint8_t *mr_sim_keep_touched(const sim_item *item);
/* Flips one bit in a byte that has changed since `before`; false if none has. */
bool mr_sim_corrupt_touched(const sim_item *item, const uint8_t *before);
