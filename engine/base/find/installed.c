#include "engine/base/find/installed.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool take(const char *folder, const char *below, char path[PATH_MAX]) {
    char whole[2 * PATH_MAX];
    struct stat found;
    snprintf(whole, sizeof whole, "%s%s", folder, below);
    return realpath(whole, path) && stat(path, &found) == 0 && S_ISDIR(found.st_mode);
}

bool mr_own_folder(char folder[PATH_MAX]) {
    static const char inside;
    Dl_info own;
    /* A program's name is as it was called, so the kernel is asked. */
    const char *name = dladdr(&inside, &own) && own.dli_fname ? own.dli_fname : "";
    const char *base = strrchr(name, '/');
    const bool is_library = strstr(base ? base : name, ".so");
    char *slash = realpath(is_library ? own.dli_fname : "/proc/self/exe", folder) ? strrchr(folder, '/') : NULL;
    if (!slash)
        return false;
    *slash = 0;
    return true;
}

static bool find(const char *from_program, const char *from_library, const char *configured, char path[PATH_MAX]) {
    char folder[PATH_MAX];
    if (mr_own_folder(folder) && (take(folder, from_program, path) || take(folder, from_library, path)))
        return true;
    if (take(configured, "", path))
        return true;
    path[0] = 0;
    return false;
}

bool mr_installed_data(char path[PATH_MAX]) {
    char folder[PATH_MAX];
    /* A wheel's libraries are in a folder beside its package. */
    if (mr_own_folder(folder) && take(folder, "/../millrace/share/millrace", path))
        return true;
    if (find("/" MILLRACE_BIN_TO_DATA "/millrace", "/" MILLRACE_LIB_TO_DATA "/millrace", MILLRACE_DATA, path))
        return true;
    /* Debian's libraries are a folder deeper than those of the build whose objects `tools/package --built` links. */
    return mr_own_folder(folder) && strstr(folder, "/lib/") && take(folder, "/../../share/millrace", path);
}

bool mr_installed_libraries(char path[PATH_MAX]) {
    return find("/" MILLRACE_BIN_TO_LIB "/millrace", "/millrace", MILLRACE_LIB, path);
}
