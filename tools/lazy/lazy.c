#include "tools/lazy/lazy.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <sysexits.h>
#include <unistd.h>

void mr_lazy_load(void **slot) {
    const ptrdiff_t at = slot - mr_lazy_slots;
    /* Global, as if the program named it: stages look for functions in libraries that FFmpeg loads. */
    void *library = dlopen(mr_lazy_libraries[at], RTLD_LAZY | RTLD_GLOBAL);
    void *function = library ? dlsym(library, mr_lazy_names[at]) : NULL;
    if (!function) {
        fprintf(stderr, "millrace: error: %s; install the library with which millrace was built\n", dlerror());
        _exit(EX_UNAVAILABLE);
    }
    __atomic_store_n(slot, function, __ATOMIC_RELEASE);
}
