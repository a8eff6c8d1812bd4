#include "engine/data/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

#include "engine/base/memory.h"
#include "engine/base/references.h"
#include "engine/base/thread.h"
#include "engine/data/pixel_heap.h"
#include "engine/data/slab.h"
#include "engine/device/device.h"
#include "millrace/log.h"
#include "millrace/status.h"

struct mr_pool {
    pthread_mutex_t lock;
    mr_device *device;
    mr_memory memory;
    mr_slab *slab; /* shared memory only; NULL if it is unavailable */
    size_t bytes;  /* the largest buffer's size */
    uint64_t most; /* upper bound for the total bytes */
    int count;   /* upper bound for the number of buffers */
    int made;    /* buffers that exist */
    int out;     /* buffers in use */
    int holders; /* owner (until it releases the pool), waiters and calls in progress; buffers in use are not counted */
    int telling; /* waiters being called now */
    uint64_t made_bytes, out_bytes;
    bool released;
    mr_buffer *free; /* last in, first out: the next one is likely still in cache */
    mr_waiters waiters; /* each is part of a mr_pool_wait */
};

/* Plain memory also works: data for other processes must then be copied. */
static void tell_once(void) {
    static atomic_flag reported = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&reported))
        mr_log(MR_LOG_WARNING, "frames go to other processes as copies: %s", mr_message());
}

/* A request must need at least this part of a free buffer to get it. */
enum { LARGEST_EXCESS = 4 };

int mr_pool_create(mr_pool **pool, mr_device *device, mr_memory memory, size_t bytes, int count) {
    return mr_pool_create_bounded(pool, device, memory, bytes, count, UINT64_MAX);
}

int mr_pool_create_bounded(mr_pool **pool, mr_device *device, mr_memory memory, size_t bytes, int count,
                           uint64_t most) {
    mr_pool *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a pool");
    mr_lock_init(&made->lock);
    made->device = mr_device_ref(device);
    made->memory = memory;
    made->bytes = bytes;
    made->count = count > 0 ? count : 1;
    made->most = most > bytes ? most : bytes;
    made->holders = 1;
    if (memory == MR_MEMORY_SHARED && mr_slab_create(&made->slab, bytes ? bytes : 1, (uint32_t)made->count))
        tell_once();
    *pool = made;
    return MR_OK;
}

static void free_buffer(mr_pool *pool, mr_buffer *buffer) {
    /* Slots go with their slab. */
    if (buffer->memory == MR_MEMORY_HOST)
        mr_pixel_heap_give(buffer->data, buffer->bytes);
    else if (buffer->memory != MR_MEMORY_SHARED)
        mr_device_free(pool->device, buffer->memory, buffer->data);
    mr_device_count_bytes(pool->device, pool->memory, -(int64_t)buffer->bytes);
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
    if (pool->bytes >= MR_PIXEL_HEAP_LEAST)
        mr_pixel_heap_trim();
    mr_device_destroy(&pool->device);
    pthread_mutex_destroy(&pool->lock);
    mr_free(pool);
}

/* Removes one holder, and unlocks. */
static void release(mr_pool *pool) {
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
    release(gone);
}

/* The host's memory, whichever device the pool is for. */
static int allocate_host(size_t bytes, void **data) {
    *data = mr_pixel_heap_take(bytes);
    return *data ? MR_OK : mr_fail(MR_ERROR_MEMORY, "%s: no memory for %zu bytes", mr_device_cpu()->name, bytes);
}

static int allocate(mr_pool *pool, size_t bytes, void **data) {
    if (pool->memory == MR_MEMORY_HOST)
        return allocate_host(bytes, data);
    if (pool->memory != MR_MEMORY_SHARED)
        return mr_device_allocate(pool->device, pool->memory, bytes, data);
    return pool->slab ? mr_slab_take_slot(pool->slab, data) : MR_ERROR_UNAVAILABLE;
}

static int make_buffer(mr_pool *pool, size_t bytes, mr_buffer **buffer) {
    mr_buffer *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a buffer");
    void *data = NULL;
    mr_memory memory = pool->memory;
    int status = allocate(pool, bytes, &data);
    /* If memory cannot be pinned or shared, plain memory works too, only slower. */
    if (status && memory != MR_MEMORY_HOST && memory != MR_MEMORY_DEVICE) {
        memory = MR_MEMORY_HOST;
        status = allocate_host(bytes, &data);
    }
    if (status) {
        mr_free(made);
        return status;
    }
    mr_device_count_bytes(pool->device, pool->memory, (int64_t)bytes);
    made->data = data;
    made->bytes = bytes;
    made->memory = memory;
    made->device = memory == MR_MEMORY_HOST || memory == MR_MEMORY_SHARED ? NULL : pool->device;
    made->pool = pool;
    *buffer = made;
    return MR_OK;
}

/* ---- taking ---------------------------------------------------------------------------------------------------- */

/* A buffer that is much too large is refused only for plain memory: other kinds are slow to allocate. */
static bool suits(const mr_pool *pool, const mr_buffer *buffer, size_t bytes) {
    return buffer->bytes >= bytes && (pool->memory != MR_MEMORY_HOST || buffer->bytes / LARGEST_EXCESS <= bytes);
}

/* Takes the most recently used free buffer that suits; NULL: none. With the lock. */
static mr_buffer *find(mr_pool *pool, size_t bytes) {
    for (mr_buffer **at = &pool->free; *at; at = &(*at)->next) {
        mr_buffer *found = *at;
        if (!suits(pool, found, bytes))
            continue;
        *at = found->next;
        return found;
    }
    return NULL;
}

static bool may_make(const mr_pool *pool, size_t bytes) {
    return pool->made < pool->count && pool->made_bytes <= pool->most && bytes <= pool->most - pool->made_bytes;
}

