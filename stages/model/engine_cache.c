#include "stages/model/engine_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/memory.h"
#include "engine/base/sha256.h"
#include "millrace/log.h"
#include "millrace/status.h"

enum { MOST_FILES = 256, MOST_LIST = 1 << 16, TRIES = 8 };
static const char list_name[] = "engines.list";
static const int64_t most_engine_bytes = INT64_C(16) << 30;

/* ---- sums -------------------------------------------------------------------------------------------------------- */

/* Each part is prefixed with its length, so that different lists cannot have the same bytes. */
static bool make_key(const mr_engine_part *parts, size_t count, char key[MR_ENGINE_KEY]) {
    char text[MR_SHA256_TEXT];
    mr_sha256 *sum;
    if (mr_sha256_begin(&sum))
        return false;
    for (size_t i = 0; i < count; i++) {
        uint64_t bytes = parts[i].bytes;
        mr_sha256_add(sum, &bytes, sizeof bytes);
        mr_sha256_add(sum, parts[i].data, parts[i].bytes);
    }
    mr_sha256_finish(&sum, text);
    snprintf(key, MR_ENGINE_KEY, "%.*s", MR_ENGINE_KEY - 1, text);
    return true;
}

/* Whether no other user can have created or can change it. */
static bool is_own(const struct stat *about) {
    return about->st_uid == geteuid() && !(about->st_mode & (S_IWGRP | S_IWOTH));
}

/* Writes "SUM BYTES NAME" for a regular file in the folder; false if it is not regular, or belongs to another user. */
static bool describe(int folder, const char *name, char *text, size_t bytes) {
    uint8_t data[1 << 14];
    struct stat about;
    char text_of_sum[MR_SHA256_TEXT];
    mr_sha256 *sum = NULL;
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool good = fd >= 0 && !fstat(fd, &about) && S_ISREG(about.st_mode) && is_own(&about) &&
                about.st_size <= most_engine_bytes;
    ssize_t some = -1; /* 0: everything was read */
    good = good && !mr_sha256_begin(&sum);
    while (good && (some = read(fd, data, sizeof data)) > 0)
        mr_sha256_add(sum, data, (size_t)some);
    mr_sha256_finish(&sum, good ? text_of_sum : NULL);
    if (some == 0)
        snprintf(text, bytes, "%s %lld %s\n", text_of_sum, (long long)about.st_size, name);
    if (fd >= 0)
        close(fd);
    return some == 0;
}

/* ---- folders ----------------------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* A folder's file names in order, without the list; -1 if it cannot be read or has too many. */
static int read_names(int folder, char **names) {
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), count = 0;
    DIR *entries = fd >= 0 ? fdopendir(fd) : NULL;
    if (!entries && fd >= 0)
        close(fd);
    for (const struct dirent *one; entries && count >= 0 && (one = readdir(entries));) {
        if (strcmp(one->d_name, ".") == 0 || strcmp(one->d_name, "..") == 0 || strcmp(one->d_name, list_name) == 0)
            continue;
        if (count == MOST_FILES || !(names[count] = mr_strdup(one->d_name)))
            break;
        count++;
    }
    if (entries)
        closedir(entries);
    if (count > 0)
        qsort(names, (size_t)count, sizeof *names, by_name);
    return entries ? count : -1;
}

/* Makes the list that the folder should have. 0: the folder is empty; -1: it cannot be read. */
static int write_list(const char *key, int folder, char *text) {
    char *names[MOST_FILES];
    int count = read_names(folder, names), used = snprintf(text, MOST_LIST, "millrace engines %s\n", key);
    bool good = count >= 0 && count < MOST_FILES;
    for (int i = 0; i < count; i++) {
        good = good && describe(folder, names[i], text + used, (size_t)(MOST_LIST - used));
        used += good ? (int)strlen(text + used) : 0;
        good = good && used < MOST_LIST - 1;
        mr_free(names[i]);
    }
    return !good ? -1 : count ? used : 0;
}

