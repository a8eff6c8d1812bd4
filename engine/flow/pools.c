/* An instance's pools. Each device has one pool for each output port and each kind of work memory, and for each recent
 * buffer size. Device and pinned pools with a planned size are filled before the instance runs, so that nothing need be
 * allocated while frames pass; other pools grow when needed. */
#include "engine/flow/pools.h"

#include <string.h>

#include "engine/data/pool.h"
#include "engine/flow/run/control.h"
#include "engine/text/value.h"

enum { VALUE_TEXT = 32 };

/* ---- pools ----------------------------------------------------------------------------------------------------- */

static void lock_pools(mr_instance *instance) {
    if (instance->shared)
        pthread_mutex_lock(&instance->pools_lock);
}

static void unlock_pools(mr_instance *instance) {
    if (instance->shared)
        pthread_mutex_unlock(&instance->pools_lock);
}

/* Moves a pool to the front. */
static mr_pool *to_front(mr_pool **pools, int index) {
    mr_pool *pool = pools[index];
    memmove(&pools[1], &pools[0], (size_t)index * sizeof pool);
    return pools[0] = pool;
}

/* The plan for an output port's pools, or for one of the pools after them. */
static const mr_view_pool *planned(const mr_instance *instance, size_t which) {
    const mr_plan_vertex *vertex = instance->vertex;
    if (which < vertex->output_count)
        return &vertex->pools[which];
    const mr_view_pool *const others[] = {&vertex->memory.scratch, &vertex->memory.staging,  &vertex->memory.pinned,
                                          &vertex->memory.results, &vertex->memory.batches, &vertex->memory.block};
    return others[which - vertex->output_count];
}

static int create_pool(const mr_instance *instance, size_t number, size_t which, size_t bytes, mr_pool **pool) {
    const mr_view_pool *plan = planned(instance, which);
    bool output = which < instance->vertex->output_count;
    int count = output ? instance->self.output_buffers : plan->count ? plan->count : instance->vertex->calls.in_flight;
    mr_device *device = plan->memory == MR_MEMORY_DEVICE ? mr_parts_stage(&instance->parts, number)->device
                                                         : instance->run->devices[plan->device];
    /* Host processors that are a device's reserve use host memory. */
    bool plain = device->type->kind == MR_DEVICE_CPU && plan->memory != MR_MEMORY_SHARED;
    mr_memory memory = plain ? MR_MEMORY_HOST : plan->memory;
    return mr_pool_create(pool, device, memory, bytes, count);
}

/* Finds the pool for this buffer size. A new size replaces the pool unused for longest, which lives on until the last
 * buffer is back. Sizes up to the planned one use the planned size, so that frames of many sizes can share a pool. */
static int find_pool(mr_instance *instance, size_t number, size_t which, size_t bytes, mr_pool **pool) {
    /* All devices share host memory. */
    number = planned(instance, which)->memory == MR_MEMORY_DEVICE ? number : 0;
    mr_pool **pools = mr_parts_pools(&instance->parts, number, which);
    size_t most = planned(instance, which)->bytes;
    bytes = bytes < most ? most : bytes;
    int index = 0;
    while (index < MR_POOLS - 1 && pools[index] && mr_pool_buffer_bytes(pools[index]) != bytes)
        index++;
    if (!pools[index] || mr_pool_buffer_bytes(pools[index]) != bytes) {
        mr_pool *made = NULL;
        int status = create_pool(instance, number, which, bytes, &made);
        if (status)
            return status;
        mr_pool_release(&pools[index]);
        pools[index] = made;
    }
    *pool = to_front(pools, index);
    return MR_OK;
}

uint64_t mr_instance_in_use(void *context, size_t number) {
    mr_instance *instance = context;
    lock_pools(instance);
    mr_pool *pool = mr_parts_pools(&instance->parts, number, 0)[0];
    int in_use = pool ? mr_pool_in_use(pool) : 0;
    unlock_pools(instance);
    return (uint64_t)in_use;
}

