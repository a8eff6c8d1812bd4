#include "stages/draw/shown_zones.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "millrace/status.h"

bool mr_shown_zones_exist(const mr_planned_result *results) {
    while (results && !results->zones)
        results = results->next;
    return results != NULL;
}

/* ---- counts ------------------------------------------------------------------------------------------------------ */

/* Two stages may have zones of one name. Texts of another node may be missing. */
static bool are_from(const mr_planned_zones *zones, const char *stage) {
    return stage && strcmp(zones->from, stage) == 0;
}

/* The position of a stage's line among all; MR_SHOWN_LINES: none, or it is beyond the last. */
static size_t find_line(const mr_planned_result *results, const char *stage, const char *name) {
    size_t at = 0;
    for (; results; results = results->next)
        for (size_t i = 0; results->zones && i < results->zones->lines.count; i++, at++)
            if (are_from(results->zones, stage) && strcmp(results->zones->lines.name[i], name) == 0)
                return at < MR_SHOWN_LINES ? at : MR_SHOWN_LINES;
    return MR_SHOWN_LINES;
}

void mr_shown_zones_count(mr_shown_zones *shown, const mr_planned_result *results, const mr_frame *frame) {
    for (const mr_result *one = frame->results; one; one = one->next) {
        const mr_zone_event *event = one->data;
        for (size_t i = 0; one->kind == mr_kind_events() && i < one->count; i++) {
            const bool named = event[i].event && event[i].zone && event[i].direction;
            const bool cross = named && strcmp(event[i].event, "cross") == 0;
            const size_t line = cross ? find_line(results, one->stage, event[i].zone) : MR_SHOWN_LINES;
            if (line < MR_SHOWN_LINES)
                shown->crossings[line][strcmp(event[i].direction, "in") == 0] = event[i].count;
        }
    }
}

/* The stage's own objects if the frame has them: others may lack its areas. */
static size_t count_inside(const mr_frame *frame, const mr_result *objects, const mr_planned_zones *of,
                           const char *area) {
    const mr_result *own = mr_frame_result(frame, mr_kind_objects(), of->from);
    size_t count = 0;
    objects = own ? own : objects;
    for (size_t i = 0; objects && i < objects->count; i++) {
        const mr_object *object = (const mr_object *)objects->data + i;
        const mr_object_zone *zones = mr_result_items(objects, object->zones);
        for (uint32_t k = 0; zones && k < object->zones.count; k++)
            count += are_from(of, zones[k].stage) && zones[k].zone && strcmp(zones[k].zone, area) == 0;
    }
    return count;
}

/* ---- drawing ----------------------------------------------------------------------------------------------------- */

static mr_ink ink_of(const char *name) {
    return mr_ink_of(mr_ink_number(name), 255);
}

/* From coordinates of the options to the canvas. */
static void place(const mr_drawing *f, const mr_frame *frame, const mr_planned_zones *zones, const double from[2],
                  double to[2]) {
    double size[2];
    mr_geometry_display_size(&frame->geometry, size);
    mr_drawing_map(f, zones->pixels ? from[0] : from[0] * size[0], zones->pixels ? from[1] : from[1] * size[1], to);
}

enum { MOST_CORNERS = 256 };

/* An area with more corners is counted as left out, and has its edges only. */
static void fill_area(mr_drawing *f, const mr_frame *frame, const mr_planned_zones *zones, const mr_points *points,
                      const char *name) {
    const mr_ink ink = mr_ink_of(mr_ink_number(name), (uint8_t)(255 * f->fill + 0.5));
    double corners[MOST_CORNERS][2];
    f->sketch->left_out += ink.opacity && points->count > MOST_CORNERS;
    if (!ink.opacity || points->count > MOST_CORNERS)
        return;
    for (size_t i = 0; i < points->count; i++)
        place(f, frame, zones, points->at[i], corners[i]);
    mr_sketch_polygon(f->sketch, (const double(*)[2])corners, points->count, ink);
}

/* Draws the edges; *upper is the uppermost corner. An area is closed. */
static void add_edges(mr_drawing *f, const mr_frame *frame, const mr_planned_zones *zones, const mr_points *points,
                      mr_ink ink, double upper[2]) {
    double first[2], last[2], next[2];
    place(f, frame, zones, points->at[0], first);
    memcpy(last, first, sizeof last);
    memcpy(upper, first, sizeof first);
    for (size_t i = 1; i < points->count; i++) {
        place(f, frame, zones, points->at[i], next);
        mr_sketch_line(f->sketch, last, next, f->thickness, ink);
        memcpy(last, next, sizeof last);
        if (next[1] < upper[1])
            memcpy(upper, next, sizeof next);
    }
    if (points->count > 2)
        mr_sketch_line(f->sketch, last, first, f->thickness, ink);
}

static int add_shape(mr_drawing *f, const mr_frame *frame, const mr_planned_zones *zones, const mr_points *points,
                     const char *name, const char *text) {
    const mr_ink ink = ink_of(name);
    double upper[2];
    add_edges(f, frame, zones, points, ink, upper);
    return f->font ? mr_drawing_add_text(f, text, upper[0], upper[1], ink, mr_ink_on(ink)) : MR_OK;
}

static int add_areas(mr_drawing *f, const mr_frame *frame, const mr_planned_zones *zones, const mr_result *objects) {
    int status = MR_OK;
    for (size_t i = 0; i < zones->areas.count && !status; i++) {
        char text[256];
        const size_t inside = count_inside(frame, objects, zones, zones->areas.name[i]);
        snprintf(text, sizeof text, "%s %zu", zones->areas.name[i], inside);
        fill_area(f, frame, zones, &zones->areas.points[i], zones->areas.name[i]);
        status = add_shape(f, frame, zones, &zones->areas.points[i], zones->areas.name[i], text);
    }
    return status;
}

static int add_lines(mr_drawing *f, const mr_frame *frame, const mr_planned_zones *zones, const int64_t (*crossings)[2],
                     size_t known) {
    int status = MR_OK;
    for (size_t i = 0; i < zones->lines.count && !status; i++) {
        char text[256];
        if (zones->crossings && i < known)
            snprintf(text, sizeof text, "%s in %" PRId64 " out %" PRId64, zones->lines.name[i], crossings[i][1],
                     crossings[i][0]);
        else
            snprintf(text, sizeof text, "%s", zones->lines.name[i]);
        status = add_shape(f, frame, zones, &zones->lines.points[i], zones->lines.name[i], text);
    }
    return status;
}

int mr_shown_zones_draw(const mr_shown_zones *shown, const mr_planned_result *results, const mr_frame *frame,
                        const mr_result *objects, mr_drawing *f) {
    int status = MR_OK;
    size_t at = 0;
    for (; results && !status && frame->geometry.width; results = results->next) {
        const mr_planned_zones *zones = results->zones;
        if (!zones)
            continue;
        status = add_areas(f, frame, zones, objects);
        const size_t first = at < MR_SHOWN_LINES ? at : MR_SHOWN_LINES;
        if (!status)
            status = add_lines(f, frame, zones, shown->crossings + first, MR_SHOWN_LINES - first);
        at += zones->lines.count;
    }
    return status;
}
