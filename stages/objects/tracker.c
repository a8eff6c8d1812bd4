#include "stages/objects/tracker.h"

#include <math.h>
#include <string.h>

#include "engine/base/memory.h"
#include "kernels/metrics/assignment.h"
#include "millrace/status.h"
#include "stages/objects/kalman.h"

static const double STEP_NS = 1e9 / 30;
/* Limits of the cost, from ByteTrack: of sure detections, of less sure ones, and of tracks without an id. */
static const double SURE_LIMIT = 0.8, UNSURE_LIMIT = 0.5, NEW_LIMIT = 0.7;
/* A lost track that overlaps a found one by more is the same object. */
static const double SAME_OVERLAP = 0.85;
/* Boxes are compared after they have grown on all sides by up to this share of their size: the more, the longer the
 * track was not seen, as objects then lie further from where they should be (after Yang et al., "Hard to Track Objects
 * with Irregular Motions and Similar Appearances? Make It Easier by Buffering the Matching Space", 2023). */
static const double MOST_GROWTH = 0.5;

typedef enum track_state { TRACK_NEW, TRACK_FOUND, TRACK_LOST } track_state;

/* Of the box: centre, aspect ratio and height. */
enum { CENTRE_X, CENTRE_Y, ASPECT, HEIGHT, COORDINATES };

typedef struct track {
    mr_kalman at[COORDINATES];
    track_state state;
    int64_t id;              /* 0: not confirmed */
    int64_t born_ns, seen_ns;
    int32_t index;           /* class, as last seen */
    const char *label;
    float score;
    bool taken;              /* was assigned in this frame */
    int32_t surplus;         /* frames in which it was found, less those in which it was not; until it has an id */
} track;

struct mr_tracker {
    mr_tracker_params params;
    int64_t next_id, now_ns;
    size_t count, room; /* room: of objects in a frame, for the fields below */
    track *tracks;
    double *cost;
    int *column;
    size_t *row_of, *column_of; /* tracks and objects that take part */
    bool *used;                 /* objects that were assigned */
    void *workspace;
};

/* ---- boxes ------------------------------------------------------------------------------------------------------- */

static mr_object box_of(const track *t) {
    const double height = fmax(t->at[HEIGHT].place, 0), width = fmax(t->at[ASPECT].place, 0) * height;
    return (mr_object){.left = (float)(t->at[CENTRE_X].place - width / 2),
                       .top = (float)(t->at[CENTRE_Y].place - height / 2),
                       .right = (float)(t->at[CENTRE_X].place + width / 2),
                       .bottom = (float)(t->at[CENTRE_Y].place + height / 2),
                       .score = t->score, .index = t->index, .label = t->label, .track = t->id};
}

static double overlap_of(const mr_object *a, const mr_object *b) {
    const double width = fmin((double)a->right, (double)b->right) - fmax((double)a->left, (double)b->left);
    const double height = fmin((double)a->bottom, (double)b->bottom) - fmax((double)a->top, (double)b->top);
    if (width <= 0 || height <= 0)
        return 0;
    const double shared = width * height;
    const double first = ((double)a->right - (double)a->left) * ((double)a->bottom - (double)a->top);
    const double second = ((double)b->right - (double)b->left) * ((double)b->bottom - (double)b->top);
    return shared / (first + second - shared);
}

static mr_object grown(const mr_object *box, double share) {
    const float across = (float)(((double)box->right - (double)box->left) * share);
    const float down = (float)(((double)box->bottom - (double)box->top) * share);
    return (mr_object){.left = box->left - across, .top = box->top - down, .right = box->right + across,
                       .bottom = box->bottom + down};
}

static void measure(const mr_object *object, double to[COORDINATES]) {
    const double width = (double)object->right - (double)object->left;
    const double height = fmax((double)object->bottom - (double)object->top, 1e-3);
    to[CENTRE_X] = ((double)object->left + (double)object->right) / 2;
    to[CENTRE_Y] = ((double)object->top + (double)object->bottom) / 2;
    to[ASPECT] = width / height;
    to[HEIGHT] = height;
}

/* ---- tracks ------------------------------------------------------------------------------------------------------ */

/* Noise of a coordinate and of its speed, for a box of this height. */
static double place_noise(int coordinate, double height, double aspect) {
    return coordinate == ASPECT ? aspect : height / 20;
}

static double speed_noise(int coordinate, double height) {
    return coordinate == ASPECT ? 1e-5 : height / 160;
}

static void begin_track(track *t, const mr_object *object, int64_t now_ns) {
    double at[COORDINATES];
    measure(object, at);
    *t = (track){.state = TRACK_NEW, .born_ns = now_ns, .seen_ns = now_ns, .index = object->index,
                 .label = object->label, .score = object->score};
    for (int i = 0; i < COORDINATES; i++)
        mr_kalman_begin(&t->at[i], at[i], place_noise(i, 2 * at[HEIGHT], 1e-2),
                        i == ASPECT ? 1e-5 : 10 * speed_noise(i, at[HEIGHT]));
}

