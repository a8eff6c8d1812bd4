#include "engine/base/temp_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "millrace/status.h"

/* Other programs can have folders with such names. A folder is ours if it holds this file, which the user locks. */
static const char prefix[] = "millrace-", pattern[] = "millrace-XXXXXX", mark[] = ".held";

/* ---- folders that others have left ----------------------------------------------------------------------------- */

/* True if no other user could have written into it. */
static bool is_own(const char *folder) {
    struct stat of;
    return !lstat(folder, &of) && S_ISDIR(of.st_mode) && of.st_uid == geteuid() &&
           !(of.st_mode & (S_IRWXG | S_IRWXO));
}

/* With the lock: nobody else removes it. */
static void remove_left(const char *folder) {
    char path[MR_TEMP_FOLDER_PATH + sizeof mark];
    snprintf(path, sizeof path, "%s/%s", folder, mark);
    int fd = is_own(folder) ? open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    if (!flock(fd, LOCK_EX | LOCK_NB))
        mr_file_remove_folder(folder);
    close(fd);
}

/* A process that is making such a folder at the moment will find it removed. */
static void remove_stale(const char *parent) {
    char folder[MR_TEMP_FOLDER_PATH];
    DIR *entries = opendir(parent);
    for (const struct dirent *entry; entries && (entry = readdir(entries));)
        if (strlen(entry->d_name) == sizeof pattern - 1 && strncmp(entry->d_name, prefix, sizeof prefix - 1) == 0 &&
            (size_t)snprintf(folder, sizeof folder, "%s/%s", parent, entry->d_name) < sizeof folder)
            remove_left(folder);
    if (entries)
        closedir(entries);
}

/* ---- one's own ------------------------------------------------------------------------------------------------- */

/* Makes a folder; if that fails, the name is empty. */
static bool make_folder(mr_temp_folder *temp, const char *parent) {
    int length = snprintf(temp->folder, sizeof temp->folder, "%s/%s", parent, pattern);
    errno = ENAMETOOLONG;
    if (length > 0 && (size_t)length < sizeof temp->folder && mkdtemp(temp->folder))
        return true;
    temp->folder[0] = '\0';
    return false;
}

/* Locks it. False: another process removed it as abandoned, or, with errno, it cannot be locked. */
static bool hold(mr_temp_folder *temp) {
    char path[MR_TEMP_FOLDER_PATH + sizeof mark];
    struct stat of;
    snprintf(path, sizeof path, "%s/%s", temp->folder, mark);
    temp->held = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
    errno = temp->held < 0 && errno == ENOENT ? 0 : errno;
    if (temp->held < 0 || flock(temp->held, LOCK_SH) || fstat(temp->held, &of))
        return false;
    errno = 0;
    return of.st_nlink > 0;
}

int mr_temp_folder_make(mr_temp_folder *temp, const char *parent) {
    const char *said = getenv("TMPDIR");
    if (!parent)
        parent = said && *said ? said : "/tmp";
    remove_stale(parent);
    for (;;) {
        *temp = (mr_temp_folder){.held = -1};
        if (make_folder(temp, parent) && hold(temp))
            return MR_OK;
        int error = errno;
        bool made = temp->folder[0];
        mr_temp_folder_remove(temp);
        if (!made || error)
            return mr_fail(MR_ERROR_IO, "cannot make a folder in %s: %s", parent, strerror(error));
    }
}

void mr_temp_folder_remove(mr_temp_folder *temp) {
    if (!temp->folder[0])
        return;
    mr_file_remove_folder(temp->folder);
    if (temp->held >= 0)
        close(temp->held);
    *temp = (mr_temp_folder){.held = -1};
}
