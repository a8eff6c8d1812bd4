#include "tools/millrace/graph/layout.h"

#include <stdlib.h>

#include "millrace/status.h"
#include "tools/millrace/graph/layout_parts.h"

/* ---- items: boxes, and rails of nets that pass a layer --------------------------------------------------------- */

static int count_rails(const mr_layout_work *w) {
    int count = 0;
    for (int n = 0; n < w->layout->net_count; n++)
        count += w->net[n].last - w->net[n].first - 1;
    return count;
}

/* Boxes first, then the rails of each net from top to bottom. */
static int list_items(mr_layout_work *w) {
    const mr_graph_layout *layout = w->layout;
    int rails = count_rails(w);
    w->item = mr_arena_array(w->arena, (size_t)(layout->box_count + rails), sizeof *w->item);
    if (!w->item)
        return MR_ERROR_MEMORY;
    for (int b = 0; b < layout->box_count; b++)
        w->item[w->item_count++] = (mr_layout_item){.box = b,
                                                   .layer = layout->box[b].layer,
                                                   .group = w->style.grouped ? layout->box[b].group : 0,
                                                   .width = w->footprint[b]};
    for (int n = 0; n < layout->net_count; n++)
        for (int layer = w->net[n].first + 1; layer < w->net[n].last; layer++)
            w->item[w->item_count++] =
                (mr_layout_item){.box = -1, .layer = layer, .group = w->net[n].group, .width = w->style.cell};
    return MR_OK;
}

static int list_layers(mr_layout_work *w) {
    w->layer = mr_arena_array(w->arena, (size_t)w->layout->layer_count + 2, sizeof *w->layer);
    w->order = mr_arena_array(w->arena, (size_t)w->item_count, sizeof *w->order);
    if (!w->layer || !w->order)
        return MR_ERROR_MEMORY;
    for (int i = 0; i < w->item_count; i++)
        w->layer[w->item[i].layer + 2]++;
    for (int layer = 0; layer < w->layout->layer_count; layer++)
        w->layer[layer + 2] += w->layer[layer + 1];
    for (int i = 0; i < w->item_count; i++)
        w->order[w->layer[w->item[i].layer + 1]++] = i;
    return MR_OK;
}

/* ---- taps and wires: the points of nets on items, by channel --------------------------------------------------- */

static void add_tap(mr_layout_work *w, int channel, int net, bool top, int item, int end) {
    w->tap[w->tap_count++] = (mr_layout_tap){.channel = channel, .net = net, .top = top, .item = item, .end = end};
}

static int by_channel(const void *left, const void *right) {
    const mr_layout_tap *a = left, *b = right;
    if (a->channel != b->channel)
        return a->channel < b->channel ? -1 : 1;
    if (a->net != b->net)
        return a->net < b->net ? -1 : 1;
    if (a->top != b->top)
        return a->top ? -1 : 1;
    if (a->item != b->item)
        return a->item < b->item ? -1 : 1;
    return (a->end > b->end) - (a->end < b->end);
}

static int list_taps(mr_layout_work *w) {
    const mr_graph_layout *layout = w->layout;
    int item = layout->box_count;
    size_t most = (size_t)layout->end_count + 2 * (size_t)(w->item_count - layout->box_count);
    w->tap = mr_arena_array(w->arena, most, sizeof *w->tap);
    if (!w->tap)
        return MR_ERROR_MEMORY;
    for (int i = 0; i < layout->end_count; i++) {
        const mr_layout_end *end = &layout->end[i];
        int layer = layout->box[end->box].layer;
        add_tap(w, end->arrives ? layer - 1 : layer, end->net, !end->arrives, end->box, i);
    }
    for (int n = 0; n < layout->net_count; n++)
        for (int layer = w->net[n].first + 1; layer < w->net[n].last; layer++, item++) {
            add_tap(w, layer - 1, n, false, item, -1);
            add_tap(w, layer, n, true, item, -1);
        }
    qsort(w->tap, (size_t)w->tap_count, sizeof *w->tap, by_channel);
    return MR_OK;
}

static int list_wires(mr_layout_work *w) {
    w->wire = mr_arena_array(w->arena, (size_t)w->tap_count, sizeof *w->wire);
    w->channel = mr_arena_array(w->arena, (size_t)w->layout->layer_count + 1, sizeof *w->channel);
    if (!w->wire || !w->channel)
        return MR_ERROR_MEMORY;
    for (int i = 0; i < w->tap_count; i++) {
        const mr_layout_tap *tap = &w->tap[i];
        if (i == 0 || tap->channel != tap[-1].channel || tap->net != tap[-1].net) {
            w->wire[w->wire_count++] = (mr_layout_wire){.net = tap->net, .first = i, .middle = i, .last = i};
            w->channel[tap->channel + 1] = w->wire_count;
        }
        w->wire[w->wire_count - 1].middle += tap->top;
        w->wire[w->wire_count - 1].last++;
    }
    for (int layer = 0; layer < w->layout->layer_count; layer++)
        if (w->channel[layer + 1] < w->channel[layer])
            w->channel[layer + 1] = w->channel[layer];
    return MR_OK;
}

int mr_layout_tap_x(const mr_layout_work *w, const mr_layout_tap *tap) {
    return w->item[tap->item].x + (tap->end < 0 ? 0 : w->layout->end[tap->end].offset);
}

/* ---- together -------------------------------------------------------------------------------------------------- */

int mr_layout_make(mr_graph_layout *layout, const mr_layout_style *style) {
    mr_layout_work w = {.layout = layout, .style = *style, .arena = &layout->arena};
    if (mr_layout_find_nets(&w) || mr_layout_find_layers(&w) || mr_layout_find_least_width(&w))
        return MR_ERROR_MEMORY;
    if (style->most && layout->width > style->most)
        return MR_OK;
    if (list_items(&w) || list_layers(&w) || list_taps(&w) || list_wires(&w) || mr_layout_find_order(&w) ||
        mr_layout_find_places(&w))
        return MR_ERROR_MEMORY;
    return mr_layout_route(&w);
}

void mr_layout_fini(mr_graph_layout *layout) {
    mr_arena_fini(&layout->arena);
    free(layout->line);
    *layout = (mr_graph_layout){.box_count = layout->box_count,
                        .box = layout->box,
                        .arrow_count = layout->arrow_count,
                        .arrow = layout->arrow,
                        .group_count = layout->group_count};
}
