/* Precision and recall of objects, as COCO defines them. Follows cocoeval.py and bbIou in maskApi.c of pycocotools. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "millrace/figures.h"
#include "millrace/status.h"

enum { OVERLAPS = 10, RECALLS = 101, SIZES = 4, LIMITS = 3, MOST = 100 };

static const double sizes[SIZES][2] = {{0, 1e10}, {0, 32 * 32}, {32 * 32, 96 * 96}, {96 * 96, 1e10}};
static const int limits[LIMITS] = {1, 10, MOST};

/* ---- one class --------------------------------------------------------------------------------------------------- */

/* An object that was found, and what became of it at one size. */
typedef struct judged {
    const mr_boxed *box;
    size_t rank; /* in its picture, best first */
    bool right[OVERLAPS], ignored[OVERLAPS];
} judged;

typedef struct class_work {
    const mr_boxed *const *truth; /* by picture */
    size_t truth_count;
    judged *found; /* by picture, then score */
    size_t found_count;
    const judged **order; /* by score */
    bool *ignored;        /* of each true object */
    bool *taken;          /* for one overlap: likewise */
    double *recall, *precision; /* as far as each object in `order` */
} class_work;

/* Sums over classes of means, and how many classes. */
typedef struct sums {
    double precision[OVERLAPS][SIZES], recall[OVERLAPS][SIZES][LIMITS];
    size_t classes[SIZES];
} sums;

static double overlap(const mr_boxed *a, const mr_boxed *truth) {
    const double width = fmin(a->left + a->width, truth->left + truth->width) - fmax(a->left, truth->left);
    const double height = fmin(a->top + a->height, truth->top + truth->height) - fmax(a->top, truth->top);
    const double own = a->width * a->height;
    if (width <= 0 || height <= 0)
        return 0;
    const double both = width * height;
    return both / (truth->crowd ? own : own + truth->width * truth->height - both);
}

static double least_overlap(int index) {
    return index == OVERLAPS - 1 ? 0.95 : index * ((0.95 - 0.5) / (OVERLAPS - 1)) + 0.5;
}

static bool has_size(double area, int size) {
    return area >= sizes[size][0] && area <= sizes[size][1];
}

/* Finds the true object that fits best: one that counts, else one that is ignored. Objects that count come first.
 * Returns `count` if none fits. */
static size_t find_match(const class_work *w, size_t first, size_t count, const mr_boxed *box, double least) {
    size_t match = count;
    for (int ignored = 0; ignored < 2 && match == count; ignored++) {
        double best = fmin(least, 1 - 1e-10);
        for (size_t i = 0; i < count; i++) {
            const mr_boxed *truth = w->truth[first + i];
            if (w->ignored[first + i] != (bool)ignored || (w->taken[first + i] && !truth->crowd))
                continue;
            const double found = overlap(box, truth);
            match = found >= best ? i : match;
            best = fmax(found, best);
        }
    }
    return match;
}

/* The true objects from `first`, and the objects from `begin`, are those of one picture. */
static void match_picture(class_work *w, size_t first, size_t count, size_t begin, size_t found, int size) {
    for (int t = 0; t < OVERLAPS; t++) {
        memset(w->taken + first, 0, count * sizeof *w->taken);
        for (size_t i = begin; i < begin + found && w->found[i].rank < MOST; i++) {
            judged *one = &w->found[i];
            const size_t match = find_match(w, first, count, one->box, least_overlap(t));
            one->right[t] = match < count;
            one->ignored[t] = match < count ? w->ignored[first + match]
                                            : !has_size(one->box->width * one->box->height, size);
            if (match < count)
                w->taken[first + match] = true;
        }
    }
}

static void match_all(class_work *w, int size) {
    size_t first = 0, begin = 0;
    while (begin < w->found_count) {
        const size_t image = w->found[begin].box->image;
        size_t count = 0, found = 0;
        while (first < w->truth_count && w->truth[first]->image < image)
            first++;
        while (first + count < w->truth_count && w->truth[first + count]->image == image)
            count++;
        while (begin + found < w->found_count && w->found[begin + found].box->image == image)
            found++;
        match_picture(w, first, count, begin, found, size);
        begin += found;
    }
}

/* The mean of the precision at 101 recalls, and the last recall. */
static double walk(class_work *w, int t, int limit, size_t positives, double *recall) {
    size_t count = 0, at = 0;
    double right = 0, wrong = 0, sum = 0;
    for (size_t i = 0; i < w->found_count; i++) {
        const judged *one = w->order[i];
        if (one->rank >= (size_t)limit)
            continue;
        right += one->right[t] && !one->ignored[t];
        wrong += !one->right[t] && !one->ignored[t];
        w->recall[count] = right / (double)positives;
        w->precision[count++] = right / (wrong + right + DBL_EPSILON);
    }
    *recall = count ? w->recall[count - 1] : 0;
    for (size_t i = count; i > 1; i--)
        w->precision[i - 2] = fmax(w->precision[i - 2], w->precision[i - 1]);
    for (int r = 0; r < RECALLS; r++) {
        const double wanted = r == RECALLS - 1 ? 1 : r * (1.0 / (RECALLS - 1));
        while (at < count && w->recall[at] < wanted)
            at++;
        sum += at < count ? w->precision[at] : 0;
    }
    return sum / RECALLS;
}

