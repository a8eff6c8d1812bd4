/* The stage types that this command knows: those that come with millrace, those of a program that calls mr_main, and
 * those of plugins. Main thread. */
#pragma once

#include <stddef.h>

#include "millrace/stage.h"

/* Begins with those of millrace and `own` (ended by NULL; may be NULL). MR_ERROR_DATA if one is malformed or has the
 * name of another. */
int mr_types_begin(const mr_stage_type *const *own);
/* Loads a plugin, for --plugin. Statuses of mr_plugin_load; MR_ERROR_DATA if a name is taken. */
int mr_types_add_plugin(const char *path);
/* All of them, ended by NULL. */
const mr_stage_type *const *mr_types(void);

/* A plugin that was named on the command line. */
typedef struct mr_types_plugin {
    const char *given; /* as it was written */
    const char *path;  /* its absolute path */
} mr_types_plugin;
/* They, ended by a NULL. */
const mr_types_plugin *mr_types_plugins(void);

/* "source", "stage", "sink", or "stage, sink" if its output may be left open. */
const char *mr_type_kind(const mr_stage_type *type);
