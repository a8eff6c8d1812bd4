/* crop: makes a picture of each object. It shares the memory of the whole picture. */
#include <string.h>

#include "engine/base/grow.h"
#include "engine/base/memory.h"
#include "stages/list.h"
#include "stages/objects/cascade/cutout.h"
#include "stages/objects/found.h"
#include "stages/objects/quad.h"
#include "stages/wanted.h"

typedef struct options {
    mr_strings classes;
    mr_size min_size;
    double expand;
    int64_t max, every_ns;
} options;

/* When a track had a picture last. */
typedef struct seen {
    int64_t track, at_ns;
} seen;

/* Of one source. */
typedef struct state {
    seen *seen;
    size_t seen_count, seen_room;
    uint32_t epoch;
    int64_t now_ns;    /* the last frame's; MR_NO_TIME: none has come */
    uint64_t cut;      /* frames with more objects than max */
} state;

/* Tracks that are remembered for `every`; a source that has more at once loses the oldest. */
enum { MOST_SEEN = 10000 };

/* ---- planning ---------------------------------------------------------------------------------------------------- */

static int negotiate(mr_negotiation *n) {
    static const mr_format_set pictures = {.payload = MR_PAYLOAD_PICTURE};
    static const char join[] = "join pictures and objects first, as in {type: join, join: {picture: decode, objects: "
                               "detect}}";
    const options *o = n->options;
    const mr_payload payload = n->inputs[0].set.payload;
    if (payload != MR_PAYLOAD_PICTURE && payload != MR_PAYLOAD_ANY)
        return mr_refuse(n, NULL, "%s gives %ss, not pictures with objects: %s", n->inputs[0].from,
                         mr_payload_name(payload), join);
    if (!mr_planned_may_have(n, 0, mr_kind_objects()))
        return mr_refuse(n, NULL, "the pictures from %s have no objects: %s", n->inputs[0].from, join);
    if (o->every_ns && !mr_may_have_tracks(&n->inputs[0]))
        return mr_refuse(n, "every", "%s gives no objects with tracks, so each would have a picture in every frame: "
                         "name a join of pictures and a stage after track as the input", n->inputs[0].from);
    int status = mr_wanted_objects_check(n, &o->classes, "no object would have a picture", "gives no picture");
    if (status)
        return status;
    mr_take(n, 0, &pictures, "crop cuts pictures out");
    mr_cutout_plan(n);
    status = mr_promise_result(n, 0, mr_kind_objects(), NULL, NULL);
    if (!status)
        mr_promise_items(n, 0, mr_items_bytes(MR_QUAD_NUMBERS, sizeof(float)));
    return status;
}

/* ---- which objects ----------------------------------------------------------------------------------------------- */

static bool is_wanted(const options *o, const mr_object *object) {
    return mr_wanted_class(&o->classes, object->index, object->label) &&
           object->right - object->left >= (float)o->min_size.width &&
           object->bottom - object->top >= (float)o->min_size.height;
}

/* Forgets tracks that may have a picture again. With a new epoch, or another beginning of time, these are all. */
static void keep_up(const options *o, state *s, const mr_frame *frame) {
    const int64_t now_ns = mr_frame_time_ns(frame);
    const bool anew = frame->identity.epoch != s->epoch || now_ns < s->now_ns;
    size_t kept = 0;
    for (size_t i = 0; i < s->seen_count && !anew; i++)
        if (now_ns - s->seen[i].at_ns < o->every_ns)
            s->seen[kept++] = s->seen[i];
    s->seen_count = kept;
    s->epoch = frame->identity.epoch;
    s->now_ns = now_ns;
}

/* Objects without a track always are: they are not remembered. */
static bool is_due(const state *s, int64_t track) {
    size_t i = 0;
    while (i < s->seen_count && s->seen[i].track != track)
        i++;
    return i == s->seen_count;
}

static void remember(const options *o, state *s, int64_t track) {
    if (!o->every_ns || !track)
        return;
    if (s->seen_count == MOST_SEEN)
        memmove(s->seen, s->seen + 1, --s->seen_count * sizeof *s->seen);
    if (mr_grow((void **)&s->seen, s->seen_count, &s->seen_room, sizeof *s->seen))
        s->seen[s->seen_count++] = (seen){track, s->now_ns};
}

static bool is_chosen(const options *o, const state *s, const mr_frame *picture, const mr_object *object,
                      mr_cutout *region) {
    return is_wanted(o, object) && mr_cutout_of(picture, object, o->expand, region) && is_due(s, object->track);
}

