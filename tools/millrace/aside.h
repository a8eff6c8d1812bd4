/* A folder for what a run must write somewhere and nobody wants: made under TMPDIR, gone afterwards. */
#ifndef MILLRACE_TOOLS_ASIDE_H
#define MILLRACE_TOOLS_ASIDE_H

enum { MR_ASIDE = 4096 };

/* MR_ERROR_IO. */
int mr_aside_make(char folder[MR_ASIDE]);
void mr_aside_remove(const char *folder);

#endif
