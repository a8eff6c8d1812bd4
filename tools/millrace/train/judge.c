#include "tools/millrace/train/judge.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/print.h"
#include "millrace/status.h"

/* ---- figures ----------------------------------------------------------------------------------------------------- */

/* With a million rows, intervals take a minute. */
static int check_stopped(const mr_judged *of) {
    return of->stopped && of->stopped() ? mr_fail(MR_ERROR_CANCELLED, "interrupted") : MR_OK;
}

/* Data for a resample's figure. */
typedef struct resampled {
    const mr_judgement *judgement;
    mr_judged_figure figure;
    uint64_t *confusion;
    mr_class_figures *each;
    const double *loss; /* per row */
    int status;         /* why the rest is missing */
} resampled;

static double mean_of(const double *value, const size_t *row, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += value[row[i]];
    return count ? sum / (double)count : NAN;
}

static double figure_of(void *user, const size_t *row, size_t count) {
    resampled *of = user;
    const mr_scored *scored = &of->judgement->of->scored;
    const size_t classes = scored->classes;
    mr_figures all;
    if (!of->status)
        of->status = check_stopped(of->judgement->of);
    if (of->status)
        return NAN;
    if (of->figure == MR_JUDGED_LOG_LOSS)
        return mean_of(of->loss, row, count);
    memset(of->confusion, 0, classes * classes * sizeof *of->confusion);
    for (size_t i = 0; i < count; i++)
        of->confusion[(size_t)scored->truth[row[i]] * classes + (size_t)of->judgement->first[row[i]]]++;
    mr_figures_make(of->confusion, classes, of->each, &all);
    return of->figure == MR_JUDGED_BALANCED ? all.balanced_accuracy : all.f1;
}

/* Accuracy is a share of rows. If no row is wrong, the other two figures' resamples are all alike too and show nothing:
 * they get the accuracy's interval. */
static int widen_intervals(mr_judgement *made) {
    const mr_judged *of = made->of;
    mr_interval *interval = made->interval;
    bool *right = calloc(of->scored.rows + 1, sizeof *right);
    if (!right)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the figures");
    for (size_t i = 0; i < of->scored.rows; i++)
        right[i] = made->first[i] == of->scored.truth[i];
    int status =
        mr_share_interval(of->group, right, of->scored.rows, of->groups, &interval[MR_JUDGED_ACCURACY]);
    if (made->all.right == made->all.rows)
        interval[MR_JUDGED_BALANCED] = interval[MR_JUDGED_F1] = interval[MR_JUDGED_ACCURACY];
    free(right);
    return status;
}

static int make_intervals(mr_judgement *made) {
    const mr_judged *of = made->of;
    const size_t rows = of->scored.rows, classes = of->scored.classes;
    const size_t resamples = rows * classes > 10000000 ? 200 : 1000;
    double *loss = calloc(rows + 1, sizeof *loss);
    resampled user = {.judgement = made,
                      .loss = loss,
                      .confusion = calloc(classes * classes, sizeof *user.confusion),
                      .each = calloc(classes, sizeof *user.each)};
    int status = loss && user.confusion && user.each ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for the figures");
    for (size_t i = 0; i < rows && !status; i++) {
        const mr_scored one = {
            .rows = 1, .classes = classes, .scores = of->scored.scores + i * classes, .truth = of->scored.truth + i};
        loss[i] = mr_log_loss(&one);
    }
    for (int f = MR_JUDGED_BALANCED; f < MR_JUDGED_FIGURES && !status; f++) {
        user.figure = (mr_judged_figure)f;
        status =
            mr_bootstrap(of->group, rows, of->groups, resamples, of->seed, 0.95, figure_of, &user, &made->interval[f]);
        if (!status)
            status = user.status;
    }
    free(loss);
    free(user.confusion);
    free(user.each);
    return status ? status : widen_intervals(made);
}

/* Keeps only the points that a plot can show: every step-th, and the last. */
static int keep_points(mr_curve *curve) {
    const size_t step = curve->count / MR_JUDGE_POINTS + 1;
    const mr_curve_point *all = curve->points;
    size_t kept = 0;
    curve->points = calloc(curve->count / step + 2, sizeof *curve->points);
    if (!curve->points)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the figures");
    for (size_t i = 0; i < curve->count; i += step)
        curve->points[kept++] = all[i];
    if (curve->count % step != 1 % step)
        curve->points[kept++] = all[curve->count - 1];
    curve->count = kept;
    return MR_OK;
}

/* Workspace for some classes' curves, one class after another. */
enum { TOGETHER = 8 }; /* numbers in a cache line */
typedef struct curve_work {
    double *columns;        /* TOGETHER x rows: these classes' scores */
    int32_t *own;           /* per row; 0: it has this class */
    mr_curve_point *points; /* room for a whole curve */
} curve_work;

