/* Threads and their locks, the share of the machine that the process may use, and what it has used. Any thread may
 * call. */
#ifndef MILLRACE_BASE_THREAD_H
#define MILLRACE_BASE_THREAD_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

/* Starts a thread of the engine like pthread_create, whose errors it returns. The thread has SIGPIPE and SIGXFSZ
 * blocked: if a write fails for a closed pipe or a file size limit it returns EPIPE or EFBIG, whatever the program's
 * signal handlers. */
int mr_thread_create(pthread_t *thread, void *(*function)(void *context), void *context);

/* The number of cores that this process may keep busy: those of its affinity mask, or fewer if a control group (v1 or
 * v2, of the process or of any group above) grants less processor time. A part of a core counts as one. At least 1. */
int mr_usable_cores(void);

/* The limit of control groups alone, rounded up; 0 if there is none. `membership` is a file like /proc/self/cgroup,
 * `root` the mount point of control groups (/sys/fs/cgroup). */
int mr_cgroup_cores(const char *membership, const char *root);

/* Processor seconds, user and system, of the whole process so far. */
double mr_process_cpu_s(void);
/* How long threads of this process that live have waited for a core while they could have run, all together; 0 if the
 * system does not count it. */
int64_t mr_process_waited_ns(void);
/* Processor nanoseconds of the calling thread, and of another that has not been joined, so far. */
int64_t mr_thread_cpu_ns(void);
int64_t mr_thread_cpu_of_ns(pthread_t thread);
/* The most memory that was resident at any time. */
uint64_t mr_process_peak_bytes(void);

/* A lock that is held for a few instructions only: if it is taken, a thread spins for about as long before it sleeps,
 * since sleeping and waking cost a hundred times as much. If the C library has no such lock, it is an ordinary one. */
void mr_lock_init(pthread_mutex_t *lock);
/* A condition whose timed waits are told times of the monotonic clock, which mr_clock_real gives. */
void mr_condition_init(pthread_cond_t *condition);
/* When a timed wait of that length for such a condition is over, which begins now; negative: at once. */
struct timespec mr_condition_until(int64_t timeout_ns);

#endif
