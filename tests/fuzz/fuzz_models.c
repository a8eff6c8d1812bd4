/* Any bytes as a classifier file: a model, weights, labels, or a note with labels. Nothing may crash or read past the
 * end, and every refusal must have a reason. The first byte chooses the file.
 *
 *     tests/fuzz/run 60 fuzz_models */
#include <stdio.h>
#include <string.h>

#include "engine/base/memory.h"
#include "millrace/status.h"
#include "stages/model/labels.h"
#include "stages/model/npy.h"
#include "stages/model/onnx/onnx_work.h"
#include "stages/model/onnx/onnx_file.h"
#include "stages/model/onnx/onnx_external.h"
#include "stages/model/onnx/onnx_report.h"
#include "stages/model/onnx/onnx_traits.h"
#include "stages/model/onnx/onnx_weights.h"
#include "tests/fuzz/fuzz.h"

static void read_file(const uint8_t *data, size_t bytes, int labels) {
    mr_matrix_f32 matrix = {0}, seen = {0};
    mr_labels read = {0};
    const char *path = fuzz_file("file", data, bytes);
    if (labels) {
        fuzz_expect_reason(mr_labels_read(path, &read));
    } else {
        int status = mr_npy_read(path, &matrix);
        fuzz_expect_reason(status);
        fault_if(mr_npy_look(path, &seen) != status || seen.rows != matrix.rows || seen.columns != matrix.columns);
    }
    mr_npy_free(&matrix);
    mr_labels_free(&read);
}

static void read_note(const uint8_t *data, size_t bytes) {
    mr_labels read;
    char *note = mr_calloc(bytes + 1, 1);
    fault_if(!note);
    memcpy(note, data, bytes);
    fuzz_expect_reason(mr_labels_read_note(note, &read));
    mr_labels_free(&read);
    mr_free(note);
}

/* What planning asks the graph; the first output is taken for the wanted one. */
static void ask_graph(const uint8_t *data, size_t bytes) {
    mr_onnx_graph graph;
    char finish[MR_ONNX_OPERATOR_TEXT], mixing[MR_ONNX_MIXING_TEXT];
    const char *output = "out";
    const mr_onnx_shape shape = {.rank = 4, .dims = {2, 3, 8, 8}};
    const mr_onnx_batch batch = {.inputs = &shape, .input_count = 1, .fixed = data[bytes - 1] % 2,
                                 .outputs = &output, .output_count = 1};
    int status = mr_onnx_graph_read(&graph, data, bytes);
    for (size_t i = 0; i < graph.tensor_count && status == MR_OK; i++)
        mr_onnx_finish(&graph, graph.tensors[i].name, finish);
    mr_onnx_graph_free(&graph);
    fuzz_expect_reason(mr_onnx_find_mixing(data, bytes, &batch, mixing));
    mr_onnx_find_note(data, bytes, MR_ONNX_PREPARED);
}

/* Weights from another file, the model's own bytes, under a name that is quickly found. A model that took them has none
 * elsewhere. */
static void take_external(const uint8_t *data, size_t bytes) {
    mr_onnx_facts facts;
    mr_file_bytes model = {.data = mr_calloc(bytes, 1), .bytes = bytes};
    fault_if(!model.data);
    memcpy(model.data, data, bytes);
    int status = mr_onnx_take_external(&model, fuzz_file("9", data, bytes), 0);
    fuzz_expect_reason(status);
    fault_if(status == MR_OK && (mr_onnx_scan(model.data, model.bytes, NULL, &facts) || facts.external));
    mr_free(model.data);
}

static void read_model(const uint8_t *data, size_t bytes) {
    static mr_onnx_report report;
    mr_onnx_facts facts;
    int status = mr_onnx_scan(data, bytes, "out", &facts);
    fuzz_expect_reason(status);
    if (status)
        return;
    ask_graph(data, bytes);
    take_external(data, bytes);
    if (facts.external)
        return;
    fuzz_expect_reason(mr_onnx_check_weights(data, bytes));
    mr_onnx_read_report(data, bytes, &report);
    mr_onnx_report_suffices(&report, 32, 8);
    mr_onnx_work work;
    mr_onnx_shape shape = {.rank = 4, .dims = {1, 3, 8, 8}};
    int counted = mr_onnx_count_work(data, bytes, &shape, 1, &work);
    fuzz_expect_reason(counted);
    fault_if(counted == MR_OK && (!(work.f32_operations >= 0) || (work.missing > 0) != (*work.why != 0)));
}

FUZZ(data, bytes) {
    if (bytes == 0)
        return;
    if (data[0] % 4 == 0)
        read_model(data + 1, bytes - 1);
    else if (data[0] % 4 == 3)
        read_note(data + 1, bytes - 1);
    else
        read_file(data + 1, bytes - 1, data[0] % 4 == 1);
}
