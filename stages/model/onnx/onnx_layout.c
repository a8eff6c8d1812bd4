#include <math.h>
#include <string.h>

#include "stages/model/onnx/onnx_operators.h"

/* Records a few numbers computed from known numbers, as graphs that compute with shapes contain them. */
static void know(mr_onnx_tensor *to, const double *numbers, int64_t count) {
    bool fits = to && to->rank >= 0 && to->rank <= 1 && count <= MR_ONNX_GRAPH_NUMBERS;
    if (!fits)
        return;
    memmove(to->numbers, numbers, (size_t)count * sizeof *numbers);
    to->count = (int)count;
}

/* ---- two or more operands ---------------------------------------------------------------------------------------- */

/* Broadcasts right-aligned sizes, as NumPy does. */
static bool widen(int64_t *dims, int *rank, const mr_onnx_tensor *by) {
    int most = by->rank > *rank ? by->rank : *rank;
    int64_t wide[MR_ONNX_GRAPH_RANK];
    for (int i = 0; i < most; i++) {
        int64_t one = i >= most - *rank ? dims[i - most + *rank] : 1;
        int64_t two = i >= most - by->rank ? by->dims[i - most + by->rank] : 1;
        if (one != two && one != 1 && two != 1)
            return false;
        wide[i] = one == 1 ? two : one;
    }
    memcpy(dims, wide, (size_t)most * sizeof *wide);
    *rank = most;
    return true;
}

static double calculated(mr_pb_span operation, bool integers, double a, double b) {
    double result = mr_pb_is(operation, "Add")   ? a + b
                    : mr_pb_is(operation, "Sub") ? a - b
                    : mr_pb_is(operation, "Mul") ? a * b
                    : mr_pb_is(operation, "Div") ? a / b
                                                 : NAN;
    return integers && mr_pb_is(operation, "Div") ? trunc(result) : result;
}

static void calculate(const mr_onnx_graph *graph, const mr_onnx_node *node, mr_onnx_tensor *to) {
    const mr_onnx_tensor *a = mr_onnx_input(graph, node, 0), *b = mr_onnx_input(graph, node, 1);
    if (!a || !b || !a->count || !b->count || (a->count != b->count && a->count > 1 && b->count > 1))
        return;
    double numbers[MR_ONNX_GRAPH_NUMBERS];
    int count = a->count > b->count ? a->count : b->count;
    for (int i = 0; i < count; i++) {
        numbers[i] = calculated(node->operation, a->element != MR_ONNX_F32, a->numbers[a->count > 1 ? i : 0],
                                b->numbers[b->count > 1 ? i : 0]);
        if (!isfinite(numbers[i]))
            return;
    }
    know(to, numbers, count);
}

