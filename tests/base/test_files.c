/* Files that are replaced whole, and folders that do not outlive who made them. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/temp_folder.h"
#include "engine/base/file.h"
#include "engine/base/memory.h"
#include "engine/base/sha256.h"
#include "millrace/status.h"
#include "tests/support/suite.h"

static char scratch[] = "/tmp/test_files-XXXXXX";

static const char *in_scratch(const char *name) {
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", scratch, name);
    return path;
}

static bool exists(const char *path) {
    return access(path, F_OK) == 0;
}

static int make_scratch(void **state) {
    return mkdtemp(scratch) ? 0 : -1;
}

static int remove_scratch(void **state) {
    return rmdir(scratch);
}

/* ---- files ----------------------------------------------------------------------------------------------------- */

/* A node that ends for lack of descriptors is restarted; a node without a pipeline file is not. */
TEST(want_of_descriptors_is_no_missing_file) {
    struct rlimit before;
    char sum[MR_SHA256_TEXT];
    mr_file_bytes bytes;
    assert_int_equal(mr_file_replace(in_scratch("there"), "old", 3), MR_OK);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    const struct rlimit none = {0, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    const int summed = mr_sha256_file(in_scratch("there"), sum), read = mr_file_read("it", in_scratch("there"), 9, 0,
                                                                                     &bytes);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(summed, MR_ERROR_MEMORY);
    assert_int_equal(read, MR_ERROR_MEMORY);
    assert_int_equal(mr_sha256_file(in_scratch("none"), sum), MR_ERROR_NO_INPUT);
    assert_int_equal(mr_sha256_file(in_scratch("there/none"), sum), MR_ERROR_NO_INPUT);
    assert_int_equal(unlink(in_scratch("there")), 0);
}

TEST(a_file_is_replaced_whole_or_not_at_all) {
    const struct rlimit small = {.rlim_cur = 100, .rlim_max = 100};
    char read[8] = "", large[1000] = "";
    assert_int_equal(mr_file_replace(in_scratch("place"), "old", 3), MR_OK);
    int ended;
    pid_t child = fork();
    if (child == 0) {
        signal(SIGXFSZ, SIG_IGN);
        bool full = !setrlimit(RLIMIT_FSIZE, &small) &&
                    mr_file_replace(in_scratch("place"), large, sizeof large) == MR_ERROR_IO;
        _exit(full ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_int_equal(ended, 0);
    FILE *file = fopen(in_scratch("place"), "r");
    assert_non_null(file);
    assert_int_equal(fread(read, 1, sizeof read, file), 3);
    fclose(file);
    assert_string_equal(read, "old");
    assert_false(exists(in_scratch("place.part")));
    assert_int_equal(unlink(in_scratch("place")), 0);
}

/* As root, which may rename a file onto a device: a FIFO stands for one. */
TEST(what_is_no_file_is_not_replaced) {
    char place[256];
    struct stat found;
    snprintf(place, sizeof place, "%s", in_scratch("place"));
    assert_int_equal(mkfifo(place, 0600), 0);
    assert_int_equal(mr_file_replace(place, "new", 3), MR_ERROR_IO);
    assert_non_null(strstr(mr_message(), "place is not a regular file"));
    assert_int_equal(stat(place, &found), 0);
    assert_true(S_ISFIFO(found.st_mode));
    assert_false(exists(in_scratch("place.part")));
    assert_int_equal(symlink(place, in_scratch("link")), 0);
    assert_int_equal(mr_file_can_replace(in_scratch("link")), MR_ERROR_IO);
    assert_int_equal(unlink(in_scratch("link")), 0);
    assert_int_equal(unlink(place), 0);
    assert_int_equal(mr_file_can_replace(scratch), MR_ERROR_IO);
    assert_int_equal(mr_file_can_replace(place), MR_OK);
}

/* Otherwise, whoever can write into the folder could make this user's process empty another file. */
TEST(what_stands_beside_is_not_written_through) {
    char victim[256], part[256], text[8] = "";
    snprintf(victim, sizeof victim, "%s", in_scratch("victim"));
    snprintf(part, sizeof part, "%s", in_scratch("place.part"));
    assert_int_equal(mr_file_replace(victim, "mine", 4), MR_OK);
    assert_int_equal(symlink(victim, part), 0);
    assert_int_equal(mr_file_replace(in_scratch("place"), "new", 3), MR_OK);
    mr_file_bytes read = {0};
    assert_int_equal(mr_file_read("it", victim, 100, 0, &read), MR_OK);
    assert_string_equal((char *)read.data, "mine");
    mr_free(read.data);
    assert_int_equal(readlink(in_scratch("place"), text, sizeof text), -1);
    /* What a killed process has left is in nobody's way. */
    FILE *stale = fopen(part, "w");
    assert_non_null(stale);
    assert_true(fputs("a longer one that was never finished", stale) >= 0);
    fclose(stale);
    assert_int_equal(mr_file_replace(in_scratch("place"), "newer", 5), MR_OK);
    assert_int_equal(mr_file_read("it", in_scratch("place"), 100, 0, &read), MR_OK);
    assert_string_equal((char *)read.data, "newer");
    mr_free(read.data);
    assert_int_equal(mkdir(part, 0700), 0);
    assert_int_not_equal(mr_file_replace(in_scratch("place"), "x", 1), MR_OK);
    assert_non_null(strstr(mr_message(), "place.part"));
    assert_int_equal(rmdir(part), 0);
    assert_int_equal(unlink(in_scratch("place")), 0);
    assert_int_equal(unlink(victim), 0);
}

TEST(a_lock_has_one_owner_at_a_time) {
    char path[256], owner[32];
    int mine = -1, other = -1, ended, ends[2];
    snprintf(path, sizeof path, "%s", in_scratch("kept"));
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        int held = -1;
        if (mr_file_lock(path, &held) || write(ends[1], "x", 1) != 1)
            _exit(1);
        pause();
    }
    assert_int_equal(read(ends[0], owner, 1), 1);
    assert_int_equal(mr_file_lock(path, &mine), MR_ERROR_IO);
    snprintf(owner, sizeof owner, "(process %d)", (int)child);
    assert_non_null(strstr(mr_message(), owner));
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &ended, 0), child);
    /* The lock ended with the owner; the file is still there. */
    assert_true(exists(in_scratch("kept.lock")));
    assert_int_equal(mr_file_lock(path, &mine), MR_OK);
    errno = 0;
    assert_int_equal(mr_file_lock(path, &other), MR_ERROR_IO);
    assert_int_equal(errno, EWOULDBLOCK);
    mr_file_unlock(path, mine);
    assert_false(exists(in_scratch("kept.lock")));
    assert_int_equal(mr_file_lock(path, &mine), MR_OK);
    mr_file_unlock(path, mine);
    assert_int_equal(symlink("/dev/null", in_scratch("kept.lock")), 0);
    assert_int_equal(mr_file_lock(path, &mine), MR_ERROR_IO);
    assert_int_not_equal(errno, EWOULDBLOCK);
    assert_int_equal(unlink(in_scratch("kept.lock")), 0);
    close(ends[0]);
    close(ends[1]);
}

