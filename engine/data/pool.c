#include "engine/data/pool.h"

#include <pthread.h>
#include <stdbool.h>

#include "engine/base/log.h"
#include "engine/base/memory.h"
#include "engine/base/references.h"
#include "engine/base/thread.h"
#include "engine/data/slab.h"
#include "engine/device/device.h"
#include "millrace/status.h"

typedef struct waiter {
    mr_pool_function *function;
    void *context;
    int free_count;
} waiter;

struct mr_pool {
    pthread_mutex_t lock;
    mr_device *device;
    mr_memory memory;
    mr_slab *slab; /* of shared memory; NULL elsewhere, and where there is none */
    size_t bytes;
    int count;   /* most buffers */
    int made;    /* buffers that exist */
    int out;     /* buffers in use */
    bool released;
    mr_buffer *free; /* last in, first out: the warmest comes next */
    int waiter_count;
    waiter waiters[MR_POOL_WAITERS];
};

/* Pools of plain memory serve as well: what crosses to another process is then copied. */
static void tell_once(void) {
    static atomic_flag told = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&told))
        mr_log(MR_LOG_WARNING, "frames go to other processes as copies: %s", mr_message());
}

int mr_pool_create(mr_pool **pool, mr_device *device, mr_memory memory, size_t bytes, int count) {
    mr_pool *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a pool");
    mr_lock_init(&made->lock);
    made->device = mr_device_ref(device);
    made->memory = memory;
    made->bytes = bytes;
    made->count = count > 0 ? count : 1;
    if (memory == MR_MEMORY_SHARED && mr_slab_create(&made->slab, bytes ? bytes : 1, (uint32_t)made->count))
        tell_once();
    *pool = made;
    return MR_OK;
}

static void free_buffer(mr_pool *pool, mr_buffer *buffer) {
    mr_device *device = buffer->memory == MR_MEMORY_HOST ? mr_device_cpu() : pool->device;
    /* Slots go with their slab. */
    if (buffer->memory != MR_MEMORY_SHARED)
        mr_device_free(device, buffer->memory, buffer->data);
    mr_device_count_bytes(pool->device, pool->memory, -(int64_t)pool->bytes);
    mr_free(buffer);
}

static void free_buffers(mr_pool *pool, mr_buffer *list) {
    while (list) {
        mr_buffer *gone = list;
        list = gone->next;
        free_buffer(pool, gone);
    }
}

static void destroy(mr_pool *pool) {
    if (pool->slab)
        mr_slab_close(pool->slab);
    mr_slab_unref(&pool->slab);
    mr_device_destroy(&pool->device);
    pthread_mutex_destroy(&pool->lock);
    mr_free(pool);
}

void mr_pool_release(mr_pool **pool) {
    mr_pool *gone = *pool;
    *pool = NULL;
    if (!gone)
        return;
    pthread_mutex_lock(&gone->lock);
    gone->released = true;
    mr_buffer *unused = gone->free;
    gone->free = NULL;
    gone->out++; /* Until they are freed, nobody else destroys the pool. */
    pthread_mutex_unlock(&gone->lock);
    free_buffers(gone, unused);
    pthread_mutex_lock(&gone->lock);
    bool last = --gone->out == 0;
    pthread_mutex_unlock(&gone->lock);
    if (last)
        destroy(gone);
}

static int allocate(mr_pool *pool, void **data) {
    if (pool->memory != MR_MEMORY_SHARED)
        return mr_device_allocate(pool->device, pool->memory, pool->bytes, data);
    return pool->slab ? mr_slab_take_slot(pool->slab, data) : MR_ERROR_UNAVAILABLE;
}

static int make_buffer(mr_pool *pool, mr_buffer **buffer) {
    mr_buffer *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a buffer");
    void *data = NULL;
    mr_memory memory = pool->memory;
    int status = allocate(pool, &data);
    /* Where memory cannot be pinned or shared, plain memory is only slower. */
    if (status && memory != MR_MEMORY_HOST && memory != MR_MEMORY_DEVICE) {
        memory = MR_MEMORY_HOST;
        status = mr_device_allocate(mr_device_cpu(), memory, pool->bytes, &data);
    }
    if (status) {
        mr_free(made);
        return status;
    }
    mr_device_count_bytes(pool->device, pool->memory, (int64_t)pool->bytes);
    made->data = data;
    made->bytes = pool->bytes;
    made->memory = memory;
    made->device = memory == MR_MEMORY_HOST || memory == MR_MEMORY_SHARED ? NULL : pool->device;
    made->pool = pool;
    *buffer = made;
    return MR_OK;
}

/* Takes a free buffer, or the right to make one (NULL); false where all are in use. */
static bool take(mr_pool *pool, mr_buffer **buffer) {
    pthread_mutex_lock(&pool->lock);
    *buffer = pool->free;
    bool some = *buffer || pool->made < pool->count;
    if (*buffer)
        pool->free = (*buffer)->next;
    else if (some)
        pool->made++;
    pool->out += some;
    pthread_mutex_unlock(&pool->lock);
    return some;
}

