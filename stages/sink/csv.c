/* csv: a header, then one row for each class, or other element, in a frame (RFC 4180, lines end in CR LF). A frame
 * without any has one row with those fields empty. All rows for a frame are one record. A list in an element is JSON in
 * one cell, as jsonl writes it. */
#include <string.h>

#include "engine/base/grow.h"
#include "engine/base/memory.h"
#include "engine/base/utf8.h"
#include "engine/data/kinds.h"
#include "stages/list.h"
#include "stages/sink/fields.h"
#include "stages/sink/record_json.h"
#include "stages/sink/rows.h"
#include "stages/sink/text_sink.h"

typedef struct options {
    mr_text_options text;
    bool captured, id, state, escape_formulas;
    const char *results;
} options;

typedef struct state {
    mr_text_sink sink;
    const mr_result_kind *kind; /* kind of results that become rows */
    char *header;
    char *text; /* current record; grows to the longest one and stays */
    size_t bytes, capacity;
    mr_record json; /* makes the cells of lists */
    bool failed; /* memory ran out */
    bool escapes; /* escape_formulas */
} state;

/* ---- kinds of results -------------------------------------------------------------------------------------------- */

/* Chooses which kind becomes rows: the requested one, else classes, else the newest with elements. NULL: no earlier
 * stage gives the requested kind. */
static const mr_result_kind *choose_kind(const mr_planned_input *input, const char *wanted) {
    const mr_result_kind *classes = mr_kind_classes(), *other = NULL;
    if (wanted && strcmp(wanted, classes->name) == 0)
        return classes;
    if (wanted)
        return mr_rows_find_kind(input, wanted);
    for (const mr_planned_result *one = input->results; one; one = one->next) {
        if (one->kind == classes)
            return classes;
        other = other || !one->kind->fields ? other : one->kind;
    }
    return other && !input->more_results ? other : classes;
}

/* Whether frames carry only numbers, and nothing that gives rows. */
static bool has_tensors_alone(const mr_planned_input *input) {
    bool tensors = input->set.payload == MR_PAYLOAD_TENSOR;
    for (const mr_planned_result *one = input->results; one; one = one->next) {
        if (one->kind->fields)
            return false;
        tensors = true;
    }
    return tensors && !input->more_results;
}

