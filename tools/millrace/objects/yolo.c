#include "tools/millrace/objects/yolo.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/memory.h"
#include "millrace/log.h"
#include "millrace/status.h"

enum { MOST_TEXT = 16 << 20, MOST_CLASSES = 100000 };

static int wrong(const char *path, size_t line, const char *what) {
    return mr_fail(MR_ERROR_DATA, "%s:%zu: %s", path, line, what);
}

/* The numbers after a line's class, of which the first four are kept, and their bounds: even ones go across, odd ones
 * down. */
typedef struct numbers {
    double first[4], least[2], most[2];
    size_t count;
} numbers;

/* False: there is something else, or a number outside of 0..1. */
static bool read_numbers(char *at, numbers *n) {
    *n = (numbers){.least = {1, 1}};
    for (char *end; at[strspn(at, " \t\r")]; at = end, n->count++) {
        const double value = strtod(at, &end);
        if (end == at || !(value >= 0 && value <= 1))
            return false;
        if (n->count < 4)
            n->first[n->count] = value;
        n->least[n->count % 2] = fmin(n->least[n->count % 2], value);
        n->most[n->count % 2] = fmax(n->most[n->count % 2], value);
    }
    return true;
}

/* A line's class and box, or the box around its outline; false: it is neither that nor blank. */
static bool read_line(char *line, mr_boxed *object, bool *blank) {
    numbers n;
    char *end;
    *blank = line[strspn(line, " \t\r")] == 0;
    const long label = strtol(line, &end, 10);
    if (*blank || end == line || label < 0 || label >= MOST_CLASSES)
        return *blank;
    if (!read_numbers(end, &n) || n.count < 4 || n.count % 2)
        return false;
    const bool box = n.count == 4;
    const double width = box ? n.first[2] : n.most[0] - n.least[0], height = box ? n.first[3] : n.most[1] - n.least[1];
    *object = (mr_boxed){.label = (int32_t)label, .left = box ? n.first[0] - width / 2 : n.least[0],
                         .top = box ? n.first[1] - height / 2 : n.least[1], .width = width, .height = height,
                         .area = width * height};
    return true;
}

