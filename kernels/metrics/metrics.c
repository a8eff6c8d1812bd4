#include "millrace/figures.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "kernels/draw.h"
#include "millrace/status.h"

/* ---- counts ------------------------------------------------------------------------------------------------------ */

int32_t mr_first_class(const double *scores, size_t classes) {
    size_t first = 0;
    for (size_t j = 1; j < classes; j++)
        if (scores[j] > scores[first])
            first = j;
    return (int32_t)first;
}

void mr_confusion(const mr_scored *scored, uint64_t *counts) {
    const size_t classes = scored->classes;
    memset(counts, 0, classes * classes * sizeof *counts);
    for (size_t i = 0; i < scored->rows; i++) {
        size_t first = (size_t)mr_first_class(scored->scores + i * classes, classes);
        counts[(size_t)scored->truth[i] * classes + first]++;
    }
}

static double share(uint64_t part, uint64_t whole) {
    return whole ? (double)part / (double)whole : 0.0;
}

static mr_class_figures figures_of(const uint64_t *confusion, size_t classes, size_t j) {
    mr_class_figures made = {.right = confusion[j * classes + j]};
    for (size_t k = 0; k < classes; k++) {
        made.rows += confusion[j * classes + k];
        made.first += confusion[k * classes + j];
    }
    made.precision = share(made.right, made.first);
    made.recall = share(made.right, made.rows);
    made.f1 = share(2 * made.right, made.rows + made.first);
    return made;
}

void mr_figures_make(const uint64_t *confusion, size_t classes, mr_class_figures *each, mr_figures *all) {
    MR_PLAIN_NUMBERS;
    uint64_t occur = 0, named = 0;
    *all = (mr_figures){0};
    for (size_t j = 0; j < classes; j++) {
        const mr_class_figures made = each[j] = figures_of(confusion, classes, j);
        all->rows += made.rows;
        all->right += made.right;
        occur += made.rows > 0;
        named += made.rows > 0 || made.first > 0;
        all->balanced_accuracy += made.recall;
        all->precision += made.precision;
        all->recall += made.recall;
        all->f1 += made.f1;
    }
    all->accuracy = share(all->right, all->rows);
    all->balanced_accuracy /= occur ? (double)occur : 1.0;
    all->precision /= named ? (double)named : 1.0;
    all->recall /= named ? (double)named : 1.0;
    all->f1 /= named ? (double)named : 1.0;
}

/* Kahan's sum: adds what rounding has lost to the next number. */
double mr_log_loss(const mr_scored *scored) {
    double sum = 0.0, lost = 0.0;
    for (size_t i = 0; i < scored->rows; i++) {
        double p = scored->scores[i * scored->classes + (size_t)scored->truth[i]];
        double more = -log(fmin(fmax(p, DBL_EPSILON), 1.0 - DBL_EPSILON)) - lost, next = sum + more;
        lost = (next - sum) - more;
        sum = next;
    }
    return scored->rows ? sum / (double)scored->rows : NAN;
}

/* ---- curves ------------------------------------------------------------------------------------------------------ */

typedef struct ranked {
    double score;
    bool positive;
} ranked;

static int higher_first(const void *a, const void *b) {
    double left = ((const ranked *)a)->score, right = ((const ranked *)b)->score;
    return (left < right) - (left > right);
}

/* One point for each distinct score. */
static void make_points(mr_curve *curve, const ranked *row, size_t rows) {
    uint64_t positives = 0, negatives = 0;
    curve->count = 0;
    for (size_t i = 0; i < rows; i++) {
        positives += row[i].positive;
        negatives += !row[i].positive;
        if (i + 1 == rows || row[i + 1].score != row[i].score)
            curve->points[curve->count++] = (mr_curve_point){row[i].score, positives, negatives};
    }
    curve->positives = positives;
    curve->negatives = negatives;
}

static double roc_area(const mr_curve *curve) {
    double area = 0.0;
    uint64_t positives = 0, negatives = 0;
    if (!curve->positives || !curve->negatives)
        return NAN;
    for (size_t i = 0; i < curve->count; i++) {
        const mr_curve_point *p = &curve->points[i];
        area += (double)(p->false_positives - negatives) * ((double)p->true_positives + (double)positives) / 2.0;
        positives = p->true_positives;
        negatives = p->false_positives;
    }
    return area / ((double)curve->positives * (double)curve->negatives);
}

