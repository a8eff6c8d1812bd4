/* Files and folders that a run would fail to write, after models were loaded and media opened for nothing. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/plan/builder.h"
#include "engine/plan/lint.h"
#include "engine/text/options.h"
#include "engine/text/paths.h"
#include "engine/text/synonyms.h"
#include "millrace/status.h"

typedef struct output {
    mr_plan_builder *b;
    const mr_spec_vertex *vertex;
    const mr_option *option;
    const mr_yaml *said; /* NULL: the default */
    const char *path;
} output;

static void refuse(const output *o, int status, const char *hint, const char *why) {
    mr_diagnose(o->b->diagnostics, MR_SEVERITY_ERROR, status, o->said ? o->said->place : o->vertex->place, hint,
                "stages.%s.%s: cannot write \"%s\": %s", o->vertex->id, o->option->name, o->path, why);
}

static void refuse_errno(const output *o) {
    bool forbidden = errno == EACCES || errno == EPERM || errno == EROFS;
    refuse(o, forbidden ? MR_ERROR_PERMISSION : MR_ERROR_IO, NULL, strerror(errno));
}

/* Where a path starts is said before how to make it: a folder that is there already may be meant. */
static int refuse_missing(const output *o, const char *folder) {
    mr_arena *arena = o->b->arena;
    const char *starts = o->said ? mr_path_hint(arena, o->b->spec->file, o->option, o->said) : NULL;
    const char *hint = starts ? mr_arena_print(arena, "%s; make the folder, or name another", starts)
                              : "make the folder, or name another";
    const char *what = mr_arena_print(arena, "there is no folder \"%s\"", folder);
    if (!hint || !what)
        return MR_ERROR_MEMORY;
    refuse(o, MR_ERROR_IO, hint, what);
    return MR_OK;
}

static int check_folder(const output *o) {
    struct stat about;
    size_t bytes = strlen(o->path);
    while (o->option->file == MR_FILE_FOLDER && bytes > 1 && o->path[bytes - 1] == '/')
        bytes--;
    const char *path = mr_arena_text(o->b->arena, o->path, bytes);
    const char *folder = path ? mr_path_folder(o->b->arena, path) : NULL;
    if (!folder)
        return MR_ERROR_MEMORY;
    if (stat(folder, &about)) {
        if (errno == ENOENT)
            return refuse_missing(o, folder);
        refuse_errno(o);
    } else if (access(folder, W_OK | X_OK)) {
        refuse_errno(o);
    }
    return MR_OK;
}

/* What is there already is checked itself; of what is not, the folder that it would be made in. */
static int check_path(const output *o) {
    struct stat about;
    if (strcmp(o->path, "-") == 0)
        return MR_OK;
    if (stat(o->path, &about)) {
        if (errno == ENOENT)
            return check_folder(o);
        refuse_errno(o);
    } else if (S_ISDIR(about.st_mode) != (o->option->file == MR_FILE_FOLDER)) {
        refuse(o, MR_ERROR_IO, NULL, S_ISDIR(about.st_mode) ? "it is a folder" : "it is no folder");
    } else if (access(o->path, S_ISDIR(about.st_mode) ? R_OK | W_OK | X_OK : W_OK)) {
        refuse_errno(o);
    }
    return MR_OK;
}

static int check_vertex(mr_plan_builder *b, const mr_spec_vertex *vertex) {
    const mr_option *table = vertex->type && !vertex->broken ? vertex->type->options : NULL;
    for (const mr_option *option = table; option && option->name; option++) {
        bool written = option->file == MR_FILE_WRITTEN || option->file == MR_FILE_FOLDER;
        const char *path = written ? mr_option_path(option, vertex->options) : NULL;
        const output one = {b, vertex, option, mr_yaml_get(vertex->node, option->name), path};
        if (path && check_path(&one))
            return MR_ERROR_MEMORY;
    }
    return MR_OK;
}

/* ---- names ------------------------------------------------------------------------------------------------------ */

/* The sink among the types that a file with such an ending is written by; NULL: any may. */
static const char *type_of_ending(const mr_plan_builder *b, const char *path, char *text, size_t bytes) {
    const char *base = strrchr(path, '/'), *dot = strrchr(base ? base : path, '.');
    const mr_stage_type *const *type = b->spec->types;
    if (!dot || !dot[1])
        return NULL;
    while (*type && (!(*type)->inputs || (*type)->outputs || strcmp((*type)->name, dot + 1) != 0))
        type++;
    const char *name = *type ? (*type)->name : mr_synonym_sink(b->spec->types, dot + 1);
    if (name)
        snprintf(text, bytes, "write type: %s, or give the file another name", name);
    return name;
}

/* "--output x.csv" of a stage that writes JSON. */
static void warn_of_ending(const mr_plan_builder *b, const mr_spec_vertex *vertex, const mr_option *option) {
    const char *path = option->file == MR_FILE_WRITTEN ? mr_option_path(option, vertex->options) : NULL;
    const mr_yaml *said = mr_yaml_get(vertex->node, option->name);
    char hint[128];
    const char *meant = path && said ? type_of_ending(b, path, hint, sizeof hint) : NULL;
    if (meant && strcmp(meant, vertex->type->name) != 0)
        mr_diagnose(b->diagnostics, MR_SEVERITY_WARNING, MR_OK, said->place, hint,
                    "stages.%s.%s: the stage is of type %s, and the file \"%s\" is called as those of %s are", vertex->id,
                    option->name, vertex->type->name, said->text, meant);
}

static void warn_of_endings(const mr_plan_builder *b, const mr_spec_vertex *vertex) {
    const mr_option *table = vertex->type && !vertex->broken ? vertex->type->options : NULL;
    for (const mr_option *option = table; option && option->name; option++)
        warn_of_ending(b, vertex, option);
}

int mr_lint_outputs(mr_plan_builder *b) {
    for (int v = 0; v < b->count; v++)
        warn_of_endings(b, b->vertex[v]);
    for (int v = 0; v < b->count && !b->params.offline; v++)
        if (check_vertex(b, b->vertex[v]))
            return MR_ERROR_MEMORY;
    return MR_OK;
}