int mr_yolo_read_text(mr_coco *to, size_t *room, const char *path, size_t image, char *text) {
    size_t number = 0;
    for (char *line = text, *next; line; line = next) {
        mr_boxed object;
        bool blank;
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        number++;
        if (!read_line(line, &object, &blank))
            return wrong(path, number, "expected the number of a class, and centre, width and height in 0..1, or the "
                         "corners of an outline");
        if (blank)
            continue;
        object.image = image;
        if (to->object_count == *room &&
            mr_arena_grow(&to->arena, (void **)&to->objects, to->object_count, room, sizeof *to->objects))
            return MR_ERROR_MEMORY;
        to->objects[to->object_count++] = object;
        to->class_count = (size_t)object.label < to->class_count ? to->class_count : (size_t)object.label + 1;
    }
    return MR_OK;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static const char *text_at(mr_coco *to, const char *folder, const char *name) {
    return mr_arena_print(&to->arena, "%s/labels/%.*s.txt", folder, (int)(strrchr(name, '.') - name), name);
}

static int read_objects(mr_coco *to, size_t *room, const char *folder, const char *name) {
    const char *path = text_at(to, folder, name);
    mr_file_bytes text;
    if (!path)
        return MR_ERROR_MEMORY;
    if (access(path, F_OK) != 0)
        return MR_OK; /* a picture without objects */
    int status = mr_file_read("labels", path, MOST_TEXT, 0, &text);
    if (status)
        return status;
    if (strlen((const char *)text.data) != text.bytes)
        status = wrong(path, 1, "it has a zero byte in it, and is no text");
    if (!status)
        status = mr_yolo_read_text(to, room, path, to->picture_count, (char *)text.data);
    mr_free(text.data);
    return status;
}

static int compare(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The pictures below images, by their paths from there on. */
typedef struct listing {
    mr_coco *to;
    const char *folder;
    const char **names;
    size_t count, room;
} listing;

static int list_name(listing *l, const char *name) {
    if (l->count == l->room &&
        mr_arena_grow(&l->to->arena, (void **)&l->names, l->count, &l->room, sizeof *l->names))
        return MR_ERROR_MEMORY;
    l->names[l->count++] = name;
    return MR_OK;
}

/* A folder that is being listed, and one above it. */
typedef struct level {
    const struct level *above;
    struct stat about;
} level;

static bool leads_back(const level *here) {
    for (const level *one = here->above; one; one = one->above)
        if (one->about.st_dev == here->about.st_dev && one->about.st_ino == here->about.st_ino)
            return true;
    return false;
}

/* A folder and all above it, up to the root, which is its own. */
static const level *list_levels(mr_arena *arena, const char *path) {
    const level *above = NULL;
    for (level *one; path && (one = mr_arena_array(arena, 1, sizeof *one)); above = one) {
        one->above = above;
        if (stat(path, &one->about) != 0 || leads_back(one))
            break;
        path = mr_arena_print(arena, "%s/..", path);
    }
    return above;
}

static int list_folder(listing *l, const char *below, const level *above);

static int list_entry(listing *l, const char *below, const level *here, int descriptor, const char *entry) {
    level next = {.above = here};
    const bool folder = !fstatat(descriptor, entry, &next.about, 0) && S_ISDIR(next.about.st_mode);
    if (entry[0] == '.' || (!folder && !strrchr(entry, '.')))
        return MR_OK;
    const char *name = mr_arena_print(&l->to->arena, folder ? "%s%s/" : "%s%s", below, entry);
    if (!name || !folder)
        return name ? list_name(l, name) : MR_ERROR_MEMORY;
    if (leads_back(&next)) {
        mr_log(MR_LOG_WARNING, "%s/images/%s leads back to a folder above it: it is left out", l->folder, name);
        return MR_OK;
    }
    return list_folder(l, name, &next);
}

/* Follows links, but not back to a folder above. `below` ends with a slash, or is empty. */
static int list_folder(listing *l, const char *below, const level *here) {
    const char *path = mr_arena_print(&l->to->arena, "%s/images/%s", l->folder, below);
    int status = MR_OK;
    DIR *stream = path ? opendir(path) : NULL;
    if (!stream)
        return path ? mr_fail(mr_file_status(errno), "cannot read %s: %s", path, strerror(errno)) : MR_ERROR_MEMORY;
    for (const struct dirent *entry; !status && (entry = readdir(stream));)
        status = list_entry(l, below, here, dirfd(stream), entry->d_name);
    closedir(stream);
    return status;
}

/* Sorted: objects must have the same order on every file system. */
static int list_pictures(listing *l) {
    mr_arena *arena = &l->to->arena;
    const int status = list_folder(l, "", list_levels(arena, mr_arena_print(arena, "%s/images", l->folder)));
    if (l->count)
        qsort(l->names, l->count, sizeof *l->names, compare);
    return status;
}

static int read_pictures(mr_coco *to, const char *folder) {
    listing l = {.to = to, .folder = folder};
    size_t room = 0;
    int status = list_pictures(&l);
    if (!status)
        to->pictures = mr_arena_array(&to->arena, l.count + 1, sizeof *to->pictures);
    if (!status && !to->pictures)
        status = MR_ERROR_MEMORY;
    for (size_t i = 0; i < l.count && !status; i++) {
        to->pictures[i] = mr_arena_print(&to->arena, "%s/images/%s", folder, l.names[i]);
        status = to->pictures[i] ? read_objects(to, &room, folder, l.names[i]) : MR_ERROR_MEMORY;
        to->picture_count++;
    }
    return status;
}

/* Classes without a name have their number. */
static int name_classes(mr_coco *to, const char *folder) {
    const char *path = mr_arena_print(&to->arena, "%s/classes.txt", folder);
    mr_file_bytes text = {0};
    to->classes = mr_arena_array(&to->arena, to->class_count + 1, sizeof *to->classes);
    if (!path || !to->classes)
        return MR_ERROR_MEMORY;
    const bool named = access(path, F_OK) == 0;
    int status = named ? mr_file_read("classes", path, MOST_TEXT, 0, &text) : MR_OK;
    if (!named && to->class_count)
        mr_log(MR_LOG_WARNING, "there is no %s: the classes are called by their numbers; write their names into it, "
               "one in each line (those of data.yaml are not read)", path);
    char *line = (char *)text.data;
    for (size_t i = 0; i < to->class_count && !status; i++) {
        const size_t length = line ? strcspn(line, "\r\n") : 0;
        to->classes[i] = length ? mr_arena_text(&to->arena, line, length) : mr_arena_print(&to->arena, "%zu", i);
        status = to->classes[i] ? MR_OK : MR_ERROR_MEMORY;
        line = line ? strchr(line, '\n') : NULL;
        line += line ? 1 : 0;
    }
    mr_free(text.data);
    return status;
}

int mr_yolo_read(mr_coco *to, const char *folder) {
    *to = (mr_coco){0};
    int status = read_pictures(to, folder);
    if (!status)
        status = name_classes(to, folder);
    if (!status && !to->picture_count)
        return mr_fail(MR_ERROR_DATA, "there are no pictures in %s/images", folder);
    if (!status && !to->object_count)
        return mr_fail(MR_ERROR_DATA,
                       "%s: no picture in images has a text with the same name and an object in labels, such as %s",
                       folder, text_at(to, folder, to->pictures[0] + strlen(folder) + strlen("/images/")));
    return status == MR_ERROR_MEMORY ? mr_fail(status, "no memory for the objects of %s", folder) : status;
}
