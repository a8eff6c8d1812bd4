#include "stages/video/video_keep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/memory.h"

typedef struct found {
    char name[MR_VIDEO_NAME];
    int64_t bytes, since_ns;
} found;

typedef struct listing {
    found *files;
    size_t count, room;
} listing;

static bool add(listing *list, const char *name, const struct stat *about) {
    if (list->count == list->room) {
        size_t room = 2 * list->room + 64;
        found *wider = mr_realloc(list->files, room * sizeof *wider);
        if (!wider)
            return false;
        list->files = wider;
        list->room = room;
    }
    found *file = &list->files[list->count++];
    *file = (found){.bytes = (int64_t)about->st_size,
                    .since_ns = (int64_t)about->st_mtim.tv_sec * 1000000000 + about->st_mtim.tv_nsec};
    snprintf(file->name, sizeof file->name, "%s", name);
    return true;
}

static int compare(const void *a, const void *b) {
    const found *first = a, *second = b;
    if (first->since_ns != second->since_ns)
        return first->since_ns < second->since_ns ? -1 : 1;
    return strcmp(first->name, second->name);
}

/* Files that are too many for the memory at hand are left for the next time. */
static listing look(const mr_video_keep *keep) {
    listing list = {0};
    DIR *folder = opendir(keep->names.folder);
    struct stat about;
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (strlen(entry->d_name) < MR_VIDEO_NAME &&
            mr_video_name_matches(entry->d_name, keep->names.pattern, keep->names.source, NULL) &&
            !fstatat(dirfd(folder), entry->d_name, &about, AT_SYMLINK_NOFOLLOW) && S_ISREG(about.st_mode) &&
            !add(&list, entry->d_name, &about))
            break;
    if (folder)
        closedir(folder);
    if (list.count)
        qsort(list.files, list.count, sizeof *list.files, compare);
    return list;
}

/* By another stage or program, whose file it then is. */
static bool is_being_written(const char *path) {
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool locked = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;
    if (fd >= 0)
        close(fd);
    return locked;
}

static void drop(const mr_video_keep *keep, const mr_stage *self, const char *name) {
    char path[MR_VIDEO_PATH];
    snprintf(path, sizeof path, "%s/%s", keep->names.folder, name);
    if (is_being_written(path))
        return;
    if (unlink(path) && errno != ENOENT) {
        mr_stage_warn(self, "%s cannot be removed: %s", path, strerror(errno));
        return;
    }
    mr_stage_info(self, "removed %s", path);
    if (!keep->beside)
        return;
    int stem = (int)(strlen(name) - strlen(mr_video_name_ending(name)));
    snprintf(path, sizeof path, "%s/%.*s%s", keep->names.folder, stem, name, keep->beside);
    unlink(path);
}

void mr_video_keep_apply(const mr_video_keep *keep, const mr_stage *self, const char *spared) {
    if (!keep->for_ns && !keep->bytes && !keep->files)
        return;
    listing list = look(keep);
    int64_t bytes = 0, now_ns = mr_clock_date_ns();
    size_t left = list.count;
    for (size_t i = 0; i < list.count; i++)
        bytes += list.files[i].bytes;
    for (size_t i = 0; i < list.count; i++) {
        const found *file = &list.files[i];
        bool goes = (keep->for_ns && now_ns - file->since_ns > keep->for_ns) || (keep->bytes && bytes > keep->bytes) ||
                    (keep->files && left > keep->files);
        if (!goes || (spared && strcmp(file->name, spared) == 0))
            continue;
        drop(keep, self, file->name);
        bytes -= file->bytes;
        left--;
    }
    mr_free(list.files);
}

uint64_t mr_video_keep_next(const mr_video_keep *keep) {
    uint64_t next = 0, number;
    DIR *folder = opendir(keep->names.folder);
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (mr_video_name_matches(entry->d_name, keep->names.pattern, keep->names.source, &number) && number >= next)
            next = number + 1;
    if (folder)
        closedir(folder);
    return next;
}