static bool compares(mr_pb_span operation) {
    static const char *const names[] = {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "And", "Or",
                                        "Xor"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (mr_pb_is(operation, names[i]))
            return true;
    return false;
}

bool mr_onnx_infer_broadcast(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    mr_onnx_tensor *to = mr_onnx_output(graph, node, 0);
    int64_t dims[MR_ONNX_GRAPH_RANK];
    bool quantised = node->known->weight == 3, where = mr_pb_is(node->operation, "Where");
    int rank = 0, last = quantised ? 4 : node->input_count;
    for (int i = 0; i < last; i += quantised ? 3 : 1) {
        const mr_onnx_tensor *input = mr_onnx_shaped(graph, node, i);
        if (!input || !widen(dims, &rank, input))
            return false;
    }
    const mr_onnx_tensor *first = mr_onnx_input(graph, node, where);
    if (!first || !mr_onnx_set(to, compares(node->operation) ? MR_ONNX_BOOL : first->element, rank, dims))
        return false;
    calculate(graph, node, to);
    return true;
}

bool mr_onnx_infer_concat(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    const mr_onnx_tensor *first = mr_onnx_shaped(graph, node, 0);
    double numbers[MR_ONNX_GRAPH_NUMBERS];
    int axis = first ? mr_onnx_axis(mr_onnx_integer(node, "axis", 1), first->rank) : -1, count = 0;
    if (axis < 0)
        return false;
    int64_t dims[MR_ONNX_GRAPH_RANK] = {0};
    memcpy(dims, first->dims, (size_t)first->rank * sizeof *dims);
    dims[axis] = 0;
    for (int i = 0; i < node->input_count; i++) {
        const mr_onnx_tensor *input = mr_onnx_shaped(graph, node, i);
        if (!input || input->rank != first->rank)
            return false;
        dims[axis] += input->dims[axis];
        bool fits = input->count && count >= 0 && count + input->count <= MR_ONNX_GRAPH_NUMBERS;
        if (fits)
            memcpy(numbers + count, input->numbers, (size_t)input->count * sizeof *numbers);
        count = fits ? count + input->count : input->rank == 1 && input->dims[0] == 0 ? count : -1;
    }
    if (!mr_onnx_set(mr_onnx_output(graph, node, 0), first->element, first->rank, dims))
        return false;
    if (count > 0)
        know(mr_onnx_output(graph, node, 0), numbers, count);
    return true;
}

/* ---- the same numbers under another shape ------------------------------------------------------------------------ */

static bool reshaped(const mr_onnx_graph *graph, const mr_onnx_node *node, int rank, const int64_t *dims) {
    const mr_onnx_tensor *from = mr_onnx_input(graph, node, 0);
    mr_onnx_tensor *to = mr_onnx_output(graph, node, 0);
    if (!mr_onnx_set(to, from->element, rank, dims))
        return false;
    know(to, from->numbers, from->count);
    return true;
}

bool mr_onnx_infer_reshape(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    const mr_onnx_tensor *from = mr_onnx_shaped(graph, node, 0);
    int64_t dims[MR_ONNX_GRAPH_NUMBERS];
    int count = mr_onnx_list(graph, node, 1, "shape", dims), open = -1;
    if (!from || count < 0 || count > MR_ONNX_GRAPH_RANK)
        return false;
    double rest = mr_onnx_items(from);
    for (int i = 0; i < count; i++) {
        if (dims[i] == 0 && !mr_onnx_integer(node, "allowzero", 0))
            dims[i] = i < from->rank ? from->dims[i] : -2;
        if (dims[i] == -1 && open >= 0)
            return false;
        open = dims[i] == -1 ? i : open;
        rest /= dims[i] == -1 ? 1 : (double)dims[i];
    }
    if (open < 0 ? rest != 1 : !(rest >= 0 && rest <= (double)MR_ONNX_GRAPH_DIM && rest == floor(rest)))
        return false;
    if (open >= 0)
        dims[open] = (int64_t)rest;
    return reshaped(graph, node, count, dims);
}

/* Sizes above the limit are refused when set. */
static int64_t product(const int64_t *dims, int from, int to) {
    int64_t all = 1;
    for (int i = from; i < to; i++)
        if (__builtin_mul_overflow(all, dims[i], &all))
            return -1;
    return all;
}

bool mr_onnx_infer_flatten(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    const mr_onnx_tensor *from = mr_onnx_shaped(graph, node, 0);
    int64_t axis = mr_onnx_integer(node, "axis", 1);
    if (!from)
        return false;
    axis += axis < 0 ? from->rank : 0;
    if (axis < 0 || axis > from->rank)
        return false;
    return reshaped(graph, node, 2,
                    (int64_t[]){product(from->dims, 0, (int)axis), product(from->dims, (int)axis, from->rank)});
}

/* A list as one bit per axis; -1: not known, or no such axis. */
static int axes_of(const mr_onnx_graph *graph, const mr_onnx_node *node, int input, int rank) {
    int64_t axes[MR_ONNX_GRAPH_NUMBERS];
    int count = mr_onnx_list(graph, node, input, "axes", axes), bits = 0;
    for (int i = 0; i < count; i++) {
        int axis = mr_onnx_axis(axes[i], rank);
        if (axis < 0)
            return -1;
        bits |= 1 << axis;
    }
    return count < 0 ? -1 : bits;
}

bool mr_onnx_infer_squeeze(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    const mr_onnx_tensor *from = mr_onnx_shaped(graph, node, 0);
    int64_t dims[MR_ONNX_GRAPH_RANK];
    int axes = from ? axes_of(graph, node, 1, from->rank) : -1, rank = 0;
    if (axes < 0)
        return false;
    for (int i = 0; i < from->rank; i++)
        if (axes ? !(axes >> i & 1) : from->dims[i] != 1)
            dims[rank++] = from->dims[i];
    return reshaped(graph, node, rank, dims);
}

bool mr_onnx_infer_unsqueeze(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    const mr_onnx_tensor *from = mr_onnx_shaped(graph, node, 0);
    int64_t dims[MR_ONNX_GRAPH_RANK], axes[MR_ONNX_GRAPH_NUMBERS];
    int count = from ? mr_onnx_list(graph, node, 1, "axes", axes) : -1, at = 0;
    if (count < 1 || from->rank + count > MR_ONNX_GRAPH_RANK)
        return false;
    int bits = axes_of(graph, node, 1, from->rank + count);
    if (bits < 0 || __builtin_popcount((unsigned)bits) != count)
        return false;
    for (int i = 0; i < from->rank + count; i++)
        dims[i] = bits >> i & 1 ? 1 : from->dims[at++];
    return reshaped(graph, node, from->rank + count, dims);
}

/* ---- others ------------------------------------------------------------------------------------------------------ */

bool mr_onnx_infer_transpose(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    const mr_onnx_tensor *from = mr_onnx_shaped(graph, node, 0);
    int64_t order[MR_ONNX_GRAPH_RANK], dims[MR_ONNX_GRAPH_RANK];
    int count = from ? mr_onnx_integers(node, "perm", order, MR_ONNX_GRAPH_RANK) : 0;
    if (!from || (count && count != from->rank))
        return false;
    for (int i = 0; i < from->rank; i++) {
        int at = count ? mr_onnx_axis(order[i], from->rank) : from->rank - 1 - i;
        if (at < 0)
            return false;
        dims[i] = from->dims[at];
    }
    return mr_onnx_set(mr_onnx_output(graph, node, 0), from->element, from->rank, dims);
}

bool mr_onnx_infer_split(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    const mr_onnx_tensor *from = mr_onnx_shaped(graph, node, 0);
    int64_t sizes[MR_ONNX_GRAPH_NUMBERS], dims[MR_ONNX_GRAPH_RANK];
    int axis = from ? mr_onnx_axis(mr_onnx_integer(node, "axis", 0), from->rank) : -1;
    int count = axis < 0 ? -1 : mr_onnx_list(graph, node, 1, "split", sizes), parts = node->output_count;
    if (count < 0 || parts < 1 || (count && count != parts))
        return false;
    memcpy(dims, from->dims, (size_t)from->rank * sizeof *dims);
    int64_t part = (from->dims[axis] + parts - 1) / parts;
    for (int i = 0; i < parts; i++) {
        int64_t rest = from->dims[axis] - i * part;
        dims[axis] = count ? sizes[i] : rest < 0 ? 0 : rest < part ? rest : part;
        mr_onnx_tensor *to = mr_onnx_output(graph, node, i);
        if (to && !mr_onnx_set(to, from->element, from->rank, dims))
            return false;
    }
    return true;
}

static int64_t between(int64_t value, int64_t least, int64_t most) {
    return value < least ? least : value > most ? most : value;
}

/* How many indices lie between `begin` and `end`; *begin is clamped to the axis. */
static int64_t steps(int64_t *begin, int64_t end, int64_t step, int64_t size) {
    *begin = between(*begin < 0 ? *begin + size : *begin, 0, step > 0 ? size : size - 1);
    end = between(end < 0 ? end + size : end, step > 0 ? 0 : -1, size);
    int64_t count = step > 0 ? (end - *begin + step - 1) / step : (*begin - end - step - 1) / -step;
    return count < 0 ? 0 : count;
}

static void slice_numbers(const mr_onnx_tensor *from, int64_t begin, int64_t step, int64_t count, mr_onnx_tensor *to) {
    double numbers[MR_ONNX_GRAPH_NUMBERS];
    if (!from->count || from->rank != 1 || count > from->count)
        return;
    for (int64_t i = 0; i < count; i++)
        numbers[i] = from->numbers[begin + i * step];
    know(to, numbers, count);
}

bool mr_onnx_infer_slice(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    const mr_onnx_tensor *from = mr_onnx_shaped(graph, node, 0);
    int64_t begin[MR_ONNX_GRAPH_NUMBERS], end[MR_ONNX_GRAPH_NUMBERS], axes[MR_ONNX_GRAPH_NUMBERS],
        step[MR_ONNX_GRAPH_NUMBERS], dims[MR_ONNX_GRAPH_RANK];
    int count = mr_onnx_list(graph, node, 1, "starts", begin), named = mr_onnx_list(graph, node, 3, "axes", axes);
    int stepped = mr_onnx_list(graph, node, 4, NULL, step);
    if (!from || count < 1 || mr_onnx_list(graph, node, 2, "ends", end) != count || named < 0 || stepped < 0 ||
        (named && named != count) || (stepped && stepped != count))
        return false;
    memcpy(dims, from->dims, (size_t)from->rank * sizeof *dims);
    for (int i = 0; i < count; i++) {
        int axis = mr_onnx_axis(named ? axes[i] : i, from->rank);
        step[i] = stepped ? step[i] : 1;
        if (axis < 0 || step[i] == 0)
            return false;
        dims[axis] = from->dims[axis] ? steps(&begin[i], end[i], step[i], from->dims[axis]) : 0;
    }
    if (!mr_onnx_set(mr_onnx_output(graph, node, 0), from->element, from->rank, dims))
        return false;
    if (count == 1)
        slice_numbers(from, begin[0], step[0], dims[0], mr_onnx_output(graph, node, 0));
    return true;
}

static void gather_numbers(const mr_onnx_tensor *from, const mr_onnx_tensor *indices, mr_onnx_tensor *to) {
    double numbers[MR_ONNX_GRAPH_NUMBERS];
    if (!from->count || from->rank != 1)
        return;
    for (int i = 0; i < indices->count; i++) {
        double at = indices->numbers[i] < 0 ? indices->numbers[i] + from->count : indices->numbers[i];
        if (!(at >= 0 && at < from->count))
            return;
        numbers[i] = from->numbers[(int)at];
    }
    know(to, numbers, indices->count);
}

bool mr_onnx_infer_gather(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    const mr_onnx_tensor *from = mr_onnx_shaped(graph, node, 0), *indices = mr_onnx_shaped(graph, node, 1);
    int64_t dims[2 * MR_ONNX_GRAPH_RANK];
    int axis = from ? mr_onnx_axis(mr_onnx_integer(node, "axis", 0), from->rank) : -1, rank = 0;
    if (axis < 0 || !indices)
        return false;
    for (int i = 0; i < axis; i++)
        dims[rank++] = from->dims[i];
    for (int i = 0; i < indices->rank; i++)
        dims[rank++] = indices->dims[i];
    for (int i = axis + 1; i < from->rank; i++)
        dims[rank++] = from->dims[i];
    if (!mr_onnx_set(mr_onnx_output(graph, node, 0), from->element, rank, dims))
        return false;
    gather_numbers(from, indices, mr_onnx_output(graph, node, 0));
    return true;
}

bool mr_onnx_infer_expand(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    const mr_onnx_tensor *from = mr_onnx_shaped(graph, node, 0);
    mr_onnx_tensor wanted = {0};
    int64_t sizes[MR_ONNX_GRAPH_NUMBERS];
    int rank = mr_onnx_list(graph, node, 1, NULL, sizes);
    if (!from || rank < 0 || !mr_onnx_set(&wanted, 0, rank, sizes) || !widen(wanted.dims, &wanted.rank, from))
        return false;
    return mr_onnx_set(mr_onnx_output(graph, node, 0), from->element, wanted.rank, wanted.dims);
}

bool mr_onnx_infer_tile(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    const mr_onnx_tensor *from = mr_onnx_shaped(graph, node, 0);
    int64_t repeats[MR_ONNX_GRAPH_NUMBERS];
    if (!from || mr_onnx_list(graph, node, 1, NULL, repeats) != from->rank)
        return false;
    for (int i = 0; i < from->rank; i++)
        repeats[i] *= from->dims[i];
    return mr_onnx_set(mr_onnx_output(graph, node, 0), from->element, from->rank, repeats);
}

static const mr_onnx_tensor *scales_of(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    return mr_onnx_input(graph, node, node->input_count > 2 ? 2 : 1);
}

/* Uses `sizes`, or else `scales`; in early versions, and in Upsample, the scales are the second input. */
bool mr_onnx_infer_resize(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    const mr_onnx_tensor *from = mr_onnx_shaped(graph, node, 0), *scales = scales_of(graph, node);
    int64_t dims[MR_ONNX_GRAPH_NUMBERS], axes[MR_ONNX_GRAPH_NUMBERS];
    int count = mr_onnx_list(graph, node, 3, NULL, dims);
    bool some = mr_onnx_integers(node, "axes", axes, 1) || (mr_onnx_has(node, "keep_aspect_ratio_policy") &&
                !mr_pb_is(mr_onnx_text(node, "keep_aspect_ratio_policy"), "stretch"));
    if (!from || some || count < 0)
        return false;
    if (count == 0 && (!scales || scales->count != from->rank))
        return false;
    for (int i = 0; i < from->rank && count == 0; i++) {
        double size = floor((double)from->dims[i] * scales->numbers[i]);
        dims[i] = size >= 0 && size <= (double)MR_ONNX_GRAPH_DIM ? (int64_t)size : -1;
    }
    return (count == 0 || count == from->rank) &&
           mr_onnx_set(mr_onnx_output(graph, node, 0), from->element, from->rank, dims);
}

bool mr_onnx_infer_pad(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    const mr_onnx_tensor *from = mr_onnx_shaped(graph, node, 0);
    int64_t pads[MR_ONNX_GRAPH_NUMBERS], dims[MR_ONNX_GRAPH_RANK];
    int count = mr_onnx_list(graph, node, 1, "pads", pads);
    if (!from || mr_onnx_input(graph, node, 3) || count != 2 * from->rank)
        return false;
    for (int i = 0; i < from->rank; i++)
        dims[i] = from->dims[i] + pads[i] + pads[from->rank + i];
    return mr_onnx_set(mr_onnx_output(graph, node, 0), from->element, from->rank, dims);
}

bool mr_onnx_infer_blocks(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    const mr_onnx_tensor *from = mr_onnx_shaped(graph, node, 0);
    int64_t side = mr_onnx_integer(node, "blocksize", 0);
    if (!from || from->rank != 4 || side < 1 || side > 1 << 15)
        return false;
    const int64_t *d = from->dims;
    bool deep = mr_pb_is(node->operation, "SpaceToDepth");
    int64_t depth = side * side;
    if (deep ? d[2] % side || d[3] % side : d[1] % depth != 0)
        return false;
    int64_t wide[] = {d[0], deep ? d[1] * depth : d[1] / depth, deep ? d[2] / side : d[2] * side,
                      deep ? d[3] / side : d[3] * side};
    return mr_onnx_set(mr_onnx_output(graph, node, 0), from->element, 4, wide);
}

static bool reduce(const mr_onnx_graph *graph, const mr_onnx_node *node, int axes, int element) {
    const mr_onnx_tensor *from = mr_onnx_input(graph, node, 0);
    int64_t dims[MR_ONNX_GRAPH_RANK];
    bool keep = mr_onnx_integer(node, "keepdims", 1);
    int rank = 0;
    for (int i = 0; i < from->rank; i++)
        if (!(axes >> i & 1) || keep)
            dims[rank++] = axes >> i & 1 ? 1 : from->dims[i];
    return mr_onnx_set(mr_onnx_output(graph, node, 0), element, rank, dims);
}

bool mr_onnx_infer_reduce(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    const mr_onnx_tensor *from = mr_onnx_shaped(graph, node, 0);
    int axes = from ? axes_of(graph, node, 1, from->rank) : -1;
    if (axes < 0)
        return false;
    if (!axes && !mr_onnx_integer(node, "noop_with_empty_axes", 0))
        axes = (1 << from->rank) - 1;
    return reduce(graph, node, axes, from->element);
}

bool mr_onnx_infer_arg(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    const mr_onnx_tensor *from = mr_onnx_shaped(graph, node, 0);
    int axis = from ? mr_onnx_axis(mr_onnx_integer(node, "axis", 0), from->rank) : -1;
    return axis >= 0 && reduce(graph, node, 1 << axis, MR_ONNX_I64);
}

bool mr_onnx_infer_topk(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    const mr_onnx_tensor *from = mr_onnx_shaped(graph, node, 0);
    int64_t count[MR_ONNX_GRAPH_NUMBERS], dims[MR_ONNX_GRAPH_RANK];
    int axis = from ? mr_onnx_axis(mr_onnx_integer(node, "axis", -1), from->rank) : -1;
    if (axis < 0)
        return false;
    int given = mr_onnx_list(graph, node, 1, NULL, count);
    memcpy(dims, from->dims, (size_t)from->rank * sizeof *dims);
    dims[axis] = given == 1 ? count[0] : given == 0 ? mr_onnx_integer(node, "k", -1) : -1;
    mr_onnx_tensor *values = mr_onnx_output(graph, node, 0), *indices = mr_onnx_output(graph, node, 1);
    return (!values || mr_onnx_set(values, from->element, from->rank, dims)) &&
           (!indices || mr_onnx_set(indices, MR_ONNX_I64, from->rank, dims));
}

bool mr_onnx_infer_shape(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    const mr_onnx_tensor *from = mr_onnx_shaped(graph, node, 0);
    mr_onnx_tensor *to = mr_onnx_output(graph, node, 0);
    double numbers[MR_ONNX_GRAPH_RANK];
    if (!from || !to)
        return false;
    int64_t begin = mr_onnx_integer(node, "start", 0), end = mr_onnx_integer(node, "end", from->rank);
    int64_t count = steps(&begin, end, 1, from->rank);
    for (int64_t i = 0; i < count; i++)
        numbers[i] = (double)from->dims[begin + i];
    mr_onnx_set(to, MR_ONNX_I64, 1, &count);
    know(to, numbers, count);
    return true;
}

bool mr_onnx_infer_filled(const mr_onnx_graph *graph, const mr_onnx_node *node) {
    mr_onnx_tensor *to = mr_onnx_output(graph, node, 0), value = {.element = MR_ONNX_F32};
    int64_t dims[MR_ONNX_GRAPH_NUMBERS];
    int rank = mr_onnx_list(graph, node, 0, NULL, dims);
    mr_onnx_constant(node, "value", &value);
    if (rank < 0 || !mr_onnx_set(to, value.element, rank, dims))
        return false;
    double numbers[MR_ONNX_GRAPH_NUMBERS];
    int64_t count = rank == 1 ? dims[0] : rank == 0;
    for (int64_t i = 0; i < count && count <= MR_ONNX_GRAPH_NUMBERS; i++)
        numbers[i] = value.numbers[0];
    if (value.count == 1 && count > 0)
        know(to, numbers, count);
    return true;
}
