#include <stdalign.h>
#include <stdint.h>

#include "engine/base/memory.h"
#include "engine/transport/wire/wire_arena.h"
#include "millrace/status.h"

static arena_block *new_block(size_t bytes) {
    arena_block *block = mr_alloc(sizeof *block + bytes);
    if (block)
        *block = (arena_block){.bytes = bytes};
    return block;
}

void *mr_wire_arena_give(wire_arena *arena, size_t bytes) {
    if (bytes > arena->limit - arena->given)
        return NULL;
    size_t rounded = (bytes + 15) & ~(size_t)15;
    arena_block *block = arena->blocks;
    if (!block || block->bytes - block->used < rounded + 16) {
        size_t room = block ? 2 * block->bytes : 16384;
        arena_block *more = new_block(room > rounded + 32 ? room : rounded + 32);
        if (!more)
            return NULL;
        more->next = block;
        arena->blocks = block = more;
    }
    uintptr_t at = ((uintptr_t)(block + 1) + block->used + 15) & ~(uintptr_t)15;
    block->used = at - (uintptr_t)(block + 1) + rounded;
    arena->given += bytes;
    return (void *)at;
}

void *mr_wire_arena_array(wire_arena *arena, size_t count, size_t bytes) {
    size_t all;
    return __builtin_mul_overflow(count, bytes, &all) ? NULL : mr_wire_arena_give(arena, all);
}

/* Unusually large memory is not kept for the next message. */
enum { KEPT_BYTES = 4 << 20 };

/* Keeps one block, the newest, which is as large as the others together. */
void mr_wire_arena_reset(wire_arena *arena, size_t limit) {
    arena_block *block = arena->blocks;
    while (block && block->next) {
        arena_block *gone = block->next;
        block->next = gone->next;
        mr_free(gone);
    }
    if (block && block->bytes > KEPT_BYTES) {
        mr_free(block);
        arena->blocks = block = NULL;
    }
    if (block)
        block->used = 0;
    arena->given = 0;
    arena->limit = limit;
}

void mr_wire_arena_fini(wire_arena *arena) {
    mr_wire_arena_reset(arena, 0);
    mr_free(arena->blocks);
    arena->blocks = NULL;
}

static void *allocate(void *data, size_t bytes) {
    return mr_wire_arena_give(data, bytes);
}

static void release(void *data, void *pointer) {
}

int mr_wire_new_buffer(size_t bytes, mr_buffer **buffer) {
    *buffer = mr_buffer_alloc(bytes);
    return *buffer ? MR_OK : MR_ERROR_MEMORY;
}

ProtobufCAllocator mr_wire_allocator(wire_arena *arena) {
    return (ProtobufCAllocator){.alloc = allocate, .free = release, .allocator_data = arena};
}
