#include "tools/millrace/cli/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int mr_settings_init(mr_settings *to, const mr_overrides *from, size_t more) {
    *to = (mr_settings){.room = from->override_count + more};
    to->item = calloc(to->room + 1, sizeof *to->item);
    if (!to->item)
        return mr_fail(MR_ERROR_MEMORY, "no memory for settings");
    for (size_t i = 0; i < from->override_count; i++)
        to->item[to->count++] = from->override[i];
    to->given = to->count;
    return MR_OK;
}

int mr_settings_set(mr_settings *to, const char *value, const char *key, const char *id, const char *rest) {
    char *name = malloc(strlen(key) + strlen(id) + strlen(rest) + 1), *text = strdup(value);
    if (!name || !text || to->count == to->room) {
        free(name);
        free(text);
        return mr_fail(MR_ERROR_MEMORY, "no memory for settings");
    }
    sprintf(name, "%s%s%s", key, id, rest);
    to->item[to->count++] = (mr_override){.key = name, .value = text};
    return MR_OK;
}

bool mr_settings_has(const mr_settings *by, const char *id, const char *option) {
    char key[256];
    snprintf(key, sizeof key, "stages.%s.%s", id, option);
    for (size_t i = 0; i < by->count; i++)
        if (strcmp(by->item[i].key, key) == 0)
            return true;
    return false;
}

void mr_settings_fini(mr_settings *gone) {
    for (size_t i = gone->given; i < gone->count; i++) {
        free((char *)(uintptr_t)gone->item[i].key);
        free((char *)(uintptr_t)gone->item[i].value);
    }
    free(gone->item);
}
