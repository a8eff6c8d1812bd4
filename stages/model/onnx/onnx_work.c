#include "stages/model/onnx/onnx_work.h"

#include <stdio.h>

#include "stages/model/onnx/onnx_shapes.h"

static double bytes_of(const mr_onnx_tensor *tensor) {
    static const unsigned char sizes[] = {[1] = 4, [2] = 1, [3] = 1, [4] = 2, [5] = 2, [6] = 4, [7] = 8, [9] = 1,
                                          [10] = 2, [11] = 8, [12] = 4, [13] = 8, [14] = 8, [15] = 16, [16] = 2};
    bool known = tensor->element > 0 && (size_t)tensor->element < sizeof sizes;
    return known ? mr_onnx_items(tensor) * sizes[tensor->element] : 0;
}

/* ---- fusion ------------------------------------------------------------------------------------------------------ */

static const mr_onnx_node *producer_of(const mr_onnx_graph *graph, const mr_onnx_tensor *tensor) {
    return tensor && tensor->producer != MR_ONNX_NONE ? &graph->nodes[tensor->producer] : NULL;
}

static bool is(const mr_onnx_node *node, const char *operation) {
    return node && node->known && mr_pb_is(node->operation, operation);
}

/* No other node reads it. */
static bool is_between(const mr_onnx_tensor *tensor) {
    return tensor && tensor->users == 1 && !tensor->output;
}

static bool are_weights(const mr_onnx_graph *graph, const mr_onnx_node *node, int first) {
    for (int i = first; i < node->input_count; i++) {
        const mr_onnx_tensor *input = mr_onnx_input(graph, node, i);
        if (input && !input->weights)
            return false;
    }
    return true;
}

/* Whether the other operand of Add or Mul is a single number, or one per channel. */
static bool is_per_channel(const mr_onnx_graph *graph, const mr_onnx_node *node, int own) {
    const mr_onnx_tensor *by = mr_onnx_input(graph, node, !own), *from = mr_onnx_input(graph, node, own);
    if (!by || !by->weights || from->rank < 2 || node->input_count != 2)
        return false;
    double items = mr_onnx_items(by);
    bool along = by->rank == from->rank ? by->dims[1] == from->dims[1]
                                        : by->rank == from->rank - 1 && by->dims[0] == from->dims[1];
    return items == 1 || (along && items == (double)from->dims[1]);
}

/* Whether a tensor is a convolution's output with a single reader. */
static bool is_of_conv(const mr_onnx_graph *graph, const mr_onnx_tensor *tensor) {
    const mr_onnx_node *node = producer_of(graph, tensor);
    return is_between(tensor) && node && (is(node, "Conv") || node->in_weights);
}

/* Whether the node is merged into the preceding convolution's weights. */
static bool is_in_weights(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    if (is(node, "BatchNormalization"))
        return are_weights(graph, node, 1) && is_of_conv(graph, mr_onnx_input(graph, node, 0));
    for (int own = 0; own < 2 && (is(node, "Add") || is(node, "Mul")); own++)
        if (is_of_conv(graph, mr_onnx_input(graph, node, own)) && is_per_channel(graph, node, own))
            return true;
    return false;
}

/* Which operand of an Add comes from a convolution, if a Relu follows; -1: none, or no Relu. */
static int added_to_conv(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    const mr_onnx_tensor *output = mr_onnx_output(graph, node, 0);
    if (!is(node, "Add") || !is_between(output) || !mr_pb_is(graph->nodes[output->user].operation, "Relu"))
        return -1;
    for (int own = 0; own < 2; own++)
        if (is_of_conv(graph, mr_onnx_input(graph, node, own)))
            return own;
    return -1;
}

static bool is_relu_of_conv(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    const mr_onnx_tensor *input = mr_onnx_input(graph, node, 0);
    const mr_onnx_node *before = producer_of(graph, input);
    return is(node, "Relu") &&
           (is_of_conv(graph, input) || (is_between(input) && before && added_to_conv(graph, before) >= 0));
}

static bool is_bias_of_product(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    for (int own = 0; own < 2 && is(node, "Add"); own++) {
        const mr_onnx_tensor *from = mr_onnx_input(graph, node, own), *by = mr_onnx_input(graph, node, !own);
        if (is_between(from) && is(producer_of(graph, from), "MatMul") && by && by->weights)
            return true;
    }
    return false;
}

/* ---- counting ---------------------------------------------------------------------------------------------------- */

static double multiply_adds(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    const mr_onnx_tensor *from = mr_onnx_input(graph, node, 0), *to = mr_onnx_output(graph, node, 0);
    const mr_onnx_tensor *weights = mr_onnx_input(graph, node, node->known->weight);
    switch (node->known->kind) {
    case MR_ONNX_CONV:
        return mr_onnx_items(to) * (double)weights->dims[1] * mr_onnx_window(graph, node);
    case MR_ONNX_DECONV:
        return mr_onnx_items(from) * (double)weights->dims[1] * mr_onnx_window(graph, node);
    case MR_ONNX_GEMM:
        return mr_onnx_items(to) * (double)from->dims[!mr_onnx_integer(node, "transA", 0)];
    case MR_ONNX_MATMUL:
        return mr_onnx_items(to) * (double)from->dims[from->rank - 1];
    default:
        return 0;
    }
}