/* A lost box does not grow or shrink. */
static void predict_track(track *t, double steps) {
    const double height = t->at[HEIGHT].place;
    if (t->state == TRACK_LOST)
        t->at[HEIGHT].speed = 0;
    for (int i = 0; i < COORDINATES; i++)
        mr_kalman_predict(&t->at[i], steps, place_noise(i, height, 1e-2), speed_noise(i, height));
}

/* Gives the track an id once it was found for long enough. */
static void confirm(mr_tracker *tracker, track *t, mr_object *object) {
    t->surplus += !t->id;
    if (!t->id && tracker->now_ns - t->born_ns >= tracker->params.confirm_ns)
        t->id = tracker->next_id++;
    t->state = t->id ? TRACK_FOUND : TRACK_NEW;
    object->track = t->id;
}

static void find_track(mr_tracker *tracker, track *t, mr_object *object) {
    double at[COORDINATES];
    measure(object, at);
    const double height = t->at[HEIGHT].place;
    for (int i = 0; i < COORDINATES; i++)
        mr_kalman_update(&t->at[i], at[i], place_noise(i, height, 1e-1));
    t->seen_ns = tracker->now_ns;
    t->index = object->index;
    t->label = object->label;
    t->score = object->score;
    t->taken = true;
    confirm(tracker, t, object);
}

/* ---- association ------------------------------------------------------------------------------------------------- */

/* Which tracks and objects take part. */
typedef struct stage {
    bool with[TRACK_LOST + 1]; /* tracks, by state */
    float least, below;        /* scores */
    bool by_score;             /* a sure object is nearer */
    double limit;
} stage;

/* By how much boxes grow that are compared with the track's. */
static double growth_of(const mr_tracker *tracker, const track *t) {
    return MOST_GROWTH * (1 - 1 / fmax((double)(tracker->now_ns - t->seen_ns) / STEP_NS, 1));
}

/* `box`: the track's, grown. */
static double cost_of(const mr_tracker *tracker, const track *t, const mr_object *box, double growth,
                      const mr_object *object, bool by_score) {
    if (tracker->params.by_class && t->index != object->index)
        return INFINITY;
    const mr_object other = grown(object, growth);
    return 1 - overlap_of(box, &other) * (by_score ? (double)object->score : 1);
}

static void associate(mr_tracker *tracker, mr_object *objects, size_t count, const stage *of) {
    size_t rows = 0, columns = 0;
    for (size_t i = 0; i < tracker->count; i++)
        if (!tracker->tracks[i].taken && of->with[tracker->tracks[i].state])
            tracker->row_of[rows++] = i;
    for (size_t k = 0; k < count; k++)
        if (!tracker->used[k] && objects[k].score >= of->least && objects[k].score < of->below)
            tracker->column_of[columns++] = k;
    for (size_t i = 0; i < rows; i++) {
        const track *t = &tracker->tracks[tracker->row_of[i]];
        const double growth = growth_of(tracker, t);
        const mr_object predicted = box_of(t), box = grown(&predicted, growth);
        for (size_t k = 0; k < columns; k++)
            tracker->cost[i * columns + k] = cost_of(tracker, t, &box, growth, &objects[tracker->column_of[k]],
                                                     of->by_score);
    }
    mr_assign(tracker->cost, rows, columns, of->limit, tracker->column, tracker->workspace);
    for (size_t i = 0; i < rows; i++) {
        if (tracker->column[i] < 0)
            continue;
        const size_t object = tracker->column_of[tracker->column[i]];
        tracker->used[object] = true;
        find_track(tracker, &tracker->tracks[tracker->row_of[i]], &objects[object]);
    }
}

static void remove_track(mr_tracker *tracker, size_t i) {
    memmove(&tracker->tracks[i], &tracker->tracks[i + 1], (tracker->count - i - 1) * sizeof(track));
    tracker->count--;
}

/* Tracks without an id must be found more often than not. */
static void lose_tracks(mr_tracker *tracker) {
    for (size_t i = tracker->count; i-- > 0;) {
        track *t = &tracker->tracks[i];
        if (t->taken)
            continue;
        if (!t->id && --t->surplus > 0)
            continue;
        t->state = TRACK_LOST;
        if (!t->id || tracker->now_ns - t->seen_ns > tracker->params.lost_ns)
            remove_track(tracker, i);
    }
}

/* Whether a found track covers the lost one. */
static bool is_covered(const mr_tracker *tracker, const track *lost) {
    const mr_object box = box_of(lost);
    for (size_t i = 0; i < tracker->count; i++) {
        const mr_object other = box_of(&tracker->tracks[i]);
        if (tracker->tracks[i].state == TRACK_FOUND && overlap_of(&box, &other) > SAME_OVERLAP)
            return true;
    }
    return false;
}

static void drop_doubles(mr_tracker *tracker) {
    for (size_t i = tracker->count; i-- > 0;)
        if (tracker->tracks[i].state == TRACK_LOST && is_covered(tracker, &tracker->tracks[i]))
            remove_track(tracker, i);
}

