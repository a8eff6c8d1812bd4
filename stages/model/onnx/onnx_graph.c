#include "stages/model/onnx/onnx_graph.h"

#include <string.h>

#include "engine/base/memory.h"
#include "millrace/status.h"

/* onnx.proto field numbers. */
enum {
    MODEL_GRAPH = 7,
    GRAPH_NODE = 1,
    GRAPH_INITIALIZER = 5,
    GRAPH_INPUT = 11,
    GRAPH_OUTPUT = 12,
    GRAPH_VALUE = 13,
    GRAPH_SPARSE_INITIALIZER = 15,
    NODE_INPUT = 1,
    NODE_OUTPUT = 2,
    NODE_NAME = 3,
    NODE_OPERATOR = 4,
    NODE_ATTRIBUTE = 5,
    NODE_DOMAIN = 7,
    ATTRIBUTE_NAME = 1,
    ATTRIBUTE_INTEGER = 3,
    ATTRIBUTE_TEXT = 4,
    ATTRIBUTE_TENSOR = 5,
    ATTRIBUTE_INTEGERS = 8,
    TENSOR_DIMS = 1,
    TENSOR_TYPE = 2,
    TENSOR_FLOATS = 4,
    TENSOR_INT32S = 5,
    TENSOR_INT64S = 7,
    TENSOR_NAME = 8,
    TENSOR_RAW = 9,
    SPARSE_VALUES = 1,
    VALUE_NAME = 1,
    VALUE_TYPE = 2,
    TYPE_TENSOR = 1,
    TYPE_ELEMENT = 1,
    TYPE_SHAPE = 2,
    SHAPE_DIMENSION = 1,
    DIMENSION_VALUE = 1,
    DIMENSION_SYMBOL = 2
};

/* Reads a message's next field; false at the end. */
static bool next(mr_pb_span *from, mr_pb_field *field) {
    return from->at < from->end && mr_pb_next(from, field);
}

/* Makes room for one more; without memory the block is unchanged. */
static bool grow(void *block, size_t count, size_t *room, size_t bytes) {
    if (count < *room)
        return true;
    size_t larger = *room ? *room * 2 : 64;
    void *moved = mr_realloc(*(void **)block, larger * bytes);
    if (!moved)
        return false;
    *(void **)block = moved;
    *room = larger;
    return true;
}

static int no_memory(void) {
    return mr_fail(MR_ERROR_MEMORY, "no memory for the graph of a model");
}

/* ---- tensors by name --------------------------------------------------------------------------------------------- */

/* FNV-1a; http://www.isthe.com/chongo/tech/comp/fnv */
static uint64_t hash_of(mr_pb_span name) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (const uint8_t *at = name.at; at < name.end; at++)
        hash = (hash ^ *at) * UINT64_C(0x100000001b3);
    return hash ^ hash >> 32;
}

/* The name's slot, or a free one for it: slot_count is a power of two, and less than two thirds are used. */
static size_t slot_of(const mr_onnx_graph *graph, mr_pb_span name) {
    size_t slot = hash_of(name) & (graph->slot_count - 1);
    while (graph->slots[slot] != MR_ONNX_NONE && !mr_pb_same(graph->tensors[graph->slots[slot]].name, name))
        slot = (slot + 1) & (graph->slot_count - 1);
    return slot;
}

static bool grow_slots(mr_onnx_graph *graph) {
    if (graph->tensor_count * 3 < graph->slot_count * 2)
        return true;
    size_t count = graph->slot_count ? graph->slot_count * 2 : 256;
    int *slots = mr_alloc(count * sizeof *slots);
    if (!slots)
        return false;
    mr_free(graph->slots);
    graph->slots = slots;
    graph->slot_count = count;
    for (size_t i = 0; i < count; i++)
        slots[i] = MR_ONNX_NONE;
    for (size_t i = 0; i < graph->tensor_count; i++)
        slots[slot_of(graph, graph->tensors[i].name)] = (int)i;
    return true;
}

