/* The millrace command as a function, for programs with additional stage types (library millrace-command).
 *
 *     static const mr_stage_type *const types[] = {&brightness_stage, NULL};
 *
 *     int main(int argc, char **argv) {
 *         return mr_main(argc, argv, types);
 *     }
 *
 * This is the whole command with these types: run, check, plan, schema, inspect, list and all other verbs. For a
 * pipeline with nodes, `run` starts the program again for each node, as /proc/self/exe with arguments for mr_main. The
 * program exports the functions of these headers to plugins (plugin.h). */
#ifndef MILLRACE_COMMAND_H
#define MILLRACE_COMMAND_H

#include "millrace/export.h"
#include "millrace/stage.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Runs the command. `types` is optional, ends with NULL and must live as long as the process. The command then knows
 * these and millrace's types (mr_stage_types). The call takes over the process's signals, standard streams and limits.
 * Returns the exit code (sysexits.h); 70 if a type is malformed or a name is taken. Call it once, from the main
 * thread. */
MR_API int mr_main(int argc, char **argv, const mr_stage_type *const *types);

#ifdef __cplusplus
}
#endif
#endif
