/* The work that networks need, compared with figures computed by hand; also malformed files. e2e/test_operations.py
 * compares real networks with Python's onnx. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "millrace/status.h"
#include "stages/model/onnx/onnx_work.h"
#include "tests/support/suite.h"

/* ---- small ONNX files -------------------------------------------------------------------------------------------- */

typedef struct message {
    size_t bytes;
    uint8_t data[8192];
} message;

static void put_varint(message *m, uint64_t value) {
    for (; value >= 0x80; value >>= 7)
        m->data[m->bytes++] = (uint8_t)(value | 0x80);
    m->data[m->bytes++] = (uint8_t)value;
}

static void put_number(message *m, unsigned field, int64_t value) {
    put_varint(m, field << 3);
    put_varint(m, (uint64_t)value);
}

static void put_bytes(message *m, unsigned field, const void *data, size_t bytes) {
    put_varint(m, field << 3 | 2);
    put_varint(m, bytes);
    assert_true(m->bytes + bytes <= sizeof m->data);
    if (bytes)
        memcpy(m->data + m->bytes, data, bytes);
    m->bytes += bytes;
}

static void put_text(message *m, unsigned field, const char *text) {
    put_bytes(m, field, text, strlen(text));
}

/* Adds the names in a text, separated by blanks; "-" leaves one out. */
static void put_names(message *m, unsigned field, const char *names) {
    char copy[256], *rest = copy;
    snprintf(copy, sizeof copy, "%s", names);
    for (char *name; (name = strtok_r(rest, " ", &rest));)
        put_text(m, field, strcmp(name, "-") == 0 ? "" : name);
}

typedef struct list {
    const char *name;
    int count; /* 0: the end; -1: a single number */
    int64_t values[8];
} list;

static message graph;

static void node(const char *operation, const char *inputs, const char *outputs, const list *attributes) {
    message m = {0};
    put_names(&m, 1, inputs);
    put_names(&m, 2, outputs);
    put_text(&m, 3, operation[0] == '?' ? "" : "here");
    put_text(&m, 4, operation[0] == '?' ? operation + 1 : operation);
    for (; attributes && attributes->count; attributes++) {
        message a = {0};
        put_text(&a, 1, attributes->name);
        if (attributes->count < 0)
            put_number(&a, 3, attributes->values[0]);
        for (int i = 0; i < attributes->count; i++)
            put_number(&a, 8, attributes->values[i]);
        put_bytes(&m, 5, a.data, a.bytes);
    }
    put_bytes(&graph, 1, m.data, m.bytes);
}

enum { WEIGHTS = 5, INPUT = 11, OUTPUT = 12, VALUE = 13 };

static void tensor(unsigned field, const char *name, int element, int rank, const int64_t *dims) {
    message m = {0}, shape = {0}, type = {0}, of = {0};
    for (int i = 0; i < rank && field == WEIGHTS; i++)
        put_number(&m, 1, dims[i]);
    if (field == WEIGHTS) {
        put_number(&m, 2, element);
        put_text(&m, 8, name);
        put_bytes(&graph, field, m.data, m.bytes);
        return;
    }
    for (int i = 0; i < rank; i++) {
        message dim = {0};
        if (dims[i] > 0)
            put_number(&dim, 1, dims[i]);
        else
            put_text(&dim, 2, "batch");
        put_bytes(&shape, 1, dim.data, dim.bytes);
    }
    put_number(&of, 1, element);
    put_bytes(&of, 2, shape.data, shape.bytes);
    put_bytes(&type, 1, of.data, of.bytes);
    put_text(&m, 1, name);
    put_bytes(&m, 2, type.data, type.bytes);
    put_bytes(&graph, field, m.data, m.bytes);
}

#define TENSOR(field, name, element, ...)                                                                            \
    tensor(field, name, element, sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t), (int64_t[]){__VA_ARGS__})

static message model;

static void make_model(void) {
    model.bytes = 0;
    put_bytes(&model, 7, graph.data, graph.bytes);
}

