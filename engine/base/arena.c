#include "engine/base/arena.h"

#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "millrace/status.h"

enum { BLOCK_BYTES = 64 * 1024, INDEX_START = 8 };

struct mr_arena_block {
    struct mr_arena_block *next;
    size_t used, capacity;
    alignas(max_align_t) unsigned char data[];
};

static struct mr_arena_block *block_add(mr_arena *arena, size_t bytes) {
    size_t capacity = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
    struct mr_arena_block *block = malloc(sizeof *block + capacity);
    if (!block)
        return NULL;
    block->used = 0;
    block->capacity = capacity;
    block->next = arena->block;
    arena->block = block;
    return block;
}

void *mr_arena_alloc(mr_arena *arena, size_t bytes) {
    const size_t align = alignof(max_align_t);
    struct mr_arena_block *block = arena->block;
    if (bytes > SIZE_MAX / 2)
        goto fail;
    bytes = (bytes + align - 1) / align * align;
    if (!block || block->capacity - block->used < bytes)
        block = block_add(arena, bytes);
    if (!block)
        goto fail;
    void *memory = block->data + block->used;
    block->used += bytes;
    return memset(memory, 0, bytes);
fail:
    mr_fail(MR_ERROR_MEMORY, "no memory for %zu bytes of configuration", bytes);
    return NULL;
}

void *mr_arena_array(mr_arena *arena, size_t count, size_t size) {
    if (size > 0 && count > SIZE_MAX / 2 / size) {
        mr_fail(MR_ERROR_MEMORY, "no memory for %zu elements of configuration", count);
        return NULL;
    }
    return mr_arena_alloc(arena, count * size);
}

int mr_arena_grow(mr_arena *arena, void **array, size_t count, size_t *room, size_t size) {
    if (count < *room)
        return MR_OK;
    size_t wanted = *room ? 2 * *room : 16;
    void *wider = mr_arena_array(arena, wanted, size);
    if (!wider)
        return MR_ERROR_MEMORY;
    if (count)
        memcpy(wider, *array, count * size);
    *array = wider;
    *room = wanted;
    return MR_OK;
}

char *mr_arena_text(mr_arena *arena, const char *text, size_t length) {
    char *copy = mr_arena_alloc(arena, length + 1);
    if (copy && length > 0)
        memcpy(copy, text, length);
    return copy;
}

char *mr_arena_vprint(mr_arena *arena, const char *format, va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *text = length < 0 ? NULL : mr_arena_alloc(arena, (size_t)length + 1);
    if (text)
        vsnprintf(text, (size_t)length + 1, format, arguments);
    return text;
}

char *mr_arena_print(mr_arena *arena, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text = mr_arena_vprint(arena, format, arguments);
    va_end(arguments);
    return text;
}

void mr_arena_fini(mr_arena *arena) {
    while (arena->block) {
        struct mr_arena_block *block = arena->block;
        arena->block = block->next;
        free(block);
    }
}

/* FNV-1a, 32 bits (Fowler, Noll, Vo; IETF draft-eastlake-fnv). */
static uint32_t hash_text(const char *text) {
    uint32_t hash = 2166136261u;
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 16777619u;
    return hash;
}

/* The slot that holds `key`, or the free slot for it. There is always a free one. */
static mr_index_slot *slot_of(const mr_index *index, const char *key, uint32_t hash) {
    size_t at = hash & (index->capacity - 1);
    for (;; at = (at + 1) & (index->capacity - 1)) {
        mr_index_slot *slot = &index->slot[at];
        if (!slot->key || (slot->hash == hash && strcmp(slot->key, key) == 0))
            return slot;
    }
}

static int index_grow(mr_index *index, mr_arena *arena) {
    mr_index wider = {.capacity = index->capacity ? index->capacity * 2 : INDEX_START, .count = index->count};
    wider.slot = mr_arena_array(arena, wider.capacity, sizeof *wider.slot);
    if (!wider.slot)
        return MR_ERROR_MEMORY;
    for (size_t i = 0; i < index->capacity; i++)
        if (index->slot[i].key)
            *slot_of(&wider, index->slot[i].key, index->slot[i].hash) = index->slot[i];
    *index = wider;
    return MR_OK;
}

int mr_index_put(mr_index *index, mr_arena *arena, const char *key, void *value) {
    if (index->count * 4 >= index->capacity * 3 && index_grow(index, arena))
        return MR_ERROR_MEMORY;
    uint32_t hash = hash_text(key);
    mr_index_slot *slot = slot_of(index, key, hash);
    if (!slot->key)
        index->count++;
    *slot = (mr_index_slot){.key = key, .value = value, .hash = hash};
    return MR_OK;
}

void *mr_index_get(const mr_index *index, const char *key) {
    return index->capacity ? slot_of(index, key, hash_text(key))->value : NULL;
}
