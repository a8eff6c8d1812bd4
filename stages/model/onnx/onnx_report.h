/* Describes an ONNX file, for people and for planning: producer, operators, inputs and outputs (onnx.proto, ONNX 1.x).
 * It also lists tensors that millrace cannot use. No runtime is needed, which would take hundreds of times longer to
 * load the network. Pure functions; any thread.
 *
 * Texts point into the bytes and are not zero-terminated. */
#pragma once

#include <stddef.h>

#include "stages/model/onnx/protobuf.h"

enum { MR_ONNX_MOST_VALUES = 64, MR_ONNX_MOST_SETS = 16, MR_ONNX_MOST_OPERATORS = 128, MR_ONNX_MOST_RANK = 16 };

typedef struct mr_onnx_declared {
    mr_pb_span name;
    const char *kind;                     /* "tensor", "sequence", "map", "optional", "sparse tensor"; "" if unknown */
    int element;                          /* tensors: TensorProto.DataType; 0: unknown */
    bool shaped;                          /* tensors: the rank is declared */
    int rank;
    int64_t dims[MR_ONNX_MOST_RANK];      /* -1: free */
    mr_pb_span symbols[MR_ONNX_MOST_RANK]; /* the model's names for open dimensions; empty if it has none */
    bool odd;                             /* written so that only a runtime can tell what it means */
    mr_pb_span operation;                 /* outputs: operator of the node that computes it */
} mr_onnx_declared;

typedef struct mr_onnx_count {
    mr_pb_span name;
    size_t count;
} mr_onnx_count;

typedef struct mr_onnx_report {
    int64_t ir_version;
    mr_pb_span producer, producer_version, graph;
    size_t set_count;
    struct {
        mr_pb_span domain; /* empty: ai.onnx */
        int64_t version;
    } sets[MR_ONNX_MOST_SETS];
    size_t node_count, operator_count; /* in the outermost graph */
    mr_onnx_count operators[MR_ONNX_MOST_OPERATORS];
    size_t weight_count;               /* tensors */
    uint64_t weight_numbers;
    size_t input_count, output_count;  /* without weights that are listed among the inputs */
    mr_onnx_declared inputs[MR_ONNX_MOST_VALUES], outputs[MR_ONNX_MOST_VALUES];
    bool odd; /* inputs or outputs do not fit, or the graph is damaged */
} mr_onnx_report;

/* Entries that do not fit are omitted. */
void mr_onnx_read_report(const uint8_t *data, size_t bytes, mr_onnx_report *report);
/* Whether planning can do with what the file declares. False if only a runtime can tell: an entry is not a tensor, an
 * output's size depends on more than the batch, or there are more than `most` tensors, or `rank` dimensions. */
bool mr_onnx_report_suffices(const mr_onnx_report *report, size_t most, int rank);

/* The note with that key in the file's metadata (StringStringEntryProto); empty if none. */
mr_pb_span mr_onnx_find_note(const uint8_t *data, size_t bytes, const char *key);
/* `millrace export` writes this note: how preprocess made the input (tools/millrace/train/exporting.c). */
#define MR_ONNX_PREPARED "millrace.input"
#define MR_ONNX_LABELS "millrace.labels"
/* Exporters of detectors write this note: the classes, as a Python dictionary. */
#define MR_ONNX_NAMES "names"
/* And these: the task, "detect" or "pose", and how many key points with how many numbers, "[17, 3]". */
#define MR_ONNX_TASK "task"
#define MR_ONNX_POINTS "kpt_shape"
/* Exporters of text recognisers write this note: a character on each line. */
#define MR_ONNX_CHARACTERS "character"

/* "f32" for 1, and so on; "type 99" if it is unknown. */
const char *mr_onnx_type_name(int element);
