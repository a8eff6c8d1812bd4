/* Threads and locks between them, what the process may use of the machine, and what it has used. Any thread may call. */
#ifndef MILLRACE_BASE_THREAD_H
#define MILLRACE_BASE_THREAD_H

#include <pthread.h>
#include <stdint.h>

/* Starts a thread of the engine, as pthread_create does, whose errors it returns. It has SIGPIPE and SIGXFSZ blocked: a
 * write that fails for a reader that has gone, or for a limit of the size of files, says so (EPIPE, EFBIG), whatever
 * the program has these signals do. */
int mr_thread_create(pthread_t *thread, void *(*function)(void *context), void *context);

/* Cores this process may keep busy: those of its affinity mask, or fewer where a control group (v1 or v2, of the
 * process or of any group above) grants less processor time; a part of a core counts as a whole one. At least 1. */
int mr_usable_cores(void);

/* The limit of control groups alone, rounded up; 0 where there is none. `membership` is a file as /proc/self/cgroup,
 * `root` where control groups are mounted (/sys/fs/cgroup). */
int mr_cgroup_cores(const char *membership, const char *root);

/* Processor seconds, user and system, of the whole process so far. */
double mr_process_cpu_s(void);
/* How long threads of this process that live have waited for a core while they could have run, all together; 0 where the
 * system does not count it. */
int64_t mr_process_waited_ns(void);
/* Processor nanoseconds of the calling thread, and of another that has not been joined, so far. */
int64_t mr_thread_cpu_ns(void);
int64_t mr_thread_cpu_of_ns(pthread_t thread);
/* The most memory that was resident at any time. */
uint64_t mr_process_peak_bytes(void);

/* A lock that is held for some instructions only: who finds it taken looks again for about as long before he sleeps,
 * since to sleep and be woken costs a hundred times as much. Where the C library has none such, it is an ordinary
 * one. */
void mr_lock_init(pthread_mutex_t *lock);
/* A condition whose timed waits are told times of the monotonic clock, which mr_clock_real gives. */
void mr_condition_init(pthread_cond_t *condition);

#endif
