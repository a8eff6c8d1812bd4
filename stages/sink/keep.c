#include "stages/sink/keep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/grow.h"
#include "engine/base/memory.h"

static const char attribute[] = "user.millrace.source";
enum { MOST_MARK = 1024 };

/* ---- own files --------------------------------------------------------------------------------------------------- */

static size_t print_mark(char mark[MOST_MARK], const mr_stage *self) {
    int length = snprintf(mark, MOST_MARK, "%s\n%s\n%s", mr_stage_pipeline(self), self->id,
                          self->source_id ? self->source_id : "");
    return length < MOST_MARK ? (size_t)length : MOST_MARK - 1;
}

void mr_keep_mark(const mr_stage *self, int fd) {
    char mark[MOST_MARK];
    struct stat about;
    if (!fstat(fd, &about) && S_ISREG(about.st_mode) && fsetxattr(fd, attribute, mark, print_mark(mark, self), 0))
        mr_stage_info(self, "the file system keeps no mark of whose its files are: %s", strerror(errno));
}

typedef enum mark { UNMARKED, OWN, FOREIGN } mark;

static mark read_mark(const mr_stage *self, int folder, const char *name) {
    char found[MOST_MARK], own[MOST_MARK];
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    ssize_t bytes = fd < 0 ? -1 : fgetxattr(fd, attribute, found, sizeof found);
    bool foreign = fd < 0 ? errno != ENOENT : bytes < 0 && errno == ERANGE;
    if (fd >= 0)
        close(fd);
    if (bytes < 0)
        return foreign ? FOREIGN : UNMARKED;
    size_t length = print_mark(own, self);
    return (size_t)bytes == length && memcmp(found, own, length) == 0 ? OWN : FOREIGN;
}

/* Another source in the pipeline, whose id begins with this one's, may have written it. */
static bool may_be_of_another(const mr_keep *keep, const mr_stage *self, const char *name) {
    const char *id;
    if (!keep->names.source)
        return false;
    size_t length = strlen(keep->names.source);
    for (uint32_t source = 0; (id = mr_stage_source_at(self, source)); source++)
        if (strlen(id) > length && mr_file_name_has_source(name, keep->names.pattern, id))
            return true;
    return false;
}

bool mr_keep_is_own(mr_keep *keep, const mr_stage *self, int folder, const char *name, uint64_t *number) {
    mr_file_name_parts parts;
    if (!mr_file_name_matches(name, keep->names.pattern, keep->names.source, &parts))
        return false;
    mark found = read_mark(self, folder, name);
    bool unsure = found == UNMARKED && (parts.again || may_be_of_another(keep, self, name));
    if (unsure && !keep->passed_over) {
        mr_stage_info(self, "%s/%s has no mark, and may be of another source: it stays", keep->names.folder, name);
        keep->passed_over = true;
    }
    if (found == FOREIGN || unsure)
        return false;
    if (number)
        *number = parts.number;
    return true;
}

/* ---- the folder -------------------------------------------------------------------------------------------------- */

typedef struct found {
    char name[MR_OUTPUT_NAME];
    int64_t bytes, since_ns;
} found;

typedef struct listing {
    found *files;
    size_t count, room;
} listing;

static bool add(listing *list, const char *name, const struct stat *about) {
    if (!mr_grow((void **)&list->files, list->count, &list->room, sizeof *list->files))
        return false;
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

/* If memory is short, the remaining files are left for the next time. */
static listing look(mr_keep *keep, const mr_stage *self) {
    listing list = {0};
    DIR *folder = opendir(keep->names.folder);
    struct stat about;
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (strlen(entry->d_name) < MR_OUTPUT_NAME &&
            mr_keep_is_own(keep, self, dirfd(folder), entry->d_name, NULL) &&
            !fstatat(dirfd(folder), entry->d_name, &about, AT_SYMLINK_NOFOLLOW) && S_ISREG(about.st_mode) &&
            !add(&list, entry->d_name, &about))
            break;
    if (folder)
        closedir(folder);
    if (list.count)
        qsort(list.files, list.count, sizeof *list.files, compare);
    return list;
}

/* Whether another stage or program is writing it: the file is then theirs. */
static bool is_being_written(const char *path) {
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool locked = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;
    if (fd >= 0)
        close(fd);
    return locked;
}

static void drop(const mr_keep *keep, const mr_stage *self, const char *name) {
    char path[MR_OUTPUT_PATH];
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
    int stem = (int)(strlen(name) - strlen(mr_file_name_ending(name)));
    snprintf(path, sizeof path, "%s/%.*s%s", keep->names.folder, stem, name, keep->beside);
    unlink(path);
}

void mr_keep_apply(mr_keep *keep, const mr_stage *self, const char *spared) {
    if (!keep->for_ns && !keep->bytes && !keep->files)
        return;
    listing list = look(keep, self);
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

uint64_t mr_keep_next(mr_keep *keep, const mr_stage *self) {
    uint64_t next = 0, number;
    DIR *folder = opendir(keep->names.folder);
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (mr_keep_is_own(keep, self, dirfd(folder), entry->d_name, &number) && number >= next)
            next = number + 1;
    if (folder)
        closedir(folder);
    return next;
}
