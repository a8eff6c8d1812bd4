/* Shared by the files that make a sheet (sheet.c, sheet_nets.c, sheet_layers.c, sheet_order.c, sheet_place.c,
 * sheet_route.c), and by no others. */
#ifndef MILLRACE_TOOLS_GRAPH_SHEET_PARTS_H
#define MILLRACE_TOOLS_GRAPH_SHEET_PARTS_H

#include "tools/millrace/graph/sheet.h"

/* An item of a layer: a box, or a rail, which is a net that passes. */
typedef struct mr_sheet_item {
    int box; /* -1: a rail */
    int layer, group;
    int width; /* of the box or of the text beside it */
    int place; /* 0, 1, ... in its layer */
    int x;
    double sum, weight; /* of its neighbours */
} mr_sheet_item;

/* The point at which a net touches an item, in the channel below the item (`top`: the item is at the top of the
 * channel) or in the one above. */
typedef struct mr_sheet_tap {
    int channel, net;
    bool top;
    int item, end; /* end -1: a rail's */
} mr_sheet_tap;

/* A net in one channel: taps first to middle - 1 are at its top, middle to last - 1 at its bottom; neither is empty.
 */
typedef struct mr_sheet_wire {
    int net, first, middle, last;
} mr_sheet_wire;

typedef struct mr_sheet_net {
    int first, last; /* layers of its first producer and its last consumer */
    int group;       /* the group of its rails */
} mr_sheet_net;

typedef struct mr_sheet_work {
    mr_sheet *sheet;
    mr_sheet_style style;
    mr_arena *arena; /* the sheet's */
    mr_sheet_net *net;
    int *footprint; /* of each box: its width in its layer, labels included */
    int item_count;
    mr_sheet_item *item;
    int *layer; /* items of layer l: order[layer[l]] to order[layer[l + 1] - 1], from left to right */
    int *order;
    int tap_count;
    mr_sheet_tap *tap;
    int wire_count;
    mr_sheet_wire *wire;
    int *channel; /* wires between layers c and c + 1: channel[c] to channel[c + 1] - 1 */
} mr_sheet_work;

/* Each returns MR_OK or MR_ERROR_MEMORY. */
int mr_sheet_find_nets(mr_sheet_work *work);   /* arrows -> nets and ends */
int mr_sheet_find_layers(mr_sheet_work *work); /* layer of each box and net */
/* The least width of the layers; sheet.width. */
int mr_sheet_find_least_width(mr_sheet_work *work);
int mr_sheet_find_order(mr_sheet_work *work);  /* places of items in their layers */
int mr_sheet_find_places(mr_sheet_work *work); /* x of items and ends */
int mr_sheet_route(mr_sheet_work *work);       /* y of everything, and lines */

/* The width that style.group_least gives. */
int mr_sheet_group_least(const mr_sheet_work *work, int group);
/* The width of an end on its side of a box. */
int mr_sheet_end_extent(const mr_sheet_style *style, const mr_sheet_end *end);
/* The x of a tap's line. */
int mr_sheet_tap_x(const mr_sheet_work *work, const mr_sheet_tap *tap);

#endif
