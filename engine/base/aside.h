/* Temporary folders, removed by the process that made them. A killed process cannot remove its folder. So each call
 * that makes one also removes neighbours that no process holds. */
#pragma once

enum { MR_ASIDE = 4096 };

typedef struct mr_aside {
    char folder[MR_ASIDE]; /* millrace-XXXXXX, mode 0700; "": none */
    int held; /* must stay open while the folder is needed, also by other processes; exec closes it by default */
} mr_aside;

/* Makes one in `parent`; NULL: in TMPDIR, else /tmp. MR_ERROR_IO, and there is none. */
int mr_aside_make(mr_aside *aside, const char *parent);
/* Calls `use` with each folder in `parent` that a killed process has left, until it fails. Errors of `use`. */
int mr_aside_visit_left(const char *parent, int (*use)(void *user, const char *folder), void *user);
/* Removes the folder with all files; does nothing if there is none. */
void mr_aside_remove(mr_aside *aside);