static void gather(const mr_scored *scored, size_t first, double *columns) {
    const size_t classes = scored->classes, some = classes - first < TOGETHER ? classes - first : TOGETHER;
    for (size_t i = 0; i < scored->rows; i++)
        for (size_t k = 0; k < some; k++)
            columns[k * scored->rows + i] = scored->scores[i * classes + first + k];
}

static int make_curve(mr_judgement *made, size_t class, const curve_work *work) {
    const mr_scored *scored = &made->of->scored;
    mr_curve *curve = &made->curves[class];
    int status = check_stopped(made->of);
    if (status)
        return status;
    if (class % TOGETHER == 0)
        gather(scored, class, work->columns);
    for (size_t i = 0; i < scored->rows; i++)
        work->own[i] = scored->truth[i] != (int32_t)class;
    const double *column = work->columns + class % TOGETHER * scored->rows;
    curve->points = work->points;
    status = mr_curve_make(&(mr_scored){.rows = scored->rows, .classes = 1, .scores = column, .truth = work->own}, 0,
                           curve);
    if (!status)
        return keep_points(curve);
    curve->points = NULL;
    return status;
}

static double mean_of_known(double sum, size_t count) {
    return count ? sum / (double)count : NAN;
}

static int make_all_curves(mr_judgement *made, const curve_work *work) {
    size_t areas = 0, precisions = 0;
    int status = MR_OK;
    for (size_t j = 0; j < made->of->scored.classes && !status; j++) {
        const mr_curve *curve = &made->curves[j];
        status = make_curve(made, j, work);
        if (!status && isfinite(curve->roc_area)) {
            made->roc_area += curve->roc_area;
            areas++;
        }
        if (!status && isfinite(curve->average_precision)) {
            made->average_precision += curve->average_precision;
            precisions++;
        }
    }
    made->roc_area = mean_of_known(made->roc_area, areas);
    made->average_precision = mean_of_known(made->average_precision, precisions);
    return status;
}

static int make_curves(mr_judgement *made) {
    const size_t rows = made->of->scored.rows + 1;
    const curve_work work = {.columns = calloc(rows * TOGETHER, sizeof *work.columns),
                             .own = calloc(rows, sizeof *work.own), .points = calloc(rows, sizeof *work.points)};
    made->curves = calloc(made->of->scored.classes, sizeof *made->curves);
    int status = work.columns && work.own && work.points && made->curves
                     ? make_all_curves(made, &work)
                     : mr_fail(MR_ERROR_MEMORY, "no memory for the figures");
    free(work.columns);
    free(work.own);
    free(work.points);
    return status;
}

/* ---- wrong rows ----------------------------------------------------------------------------------------------- */

static int compare_pairs(const void *a, const void *b) {
    const mr_mixed_pair *x = a, *y = b;
    if (x->rows != y->rows)
        return x->rows > y->rows ? -1 : 1;
    return x->truth != y->truth ? (x->truth < y->truth ? -1 : 1) : x->first < y->first ? -1 : 1;
}

static int compare_wrong(const void *a, const void *b) {
    const mr_wrong_row *x = a, *y = b;
    if (x->score > y->score || x->score < y->score)
        return x->score > y->score ? -1 : 1;
    return x->row < y->row ? -1 : 1;
}

static int list_wrong(mr_judgement *made) {
    const mr_scored *scored = &made->of->scored;
    const size_t classes = scored->classes;
    size_t wrong = made->all.rows - made->all.right;
    made->pairs = calloc(wrong + 1, sizeof *made->pairs);
    made->wrong = calloc(wrong + 1, sizeof *made->wrong);
    if (!made->pairs || !made->wrong)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the figures");
    for (size_t t = 0; t < classes; t++)
        for (size_t p = 0; p < classes; p++)
            if (t != p && made->confusion[t * classes + p])
                made->pairs[made->pair_count++] =
                    (mr_mixed_pair){.truth = (int32_t)t, .first = (int32_t)p, .rows = made->confusion[t * classes + p]};
    for (size_t i = 0; i < scored->rows; i++)
        if (made->first[i] != scored->truth[i])
            made->wrong[made->wrong_count++] = (mr_wrong_row){
                .row = i, .first = made->first[i], .score = scored->scores[i * classes + (size_t)made->first[i]]};
    qsort(made->pairs, made->pair_count, sizeof *made->pairs, compare_pairs);
    qsort(made->wrong, made->wrong_count, sizeof *made->wrong, compare_wrong);
    return MR_OK;
}

