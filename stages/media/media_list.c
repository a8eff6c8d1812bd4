#include "stages/media/media_list.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <libavformat/avformat.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "engine/base/arena.h"
#include "engine/base/file.h"
#include "engine/base/memory.h"
#include "stages/media/manifest.h"
#include "stages/media/still/kinds.h"

enum { MOST_CLASSES = 1 << 20 };

/* ---- order ----------------------------------------------------------------------------------------------------- */

static int is_digit(char c) {
    return c >= '0' && c <= '9';
}

int mr_compare_natural(const char *a, const char *b) {
    const char *x = a, *y = b;
    while (*x && *y) {
        if (!is_digit(*x) || !is_digit(*y)) {
            if (*x != *y)
                return (unsigned char)*x < (unsigned char)*y ? -1 : 1;
            x++, y++;
            continue;
        }
        x += strspn(x, "0");
        y += strspn(y, "0");
        size_t digits_x = strspn(x, "0123456789"), digits_y = strspn(y, "0123456789");
        if (digits_x != digits_y)
            return digits_x < digits_y ? -1 : 1;
        int order = memcmp(x, y, digits_x);
        if (order)
            return order;
        x += digits_x, y += digits_y;
    }
    if (*x || *y)
        return *x ? 1 : -1;
    return strcmp(a, b);
}

static int compare_files(const void *a, const void *b) {
    const mr_image_file *x = a, *y = b;
    if (x->label != y->label)
        return x->label < y->label ? -1 : 1;
    return mr_compare_natural(x->path, y->path);
}

