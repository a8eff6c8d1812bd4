/* Layers: each box below all its producers, as high as there is room for its width. */
#include <limits.h>

#include "millrace/status.h"
#include "tools/millrace/graph/layout_parts.h"

typedef struct room {
    mr_layout_work *work;
    int *used; /* width used in each layer, for each group that has a range of its own */
    int ranges;
} room;

int mr_layout_end_extent(const mr_layout_style *style, const mr_layout_end *end) {
    return end->label ? style->label_gap + end->label + style->label_space : style->end_gap;
}

static int measure(mr_layout_work *w) {
    const mr_graph_layout *layout = w->layout;
    w->footprint = mr_arena_array(w->arena, (size_t)layout->box_count, sizeof *w->footprint);
    if (!w->footprint)
        return MR_ERROR_MEMORY;
    for (int b = 0; b < layout->box_count; b++)
        layout->box[b].above = layout->box[b].below = 0;
    for (int i = 0; i < layout->end_count; i++) {
        const mr_layout_end *end = &layout->end[i];
        int *side = end->arrives ? &layout->box[end->box].above : &layout->box[end->box].below;
        *side += (*side ? 0 : w->style.inset) + mr_layout_end_extent(&w->style, end);
    }
    for (int b = 0; b < layout->box_count; b++) {
        const mr_layout_box *box = &layout->box[b];
        int ends = box->above > box->below ? box->above : box->below;
        w->footprint[b] = ends > box->least ? ends : box->least;
    }
    return MR_OK;
}

static int *used_of(const room *r, int layer, int box) {
    return &r->used[layer * r->ranges + (r->work->style.grouped ? r->work->layout->box[box].group : 0)];
}

static bool fits(const room *r, int layer, int box) {
    int limit = r->work->style.limit, used = *used_of(r, layer, box);
    return limit == 0 || used == 0 || used + r->work->style.box_gap + r->work->footprint[box] <= limit;
}

static void enter(const room *r, int layer, int box) {
    int *used = used_of(r, layer, box);
    *used += r->work->footprint[box] + (*used ? r->work->style.box_gap : 0);
    r->work->layout->box[box].layer = layer;
}

static void leave(const room *r, int box) {
    int *used = used_of(r, r->work->layout->box[box].layer, box);
    *used -= r->work->footprint[box];
    *used -= *used ? r->work->style.box_gap : 0;
}

/* Boxes without inputs are moved close above their first consumer: this makes their lines short. */
static void lower_starts(const room *r, const int *lowest, const int *above) {
    mr_graph_layout *layout = r->work->layout;
    for (int b = 0; b < layout->box_count; b++) {
        if (lowest[b] > 0 || above[b] == INT_MAX || above[b] - 1 <= layout->box[b].layer)
            continue;
        int layer = above[b] - 1;
        leave(r, b);
        while (layer > 0 && !fits(r, layer, b))
            layer--;
        enter(r, layer, b);
    }
}

/* Numbers the layers that have boxes, without gaps. */
static int close_gaps(mr_layout_work *w) {
    mr_graph_layout *layout = w->layout;
    int *number = mr_arena_array(w->arena, (size_t)layout->box_count + 1, sizeof *number);
    if (!number)
        return MR_ERROR_MEMORY;
    for (int b = 0; b < layout->box_count; b++)
        number[layout->box[b].layer] = 1;
    for (int layer = 0; layer < layout->box_count; layer++)
        number[layer] = number[layer] ? layout->layer_count++ : -1;
    for (int b = 0; b < layout->box_count; b++)
        layout->box[b].layer = number[layout->box[b].layer];
    return MR_OK;
}

/* From the layers of its ends. A net's rails are in the group of its first producer. */
static void span_nets(mr_layout_work *w) {
    const mr_graph_layout *layout = w->layout;
    for (int n = 0; n < layout->net_count; n++)
        w->net[n] = (mr_layout_net){.first = INT_MAX};
    for (int i = 0; i < layout->end_count; i++) {
        const mr_layout_box *box = &layout->box[layout->end[i].box];
        mr_layout_net *net = &w->net[layout->end[i].net];
        if (layout->end[i].arrives && box->layer > net->last)
            net->last = box->layer;
        if (!layout->end[i].arrives && box->layer < net->first) {
            net->first = box->layer;
            net->group = w->style.grouped ? box->group : 0;
        }
    }
}

