/* Connected regions of a map: the places where its values exceed a limit.
 *
 * A row's values above the limit form runs. Values belong together if at most one value lies between them, in a row, a
 * column or both: as regions with 8 neighbours do in OpenCV once the map is dilated by 2x2, as DB text detection is
 * defined (Liao et al., "Real-time Scene Text Detection with Differentiable Binarization", 2020; PaddleOCR).
 *
 * Ownership: the caller owns all memory. Errors: none. Any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct mr_map_run {
    int32_t row, first, last; /* columns first to last */
    int32_t next;             /* the region's next run, by rows; -1: none */
    int32_t region;
} mr_map_run;

typedef struct mr_map_region {
    int32_t first, last;              /* runs */
    int32_t left, top, right, bottom; /* right and bottom: one past the last column and row */
} mr_map_region;

typedef struct mr_point {
    double x, y;
} mr_point;

/* Finds the runs of a dense map, in the order of rows and columns, up to `most`. `run` NULL: only counts them. */
size_t mr_runs_find(const float *map, int32_t width, int32_t height, float limit, mr_map_run *run, size_t most);
/* Sorts the runs into regions, which are in the order of their first runs. Returns how many; each run's `region` then
 * is a position below that. */
size_t mr_regions_join(mr_map_run *run, size_t count);
/* Fills in `count` regions. */
void mr_regions_measure(mr_map_run *run, size_t run_count, mr_map_region *region, size_t count);
/* The convex hull of the areas of a region's pixels, clockwise as seen, with the y axis down. `hull` has room for
 * mr_region_points. `lines` has room for the same number of numbers. Returns the number of points. */
size_t mr_region_hull(const mr_map_region *region, const mr_map_run *run, mr_point *hull, int32_t *lines);

/* For regions in a map with that height. */
static inline size_t mr_region_points(int32_t height) {
    return 2 * ((size_t)height + 1);
}
