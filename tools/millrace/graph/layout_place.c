/* Places from left to right: each layer by least squares towards its neighbours, under the order and with the distances
 * given, layer by layer, down and up again. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "millrace/status.h"
#include "tools/millrace/graph/layout_parts.h"

enum { SWEEPS = 16, SPARE_GAPS = 4, STRAIGHT_RAIL = 256, STRAIGHT_END = 16 };

/* Items that touch move as one. */
typedef struct cluster {
    double sum, weight; /* of the places that its items want */
    int first, count;   /* items, as positions in the layer */
} cluster;

typedef struct ranked_end {
    int box, end, port;
    bool arrives;
    double rank;
} ranked_end;

typedef struct placer {
    mr_layout_work *work;
    cluster *cluster;   /* room for a layer */
    int *room;          /* the most width of each group */
    double *mean;       /* of each end: the place of the other side of its wire */
    ranked_end *ranked; /* room for all ends */
    int *best;          /* x of each item */
    int64_t least_badness;
} placer;

/* ---- distances ------------------------------------------------------------------------------------------------- */

static int gap_between(const mr_layout_work *w, const mr_layout_item *a, const mr_layout_item *b) {
    return a->box >= 0 && b->box >= 0 ? w->style.box_gap : w->style.rail_gap;
}

/* The items of one group in a layer, from position `first` on; returns the position of the next group. */
static int group_end(const mr_layout_work *w, int layer, int first) {
    int at = first, group = w->item[w->order[first]].group;
    while (at < w->layer[layer + 1] && w->item[w->order[at]].group == group)
        at++;
    return at;
}

/* Packs the items to the left and returns their width. */
static int pack(mr_layout_work *w, int first, int end) {
    int x = 0;
    for (int i = first; i < end; i++) {
        mr_layout_item *item = &w->item[w->order[i]];
        x += i > first ? gap_between(w, &w->item[w->order[i - 1]], item) : 0;
        item->x = x;
        x += item->width;
    }
    return x;
}

/* ---- ends ------------------------------------------------------------------------------------------------------ */

static int by_rank(const void *left, const void *right) {
    const ranked_end *a = left, *b = right;
    if (a->box != b->box)
        return a->box < b->box ? -1 : 1;
    if (a->arrives != b->arrives)
        return a->arrives ? -1 : 1;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    if (a->port != b->port)
        return a->port < b->port ? -1 : 1;
    return (a->end > b->end) - (a->end < b->end);
}

static double mean_x(const mr_layout_work *w, int first, int end) {
    double sum = 0;
    for (int t = first; t < end; t++)
        sum += mr_layout_tap_x(w, &w->tap[t]);
    return sum / (end - first);
}

/* Sorts the ends on each side of a box by the places of their other ends, so that their lines do not cross. */
static void order_ends(placer *p) {
    mr_layout_work *w = p->work;
    const mr_graph_layout *layout = w->layout;
    for (int i = 0; i < w->wire_count; i++) {
        const mr_layout_wire *wire = &w->wire[i];
        double top = mean_x(w, wire->first, wire->middle), bottom = mean_x(w, wire->middle, wire->last);
        for (int t = wire->first; t < wire->last; t++)
            if (w->tap[t].end >= 0)
                p->mean[w->tap[t].end] = w->tap[t].top ? bottom : top;
    }
    for (int i = 0; i < layout->end_count; i++) {
        const mr_layout_end *end = &layout->end[i];
        p->ranked[i] =
            (ranked_end){.box = end->box, .end = i, .port = end->port, .arrives = end->arrives, .rank = p->mean[i]};
    }
    qsort(p->ranked, (size_t)layout->end_count, sizeof *p->ranked, by_rank);
    int offset = 0;
    for (int i = 0; i < layout->end_count; i++) {
        const ranked_end *ranked = &p->ranked[i];
        if (i == 0 || ranked->box != ranked[-1].box || ranked->arrives != ranked[-1].arrives)
            offset = w->style.inset;
        layout->end[ranked->end].offset = offset;
        offset += mr_layout_end_extent(&w->style, &layout->end[ranked->end]);
    }
}

/* ---- pulling --------------------------------------------------------------------------------------------------- */

/* Among the taps on the other side of a wire, in the same group: the one nearest to their mean, so that the line to one
 * of them is straight; -1 if there is none. */
static int middle_tap(const mr_layout_work *w, int first, int end, int group) {
    double sum = 0, distance = 0;
    int count = 0, nearest = -1;
    for (int t = first; t < end; t++)
        if (w->item[w->tap[t].item].group == group) {
            sum += mr_layout_tap_x(w, &w->tap[t]);
            count++;
        }
    for (int t = first; t < end; t++) {
        double away = count ? fabs(mr_layout_tap_x(w, &w->tap[t]) - sum / count) : 0;
        if (w->item[w->tap[t].item].group != group || (nearest >= 0 && away >= distance))
            continue;
        nearest = t;
        distance = away;
    }
    return nearest;
}

