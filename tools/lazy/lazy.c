#include "tools/lazy/lazy.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <sysexits.h>
#include <unistd.h>

static void fail(void) {
    fprintf(stderr, "millrace: error: %s; install FFmpeg's libraries, as they were when millrace was built\n", dlerror());
    _exit(EX_UNAVAILABLE);
}

/* A library's handle also finds functions in those that it needs. */
static void *look_up(void *const *libraries, const char *name) {
    void *found = NULL;
    for (size_t i = 0; libraries[i] && !found; i++)
        found = dlsym(libraries[i], name);
    return found;
}

static void load(void) {
    void *libraries[8] = {NULL};
    for (size_t i = 0; mr_lazy_libraries[i]; i++)
        /* As if the program named them: stages look for functions in libraries that FFmpeg loads. */
        if (!(libraries[i] = dlopen(mr_lazy_libraries[i], RTLD_LAZY | RTLD_GLOBAL)))
            fail();
    for (size_t i = 0; mr_lazy_slots + i < mr_lazy_slots_end; i++) {
        void *function = look_up(libraries, mr_lazy_names[i]);
        if (!function)
            fail();
        __atomic_store_n(&mr_lazy_slots[i], function, __ATOMIC_RELEASE);
    }
}

void mr_lazy_load(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
}
