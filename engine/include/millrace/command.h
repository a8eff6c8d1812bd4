/* The millrace command as a function, for programs with stage types of their own (library millrace-command).
 *
 *     static const mr_stage_type *const types[] = {&brightness_stage, NULL};
 *
 *     int main(int argc, char **argv) {
 *         return mr_main(argc, argv, types);
 *     }
 *
 * is the whole command with these types: run, check, plan, schema, inspect, list and all others. Such a program is
 * started again by `run` for each node of a pipeline with nodes, as /proc/self/exe and with arguments for mr_main. It
 * exports the functions of these headers to plugins (plugin.h). */
#ifndef MILLRACE_COMMAND_H
#define MILLRACE_COMMAND_H

#include "millrace/export.h"
#include "millrace/stage.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `types`, ended by NULL, are added to those that come with millrace (mr_stage_types) and live as long as the process;
 * NULL: no others. Takes signals, standard streams and limits of the process as its own. Returns the exit code
 * (sysexits.h); 70 if a type is malformed or has the name of another. Once, from the main thread. */
MR_API int mr_main(int argc, char **argv, const mr_stage_type *const *types);

#ifdef __cplusplus
}
#endif
#endif
