/* A plan whose stages' output is discarded: for runs that only measure. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/plan/plan_data.h"
#include "millrace/status.h"

/* The stage's discard folder, created on first use. */
static const char *folder_of(mr_plan *plan, const mr_plan_vertex *vertex, const char *folder) {
    const char *path = mr_arena_print(&plan->arena, "%s/%s", folder, vertex->id);
    if (path && mkdir(path, 0700) && errno != EEXIST) {
        mr_fail(MR_ERROR_IO, "cannot make the folder %s: %s", path, strerror(errno));
        return NULL;
    }
    return path;
}

/* Options belong to the spec, which belongs to the plan: they are changed after parsing only here. */
static int discard(mr_plan *plan, const mr_plan_vertex *vertex, const mr_option *table, char *fields,
                   const char *folder) {
    for (const mr_option *option = table; option && option->name; option++) {
        const char **path = (const char **)(void *)(fields + option->offset);
        if (option->kind == MR_OPTION_MAP && !option->elsewhere) {
            int status = discard(plan, vertex, option->fields, fields + option->offset, folder);
            if (status)
                return status;
        } else if (option->file == MR_FILE_WRITTEN && *path) {
            *path = "/dev/null";
        } else if (option->file == MR_FILE_SENT) {
            *path = NULL;
        } else if (option->file == MR_FILE_FOLDER && *path && !(*path = folder_of(plan, vertex, folder))) {
            return MR_ERROR_IO;
        }
    }
    return MR_OK;
}

int mr_plan_discard_output(mr_plan *plan, const char *folder) {
    for (size_t v = plan->source_count; v < plan->vertex_count; v++) {
        const mr_plan_vertex *vertex = &plan->vertices[v];
        int status = discard(plan, vertex, vertex->type->options, (char *)(uintptr_t)vertex->options, folder);
        if (status)
            return status;
    }
    return MR_OK;
}