static int negotiate(mr_negotiation *n) {
    const options *given = n->options;
    const mr_result_kind *kind = choose_kind(&n->inputs[0], given->results);
    n->shows = 0;
    if (!kind)
        return mr_rows_refuse(n, given->results);
    if (has_tensors_alone(&n->inputs[0]))
        mr_warn(n, NULL, "jsonl writes tensors (tensors: true) and vectors (features: true)",
                "frames come without classes, and a csv has no column for tensors: it only lists the frames");
    for (const mr_planned_result *one = n->inputs[0].results; one && !given->results; one = one->next)
        if (one->kind->fields && one->kind != kind) {
            mr_warn(n, NULL, NULL, "it has rows for %s only; for those of %s add a csv with results: %s", kind->name,
                    one->kind->name, one->kind->name);
            break;
        }
    return mr_text_sink_negotiate(n);
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static void add(state *at, const char *text, size_t bytes) {
    at->failed = at->failed || !mr_append_bytes((void **)&at->text, &at->capacity, &at->bytes, text, bytes);
}

/* Copies characters, doubles quotes, and writes question marks for invalid bytes. */
static void add_characters(state *at, const char *text) {
    for (size_t left = strlen(text), bytes; left; text += bytes, left -= bytes) {
        bytes = mr_utf8_bytes(text, left);
        add(at, !bytes ? "?" : *text == '"' ? "\"\"" : text, !bytes ? 1 : *text == '"' ? 2 : bytes);
        bytes += !bytes;
    }
}

/* A field with a comma, quote or line break is quoted, and quotes inside it are doubled. */
static void add_text(state *at, const char *text) {
    text = text ? text : "";
    const char *quote = strpbrk(text, ",\"\r\n") ? "\"" : "";
    add(at, quote, strlen(quote));
    if (at->escapes && *text && strchr("=+-@\t\r", *text))
        add(at, "'", 1);
    add_characters(at, text);
    add(at, quote, strlen(quote));
}

/* Writes lists as JSON. */
static void add_items(state *at, const mr_result *result, const mr_field *field, const void *base) {
    size_t bytes;
    const mr_items *items = (const void *)((const char *)base + field->offset);
    if (!items->count)
        return;
    const char *text = field->type == MR_FIELD_STRING ? mr_result_items(result, *items)
                                                      : mr_record_make_field(&at->json, result, base, field, &bytes);
    at->failed |= !text;
    add_text(at, text);
}

/* If `base` is NULL, writes the column's name. */
static void add_cell(state *at, const mr_result *result, const mr_field *field, const void *base) {
    char text[MR_VALUE_TEXT];
    if (at->bytes && at->text[at->bytes - 1] != '\n')
        add(at, ",", 1);
    if (!base)
        add_text(at, field->column ? field->column : field->name);
    else if (field->type == MR_FIELD_TEXT)
        add_text(at, *(const char *const *)(const void *)((const char *)base + field->offset));
    else if (mr_field_item_bytes(field))
        add_items(at, result, field, base);
    else if (!field->sparse || mr_value_is_set(field, base))
        add(at, text, mr_value_text(text, field, base));
}

static void add_field(state *at, const char *name, const mr_record_values *values) {
    const mr_record_field *one = mr_record_field_at(0);
    for (size_t i = 1; one && strcmp(one->field.name, name) != 0; i++)
        one = mr_record_field_at(i);
    add_cell(at, NULL, &one->field, values);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* A row's cells besides the record's fields. */
typedef struct cells {
    int64_t rank;
    const char *state, *none;
} cells;
static const mr_field rank_cell = {.name = "rank", .type = MR_FIELD_I64, .offset = offsetof(cells, rank)};
static const mr_field state_cell = {.name = "state", .type = MR_FIELD_TEXT, .offset = offsetof(cells, state)};
static const mr_field no_cell = {.name = "", .type = MR_FIELD_TEXT, .offset = offsetof(cells, none)};

/* Writes a row for element `index` in `result`, or with empty cells if it is NULL. Without values: the header. */
static void add_row(const mr_stage *self, const mr_record_values *values, const mr_result *result, size_t index) {
    static const char *const first[] = {"source", "epoch", "seq", "sub", "pts", "file", "label"};
    const options *given = self->options;
    state *at = self->state;
    const cells own = {.rank = (int64_t)index + 1,
                       .state = !values ? "" : values->away ? "away" : values->damaged ? "damaged" : ""};
    const char *element = result ? (const char *)result->data + index * at->kind->element_bytes : NULL;
    const bool empty = values && !result;
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        add_field(at, first[i], values);
    add_cell(at, NULL, empty ? &no_cell : &rank_cell, values ? &own : NULL);
    for (const mr_field *field = at->kind->fields; field->name; field++)
        add_cell(at, result, empty ? &no_cell : field, empty ? (const void *)&own : element);
    if (given->captured)
        add_field(at, "captured", values);
    if (given->id)
        add_field(at, "id", values);
    if (given->state)
        add_cell(at, NULL, &state_cell, values ? &own : NULL);
    add(at, "\r\n", 2);
}

static int open_sink(mr_stage *self) {
    const options *given = self->options;
    state *at = self->state;
    int status = mr_record_open(&at->json);
    if (status)
        return status;
    at->kind = choose_kind(&self->inputs[0], given->results);
    at->escapes = given->escape_formulas;
    add_row(self, NULL, NULL, 0);
    add(at, "", 1);
    if (at->failed)
        return mr_fail(MR_ERROR_MEMORY, "%s: no memory for the header", self->id);
    at->header = at->text;
    at->text = NULL;
    at->bytes = at->capacity = 0;
    const mr_text_form form = {mr_written_take_row, mr_written_finish_rows, at->header, "\r\n"};
    return mr_text_sink_open(self, &form);
}

static int process(mr_stage *self, mr_io *io) {
    state *at = self->state;
    const mr_frame *frame = mr_io_input(io);
    const mr_recorded recorded = {.frame = frame, .source = mr_stage_source_id(self, frame->identity.source)};
    const mr_record_values values = mr_record_values_of(&recorded);
    int answer;
    if (!mr_text_sink_ready(self, io, &answer))
        return answer;
    if (mr_text_sink_has(self, frame))
        return MR_DONE;
    at->bytes = 0;
    for (const mr_result *one = NULL; (one = mr_rows_next(frame, at->kind, one));)
        for (size_t i = 0; i < one->count; i++)
            add_row(self, &values, one, i);
    if (at->bytes == 0 && at->kind->rare)
        return MR_DONE;
    if (at->bytes == 0)
        add_row(self, &values, NULL, 0);
    if (at->failed)
        return mr_output_failed(io, frame, mr_fail(MR_ERROR_MEMORY, "%s: no memory for a row", self->id));
    return mr_text_sink_put(self, io, frame, at->text, at->bytes);
}

/* If no frame came, the file has only a header. */
static void close_sink(mr_stage *self) {
    state *at = self->state;
    mr_text_sink_close(self);
    mr_record_close(&at->json);
    mr_free(at->text);
    mr_free(at->header);
    *at = (state){0};
}

static const mr_port inputs[] = {{.name = "in", .help = "frames with results"}, {0}};

static const mr_option option_table[] = {
    MR_TEXT_SINK_OPTIONS,
    {.name = "captured", .kind = MR_OPTION_BOOL, .offset = offsetof(options, captured), .fallback = "false",
     .help = "one more column: when the picture was taken, if its source reports it (media: clock)"},
    {.name = "id", .kind = MR_OPTION_BOOL, .offset = offsetof(options, id), .fallback = "false",
     .help = "one more column: what the program that sent the frame calls it (zmq.pull, zmq.sub)"},
    {.name = "results", .kind = MR_OPTION_STRING, .offset = offsetof(options, results), .example = "boxes",
     .help = "the result kind that gives rows, such as objects, events or one from a plugin; default: classes, or the "
             "kind that earlier stages give if they give no classes. The kind's fields are the columns after rank. "
             "Lists in them (quad, points, mask, zones, attributes) are JSON in one cell, as jsonl writes them. A "
             "frame without events has no row"},
    {.name = "state", .kind = MR_OPTION_BOOL, .offset = offsetof(options, state), .fallback = "false",
     .help = "one more column, the last: damaged (decode: damaged: mark), away (media: on_away: picture), else empty"},
    {.name = "escape_formulas", .kind = MR_OPTION_BOOL, .offset = offsetof(options, escape_formulas),
     .fallback = "false",
     .help = "put an apostrophe before texts that a spreadsheet would take for a formula: those that begin with =, +, "
             "-, @ or a tab"},
    MR_OPTIONS_END,
};

const mr_stage_type mr_csv_stage = {
    .name = "csv",
    .summary = "writes a table with one row for each class in each frame",
    .help = "The columns are source, epoch, seq, sub, pts (seconds), file and label (for pictures in a folder, or as "
            "the sending program gives them; the label is the truth), rank (from 1), index, class (the label that "
            "was found) and score. A frame without classes has one row in which the last four are empty.",
    .inputs = inputs,
    .options = option_table,
    .options_bytes = sizeof(options),
    .state_bytes = sizeof(state),
    .entry = MR_ENTRY_SHARED,
    .blind = true,
    .negotiate = negotiate,
    .open = open_sink,
    .process = process,
    .flush = mr_text_sink_flush,
    .resumes = true,
    .sync = mr_text_sink_sync,
    .close = close_sink,
};
