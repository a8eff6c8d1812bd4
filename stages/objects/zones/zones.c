/* zones: reports when tracked objects enter, leave or stay in areas, and cross lines. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/memory.h"
#include "millrace/objects.h"
#include "stages/list.h"
#include "stages/objects/found.h"
#include "stages/objects/zones/watch.h"
#include "stages/wanted.h"
#include "stages/wanted_events.h"

enum { MOST_ZONES = 64, MOST_CORNERS = 1000, MOST_TRACKS = 1000 };

typedef struct ground_options {
    bool given;
    mr_points corners;
    double width, height;
} ground_options;

typedef struct options {
    mr_shapes areas, lines;
    int units, anchor;
    mr_strings classes, events;
    int64_t hold_ns, lost_ns, dwell_ns, crowd;
    double margin, scale;
    ground_options ground;
} options;

enum { RELATIVE, PIXELS };
enum { BOTTOM, CENTER };
static const char *const units[] = {"relative", "pixels", NULL}, *const anchors[] = {"bottom", "center", NULL};

/* Of one source. */
typedef struct state {
    mr_watch *watch;
    uint32_t epoch;
    int64_t now_ns;              /* the last frame's; MR_NO_TIME: none has come */
    double width, height;        /* the picture's, for which the shapes were made; 0: not made */
    mr_points *areas, *lines;    /* in pixels */
    double (*points)[2];         /* of both */
    int64_t *dwell_ns;           /* of one object, for each area */
    mr_object_zone *stays;
    size_t stays_room;
    bool failed;
} state;

/* ---- planning ---------------------------------------------------------------------------------------------------- */

static int refuse_shape(mr_negotiation *n, const char *option, const char *name, const char *what) {
    char path[256];
    snprintf(path, sizeof path, "%s.%s", option, name);
    return mr_refuse(n, path, "\"%s\" %s", name, what);
}

static bool is_inside(const options *o, const mr_points *points) {
    const double most = o->units == RELATIVE ? 1 : INT32_MAX;
    for (size_t i = 0; i < points->count; i++)
        for (int axis = 0; axis < 2; axis++)
            if (points->at[i][axis] < 0 || points->at[i][axis] > most)
                return false;
    return true;
}

static const char *outside_text(const options *o) {
    return o->units == RELATIVE ? "has a point outside of the picture, which is 0 to 1; for pixels write units: pixels"
                                : "has a point outside of the picture: coordinates are 0 or more";
}

static int check_names(mr_negotiation *n, const char *option, const mr_shapes *shapes) {
    for (size_t i = 0; i < shapes->count; i++)
        if (!*shapes->name[i])
            return mr_refuse(n, option, "one of them has an empty name, and events tell zones apart by their names: "
                             "write %s", option[0] == 'a' ? "areas: {door: ...}" : "lines: {gate: ...}");
    return MR_OK;
}

static int check_shapes(mr_negotiation *n, const options *o) {
    if (check_names(n, "areas", &o->areas) || check_names(n, "lines", &o->lines))
        return MR_ERROR_CONFIG;
    for (size_t i = 0; i < o->areas.count; i++) {
        const mr_points *corners = &o->areas.points[i];
        if (!is_inside(o, corners))
            return refuse_shape(n, "areas", o->areas.name[i], outside_text(o));
        if (mr_plane_crosses_itself(corners->at, corners->count))
            return refuse_shape(n, "areas", o->areas.name[i], "crosses or touches itself: list its corners in the "
                                "order in which its edge runs, each once");
    }
    for (size_t i = 0; i < o->lines.count; i++) {
        const double(*ends)[2] = o->lines.points[i].at;
        if (!is_inside(o, &o->lines.points[i]))
            return refuse_shape(n, "lines", o->lines.name[i], outside_text(o));
        if (ends[0][0] == ends[1][0] && ends[0][1] == ends[1][1])
            return refuse_shape(n, "lines", o->lines.name[i], "has no length: its ends are the same point");
        for (size_t k = 0; k < o->areas.count; k++)
            if (strcmp(o->areas.name[k], o->lines.name[i]) == 0)
                return refuse_shape(n, "lines", o->lines.name[i], "is also the name of an area: rename one of them");
    }
    return MR_OK;
}

static bool make_ground(const options *o, const double corners[4][2], mr_plane_map *map) {
    const double w = o->ground.width, h = o->ground.height, metres[4][2] = {{0, 0}, {w, 0}, {w, h}, {0, h}};
    return mr_plane_map_make(map, corners, metres);
}

