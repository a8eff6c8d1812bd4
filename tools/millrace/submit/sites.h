/* The sites that take pipelines: Slurm, Kubernetes and systemd, each through its own programs. One thread at a time. */
#pragma once

#include "tools/millrace/cli/exec.h"
#include "tools/millrace/submit/submission.h"

typedef struct mr_site {
    const char *package;            /* to install if its programs are missing */
    /* Options of the site's program that every later call needs too, and options that submit refuses; ended by NULL. */
    const char *const *kept, *const *refused;
    /* Hands the files over, with the site's options ("--partition=short"), and sets site_id. After a failure, `left`
     * is set if the site may have taken something. */
    int (*hand_over)(mr_submission *one, const mr_words *options);
    /* Sets everything in `job`, which comes from mr_job_blank. MR_JOB_UNKNOWN: the site does not know it. */
    int (*ask)(const mr_submission *one, mr_job *job);
    /* For `ask`: reads the answer of the site's program and changes it. MR_ERROR_PROTOCOL: it is no answer. */
    int (*read)(const mr_submission *one, char *answer, mr_job *job);
    /* Ends it, and removes its objects or units at the site. It may have ended. */
    int (*cancel)(const mr_submission *one);
    /* Prints how to read its log, for people. */
    void (*log)(const mr_submission *one, FILE *to);
} mr_site;

extern const mr_site mr_site_slurm, mr_site_kubernetes, mr_site_systemd;
const mr_site *mr_site_of(const mr_submission *one);

/* Adds a word, printf style, which lives until mr_site_words_fini. Errors are kept until mr_site_call. */
typedef struct mr_site_words {
    mr_words words;
    bool failed;
    bool doubtful; /* mr_site_call has failed, but a program that a signal ends may have done its work */
} mr_site_words;
void mr_site_add(mr_site_words *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
void mr_site_add_all(mr_site_words *to, const mr_words *words);
void mr_site_words_fini(mr_site_words *words);
/* Calls a site's program and frees the words. *out is its output; free it with mr_free. If its exit code is not 0, the
 * message has its own words: MR_ERROR_PERMISSION or MR_ERROR_USAGE if they say so, else MR_ERROR_UNAVAILABLE. */
int mr_site_call(const mr_submission *one, mr_site_words *words, char **out);
/* Ends what was handed over, after a failure. Sets `left`. Returns the status, with its message and what is left. */
int mr_site_withdraw(mr_submission *one, int status);
/* Whether both are at the same site: the same program, with the same options. systemd is one for each machine. */
bool mr_site_same(const mr_submission *a, const mr_submission *b);
/* Only systemd is asked on the machine where it was submitted, unless an option names another. */
bool mr_site_is_here(const mr_submission *one);
