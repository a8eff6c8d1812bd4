#include "engine/base/find/nvidia.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "millrace/log.h"

enum { MOST_DEPTH = 8, PATTERN = PATH_MAX + 256 };

static const char *const packages[] = {"nvidia/*/lib", "tensorrt_libs"};
static const char toolkit[] = "/usr/local/cuda/lib64";

static bool find(const char *pattern, char path[PATH_MAX]) {
    glob_t matches;
    path[0] = 0;
    if (glob(pattern, 0, NULL, &matches) == 0 && matches.gl_pathc && strlen(matches.gl_pathv[0]) < PATH_MAX)
        snprintf(path, PATH_MAX, "%s", matches.gl_pathv[0]);
    globfree(&matches);
    return path[0] != 0;
}

/* ---- Python environments ---------------------------------------------------------------------------------------- */

static bool take_beside_program(char site[PATTERN]) {
    char program[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length <= 0)
        return false;
    program[length] = 0;
    *strrchr(program, '/') = 0;
    snprintf(site, PATTERN, "%s/venv/lib/python3*/site-packages", program);
    return true;
}

static bool take_from_environment(const char *variable, const char *below, char site[PATTERN]) {
    const char *folder = getenv(variable);
    if (!folder || folder[0] != '/')
        return false;
    snprintf(site, PATTERN, "%.*s/%s", PATH_MAX, folder, below);
    return true;
}

/* onnxruntime/capi/libonnxruntime.so.1.31.1 */
static bool take_of_runtime(char site[PATTERN]) {
    if (!take_from_environment("MILLRACE_ONNXRUNTIME", "", site))
        return false;
    for (int i = 0; i < 4; i++) {
        char *slash = strrchr(site, '/');
        if (!slash)
            return false;
        *slash = 0;
    }
    return true;
}

/* The pattern for site-packages with that number. False if there is no such environment. */
static bool take_site(int number, char site[PATTERN]) {
    switch (number) {
    case 0:
        return take_beside_program(site);
    case 1:
        return take_of_runtime(site);
    case 2:
        return take_from_environment("VIRTUAL_ENV", "lib/python3*/site-packages", site);
    case 3:
        return take_from_environment("HOME", ".local/lib/python3*/site-packages", site);
    case 4:
        snprintf(site, PATTERN, "/usr/local/lib/python3*/dist-packages");
        return true;
    default:
        snprintf(site, PATTERN, "/usr/lib/python3*/dist-packages");
        return true;
    }
}
enum { SITES = 6 };

bool mr_site_find(const char *pattern, char path[PATH_MAX]) {
    char site[PATTERN], whole[2 * PATTERN];
    path[0] = 0;
    for (int i = 0; i < SITES && !path[0]; i++) {
        if (!take_site(i, site))
            continue;
        snprintf(whole, sizeof whole, "%s/%s", site, pattern);
        find(whole, path);
    }
    return path[0] != 0;
}

/* ---- NVIDIA's packages ------------------------------------------------------------------------------------------ */

bool mr_nvidia_find(const char *site, const char *name, char path[PATH_MAX]) {
    char pattern[PATTERN + MR_LIBRARY_NAME];
    path[0] = 0;
    for (size_t i = 0; i < sizeof packages / sizeof packages[0] && !path[0]; i++) {
        if (site)
            snprintf(pattern, sizeof pattern, "%.*s/%s/%s", PATH_MAX, site, packages[i], name);
        else
            snprintf(pattern, sizeof pattern, "%s/%s", packages[i], name);
        if (site)
            find(pattern, path);
        else
            mr_site_find(pattern, path);
    }
    snprintf(pattern, sizeof pattern, "%s/%s", toolkit, name);
    return path[0] || find(pattern, path);
}

bool mr_nvidia_missing(const char *message, char name[MR_LIBRARY_NAME]) {
    const char *end = strstr(message, ": cannot open shared object file");
    const char *start = end;
    while (start && start > message && !strchr(" \t:", start[-1]))
        start--;
    if (!end || end == start || (size_t)(end - start) >= MR_LIBRARY_NAME)
        return false;
    memcpy(name, start, (size_t)(end - start));
    name[end - start] = 0;
    return true;
}

static void *load(const char *site, char name[MR_LIBRARY_NAME], int depth) {
    char path[PATH_MAX], needed[MR_LIBRARY_NAME], before[MR_LIBRARY_NAME] = "";
    void *library;
    if (depth == MOST_DEPTH || !mr_nvidia_find(site, name, path))
        return NULL;
    while (!(library = dlopen(path, RTLD_LAZY | RTLD_GLOBAL))) {
        if (!mr_nvidia_missing(dlerror(), needed) || strcmp(needed, before) == 0)
            return NULL;
        memcpy(before, needed, sizeof needed);
        if (!load(site, needed, depth + 1)) {
            memcpy(name, needed, sizeof needed);
            return NULL;
        }
    }
    mr_log(MR_LOG_DEBUG, "loaded %s", path);
    return library;
}

void *mr_nvidia_load(const char *site, char name[MR_LIBRARY_NAME]) {
    return load(site, name, 0);
}