static double operations(const mr_onnx_graph *graph, const mr_onnx_node *node, double products) {
    const mr_onnx_tensor *from = mr_onnx_input(graph, node, 0), *to = mr_onnx_output(graph, node, 0);
    if (node->known->kind == MR_ONNX_EACH)
        return node->known->per * mr_onnx_items(to);
    if (node->known->kind == MR_ONNX_ACROSS)
        return node->known->per * mr_onnx_items(from);
    return node->known->kind == MR_ONNX_POOL ? mr_onnx_items(to) * mr_onnx_window(graph, node) : 2 * products;
}

static void miss(mr_onnx_work *work, const mr_onnx_node *node, const char *what) {
    if (work->missing++)
        return;
    int named = (int)(node->name.end - node->name.at);
    int operation = (int)(node->operation.end - node->operation.at);
    snprintf(work->why, sizeof work->why, "%s %.*s%s%.*s%s", what, operation > 40 ? 40 : operation,
             (const char *)node->operation.at, named ? " at node \"" : "", named > 60 ? 60 : named,
             (const char *)node->name.at,
             named ? "\"" : "");
}

/* A product's or pool's work depends on its inputs; for other operators the declared sizes suffice. */
static bool is_shaped(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    if (!node->inferred && node->known->kind >= MR_ONNX_POOL)
        return false;
    for (int i = 0; i < node->input_count; i++) {
        const mr_onnx_tensor *input = mr_onnx_input(graph, node, i);
        if (input && input->rank < 0)
            return false;
    }
    for (int i = 0; i < node->output_count; i++) {
        const mr_onnx_tensor *output = mr_onnx_output(graph, node, i);
        if (output && output->rank < 0 && (i == 0 || output->users || output->output))
            return false;
    }
    return mr_onnx_input(graph, node, 0) && mr_onnx_output(graph, node, 0);
}

/* `own`: the operand that the launch already holds; -1: none. Numbers known at planning time are not counted as bytes.
 * For weights, as many bytes count as the operator reads. */
static void add_bytes(const mr_onnx_graph *graph, const mr_onnx_node *node, int own, mr_onnx_work *work) {
    double written = 0;
    for (int i = 0; i < node->output_count && own < 0; i++)
        if (mr_onnx_output(graph, node, i))
            written += bytes_of(mr_onnx_output(graph, node, i));
    work->activation_bytes += written;
    for (int i = 0; i < node->input_count; i++) {
        const mr_onnx_tensor *input = mr_onnx_input(graph, node, i);
        if (!input || i == own)
            continue;
        double bytes = bytes_of(input);
        if (node->known->kind == MR_ONNX_PICK && i == 0 && bytes > written)
            bytes = written;
        *(input->weights ? &work->weight_bytes : &work->activation_bytes) += bytes;
    }
}

static void count_node(const mr_onnx_graph *graph, const mr_onnx_node *node, mr_onnx_work *work) {
    double products = multiply_adds(graph, node);
    const mr_onnx_tensor *from = mr_onnx_input(graph, node, 0);
    bool half = from->element == MR_ONNX_F16 || from->element == MR_ONNX_BF16;
    int own = added_to_conv(graph, node);
    work->multiply_adds += products;
    if (products > 0 && !half && from->element != MR_ONNX_F32) {
        miss(work, node, from->element == MR_ONNX_F64 ? "operations in f64 are not modelled:"
                                                      : "operations on integers are not modelled:");
        return;
    }
    *(half ? &work->f16_operations : &work->f32_operations) += operations(graph, node, products);
    if (is_relu_of_conv(graph, node) || is_bias_of_product(graph, node))
        return;
    work->launches += own < 0;
    add_bytes(graph, node, own, work);
}

static void visit(const mr_onnx_graph *graph, mr_onnx_node *node, mr_onnx_work *work) {
    const mr_onnx_tensor *output = mr_onnx_output(graph, node, 0);
    if (!node->known) {
        miss(work, node, "not modelled: operator");
        return;
    }
    bool folded = output && output->rank >= 0 && (output->weights || output->count > 0);
    if (folded)
        return;
    if (!is_shaped(graph, node)) {
        miss(work, node, "the sizes are not known of the operator");
        return;
    }
    if (node->known->kind == MR_ONNX_VIEW)
        return;
    node->in_weights = is_in_weights(graph, node);
    if (!node->in_weights)
        count_node(graph, node, work);
}

static void add_ends(const mr_onnx_graph *graph, mr_onnx_work *work) {
    for (size_t i = 0; i < graph->tensor_count; i++) {
        const mr_onnx_tensor *tensor = &graph->tensors[i];
        work->input_bytes += tensor->input && tensor->users ? bytes_of(tensor) : 0;
        work->output_bytes += tensor->output ? bytes_of(tensor) : 0;
    }
}

int mr_onnx_count_work(const uint8_t *data, size_t bytes, const mr_onnx_shape *inputs, size_t count,
                       mr_onnx_work *work) {
    mr_onnx_graph graph;
    *work = (mr_onnx_work){0};
    int status = mr_onnx_graph_read(&graph, data, bytes);
    if (!status) {
        mr_onnx_infer(&graph, inputs, count);
        for (size_t n = 0; n < graph.node_count; n++)
            if (graph.nodes[n].needed)
                visit(&graph, &graph.nodes[n], work);
        add_ends(&graph, work);
    }
    mr_onnx_graph_free(&graph);
    return status;
}
