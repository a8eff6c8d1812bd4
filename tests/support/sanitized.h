/* How much of a repetitive test runs under the thread sanitizer, where a kernel takes a hundred times as long: suites
 * that one thread works through, in order, show nothing more by more cases. All of them run in the other builds. */
#ifndef MILLRACE_TESTS_SUPPORT_SANITIZED_H
#define MILLRACE_TESTS_SUPPORT_SANITIZED_H

#ifdef __SANITIZE_THREAD__
#define UNDER_TSAN(fewer, all) fewer
#else
#define UNDER_TSAN(fewer, all) all
#endif

#endif
