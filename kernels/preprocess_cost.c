#include "kernels/preprocess_cost.h"

#include "kernels/preprocess_plan.h"

/* Thread instructions of kernels/preprocess_cuda.cu, counted in its SASS for compute capability 9.0 (CUDA 13.0, cuobjdump
 * -sass): about 1,070 for each pixel of the small picture (its weights along the row, conversion and store), and for each
 * word of four samples of a row that is weighed for it about 240 at 8.4 rows and 185 at 4.2. Counts, not timings; nothing
 * else of the kernel is in them. */
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

static void add_plane(const mr_preprocess *plan, const plane_plan *plane, mr_preprocess_cost *cost) {
    const mr_filter *x = &plan->filter[plane->table][0], *y = &plan->filter[plane->table][1];
    double samples = reach(x, true) * plane->step;
    cost->read_bytes += samples * plane->sample_bytes * reach(y, false);
    cost->instructions += samples / 4 * plan->rows * (word_instructions + word_row_instructions * mean_taps(y));
}

/* Each result reads one sample of each plane. */
static void add_nearest(const mr_preprocess *plan, const plane_plan *plane, mr_preprocess_cost *cost) {
    cost->read_bytes += (double)plan->columns * plan->rows * plane->parts * plane->sample_bytes;
}

mr_preprocess_cost mr_preprocess_count(const mr_preprocess *plan) {
    mr_preprocess_cost cost = {.instructions = pixel_instructions * plan->columns * plan->rows};
    for (int p = 0; p < plan->planes; p++) {
        if (!plan->plane[p].parts)
            continue;
        if (plan->nearest_x)
            add_nearest(plan, &plan->plane[p], &cost);
        else
            add_plane(plan, &plan->plane[p], &cost);
    }
    return cost;
}