/* Finds the tensor with that name, or adds it. The address is valid until another one is added. */
static int find_tensor(mr_onnx_graph *graph, mr_pb_span name, int *index) {
    if (!grow_slots(graph) || !grow(&graph->tensors, graph->tensor_count, &graph->tensor_room, sizeof *graph->tensors))
        return no_memory();
    int *slot = &graph->slots[slot_of(graph, name)];
    if (*slot == MR_ONNX_NONE) {
        if (graph->tensor_count == MR_ONNX_GRAPH_TENSORS)
            return mr_fail(MR_ERROR_DATA, "it has more than %d tensors", MR_ONNX_GRAPH_TENSORS);
        *slot = (int)graph->tensor_count;
        graph->tensors[graph->tensor_count++] = (mr_onnx_tensor){.name = name, .rank = -1, .producer = MR_ONNX_NONE};
    }
    *index = *slot;
    return MR_OK;
}

/* ---- constants --------------------------------------------------------------------------------------------------- */

static void add_dim(mr_onnx_tensor *to, uint64_t size) {
    bool fits = to->rank >= 0 && to->rank < MR_ONNX_GRAPH_RANK && size <= (uint64_t)MR_ONNX_GRAPH_DIM;
    if (fits)
        to->dims[to->rank++] = (int64_t)size;
    else
        to->rank = -1;
}

static int64_t items_of(const mr_onnx_tensor *tensor) {
    int64_t count = tensor->rank < 0 ? INT64_MAX : 1;
    for (int i = 0; i < tensor->rank; i++)
        if (__builtin_mul_overflow(count, tensor->dims[i], &count))
            return INT64_MAX;
    return count;
}

static void add_number(mr_onnx_tensor *to, double number) {
    if (to->count < MR_ONNX_GRAPH_NUMBERS)
        to->numbers[to->count++] = number;
}

static void add_floats(mr_onnx_tensor *to, mr_pb_span raw) {
    for (float number; raw.end - raw.at >= 4; raw.at += 4) {
        memcpy(&number, raw.at, 4);
        add_number(to, (double)number);
    }
}

static void add_raw(mr_onnx_tensor *to, mr_pb_span raw) {
    size_t bytes = to->element == MR_ONNX_I64 ? 8 : 4;
    for (; (size_t)(raw.end - raw.at) >= bytes; raw.at += bytes) {
        int64_t wide;
        int32_t narrow;
        memcpy(&narrow, raw.at, 4);
        if (bytes == 8)
            memcpy(&wide, raw.at, 8);
        add_number(to, bytes == 8 ? (double)wide : (double)narrow);
    }
}

static void add_varints(mr_onnx_tensor *to, const mr_pb_field *f) {
    mr_pb_span packed = f->bytes;
    uint64_t value;
    if (f->wire == MR_PB_VARINT)
        add_number(to, (double)(int64_t)f->value);
    while (f->wire == MR_PB_BYTES && mr_pb_varint(&packed, &value))
        add_number(to, (double)(int64_t)value);
}

/* Reads as many numbers as the shape has elements, or none. */
static void read_numbers(mr_pb_span from, mr_onnx_tensor *to) {
    bool whole = to->element == MR_ONNX_I64 || to->element == MR_ONNX_I32;
    int64_t items = items_of(to);
    mr_pb_field f;
    if (items > MR_ONNX_GRAPH_NUMBERS || (!whole && to->element != MR_ONNX_F32))
        return;
    while (next(&from, &f)) {
        if (whole && (f.number == TENSOR_INT64S || f.number == TENSOR_INT32S))
            add_varints(to, &f);
        else if (f.number == TENSOR_RAW && whole)
            add_raw(to, f.bytes);
        else if (f.number == TENSOR_RAW || (f.number == TENSOR_FLOATS && !whole))
            add_floats(to, f.bytes);
    }
    if (to->count != items)
        to->count = 0;
}

