#include "engine/spec/plugins.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/find/library.h"
#include "millrace/status.h"

/* ---- the file -------------------------------------------------------------------------------------------------- */

static bool is_there(const char *path) {
    struct stat about;
    return stat(path, &about) == 0;
}

/* The path with a slash, so that the loader looks nowhere else; false if that is too long. */
static bool find(const char *directory, const char *name, char path[PATH_MAX]) {
    bool bare = !strchr(name, '/');
    int length = snprintf(path, PATH_MAX, "%s%s", *name == '/' ? "" : *directory || !bare ? directory : "./", name);
    const char *folders = bare ? getenv("MILLRACE_PLUGIN_PATH") : NULL;
    while (folders && *folders && !is_there(path)) {
        size_t bytes = strcspn(folders, ":");
        char elsewhere[PATH_MAX];
        /* An empty entry is ignored: it would be the working directory. */
        if (bytes > 0 && snprintf(elsewhere, PATH_MAX, "%.*s/%s", (int)bytes, folders, name) < PATH_MAX &&
            is_there(elsewhere))
            length = snprintf(path, PATH_MAX, "%s", elsewhere);
        folders += bytes + (folders[bytes] == ':');
    }
    return length < PATH_MAX;
}

/* Errors that the loader would report less clearly. */
static int check_file(const char *path) {
    static const char magic[4] = "\177ELF";
    char first[4] = {0};
    struct stat about;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), error = errno;
    if (file < 0)
        return mr_fail(mr_file_status(error), "cannot open the plugin %s: %s", path, strerror(error));
    bool regular = fstat(file, &about) == 0 && S_ISREG(about.st_mode);
    bool library = regular && read(file, first, sizeof first) == sizeof first && !memcmp(first, magic, sizeof magic);
    close(file);
    return library ? MR_OK
                   : mr_fail(MR_ERROR_DATA, "%s is not a plugin: it is %s", path,
                             regular ? "not a shared library" : "not a regular file");
}

/* ---- its description --------------------------------------------------------------------------------------------- */

static int check_sizes(const char *path, const mr_plugin *plugin) {
    static const struct {
        const char *name;
        uint32_t bytes;
    } ours[] = {
#define X(type) {#type, (uint32_t)sizeof(type)},
        MR_PLUGIN_SIZES(X)
#undef X
    };
    for (size_t i = 0; i < MR_PLUGIN_SIZE_COUNT; i++)
        if (plugin->size[i] != ours[i].bytes)
            return mr_fail(MR_ERROR_DATA, "the plugin %s was built with other headers (millrace %s): %s has %u bytes "
                                          "there and %u here; rebuild it with the headers of millrace %s", path,
                           plugin->built_with, ours[i].name, plugin->size[i], ours[i].bytes, MILLRACE_VERSION);
    return MR_OK;
}

static int check_plugin(const char *path, const mr_plugin *plugin) {
    if (!plugin)
        return mr_fail(MR_ERROR_DATA, "%s is not a millrace plugin: it lacks the symbol mr_plugin_entry; write "
                                      "MR_PLUGIN(...) of millrace/plugin.h after its stage types", path);
    if (plugin->abi != MR_PLUGIN_ABI)
        return mr_fail(MR_ERROR_DATA, "the plugin %s was built for plugin ABI %u (millrace %s), but this is ABI %d "
                                      "(millrace %s): rebuild it with the headers of this version", path, plugin->abi,
                       plugin->built_with, MR_PLUGIN_ABI, MILLRACE_VERSION);
    int status = check_sizes(path, plugin);
    if (!status && (!plugin->types || !plugin->types[0]))
        status = mr_fail(MR_ERROR_DATA, "the plugin %s has no stage types", path);
    for (size_t i = 0; !status && plugin->types[i]; i++)
        if ((status = mr_stage_type_check(plugin->types[i]))) {
            char why[768];
            snprintf(why, sizeof why, "%s", mr_message());
            mr_fail(status, "in the plugin %s: %s", path, why);
        }
    return status;
}

/* ---- together ---------------------------------------------------------------------------------------------------- */

int mr_plugin_load_from(const char *directory, const char *name, const mr_plugin **plugin) {
    char path[PATH_MAX];
    if (!*name || !find(directory, name, path))
        return mr_fail(MR_ERROR_NO_INPUT, "\"%.64s\" cannot be the path of a plugin", name);
    int status = check_file(path);
    if (status)
        return status;
    /* All symbols at once: a missing one is reported now, not in the middle of a run. */
    const char *why;
    void *library = mr_library_open(path, &why);
    if (!library)
        return mr_fail(MR_ERROR_DATA, "cannot load the plugin: %s", why);
    const mr_plugin *found = dlsym(library, "mr_plugin_entry");
    status = check_plugin(path, found);
    if (status)
        dlclose(library);
    else
        *plugin = found;
    return status;
}

int mr_plugin_load(const char *path, const mr_plugin **plugin) {
    return mr_plugin_load_from("", path, plugin);
}
