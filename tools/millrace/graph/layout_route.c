/* Lines, and places from top to bottom.
 *
 * Between two layers each wire has a horizontal piece, on a track, and verticals from it to its taps above and below.
 * Tracks are given by the left-edge rule (Hashimoto and Stevens 1971): wires that stand clear of each other share one.
 * If one wire comes from above at the x at which another one leaves downwards, it must have the higher track; a circle
 * of such demands is broken by leading one wire around all others, through a column to the right of everything. */
#include <limits.h>
#include <stdlib.h>

#include "millrace/status.h"
#include "tools/millrace/graph/layout_parts.h"

/* A wire that is not straight, or one of the two parts of one that is led around. */
typedef struct span {
    int wire;
    int low, high; /* x */
    int track;     /* -1: none yet */
    int waits;     /* spans that must have a higher track and have none yet */
    int lower;     /* of a first part: its second; else -1 */
    bool has_top, has_bottom;
} span;

/* A tap of a span. */
typedef struct pin {
    int x, span;
    bool top;
} pin;

/* Span `above` must have a higher track than `below`. */
typedef struct demand {
    int above, below;
} demand;

typedef struct channel {
    mr_layout_work *work;
    int index;
    int span_count, straight, pin_count, demand_count, tracks, around;
    span *span;
    int *sorted; /* spans by their low ends */
    pin *pin;
    demand *demand;
    int ceiling, floor, first_track; /* y */
} channel;

/* ---- tracks ---------------------------------------------------------------------------------------------------- */

static int by_x(const void *left, const void *right) {
    const pin *a = left, *b = right;
    if (a->x != b->x)
        return a->x < b->x ? -1 : 1;
    return a->top != b->top ? (a->top ? -1 : 1) : (a->span > b->span) - (a->span < b->span);
}

static void list_spans(channel *c) {
    const mr_layout_work *w = c->work;
    for (int i = w->channel[c->index]; i < w->channel[c->index + 1]; i++) {
        const mr_layout_wire *wire = &w->wire[i];
        span one = {.wire = i,
                    .low = INT_MAX,
                    .high = INT_MIN,
                    .track = -1,
                    .lower = -1,
                    .has_top = true,
                    .has_bottom = true};
        for (int t = wire->first; t < wire->last; t++) {
            int x = mr_layout_tap_x(w, &w->tap[t]);
            one.low = x < one.low ? x : one.low;
            one.high = x > one.high ? x : one.high;
            c->pin[c->pin_count++] = (pin){.x = x, .span = c->span_count, .top = w->tap[t].top};
        }
        if (one.low == one.high)
            c->pin_count -= wire->last - wire->first;
        else
            c->span[c->span_count++] = one;
    }
}

static void list_demands(channel *c) {
    qsort(c->pin, (size_t)c->pin_count, sizeof *c->pin, by_x);
    for (int i = 1; i < c->pin_count; i++) {
        const pin *above = &c->pin[i - 1], *below = &c->pin[i];
        if (above->x != below->x || !above->top || below->top || above->span == below->span)
            continue;
        c->demand[c->demand_count++] = (demand){.above = above->span, .below = below->span};
        c->span[below->span].waits++;
    }
}

/* Positions of a new span in `sorted`, by its low end. */
static void insert(channel *c, int number) {
    int at = number;
    for (; at > 0 && c->span[c->sorted[at - 1]].low > c->span[number].low; at--)
        c->sorted[at] = c->sorted[at - 1];
    c->sorted[at] = number;
}

/* Fills one track; true if a span was put on it. */
static bool fill_track(channel *c) {
    int free_from = INT_MIN, placed = 0;
    for (int i = 0; i < c->span_count; i++) {
        span *one = &c->span[c->sorted[i]];
        if (one->track >= 0 || one->waits > 0 || one->low < free_from)
            continue;
        one->track = c->tracks;
        free_from = one->high + c->work->style.rail_gap + c->work->style.cell;
        placed++;
    }
    for (int i = 0; placed && i < c->demand_count; i++)
        if (c->span[c->demand[i].above].track == c->tracks)
            c->span[c->demand[i].below].waits--;
    c->tracks += placed > 0;
    return placed > 0;
}

