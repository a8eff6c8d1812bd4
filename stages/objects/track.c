/* track: follows a source's objects from frame to frame, and gives each a number. */
#include <math.h>

#include "engine/base/memory.h"
#include "millrace/objects.h"
#include "stages/list.h"
#include "stages/objects/found.h"
#include "stages/objects/tracker.h"

typedef struct options {
    double low, high, begin;
    int64_t confirm_ns, lost_ns, coast_ns, max;
    bool by_class;
    int unconfirmed; /* 1: dropped */
} options;

/* Of one source. */
typedef struct state {
    mr_tracker *tracker;
    mr_object *predicted; /* room for max objects */
    uint32_t epoch;
    int64_t now_ns; /* the last frame's; MR_NO_TIME: none has come */
} state;

/* Ids begin anew above a multiple of this with each epoch, so that none repeats. */
static const int64_t IDS_OF_EPOCH = 1000000000;

static int negotiate(mr_negotiation *n) {
    const options *o = n->options;
    n->outputs[0].follows = n->outputs[0].shares = 0;
    if (!mr_may_have_objects(&n->inputs[0]))
        return mr_refuse(n, NULL, "no frame that comes here has objects: name a stage after detect as its input");
    if (o->coast_ns > o->lost_ns)
        return mr_refuse(n, "coast", "coast must be at most lost: tracks that are lost for longer end");
    if (o->low > o->high || o->high > o->begin)
        return mr_refuse(n, "high", "low (%g), high (%g) and begin (%g) must rise", o->low, o->high, o->begin);
    int status = mr_promise_tracks(n, 0);
    const size_t found = n->outputs[0].results ? n->outputs[0].results->elements : 0;
    if (!status && found)
        mr_promise_elements(n, 0, found + (size_t)o->max); /* some are only expected */
    return status;
}

/* A node that starts again in the middle of a stream has lost its tracks: their ids do not come again, since a frame
 * begins at most `max` of them. */
static int64_t first_id(const options *o, const mr_identity *frame) {
    return frame->epoch * IDS_OF_EPOCH + (int64_t)(frame->seq % 1000000) * o->max + 1;
}

static int begin(const options *o, state *s, const mr_frame *frame) {
    const mr_tracker_params params = {.low = (float)o->low, .high = (float)o->high, .begin = (float)o->begin,
                                      .confirm_ns = o->confirm_ns, .lost_ns = o->lost_ns, .by_class = o->by_class,
                                      .most = (size_t)o->max, .first_id = first_id(o, &frame->identity)};
    s->epoch = frame->identity.epoch;
    s->predicted = mr_alloc((size_t)o->max * sizeof *s->predicted);
    return s->predicted ? mr_tracker_create(&s->tracker, &params)
                     : mr_fail(MR_ERROR_MEMORY, "no memory for %lld tracks", (long long)o->max);
}

static void close_stage(mr_stage *self) {
    state *s = self->state;
    mr_tracker_destroy(&s->tracker);
    mr_free(s->predicted);
}

/* Times restart with a new epoch, and tracks end. */
static int keep_up(const options *o, state *s, const mr_frame *frame) {
    const int64_t now_ns = mr_frame_time_ns(frame);
    int status = s->tracker ? MR_OK : begin(o, s, frame);
    if (!status && (s->epoch != frame->identity.epoch || now_ns < s->now_ns))
        mr_tracker_restart(s->tracker, frame->identity.epoch * IDS_OF_EPOCH + 1);
    s->epoch = frame->identity.epoch;
    s->now_ns = now_ns;
    return status;
}

/* Clips a predicted box to the source's picture. Returns false if nothing of it is left. */
static bool clip(const mr_geometry *geometry, mr_object *object) {
    double size[2];
    mr_geometry_display_size(geometry, size);
    if (!geometry->width)
        return true;
    object->left = fmaxf(object->left, 0);
    object->top = fmaxf(object->top, 0);
    object->right = fminf(object->right, (float)size[0]);
    object->bottom = fminf(object->bottom, (float)size[1]);
    return object->left < object->right && object->top < object->bottom;
}

/* Objects without a number are numbered in order, before others are inserted. */
static void number_all(mr_result *result) {
    for (size_t i = 0; i < result->count; i++)
        ((mr_object *)result->data)[i].number = mr_object_number(result, i);
}

/* Inserts an object by its score, with a new number. */
static void insert(mr_result *result, const mr_object *object) {
    mr_object *objects = result->data;
    int64_t number = 0;
    size_t at = result->count++;
    for (size_t i = 0; i < at; i++)
        number = objects[i].number > number ? objects[i].number : number;
    for (; at > 0 && objects[at - 1].score < object->score; at--)
        objects[at] = objects[at - 1];
    objects[at] = *object;
    objects[at].number = number + 1;
}

static void insert_all(state *s, size_t count, const mr_frame *frame, mr_result *result) {
    for (size_t i = 0; i < count; i++)
        if (clip(&frame->geometry, &s->predicted[i]))
            insert(result, &s->predicted[i]);
}

