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
#include "engine/base/memory.h"
#include "stages/media/manifest.h"

enum { MOST_CLASSES = 1 << 20 };

static const struct {
    const char *extension;
    enum AVCodecID codec;
} extensions[] = {
    {"png", AV_CODEC_ID_PNG},   {"jpg", AV_CODEC_ID_MJPEG},   {"jpeg", AV_CODEC_ID_MJPEG}, {"jpe", AV_CODEC_ID_MJPEG},
    {"bmp", AV_CODEC_ID_BMP},   {"webp", AV_CODEC_ID_WEBP},   {"tif", AV_CODEC_ID_TIFF},   {"tiff", AV_CODEC_ID_TIFF},
    {"ppm", AV_CODEC_ID_PPM},   {"pgm", AV_CODEC_ID_PGM},     {"pbm", AV_CODEC_ID_PBM},    {"pnm", AV_CODEC_ID_PPM},
    {"pam", AV_CODEC_ID_PAM},   {"gif", AV_CODEC_ID_GIF},     {"jp2", AV_CODEC_ID_JPEG2000},
    {"j2k", AV_CODEC_ID_JPEG2000},
    {"tga", AV_CODEC_ID_TARGA}, {"sgi", AV_CODEC_ID_SGI},     {"exr", AV_CODEC_ID_EXR},    {"dpx", AV_CODEC_ID_DPX},
    {"qoi", AV_CODEC_ID_QOI},   {"jxl", AV_CODEC_ID_JPEGXL},  {"pcx", AV_CODEC_ID_PCX},
    {"ras", AV_CODEC_ID_SUNRAST}};

enum AVCodecID mr_image_codec_by_name(const char *path) {
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < sizeof extensions / sizeof *extensions; i++)
        if (strcasecmp(dot + 1, extensions[i].extension) == 0)
            return extensions[i].codec;
    return AV_CODEC_ID_NONE;
}

/* The common formats are known by their signatures; libavformat recognises the others; it needs zeros behind the bytes.
 */
enum AVCodecID mr_image_codec_by_content(const uint8_t *data, size_t bytes) {
    enum { HEAD_BYTES = 4096 };
    uint8_t head[HEAD_BYTES + AVPROBE_PADDING_SIZE] = {0};
    size_t taken = bytes < HEAD_BYTES ? bytes : HEAD_BYTES;
    if (bytes >= 8 && memcmp(data, "\x89PNG\r\n\x1a\n", 8) == 0)
        return AV_CODEC_ID_PNG;
    if (bytes >= 3 && memcmp(data, "\xff\xd8\xff", 3) == 0)
        return AV_CODEC_ID_MJPEG;
    if (bytes == 0)
        return AV_CODEC_ID_NONE;
    memcpy(head, data, taken);
    const AVProbeData probe = {.filename = "", .buf = head, .buf_size = (int)taken};
    const AVInputFormat *format = av_probe_input_format(&probe, 1);
    return format ? mr_input_image_codec(format) : AV_CODEC_ID_NONE;
}

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

/* Room for one element more in an array that grows by doubling; NULL without memory. */
static void *grow(void *array, size_t count, size_t bytes) {
    if (count & (count - 1))
        return array;
    return mr_realloc(array, (count ? 2 * count : 1) * bytes);
}

/* Takes `path` over, also on failure. */
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

/* A name without a file, such as a broken link, counts as a file that cannot be read. */
static bool is_file(const char *path) {
    struct stat status;
    return stat(path, &status) != 0 || S_ISREG(status.st_mode);
}

static int open_folder(const char *path, DIR **folder) {
    *folder = opendir(path);
    return *folder ? MR_OK : mr_fail(mr_av_status(AVERROR(errno)), "%s: %s", path, strerror(errno));
}

bool mr_is_video_by_name(const char *path) {
    static const char *const endings[] = {
        "mp4", "m4v", "mov", "mkv", "webm", "avi", "mpg", "mpeg", "vob", "ts", "mts", "m2ts", "m2t", "flv", "f4v",
        "wmv", "asf", "ogv", "3gp", "3g2", "mxf", "nut", "y4m", "mjpeg", "mjpg", "h264", "264", "hevc", "h265", "265",
        "ivf", "dv"};
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++)
        if (strcasecmp(dot + 1, endings[i]) == 0)
            return true;
    return false;
}

/* Of labelled folders: `name` in the folder is not used. The first one by name is remembered; takes no failure, since
 * it is only told. */
