#include "stages/model/onnx/onnx_weights.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "millrace/status.h"
#include "stages/model/onnx/protobuf.h"

/* onnx.proto field numbers. */
enum {
    MODEL_GRAPH = 7,
    GRAPH_NODE = 1,
    GRAPH_INITIALIZER = 5,
    NODE_INPUT = 1,
    NODE_OUTPUT = 2,
    NODE_OPERATOR = 4,
    NODE_ATTRIBUTE = 5,
    ATTRIBUTE_TENSOR = 5,
    TENSOR_DIMS = 1,
    TENSOR_TYPE = 2,
    TENSOR_FLOATS = 4,
    TENSOR_NAME = 8,
    TENSOR_RAW = 9,
    TENSOR_DOUBLES = 10
};
/* TensorProto.DataType */
enum { TYPE_F32 = 1, TYPE_F16 = 10, TYPE_F64 = 11, TYPE_BF16 = 16 };
enum { MAX_RANK = 8, PIECE = 512, PLACE_TEXT = 160 };

static const char *const operators[] = {"Gemm", "MatMul", "Conv", "ConvTranspose", "BatchNormalization",
                                        "InstanceNormalization", "LayerNormalization", "GroupNormalization", "LSTM",
                                        "GRU", "RNN", "PRelu", "DequantizeLinear", "QuantizeLinear", "FusedConv",
                                        "FusedMatMul", "QLinearConv", "QLinearMatMul"};

typedef struct tensor {
    mr_pb_span name, numbers;
    uint64_t type, dims[MAX_RANK];
    int rank;
} tensor;

/* If all `exponent` bits are set, the number is infinite or NaN (IEEE 754). */
typedef struct layout {
    uint64_t type;
    size_t bytes;
    uint64_t exponent, fraction;
} layout;

static const layout layouts[] = {{TYPE_F32, 4, 0x7f800000, 0x007fffff},
                                 {TYPE_F16, 2, 0x7c00, 0x03ff},
                                 {TYPE_BF16, 2, 0x7f80, 0x007f},
                                 {TYPE_F64, 8, UINT64_C(0x7ff0000000000000), UINT64_C(0x000fffffffffffff)}};

static const layout *find_layout(uint64_t type) {
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++)
        if (layouts[i].type == type)
            return &layouts[i];
    return NULL;
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static uint64_t number_at(const uint8_t *data, const layout *of, size_t at) {
    uint64_t bits = 0;
    for (size_t i = 0; i < of->bytes; i++)
        bits |= (uint64_t)data[at * of->bytes + i] << 8 * i;
    return bits;
}

/* Checks many f32 numbers at a time, since most numbers are f32. */
static bool all_finite_f32(const uint8_t *data, size_t count) {
    uint32_t bits[PIECE], bad = 0;
    memcpy(bits, data, count * sizeof *bits);
    for (size_t i = 0; i < count; i++)
        bad |= (bits[i] & 0x7f800000) == 0x7f800000;
    return !bad;
}

/* Index of the first number that is not finite; `count` if all are. */
static size_t find_bad(const uint8_t *data, const layout *of, size_t count) {
    for (size_t first = 0; first < count; first += PIECE) {
        size_t here = count - first < PIECE ? count - first : PIECE;
        if (of->type == TYPE_F32 && all_finite_f32(data + first * of->bytes, here))
            continue;
        for (size_t i = first; i < first + here; i++)
            if ((number_at(data, of, i) & of->exponent) == of->exponent)
                return i;
    }
    return count;
}

