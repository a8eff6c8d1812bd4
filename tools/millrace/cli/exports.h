/* Keeps the public headers' functions for plugins. A program that links the static library then contains and exports
 * all of them, even those that it does not call. tools/exports.cmake makes exports.c and the linker's list. */
#pragma once

/* Does nothing: a call only makes the linker keep the functions. */
void mr_exports_keep(void);
