/* Turns a frame's objects into shapes: masks, tails, boxes, key points, and labels above all of them.
 *
 * Coordinates of objects are mapped from the source's displayed picture to the frame's. Threads: one at a time. */
#pragma once

#include "millrace/objects.h"
#include "stages/sketch/font.h"
#include "stages/draw/ink.h"
#include "stages/sketch/sketch.h"
#include "stages/draw/tails.h"

typedef enum mr_ink_choice { MR_INK_AUTO, MR_INK_CLASS, MR_INK_TRACK } mr_ink_choice;
typedef enum mr_anchor { MR_ANCHOR_BOTTOM, MR_ANCHOR_CENTER } mr_anchor;

typedef struct mr_drawing {
    mr_sketch *sketch;
    mr_font *font;
    mr_tails *tails;    /* NULL: none are drawn */
    const char *label;  /* a pattern; "": none */
    double thickness;   /* px; 0: by the picture's size */
    int32_t font_size;  /* px; 0: by the picture's size */
    mr_ink_choice color;
    mr_anchor anchor;
    double mask;        /* opacity of masks, 0 to 1 */
    double fill;        /* opacity of areas of zones */
    double point_score; /* key points with less are left out */
    bool boxes, points;
    double x[3], y[3];  /* from the source's displayed picture to the canvas */
    uint32_t missing;   /* a character without a font; 0: none */
} mr_drawing;

/* Sets sizes that are 0, and how to map the frame's coordinates. If the frame has no map, they are taken as they are,
 * and the call returns false. */
bool mr_drawing_begin(mr_drawing *drawing, const mr_frame *frame);
/* MR_ERROR_MEMORY, MR_ERROR_DATA. */
int mr_drawing_add(mr_drawing *drawing, const mr_result *objects, int64_t now_ns);
/* Maps a point from the source's displayed picture to the canvas. */
void mr_drawing_map(const mr_drawing *drawing, double x, double y, double to[2]);
/* Adds a line of text on a ground, with its upper left corner there, or nearer if it would leave the picture. */
int mr_drawing_add_text(mr_drawing *drawing, const char *text, double x, double y, mr_ink ground, mr_ink ink);
/* Adds one line of text in a corner: 0 upper left, 1 upper right, 2 lower left, 3 lower right. */
int mr_drawing_add_caption(mr_drawing *drawing, const char *text, int corner);
