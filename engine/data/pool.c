#include "engine/data/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

#include "engine/base/log.h"
#include "engine/base/memory.h"
#include "engine/base/references.h"
#include "engine/base/thread.h"
#include "engine/data/slab.h"
#include "engine/device/device.h"
#include "millrace/status.h"

struct mr_pool {
    pthread_mutex_t lock;
    mr_device *device;
    mr_memory memory;
    mr_slab *slab; /* of shared memory; NULL elsewhere, and where there is none */
    size_t bytes;
    int count;   /* most buffers */
    int made;    /* buffers that exist */
    int out;     /* buffers in use */
    int holders; /* beside the buffers in use: its owner, until it is released, who waits, and who is inside just now */
    int telling; /* waiters that are being called just now */
    bool released;
    mr_buffer *free; /* last in, first out: the warmest comes next */
    mr_waiters waiters; /* each in a mr_pool_wait */
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
    made->holders = 1;
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

/* One holder less; gives back the lock. */
static void let_go(mr_pool *pool) {
    bool last = --pool->holders == 0 && pool->out == 0;
    pthread_mutex_unlock(&pool->lock);
    if (last)
        destroy(pool);
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
    pthread_mutex_unlock(&gone->lock);
    free_buffers(gone, unused);
    pthread_mutex_lock(&gone->lock);
    let_go(gone);
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

static int wanted_by(const mr_waiter *waiter) {
    return ((const mr_pool_wait *)(const void *)waiter)->free_count;
}

/* Calls the first waiter whose buffers are there, without the lock, which is held before and after. False: there is
 * none. */
static bool tell_one(mr_pool *pool) {
    mr_waiter *first = pool->waiters.first;
    while (first && wanted_by(first) > free_count(pool))
        first = first->next;
    if (!first)
        return false;
    mr_waiters_remove(&pool->waiters, first);
    mr_waiter_function *function = first->function;
    void *context = first->context;
    pool->telling++;
    pthread_mutex_unlock(&pool->lock);
    function(context);
    pthread_mutex_lock(&pool->lock);
    pool->telling--;
    return true;
}

/* With the lock of a pool that the caller holds, which it gives back: whose buffers are there now is told. */
static void tell_and_let_go(mr_pool *pool) {
    while (tell_one(pool))
        ;
    let_go(pool);
}

void mr_pool_replace(mr_pool *pool) {
    pthread_mutex_lock(&pool->lock);
    pool->count++;
    pool->holders++;
    tell_and_let_go(pool);
}

/* Gives a buffer back or, with NULL, the right to make one. */
static void give_back(mr_pool *pool, mr_buffer *buffer) {
    if (buffer)
        mr_device_reuse(pool->device, buffer->data);
    pthread_mutex_lock(&pool->lock);
    pool->holders++;
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
    tell_and_let_go(pool);
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

/* False: the buffers are there. */
static bool add_waiter(mr_pool *pool, int count, mr_pool_wait *wait, mr_waiter_function *function, void *context) {
    pthread_mutex_lock(&pool->lock);
    /* More than there will ever be would never come. */
    wait->free_count = count < pool->count ? count : pool->count;
    bool waits = wait->free_count > free_count(pool);
    if (!waits)
        mr_waiters_remove(&pool->waiters, &wait->waiter);
    wait->waiter.function = function;
    wait->waiter.context = context;
    if (waits && !wait->waiter.link)
        mr_waiters_add(&pool->waiters, &wait->waiter);
    pthread_mutex_unlock(&pool->lock);
    return waits;
}

static void hold(mr_pool *pool) {
    pthread_mutex_lock(&pool->lock);
    pool->holders++;
    pthread_mutex_unlock(&pool->lock);
}

void mr_pool_notify(mr_pool *pool, int count, mr_pool_wait *wait, mr_waiter_function *function, void *context) {
    if (wait->pool != pool) {
        mr_pool_forget(wait);
        hold(pool);
        wait->pool = pool;
    }
    if (!add_waiter(pool, count, wait, function, context))
        function(context);
}

void mr_pool_forget(mr_pool_wait *wait) {
    mr_pool *pool = wait->pool;
    wait->pool = NULL;
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    mr_waiters_remove(&pool->waiters, &wait->waiter);
    while (pool->telling) {
        pthread_mutex_unlock(&pool->lock);
        sched_yield(); /* It may be this waiter's function that is on its way. */
        pthread_mutex_lock(&pool->lock);
    }
    let_go(pool);
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