/* Whether the folder holds complete engines for this key, written by this user. */
static bool is_whole(const char *key, const char *path) {
    struct stat about;
    mr_file_bytes list = {0};
    char where[PATH_MAX + 16], *wanted = mr_calloc(1, MOST_LIST);
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), used = -1;
    bool own = wanted && folder >= 0 && !fstat(folder, &about) && is_own(&about);
    snprintf(where, sizeof where, "%s/%s", path, list_name);
    if (own && !mr_file_read("the list of engines", where, MOST_LIST, 0, &list))
        used = write_list(key, folder, wanted);
    bool whole = used > 0 && (size_t)used == list.bytes && memcmp(wanted, list.data, list.bytes) == 0;
    if (folder >= 0)
        close(folder);
    mr_free(list.data);
    mr_free(wanted);
    return whole;
}

/* Removes only files: a runtime creates no folders. */
static void remove_folder(const char *path) {
    char *names[MOST_FILES];
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), count = MOST_FILES;
    while (folder >= 0 && count == MOST_FILES) {
        count = read_names(folder, names);
        for (int i = 0; i < count; i++) {
            unlinkat(folder, names[i], 0);
            mr_free(names[i]);
        }
    }
    if (folder >= 0) {
        unlinkat(folder, list_name, 0);
        close(folder);
    }
    if (rmdir(path) && errno != ENOENT)
        mr_log(MR_LOG_WARNING, "cannot remove %s: %s", path, strerror(errno));
}

static void path_of_key(const mr_engine_cache *cache, char path[PATH_MAX + MR_ENGINE_KEY]) {
    snprintf(path, PATH_MAX + MR_ENGINE_KEY, "%s/%s", cache->base, cache->key);
}

/* Renames before removing, so that no other process can open it. */
static void remove_kept(const mr_engine_cache *cache) {
    char path[PATH_MAX + MR_ENGINE_KEY], other[PATH_MAX + MR_ENGINE_KEY + 8];
    path_of_key(cache, path);
    snprintf(other, sizeof other, "%s.XXXXXX", path);
    if (!mkdtemp(other))
        return;
    if (rename(path, other) == 0)
        remove_folder(other);
    else if (rmdir(other) == 0 && errno != ENOENT && unlink(path))
        mr_log(MR_LOG_WARNING, "cannot remove %s: %s", path, strerror(errno));
}

/* ---- a folder of this process's own ------------------------------------------------------------------------------ */

