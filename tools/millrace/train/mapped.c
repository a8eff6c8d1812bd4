#include "tools/millrace/train/mapped.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/print.h"
#include "millrace/status.h"

/* A signal handler reads it: the address must be written last, and cleared first. */
typedef struct watched {
    _Atomic uintptr_t data; /* 0: free */
    size_t bytes;
    char message[4600];
} watched;

static watched files[MR_MAPPED_FILES];
static int exit_code;

static void take(int number, siginfo_t *info, void *context) {
    const uintptr_t at = (uintptr_t)info->si_addr;
    for (size_t i = 0; i < MR_MAPPED_FILES; i++) {
        const uintptr_t data = atomic_load(&files[i].data);
        if (!data || at < data || at - data >= files[i].bytes)
            continue;
        /* If the message cannot be written, nothing else can be done. */
        ssize_t written = write(STDERR_FILENO, files[i].message, strlen(files[i].message));
        (void)written;
        _exit(exit_code);
    }
    signal(number, SIG_DFL); /* a read fault recurs and ends the process; a sent signal must be raised */
    if (info->si_code <= 0)
        raise(number);
}

void mr_mapped_watch(const void *data, size_t bytes, const char *path) {
    struct sigaction wanted = {.sa_sigaction = take, .sa_flags = SA_SIGINFO};
    watched *one = NULL;
    for (size_t i = 0; i < MR_MAPPED_FILES && !one; i++)
        if (!atomic_load(&files[i].data))
            one = &files[i];
    if (!one || !data)
        return;
    one->bytes = bytes;
    mr_print_into(one->message, sizeof one->message,
                  "millrace: error: %s: became shorter while it was read, or its disk has failed: write a new file "
                  "beside it and rename that, or run again when it is complete\n",
                  path);
    exit_code = mr_status_exit_code(MR_ERROR_IO);
    sigaction(SIGBUS, &wanted, NULL);
    atomic_store(&one->data, (uintptr_t)data);
}

void mr_mapped_forget(const void *data) {
    for (size_t i = 0; i < MR_MAPPED_FILES; i++)
        if (data && atomic_load(&files[i].data) == (uintptr_t)data)
            atomic_store(&files[i].data, 0);
}
