/* track: follows a source's objects from frame to frame, and gives each a number. */
#include <math.h>
#include <string.h>

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
    const char *features;
    double dissimilar, reach;
    int64_t remember_ns;
} options;

/* Of one source. */
typedef struct state {
    mr_tracker *tracker;
    bool reported_room;
    mr_object *predicted; /* room for max objects */
    uint32_t epoch;
    int64_t now_ns; /* the last frame's; MR_NO_TIME: none has come */
    const float **vectors; /* room for the features of vector_room objects */
    size_t vector_room;
    uint64_t frames, with_features; /* frames with objects, and those with features */
} state;

/* Ids begin anew above a multiple of this with each epoch, so that none repeats. */
static const int64_t IDS_OF_EPOCH = 1000000000;

/* ---- planning ---------------------------------------------------------------------------------------------------- */

/* Whether a planned result is the features of objects that the same stage gives. */
static bool is_features(const mr_planned_input *input, const mr_planned_result *one) {
    const mr_planned_result *objects = input->results;
    while (objects && (objects->kind != mr_kind_objects() || strcmp(objects->maker, one->maker) != 0))
        objects = objects->next;
    return objects && one->kind == mr_kind_tensor() && (one->set.rank == 2 || !one->set.rank);
}

/* The features of the objects that a stage gives, or that any stage gives (NULL). */
static const mr_planned_result *find_features(const mr_planned_input *input, const char *stage) {
    const mr_planned_result *one = input->results;
    while (one && !(is_features(input, one) && (!stage || strcmp(one->maker, stage) == 0)))
        one = one->next;
    return one;
}

static int check_features(mr_negotiation *n) {
    static const char *const about[] = {"dissimilar", "reach", "remember"};
    const options *o = n->options;
    const mr_planned_input *input = &n->inputs[0];
    for (size_t i = 0; !o->features && i < sizeof about / sizeof *about; i++)
        if (mr_is_given(n, about[i]))
            return mr_refuse(n, about[i], "%s is about features, and there are none: write features: STAGE, the stage "
                             "that puts them onto objects (gather)", about[i]);
    if (!o->features)
        return MR_OK;
    if (mr_is_given(n, "remember") && o->remember_ns < o->lost_ns)
        return mr_refuse(n, "remember", "remember must be at least lost: until then the place of an object counts too");
    const mr_planned_result *found = find_features(input, o->features), *other = find_features(input, NULL);
    if (!found && other)
        return mr_refuse(n, "features", "%s gives objects no features; %s does: write features: %s", o->features,
                         other->maker, other->maker);
    if (!found && !input->more_results)
        return mr_refuse(n, "features", "the frames from %s have no features of objects: let gather put them onto "
                         "objects (features: true), and name it here", input->from);
    if (found && found->set.dims[1].max)
        mr_remark(n, "keeps features of %lld tracks a source: %.1f MiB", (long long)o->max,
                  (double)o->max * (double)found->set.dims[1].max * sizeof(float) / (1 << 20));
    return MR_OK;
}