TEST(files_are_read_whole_or_not_at_all) {
    mr_file_bytes read = {0};
    assert_int_equal(mr_file_replace(in_scratch("whole"), "12345", 5), MR_OK);
    assert_int_equal(mr_file_read("the thing", in_scratch("whole"), 5, 10, &read), MR_OK);
    assert_int_equal(read.bytes, 5);
    assert_string_equal((char *)read.data, "12345");
    memset(read.data + 5, 'x', 10);
    mr_free(read.data);
    assert_int_equal(mr_file_read("the thing", in_scratch("whole"), 4, 0, &read), MR_ERROR_DATA);
    assert_non_null(strstr(mr_message(), "has 5 bytes, and at most 4 are read"));
    assert_int_equal(unlink(in_scratch("whole")), 0);
    assert_int_equal(mr_file_read("the thing", in_scratch("whole"), 5, 0, &read), MR_ERROR_NO_INPUT);
    assert_int_equal(mr_file_read("the thing", scratch, 5, 0, &read), MR_ERROR_DATA);
    assert_non_null(strstr(mr_message(), "the thing"));
    assert_non_null(strstr(mr_message(), "is a folder"));
    assert_int_equal(mkfifo(in_scratch("whole"), 0600), 0);
    assert_int_equal(mr_file_read("the thing", in_scratch("whole"), 5, 0, &read), MR_ERROR_DATA);
    assert_int_equal(unlink(in_scratch("whole")), 0);
}

