/* The folders of submissions. Errors: MR_ERROR_IO, MR_ERROR_PERMISSION, MR_ERROR_MEMORY. */
#pragma once

#include <signal.h>

#include "tools/millrace/submit/submission.h"

typedef struct mr_submissions {
    mr_submission *item;
    size_t count, room;
} mr_submissions;

/* For the whole of a submission; waits for others that hold it. */
int mr_store_lock(int *fd);
void mr_store_unlock(int fd);
/* A site may have done what the record does not say yet: signals that would end this program wait until both agree. A
 * signal from the terminal still ends the site's program, and so the wait for it. */
void mr_store_hold_signals(sigset_t *before);
void mr_store_let_signals(const sigset_t *before);
/* Chooses an id and a folder. mr_store_make also makes the folder. */
int mr_store_choose(mr_submission *one, const char *name);
int mr_store_make(mr_submission *one, const char *name);
/* Replaces the record; waits for others that do so. */
int mr_store_write(const mr_submission *one);
/* Whether `cancel` was called since the submission was read. */
bool mr_store_is_cancelled(const mr_submission *one);
void mr_store_remove(const mr_submission *one);
/* All of them, the oldest first. A record that cannot be read is a warning on standard error. */
int mr_store_list(mr_submissions *all);
void mr_submissions_fini(mr_submissions *all);
/* The one with that id, or the newest with that number or name at its site. MR_ERROR_NO_INPUT: there is none. */
int mr_store_find(const mr_submissions *all, const char *id, mr_submission **one);