static bool has_more_than_max(const options *o, const state *s, const mr_frame *picture, const mr_result *objects) {
    mr_cutout region;
    int64_t count = 0;
    if (!objects || objects->count <= (size_t)o->max)
        return false;
    for (size_t i = 0; i < objects->count && count <= o->max; i++)
        count += is_chosen(o, s, picture, (const mr_object *)objects->data + i, &region);
    return count > o->max;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* The picture's own object goes along, with its corners. */
static int fill(mr_result *own, const mr_result *objects, size_t index) {
    const mr_object *from = (const mr_object *)objects->data + index;
    *(mr_object *)own->data = (mr_object){
        .left = from->left, .top = from->top, .right = from->right, .bottom = from->bottom, .score = from->score,
        .index = from->index, .label = from->label, .track = from->track, .number = mr_object_number(objects, index),
        .parent = from->parent};
    own->count = 1;
    return mr_result_add_items(own, mr_result_items(objects, from->quad), from->quad.count, sizeof(float),
                               &((mr_object *)own->data)->quad);
}

static int give(mr_io *io, const mr_frame *picture, const mr_cutout *region, const mr_result *objects, size_t index,
                uint32_t number, bool cut) {
    mr_frame *frame;
    mr_result *own;
    int status = mr_cutout_make(io, picture, region, number, &frame, &own);
    if (status)
        return status;
    own->cut = cut;
    status = fill(own, objects, index);
    if (!status)
        return mr_io_emit(io, 0, frame);
    mr_io_drop(io, frame, "error");
    mr_frame_unref(&frame);
    return status;
}

static void note_cut(mr_stage *self) {
    state *s = self->state;
    if (!s->cut++)
        mr_stage_warn(self, "a frame has more objects than max (%lld): the others have no picture",
                      (long long)((const options *)self->options)->max);
}

static int process(mr_stage *self, mr_io *io) {
    const options *o = self->options;
    state *s = self->state;
    const mr_frame *picture = mr_io_input(io);
    const mr_result *objects = mr_frame_result(picture, mr_kind_objects(), NULL);
    const mr_object *object = objects ? objects->data : NULL;
    uint32_t given = 0;
    int status = MR_OK;
    keep_up(o, s, picture);
    const bool cut = has_more_than_max(o, s, picture, objects);
    if (cut)
        note_cut(self);
    for (size_t i = 0; object && i < objects->count && given < (uint32_t)o->max && !status; i++) {
        mr_cutout region;
        if (!is_chosen(o, s, picture, &object[i], &region))
            continue;
        remember(o, s, object[i].track);
        status = give(io, picture, &region, objects, i, ++given, cut);
    }
    if (!status)
        mr_io_end_objects(io, picture, given, given ? "cropped" : "no objects");
    return status;
}

static int open_stage(mr_stage *self) {
    ((state *)self->state)->now_ns = MR_NO_TIME;
    return MR_OK;
}

static void close_stage(mr_stage *self) {
    state *s = self->state;
    if (s->cut)
        mr_stage_warn(self, "%llu frame%s of %s had more objects than max (%lld)", (unsigned long long)s->cut,
                      s->cut == 1 ? "" : "s", self->source_id, (long long)((const options *)self->options)->max);
    mr_free(s->seen);
}

#define FIELD(field) .name = #field, .offset = offsetof(options, field)
static const mr_option table[] = {
    {FIELD(classes), .kind = MR_OPTION_STRINGS, .example = "[person, car]",
     .help = "classes of the objects, by label or number; if not given, all"},
    {FIELD(min_size), .kind = MR_OPTION_SIZE, .fallback = "1x1", .min = 0, .max = 65536, .unit = "px",
     .example = "32x64", .help = "smallest width and height of an object's box, in pixels of the source's picture"},
    {FIELD(expand), .kind = MR_OPTION_DOUBLE, .fallback = "0", .min = 0, .max = 10, .example = "0.1",
     .help = "moves each side of the box out by this share of the box's width or height"},
    {FIELD(max), .kind = MR_OPTION_INT, .fallback = "100", .min = 1, .max = 10000, .unit = "pictures",
     .help = "most pictures from a frame, of the best objects; frames with more objects are counted in a warning"},
    {.name = "every", .kind = MR_OPTION_DURATION, .offset = offsetof(options, every_ns), .fallback = "0s",
     .max = 86400e9, .example = "1s",
     .help = "a track has a picture again only after this time; 0s: in every frame. Objects without a track always "
             "have one"},
    MR_OPTIONS_END};
#undef FIELD

static const mr_format_set pictures[] = {{.payload = MR_PAYLOAD_PICTURE}, {.payload = MR_PAYLOAD_ANY}};
static const mr_port inputs[] = {{.name = "in", .help = "pictures with objects"}, {0}};
static const mr_port outputs[] = {{.name = "out", .help = "a picture of each object", .accepts = pictures}, {0}};

const mr_stage_type mr_crop_stage = {
    .name = "crop",
    .summary = "makes a picture of each object",
    .help = "Other stages can look at these pictures, and gather puts their results onto the objects. A picture has "
            "the pixels that the box touches: left and top are rounded down, right and bottom up, after expand, and "
            "clipped to the whole picture. If chroma is halved (I420, NV12), the picture is enlarged to even columns "
            "and rows. It is turned as the whole picture is. Boxes that detect finds in it are in pixels of the whole "
            "one. No pixel is copied.",
    .inputs = inputs,
    .outputs = outputs,
    .options = table,
    .options_bytes = sizeof(options),
    .state_bytes = sizeof(state),
    .entry = MR_ENTRY_PER_SOURCE,
    .cascade = MR_CASCADE_SPLIT,
    .negotiate = negotiate,
    .open = open_stage,
    .process = process,
    .close = close_stage,
};
