#include "stages/media/media_avfilter.h"

#include <dlfcn.h>
#include <libavutil/macros.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "millrace/status.h"

static const char library_name[] = "libavfilter.so." AV_STRINGIFY(LIBAVFILTER_VERSION_MAJOR);
static mr_avfilter functions;
static bool loaded;
static char reason[256];

/* Fills a member with the function of that name. ISO C has no conversion from dlsym's pointer to one of a
 * function. */
static bool look_up(void *library, const char *name, void *member) {
    void *found = dlsym(library, name);
    memcpy(member, &found, sizeof found);
    return found != NULL;
}

static void load(void) {
    void *library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
    loaded = library != NULL;
#define X(name) loaded = loaded && look_up(library, #name, &functions.name);
    MR_AVFILTER_FUNCTIONS(X)
#undef X
    const char *words = loaded ? NULL : dlerror();
    strncpy(reason, words ? words : "a function is missing", sizeof reason - 1);
}

const mr_avfilter *mr_avfilter_load(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    if (loaded)
        return &functions;
    mr_fail(MR_ERROR_UNAVAILABLE, "test patterns need %s: %s", library_name, reason);
    return NULL;
}
