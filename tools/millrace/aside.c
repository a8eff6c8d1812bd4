#include "tools/millrace/aside.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "millrace/status.h"

int mr_aside_make(char folder[MR_ASIDE]) {
    const char *parent = getenv("TMPDIR");
    snprintf(folder, MR_ASIDE, "%s/millrace-XXXXXX", parent && *parent ? parent : "/tmp");
    return mkdtemp(folder) ? MR_OK : mr_fail(MR_ERROR_IO, "cannot make a folder %s: %s", folder, strerror(errno));
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *place) {
    (void)status, (void)kind, (void)place;
    remove(path);
    return 0;
}

void mr_aside_remove(const char *folder) {
    nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}
