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
    return number > most ? MR_ONNX_GRAPH_DIM : number < -most ? -MR_ONNX_GRAPH_DIM : number == number ? (int64_t)number : 0;
}

int mr_onnx_list(const mr_onnx_graph *graph, const mr_onnx_node *node, int input, const char *attribute, int64_t *values) {
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

/* Statistics that a normalisation gives as well are of other shapes, which nobody asks for. */
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

/* Of com.microsoft those that its quantiser and optimiser write into files. */
static const mr_onnx_operator operators[] = {
    {"Conv", MR_ONNX_CONV, mr_onnx_infer_conv, 0, 1},
    {"FusedConv", MR_ONNX_CONV, mr_onnx_infer_conv, 0, 1},
    {"ConvInteger", MR_ONNX_CONV, mr_onnx_infer_conv, 0, 1},
    {"QLinearConv", MR_ONNX_CONV, mr_onnx_infer_conv, 0, 3},
    {"ConvTranspose", MR_ONNX_DECONV, mr_onnx_infer_deconv, 0, 1},
    {"Gemm", MR_ONNX_GEMM, mr_onnx_infer_gemm, 0, 1},
    {"FusedGemm", MR_ONNX_GEMM, mr_onnx_infer_gemm, 0, 1},
    {"MatMul", MR_ONNX_MATMUL, mr_onnx_infer_matmul, 0, 1},
    {"MatMulInteger", MR_ONNX_MATMUL, mr_onnx_infer_matmul, 0, 1},
    {"QLinearMatMul", MR_ONNX_MATMUL, mr_onnx_infer_matmul, 0, 3},
    {"MaxPool", MR_ONNX_POOL, mr_onnx_infer_pool, 0, 0},
    {"AveragePool", MR_ONNX_POOL, mr_onnx_infer_pool, 0, 0},
    {"LpPool", MR_ONNX_POOL, mr_onnx_infer_pool, 0, 0},
    {"QLinearAveragePool", MR_ONNX_POOL, mr_onnx_infer_pool, 0, 0},
    {"GlobalAveragePool", MR_ONNX_ACROSS, mr_onnx_infer_global, 1, 0},
    {"GlobalMaxPool", MR_ONNX_ACROSS, mr_onnx_infer_global, 1, 0},
    {"QLinearGlobalAveragePool", MR_ONNX_ACROSS, mr_onnx_infer_global, 1, 0},
    REDUCE("ReduceMean"), REDUCE("ReduceSum"), REDUCE("ReduceMax"), REDUCE("ReduceMin"), REDUCE("ReduceProd"),
    REDUCE("ReduceL1"), REDUCE("ReduceL2"), REDUCE("ReduceSumSquare"), REDUCE("ReduceLogSumExp"),
    {"ArgMax", MR_ONNX_ACROSS, mr_onnx_infer_arg, 1, 0},
    {"ArgMin", MR_ONNX_ACROSS, mr_onnx_infer_arg, 1, 0},
    {"TopK", MR_ONNX_ACROSS, mr_onnx_infer_topk, 1, 0},
    EACH("Relu", 1), EACH("Clip", 1), EACH("Sigmoid", 1), EACH("HardSigmoid", 1), EACH("HardSwish", 1),
    EACH("LeakyRelu", 1), EACH("Elu", 1), EACH("Selu", 1), EACH("Celu", 1), EACH("Tanh", 1), EACH("Exp", 1),
    EACH("Log", 1), EACH("Sqrt", 1), EACH("Reciprocal", 1), EACH("Neg", 1), EACH("Abs", 1), EACH("Floor", 1),
    EACH("Ceil", 1), EACH("Round", 1), EACH("Sign", 1), EACH("Erf", 1), EACH("Gelu", 1), EACH("QuickGelu", 1),
    EACH("Mish", 1), EACH("Swish", 1), EACH("Softplus", 1), EACH("Softsign", 1), EACH("ThresholdedRelu", 1), EACH("Not", 1),
    EACH("Sin", 1), EACH("Cos", 1), EACH("CumSum", 1), EACH("QLinearSigmoid", 1), EACH("QLinearLeakyRelu", 1),
    EACH("Softmax", 3), EACH("LogSoftmax", 3), EACH("LRN", 3), EACH("LpNormalization", 3),
    FIRST("BatchNormalization", 2), FIRST("InstanceNormalization", 4), FIRST("LayerNormalization", 4),
    FIRST("GroupNormalization", 4), FIRST("SimplifiedLayerNormalization", 4),
    {"Cast", MR_ONNX_EACH, infer_cast, 1, 0},
    {"QuantizeLinear", MR_ONNX_EACH, infer_quantize, 2, 0},
    {"DequantizeLinear", MR_ONNX_EACH, infer_dequantize, 2, 0},
    PAIR("Add", 1), PAIR("Sub", 1), PAIR("Mul", 1), PAIR("Div", 1), PAIR("Pow", 1), PAIR("Mod", 1), PAIR("Min", 1),
    PAIR("Max", 1), PAIR("Sum", 1), PAIR("Mean", 1), PAIR("PRelu", 1), PAIR("Where", 1), PAIR("Equal", 1),
    PAIR("Greater", 1), PAIR("GreaterOrEqual", 1), PAIR("Less", 1), PAIR("LessOrEqual", 1), PAIR("And", 1), PAIR("Or", 1),
    PAIR("Xor", 1), PAIR("QLinearAdd", 3), PAIR("QLinearMul", 3),
    MOVE("Concat", mr_onnx_infer_concat), MOVE("Transpose", mr_onnx_infer_transpose), MOVE("Resize", mr_onnx_infer_resize),
    MOVE("Upsample", mr_onnx_infer_resize), MOVE("Pad", mr_onnx_infer_pad), MOVE("Tile", mr_onnx_infer_tile),
    MOVE("Expand", mr_onnx_infer_expand), MOVE("DepthToSpace", mr_onnx_infer_blocks),
    MOVE("SpaceToDepth", mr_onnx_infer_blocks), MOVE("ConstantOfShape", mr_onnx_infer_filled),
    PICK("Slice", mr_onnx_infer_slice), PICK("Split", mr_onnx_infer_split), PICK("Gather", mr_onnx_infer_gather),
    VIEW("Reshape", mr_onnx_infer_reshape), VIEW("Flatten", mr_onnx_infer_flatten), VIEW("Squeeze", mr_onnx_infer_squeeze),
    VIEW("Unsqueeze", mr_onnx_infer_unsqueeze), VIEW("Identity", infer_identity), VIEW("Dropout", infer_same),
    VIEW("Shape", mr_onnx_infer_shape), VIEW("Constant", infer_constant)};

/* Functions of the model's own may bear any name, in domains of their own. */
const mr_onnx_operator *mr_onnx_find_operator(const mr_onnx_node *node) {
    bool standard = mr_pb_is(node->domain, "") || mr_pb_is(node->domain, "ai.onnx");
    if (!standard && !mr_pb_is(node->domain, "com.microsoft"))
        return NULL;
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++)
        if (mr_pb_is(node->operation, operators[i].name))
            return &operators[i];
    return NULL;
}
