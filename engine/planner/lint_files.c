/* Files that two stages write, or that one writes and another reads.
 *
 * The option tables mark the options that name files. Two paths are one file if they lead to the same inode; if there
 * is no file yet, if folder and name are the same; if there is no folder either, if the absolute paths are equal. */
#include "engine/planner/lint_files.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/planner/graph/builder.h"
#include "engine/text/options.h"
#include "engine/text/paths.h"
#include "millrace/status.h"

/* One file, folder or glob that a stage or source names. */
typedef struct use {
    int v;
    const mr_option *option;
    const char *path;
    const char *name;    /* folder: the pattern for file names; NULL: not known */
    const char *pattern; /* glob: the last part; `key` is the folder's */
    const char *key;     /* equal for equal files */
    mr_location place;
    struct use *next;    /* another that reads, or writes, a file with the same key */
} use;

/* Readers and writers by key. */
typedef struct files {
    mr_plan_builder *b;
    mr_index readers, writers;
    const use *pipeline; /* the file that is being read */
} files;

/* ---- identity of a file ---------------------------------------------------------------------------------------- */

static bool is_standard_output(const char *path) {
    return strcmp(path, "-") == 0 || strcmp(path, "/dev/stdout") == 0 || strcmp(path, "/dev/fd/1") == 0 ||
           strcmp(path, "/proc/self/fd/1") == 0;
}

/* Any number of stages may write to /dev/null. The pipeline does not decide where standard output goes. */
static bool swallows(const char *path) {
    struct stat null, about;
    return !is_standard_output(path) && stat("/dev/null", &null) == 0 && stat(path, &about) == 0 &&
           S_ISCHR(about.st_mode) && about.st_rdev == null.st_rdev;
}

static const char *base_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* NULL if memory runs out. */
static const char *key_of(mr_arena *arena, const char *path) {
    struct stat about;
    size_t bytes = strlen(path);
    while (bytes > 1 && path[bytes - 1] == '/')
        bytes--;
    path = mr_arena_text(arena, path, bytes);
    if (!path)
        return NULL;
    if (is_standard_output(path))
        return "-";
    if (stat(path, &about) == 0)
        return mr_arena_print(arena, "%jx:%jx", (uintmax_t)about.st_dev, (uintmax_t)about.st_ino);
    const char *folder = mr_path_folder(arena, path), *base = base_of(path);
    if (!folder)
        return NULL;
    if (strcmp(base, "..") != 0 && strcmp(base, ".") != 0 && stat(folder, &about) == 0)
        return mr_arena_print(arena, "%jx:%jx/%s", (uintmax_t)about.st_dev, (uintmax_t)about.st_ino, base);
    return mr_path_plain(arena, path);
}

/* ---- messages -------------------------------------------------------------------------------------------------- */

static bool is_before(const mr_location *a, const mr_location *b) {
    return a->line != b->line ? a->line < b->line : a->column < b->column;
}

static const mr_spec_vertex *vertex_of(const files *f, const use *at) {
    return f->b->vertex[at->v];
}

static const char *text_of_place(mr_arena *arena, const mr_location *place) {
    const char *text = place->line > 0 ? mr_arena_print(arena, "%s:%d:%d", place->file, place->line, place->column)
                                       : place->file;
    return text ? text : "";
}

static const char *quoted(mr_arena *arena, const char *path) {
    const char *text = is_standard_output(path) ? "standard output" : mr_arena_print(arena, "\"%s\"", path);
    return text ? text : path;
}

/* Two stages write the same file: reported at the later one. */
static void refuse_writers(const files *f, const use *a, const use *b) {
    const use *first = is_before(&a->place, &b->place) ? a : b, *second = first == a ? b : a;
    mr_arena *arena = f->b->arena;
    const char *other = strcmp(first->path, second->path) == 0 || is_standard_output(first->path)
                            ? ""
                            : mr_arena_print(arena, " as \"%s\"", first->path);
    bool folder = first->option->file == MR_FILE_FOLDER && second->option->file == MR_FILE_FOLDER;
    mr_plan_error(f->b, second->place,
                  folder ? "give one of them another folder, or its files other names"
                         : "give one of them another file",
                  "stages.%s.%s: %s%s is already written by \"%s\"%s (%s)%s", vertex_of(f, second)->id,
                  second->option->name, folder ? "the folder " : "", quoted(arena, second->path),
                  vertex_of(f, first)->id, other ? other : "", text_of_place(arena, &first->place),
                  folder ? ", with files of the same names" : "");
}

