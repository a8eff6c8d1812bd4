/* Fewer crossings: items are sorted by the mean place of their neighbours, layer by layer, down and up again; the order
 * with the fewest crossings is kept. */
#include <stdlib.h>
#include <string.h>

#include "millrace/status.h"
#include "tools/millrace/graph/layout_parts.h"

enum { SWEEPS = 10 };

typedef struct ranked {
    int group, place, item;
    double rank;
} ranked;

typedef struct pair {
    int top, bottom;
} pair;

typedef struct sorter {
    mr_layout_work *work;
    ranked *ranked; /* room for a layer */
    pair *pair;     /* room for a channel */
    int *tree;      /* of counts, for a layer's places */
    int *best;      /* the order kept */
} sorter;

static void number_layer(mr_layout_work *w, int layer) {
    for (int i = w->layer[layer]; i < w->layer[layer + 1]; i++)
        w->item[w->order[i]].place = i - w->layer[layer];
}

/* ---- sorting --------------------------------------------------------------------------------------------------- */

static int by_rank(const void *left, const void *right) {
    const ranked *a = left, *b = right;
    if (a->group != b->group)
        return a->group < b->group ? -1 : 1;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return (a->place > b->place) - (a->place < b->place);
}

/* Adds, for all items of the layer, the mean place of the other side of each of their wires. */
static void rank(mr_layout_work *w, int channel, bool down) {
    for (int i = w->channel[channel]; i < w->channel[channel + 1]; i++) {
        const mr_layout_wire *wire = &w->wire[i];
        int first = down ? wire->first : wire->middle, end = down ? wire->middle : wire->last;
        double sum = 0;
        for (int t = first; t < end; t++)
            sum += w->item[w->tap[t].item].place;
        first = down ? wire->middle : wire->first;
        double mean = sum / (down ? wire->middle - wire->first : wire->last - wire->middle);
        end = down ? wire->last : wire->middle;
        for (int t = first; t < end; t++) {
            w->item[w->tap[t].item].sum += mean;
            w->item[w->tap[t].item].weight += 1;
        }
    }
}

/* With a channel of -1 only by group. */
static void sort_layer(sorter *s, int layer, int channel, bool down) {
    mr_layout_work *w = s->work;
    int *order = &w->order[w->layer[layer]];
    int count = w->layer[layer + 1] - w->layer[layer];
    for (int i = 0; i < count; i++)
        w->item[order[i]].sum = w->item[order[i]].weight = 0;
    if (channel >= 0)
        rank(w, channel, down);
    for (int i = 0; i < count; i++) {
        const mr_layout_item *item = &w->item[order[i]];
        s->ranked[i] = (ranked){.group = item->group,
                                .place = item->place,
                                .item = order[i],
                                .rank = item->weight > 0 ? item->sum / item->weight : item->place};
    }
    qsort(s->ranked, (size_t)count, sizeof *s->ranked, by_rank);
    for (int i = 0; i < count; i++)
        order[i] = s->ranked[i].item;
    number_layer(w, layer);
}

static void sweep(sorter *s, bool down) {
    int layers = s->work->layout->layer_count;
    for (int i = 1; i < layers; i++)
        if (down)
            sort_layer(s, i, i - 1, true);
        else
            sort_layer(s, layers - 1 - i, layers - 1 - i, false);
}

/* ---- counting -------------------------------------------------------------------------------------------------- */

static int by_top(const void *left, const void *right) {
    const pair *a = left, *b = right;
    if (a->top != b->top)
        return a->top < b->top ? -1 : 1;
    return (a->bottom > b->bottom) - (a->bottom < b->bottom);
}

static int pairs_of(const mr_layout_wire *wire) {
    return (wire->middle - wire->first) * (wire->last - wire->middle);
}

static int list_pairs(sorter *s, int channel) {
    const mr_layout_work *w = s->work;
    int count = 0;
    for (int i = w->channel[channel]; i < w->channel[channel + 1]; i++)
        for (int top = w->wire[i].first; top < w->wire[i].middle; top++)
            for (int bottom = w->wire[i].middle; bottom < w->wire[i].last; bottom++)
                s->pair[count++] =
                    (pair){.top = w->item[w->tap[top].item].place, .bottom = w->item[w->tap[bottom].item].place};
    qsort(s->pair, (size_t)count, sizeof *s->pair, by_top);
    return count;
}

/* Pairs of connections of which one begins left of the other and ends right of it; the tree (Fenwick 1994) counts those
 * that ended at or left of a place. */
static int64_t crossings_in(sorter *s, int channel) {
    int places = s->work->layer[channel + 2] - s->work->layer[channel + 1];
    int count = list_pairs(s, channel);
    int64_t crossings = 0;
    memset(s->tree, 0, ((size_t)places + 1) * sizeof *s->tree);
    for (int i = 0; i < count; i++) {
        int not_beyond = 0;
        for (int at = s->pair[i].bottom + 1; at > 0; at -= at & -at)
            not_beyond += s->tree[at];
        crossings += i - not_beyond;
        for (int at = s->pair[i].bottom + 1; at <= places; at += at & -at)
            s->tree[at]++;
    }
    return crossings;
}

static int64_t crossings(sorter *s) {
    int64_t sum = 0;
    for (int channel = 0; channel + 1 < s->work->layout->layer_count; channel++)
        sum += crossings_in(s, channel);
    return sum;
}

/* ---- together -------------------------------------------------------------------------------------------------- */

static int make_room(sorter *s) {
    const mr_layout_work *w = s->work;
    size_t most_pairs = 0, count = (size_t)w->item_count;
    for (int channel = 0; channel + 1 < w->layout->layer_count; channel++) {
        size_t pairs = 0;
        for (int i = w->channel[channel]; i < w->channel[channel + 1]; i++)
            pairs += (size_t)pairs_of(&w->wire[i]);
        most_pairs = pairs > most_pairs ? pairs : most_pairs;
    }
    s->ranked = mr_arena_array(w->arena, count, sizeof *s->ranked);
    s->tree = mr_arena_array(w->arena, count + 1, sizeof *s->tree);
    s->best = mr_arena_array(w->arena, count, sizeof *s->best);
    s->pair = mr_arena_array(w->arena, most_pairs, sizeof *s->pair);
    return s->ranked && s->tree && s->best && s->pair ? MR_OK : MR_ERROR_MEMORY;
}

int mr_layout_find_order(mr_layout_work *w) {
    sorter s = {.work = w};
    size_t bytes = (size_t)w->item_count * sizeof *w->order;
    if (make_room(&s))
        return MR_ERROR_MEMORY;
    for (int layer = 0; layer < w->layout->layer_count; layer++) {
        number_layer(w, layer);
        sort_layer(&s, layer, -1, true);
    }
    int64_t fewest = INT64_MAX;
    for (int i = 0; i < SWEEPS && fewest > 0; i++) {
        sweep(&s, i % 2 == 0);
        int64_t count = crossings(&s);
        if (count < fewest) {
            fewest = count;
            memcpy(s.best, w->order, bytes);
        }
    }
    memcpy(w->order, s.best, bytes);
    for (int layer = 0; layer < w->layout->layer_count; layer++)
        number_layer(w, layer);
    return MR_OK;
}
