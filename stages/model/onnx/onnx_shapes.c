#include "stages/model/onnx/onnx_shapes.h"

#include "stages/model/onnx/onnx_operators.h"

enum { SYMBOLS = 64 };

/* Open dimensions' sizes by name, taken from the inputs. */
typedef struct symbols {
    size_t count;
    struct {
        mr_pb_span name;
        int64_t size;
    } known[SYMBOLS];
} symbols;

static void learn(symbols *s, mr_pb_span name, int64_t size) {
    if (name.at == name.end || s->count == SYMBOLS || size < 0)
        return;
    s->known[s->count].name = name;
    s->known[s->count++].size = size;
}

static int64_t size_of(const symbols *s, mr_pb_span name) {
    for (size_t i = 0; i < s->count && name.at < name.end; i++)
        if (mr_pb_same(s->known[i].name, name))
            return s->known[i].size;
    return -1;
}

static bool set_declared(const symbols *s, mr_onnx_tensor *tensor) {
    mr_pb_span names[MR_ONNX_GRAPH_RANK];
    int64_t dims[MR_ONNX_GRAPH_RANK];
    int rank, element;
    if (!mr_onnx_read_declared(tensor->declared, &element, &rank, dims, names))
        return false;
    for (int i = 0; i < rank; i++)
        dims[i] = dims[i] < 0 ? size_of(s, names[i]) : dims[i];
    return mr_onnx_set(tensor, element, rank, dims);
}

/* Sets the declared shape, with given sizes for open dimensions. */
static void set_input(symbols *s, mr_onnx_tensor *tensor, const mr_onnx_shape *given) {
    mr_pb_span names[MR_ONNX_GRAPH_RANK];
    int64_t dims[MR_ONNX_GRAPH_RANK];
    int rank, element;
    if (!mr_onnx_read_declared(tensor->declared, &element, &rank, dims, names))
        return;
    for (int i = 0; i < rank; i++) {
        if (given && given->rank == rank && given->dims[i] > 0)
            dims[i] = given->dims[i];
        learn(s, names[i], dims[i]);
    }
    mr_onnx_set(tensor, element, rank, dims);
}

/* Whether it reads only constants: a runtime computes it once. Scales for quantised weights stay separate until a
 * call. */
static bool is_constant(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    bool constant = !mr_pb_is(node->operation, "DequantizeLinear");
    for (int i = 0; i < node->input_count && constant; i++) {
        const mr_onnx_tensor *input = mr_onnx_input(graph, node, i);
        constant = !input || input->weights;
    }
    return constant;
}

static void infer_node(const mr_onnx_graph *graph, const symbols *s, mr_onnx_node *node) {
    node->known = mr_onnx_find_operator(node);
    bool constant = node->known && is_constant(graph, node);
    node->inferred = node->known && node->known->infer(graph, node);
    for (int i = 0; i < node->output_count; i++) {
        mr_onnx_tensor *output = mr_onnx_output(graph, node, i);
        if (output && output->rank < 0)
            set_declared(s, output);
        if (output)
            output->weights = constant;
    }
}

void mr_onnx_infer(mr_onnx_graph *graph, const mr_onnx_shape *inputs, size_t count) {
    symbols s = {0};
    size_t input = 0;
    for (size_t i = 0; i < graph->tensor_count; i++)
        if (graph->tensors[i].input) {
            set_input(&s, &graph->tensors[i], input < count ? &inputs[input] : NULL);
            input++;
        }
    for (size_t n = 0; n < graph->node_count; n++)
        if (graph->nodes[n].needed)
            infer_node(graph, &s, &graph->nodes[n]);
}

double mr_onnx_items(const mr_onnx_tensor *tensor) {
    double items = tensor->rank < 0 ? 0 : 1;
    for (int i = 0; i < tensor->rank; i++)
        items *= (double)tensor->dims[i];
    return items;
}

double mr_onnx_window(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    const mr_onnx_tensor *weights = mr_onnx_input(graph, node, node->known->weight);
    int64_t sizes[MR_ONNX_GRAPH_RANK];
    double window = 1;
    if (node->known->kind != MR_ONNX_POOL) {
        for (int i = 2; weights && i < weights->rank; i++)
            window *= (double)weights->dims[i];
        return window;
    }
    int count = mr_onnx_integers(node, "kernel_shape", sizes, MR_ONNX_GRAPH_RANK);
    for (int i = 0; i < count && i < MR_ONNX_GRAPH_RANK; i++)
        window *= (double)sizes[i];
    return window;
}
