/* Simulated device memory: the blocks, who owns them, and the check for work that touches them.
 *
 * One table has all blocks of all simulated devices in the process, by address. So every address in a copy or among
 * work arguments can be looked up; other addresses are the host's and are not checked. Freed blocks are kept for a
 * while, so that work with an old address is found. A block that returns to its pool begins a new generation. Work that
 * was submitted in an earlier one and is not done was forgotten by the block's owner.
 *
 * Writers: a copy writes where it copies to. Other work writes each block that it is the first to touch in a
 * generation. That is a call's output. Until another stream touches the block, all its stream's work there counts as
 * writing. Work on every other stream must be ordered after that. */
#include "engine/device/sim/sim_memory.h"

#include <string.h>

#include "engine/base/grow.h"
#include "engine/base/memory.h"
#include "engine/device/sim/sim_misuse.h"
#include "engine/device/sim/sim_order.h"
#include "millrace/status.h"

struct sim_block {
    uint8_t *data;
    size_t bytes;
    sim_device *device;
    mr_memory memory;
    bool freed, shared;
    uint64_t generation;
    size_t pending;   /* pieces that touch it and are not done */
    sim_point writer; /* stream 0: none yet */
    sim_block *next_freed;
};

enum { KEPT_BYTES = 8 << 20, GONE = 0xdd };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sim_block **table; /* by address */
static size_t table_count, table_room;

void mr_sim_lock(void) {
    pthread_mutex_lock(&lock);
}

void mr_sim_unlock(void) {
    pthread_mutex_unlock(&lock);
}

/* ---- the table ------------------------------------------------------------------------------------------------- */

