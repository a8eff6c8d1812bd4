#include "kernels/text/regions.h"

#include <stdbool.h>

/* Two values belong together if their columns and rows differ by at most this. */
enum { NEAR = 2 };

/* ---- runs -------------------------------------------------------------------------------------------------------- */

size_t mr_runs_find(const float *map, int32_t width, int32_t height, float limit, mr_map_run *run, size_t most) {
    size_t count = 0;
    for (int32_t y = 0; y < height; y++) {
        int32_t last = -1 - NEAR; /* of this row's latest run */
        for (int32_t x = 0; x < width; x++) {
            if (!(map[(size_t)y * (size_t)width + (size_t)x] > limit))
                continue;
            if (x - last > NEAR) {
                if (count == most)
                    return count;
                count++;
                if (run)
                    run[count - 1] = (mr_map_run){.row = y, .first = x};
            }
            last = x;
            if (run)
                run[count - 1].last = x;
        }
    }
    return count;
}

/* ---- regions ----------------------------------------------------------------------------------------------------- */

/* While runs are joined, `region` is another run of the same region, or the run itself: its first one. */
static int32_t first_of(mr_map_run *run, int32_t at) {
    while (run[at].region != at)
        at = run[at].region = run[run[at].region].region;
    return at;
}

static void unite(mr_map_run *run, size_t a, size_t b) {
    const int32_t one = first_of(run, (int32_t)a), other = first_of(run, (int32_t)b);
    run[one < other ? other : one].region = one < other ? one : other;
}

/* Joins runs a to a_end of one row with runs b to b_end of another. */
static void join_rows(mr_map_run *run, size_t a, size_t a_end, size_t b, size_t b_end) {
    while (a < a_end && b < b_end) {
        if (run[a].first <= run[b].last + NEAR && run[b].first <= run[a].last + NEAR)
            unite(run, a, b);
        *(run[a].last < run[b].last ? &a : &b) += 1;
    }
}

size_t mr_regions_join(mr_map_run *run, size_t count) {
    size_t before = 0, previous = 0, end, regions = 0; /* where the last rows with runs begin */
    for (size_t i = 0; i < count; i++)
        run[i].region = (int32_t)i;
    for (size_t begin = 0; begin < count; before = previous, previous = begin, begin = end) {
        for (end = begin; end < count && run[end].row == run[begin].row;)
            end++;
        if (previous < begin && run[begin].row - run[previous].row <= NEAR)
            join_rows(run, previous, begin, begin, end);
        if (before < previous && run[begin].row - run[before].row <= NEAR)
            join_rows(run, before, previous, begin, end);
    }
    for (size_t i = 0; i < count; i++)
        run[i].region = run[i].region == (int32_t)i ? (int32_t)regions++ : run[run[i].region].region;
    return regions;
}

void mr_regions_measure(mr_map_run *run, size_t run_count, mr_map_region *region, size_t count) {
    for (size_t i = 0; i < count; i++)
        region[i].first = -1;
    for (size_t i = 0; i < run_count; i++) {
        mr_map_region *one = &region[run[i].region];
        if (one->first < 0)
            *one = (mr_map_region){(int32_t)i, (int32_t)i, run[i].first, run[i].row, 0, 0};
        else
            run[one->last].next = (int32_t)i;
        run[i].next = -1;
        one->last = (int32_t)i;
        one->left = run[i].first < one->left ? run[i].first : one->left;
        one->right = run[i].last + 1 > one->right ? run[i].last + 1 : one->right;
        one->bottom = run[i].row + 1;
    }
}

/* ---- the hull ---------------------------------------------------------------------------------------------------- */

/* Adds a point to a chain that begins at `begin`, and removes those that it passes. */
static size_t bend(mr_point *hull, size_t begin, size_t count, int32_t x, int32_t y) {
    while (count >= begin + 2) {
        const mr_point *a = &hull[count - 2], *b = &hull[count - 1];
        if ((b->x - a->x) * (y - a->y) - (b->y - a->y) * (x - a->x) > 0)
            break;
        count--;
    }
    hull[count] = (mr_point){x, y};
    return count + 1;
}

/* Widens the extent of a line between rows. */
static void reach(int32_t line[2], const mr_map_run *run) {
    line[0] = run->first < line[0] ? run->first : line[0];
    line[1] = run->last + 1 > line[1] ? run->last + 1 : line[1];
}

size_t mr_region_hull(const mr_map_region *region, const mr_map_run *run, mr_point *hull, int32_t *lines) {
    const int32_t count = region->bottom - region->top + 1;
    size_t points = 0;
    for (int32_t i = 0; i < count; i++)
        lines[2 * i] = INT32_MAX, lines[2 * i + 1] = -1;
    for (int32_t at = region->first; at >= 0; at = run[at].next) {
        reach(lines + 2 * (run[at].row - region->top), &run[at]);
        reach(lines + 2 * (run[at].row - region->top + 1), &run[at]);
    }
    for (int32_t i = 0; i < count; i++)
        if (lines[2 * i + 1] >= 0)
            points = bend(hull, 0, points, lines[2 * i + 1], region->top + i);
    const size_t begin = points;
    for (int32_t i = count - 1; i >= 0; i--)
        if (lines[2 * i + 1] >= 0)
            points = bend(hull, begin, points, lines[2 * i], region->top + i);
    return points;
}
