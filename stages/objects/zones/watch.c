#include "stages/objects/zones/watch.h"

#include <math.h>
#include <string.h>

#include "engine/base/grow.h"
#include "millrace/frame.h"
#include "millrace/status.h"

/* A track and an area. */
typedef struct stay {
    bool inside, now;    /* settled; in the last frame */
    bool dwelt;          /* its dwell was reported */
    int64_t since_ns;    /* the first frame in which `now` held without a break */
    int64_t entered_ns;
} stay;

/* A track and a line. */
typedef struct way {
    int8_t side, now;    /* settled, and in the last frame: -1 left, 1 right, 0 none yet */
    bool clear, through; /* it is clear of the line; its way from the other side led through it */
    int64_t since_ns;    /* as in stay */
    double from[2];      /* the last point that had a side */
} way;

typedef struct visitor {
    mr_watched seen;     /* the last time */
    int64_t seen_ns;
    double velocity[2], distance, ground[2]; /* on the ground, in metres */
    double piece[2], piece_at[2]; /* where the open piece of the distance begins, in metres and pixels */
    bool placed, moving; /* it has a place on the ground, a velocity */
} visitor;

typedef struct tally {
    int64_t inside, reported, entries;
    bool crowded;
    int64_t crossings[2]; /* in, out */
} tally;

struct mr_watch {
    mr_watch_params params;
    const mr_points *areas, *lines;
    mr_plane_map ground;
    bool has_ground;
    int64_t now_ns;
    size_t count;
    visitor *visitors;
    stay *stays;         /* a row of areas for each visitor */
    way *ways;
    tally *tallies;      /* areas, then lines */
    mr_zone_event *events;
    size_t event_count, event_room;
    bool failed;         /* no memory for an event */
};

/* ---- events ------------------------------------------------------------------------------------------------------ */

static void report(mr_watch *w, mr_zone_event event) {
    if (!mr_grow((void **)&w->events, w->event_count, &w->event_room, sizeof event))
        w->failed = true;
    else
        w->events[w->event_count++] = event;
}

static float speed_of(const mr_watch *w, const visitor *v) {
    return w->has_ground && v->moving ? (float)hypot(v->velocity[0], v->velocity[1]) : 0;
}

static mr_zone_event event_of(const mr_watch *w, const visitor *v, const char *name, int64_t time_ns) {
    return (mr_zone_event){.event = name, .track = v->seen.track, .index = v->seen.index, .label = v->seen.label,
                      .time_ns = time_ns, .dwell_ns = MR_NO_TIME, .speed = speed_of(w, v)};
}

static void report_area(mr_watch *w, const visitor *v, size_t area, const char *name, int64_t time_ns,
                        int64_t dwell_ns, bool gone) {
    mr_zone_event event = event_of(w, v, name, time_ns);
    event.zone = w->params.area_names[area];
    event.dwell_ns = dwell_ns;
    event.count = w->tallies[area].inside;
    event.total = w->tallies[area].entries;
    event.gone = gone;
    report(w, event);
}

static void report_cross(mr_watch *w, const visitor *v, size_t line, bool in, int64_t time_ns) {
    tally *of = &w->tallies[w->params.areas + line];
    mr_zone_event event = event_of(w, v, "cross", time_ns);
    of->crossings[!in]++;
    event.zone = w->params.line_names[line];
    event.direction = in ? "in" : "out";
    event.count = of->crossings[!in];
    event.total = of->crossings[0] + of->crossings[1];
    report(w, event);
}

/* ---- areas ------------------------------------------------------------------------------------------------------- */

static void leave(mr_watch *w, const visitor *v, size_t area, stay *s, int64_t time_ns, bool gone) {
    s->inside = false;
    w->tallies[area].inside--;
    report_area(w, v, area, "leave", time_ns, time_ns - s->entered_ns, gone);
}

static void enter(mr_watch *w, const visitor *v, size_t area, stay *s) {
    *s = (stay){.inside = true, .now = true, .since_ns = s->since_ns, .entered_ns = s->since_ns};
    w->tallies[area].inside++;
    w->tallies[area].entries++;
    report_area(w, v, area, "enter", s->entered_ns, MR_NO_TIME, false);
}