static void refuse_overwriting(const files *f, const use *writer, const use *reader) {
    mr_arena *arena = f->b->arena;
    const char *section = vertex_of(f, reader)->is_source ? "source" : "stage";
    if (writer->option->file == MR_FILE_FOLDER)
        mr_plan_error(f->b, writer->place, "write them into another folder",
                      "stages.%s.%s: files would be written into %s, which the %s \"%s\" reads (%s)",
                      vertex_of(f, writer)->id, writer->option->name, quoted(arena, writer->path), section,
                      vertex_of(f, reader)->id, text_of_place(arena, &reader->place));
    else
        mr_plan_error(f->b, writer->place, "write another file",
                      "stages.%s.%s: %s would overwrite the file that the %s \"%s\" reads as its %s (%s)",
                      vertex_of(f, writer)->id, writer->option->name, quoted(arena, writer->path), section,
                      vertex_of(f, reader)->id, reader->option->name, text_of_place(arena, &reader->place));
}

/* ---- names of files in a folder -------------------------------------------------------------------------------- */

static bool share_a_source(const mr_plan_vertex *a, const mr_plan_vertex *b) {
    for (size_t i = 0, k = 0; i < a->source_count && k < b->source_count;) {
        if (a->sources[i] == b->sources[k])
            return true;
        if (a->sources[i] < b->sources[k])
            i++;
        else
            k++;
    }
    return false;
}

/* Whether two stages may give files in one folder the same name. Different patterns are not compared: the names are not
 * known before the run. */
static bool names_collide(const files *f, const use *a, const use *b) {
    const mr_plan_vertex *vertices = f->b->plan->vertices;
    if (!a->name || !b->name)
        return !a->name && !b->name;
    return strcmp(a->name, b->name) == 0 &&
           (!strstr(a->name, "{source}") || share_a_source(&vertices[a->v], &vertices[b->v]));
}

/* A name that a stage could use: the source's id, and 0 for other words in braces. */
static void example_name(const char *name, const char *source, char *text, size_t bytes) {
    size_t length = 0;
    while (*name && length + 1 < bytes) {
        size_t word = *name == '{' && strchr(name, '}') ? (size_t)(strchr(name, '}') - name) + 1 : 0;
        bool is_source = word == strlen("{source}") && strncmp(name, "{source}", word) == 0;
        int added = word ? snprintf(text + length, bytes - length, "%s", is_source ? source : "0")
                         : snprintf(text + length, bytes - length, "%c", *name);
        length += (size_t)added;
        name += word ? word : 1;
    }
    text[length < bytes ? length : bytes - 1] = 0;
}

/* Whether a written file is among those that a glob reads. */
static bool glob_takes(const files *f, const use *glob, const use *writer) {
    const mr_plan *plan = f->b->plan;
    const mr_plan_vertex *vertex = &plan->vertices[writer->v];
    char text[512];
    if (!writer->name)
        return writer->option->file == MR_FILE_FOLDER;
    for (size_t i = 0; i < vertex->source_count; i++) {
        example_name(writer->name, plan->vertices[vertex->sources[i]].id, text, sizeof text);
        if (fnmatch(glob->pattern, text, 0) == 0)
            return true;
    }
    return false;
}

/* ---- collecting ------------------------------------------------------------------------------------------------ */

static const char *name_in_folder(const mr_spec_vertex *vertex) {
    for (const mr_option *option = vertex->type->options; option && option->name; option++)
        if (option->file == MR_FILE_NAME)
            return mr_option_string(option, vertex->options);
    return NULL;
}

/* The folder and last part of a path that names many files and is not itself a file. */
static int split_glob(files *f, use *made) {
    struct stat about;
    const char *base = base_of(made->path);
    if (made->option->file != MR_FILE_READ || !strpbrk(base, "*?[") || stat(made->path, &about) == 0)
        return MR_OK;
    made->pattern = base;
    const char *folder = mr_path_folder(f->b->arena, made->path);
    made->key = folder ? key_of(f->b->arena, folder) : NULL;
    return made->key ? MR_OK : MR_ERROR_MEMORY;
}

