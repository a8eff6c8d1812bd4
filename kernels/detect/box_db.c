#include "kernels/detect/box_db.h"

#include <math.h>

#include "kernels/scratch.h"
#include "kernels/text/rectangle.h"
#include "millrace/status.h"

/* Runs that are looked at. A map with more shows noise. */
enum { MOST_RUNS = 1 << 18 };

static const double LEAST_SIDE = 3, LEAST_GROWN_SIDE = 5;

/* What is found in a map, and the memory to find it. */
typedef struct search {
    mr_map_run *run;
    size_t run_count, region_count;
    mr_map_region *region;
    mr_growth *growth; /* one for each region; each candidate's `row` is its position */
    mr_growth *kept;   /* those of the lines that are kept */
    mr_point *hull;
    int32_t *lines;
    mr_boxes candidates;
} search;

static size_t take(size_t *used, size_t count, size_t bytes) {
    const size_t at = *used;
    *used += (count * bytes + 63) / 64 * 64;
    return at;
}

/* Takes memory for as many runs as the map has; each may be a region. */
static int begin(search *s, const mr_db_lines *lines, size_t runs) {
    const size_t points = mr_region_points(lines->height);
    const size_t most = (size_t)lines->most < runs ? (size_t)lines->most : runs;
    size_t bytes = 0;
    const size_t run = take(&bytes, runs, sizeof *s->run), region = take(&bytes, runs, sizeof *s->region);
    const size_t growth = take(&bytes, runs, sizeof *s->growth), kept = take(&bytes, most, sizeof *s->kept);
    const size_t hull = take(&bytes, points, sizeof *s->hull), ends = take(&bytes, points, sizeof *s->lines);
    const size_t boxes = take(&bytes, runs + 2, sizeof(mr_box));
    uint8_t *memory = mr_scratch(bytes);
    if (!memory)
        return mr_fail(MR_ERROR_MEMORY, "no scratch memory for a map with %zu runs", runs);
    *s = (search){.run = (void *)(memory + run), .run_count = runs, .region = (void *)(memory + region),
                  .growth = (void *)(memory + growth), .kept = (void *)(memory + kept),
                  .hull = (void *)(memory + hull), .lines = (void *)(memory + ends)};
    mr_boxes_init(&s->candidates, (void *)(memory + boxes), runs + 2);
    return MR_OK;
}

static mr_box bounds_of(const float corner[8]) {
    mr_box box = {.left = INFINITY, .top = INFINITY, .right = -INFINITY, .bottom = -INFINITY};
    for (int i = 0; i < 4; i++) {
        box.left = fminf(box.left, corner[2 * i]);
        box.right = fmaxf(box.right, corner[2 * i]);
        box.top = fminf(box.top, corner[2 * i + 1]);
        box.bottom = fmaxf(box.bottom, corner[2 * i + 1]);
    }
    return box;
}

/* Most regions are dots: those are left before anything is computed. */
static void judge(search *s, const mr_box_head *head, const float *map, float limit, size_t at,
                  const mr_db_lines *lines) {
    const mr_map_region *region = &s->region[at];
    float corner[MR_BOX_CORNER_NUMBERS];
    if (region->right - region->left < LEAST_SIDE || region->bottom - region->top < LEAST_SIDE)
        return;
    mr_rectangle r = mr_rectangle_around(s->hull, mr_region_hull(region, s->run, s->hull, s->lines));
    if (fmin(r.length, r.breadth) < LEAST_SIDE)
        return;
    const float score = (float)mr_rectangle_mean(&r, map, lines->width, lines->height);
    s->growth[at] = (mr_growth){r, r.length * r.breadth * head->unclip / (2 * (r.length + r.breadth))};
    mr_rectangle_grow(&r, s->growth[at].by);
    if (!(score > limit) || fmin(r.length, r.breadth) < LEAST_GROWN_SIDE)
        return;
    mr_rectangle_corners(&r, corner);
    mr_box box = bounds_of(corner);
    box.score = score;
    box.row = (int32_t)at;
    mr_boxes_add(&s->candidates, &box);
}

/* Lines that end where others begin are cut there. */
static void place(const search *s, const mr_box_head *head, const mr_db_lines *lines, int32_t at) {
    float *corner = lines->corner + (ptrdiff_t)at * MR_BOX_CORNER_NUMBERS;
    mr_box *item = &lines->item[at];
    const mr_rectangle grown =
        mr_rectangle_grow_apart(&s->kept[at], s->kept, head->apart ? (size_t)lines->count : 0);
    mr_rectangle_corners(&grown, corner);
    const mr_box box = bounds_of(corner);
    item->left = box.left, item->top = box.top, item->right = box.right, item->bottom = box.bottom;
}

static void keep_best(search *s, const mr_box_head *head, mr_db_lines *lines) {
    const bool more = s->candidates.count > (size_t)lines->most;
    mr_boxes_sort(&s->candidates);
    lines->cut |= more;
    lines->count = more ? lines->most : (int32_t)s->candidates.count;
    for (int32_t i = 0; i < lines->count; i++) {
        lines->item[i] = s->candidates.item[i];
        s->kept[i] = s->growth[lines->item[i].row];
    }
    for (int32_t i = 0; i < lines->count; i++)
        place(s, head, lines, i);
}

int mr_box_db_find(const mr_box_head *head, const float *map, float score, mr_db_lines *lines) {
    search s = {0};
    const size_t runs = mr_runs_find(map, lines->width, lines->height, head->mask, NULL, MOST_RUNS + 1);
    int status = begin(&s, lines, runs < MOST_RUNS ? runs : MOST_RUNS);
    if (status)
        return status;
    mr_runs_find(map, lines->width, lines->height, head->mask, s.run, s.run_count);
    s.region_count = mr_regions_join(s.run, s.run_count);
    mr_regions_measure(s.run, s.run_count, s.region, s.region_count);
    lines->cut = runs > MOST_RUNS;
    for (size_t i = 0; i < s.region_count; i++)
        judge(&s, head, map, score, i, lines);
    keep_best(&s, head, lines);
    return MR_OK;
}
