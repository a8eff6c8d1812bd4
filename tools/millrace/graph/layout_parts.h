/* Shared by the files that make a layout (layout.c, layout_nets.c, layout_layers.c, layout_order.c, layout_place.c,
 * layout_route.c), and by no others. */
#ifndef MILLRACE_TOOLS_GRAPH_LAYOUT_PARTS_H
#define MILLRACE_TOOLS_GRAPH_LAYOUT_PARTS_H

#include "tools/millrace/graph/layout.h"

/* An item of a layer: a box, or a rail, which is a net that passes. */
typedef struct mr_layout_item {
    int box; /* -1: a rail */
    int layer, group;
    int width; /* of the box or of the text beside it */
    int place; /* 0, 1, ... in its layer */
    int x;
    double sum, weight; /* of its neighbours */
} mr_layout_item;

/* The point at which a net touches an item, in the channel below the item (`top`: the item is at the top of the
 * channel) or in the one above. */
typedef struct mr_layout_tap {
    int channel, net;
    bool top;
    int item, end; /* end -1: a rail's */
} mr_layout_tap;

/* A net in one channel: taps first to middle - 1 are at its top, middle to last - 1 at its bottom; neither is empty.
 */
typedef struct mr_layout_wire {
    int net, first, middle, last;
} mr_layout_wire;

typedef struct mr_layout_net {
    int first, last; /* layers of its first producer and its last consumer */
    int group;       /* the group of its rails */
} mr_layout_net;

typedef struct mr_layout_work {
    mr_graph_layout *layout;
    mr_layout_style style;
    mr_arena *arena; /* the layout's */
    mr_layout_net *net;
    int *footprint; /* of each box: its width in its layer, labels included */
    int item_count;
    mr_layout_item *item;
    int *layer; /* items of layer l: order[layer[l]] to order[layer[l + 1] - 1], from left to right */
    int *order;
    int tap_count;
    mr_layout_tap *tap;
    int wire_count;
    mr_layout_wire *wire;
    int *channel; /* wires between layers c and c + 1: channel[c] to channel[c + 1] - 1 */
} mr_layout_work;

/* Each returns MR_OK or MR_ERROR_MEMORY. */
int mr_layout_find_nets(mr_layout_work *work);   /* arrows -> nets and ends */
int mr_layout_find_layers(mr_layout_work *work); /* layer of each box and net */
/* The least width of the layers; layout.width. */
int mr_layout_find_least_width(mr_layout_work *work);
int mr_layout_find_order(mr_layout_work *work);  /* places of items in their layers */
int mr_layout_find_places(mr_layout_work *work); /* x of items and ends */
int mr_layout_route(mr_layout_work *work);       /* y of everything, and lines */

/* The width that style.group_least gives. */
int mr_layout_group_least(const mr_layout_work *work, int group);
/* The width of an end on its side of a box. */
int mr_layout_end_extent(const mr_layout_style *style, const mr_layout_end *end);
/* The x of a tap's line. */
int mr_layout_tap_x(const mr_layout_work *work, const mr_layout_tap *tap);

#endif
