#include "kernels/preprocess/preprocess_cost.h"

#include "kernels/preprocess/preprocess_grid.h"

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

/* For a plane; by nearest neighbour each result reads one sample. */
static double read_bytes(const mr_preprocess *plan, const plane_plan *plane) {
    const mr_filter *x = &plan->filter[plane->table][0], *y = &plan->filter[plane->table][1];
    if (plan->nearest_x)
        return (double)plan->columns * plan->rows * plane->parts * plane->sample_bytes;
    return reach(x, true) * plane->step * plane->sample_bytes * reach(y, false);
}

/* First weighs whole rows into result rows, then weighs along these. */
static double weighings(const mr_preprocess *plan, const plane_plan *plane) {
    const mr_filter *x = &plan->filter[plane->table][0], *y = &plan->filter[plane->table][1];
    return 2 * (mean_taps(y) * plan->rows * reach(x, true) * plane->step +
                mean_taps(x) * plan->columns * plan->rows * plane->parts);
}

/* Clamping to 0..255 counts 2, subtracting the mean and scaling 2. Y'CbCr needs 10 before that: scale and shift luma,
 * and add four products. R, G, B need 6 to scale and shift, a single component 2. Three that become gray need 6 more to
 * clamp, then 5 to weigh. */
static double conversion(const mr_preprocess *plan) {
    if (plan->components == 1)
        return 2 + 4;
    const double before = plan->color.rgb ? 6 : 10;
    return plan->channels == 1 ? before + 6 + 5 + 2 : before + 3 * 4;
}

mr_preprocess_cost mr_preprocess_count(const mr_preprocess *plan) {
    mr_preprocess_cost cost = {.operations = conversion(plan) * plan->columns * plan->rows};
    for (int p = 0; p < plan->planes; p++) {
        if (!plan->plane[p].parts)
            continue;
        cost.read_bytes += read_bytes(plan, &plan->plane[p]);
        cost.operations += plan->nearest_x ? 0 : weighings(plan, &plan->plane[p]);
    }
    return cost;
}