static mr_onnx_work counted(int64_t batch) {
    mr_onnx_work work;
    mr_onnx_shape shape = {.rank = 4, .dims = {batch, 3, 8, 6}};
    make_model();
    assert_int_equal(mr_onnx_count_work(model.data, model.bytes, &shape, 1, &work), MR_OK);
    return work;
}

/* 3x8x6 in, 4x4x3 out: 48 numbers with 27 products each; 108 weights. */
enum { IN = 144, OUT = 48, PRODUCTS = 48 * 27, PARAMETERS = 108 };
static const list halving[] = {{"strides", 2, {2, 2}}, {"pads", 4, {1, 1, 1, 1}}, {0}};

static void begin(int element, const char *first) {
    graph.bytes = 0;
    TENSOR(INPUT, "x", element, -1, 3, 8, 6);
    TENSOR(WEIGHTS, "w", element, 4, 3, 3, 3);
    node("Conv", "x w", first, halving);
}

#define NEAR(a, b) assert_true(fabs((a) - (b)) < 1e-6)

/* ---- counts ------------------------------------------------------------------------------------------------------ */

TEST(a_convolution_takes_two_for_each_product) {
    begin(1, "y");
    TENSOR(OUTPUT, "y", 1, -1, 4, 4, 3);
    for (int batch = 1; batch <= 5; batch += 4) {
        mr_onnx_work work = counted(batch);
        NEAR(work.multiply_adds, PRODUCTS * batch);
        NEAR(work.f32_operations, 2 * PRODUCTS * batch);
        NEAR(work.f16_operations, 0);
        NEAR(work.launches, 1);
        NEAR(work.weight_bytes, 4 * PARAMETERS);
        NEAR(work.input_bytes, 4 * IN * batch);
        NEAR(work.output_bytes, 4 * OUT * batch);
        NEAR(work.activation_bytes, 4 * (IN + OUT) * batch);
        assert_int_equal(work.missing, 0);
        assert_string_equal(work.why, "");
    }
    begin(10, "y");
    TENSOR(OUTPUT, "y", 10, -1, 4, 4, 3);
    mr_onnx_work half = counted(1);
    NEAR(half.f16_operations, 2 * PRODUCTS);
    NEAR(half.f32_operations, 0);
    NEAR(half.activation_bytes, 2 * (IN + OUT));
}

