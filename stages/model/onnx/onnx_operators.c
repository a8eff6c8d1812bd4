#include "stages/model/onnx/onnx_operators.h"

#include <string.h>

/* ---- helpers ----------------------------------------------------------------------------------------------------- */

bool mr_onnx_set(mr_onnx_tensor *tensor, int element, int rank, const int64_t *dims) {
    if (!tensor || rank < 0 || rank > MR_ONNX_GRAPH_RANK)
        return false;
    for (int i = 0; i < rank; i++)
        if (dims[i] < 0 || dims[i] > MR_ONNX_GRAPH_DIM)
            return false;
    if (element)
        tensor->element = element;
    tensor->rank = rank;
    memcpy(tensor->dims, dims, (size_t)rank * sizeof *dims);
    return true;
}

const mr_onnx_tensor *mr_onnx_shaped(const mr_onnx_graph *graph, const mr_onnx_node *node, int at) {
    const mr_onnx_tensor *tensor = mr_onnx_input(graph, node, at);
    return tensor && tensor->rank >= 0 ? tensor : NULL;
}

int mr_onnx_axis(int64_t axis, int rank) {
    axis += axis < 0 ? rank : 0;
    return axis < 0 || axis >= rank ? -1 : (int)axis;
}

static int64_t whole(double number) {
    double most = (double)MR_ONNX_GRAPH_DIM;
    if (number > most || number < -most)
        return number > 0 ? MR_ONNX_GRAPH_DIM : -MR_ONNX_GRAPH_DIM;
    return number == number ? (int64_t)number : 0;
}

int mr_onnx_list(const mr_onnx_graph *graph, const mr_onnx_node *node, int input, const char *attribute,
                 int64_t *values) {
    const mr_onnx_tensor *tensor = mr_onnx_input(graph, node, input);
    if (!tensor) {
        int count = attribute ? mr_onnx_integers(node, attribute, values, MR_ONNX_GRAPH_NUMBERS) : 0;
        return count <= MR_ONNX_GRAPH_NUMBERS ? count : -1;
    }
    for (int i = 0; i < tensor->count; i++)
        values[i] = whole(tensor->numbers[i]);
    bool empty = tensor->rank == 1 && tensor->dims[0] == 0;
    return tensor->count || empty ? tensor->count : -1;
}

/* ---- operators that keep the shape ------------------------------------------------------------------------------- */

static bool same_as(const mr_onnx_graph *graph, const mr_onnx_node *node, int element) {
    const mr_onnx_tensor *from = mr_onnx_shaped(graph, node, 0);
    bool done = from;
    for (int i = 0; i < node->output_count && from; i++) {
        mr_onnx_tensor *to = mr_onnx_output(graph, node, i);
        done &= !to || mr_onnx_set(to, i ? to->element : element ? element : from->element, from->rank, from->dims);
    }
    return done;
}

static bool infer_same(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    return same_as(graph, node, 0);
}

/* Statistics that a normalisation also outputs get no shape: nothing uses them. */
static bool infer_first(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    const mr_onnx_tensor *from = mr_onnx_shaped(graph, node, 0);
    return from && mr_onnx_set(mr_onnx_output(graph, node, 0), from->element, from->rank, from->dims);
}

static bool infer_cast(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    const mr_onnx_tensor *from = mr_onnx_input(graph, node, 0);
    mr_onnx_tensor *to = mr_onnx_output(graph, node, 0);
    int element = (int)mr_onnx_integer(node, "to", 0);
    if (!same_as(graph, node, element))
        return false;
    for (int i = 0; i < from->count && to; i++) {
        bool cut = element == MR_ONNX_I64 || element == MR_ONNX_I32;
        to->numbers[i] = cut ? (double)whole(from->numbers[i]) : from->numbers[i];
    }
    if (to)
        to->count = from->count;
    return true;
}

static bool infer_identity(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    const mr_onnx_tensor *from = mr_onnx_input(graph, node, 0);
    mr_onnx_tensor *to = mr_onnx_output(graph, node, 0);
    if (!same_as(graph, node, 0) || !to)
        return false;
    to->count = from->count;
    memcpy(to->numbers, from->numbers, sizeof to->numbers);
    return true;
}

