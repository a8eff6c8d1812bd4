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
/* Of sure detections that look otherwise than the track. */
static const double CHANGED_LIMIT = 0.5;
/* The features of a detection are of no use if another one covers a larger share of its box. */
static const double MOST_COVERED = 0.5;
/* A lost track that overlaps a found one by more is the same object. */
static const double SAME_OVERLAP = 0.85;
/* Boxes are compared after they have grown on all sides by up to this share of their size: the more, the longer the
 * track was not seen, as objects then lie further from where they should be (after Yang et al., "Hard to Track Objects
 * with Irregular Motions and Similar Appearances? Make It Easier by Buffering the Matching Space", 2023). */
static const double MOST_GROWTH = 0.5;

/* GONE: lost for too long to be found by its place. */
typedef enum track_state { TRACK_NEW, TRACK_FOUND, TRACK_LOST, TRACK_GONE, TRACK_STATES } track_state;

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
    bool ready;              /* gets its id in this frame */
    size_t object;           /* the last one, if `taken` or `ready` */
    double seen[2], side;    /* where its box was last found: the centre, and the longer side */
    size_t look;             /* its number in `appearance` */
    int32_t surplus;         /* frames in which it was found, less those in which it was not; until it has an id */
} track;

struct mr_tracker {
    mr_tracker_params params;
    int64_t next_id, now_ns;
    mr_appearance *appearance; /* NULL: without features */
    size_t *free_looks;        /* numbers that no track has: as many as tracks are missing */
    uint64_t without_room;     /* objects, counted in each frame */
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

static double area_of(const mr_object *box) {
    return ((double)box->right - (double)box->left) * ((double)box->bottom - (double)box->top);
}

static double shared_by(const mr_object *a, const mr_object *b) {
    const double width = fmin((double)a->right, (double)b->right) - fmax((double)a->left, (double)b->left);
    const double height = fmin((double)a->bottom, (double)b->bottom) - fmax((double)a->top, (double)b->top);
    return width <= 0 || height <= 0 ? 0 : width * height;
}

static double overlap_of(const mr_object *a, const mr_object *b) {
    const double shared = shared_by(a, b);
    return shared > 0 ? shared / (area_of(a) + area_of(b) - shared) : 0;
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
    *t = (track){.state = TRACK_NEW, .born_ns = now_ns};
    for (int i = 0; i < COORDINATES; i++)
        mr_kalman_begin(&t->at[i], at[i], place_noise(i, 2 * at[HEIGHT], 1e-2),
                        i == ASPECT ? 1e-5 : 10 * speed_noise(i, at[HEIGHT]));
}

/* Notes where a track's object is, and how it looks. */
static void see_track(mr_tracker *tracker, track *t, const mr_object *object, size_t number) {
    double at[COORDINATES];
    measure(object, at);
    t->seen_ns = tracker->now_ns;
    t->seen[0] = at[CENTRE_X];
    t->seen[1] = at[CENTRE_Y];
    t->side = at[HEIGHT] * fmax(at[ASPECT], 1);
    t->index = object->index;
    t->label = object->label;
    t->score = object->score;
    t->object = number;
    if (tracker->appearance && object->score >= tracker->params.high)
        mr_appearance_add(tracker->appearance, t->look, number, tracker->now_ns);
}

/* A lost box does not grow or shrink. */
static void predict_track(track *t, double steps) {
    const double height = t->at[HEIGHT].place;
    if (t->state == TRACK_LOST)
        t->at[HEIGHT].speed = 0;
    for (int i = 0; i < COORDINATES; i++)
        mr_kalman_predict(&t->at[i], steps, place_noise(i, height, 1e-2), speed_noise(i, height));
}

/* The track gets an id at the frame's end once it was found for long enough. */
static void confirm(mr_tracker *tracker, track *t, mr_object *object) {
    t->surplus += !t->id;
    t->ready = !t->id && tracker->now_ns - t->born_ns >= tracker->params.confirm_ns;
    t->state = t->id || t->ready ? TRACK_FOUND : TRACK_NEW;
    object->track = t->id;
}

static void find_track(mr_tracker *tracker, track *t, mr_object *object, size_t number) {
    double at[COORDINATES];
    measure(object, at);
    const double height = t->at[HEIGHT].place;
    for (int i = 0; i < COORDINATES; i++)
        mr_kalman_update(&t->at[i], at[i], place_noise(i, height, 1e-1));
    see_track(tracker, t, object, number);
    t->taken = true;
    confirm(tracker, t, object);
}

/* ---- association ------------------------------------------------------------------------------------------------- */

/* Which tracks and objects take part. */
typedef struct stage {
    bool with[TRACK_STATES]; /* tracks, by state */
    float least, below;      /* scores */
    bool by_score;           /* a sure object is nearer */
    bool by_look;            /* if both have features, an object that looks otherwise is none */
    double limit;
} stage;

/* By how much boxes grow that are compared with the track's. */
static double growth_of(const mr_tracker *tracker, const track *t) {
    return MOST_GROWTH * (1 - 1 / fmax((double)(tracker->now_ns - t->seen_ns) / STEP_NS, 1));
}

/* `box`: the track's, grown. */
static double place_cost(const mr_tracker *tracker, const track *t, const mr_object *box, double growth,
                         const mr_object *object, bool by_score) {
    if (tracker->params.by_class && t->index != object->index)
        return INFINITY;
    const mr_object other = grown(object, growth);
    return 1 - overlap_of(box, &other) * (by_score ? (double)object->score : 1);
}

/* The mean of the costs of place and look, as shares of their limits; those of pairs without features are as large. */
static double cost_with_look(const mr_tracker *tracker, const track *t, size_t object, double place, double limit) {
    if (!tracker->appearance || place >= limit)
        return place;
    const double look = mr_appearance_distance(tracker->appearance, t->look, object) / tracker->params.dissimilar;
    return isnan(look) ? place : look > 1 ? INFINITY : (place + limit * look) / 2;
}

static void fill_costs(mr_tracker *tracker, const mr_object *objects, size_t rows, size_t columns, const stage *of) {
    for (size_t i = 0; i < rows; i++) {
        const track *t = &tracker->tracks[tracker->row_of[i]];
        const double growth = growth_of(tracker, t);
        const mr_object predicted = box_of(t), box = grown(&predicted, growth);
        double *cost = tracker->cost + i * columns;
        for (size_t k = 0; k < columns; k++) {
            const size_t object = tracker->column_of[k];
            cost[k] = place_cost(tracker, t, &box, growth, &objects[object], of->by_score);
            if (of->by_look)
                cost[k] = cost_with_look(tracker, t, object, cost[k], of->limit);
        }
    }
}

static void associate(mr_tracker *tracker, mr_object *objects, size_t count, const stage *of) {
    size_t rows = 0, columns = 0;
    for (size_t i = 0; i < tracker->count; i++)
        if (!tracker->tracks[i].taken && of->with[tracker->tracks[i].state])
            tracker->row_of[rows++] = i;
    for (size_t k = 0; k < count; k++)
        if (!tracker->used[k] && objects[k].score >= of->least && objects[k].score < of->below)
            tracker->column_of[columns++] = k;
    fill_costs(tracker, objects, rows, columns, of);
    mr_assign(tracker->cost, rows, columns, of->limit, tracker->column, tracker->workspace);
    for (size_t i = 0; i < rows; i++) {
        if (tracker->column[i] < 0)
            continue;
        const size_t object = tracker->column_of[tracker->column[i]];
        tracker->used[object] = true;
        find_track(tracker, &tracker->tracks[tracker->row_of[i]], &objects[object], object);
    }
}

/* ---- beginnings and ends ----------------------------------------------------------------------------------------- */

static void remove_track(mr_tracker *tracker, size_t i) {
    tracker->free_looks[tracker->params.most - tracker->count] = tracker->tracks[i].look;
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
        const int64_t lost_ns = tracker->now_ns - t->seen_ns;
        t->state = lost_ns > tracker->params.lost_ns ? TRACK_GONE : TRACK_LOST;
        if (!t->id || lost_ns > (tracker->appearance ? tracker->params.remember_ns : tracker->params.lost_ns))
            remove_track(tracker, i);
    }
}

