/* The stage types that this command knows: millrace's, those from a program that calls mr_main, and those from plugins.
 * Main thread. */
#pragma once

#include <stddef.h>

#include "millrace/stage.h"

/* Starts with millrace's types and `own` (ended by NULL; may be NULL). MR_ERROR_DATA if a type is malformed or two
 * share a name. */
int mr_types_begin(const mr_stage_type *const *own);
/* Loads a plugin, for --plugin. Statuses of mr_plugin_load; MR_ERROR_DATA if a name is taken. */
int mr_types_add_plugin(const char *path);
/* All types, ended by NULL. */
const mr_stage_type *const *mr_types(void);

/* A plugin from the command line. */
typedef struct mr_types_plugin {
    const char *given; /* as it was written */
    const char *path;  /* the absolute path */
} mr_types_plugin;
/* The plugins, ended by a NULL entry. */
const mr_types_plugin *mr_types_plugins(void);

/* "source", "stage", "sink", or "stage, sink" if its output need not be connected. */
const char *mr_type_kind(const mr_stage_type *type);
