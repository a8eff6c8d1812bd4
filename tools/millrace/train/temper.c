#include "tools/millrace/train/temper.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "millrace/status.h"
#include "tools/millrace/train/judge.h"

static bool are_probabilities(const mr_scored *scored) {
    static const double rounding = 1e-3; /* for a thousand single precision numbers */
    for (size_t i = 0; i < scored->rows; i++) {
        double sum = 0;
        for (size_t j = 0; j < scored->classes; j++) {
            const double score = scored->scores[i * scored->classes + j];
            if (!(score >= 0))
                return false;
            sum += score;
        }
        if (!(fabs(sum - 1) <= rounding))
            return false;
    }
    return true;
}

/* If a score is 0 in single precision, the smallest nonzero value counts. */
static double logit_of(double score) {
    return log(score > (double)FLT_TRUE_MIN ? score : (double)FLT_TRUE_MIN);
}

/* As logits, in place. */
static void take_logits(double *row, const double *scores, size_t count) {
    for (size_t i = 0; i < count; i++)
        row[i] = logit_of(scores[i]);
}

/* Divides a row's logits and turns them into scores. */
static void temper_row(double *row, size_t classes, double temperature) {
    double largest = row[0], sum = 0;
    for (size_t j = 1; j < classes; j++)
        largest = row[j] > largest ? row[j] : largest;
    for (size_t j = 0; j < classes; j++)
        sum += row[j] = exp((row[j] - largest) / temperature);
    for (size_t j = 0; j < classes; j++)
        row[j] /= sum;
}

static int fit(mr_tempered *made, const mr_scored *validation) {
    const size_t count = validation->rows * validation->classes;
    mr_scored logits = *validation;
    double *own = malloc((count + 1) * sizeof *own);
    if (!own)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the temperature");
    take_logits(own, validation->scores, count);
    logits.scores = own;
    made->temperature = mr_temperature(&logits);
    made->rows = validation->rows;
    free(own);
    return MR_OK;
}

/* Reduces a row to the scores that log loss and calibration need: those for its class and its first class, in class
 * order. */
static int32_t shorten(const double *row, size_t classes, int32_t truth, double two[2]) {
    const int32_t first = mr_first_class(row, classes);
    two[truth < first] = row[first];
    two[first < truth] = row[truth];
    if (first == truth)
        two[1] = 0;
    return first < truth;
}

/* Computes figures from tempered scores, of which two per row are kept. */
static int judge_tempered(mr_tempered *made, const mr_scored *judged) {
    const size_t classes = judged->classes;
    mr_calibration_bin bins[MR_JUDGE_BINS];
    double *row = malloc(classes * sizeof *row), *two = malloc((judged->rows + 1) * 2 * sizeof *two);
    int32_t *truth = malloc((judged->rows + 1) * sizeof *truth);
    int status = row && two && truth ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for the temperature");
    for (size_t i = 0; i < judged->rows && !status; i++) {
        take_logits(row, judged->scores + i * classes, classes);
        temper_row(row, classes, made->temperature);
        truth[i] = shorten(row, classes, judged->truth[i], two + 2 * i);
    }
    if (!status) {
        const mr_scored tempered = {.rows = judged->rows, .classes = 2, .scores = two, .truth = truth};
        made->log_loss = mr_log_loss(&tempered);
        made->calibration_error = mr_calibrate(&tempered, MR_JUDGE_BINS, bins);
    }
    free(row);
    free(two);
    free(truth);
    return status;
}

int mr_temper(mr_tempered *made, const mr_scored *validation, const mr_scored *judged) {
    *made = (mr_tempered){0};
    if (!validation->rows || !are_probabilities(validation) || !are_probabilities(judged))
        return MR_OK;
    int status = fit(made, validation);
    return status ? status : judge_tempered(made, judged);
}

void mr_tempered_put(const mr_tempered *tempered, yajl_gen json) {
    mr_json_key(json, "temperature");
    if (!(tempered->temperature > 0)) {
        yajl_gen_null(json);
        return;
    }
    MR_JSON_MAP(json, NULL) {
        mr_json_exact(json, "fitted", tempered->temperature);
        mr_json_integer(json, "rows", (int64_t)tempered->rows);
        mr_json_exact(json, "log_loss", tempered->log_loss);
        mr_json_exact(json, "calibration_error", tempered->calibration_error);
    }
}