static void begin_tracks(mr_tracker *tracker, mr_object *objects, size_t count) {
    for (size_t k = 0; k < count && tracker->count < tracker->params.most; k++) {
        if (tracker->used[k] || objects[k].score < tracker->params.begin)
            continue;
        track *t = &tracker->tracks[tracker->count++];
        begin_track(t, &objects[k], tracker->now_ns);
        confirm(tracker, t, &objects[k]);
    }
}

/* ---- frames ------------------------------------------------------------------------------------------------------ */

static void advance(mr_tracker *tracker, int64_t now_ns) {
    const double steps = fmin((double)(now_ns - tracker->now_ns), (double)tracker->params.lost_ns * 2) / STEP_NS;
    for (size_t i = 0; i < tracker->count; i++) {
        tracker->tracks[i].taken = false;
        predict_track(&tracker->tracks[i], steps);
    }
    tracker->now_ns = now_ns;
}

/* Also for a frame without objects: the first one may be so. */
static int make_room(mr_tracker *tracker, size_t objects) {
    const size_t most = tracker->params.most, count = objects ? objects : 1;
    if (count <= tracker->room)
        return MR_OK;
    mr_free(tracker->cost);
    mr_free(tracker->column_of);
    mr_free(tracker->used);
    mr_free(tracker->workspace);
    tracker->room = 0;
    tracker->cost = mr_alloc(most * count * sizeof *tracker->cost);
    tracker->column_of = mr_alloc(count * sizeof *tracker->column_of);
    tracker->used = mr_alloc(count * sizeof *tracker->used);
    tracker->workspace = mr_alloc(mr_assignment_bytes(most, count));
    if (!tracker->cost || !tracker->column_of || !tracker->used || !tracker->workspace)
        return mr_fail(MR_ERROR_MEMORY, "no memory to follow %zu objects", count);
    tracker->room = count;
    return MR_OK;
}

int mr_tracker_update(mr_tracker *tracker, int64_t now_ns, mr_object *objects, size_t count) {
    const mr_tracker_params *p = &tracker->params;
    const stage sure = {{[TRACK_FOUND] = true, [TRACK_LOST] = true}, p->high, INFINITY, true, SURE_LIMIT};
    const stage unsure = {{[TRACK_FOUND] = true}, p->low, p->high, false, UNSURE_LIMIT};
    const stage begun = {{[TRACK_NEW] = true}, p->high, INFINITY, true, NEW_LIMIT};
    int status = make_room(tracker, count);
    if (status)
        return status;
    advance(tracker, now_ns);
    for (size_t k = 0; k < count; k++) {
        objects[k].track = 0;
        tracker->used[k] = false;
    }
    associate(tracker, objects, count, &sure);
    associate(tracker, objects, count, &unsure);
    associate(tracker, objects, count, &begun);
    lose_tracks(tracker);
    drop_doubles(tracker);
    begin_tracks(tracker, objects, count);
    return MR_OK;
}

size_t mr_tracker_missed(const mr_tracker *tracker, int64_t most_ns, mr_object *objects, size_t room) {
    size_t count = 0;
    for (size_t i = 0; i < tracker->count && count < room; i++)
        if (tracker->tracks[i].state == TRACK_LOST && tracker->now_ns - tracker->tracks[i].seen_ns <= most_ns)
            objects[count++] = box_of(&tracker->tracks[i]);
    return count;
}

size_t mr_tracker_predict(mr_tracker *tracker, int64_t now_ns, mr_object *objects, size_t room) {
    size_t count = 0;
    advance(tracker, now_ns);
    for (size_t i = 0; i < tracker->count && count < room; i++)
        if (tracker->tracks[i].state == TRACK_FOUND) {
            objects[count] = box_of(&tracker->tracks[i]);
            objects[count].number = (int64_t)count + 1;
            count++;
        }
    return count;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

int mr_tracker_create(mr_tracker **tracker, const mr_tracker_params *params) {
    mr_tracker *made = *tracker = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a tracker");
    made->params = *params;
    made->tracks = mr_calloc(params->most, sizeof *made->tracks);
    made->row_of = mr_alloc(params->most * sizeof *made->row_of);
    made->column = mr_alloc(params->most * sizeof *made->column);
    mr_tracker_restart(made, params->first_id);
    if (made->tracks && made->row_of && made->column)
        return MR_OK;
    mr_tracker_destroy(tracker);
    return mr_fail(MR_ERROR_MEMORY, "no memory for %zu tracks", params->most);
}

void mr_tracker_destroy(mr_tracker **tracker) {
    mr_tracker *t = *tracker;
    if (!t)
        return;
    mr_free(t->tracks);
    mr_free(t->cost);
    mr_free(t->column);
    mr_free(t->row_of);
    mr_free(t->column_of);
    mr_free(t->used);
    mr_free(t->workspace);
    mr_free(t);
    *tracker = NULL;
}

void mr_tracker_restart(mr_tracker *tracker, int64_t first_id) {
    tracker->count = 0;
    tracker->next_id = tracker->next_id > first_id ? tracker->next_id : first_id;
}

size_t mr_tracker_count(const mr_tracker *tracker) {
    return tracker->count;
}
