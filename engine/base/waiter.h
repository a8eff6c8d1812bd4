/* Lists of waiters. A waiter is embedded in the object that waits, so waiting cannot fail, allocates nothing, and has
 * no limit.
 *
 * Threads: callers must hold the lock of the awaited object while they access a list or its waiters. A waiter is
 * removed from the list before the function is called. That happens without the lock, and the waiter is not accessed
 * again: from then on the owner may reuse it. */
#pragma once

#include <stddef.h>

typedef void mr_waiter_function(void *context);

/* Zero: in no list. */
typedef struct mr_waiter {
    struct mr_waiter *next, **link; /* link: the pointer to this one; NULL: not in a list */
    mr_waiter_function *function;
    void *context;
} mr_waiter;

/* In the order in which they came. Zero: empty. */
typedef struct mr_waiters {
    mr_waiter *first, **end; /* end: the link for the next waiter; NULL: `first` */
} mr_waiters;

/* The waiter is in no list. */
static inline void mr_waiters_add(mr_waiters *list, mr_waiter *waiter) {
    waiter->next = NULL;
    waiter->link = list->first ? list->end : &list->first;
    *waiter->link = waiter;
    list->end = &waiter->next;
}

/* Takes the waiter out, if it is in this list. */
static inline void mr_waiters_remove(mr_waiters *list, mr_waiter *waiter) {
    if (!waiter->link)
        return;
    *waiter->link = waiter->next;
    if (waiter->next)
        waiter->next->link = waiter->link;
    else
        list->end = waiter->link;
    waiter->link = NULL;
}