/* Removes folders that dead processes left: they are not locked. */
static void remove_abandoned(const mr_engine_cache *cache) {
    char path[2 * PATH_MAX];
    DIR *entries = opendir(cache->base);
    for (const struct dirent *one; entries && (one = readdir(entries));) {
        if (strncmp(one->d_name, cache->key, MR_ENGINE_KEY - 1) != 0 || one->d_name[MR_ENGINE_KEY - 1] != '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", cache->base, one->d_name);
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
            remove_folder(path);
        if (fd >= 0)
            close(fd);
    }
    if (entries)
        closedir(entries);
}

/* Must lock before another process takes it for abandoned; if it was removed by then, makes another. */
static bool make_own(mr_engine_cache *cache) {
    struct stat here, there;
    for (int i = 0; i < TRIES; i++) {
        int used = snprintf(cache->folder, sizeof cache->folder, "%s/%s.XXXXXX", cache->base, cache->key);
        if (used >= PATH_MAX || !mkdtemp(cache->folder))
            break;
        cache->lock = open(cache->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (cache->lock >= 0 && flock(cache->lock, LOCK_EX | LOCK_NB) == 0 && !fstat(cache->lock, &here) &&
            !stat(cache->folder, &there) && here.st_ino == there.st_ino)
            return true;
        if (cache->lock >= 0)
            close(cache->lock);
        cache->lock = -1;
    }
    mr_log(MR_LOG_WARNING, "engines are not kept: cannot make a folder in %s: %s", cache->base, strerror(errno));
    cache->folder[0] = cache->base[0] = 0;
    return false;
}

/* ---- the base ---------------------------------------------------------------------------------------------------- */

static bool choose_base(mr_engine_cache *cache, const char *base) {
    if (base && strcmp(base, "-") == 0)
        return false;
    if (!mr_file_cache_folder("engines", base, 0700, cache->base, sizeof cache->base))
        return true;
    mr_log(MR_LOG_WARNING, "engines are not kept: %s; name another folder as engine_cache", mr_message());
    cache->base[0] = 0;
    return false;
}

/* ---- together ---------------------------------------------------------------------------------------------------- */

void mr_engine_cache_open(mr_engine_cache *cache, const char *base, const mr_engine_part *parts, size_t count) {
    char path[PATH_MAX + MR_ENGINE_KEY];
    struct stat about;
    *cache = (mr_engine_cache){.lock = -1};
    if (!choose_base(cache, base) || !make_key(parts, count, cache->key)) {
        cache->base[0] = 0;
        return;
    }
    path_of_key(cache, path);
    remove_abandoned(cache);
    cache->kept = strlen(path) < PATH_MAX && is_whole(cache->key, path);
    if (cache->kept) {
        snprintf(cache->folder, sizeof cache->folder, "%.*s", PATH_MAX - 1, path);
        mr_log(MR_LOG_INFO, "engines are taken from %s", path);
        return;
    }
    if (lstat(path, &about) == 0) {
        mr_log(MR_LOG_WARNING, "the engines in %s are damaged, or belong to another user: they are rebuilt", path);
        remove_kept(cache);
    }
    make_own(cache);
}

/* Files may have been created writable for others. */
static void close_to_others(int folder) {
    char *names[MOST_FILES];
    int count = read_names(folder, names);
    for (int i = 0; i < count; i++) {
        if (fchmodat(folder, names[i], 0600, 0))
            mr_log(MR_LOG_WARNING, "others may be able to write the engine file %s: %s", names[i], strerror(errno));
        mr_free(names[i]);
    }
}

void mr_engine_cache_keep(mr_engine_cache *cache) {
    char path[PATH_MAX + MR_ENGINE_KEY], where[PATH_MAX + 16], *text = mr_calloc(1, MOST_LIST);
    if (!text || cache->lock < 0 || cache->kept) {
        mr_free(text);
        return;
    }
    path_of_key(cache, path);
    close_to_others(cache->lock);
    int used = write_list(cache->key, cache->lock, text);
    snprintf(where, sizeof where, "%s/%s", cache->folder, list_name);
    if (used > 0 && mr_file_replace(where, text, (size_t)used))
        mr_log(MR_LOG_WARNING, "engines are not kept: %s", mr_message());
    else if (used > 0 && rename(cache->folder, path) == 0) {
        mr_log(MR_LOG_INFO, "engines are kept in %s", path);
        snprintf(cache->folder, sizeof cache->folder, "%.*s", PATH_MAX - 1, path);
        cache->kept = true;
        close(cache->lock);
        cache->lock = -1;
    } else if (used > 0 && errno != EEXIST && errno != ENOTEMPTY)
        mr_log(MR_LOG_WARNING, "engines are not kept: cannot make %s: %s", path, strerror(errno));
    mr_free(text);
}

void mr_engine_cache_discard(mr_engine_cache *cache) {
    if (!cache->kept)
        return;
    remove_kept(cache);
    cache->kept = false;
    make_own(cache);
}

void mr_engine_cache_close(mr_engine_cache *cache) {
    if (cache->base[0] && cache->folder[0] && !cache->kept && cache->lock >= 0) {
        remove_folder(cache->folder);
        close(cache->lock);
    }
    *cache = (mr_engine_cache){.lock = -1};
}