/* Returns the class's precision; NaN: it has no true objects. */
static double judge_class(class_work *w, sums *to) {
    double precision = NAN;
    for (int size = 0; size < SIZES; size++) {
        size_t positives = 0;
        for (size_t i = 0; i < w->truth_count; i++) {
            w->ignored[i] = w->truth[i]->crowd || !has_size(w->truth[i]->area, size);
            positives += !w->ignored[i];
        }
        if (!positives)
            continue;
        match_all(w, size);
        double sum = 0, recall;
        for (int t = 0; t < OVERLAPS; t++) {
            for (int m = 0; m < LIMITS; m++) {
                const double mean = walk(w, t, limits[m], positives, &recall);
                to->recall[t][size][m] += recall;
                to->precision[t][size] += m == LIMITS - 1 ? mean : 0;
                sum += m == LIMITS - 1 ? mean : 0;
            }
        }
        precision = size ? precision : sum / OVERLAPS;
        to->classes[size]++;
    }
    return precision;
}

/* ---- order ------------------------------------------------------------------------------------------------------- */

/* By class, picture, and place in the caller's array. */
static int compare_places(const mr_boxed *a, const mr_boxed *b) {
    if (a->label != b->label)
        return a->label < b->label ? -1 : 1;
    return a->image != b->image ? a->image < b->image ? -1 : 1 : 0;
}

static int compare_truth(const void *one, const void *other) {
    const mr_boxed *a = *(const mr_boxed *const *)one, *b = *(const mr_boxed *const *)other;
    const int places = compare_places(a, b);
    return places ? places : a < b ? -1 : a > b;
}

static int compare_found(const void *one, const void *other) {
    const mr_boxed *a = *(const mr_boxed *const *)one, *b = *(const mr_boxed *const *)other;
    const int places = compare_places(a, b);
    if (places)
        return places;
    return a->score != b->score ? a->score > b->score ? -1 : 1 : a < b ? -1 : a > b;
}

static int compare_scores(const void *one, const void *other) {
    const judged *a = *(const judged *const *)one, *b = *(const judged *const *)other;
    return a->box->score != b->box->score ? a->box->score > b->box->score ? -1 : 1 : a < b ? -1 : a > b;
}

static const mr_boxed **sorted(const mr_boxed *boxes, size_t count, int (*compare)(const void *, const void *)) {
    const mr_boxed **made = mr_alloc((count + 1) * sizeof *made);
    for (size_t i = 0; made && i < count; i++)
        made[i] = &boxes[i];
    if (made)
        qsort(made, count, sizeof *made, compare);
    return made;
}

/* ---- together ---------------------------------------------------------------------------------------------------- */

static double mean_of(const sums *from, int first, int count, int size) {
    double sum = 0;
    for (int t = first; t < first + count; t++)
        sum += from->precision[t][size];
    return from->classes[size] ? sum / (double)from->classes[size] / count : (double)NAN;
}

static double recall_of(const sums *from, int size, int limit) {
    double sum = 0;
    for (int t = 0; t < OVERLAPS; t++)
        sum += from->recall[t][size][limit];
    return from->classes[size] ? sum / (double)from->classes[size] / OVERLAPS : (double)NAN;
}

static mr_object_figures figures_of(const sums *from) {
    return (mr_object_figures){
        .precision = mean_of(from, 0, OVERLAPS, 0), .precision_50 = mean_of(from, 0, 1, 0),
        .precision_75 = mean_of(from, 5, 1, 0), .precision_small = mean_of(from, 0, OVERLAPS, 1),
        .precision_medium = mean_of(from, 0, OVERLAPS, 2), .precision_large = mean_of(from, 0, OVERLAPS, 3),
        .recall_1 = recall_of(from, 0, 0), .recall_10 = recall_of(from, 0, 1), .recall_100 = recall_of(from, 0, 2),
        .recall_small = recall_of(from, 1, 2), .recall_medium = recall_of(from, 2, 2),
        .recall_large = recall_of(from, 3, 2)};
}

/* Takes the objects of one class that was found, from `found`. */
static void begin_class(class_work *w, const mr_boxed *const *found, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const bool same = i && found[i]->image == found[i - 1]->image;
        w->found[i] = (judged){.box = found[i], .rank = same ? w->found[i - 1].rank + 1 : 0};
        w->order[i] = &w->found[i];
    }
    w->found_count = count;
    qsort(w->order, count, sizeof *w->order, compare_scores);
}

static size_t count_label(const mr_boxed *const *boxes, size_t count, int32_t label) {
    size_t found = 0;
    while (found < count && boxes[found]->label == label)
        found++;
    return found;
}

int mr_object_figures_make(const mr_boxed *truth, size_t truth_count, const mr_boxed *found, size_t found_count,
                           size_t classes, mr_object_figures *all, double *each) {
    MR_PLAIN_NUMBERS;
    class_work w = {.found = mr_alloc((found_count + 1) * sizeof *w.found),
                    .order = mr_alloc((found_count + 1) * sizeof *w.order),
                    .ignored = mr_alloc(truth_count + 1), .taken = mr_alloc(truth_count + 1),
                    .recall = mr_alloc((found_count + 1) * sizeof *w.recall),
                    .precision = mr_alloc((found_count + 1) * sizeof *w.precision)};
    const mr_boxed **wanted = sorted(truth, truth_count, compare_truth);
    const mr_boxed **given = sorted(found, found_count, compare_found);
    sums to = {0};
    const bool enough = w.found && w.order && w.ignored && w.taken && w.recall && w.precision && wanted && given;
    for (size_t k = 0, at = 0, from = 0; enough && k < classes; k++) {
        w.truth = wanted + at;
        w.truth_count = count_label(w.truth, truth_count - at, (int32_t)k);
        begin_class(&w, given + from, count_label(given + from, found_count - from, (int32_t)k));
        each[k] = judge_class(&w, &to);
        at += w.truth_count;
        from += w.found_count;
    }
    *all = figures_of(&to);
    void *const memory[] = {w.found, w.order, w.ignored, w.taken, w.recall, w.precision, wanted, given};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        mr_free(memory[i]);
    return enough ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for the figures of %zu objects", found_count);
}