/* ---- folders --------------------------------------------------------------------------------------------------- */

/* Makes one as a process does that is killed. */
static void leave(char folder[MR_TEMP_FOLDER_PATH]) {
    int ends[2], ended;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        mr_temp_folder temp;
        if (mr_temp_folder_make(&temp, scratch) ||
            write(ends[1], temp.folder, MR_TEMP_FOLDER_PATH) != MR_TEMP_FOLDER_PATH)
            _exit(1);
        kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFSIGNALED(ended));
    assert_int_equal(read(ends[0], folder, MR_TEMP_FOLDER_PATH), MR_TEMP_FOLDER_PATH);
    close(ends[0]);
    close(ends[1]);
}

TEST(what_killed_ones_leave_is_removed) {
    char left[MR_TEMP_FOLDER_PATH], inside[MR_TEMP_FOLDER_PATH + 16];
    mr_temp_folder temp;
    leave(left);
    snprintf(inside, sizeof inside, "%s/deeper", left);
    assert_int_equal(mkdir(inside, 0700), 0);
    assert_int_equal(mr_temp_folder_make(&temp, scratch), MR_OK);
    assert_false(exists(left));
    assert_true(exists(temp.folder));
    mr_temp_folder_remove(&temp);
    assert_string_equal(temp.folder, "");
    mr_temp_folder_remove(&temp);
}

TEST(what_is_held_stays) {
    mr_temp_folder first, second;
    struct stat of;
    assert_int_equal(mr_temp_folder_make(&first, scratch), MR_OK);
    assert_int_equal(mr_temp_folder_make(&second, scratch), MR_OK);
    assert_int_equal(stat(first.folder, &of), 0);
    assert_int_equal(of.st_mode & 0777, 0700);
    assert_string_not_equal(first.folder, second.folder);
    mr_temp_folder_remove(&first);
    assert_string_equal(first.folder, "");
    assert_true(exists(second.folder));
    mr_temp_folder_remove(&second);
}

/* A folder that only looks like one, and one that others may write into. */
TEST(what_is_not_ours_stays) {
    char left[MR_TEMP_FOLDER_PATH];
    mr_temp_folder temp;
    leave(left);
    assert_int_equal(chmod(left, 0770), 0);
    assert_int_equal(mkdir(in_scratch("millrace-backup"), 0700), 0);
    assert_int_equal(mr_temp_folder_make(&temp, scratch), MR_OK);
    assert_true(exists(left));
    assert_true(exists(in_scratch("millrace-backup")));
    assert_int_equal(chmod(left, 0700), 0);
    mr_temp_folder_remove(&temp);
    assert_int_equal(mr_temp_folder_make(&temp, scratch), MR_OK);
    assert_false(exists(left));
    mr_temp_folder_remove(&temp);
    assert_int_equal(rmdir(in_scratch("millrace-backup")), 0);
}

TEST(where_none_can_be_made_it_says_so) {
    ENDED_BY(mr_temp_folder_remove) mr_temp_folder temp;
    assert_int_equal(mr_temp_folder_make(&temp, in_scratch("nowhere")), MR_ERROR_IO);
    assert_non_null(strstr(mr_message(), "nowhere: No such file or directory"));
}

/* The user's own folder may be missing, or be nobody's. */
TEST(folders_that_cannot_be_made) {
    char folder[PATH_MAX];
    setenv("XDG_STATE_HOME", "/proc/nowhere", 1);
    assert_int_equal(mr_file_state_folder("runs", folder, sizeof folder), MR_ERROR_IO);
    assert_string_equal(mr_message(), "cannot make /proc/nowhere: No such file or directory: set XDG_STATE_HOME to a "
                                      "folder that you may write");
    unsetenv("XDG_STATE_HOME");
    setenv("HOME", "", 1);
    assert_int_equal(mr_file_state_folder("runs", folder, sizeof folder), MR_ERROR_IO);
    assert_string_equal(mr_message(), "neither XDG_STATE_HOME nor HOME names a folder: set XDG_STATE_HOME to one");
}

RUN_TESTS(make_scratch, remove_scratch)