/* Nodes after the convolution: total launches, then the operations and bytes that they add. */
TEST(fused_nodes_are_not_launches) {
    static const struct {
        const char *nodes[3][3];
        int launches, operations, bytes;
    } cases[] = {
        {{{"Relu", "a", "y"}}, 1, OUT, 0},
        {{{"Clip", "a", "y"}}, 2, OUT, 8 * OUT},
        {{{"BatchNormalization", "a s s s s", "y"}}, 1, 0, 0},
        {{{"BatchNormalization", "a s s s s", "b"}, {"Relu", "b", "y"}}, 1, OUT, 0},
        {{{"Mul", "c a", "y"}}, 1, 0, 0},
        {{{"Add", "a r", "b"}, {"Relu", "b", "y"}}, 1, 2 * OUT, 4 * OUT},
        {{{"Add", "r a", "y"}}, 2, OUT, 12 * OUT},
        {{{"Relu", "a", "b"}, {"Add", "a b", "y"}}, 3, 2 * OUT, 20 * OUT},
        {{{"Relu", "a", "b"}, {"Flatten", "b", "y"}}, 1, OUT, 0},
        {{{"GlobalAveragePool", "a", "y"}}, 2, OUT, 4 * (OUT + 4)},
        {{{"MaxPool", "a", "y"}}, 2, 4 * 3 * 2 * 4, 4 * (OUT + 24)},
        {{{"Sigmoid", "a", "b"}, {"Mul", "a b", "y"}}, 3, 2 * OUT, 20 * OUT},
        {{{"Sigmoid", "a", "dead"}, {"Relu", "a", "y"}}, 1, OUT, 0},
    };
    static const list window[] = {{"kernel_shape", 2, {2, 2}}, {0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        begin(1, "a");
        TENSOR(WEIGHTS, "s", 1, 4);
        TENSOR(WEIGHTS, "c", 1, 4, 1, 1);
        TENSOR(INPUT, "r", 1, 1, 4, 4, 3);
        TENSOR(OUTPUT, "y", 1, 1, 1);
        for (int n = 0; n < 3 && cases[i].nodes[n][0]; n++)
            node(cases[i].nodes[n][0], cases[i].nodes[n][1], cases[i].nodes[n][2], n ? NULL : window);
        mr_onnx_work work = counted(1);
        print_message("case %zu: %g launches, %g operations, %g bytes\n", i, work.launches,
                      work.f32_operations - 2 * PRODUCTS, work.activation_bytes - 4 * (IN + OUT));
        NEAR(work.launches, cases[i].launches);
        NEAR(work.f32_operations - 2 * PRODUCTS, cases[i].operations);
        NEAR(work.activation_bytes - 4 * (IN + OUT), cases[i].bytes);
        NEAR(work.weight_bytes, 4 * PARAMETERS);
        assert_int_equal(work.missing, 0);
    }
}

TEST(unknown_nodes_are_named) {
    begin(1, "a");
    node("Strange", "a", "b", NULL);
    node("Conv", "b v", "y", NULL);
    TENSOR(WEIGHTS, "v", 1, 2, 4, 1, 1);
    TENSOR(OUTPUT, "y", 1, -1, 2, 4, 3);
    mr_onnx_work work = counted(3);
    assert_int_equal(work.missing, 2);
    assert_string_equal(work.why, "not modelled: operator Strange at node \"here\"");
    NEAR(work.multiply_adds, 3 * PRODUCTS);
    /* If the file gives the node's size, later nodes can be counted. The batch is identified by name. */
    TENSOR(VALUE, "b", 1, -1, 4, 4, 3);
    work = counted(3);
    assert_int_equal(work.missing, 1);
    NEAR(work.multiply_adds, 3 * (PRODUCTS + 24 * 4));
    NEAR(work.launches, 2);
    begin(2, "y");
    TENSOR(OUTPUT, "y", 2, -1, 4, 4, 3);
    work = counted(1);
    assert_string_equal(work.why, "operations on integers are not modelled: Conv at node \"here\"");
    NEAR(work.multiply_adds, PRODUCTS);
    NEAR(work.f32_operations + work.f16_operations + work.launches, 0);
    begin(1, "a");
    node("?Resize", "a - -", "y", NULL);
    TENSOR(OUTPUT, "y", 1, -1, -1, -1, -1);
    TENSOR(INPUT, "z", 1, 7);
    work = counted(-1);
    assert_string_equal(work.why, "the sizes are not known of the operator Conv at node \"here\"");
    NEAR(work.multiply_adds, 0);
}

/* ---- false declarations ------------------------------------------------------------------------------------------ */

static void check_sane(const uint8_t *data, size_t bytes) {
    mr_onnx_work work;
    mr_onnx_shape shape = {.rank = 4, .dims = {1, 3, 8, 6}};
    int status = mr_onnx_count_work(data, bytes, &shape, 1, &work);
    assert_true(status == MR_OK || status == MR_ERROR_DATA);
    if (status)
        return;
    assert_true(isfinite(work.f32_operations) && work.f32_operations >= 0 && isfinite(work.activation_bytes));
    assert_int_equal(work.missing > 0, *work.why != 0);
}

TEST(sizes_beyond_all_reason_are_not_counted) {
    static const int64_t large[] = {INT64_MAX, (INT64_C(1) << 30) + 1, INT64_C(1) << 30};
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) {
        graph.bytes = 0;
        TENSOR(INPUT, "x", 1, large[i], large[i], large[i], large[i]);
        TENSOR(WEIGHTS, "w", 1, large[i], large[i], 1, large[i]);
        TENSOR(OUTPUT, "y", 1, large[i], large[i], large[i], large[i]);
        node("Conv", "x w", "a", (list[]){{"pads", 4, {large[i], large[i], large[i], large[i]}}, {0}});
        node("Mul", "x x", "b", NULL);
        node("ConvTranspose", "x w", "c", (list[]){{"strides", 2, {large[i], large[i]}}, {0}});
        node("Concat", "a b c x x", "y", (list[]){{"axis", -1, {1}}, {0}});
        make_model();
        check_sane(model.data, model.bytes);
    }
}