/* What hides objects must know that some are missing. */
static void drop_unconfirmed(mr_result *result) {
    mr_object *objects = result->data;
    size_t kept = 0;
    for (size_t i = 0; i < result->count; i++)
        if (objects[i].track)
            objects[kept++] = objects[i];
    result->cut |= kept < result->count;
    result->count = kept;
}

/* Frames that no stage searched get the places where objects should be. So do those whose result is empty because what
 * was found got lost. */
static int follow(const options *o, state *s, mr_io *io, mr_frame *frame) {
    const mr_result *found = mr_frame_result(frame, mr_kind_objects(), NULL);
    mr_result *result;
    int status;
    if (found && (found->count || !found->cut)) {
        status = mr_io_renew_objects(io, frame, found, o->coast_ns ? (size_t)o->max : 0, &result);
        if (!status)
            number_all(result);
        if (!status)
            status = mr_tracker_update(s->tracker, s->now_ns, result->data, result->count, NULL);
    } else {
        status = mr_io_add_result(io, frame, mr_kind_objects(), (size_t)o->max, &result);
        if (!status)
            result->cut = found != NULL;
        if (!status)
            insert_all(s, mr_tracker_predict(s->tracker, s->now_ns, s->predicted, (size_t)o->max), frame, result);
    }
    if (!status && o->coast_ns)
        insert_all(s, mr_tracker_missed(s->tracker, o->coast_ns, s->predicted, (size_t)o->max), frame, result);
    if (!status && o->unconfirmed)
        drop_unconfirmed(result);
    return status;
}

static int process(mr_stage *self, mr_io *io) {
    const mr_frame *input = mr_io_input(io);
    mr_frame *frame = NULL;
    int status = input->flags & MR_FRAME_AWAY ? MR_OK : keep_up(self->options, self->state, input);
    if (!status)
        status = mr_io_share(io, input, &frame);
    if (!status && !(input->flags & MR_FRAME_AWAY))
        status = follow(self->options, self->state, io, frame);
    return mr_io_finish(io, 0, frame, status);
}

static const char *const unconfirmed[] = {"keep", "drop", NULL};

#define FIELD(field) .name = #field, .offset = offsetof(options, field)
static const mr_option table[] = {
    {.name = "confirm", .kind = MR_OPTION_DURATION, .offset = offsetof(options, confirm_ns), .fallback = "200ms",
     .max = 3600e9, .help = "how long an object must be found in all frames before it gets a number"},
    {.name = "lost", .kind = MR_OPTION_DURATION, .offset = offsetof(options, lost_ns), .fallback = "2s",
     .max = 3600e9, .help = "how long an object that is not found keeps its number"},
    {.name = "coast", .kind = MR_OPTION_DURATION, .offset = offsetof(options, coast_ns), .fallback = "0s",
     .max = 3600e9,
     .help = "how long an object that is not found stays in the result, where it should be; at most lost. For blur: it "
             "must not show an object that detect misses in a picture"},
    {FIELD(high), .kind = MR_OPTION_DOUBLE, .fallback = "0.5", .min = 0, .max = 1,
     .help = "objects from this score on are assigned first, to all tracks"},
    {FIELD(low), .kind = MR_OPTION_DOUBLE, .fallback = "0.1", .min = 0, .max = 1,
     .help = "objects between this score and high continue tracks that would otherwise be lost; detect must let them "
             "through (score)"},
    {FIELD(begin), .kind = MR_OPTION_DOUBLE, .fallback = "0.6", .min = 0, .max = 1,
     .help = "objects from this score on begin a track"},
    {FIELD(by_class), .kind = MR_OPTION_BOOL, .fallback = "true",
     .help = "an object continues tracks of its own class only"},
    {FIELD(unconfirmed), .kind = MR_OPTION_ENUM, .fallback = "keep", .choices = unconfirmed,
     .help = "keep: objects without a number stay in the result: new ones, and those whose score is too low to begin a "
             "track. drop: only objects with a number stay; blur then hides pictures with others whole"},
    {FIELD(max), .kind = MR_OPTION_INT, .fallback = "200", .min = 1, .max = 1000, .unit = "tracks",
     .help = "most tracks of a source at once"},
    MR_OPTIONS_END};
#undef FIELD

static const mr_port inputs[] = {{.name = "in", .help = "frames with objects"}, {0}};
static const mr_port outputs[] = {{.name = "out", .help = "the same frames, whose objects have tracks"}, {0}};

const mr_stage_type mr_track_stage = {
    .name = "track",
    .summary = "follows objects from frame to frame and numbers them",
    .help = "Association in two steps, as in ByteTrack, with a Kalman filter whose noise grows with time: 10 and 30 "
            "frames a second behave alike. Numbers do not repeat within a source. They end with an epoch (a turn of a "
            "loop, another connection), and tracks are lost if a node starts again. Objects without a number are not "
            "confirmed yet. Frames without a result of detect get the places where the objects should be.",
    .inputs = inputs,
    .outputs = outputs,
    .blind = true,
    .options = table,
    .options_bytes = sizeof(options),
    .state_bytes = sizeof(state),
    .entry = MR_ENTRY_PER_SOURCE,
    .negotiate = negotiate,
    .open = NULL,
    .process = process,
    .close = close_stage,
};
