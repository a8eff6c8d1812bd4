/* Reference-counted blocks: pool buffers, wrappers around foreign memory, and the media that frames refer to. */
#include <pthread.h>

#include "engine/base/references.h"
#include "engine/data/pool.h"
#include "engine/device/pixel_memory.h"
#include "millrace/frame.h"
#include "millrace/status.h"

/* Unused wrappers, kept so that wrapping a decoder's picture need not allocate. */
static pthread_mutex_t wrappers_lock = PTHREAD_MUTEX_INITIALIZER;
static mr_buffer *wrappers;

mr_buffer *mr_buffer_ref(mr_buffer *buffer) {
    mr_references_take(&buffer->references);
    return buffer;
}

static void unwrap(mr_buffer *buffer) {
    if (buffer->release)
        buffer->release(buffer->context);
    pthread_mutex_lock(&wrappers_lock);
    buffer->next = wrappers;
    wrappers = buffer;
    pthread_mutex_unlock(&wrappers_lock);
}

void mr_buffer_unref(mr_buffer **buffer) {
    mr_buffer *gone = *buffer;
    *buffer = NULL;
    if (!gone || !mr_references_drop(&gone->references))
        return;
    if (gone->pool)
        mr_pool_take_back(gone->pool, gone);
    else
        unwrap(gone);
}

mr_buffer *mr_buffer_wrap(void *data, size_t bytes, void (*release)(void *context), void *context) {
    pthread_mutex_lock(&wrappers_lock);
    mr_buffer *buffer = wrappers;
    if (buffer)
        wrappers = buffer->next;
    pthread_mutex_unlock(&wrappers_lock);
    if (!buffer && !(buffer = mr_alloc(sizeof *buffer)))
        return NULL;
    *buffer = (mr_buffer){
        .data = data, .bytes = bytes, .memory = MR_MEMORY_HOST, .release = release, .context = context};
    mr_references_begin(&buffer->references);
    return buffer;
}

mr_buffer *mr_buffer_alloc(size_t bytes) {
    void *data = mr_alloc_pixels(bytes);
    mr_buffer *buffer = data ? mr_buffer_wrap(data, bytes, mr_free, data) : NULL;
    if (buffer)
        return buffer;
    mr_free(data);
    mr_fail(MR_ERROR_MEMORY, "no memory for a buffer of %zu bytes", bytes);
    return NULL;
}

mr_media *mr_media_ref(mr_media *media) {
    mr_references_take(&media->references);
    return media;
}

void mr_media_unref(mr_media **media) {
    mr_media *gone = *media;
    *media = NULL;
    if (gone && mr_references_drop(&gone->references))
        gone->release(gone);
}
