/* Outputs that no stage reads, files that a run could not write, pools that are too large; and the other checks in
 * order. */
#include "engine/planner/lint.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/planner/graph/builder.h"
#include "engine/planner/graph/links.h"
#include "engine/planner/lint_files.h"
#include "engine/planner/graph/lint_joins.h"
#include "engine/planner/graph/lint_required.h"
#include "engine/planner/lint_nodes.h"
#include "engine/planner/lint_timing.h"
#include "engine/planner/plan_memory.h"
#include "engine/planner/sizes.h"
#include "engine/text/options.h"
#include "engine/text/paths.h"
#include "engine/text/synonyms.h"
#include "millrace/status.h"

/* ---- outputs without readers ----------------------------------------------------------------------------------- */

static bool output_is_taken(const mr_plan_builder *b, int v, int port) {
    for (int i = b->out.start[v]; i < b->out.start[v + 1]; i++)
        if (b->link[b->out.item[i]].from_port == port)
            return true;
    return false;
}

static void warn_of_output(mr_plan_builder *b, const mr_spec_vertex *vertex, int port) {
    char hint[192];
    if (vertex->reserved) {
        if (vertex == &b->spec->sources[b->spec->source_count - b->spec->reserved_count])
            mr_plan_error(b, b->spec->most_place, "write input: sources.* in a stage",
                          "sources.max: nothing reads the sources that are added");
        return;
    }
    if (vertex->is_source) {
        mr_diagnose(b->diagnostics, MR_SEVERITY_WARNING, MR_OK, vertex->place,
                    "name it in a stage's `input`, or remove it", "nothing reads the source \"%s\"", vertex->id);
        return;
    }
    snprintf(hint, sizeof hint, "add a stage with `input: %s%s%s`, or remove this one", vertex->id,
             port ? "." : "", port ? vertex->type->outputs[port].name : "");
    mr_diagnose(b->diagnostics, MR_SEVERITY_WARNING, MR_OK, vertex->place, hint,
                "nothing reads the output \"%s\" of \"%s\"", vertex->type->outputs[port].name, vertex->id);
}

static void warn_of_unused(mr_plan_builder *b) {
    for (int v = 0; v < b->count; v++) {
        const mr_spec_vertex *vertex = b->vertex[v];
        for (int port = 0; vertex->type && port < mr_port_count(vertex->type->outputs); port++)
            if (!vertex->type->outputs[port].optional && !output_is_taken(b, v, port))
                warn_of_output(b, vertex, port);
    }
}

/* ---- files and folders that cannot be written -------------------------------------------------------------------- */

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

/* "{time}" in a folder's path, which no stage fills in; "": there is none. */
static const char *braced_in(const output *o, const char *folder) {
    const char *start = strchr(folder, '{'), *end = start ? strchr(start, '}') : NULL;
    return end ? mr_arena_text(o->b->arena, start, (size_t)(end + 1 - start)) : "";
}

/* The hint names the folder that the path starts in before the advice to create one: a folder that exists may be
 * meant. */
static int refuse_missing(const output *o, const char *folder) {
    mr_arena *arena = o->b->arena;
    const mr_spec *spec = o->b->spec;
    const char *braced = braced_in(o, folder), *starts = NULL;
    if (braced && *braced)
        starts = mr_arena_print(arena, "only a file's name can have %s", braced);
    else if (o->said)
        starts = mr_path_hint(arena, spec->synonyms, spec->model_of, spec->file, o->option, o->said);
    const char *hint = starts ? mr_arena_print(arena, "%s; make the folder, or name another", starts)
                              : "make the folder, or name another";
    const char *what = mr_arena_print(arena, "there is no folder \"%s\"", folder);
    if (!hint || !what)
        return MR_ERROR_MEMORY;
    refuse(o, MR_ERROR_IO, hint, what);
    return MR_OK;
}

/* Whether a run may make this folder. A shell reads "~" and "$HOME" as another, "{time}" is for a file's name, and a
 * path that ends with a slash names no file. */
static bool is_made(const output *o, const char *folder) {
    const char *slash = strrchr(folder, '/'), *name = slash ? slash + 1 : folder;
    const bool named = o->option->file == MR_FILE_FOLDER || o->path[strlen(o->path) - 1] != '/';
    const char *braced = braced_in(o, name);
    return named && *name != '~' && *name != '$' && braced && !*braced;
}

/* The folder that the stage writes to. */
static const char *folder_of(const output *o) {
    size_t bytes = strlen(o->path);
    if (o->option->file != MR_FILE_FOLDER)
        return mr_path_folder(o->b->arena, o->path);
    while (bytes > 1 && o->path[bytes - 1] == '/')
        bytes--;
    return mr_arena_text(o->b->arena, o->path, bytes);
}

/* The folder that must exist: a run makes the one that a stage writes to (engine/plan/folders.h), but none above it. */
static const char *folder_above(const output *o) {
    struct stat about;
    const char *folder = folder_of(o);
    if (folder && stat(folder, &about) && errno == ENOENT && is_made(o, folder))
        return mr_path_folder(o->b->arena, folder);
    return folder;
}

