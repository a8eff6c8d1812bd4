/* How much of a repetitive test runs under a sanitizer. Under that of threads a kernel takes a hundred times as long,
 * and suites that one thread works through, in order, show nothing more by more cases; under that of addresses it takes
 * ten times as long. All cases run in the build without. */
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
