/* Describes model files (millrace/model.h). */
#include "millrace/model.h"

#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "kernels/detect/box_head.h"
#include "millrace/status.h"
#include "stages/model/npy.h"
#include "stages/model/onnx/onnx_file.h"
#include "stages/model/onnx/onnx_report.h"
#include "stages/model/onnx/onnx_traits.h"
#include "stages/model/onnx/onnx_work.h"

typedef struct model_view {
    mr_model_view shown; /* must be first: programs have its address */
    mr_arena arena;      /* everything it points to */
    bool failed;         /* memory ran out */
} model_view;

static const char *text_of(model_view *view, mr_pb_span span) {
    const char *text = mr_arena_text(&view->arena, (const char *)span.at, (size_t)(span.end - span.at));
    view->failed |= !text;
    return text;
}

static void *array_of(model_view *view, size_t count, size_t size) {
    void *array = mr_arena_array(&view->arena, count, size);
    view->failed |= !array;
    return array;
}

static const mr_model_dimension *show_dims(model_view *view, const mr_onnx_declared *from) {
    mr_model_dimension *dims = array_of(view, (size_t)from->rank, sizeof *dims);
    for (int i = 0; dims && i < from->rank; i++)
        dims[i] = (mr_model_dimension){from->dims[i], text_of(view, from->symbols[i])};
    return dims;
}

/* `graph`: NULL for inputs, and if the graph is too large. */
static const char *show_operation(model_view *view, const mr_onnx_declared *from, const mr_onnx_graph *graph) {
    char text[MR_ONNX_OPERATOR_TEXT] = "";
    if (graph)
        mr_onnx_finish(graph, from->name, text);
    if (!*text)
        return from->operation.at ? text_of(view, from->operation) : NULL;
    const char *copy = mr_arena_text(&view->arena, text, strlen(text));
    view->failed |= !copy;
    return copy;
}

static const mr_model_value *show_values(model_view *view, const mr_onnx_declared *from, size_t count,
                                         const mr_onnx_graph *graph) {
    mr_model_value *values = array_of(view, count, sizeof *values);
    for (size_t i = 0; values && i < count; i++)
        values[i] = (mr_model_value){
            .name = text_of(view, from[i].name),
            .kind = from[i].kind,
            .type = strcmp(from[i].kind, "tensor") == 0 ? mr_onnx_type_name(from[i].element) : NULL,
            .shaped = from[i].shaped,
            .rank = from[i].rank,
            .dims = show_dims(view, &from[i]),
            .operation = show_operation(view, &from[i], graph),
        };
    return values;
}

/* The default operator set has no name in the file. */
static const mr_model_set *show_sets(model_view *view, const mr_onnx_report *report) {
    mr_model_set *sets = array_of(view, report->set_count, sizeof *sets);
    for (size_t i = 0; sets && i < report->set_count; i++) {
        mr_pb_span domain = report->sets[i].domain;
        sets[i] = (mr_model_set){domain.at < domain.end ? text_of(view, domain) : "ai.onnx", report->sets[i].version};
    }
    return sets;
}

static const mr_model_operator *show_operators(model_view *view, const mr_onnx_report *report) {
    mr_model_operator *operators = array_of(view, report->operator_count, sizeof *operators);
    for (size_t i = 0; operators && i < report->operator_count; i++)
        operators[i] = (mr_model_operator){text_of(view, report->operators[i].name), report->operators[i].count};
    return operators;
}

/* Counts for one frame: an open batch size is one. */
static void count_work(model_view *view, const mr_file_bytes *file, const mr_onnx_report *report) {
    mr_onnx_shape shapes[MR_ONNX_MOST_VALUES] = {0};
    mr_onnx_work work;
    for (size_t i = 0; i < report->input_count; i++) {
        const mr_onnx_declared *input = &report->inputs[i];
        shapes[i].rank = input->rank < MR_ONNX_GRAPH_RANK ? input->rank : MR_ONNX_GRAPH_RANK;
        if (input->rank > 0 && input->dims[0] < 0)
            shapes[i].dims[0] = 1;
    }
    view->shown.why = "";
    if (mr_onnx_count_work(file->data, file->bytes, shapes, report->input_count, &work))
        return;
    view->shown.counted = true;
    view->shown.multiply_adds = work.multiply_adds;
    view->shown.uncounted = work.missing;
    view->shown.why = mr_arena_text(&view->arena, work.why, strlen(work.why));
    view->failed |= !view->shown.why;
}

