#include "stages/model/onnx/onnx_traits.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/memory.h"
#include "millrace/status.h"
#include "stages/model/onnx/onnx_operators.h"
#include "stages/model/onnx/onnx_shapes.h"

static bool is_one_of(mr_pb_span name, const char *const *words) {
    while (*words && !mr_pb_is(name, *words))
        words++;
    return *words;
}

static const mr_onnx_tensor *find_tensor(const mr_onnx_graph *graph, mr_pb_span name) {
    for (size_t i = 0; i < graph->tensor_count; i++)
        if (mr_pb_same(graph->tensors[i].name, name))
            return &graph->tensors[i];
    return NULL;
}

/* ---- the operator that numbers come from ------------------------------------------------------------------------- */

/* These only change shape or type. */
static const char *const passing[] = {"Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Cast",
                                      "CastLike", "Dropout", NULL};
static const char *const to_scores[] = {"Softmax", "Sigmoid", "HardSigmoid", "Normalizer", "TreeEnsembleClassifier",
                                        NULL};

static void copy_name(mr_pb_span name, char *text, size_t bytes) {
    snprintf(text, bytes, "%.*s", (int)(name.end - name.at), (const char *)name.at);
}

/* ONNX-ML classifiers have softmax or sigmoid as an attribute. */
static const char *name_finish(const mr_onnx_node *node, char text[MR_ONNX_OPERATOR_TEXT]) {
    const mr_pb_span transform = mr_onnx_text(node, "post_transform");
    if (mr_pb_is(transform, "SOFTMAX"))
        return strcpy(text, "Softmax");
    if (mr_pb_is(transform, "LOGISTIC"))
        return strcpy(text, "Sigmoid");
    copy_name(node->operation, text, MR_ONNX_OPERATOR_TEXT);
    return text;
}

const char *mr_onnx_finish(const mr_onnx_graph *graph, mr_pb_span name, char text[MR_ONNX_OPERATOR_TEXT]) {
    const mr_onnx_tensor *tensor = find_tensor(graph, name);
    text[0] = 0;
    /* Nodes are in file order: each step leads to an earlier one. */
    for (int last = (int)graph->node_count; tensor && tensor->producer != MR_ONNX_NONE && tensor->producer < last;) {
        const mr_onnx_node *node = &graph->nodes[tensor->producer];
        if (!is_one_of(node->operation, passing))
            return name_finish(node, text);
        last = tensor->producer;
        tensor = node->input_count ? mr_onnx_input(graph, node, 0) : NULL;
    }
    return text;
}

bool mr_onnx_gives_scores(const char *operation) {
    if (!operation)
        return false;
    const uint8_t *at = (const uint8_t *)operation;
    return is_one_of((mr_pb_span){at, at + strlen(operation)}, to_scores);
}

/* ---- sizes that values decide ------------------------------------------------------------------------------------ */

static const char *const finding[] = {"NonZero", "NonMaxSuppression", "Unique", "Compress", NULL};

static void mark(bool *needed, const mr_onnx_tensor *tensor) {
    if (tensor && tensor->producer != MR_ONNX_NONE)
        needed[tensor->producer] = true;
}

const char *mr_onnx_sized_by(const mr_onnx_graph *graph, mr_pb_span name, char text[MR_ONNX_OPERATOR_TEXT]) {
    bool *needed = mr_calloc(graph->node_count + 1, sizeof *needed);
    text[0] = 0;
    if (!needed)
        return text;
    mark(needed, find_tensor(graph, name));
    for (size_t n = graph->node_count; n-- > 0 && !*text;) {
        const mr_onnx_node *node = &graph->nodes[n];
        if (needed[n] && is_one_of(node->operation, finding))
            copy_name(node->operation, text, MR_ONNX_OPERATOR_TEXT);
        for (int i = 0; needed[n] && i < node->input_count; i++)
            mark(needed, mr_onnx_input(graph, node, i));
    }
    mr_free(needed);
    return text;
}

/* ---- across a batch ---------------------------------------------------------------------------------------------- */

enum { NO_AXIS = -1, UNKNOWN_AXIS = -2, MODEL_SETS = 8, SET_DOMAIN = 1, SET_VERSION = 2, SOFTMAX_OF_ONE_AXIS = 13 };

/* The graph's shapes for two batch sizes. */
typedef struct pair {
    mr_onnx_graph one, other;
    bool fixed;
    int64_t batch, set; /* set: common operators' version */
} pair;