static int negotiate(mr_negotiation *n) {
    const options *o = n->options;
    n->outputs[0].follows = n->outputs[0].shares = 0;
    if (!mr_planned_may_have(n, 0, mr_kind_objects()))
        return mr_refuse(n, NULL, "no frame that comes here has objects: name a stage after detect as its input");
    if (o->coast_ns > o->lost_ns)
        return mr_refuse(n, "coast", "coast must be at most lost: tracks that are lost for longer end");
    if (o->low > o->high || o->high > o->begin)
        return mr_refuse(n, "high", "low (%g), high (%g) and begin (%g) must rise", o->low, o->high, o->begin);
    int status = check_features(n);
    if (!status)
        status = mr_promise_tracks(n, 0);
    const size_t found = n->outputs[0].results ? n->outputs[0].results->elements : 0;
    if (!status && found)
        mr_promise_elements(n, 0, found + (size_t)o->max); /* some are only expected */
    return status;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

/* A node that starts again in the middle of a stream has lost its tracks: their ids do not come again, since a frame
 * begins at most `max` of them. */
static int64_t first_id(const options *o, const mr_identity *frame) {
    return frame->epoch * IDS_OF_EPOCH + (int64_t)(frame->seq % 1000000) * o->max + 1;
}

static int begin(const options *o, state *s, const mr_frame *frame) {
    const mr_tracker_params params = {.low = (float)o->low, .high = (float)o->high, .begin = (float)o->begin,
                                      .confirm_ns = o->confirm_ns, .lost_ns = o->lost_ns, .by_class = o->by_class,
                                      .most = (size_t)o->max, .first_id = first_id(o, &frame->identity),
                                      .dissimilar = o->features ? o->dissimilar : 0, .reach = o->reach,
                                      .remember_ns = o->remember_ns > o->lost_ns ? o->remember_ns : o->lost_ns};
    s->epoch = frame->identity.epoch;
    s->predicted = mr_alloc((size_t)o->max * sizeof *s->predicted);
    return s->predicted ? mr_tracker_create(&s->tracker, &params)
                     : mr_fail(MR_ERROR_MEMORY, "no memory for %lld tracks", (long long)o->max);
}

/* Tells why features had no effect. */
static void report_features(mr_stage *self, const state *s) {
    const options *o = self->options;
    const uint64_t odd = s->tracker ? mr_tracker_odd_features(s->tracker) : 0;
    if (odd)
        mr_stage_warn(self, "the features of %llu object%s of %s were zero or not finite, and did not count",
                      (unsigned long long)odd, odd == 1 ? "" : "s", self->source_id);
    if (o->features && s->frames && !s->with_features)
        mr_stage_warn(self, "no frame of %s had features of objects from %s: it was followed by boxes alone",
                      self->source_id, o->features);
}

/* Objects got no number: at once when it happens first, and in the end how often. */
static void report_room(mr_stage *self, state *s) {
    const uint64_t without = s->tracker ? mr_tracker_without_room(s->tracker) : 0;
    if (without && !s->reported_room)
        mr_stage_warn(self, "%s has more objects at once than max (%lld): the others get no number", self->source_id,
                      (long long)((const options *)self->options)->max);
    s->reported_room |= without > 0;
}

static void report_without_room(mr_stage *self, const state *s) {
    const uint64_t without = s->tracker ? mr_tracker_without_room(s->tracker) : 0;
    if (without)
        mr_stage_warn(self, "%llu object%s in frames of %s got no number: there were as many tracks as max (%lld)",
                      (unsigned long long)without, without == 1 ? "" : "s", self->source_id,
                      (long long)((const options *)self->options)->max);
}

static void close_stage(mr_stage *self) {
    state *s = self->state;
    report_without_room(self, s);
    report_features(self, s);
    mr_free(s->vectors);
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

/* ---- features ---------------------------------------------------------------------------------------------------- */

static int make_room(state *s, size_t count) {
    if (count <= s->vector_room)
        return MR_OK;
    mr_free(s->vectors);
    s->vectors = mr_alloc(count * sizeof *s->vectors);
    s->vector_room = s->vectors ? count : 0;
    return s->vectors ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for the features of %zu objects", count);
}

/* The row of an object: that of the same number and box in the result beside the features, which may be older. */
static size_t row_of(const mr_result *beside, const mr_result *objects, size_t index) {
    const mr_object *one = (const mr_object *)objects->data + index, *all = beside->data;
    const int64_t number = mr_object_number(objects, index);
    size_t row = index;
    if (row >= beside->count || mr_object_number(beside, row) != number)
        for (row = 0; row < beside->count && mr_object_number(beside, row) != number;)
            row++;
    return row < beside->count && memcmp(&one->left, &all[row].left, 4 * sizeof one->left) == 0 ? row : beside->count;
}

/* Finds the vectors of a frame's objects. NaN marks those without one. *length 0: the frame has no features. */
static int find_vectors(const options *o, state *s, const mr_frame *frame, const mr_result *objects, size_t *length) {
    const mr_result *beside = mr_frame_result(frame, mr_kind_objects(), o->features);
    const mr_result *tensor = mr_frame_result(frame, mr_kind_tensor(), o->features);
    int status = make_room(s, objects->count);
    *length = 0;
    s->frames += objects->count > 0;
    if (status || !beside || !tensor || tensor->format.rank != 2 || tensor->format.dtype != MR_DTYPE_F32)
        return status;
    *length = (size_t)tensor->format.dims[1];
    s->with_features++;
    for (size_t i = 0; i < objects->count; i++) {
        const size_t row = row_of(beside, objects, i);
        const float *vector = (const float *)tensor->data + row * *length;
        const bool there = row < beside->count && row < (size_t)tensor->format.dims[0];
        s->vectors[i] = there && !isnan(vector[0]) ? vector : NULL;
    }
    return MR_OK;
}

static int update(const options *o, state *s, const mr_frame *frame, const mr_result *found, mr_result *result) {
    size_t length = 0;
    int status = o->features ? find_vectors(o, s, frame, found, &length) : MR_OK;
    const mr_looks features = {s->vectors, length};
    return status ? status : mr_tracker_update(s->tracker, s->now_ns, result->data, result->count,
                                               length ? &features : NULL);
}

/* ---- objects ----------------------------------------------------------------------------------------------------- */

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
            status = update(o, s, frame, found, result);
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
    report_room(self, self->state);
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
    {FIELD(features), .kind = MR_OPTION_STRING, .example = "gather",
     .help = "the stage that put feature vectors onto objects (gather with features: true): objects are then told "
             "apart by their looks too, and a lost one that comes again gets its number back"},
    {FIELD(dissimilar), .kind = MR_OPTION_DOUBLE, .fallback = "0.3", .min = 0.001, .max = 2,
     .help = "with features: objects whose vectors differ by more (cosine distance: 0 alike, 1 nothing in common) are "
             "not the same. It depends on the network: more than an object differs from itself, less than from others"},
    {.name = "remember", .kind = MR_OPTION_DURATION, .offset = offsetof(options, remember_ns), .fallback = "10s",
     .max = 86400e9,
     .help = "with features: how long a lost object is known again by its looks alone; at least lost"},
    {FIELD(reach), .kind = MR_OPTION_DOUBLE, .fallback = "2", .min = 0, .max = 1000,
     .help = "with features: how far a lost object can have come in a second when it is known again, in the longer "
             "sides of its box"},
    {FIELD(max), .kind = MR_OPTION_INT, .fallback = "200", .min = 1, .max = 1000, .unit = "tracks",
     .help = "most tracks of a source at once, with those that are remembered"},
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
            "confirmed yet. Frames without a result of detect get the places where the objects should be. With "
            "features, an object that overlaps a track continues it only if it looks alike, as in BoT-SORT, unless no "
            "other does; a new one that looks like a lost one gets its number once it is confirmed.",
    .inputs = inputs,
    .outputs = outputs,
    .blind = true,
    .whole = true,
    .options = table,
    .options_bytes = sizeof(options),
    .state_bytes = sizeof(state),
    .entry = MR_ENTRY_PER_SOURCE,
    .negotiate = negotiate,
    .open = NULL,
    .process = process,
    .close = close_stage,
};
