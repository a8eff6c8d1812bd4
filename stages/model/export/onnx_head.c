#include "stages/model/export/onnx_head.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/memory.h"
#include "stages/model/onnx/onnx_graph.h"

static const char *add(mr_onnx_build *b, const char *operation, const char *first, const char *second,
                       const char *output) {
    return mr_onnx_add(b, &(mr_onnx_step){.operation = operation, .inputs = {first, second}, .output = output});
}

const char *mr_onnx_add_vector(mr_onnx_build *b, const char *tensor, size_t width, bool average, bool normalize) {
    const int64_t shape[] = {-1, (int64_t)width}, two = 2;
    if (average)
        tensor = add(b, "GlobalAveragePool", tensor, NULL, mr_onnx_name(b, "average"));
    const char *vector = add(b, "Reshape", tensor, mr_onnx_integers_of(b, "vector-shape", shape, 1, &two),
                             mr_onnx_name(b, "vector"));
    if (!normalize)
        return vector;
    return mr_onnx_add(b, &(mr_onnx_step){.operation = "LpNormalization", .inputs = {vector},
                                          .output = mr_onnx_name(b, "unit-vector"), .attribute = {"axis", "p"},
                                          .value = {1, 2}});
}

/* M x + b: the matrix's last column is b. */
static const char *multiply(mr_onnx_build *b, const mr_matrix_f32 *matrix, size_t index, const char *from,
                            const char *output) {
    const size_t inputs = matrix->columns - 1;
    const int64_t dims[] = {(int64_t)matrix->rows, (int64_t)inputs};
    char weights[32], bias[32];
    float *parts = mr_alloc((matrix->rows * matrix->columns + 1) * sizeof *parts), *last = parts;
    if (!parts) {
        b->failed = true;
        return output;
    }
    last += matrix->rows * inputs;
    for (size_t i = 0; i < matrix->rows; i++) {
        memcpy(parts + i * inputs, matrix->data + i * matrix->columns, inputs * sizeof *parts);
        last[i] = matrix->data[i * matrix->columns + inputs];
    }
    snprintf(weights, sizeof weights, "weights-%zu", index);
    snprintf(bias, sizeof bias, "bias-%zu", index);
    mr_onnx_add(b, &(mr_onnx_step){.operation = "Gemm",
                                   .inputs = {from, mr_onnx_floats(b, weights, parts, 2, dims),
                                              mr_onnx_floats(b, bias, last, 1, dims)},
                                   .output = output, .attribute = {"transB"}, .value = {1}});
    mr_free(parts);
    return output;
}

static const char *add_layers(mr_onnx_build *b, const mr_trained *t, const char *from) {
    char name[32];
    for (size_t l = 0; l < t->layers; l++) {
        const bool last = l + 1 == t->layers;
        snprintf(name, sizeof name, "sums-%zu", l + 1);
        from = multiply(b, &t->layer[l], l + 1, from, mr_onnx_name(b, last ? "logits" : name));
        snprintf(name, sizeof name, "units-%zu", l + 1);
        if (!last)
            from = add(b, "Relu", from, NULL, mr_onnx_name(b, name));
    }
    return from;
}

static const char *add_vector_classes(mr_onnx_build *b, const mr_trained *t) {
    const int64_t count = (int64_t)t->layer[0].rows;
    int64_t *classes = mr_calloc(t->layer[0].rows, sizeof *classes);
    const char *name = NULL;
    for (int64_t i = 0; i < count && classes; i++)
        classes[i] = t->vector_classes[i];
    if (classes)
        name = mr_onnx_integers_of(b, "vector-classes", classes, 1, &count);
    else
        b->failed = true;
    mr_free(classes);
    return name;
}

/* The k largest products vote: each is a row with a single one. A product with ones sums them, and the result is
 * divided by k. */
static const char *add_vote(mr_onnx_build *b, const mr_trained *t, const char *vector) {
    const int64_t one = 1, two = 2, k = (int64_t)t->k, classes = (int64_t)t->classes, shape[] = {-1, classes};
    const int64_t row[] = {1, k};
    const float bounds[] = {0, 1}, count = (float)t->k;
    float *ones = mr_alloc(t->k * sizeof *ones);
    for (size_t i = 0; ones && i < t->k; i++)
        ones[i] = 1;
    if (!ones) {
        b->failed = true;
        return NULL;
    }
    const char *near = multiply(b, &t->layer[0], 1, vector, mr_onnx_name(b, "nearness")),
               *nearest = mr_onnx_name(b, "nearest");
    mr_onnx_add(b, &(mr_onnx_step){.operation = "TopK", .inputs = {near, mr_onnx_integers_of(b, "k", &k, 1, &one)},
                                   .output = mr_onnx_name(b, "nearest-nearness"), .more = nearest});
    const char *voters = add(b, "Gather", add_vector_classes(b, t), nearest, mr_onnx_name(b, "voters"));
    mr_onnx_add(b, &(mr_onnx_step){.operation = "OneHot",
                                   .inputs = {voters, mr_onnx_integers_of(b, "class-count", &classes, 1, &one),
                                              mr_onnx_floats(b, "zero-one", bounds, 1, &two)},
                                   .output = mr_onnx_name(b, "votes")});
    const char *sums = add(b, "MatMul", mr_onnx_floats(b, "ones", ones, 2, row), mr_onnx_name(b, "votes"),
                           mr_onnx_name(b, "sums"));
    const char *rows = add(b, "Reshape", sums, mr_onnx_integers_of(b, "sums-shape", shape, 1, &two),
                           mr_onnx_name(b, "sum-rows"));
    mr_free(ones);
    return add(b, "Div", rows, mr_onnx_floats(b, "votes-in-all", &count, 1, &one), mr_onnx_name(b, "logits"));
}

void mr_onnx_add_classifier(mr_onnx_build *b, const mr_trained *t, const char *vector) {
    static const char *const operations[] = {"Identity", "Softmax", "Sigmoid"};
    const char *scores = mr_onnx_output_name(b, "scores"), *class = mr_onnx_output_name(b, "class");
    const bool softmax = t->activation == MR_ACTIVATION_SOFTMAX;
    const char *logits = t->kind == MR_CLASSIFIER_NEIGHBORS ? add_vote(b, t, vector) : add_layers(b, t, vector);
    mr_onnx_add(b, &(mr_onnx_step){.operation = operations[t->activation], .inputs = {logits}, .output = scores,
                                   .attribute = {softmax ? "axis" : NULL}, .value = {1}});
    /* Uses logits: scores are rounded, so different ones may become equal. */
    mr_onnx_add(b, &(mr_onnx_step){.operation = "ArgMax", .inputs = {logits}, .output = class,
                                   .attribute = {"axis", "keepdims"}, .value = {1, 0}});
    mr_onnx_add_value(b, true, scores, MR_ONNX_F32, (int64_t)t->classes);
    mr_onnx_add_value(b, true, class, MR_ONNX_I64, 0);
}
