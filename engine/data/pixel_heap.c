#include "engine/data/pixel_heap.h"

#include <pthread.h>
#include <stdbool.h>

#include "engine/base/huge/huge_heap.h"
#include "engine/device/pixel_memory.h"

enum { REGION_BYTES = 16 << 20 };

static mr_huge_heap heap = {.lock = PTHREAD_MUTEX_INITIALIZER, .region = REGION_BYTES};
static bool given;

static void ask(void) {
    given = mr_huge_pages_given();
}

/* The same for every call with these bytes, so that memory returns to where it came from. */
static bool is_huge(size_t bytes) {
    static pthread_once_t asked = PTHREAD_ONCE_INIT;
    pthread_once(&asked, ask);
    return given && bytes >= MR_PIXEL_HEAP_LEAST && bytes <= SIZE_MAX - MR_SLACK_BYTES;
}

void *mr_pixel_heap_take(size_t bytes) {
    return is_huge(bytes) ? mr_huge_alloc(&heap, bytes + MR_SLACK_BYTES) : mr_alloc_pixels(bytes);
}

void mr_pixel_heap_give(void *data, size_t bytes) {
    if (is_huge(bytes))
        mr_huge_free(&heap, data);
    else
        mr_free(data);
}

void mr_pixel_heap_trim(void) {
    mr_huge_trim(&heap);
}