/* The arrows into each box are adjacent in `by_to`, those of box b from start[b] on. */
static int group_by_consumer(mr_layout_work *w, int **start, int **by_to) {
    const mr_graph_layout *layout = w->layout;
    *start = mr_arena_array(w->arena, (size_t)layout->box_count + 2, sizeof **start);
    *by_to = mr_arena_array(w->arena, (size_t)layout->arrow_count, sizeof **by_to);
    if (!*start || !*by_to)
        return MR_ERROR_MEMORY;
    for (int i = 0; i < layout->arrow_count; i++)
        (*start)[layout->arrow[i].to + 2]++;
    for (int b = 0; b < layout->box_count; b++)
        (*start)[b + 2] += (*start)[b + 1];
    for (int i = 0; i < layout->arrow_count; i++)
        (*by_to)[(*start)[layout->arrow[i].to + 1]++] = i;
    return MR_OK;
}

int mr_layout_find_layers(mr_layout_work *w) {
    mr_graph_layout *layout = w->layout;
    size_t count = (size_t)layout->box_count;
    room r = {.work = w, .ranges = w->style.grouped ? layout->group_count : 1};
    int *start, *by_to, *lowest = mr_arena_array(w->arena, count, sizeof *lowest);
    int *above = mr_arena_array(w->arena, count, sizeof *above);
    r.used = mr_arena_array(w->arena, (count + 1) * (size_t)r.ranges, sizeof *r.used);
    if (!lowest || !above || !r.used || measure(w) || group_by_consumer(w, &start, &by_to))
        return MR_ERROR_MEMORY;
    for (int b = 0; b < layout->box_count; b++) {
        for (int i = start[b]; i < start[b + 1]; i++) {
            int layer = layout->box[layout->arrow[by_to[i]].from].layer;
            lowest[b] = layer >= lowest[b] ? layer + 1 : lowest[b];
        }
        int layer = lowest[b];
        while (!fits(&r, layer, b))
            layer++;
        enter(&r, layer, b);
        above[b] = INT_MAX;
        for (int i = start[b]; i < start[b + 1]; i++) {
            int from = layout->arrow[by_to[i]].from;
            above[from] = layer < above[from] ? layer : above[from];
        }
    }
    lower_starts(&r, lowest, above);
    if (close_gaps(w))
        return MR_ERROR_MEMORY;
    span_nets(w);
    return MR_OK;
}

/* ---- the least width ------------------------------------------------------------------------------------------- */

/* The items in one layer of one group. */
typedef struct row {
    int boxes, width; /* of boxes, labels included */
    int rails;
} row;

static int least_width_of(const mr_layout_style *style, const row *one) {
    int items = one->boxes + one->rails, gap = style->box_gap;
    /* A rail between two boxes keeps them apart with gaps of its own. */
    if (one->boxes == 0 || (one->rails && style->rail_gap < gap))
        gap = style->rail_gap;
    return items ? one->width + one->rails * style->cell + (items - 1) * gap : 0;
}

int mr_layout_group_least(const mr_layout_work *w, int group) {
    return w->style.grouped && w->style.group_least ? w->style.group_least[group] : 0;
}

int mr_layout_find_least_width(mr_layout_work *w) {
    mr_graph_layout *layout = w->layout;
    int ranges = w->style.grouped ? layout->group_count : 1;
    row *rows = mr_arena_array(w->arena, (size_t)(layout->layer_count + 1) * (size_t)ranges, sizeof *rows);
    if (!rows)
        return MR_ERROR_MEMORY;
    for (int b = 0; b < layout->box_count; b++) {
        row *at = &rows[layout->box[b].layer * ranges + (w->style.grouped ? layout->box[b].group : 0)];
        at->boxes++;
        at->width += w->footprint[b];
    }
    for (int n = 0; n < layout->net_count; n++) {
        rows[(w->net[n].first + 1) * ranges + w->net[n].group].rails++;
        rows[w->net[n].last * ranges + w->net[n].group].rails--;
    }
    layout->width = (ranges - 1) * w->style.group_gap;
    for (int g = 0; g < ranges; g++) {
        int widest = mr_layout_group_least(w, g);
        for (int layer = 0; layer < layout->layer_count; layer++) {
            rows[layer * ranges + g].rails += layer ? rows[(layer - 1) * ranges + g].rails : 0;
            int width = least_width_of(&w->style, &rows[layer * ranges + g]);
            widest = width > widest ? width : widest;
        }
        layout->width += widest + (w->style.grouped ? 2 * w->style.group_pad : 0);
    }
    return MR_OK;
}
