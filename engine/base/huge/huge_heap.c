#include "engine/base/huge/huge_heap.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "engine/base/file.h"

/* Stands before a block's memory. Neighbours are blocks of the same region; the list is that of free blocks. */
typedef struct mr_huge_block {
    alignas(64) size_t bytes; /* with this header */
    struct mr_huge_block *before, *after;
    struct mr_huge_block *previous, *next;
    bool vacant;
} block;

_Static_assert(sizeof(block) == 64, "memory after a header is aligned");

bool mr_huge_pages_given(void) {
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__ || !defined MADV_HUGEPAGE
    return false;
#else
    char modes[64], bytes[32];
    mr_file_head(modes, sizeof modes, "/sys/kernel/mm/transparent_hugepage/enabled");
    mr_file_head(bytes, sizeof bytes, "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size");
    return mr_huge_pages_fit(modes, bytes);
#endif
}

bool mr_huge_pages_fit(const char *modes, const char *bytes) {
    return (strstr(modes, "[madvise]") || strstr(modes, "[always]")) && strtoull(bytes, NULL, 10) <= MR_HUGE_PAGE;
}

/* ---- free blocks ----------------------------------------------------------------------------------------------- */

static void list(mr_huge_heap *heap, block *b) {
    b->vacant = true;
    b->previous = NULL;
    b->next = heap->vacant;
    if (b->next)
        b->next->previous = b;
    heap->vacant = b;
}

static void unlist(mr_huge_heap *heap, block *b) {
    b->vacant = false;
    if (b->next)
        b->next->previous = b->previous;
    *(b->previous ? &b->previous->next : &heap->vacant) = b->next;
}

/* The smallest free block that is large enough. */
static block *find(const mr_huge_heap *heap, size_t bytes) {
    block *best = NULL;
    for (block *b = heap->vacant; b; b = b->next)
        if (b->bytes >= bytes && (!best || b->bytes < best->bytes))
            best = b;
    return best;
}

/* Makes the rest after `bytes` a free block. */
static void split(mr_huge_heap *heap, block *b, size_t bytes) {
    if (b->bytes - bytes < 2 * sizeof(block))
        return;
    block *rest = (block *)(void *)((uint8_t *)b + bytes);
    *rest = (block){.bytes = b->bytes - bytes, .before = b, .after = b->after};
    if (rest->after)
        rest->after->before = rest;
    b->after = rest;
    b->bytes = bytes;
    list(heap, rest);
}

/* Appends the block after `b`, which is not listed. */
static void absorb(block *b) {
    b->bytes += b->after->bytes;
    b->after = b->after->after;
    if (b->after)
        b->after->before = b;
}

/* ---- regions --------------------------------------------------------------------------------------------------- */

/* Returns empty regions until the heap has at most `most` bytes. */
static void shrink(mr_huge_heap *heap, size_t most) {
    for (block *b = heap->vacant, *next; b && heap->mapped > most; b = next) {
        next = b->next;
        if (b->before || b->after)
            continue;
        unlist(heap, b);
        heap->mapped -= b->bytes;
        munmap(b, b->bytes);
    }
}

/* Returns the whole pages in a free block, after its header. They are mapped still, and zero when next used. */
static void empty(block *b) {
    const uintptr_t first = ((uintptr_t)(b + 1) + MR_HUGE_PAGE - 1) / MR_HUGE_PAGE * MR_HUGE_PAGE;
    const uintptr_t end = ((uintptr_t)b + b->bytes) / MR_HUGE_PAGE * MR_HUGE_PAGE;
    if (first < end)
        madvise((void *)first, end - first, MADV_DONTNEED);
}

/* A region of `size` bytes with one block, which is not listed. The kernel places a mapping anywhere. So a page more is
 * mapped, and the parts outside whole pages are returned. */
static block *map(mr_huge_heap *heap, size_t size) {
    uint8_t *memory = mmap(NULL, size + MR_HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    const size_t head = -(uintptr_t)memory % MR_HUGE_PAGE;
    if (head)
        munmap(memory, head);
    munmap(memory + head + size, MR_HUGE_PAGE - head);
    block *made = (block *)(void *)(memory + head);
#ifdef MADV_HUGEPAGE
    madvise(made, size, MADV_HUGEPAGE);
#endif
    *made = (block){.bytes = size};
    heap->mapped += size;
    return made;
}

/* If there is no room for a region of the usual size, one that just fits may do. */
static block *grow(mr_huge_heap *heap, size_t bytes) {
    const size_t size = (bytes + MR_HUGE_PAGE - 1) / MR_HUGE_PAGE * MR_HUGE_PAGE;
    const size_t most = heap->most > heap->in_use + bytes ? heap->most : heap->in_use + bytes;
    shrink(heap, most > size ? most - size : 0);
    block *made = size < heap->region ? map(heap, heap->region) : NULL;
    return made ? made : map(heap, size);
}

/* ---- the heap -------------------------------------------------------------------------------------------------- */

void *mr_huge_alloc(mr_huge_heap *heap, size_t bytes) {
    if (bytes > SIZE_MAX / 2)
        return NULL;
    bytes = (bytes + 63) / 64 * 64 + sizeof(block);
    pthread_mutex_lock(&heap->lock);
    block *b = find(heap, bytes);
    if (b)
        unlist(heap, b);
    else
        b = grow(heap, bytes);
    if (b) {
        split(heap, b, bytes);
        heap->in_use += b->bytes;
        heap->most = heap->most > heap->in_use ? heap->most : heap->in_use;
    }
    pthread_mutex_unlock(&heap->lock);
    return b ? b + 1 : NULL;
}

void mr_huge_free(mr_huge_heap *heap, void *memory) {
    if (!memory)
        return;
    block *b = (block *)memory - 1;
    pthread_mutex_lock(&heap->lock);
    heap->in_use -= b->bytes;
    if (b->after && b->after->vacant) {
        unlist(heap, b->after);
        absorb(b);
    }
    if (b->before && b->before->vacant) {
        b = b->before;
        unlist(heap, b);
        absorb(b);
    }
    list(heap, b);
    pthread_mutex_unlock(&heap->lock);
}

void mr_huge_trim(mr_huge_heap *heap) {
    pthread_mutex_lock(&heap->lock);
    shrink(heap, 0);
    for (block *b = heap->vacant; b; b = b->next)
        empty(b);
    heap->most = heap->in_use;
    pthread_mutex_unlock(&heap->lock);
}
