/* Threads and locks, how much of the machine the process may use, and what it has used. Any thread may call. */
#pragma once

#include <fenv.h>
#include <locale.h>
#include <pthread.h>
#include <stdint.h>
#include <time.h>

/* Starts a thread of the engine like pthread_create, whose errors it returns. The thread has SIGPIPE and SIGXFSZ
 * blocked: if a write fails for a closed pipe or a file size limit it returns EPIPE or EFBIG, whatever the program's
 * signal handlers. It has plain numbers, as below. */
int mr_thread_create(pthread_t *thread, void *(*function)(void *context), void *context);
/* Says that a thread such as "a thread for decode" (printf style) was refused, why, and which limits to look at.
 * Returns MR_ERROR_MEMORY, or MR_ERROR_PERMISSION if a filter of system calls forbids threads. */
int mr_thread_fail(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Gives the calling thread plain numbers until the end of the block: the decimal point of numbers in text is a point,
 * and floats are rounded to nearest with subnormals. The program may have set a locale with a comma, and a program or
 * plugin that is built with -ffast-math flushes subnormals to zero. Public functions begin with it if they read, write
 * or compute numbers in the caller's thread. */
#define MR_PLAIN_NUMBERS                                                                                               \
    __attribute__((cleanup(mr_numbers_restore_), unused)) mr_numbers mr_numbers_ = mr_numbers_set_()
typedef struct mr_numbers {
    locale_t locale;
    fenv_t floats;
} mr_numbers;
mr_numbers mr_numbers_set_(void);
void mr_numbers_restore_(const mr_numbers *before);

/* How many cores this process can keep busy: those in the affinity mask, or fewer if a control group (v1 or v2, the
 * process's or any above) grants less processor time. Part of a core counts as one. At least 1. */
int mr_usable_cores(void);

/* The control groups' limit alone, rounded up; 0 if there is none. `membership` is a file like /proc/self/cgroup,
 * `root` where control groups are mounted (/sys/fs/cgroup). */
int mr_cgroup_cores(const char *membership, const char *root);

/* The whole process's processor seconds so far, user and system. */
double mr_process_cpu_s(void);
/* How long threads of this process that live have waited for a core while they could have run, all together; 0 if the
 * system does not count it. */
int64_t mr_process_waited_ns(void);
/* Processor nanoseconds so far: the calling thread's, and those of another that must not be joined yet. */
int64_t mr_thread_cpu_ns(void);
int64_t mr_thread_cpu_of_ns(pthread_t thread);
/* The most memory that was resident at any time. */
uint64_t mr_process_peak_bytes(void);

/* A lock that is held for a few instructions only: if it is taken, a thread spins for about as long before it sleeps,
 * since sleeping and waking cost a hundred times as much. If the C library has no such lock, it is an ordinary one. */
void mr_lock_init(pthread_mutex_t *lock);
/* Takes a lock until the end of the block, however the block is left. */
#define MR_LOCKED(lock) MR_LOCKED_AT_(lock, __LINE__)
#define MR_LOCKED_AT_(lock, line) MR_LOCKED_AS_(lock, line)
#define MR_LOCKED_AS_(lock, line)                                                                                      \
    __attribute__((cleanup(mr_unlock_), unused)) pthread_mutex_t *mr_locked_##line = mr_lock_(lock)
static inline pthread_mutex_t *mr_lock_(pthread_mutex_t *lock) {
    pthread_mutex_lock(lock);
    return lock;
}
static inline void mr_unlock_(pthread_mutex_t **lock) {
    pthread_mutex_unlock(*lock);
}
/* A condition whose timed waits take times from the monotonic clock, which mr_clock_real gives. */
void mr_condition_init(pthread_cond_t *condition);
/* When a timed wait of that length for such a condition is over, which begins now; negative: at once. */
struct timespec mr_condition_until(int64_t timeout_ns);
