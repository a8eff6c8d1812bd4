#include "stages/model/onnx/onnx_file.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/memory.h"
#include "millrace/status.h"
#include "stages/model/onnx/onnx_external.h"
#include "stages/model/onnx/onnx_weights.h"
#include "stages/model/onnx/protobuf.h"

/* onnx.proto field numbers. */
enum {
    MODEL_IR_VERSION = 1,
    MODEL_GRAPH = 7,
    MODEL_OPERATOR_SETS = 8,
    MODEL_TRAINING = 20,
    MODEL_FUNCTIONS = 25,
    TRAINING_INITIALIZATION = 1,
    TRAINING_ALGORITHM = 2,
    GRAPH_NODE = 1,
    GRAPH_INITIALIZER = 5,
    GRAPH_SPARSE_INITIALIZER = 15,
    FUNCTION_NODE = 7,
    FUNCTION_DEFAULTS = 11,
    NODE_OUTPUT = 2,
    NODE_OPERATOR = 4,
    NODE_ATTRIBUTE = 5,
    ATTRIBUTE_TENSOR = 5,
    ATTRIBUTE_GRAPH = 6,
    ATTRIBUTE_TENSORS = 10,
    ATTRIBUTE_GRAPHS = 11,
    ATTRIBUTE_SPARSE = 22,
    ATTRIBUTE_SPARSES = 23,
    SPARSE_VALUES = 1,
    SPARSE_INDICES = 2,
    TENSOR_NAME = 8,
    TENSOR_EXTERNAL_DATA = 13,
    TENSOR_DATA_LOCATION = 14,
    ENTRY_KEY = 1,
    ENTRY_VALUE = 2
};
/* Since this version, a model names its operator sets. */
enum { SETS_SINCE = 3 };
enum { MAX_DEPTH = 24 };

typedef struct scan {
    const char *name;
    mr_onnx_facts *facts;
    int depth;
    bool has_graph, has_sets;
    uint64_t version;
} scan;

/* The location in an external_data entry; empty if the entry is something else. */
static mr_pb_span location_of(mr_pb_span entry) {
    mr_pb_field f;
    bool is_location = false;
    mr_pb_span value = {0};
    while (entry.at < entry.end && mr_pb_next(&entry, &f)) {
        is_location |= f.number == ENTRY_KEY && mr_pb_is(f.bytes, "location");
        value = f.number == ENTRY_VALUE ? f.bytes : value;
    }
    return is_location ? value : (mr_pb_span){0};
}

static bool scan_tensor(scan *s, mr_pb_span tensor) {
    mr_pb_field f;
    while (tensor.at < tensor.end) {
        if (!mr_pb_next(&tensor, &f))
            return false;
        s->facts->external |= f.number == TENSOR_EXTERNAL_DATA || (f.number == TENSOR_DATA_LOCATION && f.value != 0);
        if (f.number == TENSOR_EXTERNAL_DATA && !s->facts->location.at)
            s->facts->location = location_of(f.bytes);
    }
    return true;
}

static bool scan_sparse(scan *s, mr_pb_span sparse) {
    mr_pb_field f;
    while (sparse.at < sparse.end) {
        if (!mr_pb_next(&sparse, &f))
            return false;
        if (f.wire == MR_PB_BYTES && (f.number == SPARSE_VALUES || f.number == SPARSE_INDICES) &&
            !scan_tensor(s, f.bytes))
            return false;
    }
    return true;
}

static bool scan_nodes(scan *s, mr_pb_span graph, uint64_t node_number);

