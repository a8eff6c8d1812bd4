#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "millrace/status.h"
#include "tests/support/suite.h"
#include "tests/support/temporary.h"

TEST(a_simulated_clock_stands_until_it_is_set) {
    mr_clock *clock;
    assert_int_equal(mr_clock_create_simulated(&clock, 5), 0);
    usleep(1000);
    assert_int_equal(mr_clock_now_ns(clock), 5);
    mr_clock_set_ns(clock, 100);
    assert_int_equal(mr_clock_now_ns(clock), 100);
    mr_clock_destroy(&clock);
    assert_null(clock);
}

TEST(the_date_is_the_clock_and_its_offset) {
    mr_clock *clock;
    assert_int_equal(mr_clock_create_simulated(&clock, 0), 0);
    const mr_clock *const both[] = {mr_clock_real(), clock};
    for (size_t i = 0; i < 2; i++) {
        int64_t within_ns;
        const int64_t least_ns = mr_clock_date_ns() - mr_clock_now_ns(both[i]); /* the date, read too early */
        const int64_t offset_ns = mr_clock_offset_ns(both[i], &within_ns), now_ns = mr_clock_now_ns(both[i]);
        assert_true(within_ns >= 0 && least_ns - within_ns <= offset_ns);
        assert_true(offset_ns - within_ns <= mr_clock_date_ns() - now_ns);
    }
    mr_clock_destroy(&clock);
}

TEST(the_real_clock_measures_sleep) {
    int64_t before = mr_now_ns();
    usleep(2000);
    int64_t slept = mr_now_ns() - before;
    assert_in_range(slept, 2000000, 1000000000000);
}

TEST(allocations_are_counted) {
    uint64_t before = mr_allocation_count();
    void *a = mr_alloc(10), *b = mr_calloc(3, 4), *c = mr_alloc_aligned(256, 100);
    char *d = mr_strdup("text");
    a = mr_realloc(a, 20);
    assert_string_equal(d, "text");
    assert_memory_equal(b, "\0\0\0\0\0\0\0\0\0\0\0\0", 12);
    assert_int_equal((uintptr_t)c % 256, 0);
    assert_int_equal(mr_allocation_count() - before, 5);
    mr_free(a);
    mr_free(b);
    mr_free(c);
    mr_free(d);
    mr_free(NULL);
    assert_int_equal(mr_allocation_count() - before, 5);
}

/* Otherwise the system would also provide the second block, and mallinfo2 would count it. */
TEST(what_is_freed_is_kept_where_that_was_asked_for) {
#if defined __GLIBC__ && !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
    const size_t bytes = 8 << 20;
    mr_memory_keep(2 * bytes);
    mr_memory_keep(1);
    const size_t mapped = mallinfo2().hblkhd;
    for (int i = 0; i < 2; i++) {
        void *block = mr_alloc(bytes);
        assert_non_null(block);
        assert_int_equal(mallinfo2().hblkhd, mapped);
        mr_free(block);
        assert_true(mallinfo2().fordblks >= bytes);
    }
#else
    skip();
#endif
}

/* What an engine thread writes without readers and beyond a limit, and how that fails. */
static void *write_in_vain(void *context) {
    int *errors = context, ends[2];
    FILE *file = tmpfile();
    if (!file || pipe(ends))
        return NULL;
    close(ends[0]);
    for (int i = 0; i < 2; i++)
        errors[i] = write(i ? fileno(file) : ends[1], "text", 4) < 0 ? errno : 0;
    close(ends[1]);
    fclose(file);
    return NULL;
}

/* In a separate process, which both signals would end. */
TEST(failed_writes_raise_no_signals) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        int errors[2] = {0};
        pthread_t thread;
        const struct rlimit none = {.rlim_cur = 0, .rlim_max = RLIM_INFINITY};
        signal(SIGPIPE, SIG_DFL);
        signal(SIGXFSZ, SIG_DFL);
        if (setrlimit(RLIMIT_FSIZE, &none) || mr_thread_create(&thread, write_in_vain, errors))
            _exit(2);
        pthread_join(thread, NULL);
        _exit(errors[0] != EPIPE || errors[1] != EFBIG);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void *nothing(void *context) {
    return context;
}