static double average_precision(const mr_curve *curve) {
    double sum = 0.0;
    uint64_t positives = 0;
    if (!curve->positives)
        return NAN;
    for (size_t i = 0; i < curve->count; i++) {
        const mr_curve_point *p = &curve->points[i];
        sum +=
            (double)(p->true_positives - positives) * share(p->true_positives, p->true_positives + p->false_positives);
        positives = p->true_positives;
    }
    return sum / (double)curve->positives;
}

int mr_curve_make(const mr_scored *scored, int32_t of, mr_curve *curve) {
    MR_PLAIN_NUMBERS;
    ranked *row = mr_alloc((scored->rows + 1) * sizeof *row);
    if (!row)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the curves of %zu rows", scored->rows);
    for (size_t i = 0; i < scored->rows; i++)
        row[i] = (ranked){scored->scores[i * scored->classes + (size_t)of], scored->truth[i] == of};
    qsort(row, scored->rows, sizeof *row, higher_first);
    make_points(curve, row, scored->rows);
    mr_free(row);
    curve->roc_area = roc_area(curve);
    curve->average_precision = average_precision(curve);
    return MR_OK;
}

/* ---- calibration ------------------------------------------------------------------------------------------------- */

double mr_calibrate(const mr_scored *scored, size_t count, mr_calibration_bin *bins) {
    MR_PLAIN_NUMBERS;
    double error = 0.0;
    memset(bins, 0, count * sizeof *bins);
    for (size_t i = 0; i < scored->rows; i++) {
        const double *scores = scored->scores + i * scored->classes;
        int32_t first = mr_first_class(scores, scored->classes);
        double score = fmin(fmax(scores[first], 0.0), 1.0);
        size_t at = (size_t)(score * (double)count);
        mr_calibration_bin *bin = &bins[at < count ? at : count - 1];
        bin->rows++;
        bin->right += first == scored->truth[i];
        bin->mean_score += score;
    }
    for (size_t b = 0; b < count; b++) {
        if (!bins[b].rows)
            continue;
        bins[b].mean_score /= (double)bins[b].rows;
        error += (double)bins[b].rows * fabs(share(bins[b].right, bins[b].rows) - bins[b].mean_score);
    }
    return scored->rows ? error / (double)scored->rows : NAN;
}

/* The derivative by s of the log loss for softmax(s * logits); it rises with s. */
static double slope_at(const mr_scored *scored, double s) {
    double slope = 0.0;
    for (size_t i = 0; i < scored->rows; i++) {
        const double *z = scored->scores + i * scored->classes, most = z[mr_first_class(z, scored->classes)];
        double sum = 0.0, mean = 0.0;
        for (size_t j = 0; j < scored->classes; j++) {
            double e = exp(s * (z[j] - most));
            sum += e;
            mean += e * z[j];
        }
        slope += mean / sum - z[scored->truth[i]];
    }
    return slope;
}

double mr_temperature(const mr_scored *scored) {
    MR_PLAIN_NUMBERS;
    double low = log(1.0 / 20.0), high = log(20.0);
    for (int i = 0; i < 60 && high > low; i++) {
        double middle = 0.5 * (low + high);
        if (slope_at(scored, exp(middle)) < 0.0)
            low = middle;
        else
            high = middle;
    }
    return exp(-0.5 * (low + high));
}

/* ---- intervals --------------------------------------------------------------------------------------------------- */

/* Rows by group: those of group g are row[begin[g]] .. row[begin[g + 1]]. */
typedef struct groups {
    size_t count, *begin, *row, *drawn;
    size_t room; /* in `drawn`: at least the longest resample's rows so far */
    double *figure;
} groups;

static void free_groups(groups *g) {
    mr_free(g->begin);
    mr_free(g->row);
    mr_free(g->drawn);
    mr_free(g->figure);
}

static void sort_into_groups(groups *g, const int32_t *group, size_t rows) {
    for (size_t i = 0; i < rows; i++)
        g->begin[group[i] + 1]++;
    for (size_t k = 0; k < g->count; k++)
        g->begin[k + 1] += g->begin[k];
    for (size_t i = rows; i-- > 0;)
        g->row[--g->begin[group[i] + 1]] = i;
    /* Each begin is now one index too high. */
    memmove(g->begin, g->begin + 1, g->count * sizeof *g->begin);
    g->begin[g->count] = rows;
}

