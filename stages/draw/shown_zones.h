/* Areas and lines of stages such as zones, which planning knows, with their counts. */
#pragma once

#include "millrace/events.h"
#include "millrace/stage.h"
#include "stages/draw/drawing.h"

enum { MR_SHOWN_LINES = 64 };

/* Crossings of each line so far, out and in. Lines beyond the last, and those whose stage does not report
 * crossings, are drawn without counts. */
typedef struct mr_shown_zones {
    int64_t crossings[MR_SHOWN_LINES][2];
} mr_shown_zones;

/* Whether there are any. */
bool mr_shown_zones_exist(const mr_planned_result *results);
/* Counts a frame's crossings. Must be called for each frame. */
void mr_shown_zones_count(mr_shown_zones *shown, const mr_planned_result *results, const mr_frame *frame);
/* Draws them. The count of an area is the number of objects in it, in its stage's result. If the frame lacks that,
 * it is the number in `objects`, which may be NULL. MR_ERROR_MEMORY, MR_ERROR_DATA. */
int mr_shown_zones_draw(const mr_shown_zones *shown, const mr_planned_result *results, const mr_frame *frame,
                        const mr_result *objects, mr_drawing *drawing);