static int64_t version_of(const uint8_t *data, size_t bytes) {
    mr_pb_span model = {data, data + bytes};
    mr_pb_field f, g;
    int64_t version = 0;
    while (model.at < model.end && mr_pb_next(&model, &f)) {
        mr_pb_span domain = {0};
        int64_t of = 0;
        if (f.number != MODEL_SETS || f.wire != MR_PB_BYTES)
            continue;
        while (f.bytes.at < f.bytes.end && mr_pb_next(&f.bytes, &g)) {
            domain = g.number == SET_DOMAIN ? g.bytes : domain;
            of = g.number == SET_VERSION ? (int64_t)g.value : of;
        }
        version = domain.at == domain.end ? of : version;
    }
    return version;
}

/* Which dimension in a node's input counts frames. */
static int frames_axis(const pair *p, const mr_onnx_node *node, int at) {
    if (at >= node->input_count)
        return NO_AXIS;
    const mr_onnx_tensor *one = mr_onnx_input(&p->one, node, at);
    if (!one || one->weights)
        return NO_AXIS;
    if (one->rank < 0)
        return UNKNOWN_AXIS;
    if (p->fixed)
        return one->rank > 0 && one->dims[0] == p->batch ? 0 : NO_AXIS;
    const mr_onnx_tensor *other = &p->other.tensors[one - p->one.tensors];
    if (other->rank != one->rank)
        return UNKNOWN_AXIS;
    for (int i = 0; i < one->rank; i++)
        if (one->dims[i] != other->dims[i])
            return i;
    return NO_AXIS;
}

static int rank_of(const pair *p, const mr_onnx_node *node, int at) {
    const mr_onnx_tensor *tensor = at < node->input_count ? mr_onnx_input(&p->one, node, at) : NULL;
    return tensor ? tensor->rank : -1;
}

/* An axis from an attribute. If the shape is not known, only the first axis can be distinguished from others. */
static bool is_axis(const pair *p, const mr_onnx_node *node, const char *name, int64_t fallback) {
    const int frames = frames_axis(p, node, 0);
    const int64_t axis = mr_onnx_integer(node, name, fallback);
    if (frames == UNKNOWN_AXIS)
        return axis == 0;
    return frames >= 0 && mr_onnx_axis(axis, rank_of(p, node, 0)) == frames;
}

/* That axis and all after it. */
static bool is_from_axis(const pair *p, const mr_onnx_node *node, int64_t fallback) {
    const int frames = frames_axis(p, node, 0), rank = rank_of(p, node, 0);
    const int64_t axis = mr_onnx_integer(node, "axis", fallback);
    if (frames == UNKNOWN_AXIS)
        return axis == 0;
    return frames >= 0 && frames >= mr_onnx_axis(axis, rank);
}

static bool reduces(const pair *p, const mr_onnx_node *node) {
    const int frames = frames_axis(p, node, 0), rank = rank_of(p, node, 0);
    int64_t axes[MR_ONNX_GRAPH_NUMBERS];
    const int count = mr_onnx_list(&p->one, node, 1, "axes", axes);
    if (frames == NO_AXIS || count < 0)
        return false;
    if (count == 0)
        return !mr_onnx_integer(node, "noop_with_empty_axes", 0);
    for (int i = 0; i < count; i++)
        if (frames == UNKNOWN_AXIS ? axes[i] == 0 : mr_onnx_axis(axes[i], rank) == frames)
            return true;
    return false;
}

/* Whether the axis that both factors are summed over is the frames' axis. */
static bool sums_up(const pair *p, const mr_onnx_node *node, bool gemm) {
    const int first = rank_of(p, node, 0), second = rank_of(p, node, 1);
    const bool turned = gemm && mr_onnx_integer(node, "transA", 0), other = gemm && mr_onnx_integer(node, "transB", 0);
    const int a = frames_axis(p, node, 0), b = frames_axis(p, node, 1);
    return (first > 0 && a >= 0 && a == (turned ? 0 : first - 1)) ||
           (second > 1 && b >= 0 && b == (other ? 1 : second - 2));
}