static bool make_room(groups *g, size_t rows) {
    if (rows <= g->room)
        return true;
    size_t *grown = mr_realloc(g->drawn, 2 * rows * sizeof *grown);
    if (!grown)
        return false;
    g->drawn = grown;
    g->room = 2 * rows;
    return true;
}

/* Draws as many groups as there are, into `drawn`. False: there is no memory. */
static bool draw_resample(groups *g, uint64_t *state, size_t *count) {
    *count = 0;
    for (size_t i = 0; i < g->count; i++) {
        size_t k = mr_draw_below(state, g->count), rows = g->begin[k + 1] - g->begin[k];
        if (!make_room(g, *count + rows))
            return false;
        memcpy(g->drawn + *count, g->row + g->begin[k], rows * sizeof *g->drawn);
        *count += rows;
    }
    return true;
}

static int lower_first(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double percentile(const double *sorted, size_t count, double share_below) {
    double at = share_below * (double)(count - 1), whole = floor(at);
    size_t below = (size_t)whole, above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (at - whole) * (sorted[above] - sorted[below]);
}

int mr_bootstrap(const int32_t *group, size_t rows, size_t group_count, size_t resamples, uint64_t seed,
                 double share_within, mr_figure_function *figure, void *user, mr_interval *interval) {
    groups g = {.count = group_count};
    size_t found = 0;
    int status = MR_OK;
    g.begin = mr_calloc(group_count + 2, sizeof *g.begin);
    g.row = mr_alloc((rows + 1) * sizeof *g.row);
    g.figure = mr_alloc((resamples + 1) * sizeof *g.figure);
    bool fits = g.begin && g.row && g.figure && make_room(&g, rows + 1);
    if (fits)
        sort_into_groups(&g, group, rows);
    for (size_t i = 0, count; fits && i < resamples; i++) {
        fits = draw_resample(&g, &seed, &count);
        double value = fits ? figure(user, g.drawn, count) : (double)NAN;
        if (!isnan(value))
            g.figure[found++] = value;
    }
    if (!fits) {
        status = mr_fail(MR_ERROR_MEMORY, "no memory for resamples of %zu rows", rows);
        found = 0;
    }
    *interval = (mr_interval){NAN, NAN};
    if (found) {
        qsort(g.figure, found, sizeof *g.figure, lower_first);
        interval->low = percentile(g.figure, found, (1.0 - share_within) / 2.0);
        interval->high = percentile(g.figure, found, (1.0 + share_within) / 2.0);
    }
    free_groups(&g);
    return status;
}

/* A group's rows and right rows. */
typedef struct group_rows {
    size_t rows, right;
} group_rows;

/* The number of independent rows that say as much about the share as these do. */
static double effective_rows(const group_rows *of, size_t group_count, size_t rows, double share) {
    double squares = 0;
    size_t seen = 0;
    for (size_t g = 0; g < group_count; g++) {
        double off = (double)of[g].right - share * (double)of[g].rows;
        squares += off * off;
        seen += of[g].rows > 0;
    }
    double independent = share * (1 - share) * (double)rows;
    if (independent <= 0 || seen < 2) /* one group says nothing about the variance between groups */
        return (double)seen;
    return (double)rows / fmax(1, squares / independent);
}

int mr_share_interval(const int32_t *group, const bool *right, size_t rows, size_t group_count, mr_interval *interval) {
    const double z = 1.959963984540054; /* the standard normal distribution has 95% within -z .. z */
    group_rows *of = mr_calloc(group_count + 1, sizeof *of);
    size_t good = 0;
    *interval = (mr_interval){NAN, NAN};
    if (!of)
        return mr_fail(MR_ERROR_MEMORY, "no memory for %zu groups of rows", group_count);
    for (size_t i = 0; i < rows; i++) {
        of[group[i]].rows++;
        of[group[i]].right += right[i];
        good += right[i];
    }
    if (rows) {
        double share = (double)good / (double)rows, n = effective_rows(of, group_count, rows, share);
        double middle = (share + z * z / (2 * n)) / (1 + z * z / n);
        double half = z / (1 + z * z / n) * sqrt(share * (1 - share) / n + z * z / (4 * n * n));
        interval->low = fmax(0, fmin(share, middle - half));
        interval->high = fmin(1, fmax(share, middle + half));
    }
    mr_free(of);
    return MR_OK;
}