static int compare_labels(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* ---- collecting ------------------------------------------------------------------------------------------------ */

static int out_of_memory(void) {
    return mr_fail(MR_ERROR_MEMORY, "out of memory");
}

/* Makes room for one more element in an array that doubles; NULL: no memory. */
static void *grow(void *array, size_t count, size_t bytes) {
    if (count & (count - 1))
        return array;
    return mr_realloc(array, (count ? 2 * count : 1) * bytes);
}

/* Takes ownership of `path`, also on failure. */
static int add_file(mr_image_list *list, char *path, int label) {
    mr_image_file *grown = path ? grow(list->file, list->count, sizeof *grown) : NULL;
    if (!grown) {
        mr_free(path);
        return out_of_memory();
    }
    list->file = grown;
    list->file[list->count++] = (mr_image_file){.path = path, .label = label};
    return MR_OK;
}

static int add_label(mr_image_list *list, const char *name) {
    char **grown = grow(list->label, list->label_count, sizeof *grown);
    if (!grown)
        return out_of_memory();
    list->label = grown;
    list->label[list->label_count] = mr_strdup(name);
    if (!list->label[list->label_count])
        return out_of_memory();
    list->label_count++;
    return MR_OK;
}

static char *join(const char *folder, const char *name) {
    size_t length = strlen(folder), bytes = length + strlen(name) + 2;
    const char *slash = length && folder[length - 1] == '/' ? "" : "/";
    char *path = mr_alloc(bytes);
    if (path)
        snprintf(path, bytes, "%s%s%s", folder, slash, name);
    return path;
}

static bool has_mode(const char *path, mode_t kind) {
    struct stat status;
    return stat(path, &status) == 0 && (status.st_mode & S_IFMT) == kind;
}

/* A broken link counts as an unreadable file. */
static bool is_file(const char *path) {
    struct stat status;
    return stat(path, &status) != 0 || S_ISREG(status.st_mode);
}

static int open_folder(const char *path, DIR **folder) {
    *folder = opendir(path);
    return *folder ? MR_OK : mr_fail(mr_file_status(errno), "%s: %s", path, strerror(errno));
}

static bool is_image_by_name(const char *path) {
    return mr_image_codec_by_name(path) != AV_CODEC_ID_NONE;
}

/* Names that no person created: archives from a Mac contain `__MACOSX`. */
static bool is_hidden(const char *name) {
    return name[0] == '.' || strcmp(name, "__MACOSX") == 0;
}

/* Counts what is not read in a folder or among a glob's matches. */
static void leave_out(mr_image_list *list, const char *path) {
    const bool folder = has_mode(path, S_IFDIR);
    if (folder || is_file(path))
        mr_skipped_files_add(&list->left, path, folder);
    else
        list->left.special++;
}

/* Adds a folder's files that are of this kind. */
static int add_folder(mr_image_list *list, const char *path, int label, bool (*is_kind)(const char *path)) {
    DIR *folder;
    int status = open_folder(path, &folder);
    if (status)
        return status;
    for (struct dirent *entry; !status && (entry = readdir(folder));) {
        if (is_hidden(entry->d_name))
            continue;
        char *file = join(path, entry->d_name);
        if (file && (has_mode(file, S_IFDIR) || !is_kind(file) || !is_file(file))) {
            leave_out(list, file);
            mr_free(file);
            continue;
        }
        status = add_file(list, file, label);
    }
    closedir(folder);
    return status;
}

static int find_labels(mr_image_list *list, const char *path) {
    DIR *folder;
    int status = open_folder(path, &folder);
    if (status)
        return status;
    for (struct dirent *entry; !status && (entry = readdir(folder));) {
        char *inner = is_hidden(entry->d_name) ? NULL : join(path, entry->d_name);
        if (inner && has_mode(inner, S_IFDIR))
            status = add_label(list, entry->d_name);
        else if (inner && is_image_by_name(entry->d_name))
            mr_skipped_files_add(&list->left, inner, false);
        mr_free(inner);
    }
    closedir(folder);
    if (list->label_count)
        qsort(list->label, list->label_count, sizeof *list->label, compare_labels);
    return status;
}

static int add_labelled(mr_image_list *list, const char *path) {
    int status = find_labels(list, path);
    for (size_t i = 0; !status && i < list->label_count; i++) {
        char *inner = join(path, list->label[i]);
        status = inner ? add_folder(list, inner, (int)i, is_image_by_name) : out_of_memory();
        mr_free(inner);
    }
    return status;
}

/* ---- globs ------------------------------------------------------------------------------------------------------ */

static int add_matches(mr_image_list *list, const char *pattern, const char *rest);

/* A pattern that matches only this folder, and `rest` in it. */
static char *literally(const char *folder, const char *rest) {
    char *text = mr_alloc(2 * strlen(folder) + strlen(rest) + 2), *to = text;
    for (const char *at = folder; text && *at; *to++ = *at++)
        if (strchr("*?[]\\", *at))
            *to++ = '\\';
    if (text)
        snprintf(to, strlen(rest) + 2, "/%s", rest);
    return text;
}

/* Adds what matches `rest` in a folder and all its folders that are not hidden. Links to folders are not followed;
 * unreadable folders are skipped. */
static int add_beneath(mr_image_list *list, const char *path, const char *rest) {
    DIR *folder = opendir(path);
    char *pattern = literally(path, rest);
    int status = pattern ? add_matches(list, pattern, NULL) : out_of_memory();
    mr_free(pattern);
    if (!folder)
        mr_skipped_files_add(&list->left, path, true);
    for (struct dirent *entry; folder && !status && (entry = readdir(folder));) {
        struct stat about;
        char *inner = is_hidden(entry->d_name) ? NULL : join(path, entry->d_name);
        const bool known = inner && lstat(inner, &about) == 0;
        if (known && S_ISDIR(about.st_mode))
            status = add_beneath(list, inner, rest);
        else if (inner && !known && errno != ENOENT)
            mr_skipped_files_add(&list->left, inner, entry->d_type == DT_DIR);
        mr_free(inner);
    }
    if (folder)
        closedir(folder);
    return status;
}

/* Adds matching files. With `rest`, adds what matches `rest` in or below each matching folder. */
static int add_matches(mr_image_list *list, const char *pattern, const char *rest) {
    glob_t found = {0};
    int answer = glob(pattern, GLOB_NOSORT, NULL, &found);
    int status = answer == GLOB_NOSPACE ? out_of_memory() : MR_OK;
    for (size_t i = 0; !status && answer == 0 && i < found.gl_pathc; i++) {
        const char *path = found.gl_pathv[i];
        if (rest && has_mode(path, S_IFDIR))
            status = add_beneath(list, path, rest);
        else if (!rest && is_file(path))
            status = add_file(list, mr_strdup(path), -1);
        else if (!rest && !list->nested)
            leave_out(list, path);
    }
    globfree(&found);
    return status;
}

/* "**" in a pattern matches any number of folders. */
static int add_glob(mr_image_list *list, const char *pattern) {
    const char *deep = strstr(pattern, "**");
    while (deep && ((deep > pattern && deep[-1] != '/') || (deep[2] && deep[2] != '/')))
        deep = strstr(deep + 2, "**");
    if (!deep)
        return add_matches(list, pattern, NULL);
    char *folder = deep == pattern ? mr_strdup(".") : mr_strdup(pattern);
    if (!folder)
        return out_of_memory();
    if (deep > pattern)
        folder[deep - pattern > 1 ? deep - pattern - 1 : 1] = '\0';
    list->nested = true;
    int status = add_matches(list, folder, deep[2] && deep[3] ? deep + 3 : "*");
    mr_free(folder);
    return status;
}

bool mr_image_list_names_images(const mr_image_list *list) {
    for (size_t i = 0; i < list->count; i++)
        if (is_image_by_name(list->file[i].path))
            return true;
    return false;
}

/* If a glob matches pictures and videos, only pictures are read. */
static void leave_out_videos(mr_image_list *list) {
    size_t kept = 0;
    if (!mr_image_list_names_images(list))
        return;
    for (size_t i = 0; i < list->count; i++) {
        const mr_image_file file = list->file[i];
        if (!mr_is_video_by_name(file.path)) {
            list->file[kept++] = file;
            continue;
        }
        mr_skipped_files_add(&list->left, file.path, false);
        mr_free(file.path);
    }
    list->count = kept;
}

/* The path for a number; NULL if there is no such file. */
static char *find_numbered(const char *pattern, int64_t number) {
    char path[4096];
    bool made = number <= INT_MAX && av_get_frame_filename2(path, sizeof path, pattern, (int)number, 0) >= 0;
    return made && has_mode(path, S_IFREG) ? mr_strdup(path) : NULL;
}

/* Whether files with slightly higher numbers exist. */
static void note_missing(mr_image_list *list, const char *pattern, int64_t number) {
    enum { FAR = 1000 };
    char path[4096], *later = NULL;
    for (int64_t i = 1; !later && i <= FAR; i++)
        later = find_numbered(pattern, number + i);
    if (later && av_get_frame_filename2(path, sizeof path, pattern, (int)number, 0) >= 0)
        list->missing = mr_strdup(path);
    mr_free(later);
}

static int add_numbered(mr_image_list *list, const char *pattern, int64_t start) {
    enum { TRIED = 5 };
    int64_t number = start;
    char *path = NULL;
    while (!(path = find_numbered(pattern, number)) && number < start + TRIED - 1)
        number++;
    if (!path)
        return mr_fail(MR_ERROR_NO_INPUT,
                       "%s: there is no file for any number from %" PRId64 " to %" PRId64
                       "; set start_number to the first", pattern, start, start + TRIED - 1);
    int status = MR_OK;
    for (; path && !status; path = find_numbered(pattern, ++number))
        status = add_file(list, path, -1);
    note_missing(list, pattern, number);
    return status;
}

/* A manifest's classes during reading: index + 1 by name. */
typedef struct classes {
    mr_image_list *list;
    mr_arena arena;
    mr_index index;
} classes;

/* Numbers classes in order of appearance. */
static int number_label(classes *known, const char *name, int *label) {
    mr_image_list *list = known->list;
    const void *found = mr_index_get(&known->index, name);
    *label = (int)(intptr_t)found - 1;
    if (found)
        return MR_OK;
    if (list->label_count == MOST_CLASSES)
        return mr_fail(MR_ERROR_DATA, "more than %d classes", MOST_CLASSES);
    int status = add_label(list, name);
    if (status)
        return status;
    *label = (int)list->label_count - 1;
    return mr_index_put(&known->index, &known->arena, list->label[*label], (void *)(intptr_t)list->label_count);
}

static int add_row(void *context, const mr_manifest_row *row) {
    classes *known = context;
    int label = -1, status = row->label ? number_label(known, row->label, &label) : MR_OK;
    if (!status)
        status = add_file(known->list, mr_strdup(row->path), label);
    if (status)
        return status;
    mr_image_file *file = &known->list->file[known->list->count - 1];
    file->split = row->split;
    file->line = row->line;
    file->video = row->ranged || mr_is_video_by_name(row->path);
    file->start_ns = row->start_ns;
    file->end_ns = row->end_ns;
    file->group = row->group ? mr_strdup(row->group) : NULL;
    return row->group && !file->group ? out_of_memory() : MR_OK;
}

/* Renumbers the classes in byte order. */
static int order_labels(classes *known) {
    mr_image_list *list = known->list;
    int *moved = mr_calloc(list->label_count + 1, sizeof *moved);
    if (!moved)
        return out_of_memory();
    qsort(list->label, list->label_count, sizeof *list->label, compare_labels);
    for (size_t i = 0; i < list->label_count; i++)
        moved[(intptr_t)mr_index_get(&known->index, list->label[i]) - 1] = (int)i;
    for (size_t i = 0; i < list->count; i++)
        if (list->file[i].label >= 0)
            list->file[i].label = moved[list->file[i].label];
    mr_free(moved);
    return MR_OK;
}

static int add_manifest(mr_image_list *list, const char *path, bool vectors) {
    classes known = {.list = list};
    int status = mr_manifest_read(path, vectors, add_row, &known, &list->unused_column);
    if (!status && list->label_count)
        status = order_labels(&known);
    mr_arena_fini(&known.arena);
    return status;
}

static int say_empty(const mr_image_list *list, const char *path, mr_input_kind kind, bool labels) {
    char found[MR_SKIPPED_FILES_TEXT];
    const char *left = mr_skipped_files_print(&list->left, found);
    if (kind == MR_INPUT_GLOB)
        return mr_fail(MR_ERROR_NO_INPUT, "%s: no file matches", path);
    if (kind == MR_INPUT_LIST)
        return mr_fail(MR_ERROR_DATA, "%s: the list has no rows", path);
    if (labels && !list->label_count)
        return mr_fail(MR_ERROR_DATA, "%s: there are no folders in it: put the pictures of each class into one", path);
    if (labels)
        return mr_fail(MR_ERROR_DATA, "%s: the folders in it hold no images%s%s", path,
                       *left ? ", but " : "", left);
    if (!list->left.folders)
        return mr_fail(MR_ERROR_DATA, "%s: the folder holds no images and no videos%s%s", path,
                       *left ? ", but " : "", left);
    return mr_fail(MR_ERROR_DATA,
                   "%s: the folder holds no images and no videos, but %s: for pictures in folders within it write "
                   "\"%s/**\"; a folder for each class needs labels: true",
                   path, left, path);
}

int mr_image_list_make(mr_image_list *list, const char *path, mr_input_kind kind, bool labels, int start_number) {
    *list = (mr_image_list){0};
    int status;
    if (kind == MR_INPUT_FILE) {
        status = add_file(list, mr_strdup(path), -1);
    } else if (kind == MR_INPUT_GLOB) {
        status = add_glob(list, path);
        leave_out_videos(list);
    } else if (kind == MR_INPUT_NUMBERED) {
        status = add_numbered(list, path, start_number);
    } else if (kind == MR_INPUT_LIST) {
        status = add_manifest(list, path, false);
    } else {
        status = labels ? add_labelled(list, path) : add_folder(list, path, -1, is_image_by_name);
    }
    if (!status && list->count == 0)
        status = say_empty(list, path, kind, labels);
    if (status) {
        mr_image_list_fini(list);
        return status;
    }
    if (kind != MR_INPUT_NUMBERED && kind != MR_INPUT_LIST)
        qsort(list->file, list->count, sizeof *list->file, compare_files);
    return MR_OK;
}

int mr_image_list_make_rows(mr_image_list *list, const char *path) {
    *list = (mr_image_list){0};
    int status = add_manifest(list, path, true);
    if (!status && list->count == 0)
        status = say_empty(list, path, MR_INPUT_LIST, false);
    if (status)
        mr_image_list_fini(list);
    return status;
}

bool mr_image_list_says(const mr_image_list *list, char text[MR_IMAGE_LIST_TEXT]) {
    char left[MR_SKIPPED_FILES_TEXT];
    if (!mr_skipped_files_any(&list->left))
        return false;
    const char *what = list->count && mr_is_video_by_name(list->file[0].path) ? "video" : "picture";
    snprintf(text, MR_IMAGE_LIST_TEXT, "reads %zu %s%s and leaves out %s", list->count, what,
             list->count == 1 ? "" : "s", mr_skipped_files_print(&list->left, left));
    return true;
}

int mr_video_list_make(mr_image_list *list, const char *path, mr_input_kind kind) {
    *list = (mr_image_list){0};
    int status = MR_OK;
    if (kind == MR_INPUT_GLOB)
        status = add_glob(list, path);
    else if (kind == MR_INPUT_FOLDER)
        status = add_folder(list, path, -1, is_image_by_name);
    if (!status && kind == MR_INPUT_FOLDER && list->count == 0) {
        list->left = (mr_skipped_files){0};
        status = add_folder(list, path, -1, mr_is_video_by_name);
    }
    if (status || mr_image_list_names_images(list))
        mr_image_list_fini(list);
    if (list->count)
        qsort(list->file, list->count, sizeof *list->file, compare_files);
    return status;
}

void mr_image_list_fini(mr_image_list *list) {
    for (size_t i = 0; i < list->count; i++) {
        mr_free(list->file[i].path);
        mr_free(list->file[i].group);
    }
    for (size_t i = 0; i < list->label_count; i++)
        mr_free(list->label[i]);
    mr_free(list->missing);
    mr_free(list->unused_column);
    mr_free(list->file);
    mr_free(list->label);
    *list = (mr_image_list){0};
}
