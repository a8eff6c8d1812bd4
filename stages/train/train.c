/* mr_classifier_fit. */
#include "engine/base/sized.h"
#include "engine/base/thread.h"
#include "millrace/status.h"
#include "stages/train/train_kinds.h"
#include "stages/train/train_state.h"

static int fit(mr_fitting *t) {
    int status = t->params.state ? mr_state_digest(t) : MR_OK;
    if (status)
        return status;
    switch (t->params.kind) {
    case MR_CLASSIFIER_PROTOTYPES:
        return mr_train_prototypes(t);
    case MR_CLASSIFIER_NEIGHBORS:
        return mr_train_neighbors(t);
    case MR_CLASSIFIER_PERCEPTRON:
        return mr_train_perceptron(t);
    default:
        return mr_train_linear(t);
    }
}

int mr_classifier_fit_sized(mr_classifier **classifier, const mr_labelled_rows *rows, size_t rows_bytes,
                            const mr_fit_params *params, size_t params_bytes) {
    MR_PLAIN_NUMBERS;
    mr_labelled_rows own_rows;
    mr_fit_params own;
    mr_fitting t = {0};
    *classifier = NULL;
    int status = mr_sized_copy(&own_rows, sizeof own_rows, rows, rows_bytes,
                               MR_SIZE_THROUGH(mr_labelled_rows, class_names), "mr_labelled_rows");
    if (!status)
        status = mr_sized_copy(&own, sizeof own, params, params_bytes, MR_SIZE_THROUGH(mr_fit_params, user),
                               "mr_fit_params");
    if (!status)
        status = mr_training_begin(&t, &own_rows, &own);
    if (!status)
        status = fit(&t);
    if (!status) {
        mr_state_remove(&t);
        *classifier = t.made;
        t.made = NULL;
    }
    mr_training_end(&t);
    return status;
}
