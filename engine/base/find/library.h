/* Shared libraries that are opened at run time. Any thread may call. */
#pragma once

/* Opens a library like dlopen, with flags RTLD_NOW | RTLD_LOCAL. Returns NULL on failure; *why then names the file and
 * says why, until the thread's next call. A file that was cut short, as by an interrupted download, is refused: dlopen
 * would end the process with SIGBUS. */
void *mr_library_open(const char *path, const char **why);
