/* Errors and warnings of a pipeline: all errors of a file at once, each with its place and, if there is one, the fix.
 *
 * A list begins zeroed, is filled by one thread at a time, and owns its texts until mr_diagnostics_fini. */
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
typedef struct mr_place {
    const char *file;
    int line, column;
} mr_place;

typedef struct mr_diagnostic {
    mr_severity severity;
    int status;      /* negative mr_status, which decides the command's exit code */
    mr_place place;
    char *message;   /* one sentence, no full stop */
    char *hint;      /* how to fix it; NULL if there is no advice */
} mr_diagnostic;

/* The most that are kept of one pipeline: a hostile one could have hundreds of thousands. */
enum { MR_DIAGNOSTICS_SHOWN = 100 };

/* Grows as diagnostics are added; one thread at a time. */
typedef struct mr_diagnostics {
    mr_diagnostic *item;
    size_t count;
    size_t errors;   /* number of errors found, including those that are not kept */
    size_t more;     /* number found and not kept */
} mr_diagnostics;

/* Adds one (printf style message); `hint` may be NULL and is copied. Returns `status`. */
MR_API int mr_diagnose(mr_diagnostics *diagnostics, mr_severity severity, int status, mr_place place, const char *hint,
                       const char *format, ...) __attribute__((format(printf, 6, 7)));
/* True if more were found than will ever be shown: further ones are only counted, without their text. */
MR_API bool mr_diagnostics_full(const mr_diagnostics *diagnostics);
/* Sorts by file, line and column. */
MR_API void mr_diagnostics_sort(mr_diagnostics *diagnostics);
/* Keeps the first `most`, errors before warnings if there is not room for both. */
MR_API void mr_diagnostics_cap(mr_diagnostics *diagnostics, size_t most);
/* The status of the first error; MR_OK if there is none. */
MR_API int mr_diagnostics_status(const mr_diagnostics *diagnostics);
/* "file:line:column: error: message" and an indented "hint: ..." line for each; then the number of those not kept. */
MR_API void mr_diagnostics_print(const mr_diagnostics *diagnostics, FILE *stream);
/* Frees what was added; the struct may be used again. */
MR_API void mr_diagnostics_fini(mr_diagnostics *diagnostics);

#ifdef __cplusplus
}
#endif
#endif
