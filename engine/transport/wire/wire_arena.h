/* Memory for one message: allocated piece by piece, freed all at once. It keeps as much as it ever needed. */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "millrace/frame.h"

typedef struct arena_block {
    struct arena_block *next;
    size_t bytes, used;
} arena_block;

typedef struct wire_arena {
    arena_block *blocks; /* the one in use first */
    size_t given, limit; /* this message's bytes */
} wire_arena;

/* Aligned to 16, not cleared. NULL: no memory, or more than the limit. */
void *mr_wire_arena_give(wire_arena *arena, size_t bytes);
void mr_wire_arena_reset(wire_arena *arena, size_t limit);
void mr_wire_arena_fini(wire_arena *arena);

/* An array with `count` elements of a type, not cleared. */
#define WIRE_NEW(arena, type, count) ((type *)mr_wire_arena_array(arena, (count), sizeof(type)))
void *mr_wire_arena_array(wire_arena *arena, size_t count, size_t bytes);
ProtobufCAllocator mr_wire_allocator(wire_arena *arena);

/* A buffer of plain memory, not cleared; with 0 bytes it has an address, too. MR_ERROR_MEMORY. */
int mr_wire_new_buffer(size_t bytes, mr_buffer **buffer);