static int check_ground(mr_negotiation *n, const options *o) {
    mr_plane_map map;
    if (!o->ground.given)
        return MR_OK;
    if (o->scale > 0)
        return mr_refuse(n, "ground", "give scale or ground, not both: each says how long a metre is");
    if (!is_inside(o, &o->ground.corners))
        return mr_refuse(n, "ground.corners", "it %s", outside_text(o));
    if (!make_ground(o, o->ground.corners.at, &map))
        return mr_refuse(n, "ground.corners", "the corners are not those of a convex quadrilateral, in order");
    return MR_OK;
}

/* An object that is in areas gets a list of them, with those that an earlier stage has found. */
static void promise_items(mr_negotiation *n, const options *o) {
    const mr_planned_result *objects = n->outputs[0].results;
    const size_t each = mr_items_bytes(o->areas.count, sizeof(mr_object_zone));
    if (!o->areas.count)
        return;
    mr_promise_items(n, 0, objects->elements ? 2 * objects->items_bytes + objects->elements * each
                                             : MR_MOST_ITEMS_BYTES);
}

static int negotiate(mr_negotiation *n) {
    const options *o = n->options;
    n->outputs[0].follows = n->outputs[0].shares = 0;
    if (!mr_may_have_tracks(&n->inputs[0]))
        return mr_refuse(n, NULL, "no frame that comes here has objects with tracks: name a stage after track as its "
                         "input");
    if (!o->areas.count && !o->lines.count)
        return mr_refuse(n, NULL, "it has neither areas nor lines: write lines: {gate: [[0, 0.5], [1, 0.5]]}");
    if (o->areas.count + o->lines.count > MOST_ZONES)
        return mr_refuse(n, "areas", "there are more than %d areas and lines", MOST_ZONES);
    for (const char *const *option = (const char *const[]){"dwell", "crowd", NULL}; *option; option++)
        if (mr_is_given(n, *option) && !o->areas.count)
            return mr_refuse(n, *option, "%s is about areas, and there are none: write areas: {door: [[0.1, 0.5], "
                                         "[0.4, 0.5], [0.4, 0.9]]}", *option);
    int status = check_shapes(n, o);
    if (!status)
        status = check_ground(n, o);
    if (!status)
        status = mr_wanted_events_check(n, "events", &o->events);
    if (!status)
        status = mr_wanted_objects_check(n, &o->classes, "no object would count", "counts no object");
    if (!status)
        status = mr_promise_tracks(n, 0);
    if (!status)
        promise_items(n, o);
    const mr_wanted_events reported = {.events = &o->events};
    const mr_planned_zones zones = {.areas = o->areas, .lines = o->lines, .pixels = o->units == PIXELS,
                                    .crossings = mr_wanted_event(&reported, &(mr_zone_event){.event = "cross"})};
    return status ? status : mr_promise_zones(n, 0, &zones);
}

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

/* Of the picture, upright. False: the frame does not say. */
static bool picture_size(const mr_frame *frame, double size[2]) {
    mr_geometry_display_size(&frame->geometry, size);
    return frame->geometry.width > 0;
}

/* Copies points as pixels; returns where the next ones go. NULL: one is outside of the picture. */
static double (*place(const options *o, const mr_points *from, const double size[2], double (*to)[2]))[2] {
    for (size_t i = 0; i < from->count; i++, to++)
        for (int axis = 0; axis < 2; axis++) {
            (*to)[axis] = from->at[i][axis] * (o->units == RELATIVE ? size[axis] : 1);
            if ((*to)[axis] > size[axis])
                return NULL;
        }
    return to;
}

static int fail_outside(const state *s, const char *name, const double size[2]) {
    return mr_fail(MR_ERROR_CONFIG, "\"%s\" has a point outside of the picture, which is %.0fx%.0f", name, size[0],
                   size[1]);
}

static int place_all(const options *o, state *s, const double size[2]) {
    double(*next)[2] = s->points;
    for (size_t i = 0; i < o->areas.count + o->lines.count; i++) {
        const bool area = i < o->areas.count;
        const mr_shapes *shapes = area ? &o->areas : &o->lines;
        const size_t k = area ? i : i - o->areas.count;
        mr_points *to = area ? &s->areas[k] : &s->lines[k];
        *to = (mr_points){shapes->points[k].count, (const double(*)[2])next};
        next = place(o, &shapes->points[k], size, next);
        if (!next)
            return fail_outside(s, shapes->name[k], size);
    }
    return MR_OK;
}

