/* How much of a repetitive test runs under a sanitizer. The thread sanitizer makes kernels a hundred times slower, and
 * single-threaded suites find nothing more with more cases; the address sanitizer makes them ten times slower. A build
 * without sanitizers must run all cases. */
#pragma once

#ifdef __SANITIZE_THREAD__
#define UNDER_TSAN(fewer, all) fewer
#else
#define UNDER_TSAN(fewer, all) all
#endif

#ifdef __SANITIZE_ADDRESS__
#define UNDER_ASAN(fewer, all) fewer
#else
#define UNDER_ASAN(fewer, all) all
#endif

#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
#define SANITIZED
#endif