/* Of a circle, leads one span around: its upper part goes right at once, its lower part comes back when it may. */
static void lead_around(channel *c) {
    int number = c->sorted[0];
    for (int i = 0; i < c->span_count; i++) {
        number = c->sorted[i];
        if (c->span[number].track < 0 && c->span[number].has_top && c->span[number].has_bottom)
            break;
    }
    const mr_layout_work *w = c->work;
    int x = w->layout->width + (c->around + 1) * (w->style.rail_gap + w->style.cell), added = c->span_count++;
    span *upper = &c->span[number], *lower = &c->span[added];
    c->around++;
    *lower = *upper;
    upper->has_bottom = false;
    upper->lower = added;
    lower->has_top = false;
    lower->waits++;
    lower->low = INT_MAX;
    upper->low = INT_MAX;
    for (int i = 0; i < c->pin_count; i++)
        if (c->pin[i].span == number) {
            span *part = c->pin[i].top ? upper : lower;
            part->low = c->pin[i].x < part->low ? c->pin[i].x : part->low;
            c->pin[i].span = c->pin[i].top ? number : added;
        }
    upper->high = lower->high = x;
    upper->waits = 0;
    for (int i = 0; i < c->demand_count; i++)
        if (c->demand[i].below == number)
            c->demand[i].below = added;
    c->demand[c->demand_count++] = (demand){.above = number, .below = added};
    for (int i = 0; i < added; i++)
        c->sorted[i] = i;
    for (int i = 1; i <= added; i++)
        insert(c, i);
}

static void give_tracks(channel *c) {
    for (int i = 0; i < c->span_count; i++)
        insert(c, i);
    for (bool left = c->span_count > 0; left;) {
        if (!fill_track(c))
            lead_around(c);
        left = false;
        for (int i = 0; i < c->span_count; i++)
            left = left || c->span[i].track < 0;
    }
}

/* ---- heights --------------------------------------------------------------------------------------------------- */

static int height_of(channel *c) {
    const mr_layout_work *w = c->work;
    const mr_layout_style *style = &w->style;
    int leaving = 0, arriving = style->arrow;
    for (int i = w->channel[c->index]; i < w->channel[c->index + 1]; i++)
        for (int t = w->wire[i].first; t < w->wire[i].last; t++)
            if (w->tap[t].end >= 0 && w->layout->end[w->tap[t].end].label) {
                int *side = w->tap[t].top ? &leaving : &arriving;
                *side = *side < style->label_height ? style->label_height : *side;
            }
    int height = leaving + c->tracks * style->track + arriving;
    c->first_track = leaving;
    return height > style->channel ? height : style->channel;
}

/* ---- lines ----------------------------------------------------------------------------------------------------- */

static int add_line(mr_graph_layout *layout, int net, int x0, int y0, int x1, int y1) {
    if (layout->line_count == layout->line_room) {
        int room = layout->line_room ? 2 * layout->line_room : 256;
        mr_layout_line *wider = realloc(layout->line, (size_t)room * sizeof *wider);
        if (!wider)
            return mr_fail(MR_ERROR_MEMORY, "no memory for a drawing of %d lines", room);
        layout->line = wider;
        layout->line_room = room;
    }
    layout->line[layout->line_count++] = (mr_layout_line){.net = net, .x0 = x0, .y0 = y0, .x1 = x1, .y1 = y1};
    return MR_OK;
}

static int track_y(const channel *c, const span *one) {
    return c->first_track + one->track * c->work->style.track + c->work->style.track / 2;
}

/* The y at which the line of a tap at the top of the channel begins. */
static int start_y(const channel *c, const mr_layout_tap *tap) {
    const mr_graph_layout *layout = c->work->layout;
    return tap->end < 0 ? c->ceiling - c->work->style.cell : layout->end[tap->end].y;
}

/* Marks the point at which a tap meets the horizontal piece within it, or at its end from the other side of another
 * tap. */
static void mark_joint(const channel *c, const span *one, const mr_layout_tap *tap) {
    const mr_layout_work *w = c->work;
    const mr_layout_wire *wire = &w->wire[one->wire];
    int x = mr_layout_tap_x(w, tap);
    bool joint = x > one->low && x < one->high;
    for (int t = wire->first; !joint && tap->top && one->has_bottom && t < wire->last; t++)
        joint = !w->tap[t].top && mr_layout_tap_x(w, &w->tap[t]) == x;
    if (joint)
        w->layout->joint[w->layout->joint_count++] = (mr_layout_joint){.net = wire->net, .x = x, .y = track_y(c, one)};
}

static int draw_span(channel *c, const span *one) {
    const mr_layout_work *w = c->work;
    const mr_layout_wire *wire = &w->wire[one->wire];
    int y = track_y(c, one), status = add_line(w->layout, wire->net, one->low, y, one->high, y);
    for (int t = wire->first; !status && t < wire->last; t++) {
        int x = mr_layout_tap_x(w, &w->tap[t]);
        if (w->tap[t].top ? one->has_top : one->has_bottom)
            mark_joint(c, one, &w->tap[t]);
        if (w->tap[t].top && one->has_top)
            status = add_line(w->layout, wire->net, x, start_y(c, &w->tap[t]), x, y);
        else if (!w->tap[t].top && one->has_bottom)
            status = add_line(w->layout, wire->net, x, y, x, c->floor);
    }
    if (!status && one->lower >= 0)
        status = add_line(w->layout, wire->net, one->high, y, one->high, track_y(c, &c->span[one->lower]));
    return status;
}

