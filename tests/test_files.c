/* Files that are replaced whole, and folders that do not outlive who made them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/aside.h"
#include "engine/base/file.h"
#include "millrace/status.h"

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
    (void)state;
    return mkdtemp(scratch) ? 0 : -1;
}

static int remove_scratch(void **state) {
    (void)state;
    return rmdir(scratch);
}

/* ---- files ----------------------------------------------------------------------------------------------------- */

static void a_file_is_replaced_whole_or_not_at_all(void **state) {
    (void)state;
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

/* ---- folders --------------------------------------------------------------------------------------------------- */

/* Makes one as a process does that is killed. */
static void leave(char folder[MR_ASIDE]) {
    int ends[2], ended;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        mr_aside aside;
        if (mr_aside_make(&aside, scratch) || write(ends[1], aside.folder, MR_ASIDE) != MR_ASIDE)
            _exit(1);
        kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFSIGNALED(ended));
    assert_int_equal(read(ends[0], folder, MR_ASIDE), MR_ASIDE);
    close(ends[0]);
    close(ends[1]);
}

static void what_killed_ones_leave_is_removed(void **state) {
    (void)state;
    char left[MR_ASIDE], inside[MR_ASIDE + 16];
    mr_aside aside;
    leave(left);
    snprintf(inside, sizeof inside, "%s/deeper", left);
    assert_int_equal(mkdir(inside, 0700), 0);
    assert_int_equal(mr_aside_make(&aside, scratch), MR_OK);
    assert_false(exists(left));
    assert_true(exists(aside.folder));
    mr_aside_remove(&aside);
    assert_string_equal(aside.folder, "");
    mr_aside_remove(&aside);
}

static void what_is_held_stays(void **state) {
    (void)state;
    mr_aside first, second;
    struct stat of;
    assert_int_equal(mr_aside_make(&first, scratch), MR_OK);
    assert_int_equal(mr_aside_make(&second, scratch), MR_OK);
    assert_int_equal(stat(first.folder, &of), 0);
    assert_int_equal(of.st_mode & 0777, 0700);
    assert_string_not_equal(first.folder, second.folder);
    mr_aside_remove(&first);
    assert_string_equal(first.folder, "");
    assert_true(exists(second.folder));
    mr_aside_remove(&second);
}

/* A folder that only looks like one, and one that others may write into. */
static void what_is_not_ours_stays(void **state) {
    (void)state;
    char left[MR_ASIDE];
    mr_aside aside;
    leave(left);
    assert_int_equal(chmod(left, 0770), 0);
    assert_int_equal(mkdir(in_scratch("millrace-backup"), 0700), 0);
    assert_int_equal(mr_aside_make(&aside, scratch), MR_OK);
    assert_true(exists(left));
    assert_true(exists(in_scratch("millrace-backup")));
    assert_int_equal(chmod(left, 0700), 0);
    mr_aside_remove(&aside);
    assert_int_equal(mr_aside_make(&aside, scratch), MR_OK);
    assert_false(exists(left));
    mr_aside_remove(&aside);
    assert_int_equal(rmdir(in_scratch("millrace-backup")), 0);
}

static void where_none_can_be_made_it_says_so(void **state) {
    (void)state;
    mr_aside aside;
    assert_int_equal(mr_aside_make(&aside, in_scratch("nowhere")), MR_ERROR_IO);
    assert_non_null(strstr(mr_message(), "nowhere: No such file or directory"));
    mr_aside_remove(&aside);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_replaced_whole_or_not_at_all),
        cmocka_unit_test(what_killed_ones_leave_is_removed),
        cmocka_unit_test(what_is_held_stays),
        cmocka_unit_test(what_is_not_ours_stays),
        cmocka_unit_test(where_none_can_be_made_it_says_so),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