static bool scan_attribute(scan *s, mr_pb_span attribute) {
    mr_pb_field f;
    bool good = true;
    while (good && attribute.at < attribute.end) {
        good = mr_pb_next(&attribute, &f);
        if (!good || f.wire != MR_PB_BYTES)
            continue;
        if (f.number == ATTRIBUTE_TENSOR || f.number == ATTRIBUTE_TENSORS)
            good = scan_tensor(s, f.bytes);
        else if (f.number == ATTRIBUTE_GRAPH || f.number == ATTRIBUTE_GRAPHS)
            good = scan_nodes(s, f.bytes, GRAPH_NODE);
        else if (f.number == ATTRIBUTE_SPARSE || f.number == ATTRIBUTE_SPARSES)
            good = scan_sparse(s, f.bytes);
    }
    return good;
}

static bool scan_node(scan *s, mr_pb_span node) {
    mr_pb_field f;
    while (node.at < node.end) {
        if (!mr_pb_next(&node, &f))
            return false;
        if (f.wire != MR_PB_BYTES)
            continue;
        if (f.number == NODE_ATTRIBUTE && !scan_attribute(s, f.bytes))
            return false;
        if (f.number == NODE_OPERATOR)
            s->facts->compiled |= mr_pb_is(f.bytes, "EPContext");
        /* Only tensors computed in the outermost graph can become outputs. */
        if (f.number == NODE_OUTPUT && s->name && s->depth == 1 && mr_pb_is(f.bytes, s->name))
            s->facts->has_name = true;
    }
    return true;
}

/* A graph or a function: only the field number for nodes differs. */
static bool scan_nodes(scan *s, mr_pb_span graph, uint64_t node_number) {
    mr_pb_field f;
    bool good = ++s->depth <= MAX_DEPTH;
    while (good && graph.at < graph.end) {
        good = mr_pb_next(&graph, &f);
        if (!good || f.wire != MR_PB_BYTES)
            continue;
        if (f.number == node_number)
            good = scan_node(s, f.bytes);
        else if (node_number == FUNCTION_NODE && f.number == FUNCTION_DEFAULTS)
            good = scan_attribute(s, f.bytes);
        else if (node_number == GRAPH_NODE && f.number == GRAPH_INITIALIZER)
            good = scan_tensor(s, f.bytes);
        else if (node_number == GRAPH_NODE && f.number == GRAPH_SPARSE_INITIALIZER)
            good = scan_sparse(s, f.bytes);
    }
    s->depth--;
    return good;
}

static bool scan_training(scan *s, mr_pb_span training) {
    mr_pb_field f;
    bool good = true;
    while (good && training.at < training.end) {
        good = mr_pb_next(&training, &f);
        if (good && (f.number == TRAINING_INITIALIZATION || f.number == TRAINING_ALGORITHM))
            good = scan_nodes(s, f.bytes, GRAPH_NODE);
    }
    return good;
}

/* Tensors in functions and training do not belong to the graph: they count as one level deeper. */
static bool scan_beside(scan *s, const mr_pb_field *f) {
    s->depth = 1;
    bool good = f->number == MODEL_FUNCTIONS ? scan_nodes(s, f->bytes, FUNCTION_NODE) : scan_training(s, f->bytes);
    s->depth = 0;
    return good;
}

static bool scan_field(scan *s, const mr_pb_field *f) {
    if (f->number == MODEL_IR_VERSION && f->wire == MR_PB_VARINT)
        s->version = f->value;
    s->has_sets |= f->number == MODEL_OPERATOR_SETS;
    if (f->number == MODEL_FUNCTIONS || f->number == MODEL_TRAINING)
        return scan_beside(s, f);
    if (f->number != MODEL_GRAPH || f->wire != MR_PB_BYTES)
        return true;
    s->has_graph = true;
    return scan_nodes(s, f->bytes, GRAPH_NODE);
}

/* ---- why a file cannot be read -------------------------------------------------------------------------------- */

enum { FAULT_TEXT = 320 };
enum { MOST_NAME = 64, MAX_HEADER = 10 };

/* Parts of a message that hold bytes, by field number. */
typedef struct part {
    uint32_t number;
    const char *name;
    const struct part *parts; /* parts inside it; NULL: none are distinguished */
    uint32_t name_number;     /* field that holds its name; 0: none */
} part;