static int draw_straight(channel *c, const mr_layout_wire *wire) {
    const mr_layout_work *w = c->work;
    int x = mr_layout_tap_x(w, &w->tap[wire->first]);
    for (int t = wire->first + 1; t < wire->last; t++)
        if (mr_layout_tap_x(w, &w->tap[t]) != x)
            return MR_OK;
    return add_line(w->layout, wire->net, x, start_y(c, &w->tap[wire->first]), x, c->floor);
}

static int draw(channel *c) {
    int status = MR_OK;
    for (int i = 0; !status && i < c->span_count; i++)
        status = draw_span(c, &c->span[i]);
    for (int i = c->work->channel[c->index]; !status && i < c->work->channel[c->index + 1]; i++)
        status = draw_straight(c, &c->work->wire[i]);
    return status;
}

/* ---- layers ---------------------------------------------------------------------------------------------------- */

/* Puts the boxes of a layer at `y` and returns its height. */
static int place_layer(mr_layout_work *w, int layer, int y) {
    int height = 0;
    for (int i = w->layer[layer]; i < w->layer[layer + 1]; i++) {
        int b = w->item[w->order[i]].box;
        if (b < 0)
            continue;
        mr_layout_box *box = &w->layout->box[b];
        box->y = y;
        height = box->height > height ? box->height : height;
    }
    return height;
}

static int draw_rails(mr_layout_work *w, int layer, int y, int height) {
    int status = MR_OK;
    /* The taps at the top of a channel have the nets of its rails. */
    for (int i = w->channel[layer]; !status && i < w->channel[layer + 1]; i++)
        for (int t = w->wire[i].first; !status && t < w->wire[i].middle; t++)
            if (w->tap[t].end < 0) {
                int x = mr_layout_tap_x(w, &w->tap[t]);
                status = add_line(w->layout, w->wire[i].net, x, y, x, y + height - w->style.cell);
            }
    return status;
}

static void place_ends(const channel *c) {
    mr_layout_work *w = c->work;
    for (int i = w->channel[c->index]; i < w->channel[c->index + 1]; i++)
        for (int t = w->wire[i].first; t < w->wire[i].last; t++) {
            mr_layout_end *end = w->tap[t].end < 0 ? NULL : &w->layout->end[w->tap[t].end];
            if (!end)
                continue;
            const mr_layout_box *box = &w->layout->box[end->box];
            end->y = end->arrives ? c->floor : box->y + box->height - w->style.cell;
            end->label_y = end->arrives ? c->floor - w->style.label_height : c->ceiling;
        }
}

static int make_room(channel *c) {
    const mr_layout_work *w = c->work;
    size_t most_wires = 0, most_taps = 0;
    for (int i = 0; i + 1 < w->layout->layer_count; i++) {
        size_t wires = (size_t)(w->channel[i + 1] - w->channel[i]), taps = 0;
        if (wires)
            taps = (size_t)(w->wire[w->channel[i + 1] - 1].last - w->wire[w->channel[i]].first);
        most_wires = wires > most_wires ? wires : most_wires;
        most_taps = taps > most_taps ? taps : most_taps;
    }
    c->span = mr_arena_array(w->arena, 2 * most_wires, sizeof *c->span);
    c->sorted = mr_arena_array(w->arena, 2 * most_wires, sizeof *c->sorted);
    c->pin = mr_arena_array(w->arena, most_taps, sizeof *c->pin);
    c->demand = mr_arena_array(w->arena, most_taps + most_wires, sizeof *c->demand);
    return c->span && c->sorted && c->pin && c->demand ? MR_OK : MR_ERROR_MEMORY;
}

/* One channel, whose upper layer ends at `y`: returns the y of the next one, or a negative status. */
static int route_channel(channel *c, int index, int y) {
    c->index = index;
    c->span_count = c->pin_count = c->demand_count = c->tracks = c->around = 0;
    list_spans(c);
    list_demands(c);
    give_tracks(c);
    c->ceiling = y;
    c->floor = y + height_of(c);
    c->first_track += y;
    place_ends(c);
    int status = draw(c);
    return status ? status : c->floor;
}

int mr_layout_route(mr_layout_work *w) {
    mr_graph_layout *layout = w->layout;
    channel c = {.work = w};
    int y = w->style.head, around = 0;
    layout->joint = mr_arena_array(w->arena, (size_t)w->tap_count, sizeof *layout->joint);
    if (!layout->joint || make_room(&c))
        return MR_ERROR_MEMORY;
    for (int layer = 0; layer < layout->layer_count; layer++) {
        int height = place_layer(w, layer, y);
        if (layer + 1 == layout->layer_count) {
            y += height;
            break;
        }
        int status = draw_rails(w, layer, y, height);
        y = status ? status : route_channel(&c, layer, y + height);
        if (y < 0)
            return y;
        around = c.around > around ? c.around : around;
    }
    layout->height = y;
    layout->width += around ? around * (w->style.rail_gap + w->style.cell) + w->style.cell : 0;
    return MR_OK;
}
