#include "kernels/preprocess/preprocess_cost.h"

#include "kernels/preprocess/preprocess_grid.h"

/* Thread instructions of kernels/preprocess/preprocess_walk_cuda.cu, counted in its SASS for compute capability 9.0 by
 * tools/bench/sass.py: for each pixel; for each pair of weights along and component; and for each eight bytes of a
 * source row that is walked down: for a step of two rows, for a result, and for a tile. Lanes that idle at the end of a
 * tile are not in them, 5% of all. */
static const double walk_pixel = 64, walk_pair = 3, walk_step = 43, walk_result = 31, walk_tile = 80;

/* Thread instructions of kernels/preprocess/preprocess_cuda.cu, counted in its SASS for compute capability 9.0 (CUDA
 * 13.0, cuobjdump -sass): about 1,070 for each pixel of the small picture (its weights along the row, conversion and
 * store), and for each word of four samples of a row that is weighed for it about 240 at 8.4 rows and 185 at 4.2.
 * Counts, not timings; nothing else of the kernel is in them. */
static const double pixel_instructions = 1070, word_instructions = 130, word_row_instructions = 13;

/* Source samples that the results of an axis need, from the first to the last. */
static double reach(const mr_filter *filter, bool horizontal) {
    int first = INT32_MAX, end = 0;
    if (horizontal)
        return filter->end - filter->begin;
    for (int i = 0; i < filter->count; i++) {
        int last = filter->first[i] + filter->length[i];
        first = filter->first[i] < first ? filter->first[i] : first;
        end = last > end ? last : end;
    }
    return end > first ? end - first : 0;
}

static double mean_taps(const mr_filter *filter) {
    double sum = 0;
    for (int i = 0; i < filter->count; i++)
        sum += filter->length[i];
    return filter->count ? sum / filter->count : 0;
}

/* Steps and pairs as in the tables of the kernel. */
static void add_walk(const mr_preprocess *plan, const plane_plan *plane, double samples, mr_preprocess_cost *cost) {
    mr_walk walk = {0};
    const double tiles = (plan->rows + MR_WALK_ROWS - 1) / MR_WALK_ROWS;
    const double steps = (double)mr_walk_down(&walk, &plan->filter[plane->table][1]) - tiles;
    mr_walk_along(&walk, &plan->filter[plane->table][0], mr_preprocess_walk_align(plan, plane->table));
    const double of_walk = walk_step * steps + walk_result * plan->rows + walk_tile * tiles;
    cost->instructions += samples / MR_WALK_SAMPLES * of_walk;
    cost->instructions += walk_pair * walk.pairs * plane->parts * plan->columns * plan->rows;
}

static void add_plane(const mr_preprocess *plan, const plane_plan *plane, mr_preprocess_cost *cost) {
    const mr_filter *x = &plan->filter[plane->table][0], *y = &plan->filter[plane->table][1];
    double samples = reach(x, true) * plane->step;
    cost->read_bytes += samples * plane->sample_bytes * reach(y, false);
    if (mr_preprocess_walkable(plan))
        add_walk(plan, plane, samples, cost);
    else
        cost->instructions += samples / 4 * plan->rows * (word_instructions + word_row_instructions * mean_taps(y));
}

/* Rows of results are weighed from whole rows first, then results along these. */
static double weighings(const mr_preprocess *plan, const plane_plan *plane) {
    const mr_filter *x = &plan->filter[plane->table][0], *y = &plan->filter[plane->table][1];
    return 2 * (mean_taps(y) * plan->rows * reach(x, true) * plane->step +
                mean_taps(x) * plan->columns * plan->rows * plane->parts);
}

/* A value is held within 0..255 (2), less the mean, scaled: 4. From Y'CbCr come 10 before that: luma scaled and moved,
 * and four products that are added; of R, G, B each is scaled and moved, 6; of one component that one, 2. Three that
 * become gray are held, 6 more, then weighed, 5. */
static double conversion(const mr_preprocess *plan) {
    if (plan->components == 1)
        return 2 + 4;
    const double before = plan->color.rgb ? 6 : 10;
    return plan->channels == 1 ? before + 6 + 5 + 2 : before + 3 * 4;
}

/* Each result reads one sample of each plane. */
static void add_nearest(const mr_preprocess *plan, const plane_plan *plane, mr_preprocess_cost *cost) {
    cost->read_bytes += (double)plan->columns * plan->rows * plane->parts * plane->sample_bytes;
}

mr_preprocess_cost mr_preprocess_count(const mr_preprocess *plan) {
    const double pixel = mr_preprocess_walkable(plan) ? walk_pixel : pixel_instructions;
    mr_preprocess_cost cost = {.instructions = pixel * plan->columns * plan->rows,
                               .operations = conversion(plan) * plan->columns * plan->rows};
    for (int p = 0; p < plan->planes; p++) {
        if (!plan->plane[p].parts)
            continue;
        if (plan->nearest_x)
            add_nearest(plan, &plan->plane[p], &cost);
        else
            add_plane(plan, &plan->plane[p], &cost);
        cost.operations += plan->nearest_x ? 0 : weighings(plan, &plan->plane[p]);
    }
    return cost;
}
