/* A rectangle of character cells for the terminal's drawing: boxes, text, and lines that join if they belong together
 * and pass if they do not. One thread at a time. */
#ifndef MILLRACE_TOOLS_GRAPH_GRAPH_CANVAS_H
#define MILLRACE_TOOLS_GRAPH_GRAPH_CANVAS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct mr_canvas_cell {
    uint32_t glyph; /* a code point; 0: drawn from `sides` */
    uint32_t mark;  /* a code point that combines with it; 0: none */
    uint8_t sides;  /* the sides that lines leave this cell on */
    bool crossed;   /* lines of two nets cross here */
    int net;
} mr_canvas_cell;

typedef struct mr_canvas {
    int width, height;
    bool ascii;
    mr_canvas_cell *cell; /* row by row */
} mr_canvas;

/* MR_OK or MR_ERROR_MEMORY. */
int mr_canvas_init(mr_canvas *canvas, int width, int height, bool ascii);
void mr_canvas_fini(mr_canvas *canvas);

/* Cells outside are not drawn. A line is vertical or horizontal; if lines of different nets cross, the vertical one
 * runs through and the other one has a gap. */
void mr_canvas_line(mr_canvas *canvas, int net, int x0, int y0, int x1, int y1);
void mr_canvas_box(mr_canvas *canvas, int x, int y, int width, int height, bool rounded);
/* A frame behind everything, with a title in its upper edge. */
void mr_canvas_frame(mr_canvas *canvas, int x, int y, int width, int height, const char *title);
/* The point at which a line arrives at a box or leaves it, on the box's border. */
void mr_canvas_end(mr_canvas *canvas, int x, int y, bool arrives);
/* At most `most` columns, with an ellipsis if it is longer; characters beyond ASCII are "?" on a canvas of ASCII. */
void mr_canvas_text(mr_canvas *canvas, int x, int y, const char *text, int most);
/* Writes the rows, without the blanks at their ends. */
void mr_canvas_print(const mr_canvas *canvas, FILE *stream);

#endif
