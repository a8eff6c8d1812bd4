/* The layout of a graph: boxes in layers from top to bottom, and the lines of the arrows between them.
 * `millrace graph` draws it in the terminal and as SVG; it depends on neither.
 *
 * The method is Sugiyama, Tagawa and Toda's (1981): layers by longest path, rails (their dummy vertices) where an arrow
 * passes a layer, fewer crossings by barycenters, then x by least squares towards the neighbours under the order. All
 * output ports with the same consumers share one line, a net, so that many boxes that feed one, or one that feeds many,
 * need one rail only. Between two layers the lines run as in a channel of a circuit board: lines of different nets
 * cross, but never lie on each other, so that a drawing can be read in one way only.
 *
 * Units are the drawer's: character cells or pixels; x grows to the right, y downwards. The same input gives the same
 * layout. One thread at a time. */
#ifndef MILLRACE_TOOLS_GRAPH_LAYOUT_H
#define MILLRACE_TOOLS_GRAPH_LAYOUT_H

#include <stdbool.h>

#include "engine/base/arena.h"

typedef struct mr_layout_box {
    /* input */
    int least, height; /* width and height of its text and border */
    int group;         /* 0, 1, ...: with style.grouped, each group has a range of x to itself */
    /* result */
    int layer, x, y;
    int width;        /* `least`, or more if its ends need it */
    int above, below; /* widths that the ends on either side need with their labels */
} mr_layout_box;

typedef struct mr_layout_arrow {
    int from, from_port, to, to_port; /* from < to: boxes are numbered so that arrows go upwards in number */
    int from_label, to_label;         /* widths of the texts to the right of its ends; 0: none */
    bool cut;                         /* not drawn; it only keeps `to` below `from` */
} mr_layout_arrow;

/* The point at which a line touches a box: one for each output port that has a consumer, and one for each input port
 * and net. */
typedef struct mr_layout_end {
    int box, port, net;
    int arrow; /* one of those that end here */
    int label; /* width */
    bool arrives;
    int offset;  /* private */
    int x, y;    /* on the box's border: below where it leaves, above where it arrives */
    int label_y; /* top of its text, which starts at x + style.label_gap */
} mr_layout_end;

/* A vertical or horizontal piece of a net. */
typedef struct mr_layout_line {
    int net, x0, y0, x1, y1; /* x0 <= x1, y0 <= y1 */
} mr_layout_line;

/* A point at which lines of a net meet without a corner: a drawing may mark it, to tell it from a crossing. */
typedef struct mr_layout_joint {
    int net, x, y;
} mr_layout_joint;

typedef struct mr_layout_range {
    int x, width;
} mr_layout_range;

typedef struct mr_layout_style {
    int cell;        /* 1 if coordinates count cells, so that the last one of a box is at x + width - 1; else 0 */
    int box_gap;     /* between boxes of a layer, and the text beside them */
    int rail_gap;    /* between rails, and between lines of the same height */
    int inset;       /* from a box's left edge to its first end, and at least from the last to its right edge */
    int end_gap;     /* from an end without a label to the next; at least inset + cell */
    int label_gap;   /* from a line to its label, */
    int label_space; /* and from the label to the next end */
    int label_height;
    int track;     /* height of a horizontal line with its distance to the next */
    int arrow;     /* height of an arrow's head, which no horizontal line may run through */
    int channel;   /* least distance between layers */
    int head;      /* above the first layer, for the names of groups */
    int group_pad; /* on both sides of a group's boxes */
    int group_gap;
    const int *group_least; /* width of each group at least, without its pads; NULL: any */
    bool grouped;
    int limit; /* boxes of one layer (and group) share this width; 0: any */
    int most;  /* the largest width that is wanted; 0: any */
} mr_layout_style;

typedef struct mr_graph_layout {
    /* input; the drawer's memory */
    int box_count;
    mr_layout_box *box;
    int arrow_count;
    const mr_layout_arrow *arrow;
    int group_count;
    /* result; the layout's memory */
    int width, height, layer_count;
    int net_count, end_count, joint_count, line_count, line_room;
    int *net_of; /* of each arrow; -1 if it is cut, or the same as another */
    mr_layout_end *end;
    mr_layout_joint *joint;
    mr_layout_line *line;
    mr_layout_range *group; /* with style.grouped */
    mr_arena arena;
} mr_graph_layout;

/* Fills in the results; MR_OK or MR_ERROR_MEMORY. If the layout gets wider than style.most, as layout.width tells, the
 * work ends as soon as that is known: only boxes' widths, layers and the room of ends are filled in. */
int mr_layout_make(mr_graph_layout *layout, const mr_layout_style *style);
/* Frees the results, so that the layout can be made again. */
void mr_layout_fini(mr_graph_layout *layout);

#endif
