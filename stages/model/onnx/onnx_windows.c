#include <string.h>

#include "stages/model/onnx/onnx_operators.h"

enum { AXES = MR_ONNX_GRAPH_RANK - 2 };

/* How a window moves over the axes behind batch and channels. */
typedef struct window {
    int axes;
    int64_t size[AXES], stride[AXES], dilation[AXES], before[AXES], after[AXES];
    bool same, ceiling; /* same: the output has as many positions as strides fit into the input */
} window;

/* A list of one number for each axis, all at least `least`; where it is left out all are `fallback`. */
static bool read_axes(const mr_onnx_node *node, const char *name, int axes, int64_t least, int64_t fallback, int64_t *to) {
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

/* Positions of the window along one axis. */
static int64_t positions(const window *w, int axis, int64_t size) {
    int64_t stride = w->stride[axis];
    if (w->same)
        return (size + stride - 1) / stride;
    int64_t room = size + w->before[axis] + w->after[axis] - w->dilation[axis] * (w->size[axis] - 1) - 1;
    if (room < 0)
        return -1;
    int64_t count = (room + (w->ceiling ? stride - 1 : 0)) / stride + 1;
    /* A window that begins behind the input and the padding before it is left out. */
    return w->ceiling && (count - 1) * stride >= size + w->before[axis] ? count - 1 : count;
}

static bool slide(const window *w, const mr_onnx_tensor *from, int64_t channels, int element, mr_onnx_tensor *to) {
    int64_t dims[MR_ONNX_GRAPH_RANK] = {from->dims[0], channels};
    for (int i = 0; i < w->axes; i++)
        dims[i + 2] = positions(w, i, from->dims[i + 2]);
    return mr_onnx_set(to, element, w->axes + 2, dims);
}

/* What the output of a product is of: a quantised one has the type of its zero point, an integer one 32 bits. */
static int product_element(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    const mr_onnx_tensor *first = mr_onnx_input(graph, node, 0), *zero = mr_onnx_input(graph, node, 7);
    if (node->known->weight == 3)
        return zero ? zero->element : 0;
    return mr_pb_is(node->operation, "ConvInteger") || mr_pb_is(node->operation, "MatMulInteger") ? MR_ONNX_I32
                                                                                                  : first->element;
}

bool mr_onnx_infer_conv(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    const mr_onnx_tensor *from = mr_onnx_shaped(graph, node, 0);
    const mr_onnx_tensor *weights = mr_onnx_shaped(graph, node, node->known->weight);
    window w;
    if (!from || !weights || from->rank < 3 || weights->rank != from->rank ||
        from->dims[1] != weights->dims[1] * mr_onnx_integer(node, "group", 1) ||
        !read_window(node, from->rank - 2, weights, &w))
        return false;
    return slide(&w, from, weights->dims[0], product_element(graph, node), mr_onnx_output(graph, node, 0));
}

bool mr_onnx_infer_deconv(const mr_onnx_graph *graph, const mr_onnx_node *node) {
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

bool mr_onnx_infer_pool(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    const mr_onnx_tensor *from = mr_onnx_shaped(graph, node, 0);
    window w;
    if (!from || mr_onnx_integer(node, "channels_last", 0) || !read_window(node, from->rank - 2, NULL, &w))
        return false;
    mr_onnx_tensor *indices = mr_onnx_output(graph, node, 1);
    return slide(&w, from, from->dims[1], from->element, mr_onnx_output(graph, node, 0)) &&
           (!indices || slide(&w, from, from->dims[1], MR_ONNX_I64, indices));
}

bool mr_onnx_infer_global(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    const mr_onnx_tensor *from = mr_onnx_shaped(graph, node, 0);
    int64_t dims[MR_ONNX_GRAPH_RANK];
    if (!from || from->rank < 3 || mr_onnx_integer(node, "channels_last", 0))
        return false;
    for (int i = 0; i < from->rank; i++)
        dims[i] = i < 2 ? from->dims[i] : 1;
    return mr_onnx_set(mr_onnx_output(graph, node, 0), from->element, from->rank, dims);
}

bool mr_onnx_infer_gemm(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    const mr_onnx_tensor *a = mr_onnx_shaped(graph, node, 0), *b = mr_onnx_shaped(graph, node, 1);
    bool turn_a = mr_onnx_integer(node, "transA", 0), turn_b = mr_onnx_integer(node, "transB", 0);
    if (!a || !b || a->rank != 2 || b->rank != 2 || a->dims[!turn_a] != b->dims[turn_b])
        return false;
    return mr_onnx_set(mr_onnx_output(graph, node, 0), a->element, 2, (int64_t[]){a->dims[turn_a], b->dims[!turn_b]});
}

/* As numpy.matmul. */
bool mr_onnx_infer_matmul(const mr_onnx_graph *graph, const mr_onnx_node *node) {
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