/* Returns 0 if the filter is in force. */
static int forbid_clone3(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

/* A container under a filter that is older than the C library, which then gets EPERM and no ENOSYS. */
TEST(threads_that_a_filter_forbids) {
    enum { NO_FILTER = 9 };
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        if (forbid_clone3())
            _exit(NO_FILTER);
        const int error = mr_thread_create(&thread, nothing, NULL);
        if (!error) /* a C library without clone3, or a sanitizer's */
            _exit(NO_FILTER);
        const int failed = mr_thread_fail(error, "a thread for %s", "decode");
        _exit(failed != MR_ERROR_PERMISSION || !strstr(mr_message(), "cannot start a thread for decode: the filter of "
                                                                     "system calls (seccomp)"));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == NO_FILTER)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void put(const char *root, const char *folder, const char *file, const char *text) {
    char path[512];
    int used = snprintf(path, sizeof path, "%s", root);
    for (const char *end = folder; *end;) {
        end += 1 + strcspn(end + 1, "/");
        snprintf(path + used, sizeof path - (size_t)used, "%.*s", (int)(end - folder), folder);
        mkdir(path, 0755);
    }
    size_t length = strlen(path);
    snprintf(path + length, sizeof path - length, "/%s", file);
    FILE *stream = fopen(path, "w");
    assert_non_null(stream);
    fputs(text, stream);
    fclose(stream);
}

static int cores_of(const char *root, const char *membership) {
    char path[512];
    put(root, "", "membership", membership);
    snprintf(path, sizeof path, "%s/membership", root);
    return mr_cgroup_cores(path, root);
}

TEST_WITH(control_groups_limit_cores, make_temporary_folder, remove_temporary_folder) {
    const char *root = temporary_folder;
    put(root, "/a/b", "cpu.max", "max 100000\n");
    assert_int_equal(cores_of(root, "0::/a/b\n"), 0);
    put(root, "/a/b", "cpu.max", "250000 100000\n");
    assert_int_equal(cores_of(root, "0::/a/b\n"), 3);
    put(root, "/a", "cpu.max", "200000 100000\n");
    assert_int_equal(cores_of(root, "0::/a/b\n"), 2);
    put(root, "", "cpu.max", "50000 100000\n");
    assert_int_equal(cores_of(root, "0::/hidden/from/us\n"), 1);
    put(root, "/cpu/box", "cpu.cfs_quota_us", "400000\n");
    put(root, "/cpu/box", "cpu.cfs_period_us", "100000\n");
    assert_int_equal(cores_of(root, "7:cpuset:/box\n4:cpu,cpuacct:/box\n"), 4);
    assert_int_equal(cores_of(root, "4:cpuacct,cpuset:/box\n"), 0);
    put(root, "/cpu/box", "cpu.cfs_quota_us", "-1\n");
    assert_int_equal(cores_of(root, "4:cpuacct,cpu:/box\n"), 0);
    assert_int_equal(cores_of(root, "nonsense\n"), 0);
    assert_int_equal(mr_cgroup_cores("/nowhere/at/all", root), 0);
}

TEST(affinity_limits_cores) {
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    assert_in_range(mr_usable_cores(), 1, CPU_COUNT(&before));
    size_t first = 0;
    while (!CPU_ISSET(first, &before))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(mr_usable_cores(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

TEST(the_process_is_measured) {
    size_t bytes = 64 << 20;
    double before = mr_process_cpu_s();
    char *block = malloc(bytes);
    assert_non_null(block);
    for (int i = 0; i < 4; i++)
        memset(block, i, bytes);
    assert_int_equal(block[bytes - 1], 3);
    free(block);
    assert_true(mr_process_cpu_s() > before);
    assert_true(mr_process_peak_bytes() > bytes);
}

/* This program has a separate peak if a process with a hundred megabytes starts it. */
TEST(the_peak_is_not_that_of_another_process) {
    enum { BYTES = 128 << 20 };
    int status;
    char *block = malloc(BYTES);
    assert_non_null(block);
    memset(block, 1, BYTES);
    assert_int_equal(block[BYTES - 1], 1);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        execl("/proc/self/exe", "test_base", "peak", (char *)NULL);
        _exit(127);
    }
    free(block);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(int count, char **words) {
    if (count > 1 && strcmp(words[1], "peak") == 0)
        return mr_process_peak_bytes() > 100 << 20;
    return run_suite(NULL, NULL);
}