/* How many blocks begin at or before the address. */
static size_t rank(uintptr_t address) {
    size_t low = 0, high = table_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if ((uintptr_t)table[middle]->data <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The block that holds the address; NULL: it is the host's. */
static sim_block *find(const void *address) {
    size_t at = rank((uintptr_t)address);
    sim_block *block = at ? table[at - 1] : NULL;
    return block && (uintptr_t)address - (uintptr_t)block->data < block->bytes ? block : NULL;
}

static bool put(sim_block *block) {
    if (!mr_grow((void **)&table, table_count, &table_room, sizeof(sim_block *)))
        return false;
    size_t at = rank((uintptr_t)block->data);
    memmove(&table[at + 1], &table[at], (table_count - at) * sizeof(sim_block *));
    table[at] = block;
    table_count++;
    return true;
}

static void take_out(const sim_block *block) {
    size_t at = rank((uintptr_t)block->data) - 1;
    memmove(&table[at], &table[at + 1], (--table_count - at) * sizeof(sim_block *));
    if (table_count == 0) {
        mr_free(table);
        table = NULL;
        table_room = 0;
    }
}

static void destroy(sim_block *block) {
    take_out(block);
    mr_free(block->data);
    mr_free(block);
}

/* ---- allocating ------------------------------------------------------------------------------------------------ */

static int refuse(const sim_device *self, size_t bytes, const char *why) {
    return mr_fail(MR_ERROR_MEMORY, "%s: no memory for %zu bytes%s", self->device.name, bytes, why);
}

/* Counts device memory; false if the limit would be passed. */
static bool reserve(sim_device *self, mr_memory memory, size_t bytes) {
    if (memory != MR_MEMORY_DEVICE)
        return true;
    int64_t after = self->allocated_bytes + (int64_t)bytes;
    if (self->params.memory_bytes && after > self->params.memory_bytes)
        return false;
    self->allocated_bytes = after;
    return true;
}

int mr_sim_allocate(sim_device *self, mr_memory memory, size_t bytes, void **data) {
    sim_block *made = mr_calloc(1, sizeof *made);
    size_t room = bytes ? bytes : 1;
    *data = NULL;
    if (!made || !(made->data = mr_alloc_aligned(64, room))) {
        mr_free(made);
        return refuse(self, bytes, "");
    }
    made->bytes = room;
    made->device = self;
    made->memory = memory;
    mr_sim_lock();
    bool fits = reserve(self, memory, room);
    bool done = fits && put(made);
    if (fits && !done && memory == MR_MEMORY_DEVICE)
        self->allocated_bytes -= (int64_t)room;
    mr_sim_unlock();
    if (!done) {
        mr_free(made->data);
        mr_free(made);
        return refuse(self, bytes, fits ? "" : " in what it has");
    }
    *data = made->data;
    return MR_OK;
}

/* Frees the oldest kept blocks until no more are kept than allowed. */
static void forget_oldest(sim_device *self, size_t kept) {
    while (self->freed && self->freed_bytes > kept && !self->freed->pending) {
        sim_block *gone = self->freed;
        self->freed = gone->next_freed;
        self->freed_bytes -= gone->bytes;
        destroy(gone);
    }
}

static void keep_freed(sim_device *self, sim_block *block) {
    block->freed = true;
    block->generation++;
    block->next_freed = NULL;
    if (self->freed)
        self->freed_last->next_freed = block;
    else
        self->freed = block;
    self->freed_last = block;
    self->freed_bytes += block->bytes;
    if (block->memory == MR_MEMORY_DEVICE)
        self->allocated_bytes -= (int64_t)block->bytes;
    if (!block->pending)
        memset(block->data, GONE, block->bytes < KEPT_BYTES ? block->bytes : KEPT_BYTES);
    forget_oldest(self, KEPT_BYTES);
}

void mr_sim_free(sim_device *self, mr_memory memory, void *data) {
    if (!data)
        return;
    mr_sim_lock();
    sim_block *block = find(data);
    bool right = block && block->data == data && block->device == self && block->memory == memory && !block->freed;
    if (right)
        keep_freed(self, block);
    mr_sim_unlock();
    if (!right)
        mr_sim_misuse(&self->device, NULL, &(mr_identity){0}, "it frees memory that is not allocated there");
}

void mr_sim_forget_memory(sim_device *self) {
    mr_sim_lock();
    for (size_t i = table_count; i-- > 0;)
        if (table[i]->device == self)
            destroy(table[i]);
    mr_sim_unlock();
}

void mr_sim_reuse(mr_device *device, void *data) {
    mr_sim_lock();
    sim_block *block = find(data);
    if (block) {
        block->generation++;
        block->writer = (sim_point){0};
        block->shared = false;
    }
    mr_sim_unlock();
}

/* ---- touching -------------------------------------------------------------------------------------------------- */

typedef enum access { READS, WRITES, WORKS } access;

/* Whether the launch that the item is part of has the block's bytes already; from now on it has. */
static bool is_counted(const sim_item *item, const sim_block *block) {
    sim_stream *stream = item->stream;
    for (size_t i = 0; i < stream->counted_count && i < SIM_COUNTED; i++)
        if (stream->counted[i] == block)
            return true;
    stream->counted[stream->counted_count++ % SIM_COUNTED] = block;
    return false;
}

static void hold(sim_item *item, sim_block *block) {
    for (size_t i = 0; i < item->touch_count; i++)
        if (item->touch[i].block == block)
            return;
    item->touch[item->touch_count++] = (sim_touch){block, block->generation};
    item->touched_bytes += is_counted(item, block) ? 0 : block->bytes;
    block->pending++;
}

/* Why the item must not touch the block, as far as is known when it is submitted; NULL if it may. */
static const char *objection(const sim_item *item, const sim_block *block, access how) {
    const mr_device *device = item->stream->stream.device;
    bool elsewhere = block->memory == MR_MEMORY_DEVICE && &block->device->device != device;
    if (block->freed)
        return "it touches memory that was freed";
    if (elsewhere && how == WRITES)
        return "it writes to memory of another device";
    if (elsewhere && how == WORKS)
        return "it works on memory of another device";
    if (block->writer.stream && !mr_sim_order_covers(item->stream, block->writer))
        return how == WRITES ? "it writes memory that other work writes, without waiting for that work"
                             : "it reads memory before the event of the work that writes it";
    return NULL;
}

static void note_access(const sim_item *item, sim_block *block, access how) {
    const sim_point now = {item->stream->id, item->stream->submitted + 1};
    bool first = block->writer.stream == 0;
    bool mine = block->writer.stream == now.stream;
    if (how == WRITES || (how == WORKS && block->memory == MR_MEMORY_DEVICE && (first || (mine && !block->shared))))
        block->writer = now;
    else if (!first && !mine)
        block->shared = true;
    if (how == WRITES)
        block->shared = false;
}

static const char *touch(sim_item *item, sim_block *block, access how) {
    const char *wrong = objection(item, block, how);
    if (!wrong) {
        note_access(item, block, how);
        hold(item, block);
    }
    return wrong;
}

static int answer(sim_item *item, const char *wrong) {
    if (!wrong)
        return MR_OK;
    mr_sim_untouch(item);
    return mr_sim_misuse(item->stream->stream.device, item->stage, &item->frame, wrong);
}

/* The bytes from the first to the last byte in several rows. */
typedef struct range {
    const uint8_t *begin, *end;
} range;

static range range_of(const void *data, ptrdiff_t stride, size_t bytes, size_t rows) {
    const uint8_t *first = data, *last = first + (ptrdiff_t)(rows - 1) * stride;
    return stride < 0 ? (range){last, first + bytes} : (range){first, last + bytes};
}

static const char *touch_range(sim_item *item, range r, access how, sim_block **block) {
    *block = find(r.begin);
    if (!*block)
        return find(r.end - 1) ? "it copies from before the start of a buffer" : NULL;
    if ((size_t)(r.end - (*block)->data) > (*block)->bytes)
        return how == WRITES ? "it copies to beyond the end of a buffer"
                             : "it copies from beyond the end of a buffer";
    return touch(item, *block, how);
}

static mr_engine engine_of(const sim_item *item, const sim_block *to, const sim_block *from, bool zeros) {
    const mr_device *device = item->stream->stream.device;
    bool to_device = to && to->memory == MR_MEMORY_DEVICE;
    bool from_own = from && from->memory == MR_MEMORY_DEVICE && &from->device->device == device;
    if (to_device && !from_own && !zeros)
        return MR_ENGINE_UPLOAD;
    return from_own && !to_device ? MR_ENGINE_DOWNLOAD : MR_ENGINE_COMPUTE;
}

int mr_sim_touch_copy(sim_item *item, void *to, ptrdiff_t to_stride, const void *from, ptrdiff_t from_stride,
                      size_t bytes, size_t rows) {
    sim_block *source = NULL, *target = NULL;
    const char *wrong = NULL;
    mr_sim_lock();
    item->stream->counted_count = 0;
    if (from)
        wrong = touch_range(item, range_of(from, from_stride, bytes, rows), READS, &source);
    if (!wrong)
        wrong = touch_range(item, range_of(to, to_stride, bytes, rows), WRITES, &target);
    item->engine = engine_of(item, target, source, !from);
    item->copied_bytes = bytes * rows;
    mr_sim_unlock();
    return answer(item, wrong);
}

int mr_sim_touch_arguments(sim_item *item, const void *arguments, size_t bytes) {
    const char *wrong = NULL;
    item->engine = MR_ENGINE_COMPUTE;
    mr_sim_lock();
    if (!item->joined)
        item->stream->counted_count = 0;
    for (size_t at = 0; at + sizeof(void *) <= bytes && !wrong; at += sizeof(void *)) {
        void *word;
        memcpy(&word, (const char *)arguments + at, sizeof word);
        sim_block *block = find(word);
        if (block)
            wrong = touch(item, block, WORKS);
    }
    mr_sim_unlock();
    return answer(item, wrong);
}

void mr_sim_untouch(sim_item *item) {
    mr_sim_lock();
    while (item->touch_count)
        item->touch[--item->touch_count].block->pending--;
    mr_sim_unlock();
}

int mr_sim_check_touched(const sim_item *item) {
    const char *wrong = NULL;
    mr_sim_lock();
    for (size_t i = 0; i < item->touch_count && !wrong; i++) {
        const sim_touch *held = &item->touch[i];
        if (held->block->freed)
            wrong = "memory was freed before the work on it was done";
        else if (held->block->generation != held->generation)
            wrong = "a buffer was reused before the work on it was done";
    }
    mr_sim_unlock();
    return wrong ? mr_sim_misuse(item->stream->stream.device, item->stage, &item->frame, wrong) : MR_OK;
}

bool mr_sim_is_pinned(mr_device *device, const void *data) {
    mr_sim_lock();
    const sim_block *block = find(data);
    bool pinned = block && block->memory == MR_MEMORY_PINNED && !block->freed;
    mr_sim_unlock();
    return pinned;
}

int mr_sim_host_reads(mr_device *device, const void *data, const mr_stage *stage, const mr_identity *frame) {
    const char *wrong = NULL;
    mr_sim_lock();
    const sim_block *block = find(data);
    if (block && block->memory == MR_MEMORY_DEVICE)
        wrong = "the host reads memory of the device";
    else if (block && block->writer.stream && !mr_sim_order_done(block->writer))
        wrong = "the host reads memory before the event of the work that writes it";
    mr_sim_unlock();
    return wrong ? mr_sim_misuse(device, stage, frame, wrong) : MR_OK;
}

/* ---- being wrong ------------------------------------------------------------------------------------------------- */

static bool is_output(const sim_block *block) {
    return block->memory == MR_MEMORY_DEVICE && !block->freed;
}

uint8_t *mr_sim_keep_touched(const sim_item *item) {
    size_t bytes = 1;
    for (size_t i = 0; i < item->touch_count; i++)
        bytes += is_output(item->touch[i].block) ? item->touch[i].block->bytes : 0;
    uint8_t *kept = mr_alloc(bytes), *to = kept;
    for (size_t i = 0; kept && i < item->touch_count; i++) {
        const sim_block *block = item->touch[i].block;
        if (!is_output(block))
            continue;
        memcpy(to, block->data, block->bytes);
        to += block->bytes;
    }
    return kept;
}

bool mr_sim_corrupt_touched(const sim_item *item, const uint8_t *before) {
    for (size_t i = 0; i < item->touch_count; i++) {
        const sim_block *block = item->touch[i].block;
        if (!is_output(block))
            continue;
        for (size_t at = 0; at + 4 <= block->bytes; at++)
            if (block->data[at] != before[at]) {
                block->data[at / 4 * 4 + 2] ^= 0x40;
                return true;
            }
        before += block->bytes;
    }
    return false;
}