int mr_judge(mr_judgement *made, const mr_judged *of) {
    const mr_scored *scored = &of->scored;
    *made = (mr_judgement){.of = of};
    made->confusion = calloc(scored->classes * scored->classes, sizeof *made->confusion);
    made->each = calloc(scored->classes, sizeof *made->each);
    made->first = calloc(scored->rows + 1, sizeof *made->first);
    if (!made->confusion || !made->each || !made->first)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the figures");
    for (size_t i = 0; i < scored->rows; i++)
        made->first[i] = mr_first_class(scored->scores + i * scored->classes, scored->classes);
    mr_confusion(scored, made->confusion);
    mr_figures_make(made->confusion, scored->classes, made->each, &made->all);
    made->log_loss = mr_log_loss(scored);
    made->calibration_error = mr_calibrate(scored, MR_JUDGE_BINS, made->bins);
    int status = make_curves(made);
    if (!status)
        status = list_wrong(made);
    return status ? status : make_intervals(made);
}

void mr_judgement_fini(mr_judgement *gone) {
    for (size_t j = 0; gone->curves && j < gone->of->scored.classes; j++)
        free(gone->curves[j].points);
    free(gone->curves);
    free(gone->confusion);
    free(gone->each);
    free(gone->first);
    free(gone->pairs);
    free(gone->wrong);
    *gone = (mr_judgement){0};
}

double mr_judgement_value(const mr_judgement *judgement, mr_judged_figure figure) {
    switch (figure) {
    case MR_JUDGED_ACCURACY:
        return judgement->all.accuracy;
    case MR_JUDGED_BALANCED:
        return judgement->all.balanced_accuracy;
    case MR_JUDGED_F1:
        return judgement->all.f1;
    default:
        return judgement->log_loss;
    }
}

/* ---- as text ----------------------------------------------------------------------------------------------------- */

/* Classes without rows: overall figures exclude them. */
static void tell_absent(const mr_judgement *judgement, FILE *stream) {
    const size_t classes = judgement->of->scored.classes;
    size_t absent = 0, first = 0;
    for (size_t j = classes; j-- > 0;)
        if (!judgement->each[j].rows) {
            absent++;
            first = j;
        }
    if (absent == 1)
        mr_print(stream, "             no picture of \"%s\" was among them\n", judgement->of->names[first]);
    else if (absent)
        mr_print(stream, "             no pictures of %zu of the %zu classes, such as \"%s\", were among them\n",
                 absent, classes, judgement->of->names[first]);
}

/* A single class has no ROC curve. */
static const char *print_area(double area, char text[32]) {
    *text = '\0';
    if (isfinite(area))
        snprintf(text, 32, ", ROC area %.4f", area);
    return text;
}

void mr_judgement_tell(const mr_judgement *judgement, FILE *stream) {
    enum { MOST = 3 };
    char area[32];
    const mr_interval *accuracy = &judgement->interval[MR_JUDGED_ACCURACY];
    mr_print(stream, "accuracy %.4f (95%%: %.4f to %.4f), %llu of %llu right\n", judgement->all.accuracy, accuracy->low,
             accuracy->high, (unsigned long long)judgement->all.right, (unsigned long long)judgement->all.rows);
    mr_print(stream, "             balanced accuracy %.4f, F1 %.4f, log loss %.4f%s, calibration error %.4f\n",
             judgement->all.balanced_accuracy, judgement->all.f1, judgement->log_loss,
             print_area(judgement->roc_area, area), judgement->calibration_error);
    tell_absent(judgement, stream);
    for (size_t i = 0; i < judgement->pair_count && i < MOST; i++) {
        const mr_mixed_pair *pair = &judgement->pairs[i];
        mr_print(stream, "%s \"%s\" taken for \"%s\": %llu of %llu\n", i ? "            " : "  mixed up  ",
                 judgement->of->names[pair->truth], judgement->of->names[pair->first], (unsigned long long)pair->rows,
                 (unsigned long long)judgement->each[pair->truth].rows);
    }
}

/* ---- as JSON ----------------------------------------------------------------------------------------------------- */

static void put_interval(yajl_gen json, const char *key, const mr_interval *interval) {
    MR_JSON_ARRAY(json, key) {
        mr_json_exact(json, NULL, interval->low);
        mr_json_exact(json, NULL, interval->high);
    }
}

static void put_classes(const mr_judgement *judgement, yajl_gen json) {
    MR_JSON_ARRAY(json, "classes")
        for (size_t j = 0; j < judgement->of->scored.classes; j++) {
            const mr_class_figures *each = &judgement->each[j];
            MR_JSON_MAP(json, NULL) {
                mr_json_text(json, "label", judgement->of->names[j]);
                mr_json_integer(json, "rows", (int64_t)each->rows);
                mr_json_integer(json, "first", (int64_t)each->first);
                mr_json_exact(json, "precision", each->precision);
                mr_json_exact(json, "recall", each->recall);
                mr_json_exact(json, "f1", each->f1);
                mr_json_exact(json, "roc_area", judgement->curves[j].roc_area);
                mr_json_exact(json, "average_precision", judgement->curves[j].average_precision);
            }
        }
}

