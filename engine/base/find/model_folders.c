#include "engine/base/find/model_folders.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/find/installed.h"

/* ---- the folders ----------------------------------------------------------------------------------------------- */

static void add(mr_model_folders *folders, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(mr_model_folders *folders, const char *format, ...) {
    char *path = folders->path[folders->count < MR_MODEL_FOLDERS ? folders->count : 0];
    va_list list;
    if (folders->count == MR_MODEL_FOLDERS)
        return;
    va_start(list, format);
    int length = vsnprintf(path, PATH_MAX, format, list);
    va_end(list);
    if (length <= 0 || length >= PATH_MAX || path[0] != '/')
        return;
    for (int i = 0; i < folders->count; i++)
        if (strcmp(folders->path[i], path) == 0)
            return;
    folders->count++;
}

/* Folders in a list like PATH, each with `below` added. */
static void add_list(mr_model_folders *folders, const char *list, const char *below) {
    for (size_t length; list && *list; list += length + (list[length] == ':')) {
        length = strcspn(list, ":");
        if (length)
            add(folders, "%.*s%s", (int)length, list, below);
    }
}

/* The user's own words: a relative path begins at the current folder. */
static void add_given(mr_model_folders *folders, const char *path, size_t length) {
    char here[PATH_MAX];
    if (length && path[0] == '/')
        add(folders, "%.*s", (int)length, path);
    else if (length && getcwd(here, sizeof here))
        add(folders, "%s/%.*s", here, (int)length, path);
}

static void add_own(mr_model_folders *folders) {
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    if (data && *data == '/')
        add(folders, "%s/millrace/models", data);
    else if (home && *home == '/')
        add(folders, "%s/.local/share/millrace/models", home);
}

static void add_beside_program(mr_model_folders *folders) {
    char program[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length <= 0)
        return;
    program[length] = 0;
    *strrchr(program, '/') = 0;
    add(folders, "%s/models", program);
}

/* A build's Python module is a library in python/millrace of the build's folder, and the program is python3. */
static void add_of_build(mr_model_folders *folders) {
    static const char *const builds[] = {"", "/../.."};
    char own[PATH_MAX], mark[PATH_MAX + 32], build[PATH_MAX];
    for (size_t i = 0; mr_own_folder(own) && i < sizeof builds / sizeof *builds; i++) {
        snprintf(mark, sizeof mark, "%s%s", own, builds[i]);
        if (!realpath(mark, build))
            continue;
        snprintf(mark, sizeof mark, "%s/CMakeCache.txt", build);
        if (access(mark, F_OK) == 0)
            add(folders, "%s/models", build);
    }
}

static void add_installed(mr_model_folders *folders) {
    char data[PATH_MAX];
    if (mr_installed_data(data))
        add(folders, "%s/models", data);
}

static void add_asked(mr_model_folders *folders) {
    const char *list = getenv("MILLRACE_MODELS"), *models = getenv("MODELS");
    for (size_t length; list && *list; list += length + (list[length] == ':')) {
        length = strcspn(list, ":");
        add_given(folders, list, length);
    }
    if (models)
        add_given(folders, models, strlen(models));
    folders->asked = folders->count;
}

void mr_model_folders_find(mr_model_folders *folders) {
    const char *shared = getenv("XDG_DATA_DIRS");
    folders->count = 0;
    add_asked(folders);
    add_own(folders);
    add_beside_program(folders);
    add_of_build(folders);
    add_installed(folders);
    add_list(folders, shared && *shared ? shared : "/usr/local/share:/usr/share", "/millrace/models");
}

bool mr_model_folders_own(char path[PATH_MAX]) {
    mr_model_folders *folders = calloc(1, sizeof *folders);
    if (!folders)
        return false;
    add_asked(folders);
    add_own(folders);
    const bool found = folders->count > 0;
    strcpy(path, found ? folders->path[0] : "");
    free(folders);
    return found;
}

/* ---- names ----------------------------------------------------------------------------------------------------- */

bool mr_is_model_name(const char *text) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    size_t length = strspn(text, letters);
    return length > 0 && length < MR_MODEL_NAME && !text[length] && text[0] != '-';
}

bool mr_named_model_find(const char *name, const char *ending, char path[PATH_MAX]) {
    struct stat about;
    mr_model_folders *folders = calloc(1, sizeof *folders);
    bool found = false;
    if (!folders)
        return false;
    mr_model_folders_find(folders);
    for (int i = 0; i < folders->count && !found; i++)
        found = snprintf(path, PATH_MAX, "%s/%s%s", folders->path[i], name, ending) < PATH_MAX &&
                stat(path, &about) == 0 && S_ISREG(about.st_mode);
    free(folders);
    return found;
}

/* `list` has that name already: an earlier folder has a file with it. */
static bool has_name(const char *list, const char *name) {
    size_t length = strlen(name);
    for (const char *at = strstr(list, name); at; at = strstr(at + 1, name))
        if ((at == list || at[-1] == ' ') && (!at[length] || at[length] == ','))
            return true;
    return false;
}

static int is_visible(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

static void list_folder(const char *folder, const char *ending, char *list, size_t bytes) {
    struct dirent **entry = NULL;
    const size_t end = strlen(ending);
    int count = scandir(folder, &entry, is_visible, alphasort);
    for (int i = 0; i < count; i++) {
        char name[MR_MODEL_NAME] = "";
        size_t length = strlen(entry[i]->d_name), used = strlen(list);
        if (length > end && length - end < sizeof name && strcmp(entry[i]->d_name + length - end, ending) == 0)
            snprintf(name, sizeof name, "%.*s", (int)(length - end), entry[i]->d_name);
        if (mr_is_model_name(name) && !has_name(list, name) && used + strlen(name) + 3 < bytes)
            snprintf(list + used, bytes - used, "%s%s", used ? ", " : "", name);
        free(entry[i]);
    }
    free(entry);
}

void mr_named_model_list(const char *ending, char *list, size_t bytes) {
    mr_model_folders *folders = calloc(1, sizeof *folders);
    list[0] = 0;
    if (!folders)
        return;
    mr_model_folders_find(folders);
    for (int i = 0; i < folders->count; i++)
        list_folder(folders->path[i], ending, list, bytes);
    free(folders);
}
