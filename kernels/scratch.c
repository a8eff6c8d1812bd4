#include "kernels/scratch.h"

#include <pthread.h>

#include "engine/base/memory.h"

/* The block begins with the size; the callers' memory starts after that. */
enum { HEAD_BYTES = 64 };

static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int key_status;

static void make_key(void) {
    key_status = pthread_key_create(&key, mr_free);
}

void *mr_scratch(size_t bytes) {
    pthread_once(&once, make_key);
    if (key_status != 0)
        return NULL;
    char *block = pthread_getspecific(key);
    if (block && *(size_t *)(void *)block >= bytes)
        return block + HEAD_BYTES;
    size_t room = (bytes + 4095) / 4096 * 4096;
    char *larger = mr_alloc_aligned(64, room + HEAD_BYTES);
    if (!larger || pthread_setspecific(key, larger) != 0) {
        mr_free(larger);
        return NULL;
    }
    mr_free(block);
    *(size_t *)(void *)larger = room;
    return larger + HEAD_BYTES;
}
