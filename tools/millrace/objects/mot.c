#include "tools/millrace/objects/mot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/memory.h"
#include "millrace/status.h"

enum { FIELDS = 8, LEAST_FIELDS = 6, MOST_FRAME = 100000000 };

static const size_t MOST_BYTES = (size_t)1 << 30;
static const double MOST_ID = 1e15; /* whole numbers are exact */

/* Splits a line at commas. Returns how many numbers it has, at most FIELDS; 0: one of them is none. */
static int read_line(const char *text, double values[FIELDS]) {
    for (int i = 0; i < FIELDS; i++) {
        char *end;
        values[i] = strtod(text, &end);
        if (end == text || !isfinite(values[i]))
            return 0;
        text = end + strspn(end, " \t\r");
        if (!*text)
            return i + 1;
        if (*text++ != ',')
            return 0;
    }
    return FIELDS;
}

static bool is_whole(double value, double least, double most) {
    return value >= least && value <= most && value == floor(value);
}

/* Returns the mistake; NULL: there is none. */
static const char *read_object(const char *text, mr_boxed *to) {
    double value[FIELDS];
    const int count = read_line(text, value);
    const bool counts = count < 7 || value[6] != 0;
    const int class = count < FIELDS || !is_whole(value[7], 1, 1000) ? 1 : (int)value[7];
    if (count < LEAST_FIELDS)
        return "a line has frame, id, left, top, width, height, counts and class, with commas between";
    if (!is_whole(value[0], 1, MOST_FRAME))
        return "frames are whole numbers from 1 on";
    if (!is_whole(value[1], 0, MOST_ID))
        return "the id of a track is a whole number from 0 on: files of detections have -1 there, and no tracks";
    if (value[4] < 0 || value[5] < 0)
        return "the width and the height are at least 0";
    *to = (mr_boxed){.image = (size_t)value[0] - 1, .label = counts && class == 1 ? 0 : -1, .left = value[2],
                     .top = value[3], .width = value[4], .height = value[5], .area = value[4] * value[5],
                     .crowd = class == 2 || class == 7 || class == 8 || class == 12, .track = (int64_t)value[1] + 1};
    return NULL;
}

static size_t count_lines(const char *text) {
    size_t lines = 1;
    while ((text = strchr(text, '\n'))) {
        lines++;
        text++;
    }
    return lines;
}

static int read_text(mr_coco *coco, const char *path, char *text) {
    coco->objects = mr_arena_array(&coco->arena, count_lines(text), sizeof *coco->objects);
    if (!coco->objects)
        return MR_ERROR_MEMORY;
    for (size_t line = 1; text; line++) {
        char *next = strchr(text, '\n');
        if (next)
            *next++ = 0;
        mr_boxed *to = &coco->objects[coco->object_count];
        const bool empty = !text[strspn(text, " \t\r")];
        const char *wrong = empty ? NULL : read_object(text, to);
        if (wrong)
            return mr_fail(MR_ERROR_DATA, "%s:%zu: %s", path, line, wrong);
        if (!empty && to->image >= coco->picture_count)
            coco->picture_count = to->image + 1;
        coco->object_count += !empty;
        text = next;
    }
    return MR_OK;
}

int mr_mot_read(mr_coco *coco, const char *path) {
    static const char *names[] = {"pedestrian"};
    mr_file_bytes file;
    *coco = (mr_coco){.classes = names, .class_count = 1, .sequence_count = 1, .tracks = true};
    int status = mr_file_read("true tracks", path, MOST_BYTES, 0, &file);
    if (status)
        return status;
    if (strlen((const char *)file.data) != file.bytes)
        status = mr_fail(MR_ERROR_DATA, "%s: it has a zero byte in it, and is no text", path);
    if (!status)
        status = read_text(coco, path, (char *)file.data);
    mr_free(file.data);
    if (!status && !coco->object_count)
        return mr_fail(MR_ERROR_DATA, "%s: it has no objects", path);
    return status ? status : mr_coco_check_tracks(coco, path);
}
