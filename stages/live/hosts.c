#include "stages/live/hosts.h"

#include <fnmatch.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

bool mr_host_is_allowed(const char *patterns, const char *host) {
    if (!patterns)
        return true;
    for (const char *at = patterns; *at; at += strspn(at, ",")) {
        char pattern[256];
        size_t bytes = strcspn(at, ",");
        snprintf(pattern, sizeof pattern, "%.*s", (int)bytes, at);
        if (bytes && bytes < sizeof pattern && fnmatch(pattern, host, FNM_CASEFOLD | FNM_NOESCAPE) == 0)
            return true;
        at += bytes;
    }
    return false;
}