static const part of_graph[] = {{1, "the node", NULL, 3},
                                {2, "its name", NULL, 0},
                                {5, "the weights", NULL, TENSOR_NAME},
                                {10, "its description", NULL, 0},
                                {11, "the input", NULL, 1},
                                {12, "the output", NULL, 1},
                                {13, "the value", NULL, 1},
                                {14, "an annotation", NULL, 0},
                                {15, "sparse weights", NULL, 0},
                                {16, "its properties", NULL, 0},
                                {0}};
static const part of_model[] = {{2, "the producer's name", NULL, 0},
                                {3, "the producer's version", NULL, 0},
                                {4, "the domain", NULL, 0},
                                {6, "the description", NULL, 0},
                                {MODEL_GRAPH, "the graph", of_graph, 0},
                                {8, "the list of operator sets", NULL, 0},
                                {14, "the properties", NULL, 0},
                                {20, "the training", NULL, 0},
                                {25, "the function", NULL, 1},
                                {0}};

/* How files in other formats begin. */
static const struct {
    size_t offset;
    const char *mark, *says;
} others[] = {
    {0, "\x93NUMPY", "it is a .npy array, not an ONNX model"},
    {0, "PK\x03\x04", "it is a zip archive, as PyTorch and NumPy (.npz) write them, not an ONNX model; export the "
                      "network with torch.onnx.export"},
    {0, "\x80\x02", "it is a Python pickle, as older PyTorch writes them, not an ONNX model; export the network with "
                    "torch.onnx.export"},
    {0, "\x89HDF", "it is an HDF5 file, as Keras writes them, not an ONNX model; convert it with tf2onnx"},
    {4, "TFL3", "it is a TensorFlow Lite model, not an ONNX one; convert it with tf2onnx"},
    {4, "ORTM", "it is in ONNX Runtime's own format (.ort); give the .onnx file that it was made from"},
    {0, "version https://git-lfs", "it is a pointer of Git LFS, not the model itself; fetch it with git lfs pull"}};

static const char *other_format(const uint8_t *data, size_t bytes) {
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        size_t length = strlen(others[i].mark);
        if (bytes >= others[i].offset + length && memcmp(data + others[i].offset, others[i].mark, length) == 0)
            return others[i].says;
    }
    return NULL;
}

/* True if a field begins at `from` but runs past the end. Sets *number to the field, *inside to the available
 * bytes, *missing to how many are missing. */
static bool is_cut(mr_pb_span from, uint32_t *number, mr_pb_span *inside, uint64_t *missing) {
    uint64_t value[2] = {0, 0};
    for (int i = 0; i < 2; i++)
        for (int shift = 0;; shift += 7) {
            if (from.at == from.end || shift > 28)
                return false;
            uint8_t byte = *from.at++;
            value[i] |= (uint64_t)(byte & 0x7f) << shift;
            if (!(byte & 0x80))
                break;
        }
    uint64_t there = (uint64_t)(from.end - from.at);
    *number = (uint32_t)(value[0] >> 3);
    *inside = from;
    *missing = value[1] - there;
    return (value[0] & 7) == MR_PB_BYTES && value[1] > there;
}

static const part *find_part(const part *parts, uint32_t number) {
    for (; parts && parts->number; parts++)
        if (parts->number == number)
            return parts;
    return NULL;
}

/* Skips all complete fields. */
static void skip_whole(mr_pb_span *from) {
    mr_pb_field f;
    mr_pb_span next = *from;
    while (next.at < next.end && mr_pb_next(&next, &f))
        from->at = next.at;
}

