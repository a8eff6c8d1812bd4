/* Settings that a verb adds to those from the command line (--set) if it must run a pipeline in a special way. */
#pragma once

#include "tools/millrace/cli/overrides.h"

typedef struct mr_settings {
    mr_override *item;
    size_t count, given, room; /* the first `given` come from the command line */
} mr_settings;

/* Starts with the command line's settings, which must outlive this, and room for `more`. MR_ERROR_MEMORY; it may be
 * finished even then. */
int mr_settings_init(mr_settings *settings, const mr_overrides *from, size_t more);
/* Sets the concatenated key, such as "stages." "features" ".device". Copies the texts. MR_ERROR_MEMORY. */
int mr_settings_set(mr_settings *to, const char *value, const char *key, const char *id, const char *rest);
/* Whether the command line or an earlier call set stages.ID.OPTION. */
bool mr_settings_has(const mr_settings *by, const char *id, const char *option);
void mr_settings_fini(mr_settings *settings);
