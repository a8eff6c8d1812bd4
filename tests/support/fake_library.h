/* Fakes of NVIDIA's libraries (tests/fakes), for suites in which the host plays a card. */
#pragma once

#include <dlfcn.h>

#include "tests/support/suite.h"

/* Loads a fake for the rest of the process. The driver's leaves memory to the host's card. */
static inline void *open_fake(const char *path, int mode) {
    void *fake = dlopen(path, RTLD_NOW | mode);
    void (*use)(int) = NULL;
    if (!fake)
        fail_msg("%s", dlerror());
    *(void **)&use = dlsym(fake, "fake_cuda_use");
    if (use)
        use(0);
    return fake;
}

/* Asks a loaded fake for a number. */
static inline int ask_fake(const char *library, const char *what) {
    int (*function)(void) = NULL;
    void *fake = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    *(void **)&function = dlsym(fake, what);
    assert_non_null(function);
    int answer = function();
    dlclose(fake);
    return answer;
}
