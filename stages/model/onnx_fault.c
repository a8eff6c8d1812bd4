#include "stages/model/onnx_fault.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "stages/model/onnx/protobuf.h"

/* Field numbers of onnx.proto. */
enum { MODEL_GRAPH = 7, MODEL_OPERATOR_SETS = 8, TENSOR_NAME = 8 };
enum { MOST_NAME = 64, MAX_HEADER = 10 };

/* Parts of a message that hold bytes, by their field numbers. */
typedef struct part {
    uint32_t number;
    const char *name;
    const struct part *parts; /* of the part itself; NULL: none are told apart */
    uint32_t name_number;     /* the field that holds its own name; 0: it has none */
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

/* How files of other formats begin. */
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

/* Whether a field begins at `from` whose bytes reach behind its end; then *number, where they begin, and how many are
 * missing. */
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

/* Goes behind the last field that is whole. */
static void skip_whole(mr_pb_span *from) {
    mr_pb_field f;
    mr_pb_span next = *from;
    while (next.at < next.end && mr_pb_next(&next, &f))
        from->at = next.at;
}

/* The name of the part, where it stands before the place at which the file ends. */
static void print_name(mr_pb_span inside, uint32_t number, char *text, size_t bytes) {
    mr_pb_field f;
    text[0] = 0;
    while (number && inside.at < inside.end && mr_pb_next(&inside, &f)) {
        size_t length = (size_t)(f.bytes.end - f.bytes.at);
        if (f.number == number && f.wire == MR_PB_BYTES && length && length <= MOST_NAME)
            snprintf(text, bytes, " \"%.*s\"", (int)length, (const char *)f.bytes.at);
    }
}

/* "the weights "fc" of the graph": the innermost part that the end of the file lies in. False where it lies in none. */
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

/* Behind the fields that are whole: a field of which less than a header is there, or something else. */
static const char *print_rest(mr_pb_span model, mr_pb_span rest, char *text, size_t text_bytes) {
    size_t bytes = (size_t)(model.end - model.at), good = (size_t)(rest.at - model.at);
    mr_pb_field f;
    bool graph = false, sets = false;
    for (mr_pb_span at = {model.at, rest.at}; at.at < at.end && mr_pb_next(&at, &f);) {
        graph |= f.number == MODEL_GRAPH && f.wire == MR_PB_BYTES;
        sets |= f.number == MODEL_OPERATOR_SETS;
    }
    if (good == bytes && graph && !sets)
        snprintf(text, text_bytes, "it is truncated: it ends at byte %zu behind its graph, and names no operator set",
                 bytes);
    else if (good == bytes && graph)
        snprintf(text, text_bytes, "its graph is damaged, or nested too deeply");
    else if (good && good == bytes)
        snprintf(text, text_bytes, "it is truncated, or not an ONNX model: it ends at byte %zu and holds no graph",
                 bytes);
    else if (good && bytes - good < MAX_HEADER)
        snprintf(text, text_bytes, "it is truncated: it ends at byte %zu, where a field begins", bytes);
    else if (graph)
        snprintf(text, text_bytes, "it is damaged behind its graph, at byte %zu", good);
    else
        snprintf(text, text_bytes, "it is not an ONNX model");
    return text;
}

const char *mr_onnx_fault(const uint8_t *data, size_t bytes, char *text, size_t text_bytes) {
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
