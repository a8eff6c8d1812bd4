/* MOTA, IDF1 and HOTA of tracks. Follows clear.py, identity.py, hota.py and mot_challenge_2d_box.py of trackeval
 * 1.3.0. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "kernels/metrics/assignment.h"
#include "millrace/figures.h"
#include "millrace/status.h"

enum { LEVELS = 19 }; /* of overlap in HOTA: 0.05 to 0.95 */

static const size_t NONE = SIZE_MAX;
static const double HALF = 0.5 - DBL_EPSILON;

/* Sums over classes and sequences. */
typedef struct counts {
    double truth, found, matched, switches, overlaps, same;
    double right[LEVELS], association[LEVELS];
    size_t tracks, found_tracks, mostly_tracked, mostly_lost;
} counts;

/* A box; its track has a number from 0. */
typedef struct tracked {
    const mr_boxed *box;
    size_t track;
} tracked;

typedef struct boxes {
    tracked *item; /* by picture */
    size_t count, tracks;
    double *seen; /* boxes of each track */
} boxes;

/* True and found objects of one picture that have one position in HOTA's best matching. */
typedef struct match {
    size_t truth, found; /* tracks */
    double overlap;
} match;

/* One class in one sequence. Matrices have a row for each true track, or for each true object of a picture. */
typedef struct part {
    boxes truth, found;
    double *same;      /* pictures in which both tracks overlap by half */
    double *alignment; /* HOTA's global alignment score */
    double *overlap, *cost, *sums; /* sums: of rows, then of columns */
    int *column;
    void *space;
    match *matches;
    size_t match_count;
    size_t *last, *before; /* of each true track: its last match; that in the picture before */
    double *followed;      /* of each true track: pictures with a match */
} part;

/* ---- pictures ---------------------------------------------------------------------------------------------------- */

typedef struct picture {
    const tracked *truth, *found;
    size_t rows, columns;
} picture;

static size_t in_picture(const boxes *of, size_t from, size_t image) {
    size_t count = 0;
    while (from + count < of->count && of->item[from + count].box->image == image)
        count++;
    return count;
}

/* The next picture that has any object. Begins with a picture of zeros. */
static bool next_picture(const part *p, picture *at) {
    const size_t t = at->truth ? (size_t)(at->truth - p->truth.item) + at->rows : 0;
    const size_t f = at->truth ? (size_t)(at->found - p->found.item) + at->columns : 0;
    if (t == p->truth.count && f == p->found.count)
        return false;
    size_t image = t < p->truth.count ? p->truth.item[t].box->image : SIZE_MAX;
    if (f < p->found.count && p->found.item[f].box->image < image)
        image = p->found.item[f].box->image;
    *at = (picture){p->truth.item + t, p->found.item + f, in_picture(&p->truth, t, image),
                    in_picture(&p->found, f, image)};
    return true;
}

static double overlap_of(const mr_boxed *a, const mr_boxed *b) {
    const double ar = a->left + a->width, ab = a->top + a->height, br = b->left + b->width, bb = b->top + b->height;
    const double width = fmax(fmin(ar, br) - fmax(a->left, b->left), 0);
    const double height = fmax(fmin(ab, bb) - fmax(a->top, b->top), 0);
    const double both = width * height;
    const double either = (ar - a->left) * (ab - a->top) + (br - b->left) * (bb - b->top) - both;
    return either > DBL_EPSILON ? both / either : 0;
}

static void find_overlaps(part *p, const picture *at) {
    for (size_t i = 0; i < at->rows; i++)
        for (size_t k = 0; k < at->columns; k++)
            p->overlap[i * at->columns + k] = overlap_of(at->truth[i].box, at->found[k].box);
}

/* Costs are below 0 for pairs that may match. */
static void assign(part *p, const picture *at) {
    mr_assign(p->cost, at->rows, at->columns, 0, p->column, p->space);
}

/* ---- figures of a part ------------------------------------------------------------------------------------------- */

/* Objects found on a true one that does not count are neither right nor wrong. */
static void remove_ignored(part *p) {
    picture at = {0};
    size_t kept = 0;
    while (next_picture(p, &at)) {
        bool ignored = false;
        for (size_t i = 0; i < at.rows; i++)
            ignored |= at.truth[i].box->crowd;
        if (!ignored)
            continue;
        find_overlaps(p, &at);
        for (size_t i = 0; i < at.rows * at.columns; i++)
            p->cost[i] = p->overlap[i] < HALF ? 0 : -p->overlap[i];
        assign(p, &at);
        for (size_t i = 0; i < at.rows; i++)
            if (p->column[i] >= 0 && at.truth[i].box->crowd &&
                p->overlap[i * at.columns + (size_t)p->column[i]] >= HALF)
                p->found.item[at.found - p->found.item + p->column[i]].track = NONE;
    }
    for (size_t i = 0; i < p->found.count; i++)
        if (p->found.item[i].track != NONE)
            p->found.item[kept++] = p->found.item[i];
    p->found.count = kept;
    kept = 0;
    for (size_t i = 0; i < p->truth.count; i++)
        if (!p->truth.item[i].box->crowd && p->truth.item[i].box->label >= 0)
            p->truth.item[kept++] = p->truth.item[i];
    p->truth.count = kept;
}

