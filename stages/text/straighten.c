/* straighten: makes pictures of objects upright. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/text/strokes.h"
#include "kernels/text/warp.h"
#include "millrace/objects.h"
#include "stages/list.h"

typedef struct options {
    double turn;
} options;

enum { CORNERS = 4 };

/* ---- planning ---------------------------------------------------------------------------------------------------- */

/* An upright picture has no more pixels than the one that it is made from, but rows and columns may be as long as the
 * diagonal; rows end at aligned bytes. */
static size_t most_bytes(const mr_format_set *in, int64_t longest) {
    enum { ROW_SLACK = 80 };
    const size_t bytes = mr_format_set_most_bytes(in);
    return bytes ? bytes + (size_t)longest * MR_MAX_PLANES * ROW_SLACK : 0;
}

static int negotiate(mr_negotiation *n) {
    static const mr_format_set pictures = {.payload = MR_PAYLOAD_PICTURE};
    mr_planned_output *out = &n->outputs[0];
    const mr_format_set *in = &n->inputs[0].set;
    const int64_t longest = in->width.max + in->height.max;
    if (!mr_planned_may_have(n, 0, mr_kind_objects()))
        return mr_refuse(n, NULL, "the pictures from %s have no objects: put crop before it", n->inputs[0].from);
    mr_take(n, 0, &pictures, "straighten turns pictures");
    out->set = *in;
    if (in->width.max && in->height.max)
        out->set.width = out->set.height = (mr_bounds){1, longest};
    else
        out->set.width = out->set.height = (mr_bounds){0, 0};
    out->set.look.rotation = 0;
    out->set.look.flip = false;
    out->buffer_bytes = most_bytes(in, longest);
    out->mean_pixels = n->inputs[0].mean_pixels;
    return MR_OK;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* The corners in the shown picture, clockwise from the upper left. False: the object has no area. */
static bool corners_of(const mr_result *objects, double at[CORNERS][2]) {
    const mr_object *object = objects->data;
    const float *quad = object->quad.count == 2 * CORNERS ? mr_result_items(objects, object->quad) : NULL;
    const float box[2 * CORNERS] = {object->left, object->top, object->right, object->top,
                                    object->right, object->bottom, object->left, object->bottom};
    for (int i = 0; i < CORNERS; i++)
        for (int axis = 0; axis < 2; axis++)
            at[i][axis] = (double)(quad ? quad : box)[2 * i + axis];
    return mr_plane_area((const double (*)[2])at, CORNERS) > 0;
}

static double side(const double a[2], const double b[2]) {
    return hypot(b[0] - a[0], b[1] - a[1]);
}

/* The first corner goes to the end: the picture turns a quarter to the left. */
static void turn(double at[CORNERS][2]) {
    double first[2];
    memcpy(first, at[0], sizeof first);
    memmove(at, at + 1, (CORNERS - 1) * sizeof *at);
    memcpy(at[CORNERS - 1], first, sizeof first);
}

/* The upright picture's size: that of the longer ones of opposite sides, but with no more pixels than `picture`. */
static void choose_size(const mr_format *picture, const double at[CORNERS][2], mr_format *to) {
    double width = fmax(side(at[0], at[1]), side(at[3], at[2])), height = fmax(side(at[0], at[3]), side(at[1], at[2]));
    const double scale = sqrt((double)picture->width * picture->height / fmax(width * height, 1));
    width *= fmin(scale, 1);
    height *= fmin(scale, 1);
    const double longest = (double)picture->width + picture->height;
    *to = *picture;
    to->width = (int32_t)fmax(1, fmin(floor(width), longest));
    to->height = (int32_t)fmax(1, fmin(floor(height), longest));
    to->matrix = mr_format_matrix(picture);
    to->range = mr_format_range(picture);
    to->rotation = 0;
    to->flip = false;
}

/* Where the upright picture's pixels are in the frame: exact for parallelograms. */
static mr_geometry geometry_of(const double at[CORNERS][2], const mr_format *to, const mr_geometry *before) {
    const double w = to->width, h = to->height;
    const mr_geometry part = {
        .x = {(at[1][0] - at[0][0]) / w, (at[3][0] - at[0][0]) / h, at[0][0]},
        .y = {(at[1][1] - at[0][1]) / w, (at[3][1] - at[0][1]) / h, at[0][1]}, .width = to->width,
        .height = to->height};
    return mr_geometry_chain(&part, before);
}

static mr_geometry way_of(const mr_frame *picture) {
    return picture->geometry.width ? picture->geometry : mr_geometry_of(&picture->format);
}

/* A map from a picture with this size to the frame's pixels at the corners, which are replaced by these. */
static int find_corners(const mr_frame *picture, double width, double height, double at[CORNERS][2],
                        mr_plane_map *map) {
    const mr_geometry way = way_of(picture);
    const double corner[CORNERS][2] = {{0, 0}, {width, 0}, {width, height}, {0, height}};
    for (int i = 0; i < CORNERS; i++)
        if (!mr_geometry_from_display(&way, at[i][0], at[i][1], at[i]))
            return mr_fail(MR_ERROR_DATA, "it is not known where the picture was cut out");
    if (!mr_plane_map_make(map, corner, (const double (*)[2])at))
        return mr_fail(MR_ERROR_DATA, "the corners of an object are no convex quadrilateral");
    return MR_OK;
}

/* Whether a line runs downwards: it is high, and no single narrow character. */
static bool runs_downwards(const options *o, const mr_frame *picture, const double corner[CORNERS][2]) {
    enum { HIGHEST_CHARACTER = 5 };
    const double width = side(corner[0], corner[1]), height = side(corner[0], corner[3]);
    double at[CORNERS][2];
    mr_plane_map map;
    if (o->turn <= 0 || height < o->turn * width)
        return false;
    memcpy(at, corner, sizeof at);
    return height > HIGHEST_CHARACTER * width || find_corners(picture, width, height, at, &map) ||
           !mr_strokes_are_one(&map, width, height, &picture->format, picture->plane);
}

static int straighten(mr_io *io, const mr_frame *picture, double at[CORNERS][2]) {
    const mr_geometry way = way_of(picture);
    mr_frame *frame = NULL;
    mr_plane_map map;
    mr_format format;
    choose_size(&picture->format, (const double (*)[2])at, &format);
    int status = find_corners(picture, format.width, format.height, at, &map);
    if (!status)
        status = mr_io_acquire(io, 0, &format, picture, &frame);
    if (status)
        return status;
    mr_warp(&map, &picture->format, picture->plane, &format, frame->plane);
    frame->geometry = geometry_of((const double (*)[2])at, &format, &way);
    return mr_io_emit(io, 0, frame);
}

static int process(mr_stage *self, mr_io *io) {
    const options *o = self->options;
    const mr_frame *picture = mr_io_input(io);
    const mr_result *objects = mr_frame_result(picture, mr_kind_objects(), NULL);
    double at[CORNERS][2];
    if (!objects || objects->count != 1)
        return mr_fail(MR_ERROR_DATA, "a picture has %zu objects, and only the picture of one can be made upright: put "
                       "crop before it", objects ? objects->count : 0);
    if (!corners_of(objects, at))
        return mr_fail(MR_ERROR_DATA, "the corners of an object do not run clockwise around an area");
    if (runs_downwards(o, picture, (const double (*)[2])at))
        turn(at);
    return straighten(io, picture, at);
}

static const mr_option table[] = {
    {.name = "turn", .kind = MR_OPTION_DOUBLE, .offset = offsetof(options, turn), .fallback = "1.5", .max = 1000,
     .help = "objects that are at least so many times as high as they are wide are turned a quarter to the left, as "
             "lines that run downwards, unless they are a single narrow character, such as I: one stroke from top to "
             "bottom, or with a dot; 0: none are turned"},
    MR_OPTIONS_END};

static const mr_format_set pictures[] = {{.payload = MR_PAYLOAD_PICTURE}, {.payload = MR_PAYLOAD_ANY}};
static const mr_port inputs[] = {
    {.name = "in", .help = "pictures of one object each, from crop", .accepts = pictures}, {0}};
static const mr_port outputs[] = {{.name = "out", .help = "upright pictures", .accepts = pictures}, {0}};

const mr_stage_type mr_straighten_stage = {
    .name = "straighten",
    .summary = "makes the picture of a tilted object upright",
    .help = "The corners of the object (a line of text that detect found) become the picture's corners, by a "
            "projective map with bicubic interpolation; beyond the picture's edge its outermost pixels continue. An "
            "object without corners is cut out at its box. The result is as large as the object, and is never to be "
            "turned for display.",
    .inputs = inputs,
    .outputs = outputs,
    .options = table,
    .options_bytes = sizeof(options),
    .entry = MR_ENTRY_STATELESS,
    .negotiate = negotiate,
    .process = process,
};