static int make_use(files *f, int v, const mr_option *option, const char *path, use **out) {
    const mr_spec_vertex *vertex = f->b->vertex[v];
    const mr_yaml *said = mr_yaml_get(vertex->node, option->name);
    use *made = mr_arena_alloc(f->b->arena, sizeof *made);
    if (!made)
        return MR_ERROR_MEMORY;
    *made = (use){.v = v, .option = option, .path = path, .place = said ? said->place : vertex->place};
    if (option->file == MR_FILE_FOLDER)
        made->name = name_in_folder(vertex);
    if (split_glob(f, made))
        return MR_ERROR_MEMORY;
    if (!made->key)
        made->key = key_of(f->b->arena, path);
    *out = made;
    return made->key ? MR_OK : MR_ERROR_MEMORY;
}

static int add_reader(files *f, use *reader) {
    reader->next = mr_index_get(&f->readers, reader->key);
    return mr_index_put(&f->readers, f->b->arena, reader->key, reader);
}

static void hold_against_readers(const files *f, const use *writer, const char *key, bool globs) {
    for (const use *reader = mr_index_get(&f->readers, key); reader; reader = reader->next)
        if (!reader->pattern ? !globs : globs && glob_takes(f, reader, writer)) {
            refuse_overwriting(f, writer, reader);
            return;
        }
}

/* A file that is written into a folder of which a glob reads some. */
static int hold_against_globs(const files *f, const use *writer) {
    use inside = *writer;
    if (writer->option->file == MR_FILE_FOLDER) {
        hold_against_readers(f, writer, writer->key, true);
        return MR_OK;
    }
    const char *folder = mr_path_folder(f->b->arena, writer->path);
    const char *key = folder ? key_of(f->b->arena, folder) : NULL;
    if (!key)
        return MR_ERROR_MEMORY;
    inside.name = base_of(writer->path);
    hold_against_readers(f, &inside, key, true);
    return MR_OK;
}

static void hold_against_writers(const files *f, const use *writer) {
    for (const use *other = writer->next; other; other = other->next)
        if (other->option->file != MR_FILE_FOLDER || writer->option->file != MR_FILE_FOLDER ||
            names_collide(f, other, writer)) {
            refuse_writers(f, other, writer);
            return;
        }
}

static int add_writer(files *f, use *writer) {
    const char *key = writer->key;
    if (swallows(writer->path))
        return MR_OK;
    writer->next = mr_index_get(&f->writers, key);
    hold_against_writers(f, writer);
    hold_against_readers(f, writer, key, false);
    if (f->pipeline && strcmp(f->pipeline->key, key) == 0)
        mr_plan_error(f->b, writer->place, "write another file",
                      "stages.%s.%s: \"%s\" would overwrite the pipeline itself", vertex_of(f, writer)->id,
                      writer->option->name, writer->path);
    if (strcmp(key, "-") != 0 && hold_against_globs(f, writer))
        return MR_ERROR_MEMORY;
    return mr_index_put(&f->writers, f->b->arena, key, writer);
}

static bool writes(const mr_option *option) {
    return option->file == MR_FILE_WRITTEN || option->file == MR_FILE_FOLDER;
}

/* Adds everything that a vertex reads, or writes. */
static int add_uses(files *f, int v, bool writers) {
    const mr_spec_vertex *vertex = f->b->vertex[v];
    const mr_option *table = vertex->type && !vertex->broken ? vertex->type->options : NULL;
    for (const mr_option *option = table; option && option->name; option++) {
        bool wanted = writers ? writes(option) : option->file == MR_FILE_READ;
        const char *path = wanted ? mr_option_path(option, vertex->options) : NULL;
        use *made;
        if (!path || (!writers && strcmp(path, "-") == 0))
            continue;
        if (make_use(f, v, option, path, &made) || (writers ? add_writer(f, made) : add_reader(f, made)))
            return MR_ERROR_MEMORY;
    }
    return MR_OK;
}

static bool has_writer(const mr_plan_builder *b, int v) {
    const mr_option *table = b->vertex[v]->type ? b->vertex[v]->type->options : NULL;
    while (table && table->name && !writes(table))
        table++;
    return table && table->name;
}

int mr_lint_files(mr_plan_builder *b) {
    int first = 0;
    while (first < b->count && !has_writer(b, first))
        first++;
    if (first == b->count) /* Thousands of input files need not be looked up. */
        return MR_OK;
    use pipeline = {.path = b->spec->file};
    files f = {.b = b, .pipeline = &pipeline};
    pipeline.key = key_of(b->arena, b->spec->file);
    if (!pipeline.key)
        return MR_ERROR_MEMORY;
    for (int writers = 0; writers < 2; writers++)
        for (int v = 0; v < b->count; v++)
            if (add_uses(&f, v, writers))
                return MR_ERROR_MEMORY;
    return MR_OK;
}