/* Prints the part's name, if it comes before the end of the file. */
static void print_name(mr_pb_span inside, uint32_t number, char *text, size_t bytes) {
    mr_pb_field f;
    text[0] = 0;
    while (number && inside.at < inside.end && mr_pb_next(&inside, &f)) {
        size_t length = (size_t)(f.bytes.end - f.bytes.at);
        if (f.number == number && f.wire == MR_PB_BYTES && length && length <= MOST_NAME)
            snprintf(text, bytes, " \"%.*s\"", (int)length, (const char *)f.bytes.at);
    }
}

/* Prints the innermost part that the file ends in: "the weights "fc" of the graph". False if it ends in none. */
static bool print_place(mr_pb_span model, char *text, size_t bytes, uint64_t *missing) {
    const part *parts = of_model;
    uint32_t number;
    uint64_t short_by;
    char name[MOST_NAME + 8], outer[160] = "";
    text[0] = 0;
    for (skip_whole(&model); is_cut(model, &number, &model, &short_by); skip_whole(&model)) {
        const part *found = find_part(parts, number);
        if (!found)
            break;
        print_name(model, found->name_number, name, sizeof name);
        snprintf(text, bytes, "%s%s%s%s", found->name, name, *outer ? " of " : "", outer);
        snprintf(outer, sizeof outer, "%s", text);
        *missing = *missing ? *missing : short_by;
        parts = found->parts;
    }
    return *text;
}

/* Describes what follows the complete fields: a truncated header, or something else. */
static const char *print_rest(mr_pb_span model, mr_pb_span rest, char *text, size_t text_bytes) {
    size_t bytes = (size_t)(model.end - model.at), good = (size_t)(rest.at - model.at);
    mr_pb_field f;
    bool graph = false, sets = false;
    for (mr_pb_span at = {model.at, rest.at}; at.at < at.end && mr_pb_next(&at, &f);) {
        graph |= f.number == MODEL_GRAPH && f.wire == MR_PB_BYTES;
        sets |= f.number == MODEL_OPERATOR_SETS;
    }
    if (good == bytes && graph && !sets)
        snprintf(text, text_bytes, "it is truncated: it ends at byte %zu after its graph, and names no operator set",
                 bytes);
    else if (good == bytes && graph)
        snprintf(text, text_bytes, "its graph is damaged, or nested too deeply");
    else if (good && good == bytes)
        snprintf(text, text_bytes, "it is truncated, or not an ONNX model: it ends at byte %zu and holds no graph",
                 bytes);
    else if (good && bytes - good < MAX_HEADER)
        snprintf(text, text_bytes, "it is truncated: it ends at byte %zu, where a field begins", bytes);
    else if (graph)
        snprintf(text, text_bytes, "it is damaged after its graph, at byte %zu", good);
    else
        snprintf(text, text_bytes, "it is not an ONNX model");
    return text;
}

/* Why mr_onnx_scan refused bytes: "it is truncated: it ends at byte 812 inside the graph, ...", or the format that the
 * file seems to have. Returns `text`. */
static const char *describe_fault(const uint8_t *data, size_t bytes, char *text, size_t text_bytes) {
    const mr_pb_span model = {data, data + bytes};
    mr_pb_span rest = model;
    char place[160];
    uint64_t missing = 0;
    const char *other = other_format(data, bytes);
    skip_whole(&rest);
    if (!other && !print_place(model, place, sizeof place, &missing))
        return print_rest(model, rest, text, text_bytes);
    if (other)
        snprintf(text, text_bytes, "%s", other);
    else
        snprintf(text, text_bytes,
                 "it is truncated: it ends at byte %zu inside %s, and %" PRIu64
                 " bytes or more are missing; fetch or export it again",
                 bytes, place, missing);
    return text;
}

/* ---- all of it ------------------------------------------------------------------------------------------------ */

