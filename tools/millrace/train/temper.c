#include "tools/millrace/train/temper.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "millrace/status.h"
#include "tools/millrace/train/judge.h"

static bool are_probabilities(const mr_scored *scored) {
    static const double rounding = 1e-3; /* of a thousand numbers in single precision */
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

/* Of a score that is 0 in single precision, of the smallest that is not. */
static double logit_of(double score) {
    return log(score > (double)FLT_TRUE_MIN ? score : (double)FLT_TRUE_MIN);
}

static double *logits_of(const mr_scored *scored) {
    const size_t count = scored->rows * scored->classes;
    double *logits = malloc((count + 1) * sizeof *logits);
    for (size_t i = 0; i < count && logits; i++)
        logits[i] = logit_of(scored->scores[i]);
    return logits;
}

/* Divides a row's logits and makes scores of them. */
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
    mr_scored logits = *validation;
    double *own = logits_of(validation);
    if (!own)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the temperature");
    logits.scores = own;
    made->temperature = mr_temperature(&logits);
    made->rows = validation->rows;
    free(own);
    return MR_OK;
}

int mr_temper(mr_tempered *made, const mr_scored *validation, const mr_scored *judged) {
    mr_calibration_bin bins[MR_JUDGE_BINS];
    *made = (mr_tempered){0};
    if (!validation->rows || !are_probabilities(validation) || !are_probabilities(judged))
        return MR_OK;
    int status = fit(made, validation);
    double *scores = status ? NULL : logits_of(judged);
    if (!scores)
        return status ? status : mr_fail(MR_ERROR_MEMORY, "no memory for the temperature");
    for (size_t i = 0; i < judged->rows; i++)
        temper_row(scores + i * judged->classes, judged->classes, made->temperature);
    mr_scored tempered = *judged;
    tempered.scores = scores;
    made->log_loss = mr_log_loss(&tempered);
    made->calibration_error = mr_calibrate(&tempered, MR_JUDGE_BINS, bins);
    free(scores);
    return MR_OK;
}

void mr_tempered_put(const mr_tempered *tempered, yajl_gen json) {
    mr_json_key(json, "temperature");
    if (!(tempered->temperature > 0)) {
        yajl_gen_null(json);
        return;
    }
    mr_json_open_map(json, NULL);
    mr_json_exact(json, "fitted", tempered->temperature);
    mr_json_integer(json, "rows", (int64_t)tempered->rows);
    mr_json_exact(json, "log_loss", tempered->log_loss);
    mr_json_exact(json, "calibration_error", tempered->calibration_error);
    yajl_gen_map_close(json);
}