static mr_dtype dtype_of(const mr_model_value *value) {
    mr_dtype dtype = MR_DTYPE_I64;
    while (dtype != MR_DTYPE_ANY && (!value->type || strcmp(value->type, mr_dtype_name(dtype)) != 0))
        dtype--;
    return dtype;
}

/* One frame's item, without the batch. */
static mr_format item_of(const mr_model_value *value) {
    int64_t dims[MR_MAX_RANK] = {0};
    const int first = value->rank > 1, rank = value->rank - first;
    for (int i = 0; i < rank && i < MR_MAX_RANK; i++)
        dims[i] = value->dims[first + i].size < 0 ? 0 : value->dims[first + i].size;
    return mr_tensor_format(dtype_of(value), MR_LAYOUT_FLAT, rank < MR_MAX_RANK ? rank : 0, dims);
}

/* Whether a picture of any size gives one plane of any size, of values in 0..1: a map of where something is. */
static bool is_map(const mr_model_view *shown) {
    if (shown->input_count != 1 || shown->output_count != 1)
        return false;
    const char *made_by = shown->outputs[0].operation;
    const mr_format input = item_of(&shown->inputs[0]), output = item_of(&shown->outputs[0]);
    return input.rank == 3 && input.dims[0] == 3 && !input.dims[1] && !input.dims[2] && output.rank == 3 &&
           output.dims[0] == 1 && !output.dims[1] && !output.dims[2] && made_by && strcmp(made_by, "Sigmoid") == 0;
}

/* For a network that takes any size: the size that is tried, and free sizes of its outputs then. Planes have a cell for
 * 4x4 pixels (CenterFace, prototypes of masks); matrices a row for each cell of the grids, or for three boxes of it. */
enum { TRIED_SIDE = 640, TRIED_CELLS = TRIED_SIDE / 4, TRIED_ROWS = 80 * 80 + 40 * 40 + 20 * 20 };

static void fill_sizes(mr_format *format, int64_t rows) {
    for (int32_t i = 0; i < format->rank; i++)
        if (!format->dims[i])
            format->dims[i] = format->rank > 2 ? TRIED_CELLS : rows;
}

/* `rows`: that free sizes have, 0: none is free. An error of mr_box_head_find. */
static int find_sized(mr_box_head_family *found, const mr_model_view *shown, mr_box_head_params params, int64_t rows) {
    mr_box_head_output outputs[MR_BOX_HEAD_MOST_OUTPUTS];
    for (size_t i = 0; i < shown->output_count; i++) {
        outputs[i] = (mr_box_head_output){shown->outputs[i].name, item_of(&shown->outputs[i])};
        if (rows)
            fill_sizes(&outputs[i].format, rows);
    }
    if (rows)
        params.width = params.height = TRIED_SIDE;
    return mr_box_head_find(found, &params, outputs, shown->output_count);
}

/* The only head that fits at the tried size. */
static int find_free(mr_box_head_family *found, const mr_model_view *shown, const mr_box_head_params *params) {
    mr_box_head_family other;
    const bool one = !find_sized(found, shown, *params, TRIED_ROWS);
    const bool three = !find_sized(one ? &other : found, shown, *params, 3 * TRIED_ROWS);
    return one != three || (one && *found == other)
               ? MR_OK
               : mr_fail(MR_ERROR_CONFIG, "the network takes any size, so the shapes of its outputs tell no head: if "
                                          "it is a detector, write head");
}

