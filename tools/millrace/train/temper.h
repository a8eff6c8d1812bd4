/* Calibrates a classifier's confidence: fits the temperature to divide the logits by on the validation part (Guo et
 * al., On Calibration of Modern Neural Networks, 2017), and computes the resulting figures. */
#pragma once

#include "engine/base/json.h"
#include "millrace/figures.h"

typedef struct mr_tempered {
    double temperature; /* 0: scores are not probabilities of exclusive classes, or there are no rows to fit it to */
    size_t rows;        /* that it was fitted to */
    /* with that temperature, on the judged rows */
    double log_loss, calibration_error;
} mr_tempered;

/* Scores in each row must add up to 1; the logarithms are logits, up to a constant. MR_ERROR_MEMORY. */
int mr_temper(mr_tempered *made, const mr_scored *validation, const mr_scored *judged);
/* Writes a member `temperature`: an object, or null. */
void mr_tempered_put(const mr_tempered *tempered, yajl_gen json);