int mr_pool_in_use(mr_pool *pool) {
    pthread_mutex_lock(&pool->lock);
    int out = pool->out;
    pthread_mutex_unlock(&pool->lock);
    return out;
}

static int free_count(const mr_pool *pool) {
    return pool->count - pool->out;
}

/* Takes the waiters whose buffers are there out of the list. Called with the lock. */
static int take_waiters(mr_pool *pool, waiter *served) {
    int count = 0, kept = 0;
    for (int i = 0; i < pool->waiter_count; i++) {
        if (pool->waiters[i].free_count <= free_count(pool))
            served[count++] = pool->waiters[i];
        else
            pool->waiters[kept++] = pool->waiters[i];
    }
    pool->waiter_count = kept;
    return count;
}

void mr_pool_replace(mr_pool *pool) {
    waiter served[MR_POOL_WAITERS];
    pthread_mutex_lock(&pool->lock);
    pool->count++;
    int count = pool->waiter_count ? take_waiters(pool, served) : 0;
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < count; i++)
        served[i].function(served[i].context);
}

/* Gives a buffer back or, with NULL, the right to make one. */
static void give_back(mr_pool *pool, mr_buffer *buffer) {
    waiter served[MR_POOL_WAITERS];
    if (buffer)
        mr_device_reuse(pool->device, buffer->data);
    pthread_mutex_lock(&pool->lock);
    if (buffer && pool->released) {
        pthread_mutex_unlock(&pool->lock);
        free_buffer(pool, buffer);
        pthread_mutex_lock(&pool->lock);
    } else if (buffer) {
        buffer->next = pool->free;
        pool->free = buffer;
    } else {
        pool->made--;
    }
    pool->out--;
    int count = pool->waiter_count ? take_waiters(pool, served) : 0;
    bool last = pool->released && pool->out == 0;
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < count; i++)
        served[i].function(served[i].context);
    if (last)
        destroy(pool);
}

void mr_pool_take_back(mr_pool *pool, mr_buffer *buffer) {
    give_back(pool, buffer);
}

int mr_pool_acquire(mr_pool *pool, mr_buffer **buffer) {
    mr_buffer *taken = NULL;
    if (!take(pool, &taken))
        return MR_ERROR_AGAIN;
    if (!taken) {
        int status = make_buffer(pool, &taken);
        if (status) {
            give_back(pool, NULL);
            return status;
        }
    }
    if (taken->memory == MR_MEMORY_SHARED)
        mr_slab_renew(pool->slab, taken->data);
    mr_references_begin(&taken->references);
    *buffer = taken;
    return MR_OK;
}

int mr_pool_fill(mr_pool *pool, int *made) {
    int status = MR_OK;
    pthread_mutex_lock(&pool->lock);
    while (!status && pool->made < pool->count) {
        mr_buffer *fresh = NULL;
        status = make_buffer(pool, &fresh);
        if (status)
            continue;
        fresh->next = pool->free;
        pool->free = fresh;
        pool->made++;
    }
    if (made)
        *made = pool->made;
    pthread_mutex_unlock(&pool->lock);
    return status;
}

/* The place of a waiter in the list, a new one for a new context; NULL where the list is full. */
static waiter *place_for(mr_pool *pool, const void *context) {
    for (int i = 0; i < pool->waiter_count; i++)
        if (pool->waiters[i].context == context)
            return &pool->waiters[i];
    return pool->waiter_count < MR_POOL_WAITERS ? &pool->waiters[pool->waiter_count++] : NULL;
}

int mr_pool_notify(mr_pool *pool, int count, mr_pool_function *function, void *context) {
    pthread_mutex_lock(&pool->lock);
    /* More than there will ever be would never come. */
    int wanted = count < pool->count ? count : pool->count;
    bool now = wanted <= free_count(pool);
    waiter *place = now ? NULL : place_for(pool, context);
    if (place)
        *place = (waiter){function, context, wanted};
    pthread_mutex_unlock(&pool->lock);
    if (now)
        function(context);
    else if (!place)
        return mr_fail(MR_ERROR_UNAVAILABLE, "more than %d wait for one pool", MR_POOL_WAITERS);
    return MR_OK;
}

int mr_pool_free_count(const mr_pool *pool) {
    mr_pool *locked = (mr_pool *)(uintptr_t)pool;
    pthread_mutex_lock(&locked->lock);
    int count = free_count(pool);
    pthread_mutex_unlock(&locked->lock);
    return count;
}

size_t mr_pool_buffer_bytes(const mr_pool *pool) {
    return pool->bytes;
}

mr_slab *mr_pool_slab(const mr_pool *pool) {
    return pool->slab;
}
