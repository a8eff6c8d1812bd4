/* The functions of the public headers, for plugins: a program that is linked with the static library holds them all,
 * also those that it does not call itself, and exports them (tools/exports.cmake makes exports.c and the linker's
 * list). */
#ifndef MILLRACE_TOOLS_CLI_EXPORTS_H
#define MILLRACE_TOOLS_CLI_EXPORTS_H

/* Does nothing: what calls it is linked with them. */
void mr_exports_keep(void);

#endif
