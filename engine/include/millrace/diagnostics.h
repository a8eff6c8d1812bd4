/* Errors and warnings about a pipeline: all errors in a file at once, each with the place and, if possible, the fix.
 *
 * A list must start zeroed. Only one thread at a time may fill it. It owns the texts until mr_diagnostics_fini. */
#ifndef MILLRACE_DIAGNOSTICS_H
#define MILLRACE_DIAGNOSTICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "millrace/export.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mr_severity { MR_SEVERITY_WARNING, MR_SEVERITY_ERROR } mr_severity;

/* A place in a YAML file, or in an override ("--set stages.x.size", line 0). Lines and columns count from 1. */
typedef struct mr_location {
    const char *file;
    int line, column;
} mr_location;

typedef struct mr_diagnostic {
    mr_severity severity;
    int status;      /* negative mr_status; it decides the command's exit code */
    mr_location place;
    char *message;   /* one sentence, no full stop */
    char *hint;      /* Optional. How to fix it. */
} mr_diagnostic;

/* The most diagnostics kept for one pipeline. A hostile pipeline could cause hundreds of thousands. */
enum { MR_DIAGNOSTICS_SHOWN = 100 };

/* A growing list. One thread at a time. */
typedef struct mr_diagnostics {
    mr_diagnostic *item;
    size_t count;
    size_t errors;   /* number of errors, including those not kept */
    size_t more;     /* number of diagnostics not kept */
} mr_diagnostics;

/* Adds a diagnostic (printf style message). `hint` is optional and copied. Returns `status`. */
MR_API int mr_diagnose(mr_diagnostics *diagnostics, mr_severity severity, int status, mr_location place,
                       const char *hint, const char *format, ...) __attribute__((format(printf, 6, 7)));
/* True if there are more diagnostics than will ever be shown. Further ones are only counted. */
MR_API bool mr_diagnostics_full(const mr_diagnostics *diagnostics);
/* Sorts by file, line and column. */
MR_API void mr_diagnostics_sort(mr_diagnostics *diagnostics);
/* Keeps the first `most`. If there is not enough room, errors take precedence over warnings. */
MR_API void mr_diagnostics_cap(mr_diagnostics *diagnostics, size_t most);
/* The status of the first error. MR_OK: there is none. */
MR_API int mr_diagnostics_status(const mr_diagnostics *diagnostics);
/* Prints "file:line:column: error: message" and an indented "hint: ..." for each, then the number not kept. */
MR_API void mr_diagnostics_print(const mr_diagnostics *diagnostics, FILE *stream);
/* Frees the list; you may use the struct again. */
MR_API void mr_diagnostics_fini(mr_diagnostics *diagnostics);

#ifdef __cplusplus
}
#endif
#endif