/* Frees unused buffers until a buffer with this size can be made. The lock must stay held, so that nobody else makes
 * one first. */
static void make_room(mr_pool *pool, size_t bytes) {
    while (pool->free && !may_make(pool, bytes)) {
        mr_buffer *unused = pool->free;
        pool->free = unused->next;
        pool->made--;
        pool->made_bytes -= unused->bytes;
        free_buffer(pool, unused);
    }
}

/* Takes a free buffer, or the right to make one (NULL). False: there is no room. */
static bool take(mr_pool *pool, size_t bytes, mr_buffer **buffer) {
    MR_LOCKED(&pool->lock);
    *buffer = find(pool, bytes);
    if (!*buffer)
        make_room(pool, bytes);
    bool some = *buffer || may_make(pool, bytes);
    if (some && !*buffer) {
        pool->made++;
        pool->made_bytes += bytes;
    }
    pool->out += some;
    pool->out_bytes += !some ? 0 : *buffer ? (*buffer)->bytes : bytes;
    return some;
}

int mr_pool_in_use(mr_pool *pool) {
    MR_LOCKED(&pool->lock);
    return pool->out;
}

/* How many buffers of the largest size fit into `bytes`; at most `count`. */
static int most_of(const mr_pool *pool, int count, uint64_t bytes) {
    uint64_t fit = pool->bytes ? bytes / pool->bytes : UINT64_MAX;
    return fit < (uint64_t)count ? (int)fit : count;
}

static int free_count(const mr_pool *pool) {
    int left = pool->count - pool->out;
    return left > 0 && pool->out_bytes < pool->most ? most_of(pool, left, pool->most - pool->out_bytes) : 0;
}

static int wanted_by(const mr_waiter *waiter) {
    return ((const mr_pool_wait *)(const void *)waiter)->free_count;
}

/* Calls the first waiter that can get its buffers. Unlocks during the call; the lock is held before and after. False:
 * there is none. */
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

/* Calls every waiter that can get its buffers now, then releases the pool and unlocks. Needs the lock and a holder. */
static void notify_and_release(mr_pool *pool) {
    while (tell_one(pool))
        ;
    release(pool);
}

void mr_pool_replace(mr_pool *pool) {
    pthread_mutex_lock(&pool->lock);
    pool->count++;
    pool->most = pool->most > UINT64_MAX - pool->bytes ? UINT64_MAX : pool->most + pool->bytes;
    pool->holders++;
    notify_and_release(pool);
}

/* Returns a buffer, or, with NULL, the right to make one with this size. */
static void give_back(mr_pool *pool, mr_buffer *buffer, size_t bytes) {
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
        pool->made_bytes -= bytes;
    }
    pool->out--;
    pool->out_bytes -= bytes;
    notify_and_release(pool);
}

void mr_pool_take_back(mr_pool *pool, mr_buffer *buffer) {
    give_back(pool, buffer, buffer->bytes);
}

int mr_pool_acquire(mr_pool *pool, mr_buffer **buffer) {
    return mr_pool_acquire_bytes(pool, pool->bytes, buffer);
}

int mr_pool_acquire_bytes(mr_pool *pool, size_t bytes, mr_buffer **buffer) {
    mr_buffer *taken = NULL;
    /* All slots in a slab have the same size. */
    bytes = pool->memory == MR_MEMORY_SHARED ? pool->bytes : bytes;
    if (!take(pool, bytes, &taken))
        return MR_ERROR_AGAIN;
    if (!taken) {
        int status = make_buffer(pool, bytes, &taken);
        if (status) {
            give_back(pool, NULL, bytes);
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
    MR_LOCKED(&pool->lock);
    while (!status && may_make(pool, pool->bytes)) {
        mr_buffer *fresh = NULL;
        status = make_buffer(pool, pool->bytes, &fresh);
        if (status)
            continue;
        fresh->next = pool->free;
        pool->free = fresh;
        pool->made++;
        pool->made_bytes += pool->bytes;
    }
    if (made)
        *made = pool->made;
    return status;
}

/* False: the buffers are available now. */
static bool add_waiter(mr_pool *pool, int count, mr_pool_wait *wait, mr_waiter_function *function, void *context) {
    MR_LOCKED(&pool->lock);
    /* More buffers than can ever exist would never come. */
    int ever = most_of(pool, pool->count, pool->most);
    wait->free_count = count < ever ? count : ever;
    bool waits = wait->free_count > free_count(pool);
    if (!waits)
        mr_waiters_remove(&pool->waiters, &wait->waiter);
    wait->waiter.function = function;
    wait->waiter.context = context;
    if (waits && !wait->waiter.link)
        mr_waiters_add(&pool->waiters, &wait->waiter);
    return waits;
}

static void hold(mr_pool *pool) {
    MR_LOCKED(&pool->lock);
    pool->holders++;
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
        sched_yield(); /* This waiter's function may be running now. */
        pthread_mutex_lock(&pool->lock);
    }
    release(pool);
}

int mr_pool_free_count(const mr_pool *pool) {
    mr_pool *locked = (mr_pool *)(uintptr_t)pool;
    MR_LOCKED(&locked->lock);
    return free_count(pool);
}

void mr_pool_widen(mr_pool *pool, size_t bytes, uint64_t most) {
    MR_LOCKED(&pool->lock);
    pool->bytes = bytes > pool->bytes ? bytes : pool->bytes;
    pool->most = most > pool->most ? most : pool->most;
}

size_t mr_pool_buffer_bytes(const mr_pool *pool) {
    return pool->bytes;
}

mr_slab *mr_pool_slab(const mr_pool *pool) {
    return pool->slab;
}
