#include "engine/data/store.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/base/references.h"
#include "engine/base/thread.h"
#include "engine/device/device.h"
#include "millrace/status.h"

enum { MOST_PINNING = 8 };

/* A free result keeps at most this much memory for items. */
static const size_t MOST_KEPT_ITEMS = 1 << 20;

struct mr_store {
    mr_device *pinning[MOST_PINNING]; /* results use these devices' pinned memory; NULL: any memory */
    pthread_mutex_t lock;
    mr_frame *frames;   /* free ones */
    mr_result *results; /* free ones */
    size_t out;         /* frames and results in use */
    bool released;
};

int mr_store_create(mr_store **store) {
    mr_store *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a frame store");
    mr_lock_init(&made->lock);
    *store = made;
    return MR_OK;
}

void mr_store_pin(mr_store *store, mr_device *device) {
    assert(store->pinning[0] || !store->results);
    for (int i = 0; i < MOST_PINNING && store->pinning[i] != device; i++)
        if (!store->pinning[i]) {
            store->pinning[i] = mr_device_ref(device);
            return;
        }
}

/* ---- room of results ------------------------------------------------------------------------------------------- */

/* The header before a result's memory. */
typedef union head {
    mr_device *device; /* the device that pinned it; NULL: none */
    char unit[64];
} head;

static void free_room(void *data) {
    if (!data)
        return;
    head *room = (head *)data - 1;
    if (room->device)
        mr_device_free(room->device, MR_MEMORY_PINNED, room);
    else
        mr_free(room);
}

/* Takes memory from the first working device. If all have failed, none writes any more, and plain memory will do. NULL:
 * there is no memory. */
static void *take_room(mr_store *store, size_t capacity) {
    size_t bytes = sizeof(head) + capacity;
    mr_device *from = NULL;
    void *taken = NULL;
    bool working = false;
    for (int i = 0; i < MOST_PINNING && store->pinning[i] && !taken; i++) {
        from = store->pinning[i];
        working |= mr_device_allocate(from, MR_MEMORY_PINNED, bytes, &taken) != MR_ERROR_DEVICE;
    }
    if (!taken && !working) {
        from = NULL;
        taken = mr_alloc_aligned(sizeof(head), bytes);
    }
    head *room = taken;
    if (!room)
        return NULL;
    room->device = from;
    return room + 1;
}

/* A free result has no contents to preserve. */
static bool grow_room(mr_store *store, mr_result *result, size_t capacity) {
    if (capacity <= result->capacity)
        return true;
    void *room = take_room(store, capacity);
    if (!room)
        return false;
    free_room(result->room);
    result->room = room;
    result->capacity = capacity;
    return true;
}

/* ---- frames and results ---------------------------------------------------------------------------------------- */

static void destroy(mr_store *store) {
    while (store->frames) {
        mr_frame *frame = store->frames;
        store->frames = frame->next;
        mr_free(frame);
    }
    while (store->results) {
        mr_result *result = store->results;
        store->results = result->next;
        free_room(result->room);
        mr_free(result->items);
        mr_free(result);
    }
    for (int i = 0; i < MOST_PINNING && store->pinning[i]; i++)
        mr_device_destroy(&store->pinning[i]);
    pthread_mutex_destroy(&store->lock);
    mr_free(store);
}

void mr_store_release(mr_store **store) {
    if (!*store)
        return;
    pthread_mutex_lock(&(*store)->lock);
    (*store)->released = true;
    bool last = (*store)->out == 0;
    pthread_mutex_unlock(&(*store)->lock);
    if (last)
        destroy(*store);
    *store = NULL;
}

/* Counts one piece as returned, and unlocks. The last one destroys a released store. */
static void count_back(mr_store *store) {
    bool last = --store->out == 0 && store->released;
    pthread_mutex_unlock(&store->lock);
    if (last)
        destroy(store);
}

int mr_store_frame(mr_store *store, mr_frame **frame) {
    pthread_mutex_lock(&store->lock);
    mr_frame *taken = store->frames;
    if (taken)
        store->frames = taken->next;
    store->out++;
    pthread_mutex_unlock(&store->lock);
    if (!taken && !(taken = mr_alloc(sizeof *taken))) {
        pthread_mutex_lock(&store->lock);
        count_back(store);
        return mr_fail(MR_ERROR_MEMORY, "no memory for a frame");
    }
    memset(taken, 0, sizeof *taken);
    mr_references_begin(&taken->references);
    taken->pts_ns = taken->dts_ns = MR_NO_TIME;
    taken->store = store;
    *frame = taken;
    return MR_OK;
}

int mr_store_copy(mr_store *store, const mr_frame *from, mr_frame **frame) {
    mr_frame *made = NULL;
    int status = mr_store_frame(store, &made);
    if (status)
        return status;
    memcpy(made, from, offsetof(mr_frame, receipt)); /* the private rest is the frame's own */
    for (int i = 0; i < MR_MAX_PLANES; i++)
        if (made->plane[i].buffer)
            mr_buffer_ref(made->plane[i].buffer);
    if (made->names)
        mr_buffer_ref(made->names);
    if (made->media)
        mr_media_ref(made->media);
    if (made->results)
        mr_result_ref(made->results);
    if (made->ready)
        mr_event_ref(made->ready);
    *frame = made;
    return MR_OK;
}

int mr_store_result(mr_store *store, const mr_result_kind *kind, size_t capacity, mr_result **result) {
    const size_t bytes = capacity * (kind->fields ? kind->element_bytes : 1);
    pthread_mutex_lock(&store->lock);
    mr_result *taken = store->results;
    if (taken)
        store->results = taken->next;
    store->out++;
    pthread_mutex_unlock(&store->lock);
    if (!taken)
        taken = mr_calloc(1, sizeof *taken);
    if (!taken || !grow_room(store, taken, bytes)) {
        pthread_mutex_lock(&store->lock);
        if (taken) {
            taken->next = store->results;
            store->results = taken;
        }
        count_back(store);
        return mr_fail(MR_ERROR_MEMORY, "no memory for a result of %zu bytes", bytes);
    }
    *taken = (mr_result){
        .kind = kind, .data = taken->room, .room = taken->room, .capacity = taken->capacity, .items = taken->items,
        .items_room = taken->items_room, .store = store};
    mr_references_begin(&taken->references);
    *result = taken;
    return MR_OK;
}

void mr_store_take_frame(mr_store *store, mr_frame *frame) {
    pthread_mutex_lock(&store->lock);
    frame->next = store->frames;
    store->frames = frame;
    count_back(store);
}

static void take_result(mr_store *store, mr_result *result) {
    if (result->items_room > MOST_KEPT_ITEMS) {
        mr_free(result->items);
        result->items = NULL;
        result->items_room = 0;
    }
    pthread_mutex_lock(&store->lock);
    result->next = store->results;
    store->results = result;
    count_back(store);
}

mr_result *mr_result_ref(mr_result *result) {
    mr_references_take(&result->references);
    return result;
}

void mr_result_unref(mr_result **result) {
    mr_result *next = *result;
    *result = NULL;
    while (next && mr_references_drop(&next->references)) {
        mr_result *gone = next;
        next = gone->next;
        mr_buffer_unref(&gone->buffer);
        take_result(gone->store, gone);
    }
}
