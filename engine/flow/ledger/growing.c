#include "engine/flow/ledger/growing.h"

#include <stdatomic.h>
#include <stdint.h>

#include "engine/base/memory.h"

static unsigned chunk_of(size_t index) {
    return index < MR_GROWING_FIRST ? 0 : 64 - (unsigned)__builtin_clzll(index / MR_GROWING_FIRST);
}

static size_t begin_of(unsigned chunk) {
    return chunk ? (size_t)MR_GROWING_FIRST << (chunk - 1) : 0;
}

static void *load(const mr_growing *array, unsigned chunk) {
    return atomic_load_explicit(&array->chunk[chunk], memory_order_acquire);
}

void *mr_growing_at(const mr_growing *array, size_t item_bytes, size_t index) {
    if (index >= MR_GROWING_MOST)
        return NULL;
    const unsigned chunk = chunk_of(index);
    char *items = load(array, chunk);
    return items ? items + (index - begin_of(chunk)) * item_bytes : NULL;
}

void *mr_growing_make(mr_growing *array, size_t item_bytes, size_t index) {
    void *item = mr_growing_at(array, item_bytes, index);
    if (item || index >= MR_GROWING_MOST)
        return item;
    const unsigned chunk = chunk_of(index);
    void *made = mr_calloc(chunk ? begin_of(chunk) : MR_GROWING_FIRST, item_bytes), *none = NULL;
    /* Another thread may have been faster. */
    if (made && !atomic_compare_exchange_strong_explicit(&array->chunk[chunk], &none, made, memory_order_acq_rel,
                                                         memory_order_acquire))
        mr_free(made);
    return mr_growing_at(array, item_bytes, index);
}

size_t mr_growing_next(const mr_growing *array, size_t index) {
    for (unsigned chunk = chunk_of(index); index < MR_GROWING_MOST; index = begin_of(++chunk))
        if (load(array, chunk))
            return index;
    return MR_GROWING_MOST;
}

void mr_growing_fini(mr_growing *array) {
    for (int i = 0; i < MR_GROWING_CHUNKS; i++)
        mr_free(atomic_exchange(&array->chunk[i], NULL));
}