static double pull(mr_layout_work *w, const mr_layout_tap *tap, const mr_layout_tap *other, bool tell) {
    mr_layout_item *item = &w->item[tap->item];
    double distance = mr_layout_tap_x(w, other) - mr_layout_tap_x(w, tap);
    bool both = tap->end < 0 && other->end < 0, one = tap->end < 0 || other->end < 0;
    double weight = both ? STRAIGHT_RAIL : one ? STRAIGHT_END : 1;
    if (tell) {
        item->sum += weight * (item->x + distance);
        item->weight += weight;
    }
    return fabs(distance);
}

/* Gives the taps of a wire, from `first` on, the places that those of the other side want; with `nearest` only the one
 * of each group whose line can be straight, so that the others keep their places. */
static void pull_wire(mr_layout_work *w, int first, int end, int other, int other_end, bool nearest) {
    for (int t = first; t < end; t++) {
        int group = w->item[w->tap[t].item].group, middle = middle_tap(w, other, other_end, group), chosen = t;
        for (int i = first; nearest && middle >= 0 && i < end; i++)
            if (w->item[w->tap[i].item].group == group &&
                pull(w, &w->tap[i], &w->tap[middle], false) < pull(w, &w->tap[chosen], &w->tap[middle], false))
                chosen = i;
        if (middle >= 0 && chosen == t)
            pull(w, &w->tap[t], &w->tap[middle], true);
    }
}

/* Gives each item of the layer the place that its neighbours above (`down`) or below want. */
static void pull_layer(mr_layout_work *w, int layer, bool down, bool nearest) {
    int channel = down ? layer - 1 : layer;
    for (int i = w->layer[layer]; i < w->layer[layer + 1]; i++)
        w->item[w->order[i]].sum = w->item[w->order[i]].weight = 0;
    for (int i = w->channel[channel]; i < w->channel[channel + 1]; i++) {
        const mr_layout_wire *wire = &w->wire[i];
        if (down)
            pull_wire(w, wire->middle, wire->last, wire->first, wire->middle, nearest);
        else
            pull_wire(w, wire->first, wire->middle, wire->middle, wire->last, nearest);
    }
}

/* The nearest places to the wanted ones, in the sense of least squares (isotonic regression by pooling adjacent
 * violators: Ayer et al. 1955), within the width that the group has. Packed, each item stands at item->x. */
static void settle(placer *p, int first, int end) {
    mr_layout_work *w = p->work;
    int group = w->item[w->order[first]].group, count = 0;
    for (int i = first; i < end; i++) {
        const mr_layout_item *item = &w->item[w->order[i]];
        p->cluster[count++] =
            (cluster){.sum = item->sum - item->weight * item->x, .weight = item->weight, .first = i, .count = 1};
        for (; count > 1; count--) {
            cluster *a = &p->cluster[count - 2], *b = &p->cluster[count - 1];
            if (a->sum / a->weight <= b->sum / b->weight)
                break;
            a->sum += b->sum;
            a->weight += b->weight;
            a->count += b->count;
        }
    }
    const mr_layout_item *last = &w->item[w->order[end - 1]];
    int slack = p->room[group] - last->x - last->width;
    for (int c = 0; c < count; c++) {
        int shift = (int)lround(p->cluster[c].sum / p->cluster[c].weight);
        shift = shift < 0 ? 0 : shift > slack ? slack : shift;
        for (int i = p->cluster[c].first; i < p->cluster[c].first + p->cluster[c].count; i++)
            w->item[w->order[i]].x += shift;
    }
}

static void place_layer(placer *p, int layer, bool down, bool nearest) {
    mr_layout_work *w = p->work;
    pull_layer(w, layer, down, nearest);
    for (int first = w->layer[layer], end; first < w->layer[layer + 1]; first = end) {
        end = group_end(w, layer, first);
        for (int i = first; i < end; i++) {
            mr_layout_item *item = &w->item[w->order[i]];
            /* An item without neighbours stays, but gives way. */
            if (item->weight == 0) {
                item->weight = 1.0 / 1024;
                item->sum = item->weight * item->x;
            }
        }
        pack(w, first, end);
        settle(p, first, end);
    }
}

static void sweep(placer *p, bool down, bool nearest) {
    int layers = p->work->layout->layer_count;
    for (int i = 1; i < layers; i++)
        place_layer(p, down ? i : layers - 1 - i, down, nearest);
}

/* ---- choosing ---------------------------------------------------------------------------------------------------- */

/* The number of taps of a wire with none opposite at the same x, and then its width: less is better. */
static int64_t badness_of(const mr_layout_work *w, const mr_layout_wire *wire) {
    int low = INT_MAX, high = INT_MIN, bends = 0;
    for (int t = wire->first; t < wire->last; t++) {
        int x = mr_layout_tap_x(w, &w->tap[t]), other = w->tap[t].top ? wire->middle : wire->first;
        int end = w->tap[t].top ? wire->last : wire->middle;
        while (other < end && mr_layout_tap_x(w, &w->tap[other]) != x)
            other++;
        bends += other == end;
        low = x < low ? x : low;
        high = x > high ? x : high;
    }
    return ((int64_t)bends << 32) + high - low;
}