/* Fails if none or several fit. */
static int find_head(mr_box_head_family *found, const mr_model_view *shown, const char *task, const char *key_points) {
    *found = MR_BOX_HEAD_DB;
    if (is_map(shown))
        return MR_OK;
    if (shown->output_count > MR_BOX_HEAD_MOST_OUTPUTS)
        return mr_fail(MR_ERROR_CONFIG, "it has %zu outputs, and a head has at most %d: if it is a detector, name them "
                       "(outputs)", shown->output_count, MR_BOX_HEAD_MOST_OUTPUTS);
    const mr_format input = shown->input_count == 1 ? item_of(&shown->inputs[0]) : (mr_format){0};
    const int first = input.dims[2] == 3; /* of rows and columns */
    if (input.rank != 3 || (input.dims[0] != 3 && input.dims[2] != 3))
        return mr_fail(MR_ERROR_CONFIG, "it takes networks with one input, a picture of three channels");
    const mr_box_head_params params = {.width = (int32_t)input.dims[first ? 1 : 2],
                                       .height = (int32_t)input.dims[first ? 0 : 1], .task = task,
                                       .key_points = key_points};
    return params.width && params.height ? find_sized(found, shown, params, 0) : find_free(found, shown, &params);
}

static void show_head(model_view *view, const char *task, const char *key_points) {
    mr_box_head_family found;
    view->shown.head = view->shown.no_head = "";
    if (view->failed)
        return;
    if (!find_head(&found, &view->shown, task, key_points)) {
        view->shown.head = mr_box_head_names[found];
        return;
    }
    view->shown.no_head = mr_arena_text(&view->arena, mr_message(), strlen(mr_message()));
    view->failed |= !view->shown.no_head;
}

static int show(model_view *view, const mr_file_bytes *file, const mr_onnx_report *report) {
    mr_onnx_graph graph;
    const bool whole = mr_onnx_graph_read(&graph, file->data, file->bytes) == MR_OK;
    view->shown = (mr_model_view){
        .bytes = file->bytes,
        .ir_version = report->ir_version,
        .producer = text_of(view, report->producer),
        .producer_version = text_of(view, report->producer_version),
        .graph = text_of(view, report->graph),
        .set_count = report->set_count,
        .sets = show_sets(view, report),
        .node_count = report->node_count,
        .operator_count = report->operator_count,
        .operators = show_operators(view, report),
        .weight_count = report->weight_count,
        .weight_numbers = report->weight_numbers,
        .input_count = report->input_count,
        .output_count = report->output_count,
        .inputs = show_values(view, report->inputs, report->input_count, NULL),
        .outputs = show_values(view, report->outputs, report->output_count, whole ? &graph : NULL),
        .prepared = text_of(view, mr_onnx_find_note(file->data, file->bytes, MR_ONNX_PREPARED)),
        .labels = text_of(view, mr_onnx_find_note(file->data, file->bytes, MR_ONNX_LABELS)),
    };
    mr_onnx_graph_free(&graph);
    show_head(view, text_of(view, mr_onnx_find_note(file->data, file->bytes, MR_ONNX_TASK)),
              text_of(view, mr_onnx_find_note(file->data, file->bytes, MR_ONNX_POINTS)));
    count_work(view, file, report);
    return view->failed ? MR_ERROR_MEMORY : MR_OK;
}

int mr_model_view_open(const mr_model_view **view, const char *path) {
    MR_PLAIN_NUMBERS;
    mr_file_bytes file = {0};
    bool has_tensor;
    model_view *made = mr_calloc(1, sizeof *made);
    mr_onnx_report *report = mr_calloc(1, sizeof *report);
    *view = made ? &made->shown : NULL;
    int status = made && report ? mr_onnx_read(path, 0, NULL, &file, &has_tensor)
                                : mr_fail(MR_ERROR_MEMORY, "no memory for the model %s", path);
    if (!status) {
        mr_onnx_read_report(file.data, file.bytes, report);
        status = show(made, &file, report);
    }
    mr_free(file.data);
    mr_free(report);
    if (status)
        mr_model_view_close(view);
    return status;
}

void mr_model_view_close(const mr_model_view **view) {
    model_view *gone = (model_view *)(uintptr_t)*view;
    if (gone)
        mr_arena_fini(&gone->arena);
    mr_free(gone);
    *view = NULL;
}

bool mr_model_gives_scores(const char *operation) {
    return mr_onnx_gives_scores(operation);
}

int mr_npy_shape(const char *path, size_t *rows, size_t *columns) {
    mr_matrix_f32 matrix = {0};
    int status = mr_npy_look(path, &matrix);
    if (status)
        return status;
    *rows = matrix.rows;
    *columns = matrix.columns;
    return MR_OK;
}
