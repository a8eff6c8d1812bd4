#include "engine/base/thread.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "millrace/status.h"

enum { PATH_BYTES = 4096 };

/* ---- starting ---------------------------------------------------------------------------------------------------- */

static locale_t plain_locale;

/* All but the numbers is as in the program's locale. */
static void make_plain_locale(void) {
    locale_t global = duplocale(LC_GLOBAL_LOCALE);
    plain_locale = newlocale(LC_NUMERIC_MASK, "C", global);
    if (!plain_locale && global)
        freelocale(global);
}

/* If there was no memory for a locale, it only returns the present one. */
mr_numbers mr_numbers_set_(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    mr_numbers before;
    pthread_once(&once, make_plain_locale);
    fegetenv(&before.floats);
    fesetenv(FE_DFL_ENV);
    before.locale = uselocale(plain_locale);
    return before;
}

void mr_numbers_restore_(const mr_numbers *before) {
    uselocale(before->locale);
    fesetenv(&before->floats);
}

typedef struct beginning {
    void *(*function)(void *context);
    void *context;
} beginning;

static void *begin(void *context) {
    const beginning given = *(beginning *)context;
    free(context);
    mr_numbers_set_();
    return given.function(given.context);
}

/* A new thread inherits the mask from the thread that makes it. */
int mr_thread_create(pthread_t *thread, void *(*function)(void *context), void *context) {
    beginning *given = malloc(sizeof *given);
    if (!given)
        return EAGAIN;
    *given = (beginning){function, context};
    sigset_t of_writes, before;
    sigemptyset(&of_writes);
    sigaddset(&of_writes, SIGPIPE);
    sigaddset(&of_writes, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &of_writes, &before);
    int error = pthread_create(thread, NULL, begin, given);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error)
        free(given);
    return error;
}

int mr_thread_fail(int error, const char *format, ...) {
    char thread[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(thread, sizeof thread, format, arguments);
    va_end(arguments);
    /* The C library does without clone3 where it is unknown (ENOSYS), but old filters say that it is forbidden. */
    if (error == EPERM)
        return mr_fail(MR_ERROR_PERMISSION, "cannot start %s: the filter of system calls (seccomp) around this process "
                       "forbids clone3, as that of Docker before 20.10.10 does: update the container's runtime, or "
                       "give the container another filter (--security-opt seccomp=)", thread);
    return mr_fail(MR_ERROR_MEMORY, "cannot start %s: %s; the limit of threads (ulimit -u, a container's pids) or of "
                   "memory (ulimit -v) may be too low", thread, strerror(error));
}

/* The cores granted by `quota` microseconds of processor time in each period, rounded up; 0 if there is no limit. */
static int granted(long long quota, long long period) {
    if (quota <= 0 || period <= 0)
        return 0;
    long long cores = quota / period + (quota % period != 0);
    return cores < 1 << 20 ? (int)cores : 0;
}

static int stricter(int a, int b) {
    if (a == 0 || b == 0)
        return a + b;
    return a < b ? a : b;
}

static long long read_number(const char *folder, const char *name) {
    char text[32];
    mr_file_head(text, sizeof text, "%s/%s", folder, name);
    return atoll(text);
}

/* Version 2 has one file with both numbers; the quota reads "max" if there is no limit. */
static int limit_v2(const char *folder) {
    char text[64];
    long long quota, period;
    mr_file_head(text, sizeof text, "%s/cpu.max", folder);
    return sscanf(text, "%lld %lld", &quota, &period) == 2 ? granted(quota, period) : 0;
}

static int limit_v1(const char *folder) {
    return granted(read_number(folder, "cpu.cfs_quota_us"), read_number(folder, "cpu.cfs_period_us"));
}

/* The strictest limit of a group and all those above it. In a container the named group may not be visible; then the
 * mount's root is the container's own group, and it is the last one looked at. */
static int limit_along(const char *mount, const char *group, int (*limit)(const char *folder)) {
    char folder[PATH_BYTES];
    if ((size_t)snprintf(folder, sizeof folder, "%s%s", mount, group) >= sizeof folder)
        return 0;
    size_t root = strlen(mount);
    int cores = 0;
    for (;;) {
        cores = stricter(cores, limit(folder));
        char *slash = strrchr(folder + root, '/');
        if (!slash)
            return cores;
        *slash = '\0';
    }
}

static bool names_controller(const char *list, const char *name) {
    size_t length = strlen(name);
    for (const char *item = list; item; item = strchr(item, ','), item = item ? item + 1 : NULL)
        if (strncmp(item, name, length) == 0 && (item[length] == ',' || item[length] == '\0'))
            return true;
    return false;
}

/* A line of /proc/self/cgroup is "id:controllers:path"; version 2 is the one with id 0 and no controllers. */
static int limit_of_line(char *line, const char *root) {
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':');
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group)
        return 0;
    *group++ = '\0';
    controllers++;
    if (*controllers == '\0')
        return limit_along(root, group, limit_v2);
    if (!names_controller(controllers, "cpu"))
        return 0;
    char mount[PATH_BYTES];
    if ((size_t)snprintf(mount, sizeof mount, "%s/cpu", root) >= sizeof mount)
        return 0;
    return limit_along(mount, group, limit_v1);
}

