/* Runs another program and reads what it prints. Words are passed as they are; no shell reads them. One thread at a
 * time: SIGCHLD must not be ignored. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct mr_exec {
    const char *const *words; /* ended by NULL; the first is a program in PATH */
    const char *package;      /* what to install if there is no such program */
    FILE *input;              /* its standard input, from the file's offset on; NULL: none */
    int64_t patience_ns;      /* the program is killed after this time; 0: never */
    size_t most;              /* bytes that it may print */
} mr_exec;

typedef struct mr_exec_result {
    int code;       /* exit code; 128 and the signal if one has ended it, also if mr_exec_run has */
    char *out, *err; /* what it printed, ended by a zero; may hold zeros */
    size_t out_bytes, err_bytes;
} mr_exec_result;

/* MR_OK if the program ran to its end, with any exit code. MR_ERROR_UNAVAILABLE: there is no such program, or it
 * has not ended in time. MR_ERROR_PROTOCOL: it prints too much. MR_ERROR_PERMISSION, MR_ERROR_MEMORY, MR_ERROR_IO. */
int mr_exec_run(const mr_exec *call, mr_exec_result *result);
void mr_exec_fini(mr_exec_result *result);