static bool look_otherwise(const mr_tracker *tracker, const track *a, const track *b) {
    return tracker->appearance &&
           mr_appearance_between(tracker->appearance, a->look, b->look) > tracker->params.dissimilar;
}

/* Whether a found track covers the lost one, and does not look otherwise. */
static bool is_covered(const mr_tracker *tracker, const track *lost) {
    const mr_object box = box_of(lost);
    for (size_t i = 0; i < tracker->count; i++) {
        const track *found = &tracker->tracks[i];
        const mr_object other = box_of(found);
        if (found->state == TRACK_FOUND && overlap_of(&box, &other) > SAME_OVERLAP &&
            !look_otherwise(tracker, lost, found))
            return true;
    }
    return false;
}

/* After give_ids: a new track may be in the place of the lost one whose id it gets. */
static void drop_doubles(mr_tracker *tracker) {
    for (size_t i = tracker->count; i-- > 0;)
        if (tracker->tracks[i].state == TRACK_LOST && is_covered(tracker, &tracker->tracks[i]))
            remove_track(tracker, i);
}

/* If there are as many tracks as may be, the one that is gone for longest gives way. */
static bool make_way(mr_tracker *tracker) {
    size_t oldest = SIZE_MAX;
    if (tracker->count < tracker->params.most)
        return true;
    for (size_t i = 0; i < tracker->count; i++)
        if (tracker->tracks[i].state == TRACK_GONE &&
            (oldest == SIZE_MAX || tracker->tracks[i].seen_ns < tracker->tracks[oldest].seen_ns))
            oldest = i;
    if (oldest != SIZE_MAX)
        remove_track(tracker, oldest);
    return oldest != SIZE_MAX;
}

