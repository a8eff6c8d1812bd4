#include "engine/base/thread.h"

#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

static int affinity_cores(void) {
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof cores, &cores))
        return 1;
    return CPU_COUNT(&cores);
}

/* quota / period, rounded up, from a file that holds both ("max" or a number first) or one of them; 0: no limit. */
static int limit_of(double quota, double period) {
    if (quota <= 0 || period <= 0)
        return 0;
    int whole = (int)(quota / period);
    return whole + (quota > whole * period);
}

static double read_number(const char *path) {
    double number = 0;
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    if (fscanf(file, "%lf", &number) != 1)
        number = 0;
    fclose(file);
    return number;
}

/* Version 2 of control groups: "quota period" in cpu.max of the process's own group, as seen from inside a container. */
static int cgroup2_limit(void) {
    double quota = 0, period = 0;
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "r");
    if (!file)
        return 0;
    if (fscanf(file, "%lf %lf", &quota, &period) != 2)
        quota = 0;
    fclose(file);
    return limit_of(quota, period);
}

static int cgroup1_limit(void) {
    return limit_of(read_number("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"),
                    read_number("/sys/fs/cgroup/cpu/cpu.cfs_period_us"));
}

int mr_usable_cores(void) {
    int cores = affinity_cores();
    int limit = cgroup2_limit();
    if (!limit)
        limit = cgroup1_limit();
    if (limit && limit < cores)
        cores = limit;
    return cores > 0 ? cores : 1;
}

double mr_process_cpu_s(void) {
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec + (double)used.tv_nsec * 1e-9;
}

uint64_t mr_process_peak_bytes(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_maxrss * 1024;
}
