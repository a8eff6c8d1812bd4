/* Prototypes and neighbors: classes by distance. |x - v|^2 = |x|^2 - 2 x v + |v|^2. With features scaled by `factor`,
 * the nearer vector v to x therefore has the larger sum x v factor^2 - |v factor|^2 / 2. Distances are one matrix
 * product, and the scaler folds into the matrix. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "engine/base/memory.h"
#include "millrace/status.h"
#include "stages/train/train_kinds.h"
#include "stages/train/train_loss.h"

/* Replaces a vector by the weight row, followed by the bias. */
static void fold_vector(const double *factor, size_t width, double *vector, double *bias) {
    double squares = 0.0;
    for (size_t k = 0; k < width; k++) {
        double scaled = factor ? factor[k] * factor[k] : 1.0;
        squares += vector[k] * vector[k] * scaled;
        vector[k] *= scaled;
    }
    *bias = -0.5 * squares;
}

/* ---- prototypes -------------------------------------------------------------------------------------------------- */

/* parameters: classes x width means, then the biases. */
static int find_means(const mr_fitting *t, double *parameters) {
    const size_t width = t->given.width, classes = t->given.class_count;
    size_t *count = mr_calloc(classes, sizeof *count);
    if (!count)
        return mr_fail(MR_ERROR_MEMORY, "no memory for %zu classes", classes);
    for (size_t i = 0; i < t->train_count; i++) {
        const size_t class = (size_t)t->given.classes[t->train[i]];
        const float *x = t->given.features + t->train[i] * t->given.stride;
        count[class]++;
        for (size_t k = 0; k < width; k++)
            parameters[class * width + k] += (double)x[k];
    }
    for (size_t j = 0; j < classes; j++) {
        for (size_t k = 0; k < width; k++)
            parameters[j * width + k] /= (double)count[j];
        fold_vector(t->factor, width, parameters + j * width, parameters + classes * width + j);
    }
    mr_free(count);
    return MR_OK;
}

int mr_train_prototypes(mr_fitting *t) {
    const size_t width = t->given.width, classes = t->given.class_count;
    mr_matrix_f32 *layer = &t->made->trained.layer[0];
    double *parameters = mr_calloc(classes * (width + 1), sizeof *parameters), temperature = 1.0;
    int status = parameters ? find_means(t, parameters)
                            : mr_fail(MR_ERROR_MEMORY, "no memory for %zu prototypes", classes);
    if (!status)
        status = mr_train_layer(layer, parameters, classes, width, 1.0);
    if (!status)
        status = mr_train_temperature(t, &t->made->trained, &temperature);
    if (!status && temperature != 1.0) {
        mr_npy_free(layer);
        status = mr_train_layer(layer, parameters, classes, width, temperature);
    }
    mr_free(parameters);
    return status;
}

/* ---- neighbors --------------------------------------------------------------------------------------------------- */

static void keep_rows(mr_fitting *t, double *vector) {
    mr_trained *trained = &t->made->trained;
    const size_t width = t->given.width;
    float *to = trained->layer[0].data;
    for (size_t i = 0; i < t->train_count; i++) {
        const float *x = t->given.features + t->train[i] * t->given.stride;
        for (size_t k = 0; k < width; k++)
            vector[k] = (double)x[k];
        fold_vector(t->factor, width, vector, &vector[width]);
        for (size_t k = 0; k <= width; k++)
            *to++ = (float)vector[k];
        trained->vector_classes[i] = t->given.classes[t->train[i]];
    }
}

/* A product of two rows, and each part of a distance, cannot exceed the larger row's square. */
static int check_size(const mr_fitting *t, size_t row) {
    const float *x = t->given.features + row * t->given.stride;
    double squares = 0.0;
    for (size_t k = 0; k < t->given.width; k++) {
        const double scaled = (double)x[k] * (t->factor ? t->factor[k] : 1.0);
        squares += scaled * scaled;
    }
    return squares > (double)FLT_MAX / 2
               ? mr_fail(MR_ERROR_DATA,
                         "the features of row %zu are so large that its distances from others are beyond single "
                         "precision: divide all features by one number, let them be standardised, or take a kind that "
                         "standardises them, such as softmax", row)
               : MR_OK;
}

/* Checks all parts: a test row that overflows would silently get the first class. */
static int check_sizes(const mr_fitting *t) {
    int status = MR_OK;
    for (size_t row = 0; row < t->given.rows && !status; row++)
        if (!t->given.parts || t->given.parts[row] != MR_ROW_NONE)
            status = check_size(t, row);
    return status;
}

int mr_train_neighbors(mr_fitting *t) {
    mr_trained *trained = &t->made->trained;
    const size_t width = t->given.width, numbers = t->train_count * (width + 1);
    if (t->params.k > t->train_count)
        return mr_fail(MR_ERROR_USAGE, "there are %zu training rows, which is fewer than k = %zu neighbours",
                       t->train_count, t->params.k);
    if (numbers > MR_NPY_MAX_BYTES / sizeof(float) || t->train_count > 1 << 24)
        return mr_fail(MR_ERROR_DATA, "%zu rows of %zu features are too many to keep: neighbors may take %d MiB and %d "
                                      "rows; take fewer rows or another kind", t->train_count, width,
                       MR_NPY_MAX_BYTES >> 20, 1 << 24);
    int status = check_sizes(t);
    if (status)
        return status;
    double *vector = mr_alloc((width + 1) * sizeof *vector);
    trained->layer[0] = (mr_matrix_f32){t->train_count, width + 1,
                                        mr_alloc_aligned(64, mr_aligned_bytes(numbers * sizeof(float)))};
    trained->vector_classes = mr_alloc(t->train_count * sizeof *trained->vector_classes);
    trained->k = t->made->card.k = t->params.k;
    t->made->card.vectors = t->train_count;
    if (!vector || !trained->layer[0].data || !trained->vector_classes) {
        mr_free(vector);
        return mr_fail(MR_ERROR_MEMORY, "no memory for %zu rows", t->train_count);
    }
    keep_rows(t, vector);
    mr_free(vector);
    return MR_OK;
}
