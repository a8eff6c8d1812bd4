#include "engine/flow/executor/drive.h"

#include "engine/flow/executor/executor_parts.h"

int mr_executor_add_device(mr_executor *executor, mr_device *device) {
    if (executor->device_count == MR_EXECUTOR_DEVICES)
        return mr_fail(MR_ERROR_CONFIG, "more than %d simulated devices", MR_EXECUTOR_DEVICES);
    executor->devices[executor->device_count++] = device;
    return MR_OK;
}

/* xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled" (2016). */
static uint64_t draw(mr_executor *executor) {
    uint64_t x = executor->random;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    executor->random = x;
    return x * UINT64_C(2685821657736338717);
}

static void run_one(mr_executor *executor) {
    size_t pick = (size_t)(draw(executor) % executor->queued);
    mr_task *task = executor->runnable[pick];
    executor->runnable[pick] = executor->runnable[--executor->queued];
    mr_task_run(task);
}

/* Advances the devices and queues due tasks. Returns when the next timer or device completion is due. */
static int64_t settle(mr_executor *executor) {
    int64_t now = mr_executor_now_ns(executor);
    int64_t next = INT64_MAX;
    for (int i = 0; i < executor->device_count; i++) {
        int64_t due = mr_device_advance(executor->devices[i], now);
        next = due < next ? due : next;
    }
    mr_task *task = mr_executor_take_due(executor, now);
    while (task) {
        mr_task *following = task->next;
        mr_executor_queue_runnable(executor, task);
        task = following;
    }
    int64_t timer = mr_timers_next(&executor->timers);
    return timer < next ? timer : next;
}

bool mr_executor_drive(mr_executor *executor, int64_t until_ns) {
    for (;;) {
        int64_t next = settle(executor);
        if (executor->queued) {
            run_one(executor);
            continue;
        }
        if (next == INT64_MAX)
            return false;
        if (next > until_ns)
            return true;
        if (next > mr_executor_now_ns(executor))
            mr_clock_set_ns(executor->clock, next);
    }
}