static bool mixes(const pair *p, const mr_onnx_node *node) {
    static const char *const dynamic[] = {"DynamicQuantizeLinear", "DynamicQuantizeMatMul", "DynamicQuantizeLSTM",
                                          NULL};
    static const char *const softmax[] = {"Softmax", "LogSoftmax", "Hardmax", NULL};
    static const char *const chosen[] = {"ArgMax", "ArgMin", NULL};
    static const char *const last[] = {"TopK", "LpNormalization", NULL};
    static const char *const layers[] = {"LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization",
                                         NULL};
    static const char *const products[] = {"MatMul", "MatMulInteger", "QLinearMatMul", NULL};
    const mr_pb_span name = node->operation;
    if (is_one_of(name, dynamic))
        return frames_axis(p, node, 0) != NO_AXIS;
    if (is_one_of(name, softmax))
        return p->set >= SOFTMAX_OF_ONE_AXIS ? is_axis(p, node, "axis", -1) : is_from_axis(p, node, 1);
    if (is_one_of(name, chosen))
        return is_axis(p, node, "axis", 0);
    if (is_one_of(name, last))
        return is_axis(p, node, "axis", -1);
    if (is_one_of(name, layers))
        return is_from_axis(p, node, -1);
    if (mr_pb_is(name, "BatchNormalization"))
        return mr_onnx_integer(node, "training_mode", 0) && frames_axis(p, node, 0) != NO_AXIS;
    if (mr_pb_is(name, "Gemm") || is_one_of(name, products))
        return sums_up(p, node, mr_pb_is(name, "Gemm"));
    return name.end - name.at > 6 && memcmp(name.at, "Reduce", 6) == 0 && reduces(p, node);
}

/* Marks only nodes that these outputs depend on. */
static void mark_needed(mr_onnx_graph *graph, const mr_onnx_batch *batch) {
    for (size_t n = 0; n < graph->node_count; n++)
        graph->nodes[n].needed = false;
    for (size_t i = 0; i < batch->output_count; i++) {
        const uint8_t *name = (const uint8_t *)batch->outputs[i];
        const mr_onnx_tensor *tensor = find_tensor(graph, (mr_pb_span){name, name + strlen(batch->outputs[i])});
        if (tensor && tensor->producer != MR_ONNX_NONE)
            graph->nodes[tensor->producer].needed = true;
    }
    for (size_t n = graph->node_count; n-- > 0;)
        for (int i = 0; graph->nodes[n].needed && i < graph->nodes[n].input_count; i++) {
            const mr_onnx_tensor *input = mr_onnx_input(graph, &graph->nodes[n], i);
            if (input && input->producer != MR_ONNX_NONE)
                graph->nodes[input->producer].needed = true;
        }
}

static int infer(mr_onnx_graph *graph, const uint8_t *data, size_t bytes, const mr_onnx_batch *batch, int64_t size) {
    mr_onnx_shape *shapes = mr_calloc(batch->input_count + 1, sizeof *shapes);
    if (!shapes)
        return mr_fail(MR_ERROR_MEMORY, "no memory to read a network");
    for (size_t i = 0; i < batch->input_count; i++) {
        shapes[i] = batch->inputs[i];
        shapes[i].dims[0] = size;
    }
    int status = mr_onnx_graph_read(graph, data, bytes);
    if (!status) {
        mark_needed(graph, batch);
        mr_onnx_infer(graph, shapes, batch->input_count);
    }
    mr_free(shapes);
    return status;
}

static void print_node(const mr_onnx_node *node, char text[MR_ONNX_MIXING_TEXT]) {
    char operation[MR_ONNX_OPERATOR_TEXT], name[96];
    copy_name(node->operation, operation, sizeof operation);
    copy_name(node->name, name, sizeof name);
    snprintf(text, MR_ONNX_MIXING_TEXT, *name ? "%s at node \"%s\"" : "%s", operation, name);
}

int mr_onnx_find_mixing(const uint8_t *data, size_t bytes, const mr_onnx_batch *batch,
                        char text[MR_ONNX_MIXING_TEXT]) {
    pair p = {.fixed = batch->fixed, .set = version_of(data, bytes)};
    text[0] = 0;
    p.batch = batch->input_count ? batch->inputs[0].dims[0] : 0;
    int status = infer(&p.one, data, bytes, batch, p.batch);
    if (!status)
        status = infer(&p.other, data, bytes, batch, p.batch + 1);
    for (size_t n = 0; n < p.one.node_count && !status && !*text; n++)
        if (p.one.nodes[n].needed && mixes(&p, &p.one.nodes[n]))
            print_node(&p.one.nodes[n], text);
    mr_onnx_graph_free(&p.one);
    mr_onnx_graph_free(&p.other);
    return status;
}