static void print_place(const tensor *t, size_t at, char *text, size_t bytes) {
    uint64_t index[MAX_RANK] = {0};
    size_t used = 0, rest = at;
    for (int i = t->rank; i-- > 0;) {
        index[i] = t->dims[i] ? rest % t->dims[i] : 0;
        rest = t->dims[i] ? rest / t->dims[i] : 0;
    }
    if (t->rank == 2) {
        snprintf(text, bytes, "row %" PRIu64 ", column %" PRIu64, index[0], index[1]);
        return;
    }
    text[0] = 0;
    for (int i = 0; i < t->rank && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%" PRIu64, i ? ", " : "index ", index[i]);
    if (!t->rank)
        snprintf(text, bytes, "its only number");
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

static void add_dims(tensor *t, const mr_pb_field *f) {
    mr_pb_span packed = f->bytes;
    uint64_t value = f->value;
    while (f->wire == MR_PB_VARINT || mr_pb_varint(&packed, &value)) {
        if (t->rank < MAX_RANK)
            t->dims[t->rank] = value;
        t->rank += t->rank < MAX_RANK;
        if (f->wire == MR_PB_VARINT)
            return;
    }
}

static tensor read_tensor(mr_pb_span from) {
    tensor t = {0};
    mr_pb_field f;
    while (from.at < from.end && mr_pb_next(&from, &f)) {
        if (f.number == TENSOR_DIMS && (f.wire == MR_PB_VARINT || f.wire == MR_PB_BYTES))
            add_dims(&t, &f);
        if (f.number == TENSOR_TYPE && f.wire == MR_PB_VARINT)
            t.type = f.value;
        if (f.number == TENSOR_NAME)
            t.name = f.bytes;
        if ((f.number == TENSOR_RAW || f.number == TENSOR_FLOATS || f.number == TENSOR_DOUBLES) &&
            f.wire == MR_PB_BYTES)
            t.numbers = f.bytes;
    }
    return t;
}

/* Which operator uses the tensor with this name as weights; empty if none does. */
static mr_pb_span find_user(mr_pb_span graph, mr_pb_span name) {
    mr_pb_field f, g;
    while (graph.at < graph.end && mr_pb_next(&graph, &f)) {
        mr_pb_span node = f.number == GRAPH_NODE ? f.bytes : (mr_pb_span){0}, operation = {0};
        bool takes = false, known = false;
        while (node.at < node.end && mr_pb_next(&node, &g)) {
            takes |= g.number == NODE_INPUT && mr_pb_same(g.bytes, name);
            if (g.number == NODE_OPERATOR)
                operation = g.bytes;
        }
        for (size_t i = 0; takes && i < sizeof operators / sizeof operators[0]; i++)
            known |= mr_pb_is(operation, operators[i]);
        if (known)
            return operation;
    }
    return (mr_pb_span){0};
}

static int check_tensor(mr_pb_span graph, const tensor *t, mr_pb_span name) {
    const layout *of = find_layout(t->type);
    size_t count = of ? (size_t)(t->numbers.end - t->numbers.at) / of->bytes : 0;
    size_t at = count ? find_bad(t->numbers.at, of, count) : count;
    mr_pb_span user = at < count ? find_user(graph, name) : (mr_pb_span){0};
    char place[PLACE_TEXT];
    if (user.at == user.end)
        return MR_OK;
    bool nan = number_at(t->numbers.at, of, at) & of->fraction;
    print_place(t, at, place, sizeof place);
    return mr_fail(MR_ERROR_DATA, "the weights \"%.*s\" (of a %.*s) are %s at %s, and weights must be finite",
                   (int)(name.end - name.at), (const char *)name.at, (int)(user.end - user.at),
                   (const char *)user.at, nan ? "nan" : "infinite", place);
}

/* A Constant node holds its tensor in an attribute; its output names it. */
static int check_node(mr_pb_span graph, mr_pb_span node) {
    mr_pb_field f, g;
    mr_pb_span name = {0}, value = {0};
    bool constant = false;
    while (node.at < node.end && mr_pb_next(&node, &f)) {
        constant |= f.number == NODE_OPERATOR && mr_pb_is(f.bytes, "Constant");
        if (f.number == NODE_OUTPUT)
            name = f.bytes;
        while (f.number == NODE_ATTRIBUTE && f.bytes.at < f.bytes.end && mr_pb_next(&f.bytes, &g))
            if (g.number == ATTRIBUTE_TENSOR)
                value = g.bytes;
    }
    const tensor t = read_tensor(constant ? value : (mr_pb_span){0});
    return check_tensor(graph, &t, name);
}

static int check_graph(mr_pb_span graph) {
    mr_pb_span rest = graph;
    mr_pb_field f;
    int status = MR_OK;
    while (!status && rest.at < rest.end && mr_pb_next(&rest, &f)) {
        if (f.number == GRAPH_INITIALIZER) {
            const tensor t = read_tensor(f.bytes);
            status = check_tensor(graph, &t, t.name);
        } else if (f.number == GRAPH_NODE) {
            status = check_node(graph, f.bytes);
        }
    }
    return status;
}

int mr_onnx_check_weights(const uint8_t *data, size_t bytes) {
    mr_pb_span model = {data, data + bytes};
    mr_pb_field f;
    int status = MR_OK;
    while (!status && model.at < model.end && mr_pb_next(&model, &f))
        status = f.number == MODEL_GRAPH ? check_graph(f.bytes) : MR_OK;
    return status;
}