static void read_constant(mr_pb_span from, mr_onnx_tensor *to) {
    mr_pb_span rest = from;
    mr_pb_field f;
    uint64_t size;
    to->rank = to->count = 0;
    while (next(&rest, &f)) {
        if (f.number == TENSOR_TYPE && f.wire == MR_PB_VARINT)
            to->element = f.value < INT32_MAX ? (int)f.value : 0;
        if (f.number == TENSOR_DIMS && f.wire == MR_PB_VARINT)
            add_dim(to, f.value);
        while (f.number == TENSOR_DIMS && f.wire == MR_PB_BYTES && mr_pb_varint(&f.bytes, &size))
            add_dim(to, size);
    }
    read_numbers(from, to);
}

static mr_pb_span text_of(mr_pb_span message, uint32_t number) {
    mr_pb_field f;
    mr_pb_span text = {0};
    while (next(&message, &f))
        if (f.number == number && f.wire == MR_PB_BYTES)
            text = f.bytes;
    return text;
}

static int add_initializer(mr_onnx_graph *graph, mr_pb_span from) {
    int index;
    int status = find_tensor(graph, text_of(from, TENSOR_NAME), &index);
    if (status)
        return status;
    graph->tensors[index].weights = true;
    read_constant(from, &graph->tensors[index]);
    return MR_OK;
}