int mr_cgroup_cores(const char *membership, const char *root) {
    FILE *file = fopen(membership, "re");
    if (!file)
        return 0;
    char line[PATH_BYTES];
    int cores = 0;
    while (fgets(line, sizeof line, file))
        cores = stricter(cores, limit_of_line(line, root));
    fclose(file);
    return cores;
}

int mr_usable_cores(void) {
    cpu_set_t set;
    int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
    cores = stricter(cores, mr_cgroup_cores("/proc/self/cgroup", "/sys/fs/cgroup"));
    return cores > 0 ? cores : 1;
}

static int64_t read_ns(clockid_t clock) {
    struct timespec used = {0};
    clock_gettime(clock, &used);
    return (int64_t)used.tv_sec * 1000000000 + used.tv_nsec;
}

int64_t mr_thread_cpu_ns(void) {
    return read_ns(CLOCK_THREAD_CPUTIME_ID);
}

int64_t mr_thread_cpu_of_ns(pthread_t thread) {
    clockid_t clock;
    return pthread_getcpuclockid(thread, &clock) ? 0 : read_ns(clock);
}

double mr_process_cpu_s(void) {
    return (double)read_ns(CLOCK_PROCESS_CPUTIME_ID) * 1e-9;
}

/* Time on a core, time waiting for one, turns. */
static int64_t waited_ns(const char *task) {
    char text[96];
    long long ran, waited;
    mr_file_head(text, sizeof text, "/proc/self/task/%s/schedstat", task);
    return sscanf(text, "%lld %lld", &ran, &waited) == 2 ? waited : 0;
}

int64_t mr_process_waited_ns(void) {
    int64_t sum = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; tasks && (task = readdir(tasks));)
        sum += task->d_name[0] == '.' ? 0 : waited_ns(task->d_name);
    if (tasks)
        closedir(tasks);
    return sum;
}

/* VmHWM: getrusage also counts the memory of the process that started this one. */
uint64_t mr_process_peak_bytes(void) {
    char text[PATH_BYTES];
    mr_file_head(text, sizeof text, "/proc/self/status");
    const char *peak = strstr(text, "VmHWM:");
    return peak ? strtoull(peak + strlen("VmHWM:"), NULL, 10) * 1024 : 0;
}

void mr_lock_init(pthread_mutex_t *lock) {
#ifdef __GLIBC__
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
#else
    pthread_mutex_init(lock, NULL);
#endif
}

void mr_condition_init(pthread_cond_t *condition) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

struct timespec mr_condition_until(int64_t timeout_ns) {
    int64_t now_ns = mr_now_ns(), wait_ns = timeout_ns < 0 ? 0 : timeout_ns;
    int64_t until = wait_ns < INT64_MAX - now_ns ? now_ns + wait_ns : INT64_MAX;
    return (struct timespec){.tv_sec = until / 1000000000, .tv_nsec = until % 1000000000};
}
