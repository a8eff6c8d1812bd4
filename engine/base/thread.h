/* What the process may use and has used. Any thread. */
#ifndef MILLRACE_BASE_THREAD_H
#define MILLRACE_BASE_THREAD_H

#include <stdint.h>

/* Cores this process may run on, by its affinity and its control group's processor limit (rounded up); at least 1. */
int mr_usable_cores(void);
/* Processor seconds of all threads, user and system. */
double mr_process_cpu_s(void);
/* The most memory that was ever resident. */
uint64_t mr_process_peak_bytes(void);

#endif