/* Wakes the entry when the pool has `count` free buffers; it waits in pool_waits[place]. A holder may keep buffers for
 * ever: a run that stops at once must not wait for them. */
static int park(mr_io *io, mr_pool *pool, int count, size_t place) {
    if (mr_control_is_cancelled(io->instance->run))
        return mr_fail(MR_ERROR_CANCELLED, "the run is stopped");
    mr_pool_notify(pool, count, &io->entry->pool_waits[place], mr_task_waker, &io->entry->task);
    return MR_ERROR_AGAIN;
}

int mr_io_await_pool(mr_io *io, mr_pool *pool, int count) {
    return park(io, pool, count, mr_instance_pools(io->instance));
}

/* Takes a buffer. If all are in use, returns MR_ERROR_AGAIN; with `parks` the entry will be woken when one is free. */
static int take_buffer(mr_io *io, size_t which, size_t bytes, bool parks, mr_buffer **buffer) {
    mr_instance *instance = io->instance;
    mr_pool *pool = NULL;
    lock_pools(instance);
    int status = find_pool(instance, io->slot->device_number, which, bytes, &pool);
    if (!status)
        status = mr_pool_acquire(pool, buffer);
    if (status == MR_ERROR_AGAIN && parks)
        status = park(io, pool, 1, which);
    unlock_pools(instance);
    return status;
}

int mr_io_take_buffer(mr_io *io, size_t which, size_t bytes, mr_buffer **buffer) {
    return take_buffer(io, which, bytes, true, buffer);
}

int mr_io_try_buffer(mr_io *io, size_t which, size_t bytes, mr_buffer **buffer) {
    return take_buffer(io, which, bytes, false, buffer);
}

/* ---- ahead ----------------------------------------------------------------------------------------------------- */

static bool is_ahead(const mr_instance *instance, size_t number, size_t which) {
    const mr_plan_vertex *vertex = instance->vertex;
    const mr_view_pool *plan = planned(instance, which);
    bool own = which < vertex->output_count && vertex->outputs[which].own_pool && vertex->devices.at[0] == 0;
    if (!plan->ahead || own)
        return false;
    /* All devices share host memory; host processors in reserve have no memory to fill. */
    return plan->memory == MR_MEMORY_DEVICE ? !mr_parts_are_on_host(&instance->parts, number) : number == 0;
}

static int tell_missing(const mr_instance *instance, size_t number, const mr_view_pool *plan, int made, int status) {
    const mr_run *run = instance->run;
    const bool there = plan->memory == MR_MEMORY_DEVICE;
    const mr_device *device = there ? mr_parts_stage(&instance->parts, number)->device : run->devices[plan->device];
    const char *lower = run->plan->devices[there ? mr_plan_part(instance->vertex, number) : 0].lower;
    char each[VALUE_TEXT], missing[VALUE_TEXT];
    if (status != MR_ERROR_MEMORY)
        return status;
    mr_value_print_about(plan->bytes, each, sizeof each);
    mr_value_print_about((uint64_t)(plan->count - made) * plan->bytes, missing, sizeof missing);
    return mr_fail(status,
                   "%s: there is memory for %d of the %d buffers of %s that are planned for the stage; %s are "
                   "missing%s%s",
                   device->name, made, plan->count, each, missing, lower ? "; " : "", lower ? lower : "");
}

static int fill_pool(mr_instance *instance, size_t number, size_t which) {
    const mr_view_pool *plan = planned(instance, which);
    mr_pool *pool = NULL;
    int made = 0;
    int status = find_pool(instance, number, which, plan->bytes, &pool);
    if (!status)
        status = mr_pool_fill(pool, &made);
    return status ? tell_missing(instance, number, plan, made, status) : MR_OK;
}

int mr_instance_fill_pools(mr_instance *instance, size_t number) {
    int status = MR_OK;
    lock_pools(instance);
    for (size_t which = 0; which < mr_instance_pools(instance) && !status; which++)
        if (is_ahead(instance, number, which))
            status = fill_pool(instance, number, which);
    unlock_pools(instance);
    return status;
}
