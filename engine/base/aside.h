/* Temporary folders, removed by the process that made them. A killed process cannot remove its folder, so each call
 * that makes one also removes those beside it that no process holds any more. */
#pragma once

enum { MR_ASIDE = 4096 };

typedef struct mr_aside {
    char folder[MR_ASIDE]; /* millrace-XXXXXX, of mode 0700; "": none */
    int held; /* open for as long as it is needed, also by other processes; exec closes it unless told not to */
} mr_aside;

/* Makes one in `parent`; NULL: in TMPDIR, else /tmp. MR_ERROR_IO, and there is none. */
int mr_aside_make(mr_aside *aside, const char *parent);
/* Calls `use` with each folder in `parent` that a killed process has left, until it fails. Errors of `use`. */
int mr_aside_visit_left(const char *parent, int (*use)(void *user, const char *folder), void *user);
/* Removes the folder with all its files; does nothing if there is none. */
void mr_aside_remove(mr_aside *aside);