static int check_folder(const output *o) {
    struct stat about;
    const char *folder = folder_above(o);
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

/* A path that exists is checked itself; otherwise, the folder that it would be made in. */
static int check_path(const output *o) {
    struct stat about;
    if (strcmp(o->path, "-") == 0)
        return MR_OK;
    if (stat(o->path, &about)) {
        if (errno == ENOENT)
            return check_folder(o);
        refuse_errno(o);
    } else if (S_ISDIR(about.st_mode) != (o->option->file == MR_FILE_FOLDER)) {
        refuse(o, MR_ERROR_IO, S_ISDIR(about.st_mode) ? "name a file in it" : "name a folder",
               S_ISDIR(about.st_mode) ? "it is a folder" : "it is not a folder");
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

/* The sink among the types that write files with such an ending; NULL: any may. */
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

/* "--output x.csv" for a stage that writes JSON. */
static void warn_of_ending(const mr_plan_builder *b, const mr_spec_vertex *vertex, const mr_option *option) {
    const char *path = option->file == MR_FILE_WRITTEN ? mr_option_path(option, vertex->options) : NULL;
    const mr_yaml *said = mr_yaml_get(vertex->node, option->name);
    char hint[128];
    const char *meant = path && said ? type_of_ending(b, path, hint, sizeof hint) : NULL;
    if (meant && strcmp(meant, vertex->type->name) != 0)
        mr_diagnose(b->diagnostics, MR_SEVERITY_WARNING, MR_OK, said->place, hint,
                    "stages.%s.%s: the stage is of type %s, but the name of the file \"%s\" ends like those of %s",
                    vertex->id, option->name, vertex->type->name, said->text, meant);
}

/* "path: out.mp4" for a stage that writes files into a folder. */
static void warn_of_folder(const mr_plan_builder *b, const mr_spec_vertex *vertex, const mr_option *option) {
    static const char *const endings[] = {".mp4", ".mkv", ".m3u8", ".jpg", ".jpeg", ".png", ".webp"};
    const mr_yaml *said = option->file == MR_FILE_FOLDER ? mr_yaml_get(vertex->node, option->name) : NULL;
    const char *dot = said && said->kind == MR_YAML_SCALAR ? strrchr(said->text, '.') : NULL;
    for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++)
        if (strcasecmp(dot, endings[i]) == 0)
            mr_diagnose(b->diagnostics, MR_SEVERITY_WARNING, MR_OK, said->place,
                        "name the folder here, and the files with `name`",
                        "stages.%s.%s: \"%s\" is a folder that files are written into, though its name ends like "
                        "that of a file", vertex->id, option->name, said->text);
}

static void warn_of_endings(const mr_plan_builder *b, const mr_spec_vertex *vertex) {
    const mr_option *table = vertex->type && !vertex->broken ? vertex->type->options : NULL;
    for (const mr_option *option = table; option && option->name; option++) {
        warn_of_ending(b, vertex, option);
        warn_of_folder(b, vertex, option);
    }
}

static int lint_outputs(mr_plan_builder *b) {
    for (int v = 0; v < b->count; v++)
        warn_of_endings(b, b->vertex[v]);
    for (int v = 0; v < b->count && !b->params.offline; v++)
        if (check_vertex(b, b->vertex[v]))
            return MR_ERROR_MEMORY;
    return MR_OK;
}

/* ---- pools that are too large ------------------------------------------------------------------------------------ */

/* A pool is planned for all places that can hold its buffers at once (plan.h); with fewer buffers, stages would wait
 * for each other. sizes.c counts a place once for each way to it, and stops at the limit. */
static void lint_pools(mr_plan_builder *b) {
    uint64_t bytes;
    for (int v = 0; v < b->count; v++) {
        const mr_plan_vertex *vertex = &b->plan->vertices[v];
        if (vertex->needs.output_buffers == MR_PLAN_MOST_BUFFERS && vertex->output_count &&
            mr_plan_allocates(vertex, 0, &bytes))
            mr_plan_error(b, vertex->mark,
                          "write shorter queues in the stages after it, or spread its sources over more stages",
                          "stages.%s: the stages after it may hold more of its frames at once than the %d buffers that "
                          "a pool may have", vertex->id, MR_PLAN_MOST_BUFFERS);
    }
}

/* ---- together -------------------------------------------------------------------------------------------------- */

int mr_lint_plan(mr_plan_builder *b, bool linked) {
    if (linked && !b->spec->broken)
        warn_of_unused(b);
    if (mr_lint_files(b) || lint_outputs(b) || (linked && mr_lint_required(b)))
        return MR_ERROR_MEMORY;
    return linked ? mr_lint_joins(b) : MR_OK;
}

/* An assumption that has no effect is not as the user meant it. */
static void warn_of_assumed(mr_plan_builder *b) {
    for (size_t v = b->plan->source_count; v < b->plan->vertex_count; v++)
        for (size_t i = 0; i < mr_plan_parts(&b->plan->vertices[v]); i++)
            if (mr_plan_part(&b->plan->vertices[v], i) > 0)
                return;
    if (b->params.assume_count)
        mr_diagnose(b->diagnostics, MR_SEVERITY_WARNING, MR_OK, (mr_location){.file = "--assume"},
                    "write device: auto in the stages that compute, or --set stages.ID.device=auto",
                    "no stage uses a device that is assumed: all run on the processors");
}

/* Reports again, at each start, a difference that the author has overruled. */
static void warn_of_forced(mr_plan_builder *b) {
    for (int v = 0; v < b->count; v++)
        if (b->plan->vertices[v].remarks.forced)
            mr_diagnose(b->diagnostics, MR_SEVERITY_WARNING, MR_OK, b->vertex[v]->place, NULL, "%s: %s",
                        b->vertex[v]->id, b->plan->vertices[v].remarks.anywhere);
}

int mr_lint_sizes(mr_plan_builder *b) {
    warn_of_assumed(b);
    warn_of_forced(b);
    lint_pools(b);
    return mr_lint_deadlines(b) || mr_lint_batches(b) || mr_lint_nodes(b) ? MR_ERROR_MEMORY : MR_OK;
}