static void begin_tracks(mr_tracker *tracker, mr_object *objects, size_t count) {
    for (size_t k = 0; k < count; k++) {
        if (tracker->used[k] || !(objects[k].score >= tracker->params.begin))
            continue;
        if (!make_way(tracker)) {
            tracker->without_room++;
            continue;
        }
        track *t = &tracker->tracks[tracker->count++];
        begin_track(t, &objects[k], tracker->now_ns);
        t->look = tracker->free_looks[tracker->params.most - tracker->count];
        if (tracker->appearance)
            mr_appearance_forget(tracker->appearance, t->look);
        see_track(tracker, t, &objects[k], k);
        confirm(tracker, t, &objects[k]);
    }
}

/* ---- ids --------------------------------------------------------------------------------------------------------- */

/* Whether the object can have come so far since the lost track was seen. */
static bool reaches(const mr_tracker *tracker, const track *lost, const track *t) {
    const double seconds = (double)(tracker->now_ns - lost->seen_ns) / 1e9;
    const double far = hypot(t->seen[0] - lost->seen[0], t->seen[1] - lost->seen[1]);
    return far <= (1 + tracker->params.reach * seconds) * fmax(t->side, lost->side);
}

static double cost_to_recognise(const mr_tracker *tracker, const track *lost, const track *t) {
    if ((tracker->params.by_class && lost->index != t->index) || !reaches(tracker, lost, t))
        return INFINITY;
    const double look = mr_appearance_between(tracker->appearance, lost->look, t->look);
    return look <= tracker->params.dissimilar ? look / tracker->params.dissimilar : INFINITY;
}

/* Tracks that are ready get the ids of lost ones that look alike. Each of them has an object of this frame. */
static void recognise(mr_tracker *tracker) {
    size_t *ready = tracker->column_of, *lost = tracker->row_of, rows = 0, columns = 0;
    for (size_t i = 0; i < tracker->count; i++) {
        const track *t = &tracker->tracks[i];
        if (t->ready)
            ready[rows++] = i;
        else if (t->state == TRACK_LOST || t->state == TRACK_GONE)
            lost[columns++] = i;
    }
    if (!rows || !columns)
        return;
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; k < columns; k++)
            tracker->cost[i * columns + k] =
                cost_to_recognise(tracker, &tracker->tracks[lost[k]], &tracker->tracks[ready[i]]);
    mr_assign(tracker->cost, rows, columns, 1 + 1e-9, tracker->column, tracker->workspace);
    for (size_t i = 0; i < rows; i++) {
        if (tracker->column[i] < 0)
            continue;
        track *t = &tracker->tracks[ready[i]], *old = &tracker->tracks[lost[tracker->column[i]]];
        t->id = old->id;
        old->id = 0;
        mr_appearance_join(tracker->appearance, t->look, old->look);
    }
    for (size_t k = columns; k-- > 0;)
        if (!tracker->tracks[lost[k]].id)
            remove_track(tracker, lost[k]);
}

