/* The version of these headers, as a text and for comparisons. mr_version() in millrace.h is that of the library. */
#ifndef MILLRACE_VERSION_H
#define MILLRACE_VERSION_H

#ifdef __cplusplus
extern "C" {
#endif

/* CMakeLists.txt reads it here. */
#define MILLRACE_VERSION "0.1.0"
#define MILLRACE_VERSION_MAJOR 0
#define MILLRACE_VERSION_MINOR 1
#define MILLRACE_VERSION_PATCH 0

#ifdef __cplusplus
}
#endif
#endif