static void put_confusion(const mr_judgement *judgement, yajl_gen json) {
    const size_t classes = judgement->of->scored.classes;
    MR_JSON_ARRAY(json, "confusion")
        for (size_t t = 0; t < classes; t++)
            MR_JSON_ARRAY(json, NULL)
                for (size_t p = 0; p < classes; p++)
                    mr_json_integer(json, NULL, (int64_t)judgement->confusion[t * classes + p]);
}

static void put_calibration(const mr_judgement *judgement, yajl_gen json) {
    MR_JSON_ARRAY(json, "calibration")
        for (size_t i = 0; i < MR_JUDGE_BINS; i++)
            MR_JSON_MAP(json, NULL) {
                mr_json_integer(json, "rows", (int64_t)judgement->bins[i].rows);
                mr_json_integer(json, "right", (int64_t)judgement->bins[i].right);
                mr_json_exact(json, "mean_score", judgement->bins[i].mean_score);
            }
}

static void put_pairs(const mr_judgement *judgement, yajl_gen json) {
    enum { MOST = 20 };
    MR_JSON_ARRAY(json, "mixed_up")
        for (size_t i = 0; i < judgement->pair_count && i < MOST; i++)
            MR_JSON_MAP(json, NULL) {
                mr_json_text(json, "label", judgement->of->names[judgement->pairs[i].truth]);
                mr_json_text(json, "taken_for", judgement->of->names[judgement->pairs[i].first]);
                mr_json_integer(json, "rows", (int64_t)judgement->pairs[i].rows);
            }
}

void mr_judgement_put(const mr_judgement *judgement, bool whole, yajl_gen json) {
    static const char *const names[MR_JUDGED_FIGURES] = {"accuracy", "balanced_accuracy", "f1", "log_loss"};
    mr_json_integer(json, "rows", (int64_t)judgement->all.rows);
    mr_json_integer(json, "right", (int64_t)judgement->all.right);
    for (int f = 0; f < MR_JUDGED_FIGURES; f++)
        mr_json_exact(json, names[f], mr_judgement_value(judgement, (mr_judged_figure)f));
    mr_json_exact(json, "precision", judgement->all.precision);
    mr_json_exact(json, "recall", judgement->all.recall);
    mr_json_exact(json, "roc_area", judgement->roc_area);
    mr_json_exact(json, "average_precision", judgement->average_precision);
    mr_json_exact(json, "calibration_error", judgement->calibration_error);
    MR_JSON_MAP(json, "intervals")
        for (int f = 0; f < MR_JUDGED_FIGURES; f++)
            put_interval(json, names[f], &judgement->interval[f]);
    if (!whole)
        return;
    put_classes(judgement, json);
    put_confusion(judgement, json);
    put_calibration(judgement, json);
    put_pairs(judgement, json);
}

static size_t choose_curves(const mr_judgement *judgement, size_t chosen[MR_JUDGE_CURVES + 1]) {
    size_t count = 0;
    for (size_t j = 0; j < judgement->of->scored.classes; j++) {
        const double area = judgement->curves[j].roc_area;
        size_t at = count;
        if (!isfinite(area))
            continue;
        for (; at > 0 && judgement->curves[chosen[at - 1]].roc_area > area; at--)
            chosen[at] = chosen[at - 1];
        chosen[at] = j;
        count += count < MR_JUDGE_CURVES;
    }
    return count;
}

void mr_judgement_put_curves(const mr_judgement *judgement, yajl_gen json) {
    size_t chosen[MR_JUDGE_CURVES + 1], count = choose_curves(judgement, chosen);
    MR_JSON_ARRAY(json, "curves")
        for (size_t c = 0; c < count; c++) {
            const mr_curve *curve = &judgement->curves[chosen[c]];
            MR_JSON_MAP(json, NULL) {
                mr_json_text(json, "label", judgement->of->names[chosen[c]]);
                MR_JSON_ARRAY(json, "points")
                    for (size_t i = 0; i < curve->count; i++) {
                        const double yes = (double)curve->points[i].true_positives,
                                     no = (double)curve->points[i].false_positives;
                        MR_JSON_ARRAY(json, NULL) {
                            mr_json_number(json, NULL, no / (double)curve->negatives);
                            mr_json_number(json, NULL, yes / (double)curve->positives);
                            mr_json_number(json, NULL, yes / (yes + no));
                        }
                    }
            }
        }
}