static bool infer_quantize(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    const mr_onnx_tensor *zero = mr_onnx_input(graph, node, 2);
    int element = (int)mr_onnx_integer(node, "output_dtype", 0);
    return same_as(graph, node, zero && zero->element ? zero->element : element ? element : MR_ONNX_U8);
}

static bool infer_dequantize(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    const mr_onnx_tensor *scale = mr_onnx_input(graph, node, 1);
    return same_as(graph, node, scale && scale->element ? scale->element : MR_ONNX_F32);
}

static bool infer_constant(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    mr_onnx_tensor *to = mr_onnx_output(graph, node, 0);
    if (!to || mr_onnx_constant(node, "value", to))
        return to && to->rank >= 0;
    int64_t values[MR_ONNX_GRAPH_NUMBERS];
    bool list = mr_onnx_has(node, "value_ints");
    int count = list ? mr_onnx_integers(node, "value_ints", values, MR_ONNX_GRAPH_NUMBERS) : 1;
    if (!list && !mr_onnx_has(node, "value_int"))
        return false;
    if (!list)
        values[0] = mr_onnx_integer(node, "value_int", 0);
    to->count = count <= MR_ONNX_GRAPH_NUMBERS ? count : 0;
    for (int i = 0; i < to->count; i++)
        to->numbers[i] = (double)values[i];
    return mr_onnx_set(to, MR_ONNX_I64, list, &(int64_t){count});
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

#define EACH(name, per) {name, MR_ONNX_EACH, infer_same, per, 0}
#define FIRST(name, per) {name, MR_ONNX_EACH, infer_first, per, 0}
#define PAIR(name, second) {name, MR_ONNX_EACH, mr_onnx_infer_broadcast, 1, second}
#define REDUCE(name) {name, MR_ONNX_ACROSS, mr_onnx_infer_reduce, 1, 0}
#define MOVE(name, infer) {name, MR_ONNX_MOVE, infer, 0, 0}
#define VIEW(name, infer) {name, MR_ONNX_VIEW, infer, 0, 0}
#define PICK(name, infer) {name, MR_ONNX_PICK, infer, 0, 0}

/* From com.microsoft, only what its quantiser and optimiser write to files. */
/* ---- convolutions, pools, products ------------------------------------------------------------------------------- */

enum { AXES = MR_ONNX_GRAPH_RANK - 2 };

/* How a window moves over the axes after batch and channels. */
typedef struct window {
    int axes;
    int64_t size[AXES], stride[AXES], dilation[AXES], before[AXES], after[AXES];
    bool same, ceiling; /* same: the output has as many positions as strides fit in the input */
} window;

/* Reads one number per axis, each at least `least`; if the list is missing, all are `fallback`. */
static bool read_axes(const mr_onnx_node *node, const char *name, int axes, int64_t least, int64_t fallback,
                      int64_t *to) {
    int count = mr_onnx_integers(node, name, to, axes);
    for (int i = 0; i < axes && count == 0; i++)
        to[i] = fallback;
    for (int i = 0; i < axes; i++)
        if ((count && count != axes) || to[i] < least)
            return false;
    return true;
}

static bool read_pads(const mr_onnx_node *node, window *w) {
    int64_t pads[2 * AXES] = {0};
    mr_pb_span how = mr_onnx_text(node, "auto_pad");
    w->same = mr_pb_is(how, "SAME_UPPER") || mr_pb_is(how, "SAME_LOWER");
    if (w->same || mr_pb_is(how, "VALID"))
        return true;
    int count = mr_onnx_integers(node, "pads", pads, 2 * w->axes);
    for (int i = 0; i < w->axes; i++) {
        w->before[i] = pads[i];
        w->after[i] = pads[w->axes + i];
    }
    return count == 0 || count == 2 * w->axes;
}

/* `weights` NULL: a pool. */
static bool read_window(const mr_onnx_node *node, int axes, const mr_onnx_tensor *weights, window *w) {
    *w = (window){.axes = axes};
    if (axes < 1 || axes > AXES)
        return false;
    w->ceiling = mr_onnx_integer(node, "ceil_mode", 0);
    if (weights)
        memcpy(w->size, weights->dims + 2, (size_t)axes * sizeof *w->size);
    else if (!read_axes(node, "kernel_shape", axes, 1, 0, w->size))
        return false;
    return read_axes(node, "strides", axes, 1, 1, w->stride) && read_axes(node, "dilations", axes, 1, 1, w->dilation) &&
           read_pads(node, w);
}

/* How many positions the window has along an axis. */
static int64_t positions(const window *w, int axis, int64_t size) {
    int64_t stride = w->stride[axis];
    if (w->same)
        return (size + stride - 1) / stride;
    int64_t room = size + w->before[axis] + w->after[axis] - w->dilation[axis] * (w->size[axis] - 1) - 1;
    if (room < 0)
        return -1;
    int64_t count = (room + (w->ceiling ? stride - 1 : 0)) / stride + 1;
    /* A window that would begin after the input and its leading padding is not counted. */
    return w->ceiling && (count - 1) * stride >= size + w->before[axis] ? count - 1 : count;
}

static bool slide(const window *w, const mr_onnx_tensor *from, int64_t channels, int element, mr_onnx_tensor *to) {
    int64_t dims[MR_ONNX_GRAPH_RANK] = {from->dims[0], channels};
    for (int i = 0; i < w->axes; i++)
        dims[i + 2] = positions(w, i, from->dims[i + 2]);
    return mr_onnx_set(to, element, w->axes + 2, dims);
}

/* A product's output element type: a quantised product has its zero point's type, an integer product 32 bits. */
static int product_element(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    const mr_onnx_tensor *first = mr_onnx_input(graph, node, 0), *zero = mr_onnx_input(graph, node, 7);
    if (node->known->weight == 3)
        return zero ? zero->element : 0;
    return mr_pb_is(node->operation, "ConvInteger") || mr_pb_is(node->operation, "MatMulInteger") ? MR_ONNX_I32
                                                                                                  : first->element;
}

static bool infer_conv(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    const mr_onnx_tensor *from = mr_onnx_shaped(graph, node, 0);
    const mr_onnx_tensor *weights = mr_onnx_shaped(graph, node, node->known->weight);
    window w;
    if (!from || !weights || from->rank < 3 || weights->rank != from->rank ||
        from->dims[1] != weights->dims[1] * mr_onnx_integer(node, "group", 1) ||
        !read_window(node, from->rank - 2, weights, &w))
        return false;
    return slide(&w, from, weights->dims[0], product_element(graph, node), mr_onnx_output(graph, node, 0));
}

static bool infer_deconv(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    const mr_onnx_tensor *from = mr_onnx_shaped(graph, node, 0), *weights = mr_onnx_shaped(graph, node, 1);
    int64_t more[AXES], asked[AXES], dims[MR_ONNX_GRAPH_RANK];
    window w;
    if (!from || !weights || from->rank < 3 || weights->rank != from->rank || from->dims[1] != weights->dims[0] ||
        !read_window(node, from->rank - 2, weights, &w) || !read_axes(node, "output_padding", w.axes, 0, 0, more) ||
        !read_axes(node, "output_shape", w.axes, 0, 0, asked))
        return false;
    dims[0] = from->dims[0];
    dims[1] = weights->dims[1] * mr_onnx_integer(node, "group", 1);
    for (int i = 0; i < w.axes; i++) {
        int64_t size = from->dims[i + 2], stride = w.stride[i];
        dims[i + 2] = asked[i]   ? asked[i]
                      : w.same   ? size * stride
                                 : stride * (size - 1) + more[i] + w.dilation[i] * (w.size[i] - 1) + 1 - w.before[i] -
                                       w.after[i];
    }
    return mr_onnx_set(mr_onnx_output(graph, node, 0), from->element, from->rank, dims);
}

static bool infer_pool(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    const mr_onnx_tensor *from = mr_onnx_shaped(graph, node, 0);
    window w;
    if (!from || mr_onnx_integer(node, "channels_last", 0) || !read_window(node, from->rank - 2, NULL, &w))
        return false;
    mr_onnx_tensor *indices = mr_onnx_output(graph, node, 1);
    return slide(&w, from, from->dims[1], from->element, mr_onnx_output(graph, node, 0)) &&
           (!indices || slide(&w, from, from->dims[1], MR_ONNX_I64, indices));
}

static bool infer_global(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    const mr_onnx_tensor *from = mr_onnx_shaped(graph, node, 0);
    int64_t dims[MR_ONNX_GRAPH_RANK];
    if (!from || from->rank < 3 || mr_onnx_integer(node, "channels_last", 0))
        return false;
    for (int i = 0; i < from->rank; i++)
        dims[i] = i < 2 ? from->dims[i] : 1;
    return mr_onnx_set(mr_onnx_output(graph, node, 0), from->element, from->rank, dims);
}

static bool infer_gemm(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    const mr_onnx_tensor *a = mr_onnx_shaped(graph, node, 0), *b = mr_onnx_shaped(graph, node, 1);
    bool turn_a = mr_onnx_integer(node, "transA", 0), turn_b = mr_onnx_integer(node, "transB", 0);
    if (!a || !b || a->rank != 2 || b->rank != 2 || a->dims[!turn_a] != b->dims[turn_b])
        return false;
    return mr_onnx_set(mr_onnx_output(graph, node, 0), a->element, 2, (int64_t[]){a->dims[turn_a], b->dims[!turn_b]});
}

/* As numpy.matmul. */
static bool infer_matmul(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    const mr_onnx_tensor *a = mr_onnx_shaped(graph, node, 0), *b = mr_onnx_shaped(graph, node, node->known->weight);
    int64_t dims[MR_ONNX_GRAPH_RANK];
    if (!a || !b || a->rank < 1 || b->rank < 1)
        return false;
    int over_a = a->rank > 2 ? a->rank - 2 : 0, over_b = b->rank > 2 ? b->rank - 2 : 0;
    int over = over_a > over_b ? over_a : over_b, rank = over;
    if (a->dims[a->rank - 1] != b->dims[b->rank > 1 ? b->rank - 2 : 0])
        return false;
    for (int i = 0; i < over; i++) {
        int64_t one = i >= over - over_a ? a->dims[i - over + over_a] : 1;
        int64_t two = i >= over - over_b ? b->dims[i - over + over_b] : 1;
        if (one != two && one != 1 && two != 1)
            return false;
        dims[i] = one == 1 ? two : one;
    }
    if (a->rank > 1)
        dims[rank++] = a->dims[a->rank - 2];
    if (b->rank > 1)
        dims[rank++] = b->dims[b->rank - 1];
    return mr_onnx_set(mr_onnx_output(graph, node, 0), product_element(graph, node), rank, dims);
}

static const mr_onnx_operator operators[] = {
    {"Conv", MR_ONNX_CONV, infer_conv, 0, 1},
    {"FusedConv", MR_ONNX_CONV, infer_conv, 0, 1},
    {"ConvInteger", MR_ONNX_CONV, infer_conv, 0, 1},
    {"QLinearConv", MR_ONNX_CONV, infer_conv, 0, 3},
    {"ConvTranspose", MR_ONNX_DECONV, infer_deconv, 0, 1},
    {"Gemm", MR_ONNX_GEMM, infer_gemm, 0, 1},
    {"FusedGemm", MR_ONNX_GEMM, infer_gemm, 0, 1},
    {"MatMul", MR_ONNX_MATMUL, infer_matmul, 0, 1},
    {"MatMulInteger", MR_ONNX_MATMUL, infer_matmul, 0, 1},
    {"QLinearMatMul", MR_ONNX_MATMUL, infer_matmul, 0, 3},
    {"MaxPool", MR_ONNX_POOL, infer_pool, 0, 0},
    {"AveragePool", MR_ONNX_POOL, infer_pool, 0, 0},
    {"LpPool", MR_ONNX_POOL, infer_pool, 0, 0},
    {"QLinearAveragePool", MR_ONNX_POOL, infer_pool, 0, 0},
    {"GlobalAveragePool", MR_ONNX_ACROSS, infer_global, 1, 0},
    {"GlobalMaxPool", MR_ONNX_ACROSS, infer_global, 1, 0},
    {"QLinearGlobalAveragePool", MR_ONNX_ACROSS, infer_global, 1, 0},
    REDUCE("ReduceMean"), REDUCE("ReduceSum"), REDUCE("ReduceMax"), REDUCE("ReduceMin"), REDUCE("ReduceProd"),
    REDUCE("ReduceL1"), REDUCE("ReduceL2"), REDUCE("ReduceSumSquare"), REDUCE("ReduceLogSumExp"),
    {"ArgMax", MR_ONNX_ACROSS, mr_onnx_infer_arg, 1, 0},
    {"ArgMin", MR_ONNX_ACROSS, mr_onnx_infer_arg, 1, 0},
    {"TopK", MR_ONNX_ACROSS, mr_onnx_infer_topk, 1, 0},
    EACH("Relu", 1), EACH("Clip", 1), EACH("Sigmoid", 1), EACH("HardSigmoid", 1), EACH("HardSwish", 1),
    EACH("LeakyRelu", 1), EACH("Elu", 1), EACH("Selu", 1), EACH("Celu", 1), EACH("Tanh", 1), EACH("Exp", 1),
    EACH("Log", 1), EACH("Sqrt", 1), EACH("Reciprocal", 1), EACH("Neg", 1), EACH("Abs", 1), EACH("Floor", 1),
    EACH("Ceil", 1), EACH("Round", 1), EACH("Sign", 1), EACH("Erf", 1), EACH("Gelu", 1), EACH("QuickGelu", 1),
    EACH("Mish", 1), EACH("Swish", 1), EACH("Softplus", 1), EACH("Softsign", 1), EACH("ThresholdedRelu", 1),
    EACH("Not", 1), EACH("Sin", 1), EACH("Cos", 1), EACH("CumSum", 1), EACH("QLinearSigmoid", 1),
    EACH("QLinearLeakyRelu", 1), EACH("Softmax", 3), EACH("LogSoftmax", 3), EACH("LRN", 3), EACH("LpNormalization", 3),
    FIRST("BatchNormalization", 2), FIRST("InstanceNormalization", 4), FIRST("LayerNormalization", 4),
    FIRST("GroupNormalization", 4), FIRST("SimplifiedLayerNormalization", 4),
    {"Cast", MR_ONNX_EACH, infer_cast, 1, 0},
    {"QuantizeLinear", MR_ONNX_EACH, infer_quantize, 2, 0},
    {"DequantizeLinear", MR_ONNX_EACH, infer_dequantize, 2, 0},
    PAIR("Add", 1), PAIR("Sub", 1), PAIR("Mul", 1), PAIR("Div", 1), PAIR("Pow", 1), PAIR("Mod", 1), PAIR("Min", 1),
    PAIR("Max", 1), PAIR("Sum", 1), PAIR("Mean", 1), PAIR("PRelu", 1), PAIR("Where", 1), PAIR("Equal", 1),
    PAIR("Greater", 1), PAIR("GreaterOrEqual", 1), PAIR("Less", 1), PAIR("LessOrEqual", 1), PAIR("And", 1),
    PAIR("Or", 1), PAIR("Xor", 1), PAIR("QLinearAdd", 3), PAIR("QLinearMul", 3),
    MOVE("Concat", mr_onnx_infer_concat), MOVE("Transpose", mr_onnx_infer_transpose),
    MOVE("Resize", mr_onnx_infer_resize),
    MOVE("Upsample", mr_onnx_infer_resize), MOVE("Pad", mr_onnx_infer_pad), MOVE("Tile", mr_onnx_infer_tile),
    MOVE("Expand", mr_onnx_infer_expand), MOVE("DepthToSpace", mr_onnx_infer_blocks),
    MOVE("SpaceToDepth", mr_onnx_infer_blocks), MOVE("ConstantOfShape", mr_onnx_infer_filled),
    PICK("Slice", mr_onnx_infer_slice), PICK("Split", mr_onnx_infer_split), PICK("Gather", mr_onnx_infer_gather),
    VIEW("Reshape", mr_onnx_infer_reshape), VIEW("Flatten", mr_onnx_infer_flatten),
    VIEW("Squeeze", mr_onnx_infer_squeeze),
    VIEW("Unsqueeze", mr_onnx_infer_unsqueeze), VIEW("Identity", infer_identity), VIEW("Dropout", infer_same),
    VIEW("Shape", mr_onnx_infer_shape), VIEW("Constant", infer_constant)};

/* A model's functions can have any name, in separate domains. */
const mr_onnx_operator *mr_onnx_find_operator(const mr_onnx_node *node) {
    bool standard = mr_pb_is(node->domain, "") || mr_pb_is(node->domain, "ai.onnx");
    if (!standard && !mr_pb_is(node->domain, "com.microsoft"))
        return NULL;
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++)
        if (mr_pb_is(node->operation, operators[i].name))
            return &operators[i];
    return NULL;
}