/* For a sparse tensor only the name is used: the file has its shape, but a kernel's work with it is unknown. */
static int add_sparse(mr_onnx_graph *graph, mr_pb_span from) {
    int index;
    int status = find_tensor(graph, text_of(text_of(from, SPARSE_VALUES), TENSOR_NAME), &index);
    if (!status)
        graph->tensors[index].weights = true;
    return status;
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

static int add_place(mr_onnx_graph *graph, mr_pb_span name, int *index) {
    *index = MR_ONNX_NONE;
    if (!grow(&graph->at, graph->at_count, &graph->at_room, sizeof *graph->at))
        return no_memory();
    if (graph->at_count == 4 * (size_t)MR_ONNX_GRAPH_TENSORS)
        return mr_fail(MR_ERROR_DATA, "its nodes have more than %d inputs and outputs", 4 * MR_ONNX_GRAPH_TENSORS);
    int status = name.at < name.end ? find_tensor(graph, name, index) : MR_OK;
    graph->at[graph->at_count++] = *index;
    return status;
}

static int add_places(mr_onnx_graph *graph, mr_onnx_node *node, uint32_t number) {
    mr_pb_span rest = node->message;
    mr_pb_field f;
    int status = MR_OK, index;
    *(number == NODE_INPUT ? &node->first_input : &node->first_output) = graph->at_count;
    while (!status && next(&rest, &f)) {
        if (f.number != number || f.wire != MR_PB_BYTES)
            continue;
        status = add_place(graph, f.bytes, &index);
        *(number == NODE_INPUT ? &node->input_count : &node->output_count) += 1;
        if (status || index == MR_ONNX_NONE)
            continue;
        mr_onnx_tensor *tensor = &graph->tensors[index];
        tensor->users += number == NODE_INPUT;
        if (number == NODE_OUTPUT && (tensor->producer != MR_ONNX_NONE || tensor->weights || tensor->input))
            return mr_fail(MR_ERROR_DATA, "its tensor \"%.*s\" is computed twice", (int)(f.bytes.end - f.bytes.at),
                           (const char *)f.bytes.at);
        if (number == NODE_OUTPUT)
            tensor->producer = (int)graph->node_count;
    }
    return status;
}

static int add_node(mr_onnx_graph *graph, mr_pb_span from) {
    mr_onnx_node node = {.message = from,
                         .name = text_of(from, NODE_NAME),
                         .operation = text_of(from, NODE_OPERATOR),
                         .domain = text_of(from, NODE_DOMAIN)};
    if (graph->node_count == MR_ONNX_GRAPH_NODES)
        return mr_fail(MR_ERROR_DATA, "it has more than %d nodes", MR_ONNX_GRAPH_NODES);
    if (!grow(&graph->nodes, graph->node_count, &graph->node_room, sizeof *graph->nodes))
        return no_memory();
    int status = add_places(graph, &node, NODE_INPUT);
    if (!status)
        status = add_places(graph, &node, NODE_OUTPUT);
    graph->nodes[graph->node_count++] = node;
    return status;
}

/* ---- inputs, outputs, and declared shapes of tensors ------------------------------------------------------------- */

static int add_value(mr_onnx_graph *graph, const mr_pb_field *f) {
    int index;
    int status = find_tensor(graph, text_of(f->bytes, VALUE_NAME), &index);
    if (status)
        return status;
    mr_onnx_tensor *tensor = &graph->tensors[index];
    tensor->input |= f->number == GRAPH_INPUT && !tensor->weights;
    tensor->output |= f->number == GRAPH_OUTPUT;
    if (text_of(f->bytes, VALUE_TYPE).at)
        tensor->declared = f->bytes;
    return MR_OK;
}

/* Reads weights first: those also listed as inputs are no inputs. Then inputs, in order; nodes last. */
static int read_part(mr_onnx_graph *graph, mr_pb_span from, int turn) {
    mr_pb_field f;
    int status = MR_OK;
    while (!status && next(&from, &f)) {
        if (f.wire != MR_PB_BYTES)
            continue;
        if (turn == 0 && f.number == GRAPH_INITIALIZER)
            status = add_initializer(graph, f.bytes);
        if (turn == 0 && f.number == GRAPH_SPARSE_INITIALIZER)
            status = add_sparse(graph, f.bytes);
        if (f.number == GRAPH_INPUT ? turn == 1 : turn == 2 && (f.number == GRAPH_OUTPUT || f.number == GRAPH_VALUE))
            status = add_value(graph, &f);
        if (turn == 3 && f.number == GRAPH_NODE)
            status = add_node(graph, f.bytes);
    }
    return status;
}

/* Marks nodes that some output depends on; runtimes also remove the others. Nodes come after those they read from (ONNX
 * requires it); a node out of order is kept. */
static void find_needed(mr_onnx_graph *graph) {
    for (size_t n = graph->node_count; n-- > 0;) {
        mr_onnx_node *node = &graph->nodes[n];
        for (int i = 0; i < node->output_count; i++) {
            const mr_onnx_tensor *tensor = mr_onnx_output(graph, node, i);
            node->needed |= tensor && (tensor->output || tensor->users > 0);
        }
        for (int i = 0; i < node->input_count && !node->needed; i++) {
            mr_onnx_tensor *tensor = mr_onnx_input(graph, node, i);
            if (tensor)
                tensor->users--;
        }
    }
}

static void find_users(mr_onnx_graph *graph) {
    for (size_t n = 0; n < graph->node_count; n++)
        for (int i = 0; i < graph->nodes[n].input_count && graph->nodes[n].needed; i++) {
            mr_onnx_tensor *tensor = mr_onnx_input(graph, &graph->nodes[n], i);
            if (tensor)
                tensor->user = (int)n;
        }
}

int mr_onnx_graph_read(mr_onnx_graph *graph, const uint8_t *data, size_t bytes) {
    int status = MR_OK;
    mr_pb_field f;
    *graph = (mr_onnx_graph){0};
    for (int turn = 0; turn < 4; turn++) {
        mr_pb_span model = {data, data + bytes};
        while (!status && next(&model, &f))
            status = f.number == MODEL_GRAPH && f.wire == MR_PB_BYTES ? read_part(graph, f.bytes, turn) : MR_OK;
    }
    if (!status) {
        find_needed(graph);
        find_users(graph);
    }
    return status;
}

void mr_onnx_graph_free(mr_onnx_graph *graph) {
    mr_free(graph->tensors);
    mr_free(graph->nodes);
    mr_free(graph->at);
    mr_free(graph->slots);
    *graph = (mr_onnx_graph){0};
}

mr_onnx_tensor *mr_onnx_input(const mr_onnx_graph *graph, const mr_onnx_node *node, int at) {
    int index = at < node->input_count ? graph->at[node->first_input + (size_t)at] : MR_ONNX_NONE;
    return index == MR_ONNX_NONE ? NULL : &graph->tensors[index];
}

mr_onnx_tensor *mr_onnx_output(const mr_onnx_graph *graph, const mr_onnx_node *node, int at) {
    int index = at < node->output_count ? graph->at[node->first_output + (size_t)at] : MR_ONNX_NONE;
    return index == MR_ONNX_NONE ? NULL : &graph->tensors[index];
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */

static mr_pb_span find_attribute(const mr_onnx_node *node, const char *name) {
    mr_pb_span rest = node->message;
    mr_pb_field f;
    while (next(&rest, &f))
        if (f.number == NODE_ATTRIBUTE && f.wire == MR_PB_BYTES && mr_pb_is(text_of(f.bytes, ATTRIBUTE_NAME), name))
            return f.bytes;
    return (mr_pb_span){0};
}

static int64_t held(uint64_t value) {
    int64_t number = (int64_t)value;
    return number > MR_ONNX_GRAPH_DIM ? MR_ONNX_GRAPH_DIM : number < -MR_ONNX_GRAPH_DIM ? -MR_ONNX_GRAPH_DIM : number;
}

int64_t mr_onnx_integer(const mr_onnx_node *node, const char *name, int64_t fallback) {
    mr_pb_span attribute = find_attribute(node, name);
    mr_pb_field f;
    while (next(&attribute, &f))
        if (f.number == ATTRIBUTE_INTEGER && f.wire == MR_PB_VARINT)
            fallback = held(f.value);
    return fallback;
}

int mr_onnx_integers(const mr_onnx_node *node, const char *name, int64_t *values, int most) {
    mr_pb_span attribute = find_attribute(node, name);
    mr_pb_field f;
    uint64_t value;
    int count = 0;
    while (next(&attribute, &f)) {
        if (f.number != ATTRIBUTE_INTEGERS)
            continue;
        value = f.value;
        while ((f.wire == MR_PB_VARINT || mr_pb_varint(&f.bytes, &value)) && count < INT32_MAX) {
            if (count < most)
                values[count] = held(value);
            count++;
            if (f.wire == MR_PB_VARINT)
                break;
        }
    }
    return count;
}

mr_pb_span mr_onnx_text(const mr_onnx_node *node, const char *name) {
    return text_of(find_attribute(node, name), ATTRIBUTE_TEXT);
}

bool mr_onnx_has(const mr_onnx_node *node, const char *name) {
    return find_attribute(node, name).at != NULL;
}

bool mr_onnx_constant(const mr_onnx_node *node, const char *name, mr_onnx_tensor *tensor) {
    mr_pb_span value = text_of(find_attribute(node, name), ATTRIBUTE_TENSOR);
    if (value.at)
        read_constant(value, tensor);
    return value.at;
}

/* ---- declared shapes --------------------------------------------------------------------------------------------- */

static bool read_dims(mr_pb_span shape, int *rank, int64_t *dims, mr_pb_span *symbols) {
    mr_pb_field f, g;
    for (*rank = 0; next(&shape, &f);) {
        if (f.number != SHAPE_DIMENSION || f.wire != MR_PB_BYTES)
            continue;
        if (*rank == MR_ONNX_GRAPH_RANK)
            return false;
        int64_t *size = &dims[*rank];
        *size = -1;
        symbols[*rank] = (mr_pb_span){0};
        while (next(&f.bytes, &g)) {
            if (g.number == DIMENSION_VALUE && g.wire == MR_PB_VARINT && g.value > 0 &&
                g.value <= (uint64_t)MR_ONNX_GRAPH_DIM)
                *size = (int64_t)g.value;
            if (g.number == DIMENSION_SYMBOL)
                symbols[*rank] = g.bytes;
        }
        ++*rank;
    }
    return true;
}

bool mr_onnx_read_declared(mr_pb_span value, int *element, int *rank, int64_t *dims, mr_pb_span *symbols) {
    mr_pb_span tensor = text_of(text_of(value, VALUE_TYPE), TYPE_TENSOR);
    mr_pb_field f;
    bool shaped = false;
    *element = 0;
    while (next(&tensor, &f)) {
        if (f.number == TYPE_ELEMENT && f.wire == MR_PB_VARINT && f.value < INT32_MAX)
            *element = (int)f.value;
        if (f.number == TYPE_SHAPE && f.wire == MR_PB_BYTES)
            shaped = read_dims(f.bytes, rank, dims, symbols);
    }
    return shaped;
}