/* Matches pairs that overlap by half: first those that matched in the picture before, then the most overlap. */
static void match_clear(part *p, const picture *at, counts *to) {
    find_overlaps(p, at);
    for (size_t i = 0; i < at->rows; i++)
        for (size_t k = 0; k < at->columns; k++) {
            const double overlap = p->overlap[i * at->columns + k];
            const bool again = p->before[at->truth[i].track] == at->found[k].track;
            p->cost[i * at->columns + k] = overlap < HALF ? 0 : -overlap - (again ? 1000 : 0);
        }
    assign(p, at);
    for (size_t i = 0; i < p->truth.tracks; i++)
        p->before[i] = NONE;
    for (size_t i = 0; i < at->rows; i++) {
        const size_t track = at->truth[i].track;
        const size_t cell = i * at->columns + (p->column[i] < 0 ? 0 : (size_t)p->column[i]);
        if (p->column[i] < 0 || p->overlap[cell] < HALF)
            continue;
        const size_t found = at->found[p->column[i]].track;
        to->switches += p->last[track] != NONE && p->last[track] != found;
        to->overlaps += p->overlap[cell];
        to->matched++;
        p->followed[track]++;
        p->last[track] = p->before[track] = found;
    }
}

static void judge_clear(part *p, counts *to) {
    picture at = {0};
    for (size_t i = 0; i < p->truth.tracks; i++)
        p->last[i] = p->before[i] = NONE;
    while (next_picture(p, &at))
        if (at.rows && at.columns)
            match_clear(p, &at, to);
    for (size_t i = 0; i < p->truth.tracks; i++) {
        const double share = p->followed[i] / p->truth.seen[i];
        to->mostly_tracked += share > 0.8;
        to->mostly_lost += share < 0.2;
    }
}

/* Counts for each pair of tracks in how many pictures they overlap by half, and adds up how much of a picture's overlap
 * is theirs. */
static void compare_tracks(part *p, const picture *at) {
    find_overlaps(p, at);
    memset(p->sums, 0, (at->rows + at->columns) * sizeof *p->sums);
    for (size_t i = 0; i < at->rows * at->columns; i++) {
        p->sums[i / at->columns] += p->overlap[i];
        p->sums[at->rows + i % at->columns] += p->overlap[i];
    }
    for (size_t i = 0; i < at->rows; i++)
        for (size_t k = 0; k < at->columns; k++) {
            const double overlap = p->overlap[i * at->columns + k];
            const double either = p->sums[i] + p->sums[at->rows + k] - overlap;
            const size_t cell = at->truth[i].track * p->found.tracks + at->found[k].track;
            p->alignment[cell] += either > DBL_EPSILON ? overlap / either : 0;
            p->same[cell] += overlap >= 0.5;
        }
}

/* The pairs of tracks with most pictures together. */
static int judge_identity(part *p, counts *to) {
    const size_t rows = p->truth.tracks, columns = p->found.tracks;
    int *column = mr_alloc((rows + 1) * sizeof *column);
    void *space = mr_alloc(mr_assignment_bytes(rows, columns));
    double *cost = mr_alloc((rows * columns + 1) * sizeof *cost);
    const bool enough = column && space && cost;
    for (size_t i = 0; enough && i < rows * columns; i++)
        cost[i] = -p->same[i];
    if (enough)
        mr_assign(cost, rows, columns, 0, column, space);
    for (size_t i = 0; enough && i < rows; i++)
        to->same += column[i] < 0 ? 0 : p->same[i * columns + (size_t)column[i]];
    mr_free(column);
    mr_free(space);
    mr_free(cost);
    return enough ? MR_OK : MR_ERROR_MEMORY;
}

static void match_hota(part *p, const picture *at) {
    find_overlaps(p, at);
    for (size_t i = 0; i < at->rows; i++)
        for (size_t k = 0; k < at->columns; k++)
            p->cost[i * at->columns + k] = -p->overlap[i * at->columns + k] *
                p->alignment[at->truth[i].track * p->found.tracks + at->found[k].track];
    assign(p, at);
    for (size_t i = 0; i < at->rows; i++)
        if (p->column[i] >= 0)
            p->matches[p->match_count++] = (match){at->truth[i].track, at->found[p->column[i]].track,
                                                   p->overlap[i * at->columns + (size_t)p->column[i]]};
}