static void ignore(mr_image_list *list, const char *folder, const char *name) {
    char *path = join(folder, name);
    const bool first = path && (!list->ignored_first || mr_compare_natural(path, list->ignored_first) < 0);
    list->ignored++;
    mr_free(first ? list->ignored_first : path);
    if (first)
        list->ignored_first = path;
}

/* Names that hold nothing a person put there: `__MACOSX` comes with archives from a Mac. */
static bool is_hidden(const char *name) {
    return name[0] == '.' || strcmp(name, "__MACOSX") == 0;
}

static bool is_image_by_name(const char *path) {
    return mr_image_codec_by_name(path) != AV_CODEC_ID_NONE;
}

/* The files that are of that kind. */
static int add_folder(mr_image_list *list, const char *path, int label, bool (*is_kind)(const char *path)) {
    DIR *folder;
    int status = open_folder(path, &folder);
    if (status)
        return status;
    for (struct dirent *entry; !status && (entry = readdir(folder));) {
        if (is_hidden(entry->d_name))
            continue;
        char *file = is_kind(entry->d_name) ? join(path, entry->d_name) : NULL;
        if (!is_kind(entry->d_name) || (file && !is_file(file))) {
            mr_free(file);
            if (label >= 0)
                ignore(list, path, entry->d_name);
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
            ignore(list, path, entry->d_name);
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

static int add_glob(mr_image_list *list, const char *pattern) {
    glob_t found = {0};
    int answer = glob(pattern, GLOB_NOSORT, NULL, &found);
    int status = answer == GLOB_NOSPACE ? out_of_memory() : MR_OK;
    for (size_t i = 0; !status && answer == 0 && i < found.gl_pathc; i++)
        if (is_file(found.gl_pathv[i]))
            status = add_file(list, mr_strdup(found.gl_pathv[i]), -1);
    globfree(&found);
    return status;
}

/* The path of a number; NULL if there is no such file. */
static char *find_numbered(const char *pattern, int64_t number) {
    char path[4096];
    bool made = number <= INT_MAX && av_get_frame_filename2(path, sizeof path, pattern, (int)number, 0) >= 0;
    return made && has_mode(path, S_IFREG) ? mr_strdup(path) : NULL;
}

/* Whether there are files with higher numbers, not too far away. */
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

/* Classes of a manifest while it is read: index + 1 by name. */
typedef struct classes {
    mr_image_list *list;
    mr_arena arena;
    mr_index index;
} classes;

/* The number of a class in the order in which they come. */
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

/* Numbers the classes anew, in byte order of their names. */
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
    if (kind == MR_INPUT_GLOB)
        return mr_fail(MR_ERROR_NO_INPUT, "%s: no file matches", path);
    if (kind == MR_INPUT_LIST)
        return mr_fail(MR_ERROR_DATA, "%s: the list has no rows", path);
    if (labels && !list->label_count)
        return mr_fail(MR_ERROR_DATA, "%s: there are no folders in it: put the pictures of each class into one", path);
    if (labels)
        return mr_fail(MR_ERROR_DATA, "%s: the folders in it hold no images%s%s", path,
                       list->ignored_first ? ", by the names of their files, such as " : "",
                       list->ignored_first ? list->ignored_first : "");
    return mr_fail(MR_ERROR_DATA,
                   "%s: the folder holds no images and no videos; one that holds a folder for each class needs labels: "
                   "true",
                   path);
}

int mr_image_list_make(mr_image_list *list, const char *path, mr_input_kind kind, bool labels, int start_number) {
    *list = (mr_image_list){0};
    int status;
    if (kind == MR_INPUT_FILE) {
        status = add_file(list, mr_strdup(path), -1);
    } else if (kind == MR_INPUT_GLOB) {
        status = add_glob(list, path);
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

bool mr_image_list_names_images(const mr_image_list *list) {
    enum { ENOUGH_FILES = 16 };
    for (size_t i = 0; i < list->count && i < ENOUGH_FILES; i++)
        if (is_image_by_name(list->file[i].path))
            return true;
    return false;
}

int mr_video_list_make(mr_image_list *list, const char *path, mr_input_kind kind) {
    *list = (mr_image_list){0};
    int status = MR_OK;
    if (kind == MR_INPUT_GLOB)
        status = add_glob(list, path);
    else if (kind == MR_INPUT_FOLDER)
        status = add_folder(list, path, -1, is_image_by_name);
    if (!status && kind == MR_INPUT_FOLDER && list->count == 0)
        status = add_folder(list, path, -1, mr_is_video_by_name);
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
    mr_free(list->ignored_first);
    mr_free(list->unused_column);
    mr_free(list->file);
    mr_free(list->label);
    *list = (mr_image_list){0};
}