/* Pixels to metres. */
static int place_ground(const options *o, state *s, const double size[2], mr_plane_map *map) {
    double corners[4][2];
    if (!o->ground.given) {
        const double m = 1 / o->scale;
        *map = (mr_plane_map){.m = {m, 0, 0, 0, m, 0, 0, 0}};
        return MR_OK;
    }
    if (!place(o, &o->ground.corners, size, corners))
        return fail_outside(s, "ground", size);
    return make_ground(o, (const double(*)[2])corners, map)
               ? MR_OK : mr_fail(MR_ERROR_CONFIG, "ground: three of its corners lie on a line");
}

/* Makes the shapes for pictures of this size. */
static int prepare(const options *o, state *s, const mr_frame *frame) {
    double size[2];
    mr_plane_map map;
    const bool known = picture_size(frame, size), scaled = o->scale > 0 || o->ground.given;
    if (!known && o->units == RELATIVE)
        return mr_fail(MR_ERROR_DATA, "frames do not say which pictures they were made from: write units: pixels");
    if (!known)
        size[0] = size[1] = INFINITY;
    if (size[0] == s->width && size[1] == s->height)
        return MR_OK;
    int status = place_all(o, s, size);
    if (!status && scaled)
        status = place_ground(o, s, size, &map);
    if (status)
        return status;
    mr_watch_set_shapes(s->watch, s->areas, s->lines, scaled ? &map : NULL);
    s->width = size[0];
    s->height = size[1];
    return MR_OK;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static int open_stage(mr_stage *self) {
    const options *o = self->options;
    state *s = self->state;
    size_t points = 1;
    const mr_watch_params params = {
        .hold_ns = o->hold_ns, .lost_ns = o->lost_ns, .dwell_ns = o->dwell_ns, .crowd = o->crowd, .margin = o->margin,
        .area_names = o->areas.name, .line_names = o->lines.name, .areas = o->areas.count, .lines = o->lines.count,
        .most = MOST_TRACKS};
    for (size_t i = 0; i < o->areas.count; i++)
        points += o->areas.points[i].count;
    for (size_t i = 0; i < o->lines.count; i++)
        points += o->lines.points[i].count;
    s->now_ns = MR_NO_TIME;
    s->areas = mr_calloc(o->areas.count + 1, sizeof *s->areas);
    s->lines = mr_calloc(o->lines.count + 1, sizeof *s->lines);
    s->points = mr_calloc(points, sizeof *s->points);
    s->dwell_ns = mr_calloc(o->areas.count + 1, sizeof *s->dwell_ns);
    if (!s->areas || !s->lines || !s->points || !s->dwell_ns)
        return mr_fail(MR_ERROR_MEMORY, "no memory for zones");
    return mr_watch_create(&s->watch, &params);
}

static void close_stage(mr_stage *self) {
    state *s = self->state;
    mr_watch_destroy(&s->watch);
    mr_free(s->areas);
    mr_free(s->lines);
    mr_free(s->points);
    mr_free(s->dwell_ns);
    mr_free(s->stays);
}

/* Objects without a number are not confirmed yet. */
static bool counts(const options *o, const mr_object *object) {
    return object->track > 0 && mr_wanted_class(&o->classes, object->index, object->label);
}

static int see_objects(const options *o, state *s, const mr_result *found) {
    const mr_object *objects = found->data;
    int status = MR_OK;
    for (size_t i = 0; i < found->count && !status; i++) {
        const mr_object *one = &objects[i];
        const double top = (double)one->top, bottom = (double)one->bottom;
        const mr_watched seen = {.track = one->track, .index = one->index, .label = one->label,
                                 .at = {((double)one->left + (double)one->right) / 2,
                                        o->anchor == BOTTOM ? bottom : (top + bottom) / 2},
                                 .height = bottom - top};
        if (counts(o, one))
            status = mr_watch_see(s->watch, &seen);
    }
    return status;
}

static int add_events(const options *o, state *s, mr_io *io, mr_frame *frame) {
    const mr_wanted_events reported = {.events = &o->events};
    const mr_zone_event *events;
    mr_result *result;
    size_t count;
    int status = mr_watch_finish(s->watch, &events, &count);
    if (!status)
        status = mr_io_add_result(io, frame, mr_kind_events(), count, &result);
    for (size_t i = 0; i < count && !status; i++)
        if (mr_wanted_event(&reported, &events[i]))
            ((mr_zone_event *)result->data)[result->count++] = events[i];
    return status;
}

/* Adds the areas to those that an earlier stage has found. */
static int describe(const options *o, state *s, mr_result *result, mr_object *object) {
    const mr_object_zone *before = mr_result_items(result, object->zones);
    size_t count = object->zones.count;
    mr_watch_describe(s->watch, object->track, s->dwell_ns, &object->speed, &object->distance);
    const size_t room = count + o->areas.count;
    if (room > s->stays_room) {
        mr_object_zone *grown = mr_realloc(s->stays, room * sizeof *grown);
        if (!grown)
            return mr_fail(MR_ERROR_MEMORY, "no memory for zones");
        s->stays = grown;
        s->stays_room = room;
    }
    if (count)
        memcpy(s->stays, before, count * sizeof *before);
    for (size_t i = 0; i < o->areas.count; i++)
        if (s->dwell_ns[i] >= 0)
            s->stays[count++] = (mr_object_zone){o->areas.name[i], (double)s->dwell_ns[i] / 1e9, result->stage};
    return count > object->zones.count ? mr_result_add_items(result, s->stays, count, sizeof *s->stays, &object->zones)
                                       : MR_OK;
}

static int describe_all(const options *o, state *s, mr_io *io, mr_frame *frame, const mr_result *found) {
    mr_result *result;
    int status = mr_io_renew_objects(io, frame, found, 0, &result);
    for (size_t i = 0; !status && i < result->count; i++) {
        mr_object *object = (mr_object *)result->data + i;
        if (counts(o, object))
            status = describe(o, s, result, object);
    }
    return status;
}

/* Times restart with a new epoch, and tracks end. */
static int keep_up(state *s, const mr_frame *frame) {
    const int64_t now_ns = mr_frame_time_ns(frame);
    int status = MR_OK;
    if (s->now_ns != MR_NO_TIME && (s->epoch != frame->identity.epoch || now_ns < s->now_ns))
        status = mr_watch_end_epoch(s->watch);
    s->epoch = frame->identity.epoch;
    s->now_ns = now_ns;
    mr_watch_begin(s->watch, now_ns);
    return status;
}

static int look(const options *o, state *s, mr_io *io, mr_frame *frame) {
    const mr_result *found = mr_frame_result(frame, mr_kind_objects(), NULL);
    int status = keep_up(s, frame);
    if (!status && found)
        status = see_objects(o, s, found);
    if (!status && found && (o->areas.count || o->scale > 0 || o->ground.given))
        status = describe_all(o, s, io, frame, found);
    return status ? status : add_events(o, s, io, frame);
}

static int process(mr_stage *self, mr_io *io) {
    const mr_frame *input = mr_io_input(io);
    state *s = self->state;
    mr_frame *frame = NULL;
    const bool away = input->flags & MR_FRAME_AWAY;
    int status = away ? MR_OK : prepare(self->options, s, input);
    if (status) {
        if (!s->failed)
            mr_io_fail_source(io, input->identity.source, status);
        s->failed = true;
        mr_io_drop(io, input, "no zones");
        return MR_DONE;
    }
    status = mr_io_share(io, input, &frame);
    if (!status && !away)
        status = look(self->options, s, io, frame);
    return mr_io_finish(io, 0, frame, status);
}

#define FIELD(field) .name = #field, .offset = offsetof(ground_options, field)
static const mr_option ground_table[] = {
    {FIELD(corners), .kind = MR_OPTION_POINTS, .min = 4, .max = 4, .unit = "points", .required = true,
     .example = "[[0.4, 0.5], [0.6, 0.5], [0.9, 1], [0.1, 1]]",
     .help = "where the corners of a rectangle on the ground are in the picture, in order around it"},
    {FIELD(width), .kind = MR_OPTION_DOUBLE, .min = 1e-3, .max = 1e6, .unit = "m", .required = true, .example = "3.5",
     .help = "the distance from its first corner to the second"},
    {FIELD(height), .kind = MR_OPTION_DOUBLE, .min = 1e-3, .max = 1e6, .unit = "m", .required = true, .example = "20",
     .help = "the distance from its second corner to the third"},
    MR_OPTIONS_END};
#undef FIELD

#define FIELD(field) .name = #field, .offset = offsetof(options, field)
#define TIME(option, field) .name = option, .kind = MR_OPTION_DURATION, .offset = offsetof(options, field)
static const mr_option table[] = {
    {FIELD(areas), .kind = MR_OPTION_SHAPES, .min = 3, .max = MOST_CORNERS, .unit = "points",
     .example = "{door: [[0.1, 0.5], [0.4, 0.5], [0.4, 0.9], [0.1, 0.9]]}", .help = "polygons, by name"},
    {FIELD(lines), .kind = MR_OPTION_SHAPES, .min = 2, .max = 2, .unit = "points",
     .example = "{gate: [[0, 0.6], [1, 0.6]]}",
     .help = "lines from a point to another, by name; objects that cross to the right of somebody who walks along it "
             "go in, others out: down through a line that runs from left to right is in"},
    {FIELD(units), .kind = MR_OPTION_ENUM, .fallback = "relative", .choices = units,
     .help = "whether coordinates are 0 to 1 of the picture as it is shown, or pixels of it, as those of boxes are"},
    {FIELD(anchor), .kind = MR_OPTION_ENUM, .fallback = "bottom", .choices = anchors,
     .help = "the point of a box that counts: the middle of its lower edge, where people stand, or its centre"},
    {FIELD(classes), .kind = MR_OPTION_STRINGS, .example = "[person, car]",
     .help = "classes that count, by label or number; if not given, all"},
    {FIELD(events), .kind = MR_OPTION_STRINGS, .fallback = "[enter, leave, cross, dwell, count, crowd]",
     .help = "events to report"},
    {TIME("hold", hold_ns), .fallback = "300ms", .max = 3600e9,
     .help = "how long an object must be elsewhere in all frames before it has entered, left or crossed"},
    {FIELD(margin), .kind = MR_OPTION_DOUBLE, .fallback = "0.05", .min = 0, .max = 1,
     .help = "how far an object must be from a line to have crossed it, and from an area to have left it, as a share "
             "of its box's height"},
    {TIME("lost", lost_ns), .fallback = "2s", .max = 3600e9,
     .help = "an object that is not seen for longer leaves its areas, at the time when it was last seen"},
    {TIME("dwell", dwell_ns), .max = 86400e9, .example = "10s",
     .help = "report who is in an area for as long, once, in the first frame then in which the object is seen"},
    {FIELD(crowd), .kind = MR_OPTION_INT, .max = MOST_TRACKS, .unit = "objects", .example = "10",
     .help = "report when as many objects are in one area, once until there are fewer"},
    {FIELD(scale), .kind = MR_OPTION_DOUBLE, .max = 1e6, .unit = "px", .example = "40",
     .help = "pixels in a metre, if that is the same everywhere, as for a camera that looks straight down"},
    {FIELD(ground), .kind = MR_OPTION_MAP, .fields = ground_table,
     .help = "a rectangle on the ground with its size, from which all places on the ground follow"},
    MR_OPTIONS_END};
#undef TIME
#undef FIELD

static const mr_port inputs[] = {{.name = "in", .help = "frames whose objects have tracks"}, {0}};
static const mr_port outputs[] = {{.name = "out", .help = "the same frames, with events as a result"}, {0}};

const mr_stage_type mr_zones_stage = {
    .name = "zones",
    .summary = "reports who enters, leaves or stays in areas, and crosses lines",
    .help = "Objects need a track; those that are not confirmed yet do not count. Times are presentation times, so the "
            "frame rate does not matter; an event has the time of the first frame in which it holds, and is reported "
            "`hold` later. An object that stands on a line crosses nothing, and one that begins on a line has no side "
            "until it leaves it. An object that disappears just beyond a line has crossed it; one that disappears in "
            "an area leaves it (gone: true). An epoch (a turn of a loop, another connection) ends all stays in its "
            "next frame. When a source ends, no frame remains to report who is still inside. Totals are for each "
            "source, and begin at 0 if a node starts again. Objects get `zones` and, with a scale, their speed and "
            "distance.",
    .inputs = inputs,
    .outputs = outputs,
    .blind = true,
    .options = table,
    .options_bytes = sizeof(options),
    .state_bytes = sizeof(state),
    .entry = MR_ENTRY_PER_SOURCE,
    .negotiate = negotiate,
    .open = open_stage,
    .process = process,
    .close = close_stage,
};