int mr_onnx_scan(const uint8_t *data, size_t bytes, const char *name, mr_onnx_facts *facts) {
    *facts = (mr_onnx_facts){0};
    scan s = {.name = name, .facts = facts};
    mr_pb_span model = {data, data + bytes};
    bool good = true;
    mr_pb_field f;
    char fault[FAULT_TEXT];
    while (good && model.at < model.end)
        good = mr_pb_next(&model, &f) && scan_field(&s, &f);
    if (good && s.has_graph && (s.has_sets || s.version < SETS_SINCE))
        return MR_OK;
    return mr_fail(MR_ERROR_DATA, "%s", describe_fault(data, bytes, fault, sizeof fault));
}

/* An ONNX file is one protobuf message, which cannot exceed 2 GiB; ONNX Runtime takes the size as an int. */
static const size_t most_bytes = INT32_MAX - 65536;

/* Names the option that allows the file; only a plain name next to the model is allowed. */
static const char *print_option(const char *path, int folder, const char *name, char *text, size_t bytes) {
    text[0] = 0;
    if (*name && !strchr(name, '/'))
        snprintf(text, bytes, " unless external_data names it: write external_data: %.*s%s, or", folder, path, name);
    return text;
}

/* Names the file that holds the weights, and both remedies. */
static int refuse_external(const char *path, const mr_onnx_facts *facts) {
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    char name[MOST_NAME + 1], option[512];
    snprintf(name, sizeof name, "%.*s", (int)(facts->location.end - facts->location.at),
             facts->location.at ? (const char *)facts->location.at : "");
    print_option(path, (int)(file - path), name, option, sizeof option);
    return mr_fail(MR_ERROR_DATA,
                   "the model %s keeps weights in another file, \"%s\", which is not allowed%s make one file: python3 "
                   "-c 'import onnx; onnx.save(onnx.load(\"%s\"), \"one.onnx\")'",
                   path, name, *option ? option : ";", file);
}

static int check_bytes(const char *path, const mr_file_bytes *model, const char *tensor, mr_onnx_facts *facts) {
    int status = mr_onnx_scan(model->data, model->bytes, tensor, facts);
    if (status)
        return mr_fail(status, "the model %s does not load: %s", path, mr_message());
    if (facts->compiled)
        return mr_fail(MR_ERROR_DATA,
                       "the model %s holds, or names a file with, an engine compiled for one device (EPContext), which "
                       "is not allowed; give the model that it was made from",
                       path);
    return MR_OK;
}

static int check_weights(const char *path, const mr_file_bytes *model) {
    int status = mr_onnx_check_weights(model->data, model->bytes);
    return status ? mr_fail(status, "the model %s: %s", path, mr_message()) : MR_OK;
}

/* `external` NULL: none is allowed. */
static int take_weights(const char *path, const char *external, size_t room, const mr_onnx_facts *facts,
                        mr_file_bytes *model) {
    if (!facts->external && !external)
        return MR_OK;
    if (!external)
        return refuse_external(path, facts);
    if (!facts->external)
        return mr_fail(MR_ERROR_DATA, "the model %s keeps all its weights itself; remove external_data", path);
    int status = mr_onnx_take_external(model, external, room);
    return status ? mr_fail(status, "the model %s %s", path, mr_message()) : MR_OK;
}

int mr_onnx_read_parts(const char *path, const char *external, size_t room, const char *tensor, mr_file_bytes *model,
                       bool *has_tensor) {
    mr_file_bytes made;
    mr_onnx_facts facts;
    int status = mr_file_read("the model", path, most_bytes, room, &made);
    if (status)
        return status;
    status = check_bytes(path, &made, tensor, &facts);
    if (!status)
        status = take_weights(path, external, room, &facts, &made);
    if (!status)
        status = check_weights(path, &made);
    *has_tensor = !status && facts.has_name;
    if (status)
        mr_free(made.data);
    else
        *model = made;
    return status;
}

int mr_onnx_read(const char *path, size_t room, const char *tensor, mr_file_bytes *model, bool *has_tensor) {
    return mr_onnx_read_parts(path, NULL, room, tensor, model, has_tensor);
}
