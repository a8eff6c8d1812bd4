#include "engine/flow/executor/timers.h"

#include "engine/base/grow.h"
#include "engine/base/memory.h"

static void place(mr_timers *timers, size_t position, mr_timer *timer) {
    timers->item[position] = timer;
    timer->position = position;
}

static void rise(mr_timers *timers, size_t position, mr_timer *timer) {
    while (position > 1 && timers->item[position / 2]->due_ns > timer->due_ns) {
        place(timers, position, timers->item[position / 2]);
        position /= 2;
    }
    place(timers, position, timer);
}

static void sink(mr_timers *timers, size_t position, mr_timer *timer) {
    for (;;) {
        size_t child = position * 2;
        if (child > timers->count)
            break;
        if (child < timers->count && timers->item[child + 1]->due_ns < timers->item[child]->due_ns)
            child++;
        if (timers->item[child]->due_ns >= timer->due_ns)
            break;
        place(timers, position, timers->item[child]);
        position = child;
    }
    place(timers, position, timer);
}

bool mr_timers_set(mr_timers *timers, mr_timer *timer, int64_t due_ns) {
    if (timer->position) {
        bool earlier = due_ns < timer->due_ns;
        timer->due_ns = due_ns;
        if (earlier)
            rise(timers, timer->position, timer);
        else
            sink(timers, timer->position, timer);
        return true;
    }
    if (!mr_grow((void **)&timers->item, timers->count + 1, &timers->room, sizeof *timers->item))
        return false;
    timer->due_ns = due_ns;
    rise(timers, ++timers->count, timer);
    return true;
}

void mr_timers_remove(mr_timers *timers, mr_timer *timer) {
    size_t position = timer->position;
    if (!position)
        return;
    timer->position = 0;
    timer->due_ns = INT64_MAX;
    mr_timer *last = timers->item[timers->count--];
    if (last == timer)
        return;
    if (position > 1 && timers->item[position / 2]->due_ns > last->due_ns)
        rise(timers, position, last);
    else
        sink(timers, position, last);
}

mr_timer *mr_timers_take(mr_timers *timers, int64_t now_ns) {
    if (mr_timers_next(timers) > now_ns)
        return NULL;
    mr_timer *timer = timers->item[1];
    mr_timers_remove(timers, timer);
    return timer;
}

int64_t mr_timers_next(const mr_timers *timers) {
    return timers->count ? timers->item[1]->due_ns : INT64_MAX;
}

void mr_timers_fini(mr_timers *timers) {
    mr_free(timers->item);
    *timers = (mr_timers){0};
}