static void give_ids(mr_tracker *tracker, mr_object *objects) {
    if (tracker->appearance)
        recognise(tracker);
    for (size_t i = 0; i < tracker->count; i++) {
        track *t = &tracker->tracks[i];
        if (!t->ready)
            continue;
        t->id = t->id ? t->id : tracker->next_id++;
        t->ready = false;
        objects[t->object].track = t->id;
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

/* Sets the features of the frame's objects. Those of hidden objects are mixed with those of others. */
static int look_at(mr_tracker *tracker, const mr_looks *features, const mr_object *objects, size_t count) {
    int status = mr_appearance_look(tracker->appearance, features, count);
    for (size_t k = 0; features && k < count && !status; k++)
        for (size_t i = 0; i < count; i++)
            if (i != k && shared_by(&objects[i], &objects[k]) > MOST_COVERED * area_of(&objects[k])) {
                mr_appearance_ignore(tracker->appearance, k);
                break;
            }
    return status;
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
    const size_t one = mr_assignment_bytes(most, count), other = mr_assignment_bytes(count, most);
    tracker->workspace = mr_alloc(one > other ? one : other);
    if (!tracker->cost || !tracker->column_of || !tracker->used || !tracker->workspace)
        return mr_fail(MR_ERROR_MEMORY, "no memory to follow %zu objects", count);
    tracker->room = count;
    return MR_OK;
}

int mr_tracker_update(mr_tracker *tracker, int64_t now_ns, mr_object *objects, size_t count,
                      const mr_looks *features) {
    const mr_tracker_params *p = &tracker->params;
    const stage sure = {{[TRACK_FOUND] = true, [TRACK_LOST] = true}, p->high, INFINITY, true, true, SURE_LIMIT};
    const stage changed = {{[TRACK_FOUND] = true}, p->high, INFINITY, false, false, CHANGED_LIMIT};
    const stage unsure = {{[TRACK_FOUND] = true}, p->low, p->high, false, false, UNSURE_LIMIT};
    const stage begun = {{[TRACK_NEW] = true}, p->high, INFINITY, true, false, NEW_LIMIT};
    int status = make_room(tracker, count);
    if (!status && tracker->appearance)
        status = look_at(tracker, features, objects, count);
    if (status)
        return status;
    advance(tracker, now_ns);
    for (size_t k = 0; k < count; k++) {
        objects[k].track = 0;
        tracker->used[k] = false;
    }
    associate(tracker, objects, count, &sure);
    if (tracker->appearance)
        associate(tracker, objects, count, &changed);
    associate(tracker, objects, count, &unsure);
    associate(tracker, objects, count, &begun);
    lose_tracks(tracker);
    begin_tracks(tracker, objects, count);
    give_ids(tracker, objects);
    drop_doubles(tracker);
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
    made->free_looks = mr_alloc(params->most * sizeof *made->free_looks);
    int status = made->tracks && made->row_of && made->column && made->free_looks
                     ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for %zu tracks", params->most);
    if (!status && params->dissimilar > 0)
        status = mr_appearance_create(&made->appearance, params->most);
    if (!status)
        mr_tracker_restart(made, params->first_id);
    else
        mr_tracker_destroy(tracker);
    return status;
}

void mr_tracker_destroy(mr_tracker **tracker) {
    mr_tracker *t = *tracker;
    if (!t)
        return;
    mr_appearance_destroy(&t->appearance);
    mr_free(t->free_looks);
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
    for (size_t i = 0; i < tracker->params.most; i++)
        tracker->free_looks[i] = i;
    tracker->next_id = tracker->next_id > first_id ? tracker->next_id : first_id;
}

size_t mr_tracker_count(const mr_tracker *tracker) {
    return tracker->count;
}

uint64_t mr_tracker_without_room(const mr_tracker *tracker) {
    return tracker->without_room;
}

uint64_t mr_tracker_odd_features(const mr_tracker *tracker) {
    return tracker->appearance ? mr_appearance_odd(tracker->appearance) : 0;
}