/* A product without factors, whose shape only the file declares; a node that reads its own output. */
TEST(nodes_without_their_inputs_are_not_counted) {
    static const char *const names[] = {"Conv", "ConvTranspose", "Gemm", "MatMul", "QLinearConv", "MaxPool", "Add",
                                        "Concat", "Reshape", "Slice", "Gather", "Resize", "Split", "Shape",
                                        "BatchNormalization", "GlobalAveragePool", "ReduceMean", "TopK", "Expand",
                                        "Constant", "Where", "Pad"};
    static const char *const inputs[] = {"", "x", "- x", "x -", "x s", "y", "x x x", "s s s s", "x x x x x x x x x"};
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++)
        for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) {
            graph.bytes = 0;
            TENSOR(INPUT, "x", 1, 1, 3, 8, 6);
            tensor(INPUT, "s", 1, 0, NULL);
            node(names[n], inputs[i], "y", NULL);
            node("Relu", "y", "z", NULL);
            TENSOR(VALUE, "y", 1, 1, 3, 8, 6);
            TENSOR(OUTPUT, "z", 1, 1, 3, 8, 6);
            make_model();
            check_sane(model.data, model.bytes);
        }
}

TEST(broken_files_are_survived) {
    begin(1, "a");
    node("Concat", "a a", "b", (list[]){{"axis", -1, {1}}, {0}});
    node("Transpose", "b", "c", (list[]){{"perm", 4, {0, 2, 3, 1}}, {0}});
    node("ReduceMean", "c", "y", (list[]){{"axes", 2, {1, 2}}, {0}});
    TENSOR(OUTPUT, "y", 1, -1, 1, 1, 8);
    assert_int_equal(counted(1).missing, 0);
    message broken;
    srand(4711);
    for (size_t bytes = 0; bytes < model.bytes; bytes++)
        check_sane(model.data, bytes);
    for (int turn = 0; turn < 20000; turn++) {
        broken = model;
        for (int i = 0; i < 1 + turn % 3; i++)
            broken.data[(size_t)rand() % broken.bytes] = (uint8_t)rand();
        check_sane(broken.data, broken.bytes);
    }
}

/* A name must be computed only once, and a graph must not exceed the maximum number of nodes. */
TEST(graphs_that_are_none_are_refused) {
    mr_onnx_work work;
    begin(1, "a");
    node("Relu", "x", "a", NULL);
    make_model();
    assert_int_equal(mr_onnx_count_work(model.data, model.bytes, NULL, 0, &work), MR_ERROR_DATA);
    assert_string_equal(mr_message(), "its tensor \"a\" is computed twice");
    enum { NODES = MR_ONNX_GRAPH_NODES + 1 };
    FREED uint8_t *many = calloc(NODES, 4);
    size_t used = 0;
    many[used++] = 7 << 3 | 2; /* a graph with that many empty nodes */
    for (uint32_t rest = 2 * NODES; rest; rest >>= 7)
        many[used++] = (uint8_t)((rest & 0x7f) | (rest >= 0x80 ? 0x80 : 0));
    for (int i = 0; i < NODES; i++) {
        many[used++] = 1 << 3 | 2;
        many[used++] = 0;
    }
    assert_int_equal(mr_onnx_count_work(many, used, NULL, 0, &work), MR_ERROR_DATA);
    assert_string_equal(mr_message(), "it has more than 65536 nodes");
}

RUN_TESTS(NULL, NULL)
