#include "tools/millrace/objects/yolo.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/memory.h"
#include "millrace/status.h"

enum { MOST_TEXT = 16 << 20, MOST_CLASSES = 100000 };

static int wrong(const char *path, size_t line, const char *what) {
    return mr_fail(MR_ERROR_DATA, "%s:%zu: %s", path, line, what);
}

/* A line's class and box; false: it is neither that nor blank. */
static bool read_line(char *line, mr_boxed *object, bool *blank) {
    double value[4];
    char *end, *at = line;
    *blank = line[strspn(line, " \t\r")] == 0;
    const long label = strtol(at, &end, 10);
    if (*blank || end == at || label < 0 || label >= MOST_CLASSES)
        return *blank;
    for (int i = 0; i < 4; i++) {
        at = end;
        value[i] = strtod(at, &end);
        if (end == at || !(value[i] >= 0 && value[i] <= 1))
            return false;
    }
    *object = (mr_boxed){.label = (int32_t)label, .left = value[0] - value[2] / 2, .top = value[1] - value[3] / 2,
                         .width = value[2], .height = value[3], .area = value[2] * value[3]};
    return end[strspn(end, " \t\r")] == 0;
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
            return wrong(path, number, "expected the number of a class, and centre, width and height in 0..1");
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

/* The names of all pictures, sorted: objects must have the same order on every file system. */
static int list_pictures(mr_coco *to, const char *folder, const char ***names, size_t *count) {
    const char *path = mr_arena_print(&to->arena, "%s/images", folder);
    size_t room = 0;
    int status = MR_OK;
    DIR *stream = path ? opendir(path) : NULL;
    if (!stream)
        return path ? mr_fail(mr_file_status(errno), "cannot read %s: %s", path, strerror(errno)) : MR_ERROR_MEMORY;
    for (const struct dirent *entry; !status && (entry = readdir(stream));) {
        if (entry->d_name[0] == '.' || !strrchr(entry->d_name, '.'))
            continue;
        if (*count == room)
            status = mr_arena_grow(&to->arena, (void **)names, *count, &room, sizeof **names);
        if (!status && !((*names)[(*count)++] = mr_arena_text(&to->arena, entry->d_name, strlen(entry->d_name))))
            status = MR_ERROR_MEMORY;
    }
    closedir(stream);
    if (*count)
        qsort(*names, *count, sizeof **names, compare);
    return status;
}

static int read_pictures(mr_coco *to, const char *folder) {
    const char **names = NULL;
    size_t count = 0, room = 0;
    int status = list_pictures(to, folder, &names, &count);
    if (!status)
        to->pictures = mr_arena_array(&to->arena, count + 1, sizeof *to->pictures);
    if (!status && !to->pictures)
        status = MR_ERROR_MEMORY;
    for (size_t i = 0; i < count && !status; i++) {
        to->pictures[i] = mr_arena_print(&to->arena, "%s/images/%s", folder, names[i]);
        status = to->pictures[i] ? read_objects(to, &room, folder, names[i]) : MR_ERROR_MEMORY;
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
    int status = access(path, F_OK) == 0 ? mr_file_read("classes", path, MOST_TEXT, 0, &text) : MR_OK;
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
    if (!status && !to->object_count)
        return mr_fail(MR_ERROR_DATA, "%s: no text in its folder labels has an object", folder);
    return status == MR_ERROR_MEMORY ? mr_fail(status, "no memory for the objects of %s", folder) : status;
}
