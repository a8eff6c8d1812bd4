/* Helpers of a fit: processes that make shares of its loss and gradient.
 *
 * The process that fits writes the rows into a file that its helpers find under the same path, and sends them, for each
 * evaluation, the weights and the blocks of rows that each is to sum (kernels/fit/fit_share.h). The sums have the same
 * bits whichever process makes them; so a helper may die, be slow or come later: what it does not send in time the
 * process that fits makes itself, and a helper that is there again is given work again. The fit ends with any number of
 * helpers, also none.
 *
 * Messages go over ZeroMQ; a helper listens, and lets in only the keys that it is told, or, without keys, only this
 * machine. A helper of another version, pipeline or kind of processor is refused, since its bits might be others. */
#ifndef MILLRACE_FIT_HELPERS_H
#define MILLRACE_FIT_HELPERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "millrace/export.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_fit_helper {
    const char *name;     /* in messages */
    const char *endpoint; /* where it listens: tcp://HOST:PORT or ipc://PATH */
    const char *server;   /* its public key, or a file with it; NULL: without CURVE */
} mr_fit_helper;

/* The helpers of a fit, mr_fit_params.helpers. The strings live as long as the fit. */
typedef struct mr_fit_helpers {
    const char *rows;     /* the file of rows; it is written anew, whole or not at all, and is left there */
    const char *pipeline; /* its digest, which a helper must have, too */
    const char *key;      /* file of the own key pair; NULL: without CURVE */
    size_t count;
    const mr_fit_helper *helpers;
    int64_t patience_ns;  /* the fit begins when all are there, or after this time; later ones may still come */
    /* set by the fit */
    uint64_t evaluations;    /* of loss and gradient */
    uint64_t sent, received; /* bytes of weights and sums */
    uint64_t blocks, helped; /* blocks of all evaluations, and those of them that helpers made */
} mr_fit_helpers;

/* A helper. */
typedef struct mr_fit_help {
    const char *name;     /* in messages and the audit log */
    const char *rows;     /* mr_fit_helpers.rows; it is there */
    const char *pipeline;
    const char *endpoint; /* to listen at */
    const char *key;      /* file of the own key pair; NULL: without CURVE */
    const char *allow;    /* with a key: the public key that may connect, or a file with it */
    int threads;          /* 1 to 64; 0: one for each usable core */
    bool (*stopped)(void *user); /* asked several times a second, on the calling thread */
    void *user;
} mr_fit_help;
/* Helps the fit of that file of rows until it is stopped. Blocks. MR_OK: it was stopped. MR_ERROR_DATA: no file of rows
 * of this version; MR_ERROR_CONFIG: the process that fits is of another version, pipeline or kind of processor, or
 * wrong keys; MR_ERROR_UNAVAILABLE: the endpoint is taken, or no thread; MR_ERROR_NO_INPUT, MR_ERROR_IO,
 * MR_ERROR_PERMISSION, MR_ERROR_MEMORY. */
MR_API int mr_fit_help_serve(const mr_fit_help *help);

#ifdef __cplusplus
}
#endif
#endif