/* Keeps the places if they are better than those kept before. */
static void keep_best(placer *p) {
    mr_layout_work *w = p->work;
    int64_t badness = 0;
    for (int i = 0; i < w->wire_count; i++)
        badness += badness_of(w, &w->wire[i]);
    if (badness >= p->least_badness)
        return;
    p->least_badness = badness;
    for (int i = 0; i < w->item_count; i++)
        p->best[i] = w->item[i].x;
}

/* ---- groups ---------------------------------------------------------------------------------------------------- */

static int range_count(const mr_layout_work *w) {
    return w->style.grouped ? w->layout->group_count : 1;
}

/* The extra width of a group, so that more lines are straight. */
static int spare_width(const placer *p) {
    const mr_layout_style *style = &p->work->style;
    int ranges = range_count(p->work), width = (ranges - 1) * style->group_gap, spare = SPARE_GAPS * style->box_gap;
    for (int g = 0; g < ranges; g++)
        width += p->room[g] + (style->grouped ? 2 * style->group_pad : 0);
    if (style->most && (style->most - width) / ranges < spare)
        spare = (style->most - width) / ranges;
    return spare > 0 ? spare : 0;
}

/* Packs all layers, and gives each group the width of its widest. */
static void measure(placer *p) {
    mr_layout_work *w = p->work;
    for (int g = 0; g < range_count(w); g++)
        p->room[g] = mr_layout_group_least(w, g);
    for (int layer = 0; layer < w->layout->layer_count; layer++)
        for (int first = w->layer[layer], end; first < w->layer[layer + 1]; first = end) {
            end = group_end(w, layer, first);
            int group = w->item[w->order[first]].group, width = pack(w, first, end);
            p->room[group] = width > p->room[group] ? width : p->room[group];
        }
    int spare = spare_width(p);
    for (int g = 0; g < range_count(w); g++)
        p->room[g] += spare;
}

/* Puts one group at `x`, as wide as its items are now. */
static mr_layout_range place_group(mr_layout_work *w, int group, int x) {
    int low = INT_MAX, high = 0, pad = w->style.grouped ? w->style.group_pad : 0;
    for (int i = 0; i < w->item_count; i++) {
        const mr_layout_item *item = &w->item[i];
        if (item->group != group)
            continue;
        low = item->x < low ? item->x : low;
        high = item->x + item->width > high ? item->x + item->width : high;
    }
    for (int i = 0; i < w->item_count; i++)
        if (w->item[i].group == group)
            w->item[i].x += x + pad - low;
    int width = high > low ? high - low : 0, least = mr_layout_group_least(w, group);
    return (mr_layout_range){.x = x, .width = (width > least ? width : least) + 2 * pad};
}

/* Puts the groups beside each other and the boxes at the places of their items. */
static int finish(placer *p) {
    mr_layout_work *w = p->work;
    mr_graph_layout *layout = w->layout;
    int ranges = range_count(w), x = 0;
    layout->group = mr_arena_array(w->arena, (size_t)ranges, sizeof *layout->group);
    if (!layout->group)
        return MR_ERROR_MEMORY;
    for (int g = 0; g < ranges; g++) {
        layout->group[g] = place_group(w, g, x);
        x += layout->group[g].width + w->style.group_gap;
    }
    layout->width = x - w->style.group_gap;
    for (int b = 0; b < layout->box_count; b++) {
        layout->box[b].x = w->item[b].x;
        layout->box[b].width = layout->box[b].least;
    }
    for (int i = 0; i < layout->end_count; i++) {
        mr_layout_end *end = &layout->end[i];
        mr_layout_box *box = &layout->box[end->box];
        int needed = end->offset + w->style.cell + w->style.inset;
        box->width = needed > box->width ? needed : box->width;
        end->x = box->x + end->offset;
    }
    return MR_OK;
}

int mr_layout_find_places(mr_layout_work *w) {
    const mr_graph_layout *layout = w->layout;
    size_t ends = (size_t)layout->end_count;
    placer p = {.work = w, .least_badness = INT64_MAX};
    p.cluster = mr_arena_array(w->arena, (size_t)w->item_count, sizeof *p.cluster);
    p.best = mr_arena_array(w->arena, (size_t)w->item_count, sizeof *p.best);
    p.room = mr_arena_array(w->arena, (size_t)layout->group_count + 1, sizeof *p.room);
    p.mean = mr_arena_array(w->arena, ends, sizeof *p.mean);
    p.ranked = mr_arena_array(w->arena, ends, sizeof *p.ranked);
    if (!p.cluster || !p.best || !p.room || !p.mean || !p.ranked)
        return MR_ERROR_MEMORY;
    measure(&p);
    order_ends(&p);
    for (int i = 0; i < SWEEPS; i++) {
        if (i == SWEEPS / 2)
            order_ends(&p);
        sweep(&p, i % 2 == 1, i >= SWEEPS / 2);
        if (i >= SWEEPS / 2)
            keep_best(&p);
    }
    for (int i = 0; i < w->item_count; i++)
        w->item[i].x = p.best[i];
    return finish(&p);
}