/* `same` is used again, for the matches of each pair of tracks. */
static void judge_level(part *p, int level, counts *to) {
    const double least = 0.05 + level * 0.05 - DBL_EPSILON;
    memset(p->same, 0, p->truth.tracks * p->found.tracks * sizeof *p->same);
    for (size_t i = 0; i < p->match_count; i++) {
        const match *one = &p->matches[i];
        to->right[level] += one->overlap >= least;
        p->same[one->truth * p->found.tracks + one->found] += one->overlap >= least;
    }
    for (size_t i = 0; i < p->truth.tracks; i++)
        for (size_t k = 0; k < p->found.tracks; k++) {
            const double both = p->same[i * p->found.tracks + k];
            to->association[level] += both * both / fmax(1, p->truth.seen[i] + p->found.seen[k] - both);
        }
}

static void judge_hota(part *p, counts *to) {
    picture at = {0};
    for (size_t i = 0; i < p->truth.tracks; i++)
        for (size_t k = 0; k < p->found.tracks; k++) {
            double *cell = &p->alignment[i * p->found.tracks + k];
            *cell /= p->truth.seen[i] + p->found.seen[k] - *cell;
        }
    while (next_picture(p, &at))
        if (at.rows && at.columns)
            match_hota(p, &at);
    for (int level = 0; level < LEVELS; level++)
        judge_level(p, level, to);
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

static int compare_numbers(const void *one, const void *other) {
    const int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;
    return a < b ? -1 : a > b;
}

/* Numbers the tracks from 0, and counts their boxes. */
static int number_tracks(boxes *of) {
    int64_t *ids = mr_alloc((of->count + 1) * sizeof *ids);
    if (!ids || !(of->seen = mr_calloc(of->count + 1, sizeof *of->seen))) {
        mr_free(ids);
        return MR_ERROR_MEMORY;
    }
    for (size_t i = 0; i < of->count; i++)
        ids[i] = of->item[i].box->track;
    qsort(ids, of->count, sizeof *ids, compare_numbers);
    for (size_t i = 0; i < of->count; i++)
        if (!i || ids[i] != ids[i - 1])
            ids[of->tracks++] = ids[i];
    for (size_t i = 0; i < of->count; i++) {
        const int64_t *id = bsearch(&of->item[i].box->track, ids, of->tracks, sizeof *ids, compare_numbers);
        of->item[i].track = (size_t)(id - ids);
        of->seen[of->item[i].track]++;
    }
    mr_free(ids);
    return MR_OK;
}

/* Memory for the largest picture. */
static int make_room(part *p) {
    picture at = {0};
    size_t rows = 0, columns = 0;
    while (next_picture(p, &at)) {
        rows = at.rows > rows ? at.rows : rows;
        columns = at.columns > columns ? at.columns : columns;
    }
    p->overlap = mr_alloc((rows * columns + 1) * sizeof *p->overlap);
    p->cost = mr_alloc((rows * columns + 1) * sizeof *p->cost);
    p->sums = mr_alloc((rows + columns + 1) * sizeof *p->sums);
    p->column = mr_alloc((rows + 1) * sizeof *p->column);
    p->space = mr_alloc(mr_assignment_bytes(rows, columns));
    return p->overlap && p->cost && p->sums && p->column && p->space ? MR_OK : MR_ERROR_MEMORY;
}

static int make_matrices(part *p) {
    int status = number_tracks(&p->truth);
    status = status ? status : number_tracks(&p->found);
    if (status)
        return status;
    p->same = mr_calloc(p->truth.tracks * p->found.tracks + 1, sizeof *p->same);
    p->alignment = mr_calloc(p->truth.tracks * p->found.tracks + 1, sizeof *p->alignment);
    p->matches = mr_alloc((p->truth.count + 1) * sizeof *p->matches);
    p->last = mr_alloc((p->truth.tracks + 1) * sizeof *p->last);
    p->before = mr_alloc((p->truth.tracks + 1) * sizeof *p->before);
    p->followed = mr_calloc(p->truth.tracks + 1, sizeof *p->followed);
    return p->same && p->alignment && p->matches && p->last && p->before && p->followed ? MR_OK : MR_ERROR_MEMORY;
}

static int judge_part(part *p, counts *to) {
    picture at = {0};
    int status = make_room(p);
    if (status)
        return status;
    remove_ignored(p);
    status = make_matrices(p);
    if (status)
        return status;
    to->truth += (double)p->truth.count;
    to->found += (double)p->found.count;
    to->tracks += p->truth.tracks;
    to->found_tracks += p->found.tracks;
    judge_clear(p, to);
    while (next_picture(p, &at))
        compare_tracks(p, &at);
    status = judge_identity(p, to);
    if (!status)
        judge_hota(p, to);
    return status;
}

static void free_part(part *p) {
    void *const memory[] = {p->truth.item, p->truth.seen, p->found.item, p->found.seen, p->same, p->alignment,
                            p->overlap, p->cost, p->sums, p->column, p->space, p->matches, p->last, p->before,
                            p->followed};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        mr_free(memory[i]);
}

/* ---- together ---------------------------------------------------------------------------------------------------- */

static int compare_images(const void *one, const void *other) {
    const mr_boxed *a = *(const mr_boxed *const *)one, *b = *(const mr_boxed *const *)other;
    if (a->image != b->image)
        return a->image < b->image ? -1 : 1;
    return a < b ? -1 : a > b;
}

static const mr_boxed **by_image(const mr_boxed *list, size_t count) {
    const mr_boxed **made = mr_alloc((count + 1) * sizeof *made);
    for (size_t i = 0; made && i < count; i++)
        made[i] = &list[i];
    if (made)
        qsort(made, count, sizeof *made, compare_images);
    return made;
}

/* Takes the class's objects of a sequence from those of all classes; objects without a class are compared with all. */
static bool take(boxes *to, const mr_boxed *const *list, size_t count, int32_t label, bool truth) {
    to->item = mr_alloc((count + 1) * sizeof *to->item);
    for (size_t i = 0; to->item && i < count; i++) {
        const bool wanted = truth ? list[i]->label == label || list[i]->label < 0
                                  : list[i]->label == label && list[i]->track > 0;
        if (wanted)
            to->item[to->count++] = (tracked){.box = list[i]};
    }
    return to->item;
}

static size_t in_sequence(const mr_boxed *const *list, size_t count, const size_t *sequence, size_t number) {
    size_t found = 0;
    while (found < count && (sequence ? sequence[list[found]->image] : 0) == number)
        found++;
    return found;
}

static int judge_sequence(const mr_boxed *const *truth, size_t truth_count, const mr_boxed *const *found,
                          size_t found_count, size_t classes, counts *to) {
    int status = MR_OK;
    for (size_t k = 0; k < classes && !status; k++) {
        part p = {0};
        const bool taken = take(&p.truth, truth, truth_count, (int32_t)k, true) &&
                           take(&p.found, found, found_count, (int32_t)k, false);
        status = taken ? judge_part(&p, to) : MR_ERROR_MEMORY;
        free_part(&p);
    }
    return status;
}

static mr_track_figures figures_of(const counts *from) {
    mr_track_figures all = {
        .objects = (uint64_t)from->truth, .found = (uint64_t)from->found, .matched = (uint64_t)from->matched,
        .switches = (uint64_t)from->switches, .tracks = from->tracks, .found_tracks = from->found_tracks,
        .mostly_tracked = from->mostly_tracked, .mostly_lost = from->mostly_lost,
        .mota = (from->matched - (from->found - from->matched) - from->switches) / fmax(1, from->truth),
        .motp = from->overlaps / fmax(1, from->matched),
        .idf1 = from->same / fmax(1, 0.5 * (from->truth + from->found)),
        .id_precision = from->same / fmax(1, from->found), .id_recall = from->same / fmax(1, from->truth)};
    for (int i = 0; i < LEVELS; i++) {
        const double detection = from->right[i] / fmax(1, from->truth + from->found - from->right[i]);
        const double association = from->association[i] / fmax(1, from->right[i]);
        all.detection += detection / LEVELS;
        all.association += association / LEVELS;
        all.hota += sqrt(detection * association) / LEVELS;
    }
    return all;
}

int mr_track_figures_make(const mr_boxed *truth, size_t truth_count, const mr_boxed *found, size_t found_count,
                          size_t classes, const size_t *sequence, size_t sequences, mr_track_figures *all) {
    MR_PLAIN_NUMBERS;
    const mr_boxed **wanted = by_image(truth, truth_count), **given = by_image(found, found_count);
    counts to = {0};
    int status = wanted && given ? MR_OK : MR_ERROR_MEMORY;
    for (size_t s = 0, t = 0, f = 0; s < sequences && !status; s++) {
        const size_t rows = in_sequence(wanted + t, truth_count - t, sequence, s);
        const size_t columns = in_sequence(given + f, found_count - f, sequence, s);
        status = judge_sequence(wanted + t, rows, given + f, columns, classes, &to);
        t += rows;
        f += columns;
    }
    *all = figures_of(&to);
    mr_free(wanted);
    mr_free(given);
    return status ? mr_fail(status, "no memory for the figures of %zu objects", found_count) : MR_OK;
}
