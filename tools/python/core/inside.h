/* Calls of the program's functions, by stages and subscriptions: a thread inside one must not wait for the run, and one
 * that does not return holds the run up.
 *
 * Threads: with the GIL. */
#pragma once

#include "core.h"

/* On the stack of the thread that calls. */
typedef struct mr_py_call {
    const char *stage;
    struct mr_py_call *next, *previous;
} mr_py_call;

void mr_py_call_begin(mr_py_call *call, const char *stage);
void mr_py_call_end(mr_py_call *call);
/* True if this thread is inside a call. */
bool mr_py_is_inside(void);
/* The same; then an exception is set. */
bool mr_py_refuse_inside(void);
/* The stages of the calls, such as "a, b"; "" if there is none. Returns `text`. */
const char *mr_py_calls_print(char *text, size_t bytes);
