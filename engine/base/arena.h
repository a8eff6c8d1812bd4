/* Memory of the configuration: one arena a pipeline, freed at once, and a map from strings to pointers that lives in
 * it.
 *
 * Everything read from YAML (nodes, strings, filled options, plans) is small and lives equally long, so nothing is
 * freed by itself. One thread at a time. Functions answer NULL or MR_ERROR_MEMORY if memory is out, with
 * mr_message set. */
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

struct mr_arena_block;

/* All zero is an empty arena. */
typedef struct mr_arena {
    struct mr_arena_block *block; /* newest first */
} mr_arena;

/* Zeroed memory, aligned for anything. */
void *mr_arena_alloc(mr_arena *arena, size_t bytes);
/* `count` elements with `size` bytes each. NULL also if that overflows. */
void *mr_arena_array(mr_arena *arena, size_t count, size_t size);
/* Makes room for one more element in an array of the arena that has `count` of them. MR_ERROR_MEMORY. */
int mr_arena_grow(mr_arena *arena, void **array, size_t count, size_t *room, size_t size);
/* `length` text bytes and a zero. */
char *mr_arena_text(mr_arena *arena, const char *text, size_t length);
char *mr_arena_print(mr_arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *mr_arena_vprint(mr_arena *arena, const char *format, va_list arguments) __attribute__((format(printf, 2, 0)));
void mr_arena_fini(mr_arena *arena);

typedef struct mr_index_slot {
    const char *key;
    void *value;
    uint32_t hash;
} mr_index_slot;

/* Strings to pointers, by hashing. All zero is an empty index. Keys are borrowed and must live in the same arena, or
 * longer. */
typedef struct mr_index {
    size_t count, capacity;
    mr_index_slot *slot;
} mr_index;

/* Adds a key, or replaces the value. */
int mr_index_put(mr_index *index, mr_arena *arena, const char *key, void *value);
/* NULL if the key is not there. */
void *mr_index_get(const mr_index *index, const char *key);
