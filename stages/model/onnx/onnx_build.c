#include "stages/model/onnx/onnx_build.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/memory.h"
#include "millrace/status.h"
#include "millrace/version.h"
#include "stages/model/onnx/onnx_graph.h"

/* Limits for added nodes, weights, values and notes. */
enum { ROOM = 64, ATTRIBUTE_INTEGER = 2 };

typedef Millrace__Onnx__ModelProto model_proto;
typedef Millrace__Onnx__GraphProto graph_proto;
typedef Millrace__Onnx__NodeProto node_proto;
typedef Millrace__Onnx__AttributeProto attribute_proto;
typedef Millrace__Onnx__TensorProto tensor_proto;
typedef Millrace__Onnx__ValueInfoProto value_proto;

static int no_memory(void) {
    return mr_fail(MR_ERROR_MEMORY, "no memory for an ONNX model");
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void *take(mr_onnx_build *b, size_t bytes) {
    void *made = b->failed ? NULL : mr_arena_alloc(&b->arena, bytes);
    b->failed = !made;
    return made;
}

/* protobuf-c's structs have non-const texts, which are never changed here. */
static char *keep(mr_onnx_build *b, const char *text) {
    char *made = b->failed || !text ? NULL : mr_arena_text(&b->arena, text, strlen(text));
    b->failed |= !made;
    return made;
}

/* Copies a list and leaves room for more. */
static void *widen(mr_onnx_build *b, const void *list, size_t count) {
    void **wider = take(b, (count + ROOM) * sizeof *wider);
    if (wider && count)
        memcpy(wider, list, count * sizeof *wider);
    return wider;
}

/* ---- the model --------------------------------------------------------------------------------------------------- */

static int make_room(mr_onnx_build *b) {
    graph_proto *graph = &b->graph;
    graph->node = widen(b, graph->node, graph->n_node);
    graph->initializer = widen(b, graph->initializer, graph->n_initializer);
    graph->input = widen(b, graph->input, graph->n_input);
    graph->output = widen(b, NULL, 0);
    graph->n_output = 0;
    graph->n_value_info = 0;
    b->model.metadata_props = widen(b, b->model.metadata_props, b->model.n_metadata_props);
    b->model.graph = graph;
    b->model.producer_name = (char *)(uintptr_t)"millrace";
    b->model.producer_version = (char *)(uintptr_t)MILLRACE_VERSION;
    return b->failed ? no_memory() : MR_OK;
}

static void add_operator_set(mr_onnx_build *b) {
    Millrace__Onnx__OperatorSetIdProto *made = take(b, sizeof *made);
    if (!made)
        return;
    *made = (Millrace__Onnx__OperatorSetIdProto)MILLRACE__ONNX__OPERATOR_SET_ID_PROTO__INIT;
    made->domain = keep(b, "");
    made->has_version = 1;
    made->version = MR_ONNX_OPERATOR_SET;
    b->model.opset_import = take(b, sizeof *b->model.opset_import);
    if (b->failed)
        return;
    b->model.opset_import[b->model.n_opset_import++] = made;
}

int mr_onnx_build_begin(mr_onnx_build *b) {
    *b = (mr_onnx_build){.model = MILLRACE__ONNX__MODEL_PROTO__INIT, .graph = MILLRACE__ONNX__GRAPH_PROTO__INIT};
    b->model.has_ir_version = 1;
    b->model.ir_version = MR_ONNX_IR;
    b->graph.name = (char *)(uintptr_t)"classifier";
    add_operator_set(b);
    return make_room(b);
}

void mr_onnx_build_fini(mr_onnx_build *b) {
    if (b->network)
        millrace__onnx__model_proto__free_unpacked(b->network, NULL);
    b->network = NULL;
    mr_arena_fini(&b->arena);
}

/* ---- a network that was read ------------------------------------------------------------------------------------- */

static bool has(const mr_index *names, const char *name) {
    return name && mr_index_get(names, name);
}

static void put(mr_onnx_build *b, mr_index *names, const char *name) {
    static const char there[] = "";
    if (name && !b->failed)
        b->failed = mr_index_put(names, &b->arena, name, (void *)(uintptr_t)there) != MR_OK;
}

/* Whether part of the network can read tensors that are not listed as its inputs: loop and condition bodies. */
static bool has_bodies(const graph_proto *graph) {
    for (size_t i = 0; i < graph->n_node; i++)
        for (size_t a = 0; a < graph->node[i]->n_attribute; a++)
            if (graph->node[i]->attribute[a]->has_g || graph->node[i]->attribute[a]->n_graphs)
                return true;
    return false;
}

static void note_names(mr_onnx_build *b) {
    const graph_proto *graph = &b->graph;
    for (size_t i = 0; i < graph->n_input; i++)
        put(b, &b->names, graph->input[i]->name);
    for (size_t i = 0; i < graph->n_initializer; i++)
        put(b, &b->names, graph->initializer[i]->name);
    for (size_t i = 0; i < graph->n_node; i++)
        for (size_t o = 0; o < graph->node[i]->n_output; o++)
            put(b, &b->names, graph->node[i]->output[o]);
}

/* Older files list constants as inputs: an input with a default becomes that constant. */
static void drop_constant_inputs(mr_onnx_build *b) {
    mr_index constants = {0};
    graph_proto *graph = &b->graph;
    size_t kept = 0;
    for (size_t i = 0; i < graph->n_initializer; i++)
        put(b, &constants, graph->initializer[i]->name);
    for (size_t i = 0; i < graph->n_input && !b->failed; i++)
        if (!has(&constants, graph->input[i]->name))
            graph->input[kept++] = graph->input[i];
    graph->n_input = kept;
}

static bool is_needed(const mr_index *needed, const node_proto *node) {
    for (size_t o = 0; o < node->n_output; o++)
        if (*node->output[o] && has(needed, node->output[o]))
            return true;
    return false;
}

/* Keeps only nodes and weights that the vector depends on. Nodes come after those they depend on. */
static void prune(mr_onnx_build *b, const char *vector) {
    graph_proto *graph = &b->graph;
    mr_index needed = {0};
    size_t first = graph->n_node, kept = 0;
    put(b, &needed, vector);
    for (size_t i = graph->n_node; i-- > 0 && !b->failed;) {
        node_proto *node = graph->node[i];
        if (!is_needed(&needed, node))
            continue;
        for (size_t n = 0; n < node->n_input; n++)
            put(b, &needed, node->input[n]);
        graph->node[--first] = node;
    }
    if (b->failed)
        return;
    graph->n_node -= first;
    memmove(graph->node, graph->node + first, graph->n_node * sizeof *graph->node);
    for (size_t i = 0; i < graph->n_initializer; i++)
        if (has(&needed, graph->initializer[i]->name))
            graph->initializer[kept++] = graph->initializer[i];
    graph->n_initializer = kept;
}

static int64_t operator_set(const model_proto *model) {
    int64_t version = 0;
    for (size_t i = 0; i < model->n_opset_import; i++) {
        const char *domain = model->opset_import[i]->domain;
        if (!domain || !*domain || strcmp(domain, "ai.onnx") == 0)
            version = model->opset_import[i]->version;
    }
    return version;
}

/* Our names must differ from those in a network that was itself exported. */
static void find_turn(mr_onnx_build *b) {
    char prefix[32];
    bool taken = true;
    for (b->turn = 0; taken && !b->failed; b->turn += taken) {
        int length = snprintf(prefix, sizeof prefix, b->turn ? "millrace.%d." : "millrace.", b->turn + 1);
        taken = false;
        for (size_t i = 0; i < b->names.capacity && !taken; i++)
            taken = b->names.slot[i].key && strncmp(b->names.slot[i].key, prefix, (size_t)length) == 0;
    }
}

/* Removes notes that an earlier export left in the network. */
static void drop_notes(model_proto *model) {
    size_t kept = 0;
    for (size_t i = 0; i < model->n_metadata_props; i++)
        if (!model->metadata_props[i]->key || strncmp(model->metadata_props[i]->key, "millrace.", 9) != 0)
            model->metadata_props[kept++] = model->metadata_props[i];
    model->n_metadata_props = kept;
}

static int check_network(const mr_onnx_build *b, const char *path, const char *vector) {
    const int64_t version = operator_set(&b->model);
    if (version < MR_ONNX_LEAST_SET)
        return mr_fail(MR_ERROR_DATA, "%s is of operator set %lld, and can be joined from %d on: convert it with "
                                      "onnx.version_converter", path, (long long)version, MR_ONNX_LEAST_SET);
    if (b->graph.n_input != 1)
        return mr_fail(MR_ERROR_DATA, "%s has %zu inputs, and a network with one can be joined", path,
                       b->graph.n_input);
    if (!has(&b->names, vector))
        return mr_fail(MR_ERROR_DATA, "%s has no tensor \"%s\"", path, vector ? vector : "");
    return MR_OK;
}

int mr_onnx_build_join(mr_onnx_build *b, const char *path, const uint8_t *data, size_t bytes, const char *tensor,
                       const char **vector) {
    *b = (mr_onnx_build){.network = millrace__onnx__model_proto__unpack(NULL, bytes, data)};
    if (!b->network || !b->network->graph)
        return mr_fail(MR_ERROR_DATA, "%s cannot be read as an ONNX model, or there is no memory for it", path);
    b->model = *b->network;
    b->graph = *b->network->graph;
    *vector = tensor ? tensor : b->graph.n_output ? b->graph.output[0]->name : NULL;
    int status = make_room(b);
    if (status)
        return status;
    b->model.has_ir_version = 1;
    b->model.ir_version = b->model.ir_version < 4 ? 4 : b->model.ir_version;
    b->model.n_training_info = 0;
    drop_notes(&b->model);
    drop_constant_inputs(b);
    note_names(b);
    find_turn(b);
    status = b->failed ? no_memory() : check_network(b, path, *vector);
    if (!status && !has_bodies(&b->graph))
        prune(b, *vector);
    return b->failed ? no_memory() : status;
}

/* ---- what is added ----------------------------------------------------------------------------------------------- */

const char *mr_onnx_name(mr_onnx_build *b, const char *name) {
    const char *made = b->failed   ? NULL
                       : b->turn ? mr_arena_print(&b->arena, "millrace.%d.%s", b->turn + 1, name)
                                 : mr_arena_print(&b->arena, "millrace.%s", name);
    b->failed |= !made;
    return made;
}

const char *mr_onnx_output_name(mr_onnx_build *b, const char *name) {
    return has(&b->names, name) ? mr_onnx_name(b, name) : name;
}

static const char *add_tensor(mr_onnx_build *b, const char *name, int type, const void *from, size_t each, int rank,
                              const int64_t *dims) {
    tensor_proto *made = take(b, sizeof *made);
    size_t bytes = each;
    for (int i = 0; i < rank; i++)
        bytes *= (size_t)dims[i];
    int64_t *own = take(b, ((size_t)rank + 1) * sizeof *own);
    uint8_t *data = take(b, bytes);
    const char *full = mr_onnx_name(b, name);
    if (b->failed)
        return full;
    *made = (tensor_proto)MILLRACE__ONNX__TENSOR_PROTO__INIT;
    if (rank)
        memcpy(own, dims, (size_t)rank * sizeof *own);
    memcpy(data, from, bytes);
    made->n_dims = (size_t)rank;
    made->dims = own;
    made->has_data_type = 1;
    made->data_type = type;
    made->name = (char *)(uintptr_t)full;
    made->has_raw_data = 1;
    made->raw_data = (ProtobufCBinaryData){.len = bytes, .data = data};
    b->graph.initializer[b->graph.n_initializer++] = made;
    return full;
}

const char *mr_onnx_floats(mr_onnx_build *b, const char *name, const float *from, int rank, const int64_t *dims) {
    return add_tensor(b, name, MR_ONNX_F32, from, sizeof *from, rank, dims);
}

const char *mr_onnx_integers_of(mr_onnx_build *b, const char *name, const int64_t *from, int rank,
                                const int64_t *dims) {
    return add_tensor(b, name, MR_ONNX_I64, from, sizeof *from, rank, dims);
}

static void add_attribute(mr_onnx_build *b, node_proto *node, const char *name, int64_t value) {
    attribute_proto *made = take(b, sizeof *made);
    if (!made)
        return;
    *made = (attribute_proto)MILLRACE__ONNX__ATTRIBUTE_PROTO__INIT;
    made->name = keep(b, name);
    made->has_i = made->has_type = 1;
    made->i = value;
    made->type = ATTRIBUTE_INTEGER;
    node->attribute[node->n_attribute++] = made;
}

static void fill_node(mr_onnx_build *b, node_proto *node, const mr_onnx_step *step) {
    for (size_t i = 0; i < 4 && step->inputs[i]; i++)
        node->input[node->n_input++] = (char *)(uintptr_t)step->inputs[i];
    node->output[node->n_output++] = (char *)(uintptr_t)step->output;
    if (step->more)
        node->output[node->n_output++] = (char *)(uintptr_t)step->more;
    node->op_type = keep(b, step->operation);
    node->name = (char *)(uintptr_t)step->output;
    for (size_t i = 0; i < 2 && step->attribute[i]; i++)
        add_attribute(b, node, step->attribute[i], step->value[i]);
}

const char *mr_onnx_add(mr_onnx_build *b, const mr_onnx_step *step) {
    node_proto *made = take(b, sizeof *made);
    char **names = take(b, 6 * sizeof *names);
    attribute_proto **attributes = take(b, 2 * sizeof *attributes);
    if (b->failed)
        return step->output;
    *made = (node_proto)MILLRACE__ONNX__NODE_PROTO__INIT;
    made->input = names;
    made->output = names + 4;
    made->attribute = attributes;
    fill_node(b, made, step);
    b->graph.node[b->graph.n_node++] = made;
    return step->output;
}

/* ---- inputs, outputs, notes -------------------------------------------------------------------------------------- */

/* Sets the batch dimension: the network's, or open. */
static void set_batch(mr_onnx_build *b, Millrace__Onnx__TensorShapeProto__Dimension *dimension) {
    const value_proto *input = b->graph.n_input ? b->graph.input[0] : NULL;
    const Millrace__Onnx__TypeProto__Tensor *tensor = input && input->type ? input->type->tensor_type : NULL;
    if (tensor && tensor->shape && tensor->shape->n_dim > 1 && tensor->shape->dim[0]->has_dim_value)
        *dimension = *tensor->shape->dim[0];
    else if (tensor && tensor->shape && tensor->shape->n_dim > 1 && tensor->shape->dim[0]->dim_param)
        dimension->dim_param = tensor->shape->dim[0]->dim_param;
    else
        dimension->dim_param = keep(b, "batch");
}

static Millrace__Onnx__TensorShapeProto *make_shape(mr_onnx_build *b, int64_t columns) {
    Millrace__Onnx__TensorShapeProto *shape = take(b, sizeof *shape);
    Millrace__Onnx__TensorShapeProto__Dimension *dims = take(b, 2 * sizeof *dims), **list = take(b, 2 * sizeof *list);
    if (b->failed)
        return NULL;
    *shape = (Millrace__Onnx__TensorShapeProto)MILLRACE__ONNX__TENSOR_SHAPE_PROTO__INIT;
    for (size_t i = 0; i < 2; i++) {
        dims[i] = (Millrace__Onnx__TensorShapeProto__Dimension)MILLRACE__ONNX__TENSOR_SHAPE_PROTO__DIMENSION__INIT;
        list[i] = &dims[i];
    }
    set_batch(b, &dims[0]);
    dims[1].has_dim_value = 1;
    dims[1].dim_value = columns;
    shape->dim = list;
    shape->n_dim = columns ? 2 : 1;
    return shape;
}

void mr_onnx_add_value(mr_onnx_build *b, bool output, const char *name, int element, int64_t columns) {
    Millrace__Onnx__TypeProto *type = take(b, sizeof *type);
    Millrace__Onnx__TypeProto__Tensor *tensor = take(b, sizeof *tensor);
    Millrace__Onnx__TensorShapeProto *shape = make_shape(b, columns);
    value_proto *made = take(b, sizeof *made);
    if (!made)
        return;
    *made = (value_proto)MILLRACE__ONNX__VALUE_INFO_PROTO__INIT;
    *type = (Millrace__Onnx__TypeProto)MILLRACE__ONNX__TYPE_PROTO__INIT;
    *tensor = (Millrace__Onnx__TypeProto__Tensor)MILLRACE__ONNX__TYPE_PROTO__TENSOR__INIT;
    tensor->has_elem_type = 1;
    tensor->elem_type = element;
    tensor->shape = shape;
    type->tensor_type = tensor;
    made->name = keep(b, name);
    made->type = type;
    if (output)
        b->graph.output[b->graph.n_output++] = made;
    else
        b->graph.input[b->graph.n_input++] = made;
}

void mr_onnx_add_note(mr_onnx_build *b, const char *key, const char *value) {
    Millrace__Onnx__StringStringEntryProto *made = take(b, sizeof *made);
    if (!made)
        return;
    *made = (Millrace__Onnx__StringStringEntryProto)MILLRACE__ONNX__STRING_STRING_ENTRY_PROTO__INIT;
    made->key = keep(b, key);
    made->value = keep(b, value);
    b->model.metadata_props[b->model.n_metadata_props++] = made;
}