static void watch_area(mr_watch *w, const visitor *v, size_t area, stay *s, bool begins) {
    const mr_points *corners = &w->areas[area];
    const bool inside = mr_plane_covers(corners->at, corners->count, v->seen.at);
    if (begins)
        *s = (stay){.now = inside, .since_ns = w->now_ns};
    if (s->now != inside)
        s->since_ns = w->now_ns;
    s->now = inside;
    if (inside != s->inside && w->now_ns - s->since_ns >= w->params.hold_ns) {
        if (inside)
            enter(w, v, area, s);
        else if (mr_plane_edge_distance(corners->at, corners->count, v->seen.at) > w->params.margin * v->seen.height)
            leave(w, v, area, s, s->since_ns, false);
    }
    if (s->inside && !s->dwelt && w->params.dwell_ns && w->now_ns - s->entered_ns >= w->params.dwell_ns) {
        s->dwelt = true;
        report_area(w, v, area, "dwell", w->now_ns, w->now_ns - s->entered_ns, false);
    }
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

static void settle(mr_watch *w, const visitor *v, size_t line, way *p) {
    if (p->side && p->through)
        report_cross(w, v, line, p->now > 0, p->since_ns);
    p->side = p->now;
}

static void watch_line(mr_watch *w, const visitor *v, size_t line, way *p, bool begins) {
    const double *a = w->lines[line].at[0], *b = w->lines[line].at[1], *at = v->seen.at;
    const double away = mr_plane_side(a, b, at) / hypot(b[0] - a[0], b[1] - a[1]);
    const int8_t now = (int8_t)((away > 0) - (away < 0));
    const bool clear = fabs(away) > w->params.margin * v->seen.height;
    if (begins)
        *p = (way){.side = clear ? now : 0, .now = now, .since_ns = w->now_ns};
    p->clear = clear;
    if (now == 0)
        return;
    if (now != p->now) {
        p->since_ns = w->now_ns;
        p->through = p->now && mr_plane_segments_meet(a, b, p->from, at);
        p->now = now;
    }
    memcpy(p->from, at, sizeof p->from);
    if (now != p->side && clear && w->now_ns - p->since_ns >= w->params.hold_ns)
        settle(w, v, line, p);
}

/* ---- ground ------------------------------------------------------------------------------------------------------ */

static void move(mr_watch *w, visitor *v, bool begins) {
    const double seconds = (double)(w->now_ns - v->seen_ns) / 1e9;
    double to[2];
    if (begins)
        v->placed = v->moving = false;
    if (!w->has_ground || !mr_plane_map_apply(&w->ground, v->seen.at, to)) {
        v->placed = v->moving = false;
        return;
    }
    if (v->placed && seconds > 0) {
        const double share = v->moving ? 1 - exp(-seconds * 1e9 / (double)MR_WATCH_SMOOTHING_NS) : 1;
        for (int i = 0; i < 2; i++)
            v->velocity[i] = (v->moving ? v->velocity[i] : 0) * (1 - share) + share * (to[i] - v->ground[i]) / seconds;
        v->moving = true;
    }
    const double moved = hypot(v->seen.at[0] - v->piece_at[0], v->seen.at[1] - v->piece_at[1]);
    if (v->placed && moved > w->params.margin * v->seen.height)
        v->distance += hypot(to[0] - v->piece[0], to[1] - v->piece[1]);
    if (!v->placed || moved > w->params.margin * v->seen.height) {
        memcpy(v->piece, to, sizeof to);
        memcpy(v->piece_at, v->seen.at, sizeof v->piece_at);
    }
    memcpy(v->ground, to, sizeof to);
    v->placed = true;
}

/* ---- tracks ------------------------------------------------------------------------------------------------------ */

static stay *stays_of(const mr_watch *w, size_t i) {
    return &w->stays[i * w->params.areas];
}

static way *ways_of(const mr_watch *w, size_t i) {
    return &w->ways[i * w->params.lines];
}

/* Ends the open stays and crossings of a track that will probably not come again. */
static void end_track(mr_watch *w, size_t i) {
    const visitor *v = &w->visitors[i];
    for (size_t k = 0; k < w->params.lines; k++) {
        way *p = &ways_of(w, i)[k];
        if (p->side && p->now != p->side && p->clear)
            settle(w, v, k, p);
    }
    for (size_t k = 0; k < w->params.areas; k++)
        if (stays_of(w, i)[k].inside)
            leave(w, v, k, &stays_of(w, i)[k], v->seen_ns, true);
    if (i == --w->count)
        return;
    w->visitors[i] = w->visitors[w->count];
    if (w->params.areas)
        memcpy(stays_of(w, i), stays_of(w, w->count), w->params.areas * sizeof(stay));
    if (w->params.lines)
        memcpy(ways_of(w, i), ways_of(w, w->count), w->params.lines * sizeof(way));
}

static size_t find(const mr_watch *w, int64_t track) {
    size_t i = 0;
    while (i < w->count && w->visitors[i].seen.track != track)
        i++;
    return i;
}

static void make_room(mr_watch *w) {
    size_t oldest = 0;
    if (w->count < w->params.most)
        return;
    for (size_t i = 1; i < w->count; i++)
        oldest = w->visitors[i].seen_ns < w->visitors[oldest].seen_ns ? i : oldest;
    end_track(w, oldest);
}

/* ---- frames ------------------------------------------------------------------------------------------------------ */

void mr_watch_begin(mr_watch *w, int64_t now_ns) {
    w->now_ns = now_ns;
    for (size_t i = w->count; i-- > 0;)
        if (now_ns - w->visitors[i].seen_ns > w->params.lost_ns)
            end_track(w, i);
}

int mr_watch_end_epoch(mr_watch *w) {
    while (w->count)
        end_track(w, w->count - 1);
    return w->failed ? mr_fail(MR_ERROR_MEMORY, "no memory for events") : MR_OK;
}

int mr_watch_see(mr_watch *w, const mr_watched *object) {
    size_t i = find(w, object->track);
    const bool begins = i == w->count;
    if (begins) {
        make_room(w);
        i = w->count++;
        w->visitors[i] = (visitor){.seen_ns = w->now_ns};
    }
    visitor *v = &w->visitors[i];
    v->seen = *object;
    move(w, v, begins);
    v->seen_ns = w->now_ns;
    for (size_t k = 0; k < w->params.areas; k++)
        watch_area(w, v, k, &stays_of(w, i)[k], begins);
    for (size_t k = 0; k < w->params.lines; k++)
        watch_line(w, v, k, &ways_of(w, i)[k], begins);
    return w->failed ? mr_fail(MR_ERROR_MEMORY, "no memory for events") : MR_OK;
}

static void report_number(mr_watch *w, size_t area, const char *name) {
    report(w, (mr_zone_event){.event = name, .zone = w->params.area_names[area], .index = -1, .time_ns = w->now_ns,
                         .dwell_ns = MR_NO_TIME, .count = w->tallies[area].inside,
                         .total = w->tallies[area].entries});
}

int mr_watch_finish(mr_watch *w, const mr_zone_event **events, size_t *count) {
    for (size_t k = 0; k < w->params.areas; k++) {
        tally *of = &w->tallies[k];
        const bool crowded = w->params.crowd && of->inside >= w->params.crowd;
        if (of->inside != of->reported)
            report_number(w, k, "count");
        if (crowded && !of->crowded)
            report_number(w, k, "crowd");
        of->reported = of->inside;
        of->crowded = crowded;
    }
    *events = w->events;
    *count = w->event_count;
    w->event_count = 0;
    return w->failed ? mr_fail(MR_ERROR_MEMORY, "no memory for events") : MR_OK;
}

void mr_watch_describe(const mr_watch *w, int64_t track, int64_t *dwell_ns, float *speed, float *distance) {
    const size_t i = find(w, track);
    for (size_t k = 0; k < w->params.areas; k++) {
        const stay *s = &stays_of(w, i)[k];
        dwell_ns[k] = i < w->count && s->inside ? w->now_ns - s->entered_ns : -1;
    }
    *speed = i < w->count ? speed_of(w, &w->visitors[i]) : 0;
    *distance = i < w->count ? (float)w->visitors[i].distance : 0;
}

size_t mr_watch_count(const mr_watch *w) {
    return w->count;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

int mr_watch_create(mr_watch **watch, const mr_watch_params *params) {
    mr_watch *made = *watch = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for zones");
    made->params = *params;
    made->visitors = mr_calloc(params->most, sizeof *made->visitors);
    made->stays = mr_calloc(params->most * params->areas + 1, sizeof *made->stays);
    made->ways = mr_calloc(params->most * params->lines + 1, sizeof *made->ways);
    made->tallies = mr_calloc(params->areas + params->lines + 1, sizeof *made->tallies);
    if (made->visitors && made->stays && made->ways && made->tallies)
        return MR_OK;
    mr_watch_destroy(watch);
    return mr_fail(MR_ERROR_MEMORY, "no memory for zones with %zu tracks", params->most);
}

void mr_watch_destroy(mr_watch **watch) {
    mr_watch *w = *watch;
    if (!w)
        return;
    mr_free(w->visitors);
    mr_free(w->stays);
    mr_free(w->ways);
    mr_free(w->tallies);
    mr_free(w->events);
    mr_free(w);
    *watch = NULL;
}

void mr_watch_set_shapes(mr_watch *w, const mr_points *areas, const mr_points *lines, const mr_plane_map *ground) {
    w->areas = areas;
    w->lines = lines;
    w->has_ground = ground != NULL;
    if (ground)
        w->ground = *ground;
}
