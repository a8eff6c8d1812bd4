/* The functions of the public headers, for plugins: a program that is linked with the static library contains them all,
 * even those that it does not call itself, and exports them (tools/exports.cmake makes exports.c and the linker's
 * list). */
#pragma once

/* Does nothing: it only makes the linker keep them. */
void mr_exports_keep(void);
