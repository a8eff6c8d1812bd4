/* How sure a classifier is, made right: the temperature by which its logits would have to be divided, fitted to the
 * validation part (Guo et al., On Calibration of Modern Neural Networks, 2017), and what the figures would then be. */
#pragma once

#include "engine/base/json.h"
#include "millrace/figures.h"

typedef struct mr_tempered {
    double temperature; /* 0: scores are no probabilities of one class each, or there are no rows to fit it to */
    size_t rows;        /* that it was fitted to */
    /* of the rows that are judged, with it */
    double log_loss, calibration_error;
} mr_tempered;

/* Scores that add up to 1 in each row are taken; their logarithms are logits, up to a constant. MR_ERROR_MEMORY. */
int mr_temper(mr_tempered *made, const mr_scored *validation, const mr_scored *judged);
/* A member `temperature`: an object, or null. */
void mr_tempered_put(const mr_tempered *tempered, yajl_gen json);
