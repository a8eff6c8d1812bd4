/* classify with perceptrons and neighbors on devices. Scores and first class must match a double precision computation
 * from the head's files. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/device/device.h"
#include "stages/model/npy.h"
#include "tests/support/blobs.h"
#include "tests/support/models.h"
#include "tests/support/on_device.h"
#include "tests/support/suite.h"

enum { MOST = 128, K = 5 };

/* ---- the reference ----------------------------------------------------------------------------------------------- */

static mr_matrix_f32 read_file(const char *folder, const char *name) {
    char path[300];
    mr_matrix_f32 matrix = {0};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(mr_npy_read(path, &matrix), MR_OK);
    return matrix;
}

static void multiply(const mr_matrix_f32 *matrix, const double *from, double *to) {
    for (size_t row = 0; row < matrix->rows; row++) {
        const float *at = matrix->data + row * matrix->columns;
        to[row] = at[matrix->columns - 1];
        for (size_t k = 0; k + 1 < matrix->columns; k++)
            to[row] += (double)at[k] * from[k];
    }
}

static void run_perceptron(const char *folder, const float *features, double *scores) {
    static const char *const files[] = {"layer-1.npy", "layer-2.npy", "layer-3.npy"};
    double in[MOST], out[MOST], sum = 0.0;
    for (size_t k = 0; k < BLOB_WIDTH; k++)
        in[k] = features[k];
    for (size_t l = 0; l < 3; l++) {
        ENDED_BY(mr_npy_free) mr_matrix_f32 layer = read_file(folder, files[l]);
        multiply(&layer, in, out);
        for (size_t u = 0; u < layer.rows; u++)
            in[u] = l == 2 ? out[u] : fmax(0.0, out[u]);
    }
    for (size_t j = 0; j < BLOB_CLASSES; j++)
        sum += scores[j] = exp(in[j]);
    for (size_t j = 0; j < BLOB_CLASSES; j++)
        scores[j] /= sum;
}

/* Uses distances, where the head uses products. */
static void run_neighbors(const char *folder, const float *features, double *scores) {
    mr_matrix_f32 vectors = read_file(folder, "vectors.npy"), classes = read_file(folder, "classes.npy");
    double *distance = malloc(vectors.rows * sizeof *distance);
    memset(scores, 0, BLOB_CLASSES * sizeof *scores);
    for (size_t i = 0; i < vectors.rows; i++) {
        distance[i] = 0.0;
        for (size_t k = 0; k < BLOB_WIDTH; k++)
            distance[i] += pow((double)features[k] - vectors.data[i * vectors.columns + k], 2.0);
    }
    for (int vote = 0; vote < K; vote++) {
        size_t nearest = 0;
        for (size_t i = 1; i < vectors.rows; i++)
            nearest = distance[i] < distance[nearest] ? i : nearest;
        scores[(size_t)classes.data[nearest]] += 1.0 / K;
        distance[nearest] = INFINITY;
    }
    free(distance);
    mr_npy_free(&vectors);
    mr_npy_free(&classes);
}

static void run_reference(mr_classifier_kind kind, const char *folder, const float *features, double *scores) {
    if (kind == MR_CLASSIFIER_NEIGHBORS)
        run_neighbors(folder, features, scores);
    else
        run_perceptron(folder, features, scores);
}

/* ---- the stage --------------------------------------------------------------------------------------------------- */

/* Features need one scale, so that products in single precision can distinguish neighbors. */
static int prepare(void **state) {
    blob_setup(state);
    for (size_t i = 0; i < BLOB_ROWS * BLOB_WIDTH; i++)
        blob_features[i] = (float)(((double)blob_features[i] - 5.0) / pow(10.0, (double)(i % BLOB_WIDTH) / 3.0 - 2.0));
    return 0;
}

static size_t first_of(const double *scores) {
    size_t first = 0;
    for (size_t j = 1; j < BLOB_CLASSES; j++)
        first = scores[j] > scores[first] ? j : first;
    return first;
}

static void compare(const arrived *got, mr_classifier_kind kind, const char *folder) {
    for (size_t frame = 0; frame < MODELS_FRAMES; frame++) {
        double wanted[BLOB_CLASSES];
        run_reference(kind, folder, blob_features + frame * BLOB_WIDTH, wanted);
        assert_int_equal(got->classes[frame][0].index, first_of(wanted));
        for (size_t i = 0; i < BLOB_CLASSES; i++) {
            const mr_class *class = &got->classes[frame][i];
            if (fabs((double)class->score - wanted[class->index]) > 2e-4)
                fail_msg("%s: frame %zu, class %d: %.9g, not %.9g", mr_classifier_kind_name(kind), frame,
                         class->index, (double)class->score, wanted[class->index]);
        }
    }
}

static void classify_on(mr_classifier_kind kind, const char *device) {
    static const char *const batches[] = {"", ", batch: {size: 4, timeout: 1ms}"};
    char folder[256], options[64];
    blob_folder("device", folder);
    mr_fit_params params = blob_params(kind);
    params.k = K;
    mr_classifier *made = blob_fit(&blob_rows, &params);
    assert_int_equal(mr_classifier_save(made, folder, NULL), MR_OK);
    mr_classifier_destroy(&made);
    for (size_t batch = 0; batch < 2; batch++) {
        snprintf(options, sizeof options, ", device: \"%s\"%s", device, batches[batch]);
        for (models_workers = 1; models_workers <= 16; models_workers *= 4) {
            arrived got = {0};
            blob_classify(&got, folder, options);
            compare(&got, kind, folder);
        }
    }
    models_workers = 0;
    blob_remove(folder);
}

static void heads_on(on_device *d) {
    prepare(NULL);
    classify_on(MR_CLASSIFIER_PERCEPTRON, d->device->name);
    classify_on(MR_CLASSIFIER_NEIGHBORS, d->device->name);
}

PLAIN_TEST(heads_on_the_processors) {
    on_device_test("cpu", heads_on);
}

DEVICE_TEST(heads_on_a_device) {
    heads_on(d);
}

/* Once a device has failed, frames are dropped. Earlier frames must be right. */
PLAIN_TEST(a_device_that_fails_drops_frames) {
    static const char *const faults[] = {", device: 'sim:0?fail_after=8'", ", device: 'sim:0?lose_after=9'"};
    prepare(NULL);
    char folder[256];
    blob_folder("faults", folder);
    for (int kind = MR_CLASSIFIER_NEIGHBORS; kind <= MR_CLASSIFIER_PERCEPTRON; kind++)
        for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
            mr_classifier *made = blob_fit_kind(kind);
            arrived got = {.gaps = true};
            assert_int_equal(mr_classifier_save(made, folder, NULL), MR_OK);
            mr_classifier_destroy(&made);
            blob_classify(&got, folder, faults[i]);
            assert_true(got.frames < MODELS_FRAMES);
        }
    blob_remove(folder);
}

int main(void) {
#ifdef MILLRACE_CUDA_HOST
    setenv("MILLRACE_CUBLAS", BINARY_DIR "/libcublas_host.so", 1);
#endif
    return run_suite(NULL, NULL);
}
