#include "stages/deliver/db_rows.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/grow.h"
#include "engine/base/memory.h"
#include "engine/base/utf8.h"
#include "millrace/events.h"
#include "millrace/objects.h"
#include "millrace/text.h"
#include "stages/sink/rows.h"

/* ---- tables ------------------------------------------------------------------------------------------------------ */

typedef struct fixed {
    const char *name;
    mr_column_type type;
} fixed;

static const fixed frame_columns[] = {
    {"source", MR_COLUMN_TEXT}, {"epoch", MR_COLUMN_INTEGER}, {"seq", MR_COLUMN_INTEGER}, {"sub", MR_COLUMN_INTEGER},
    {"pts", MR_COLUMN_REAL},    {"captured", MR_COLUMN_DATE}, {"id", MR_COLUMN_TEXT},     {"file", MR_COLUMN_TEXT},
    {"label", MR_COLUMN_TEXT},  {"damaged", MR_COLUMN_BOOL},  {"away", MR_COLUMN_BOOL}};
static const fixed element_columns[] = {
    [MR_STAGE_COLUMN] = {"stage", MR_COLUMN_TEXT}, [MR_RANK_COLUMN] = {"rank", MR_COLUMN_INTEGER}};
enum {
    FRAME_COLUMNS = sizeof frame_columns / sizeof *frame_columns,
    ELEMENT_COLUMNS = sizeof element_columns / sizeof *element_columns
};

/* Tables that are there for all runs, beside views, whose names end in "_view". */
static const char *const taken_tables[] = {"frames", "runs", "sources", "tracks", "top_classes"};

static mr_column_type type_of(const mr_field *field) {
    static const mr_column_type types[MR_FIELD_TYPES] = {
        [MR_FIELD_BOOL] = MR_COLUMN_BOOL,   [MR_FIELD_I32] = MR_COLUMN_INTEGER,  [MR_FIELD_I64] = MR_COLUMN_INTEGER,
        [MR_FIELD_F32] = MR_COLUMN_REAL,    [MR_FIELD_F64] = MR_COLUMN_REAL,     [MR_FIELD_TEXT] = MR_COLUMN_TEXT,
        [MR_FIELD_TIME] = MR_COLUMN_REAL,   [MR_FIELD_DATE] = MR_COLUMN_DATE,    [MR_FIELD_ID] = MR_COLUMN_INTEGER,
        [MR_FIELD_F32S] = MR_COLUMN_JSON,   [MR_FIELD_I32S] = MR_COLUMN_JSON,    [MR_FIELD_STRING] = MR_COLUMN_TEXT,
        [MR_FIELD_LIST] = MR_COLUMN_JSON};
    return types[field->type];
}

static void name_table(const mr_result_kind *kind, char name[MR_COLUMN_NAME]) {
    snprintf(name, MR_COLUMN_NAME, "%s", kind == mr_kind_text() ? "texts" : kind->name);
}

/* PostgreSQL's indices take texts of less than 2704 bytes. */
static uint32_t most_of(const mr_result_kind *kind, const mr_db_column *column) {
    const bool has_index = column->type == MR_COLUMN_TEXT && (!column->field || kind == mr_kind_events());
    return kind && has_index ? 1024 : 0;
}

/* Names that must be quoted in SQL, and those of the key, get a word before them. */
static void name_column(const mr_result_kind *kind, const mr_field *field, char name[MR_COLUMN_NAME]) {
    static const char *const boxes[] = {"left", "top", "right", "bottom"};
    static const char *const others[] = {
        "source", "epoch", "seq", "sub", "stage", "rank", "run", "pipeline", "pts", "captured", "file",
        "order", "group", "user", "table", "select",
        "where", "from", "to", "end", "limit", "offset", "check", "column", "default", "when", "case", "all", "and",
        "or", "not", "null", "in", "is", "as", "on", "by", "desc", "asc", "primary", "references", "unique", "values",
        "having", "union", "using", "with", "join", "cross", "inner", "natural", "full", "between", "like", "exists"};
    const char *plain = field->column ? field->column : field->name, *before = "";
    for (size_t i = 0; i < sizeof boxes / sizeof *boxes; i++)
        before = strcmp(plain, boxes[i]) == 0 ? "box" : before;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        before = strcmp(plain, others[i]) == 0 ? kind->name : before;
    before = strcmp(plain, "index") == 0 ? "class" : before;
    snprintf(name, MR_COLUMN_NAME, "%s%s%s", before, *before ? "_" : "", plain);
}

static size_t fields_of(const mr_result_kind *kind) {
    size_t count = 0;
    while (kind->fields[count].name)
        count++;
    return count;
}

static int make_table(mr_db_table *to, const char *name, const mr_result_kind *kind, const fixed *columns,
                      size_t count) {
    *to = (mr_db_table){.kind = kind, .count = count + (kind ? fields_of(kind) : 0)};
    to->columns = mr_calloc(to->count, sizeof *to->columns);
    if (!to->columns)
        return mr_fail(MR_ERROR_MEMORY, "no memory for tables");
    snprintf(to->name, sizeof to->name, "%s", name);
    for (size_t i = 0; i < count; i++) {
        snprintf(to->columns[i].name, MR_COLUMN_NAME, "%s", columns[i].name);
        to->columns[i].type = columns[i].type;
        to->columns[i].most = most_of(kind, &to->columns[i]);
    }
    for (size_t i = count; i < to->count; i++) {
        const mr_field *field = &kind->fields[i - count];
        to->columns[i] = (mr_db_column){.type = type_of(field), .field = field};
        to->columns[i].most = most_of(kind, &to->columns[i]);
        name_column(kind, field, to->columns[i].name);
    }
    return MR_OK;
}

static bool is_wanted(const mr_strings *wanted, const char *name) {
    for (size_t i = 0; i < wanted->count; i++)
        if (strcmp(wanted->item[i], name) == 0)
            return true;
    return wanted->count == 0;
}

static int add_kind(mr_db_tables *to, const mr_result_kind *kind, const mr_strings *wanted) {
    char name[MR_COLUMN_NAME];
    if (!kind->fields || !is_wanted(wanted, kind->name))
        return MR_OK;
    for (size_t i = 0; i < to->count; i++)
        if (to->tables[i].kind && strcmp(to->tables[i].kind->name, kind->name) == 0)
            return MR_OK;
    mr_db_table *grown = mr_realloc(to->tables, (to->count + 1) * sizeof *grown);
    if (!grown)
        return mr_fail(MR_ERROR_MEMORY, "no memory for tables");
    to->tables = grown;
    name_table(kind, name);
    int status = make_table(&to->tables[to->count], name, kind, element_columns, ELEMENT_COLUMNS);
    to->count += !status;
    return status;
}

int mr_db_tables_create(mr_db_tables **tables, const mr_planned_input *input, const mr_strings *wanted) {
    const mr_result_kind *const known[] = {mr_kind_classes(), mr_kind_objects(), mr_kind_events(), mr_kind_text()};
    mr_db_tables *made = mr_calloc(1, sizeof *made);
    if (made)
        made->tables = mr_calloc(1, sizeof *made->tables);
    int status = made && made->tables ? make_table(made->tables, "frames", NULL, frame_columns, FRAME_COLUMNS)
                                      : mr_fail(MR_ERROR_MEMORY, "no memory for tables");
    if (!status)
        made->count = 1;
    for (size_t i = 0; !status && i < sizeof known / sizeof *known; i++)
        status = add_kind(made, known[i], wanted);
    for (const mr_planned_result *one = input->results; one && !status; one = one->next)
        status = add_kind(made, one->kind, wanted);
    *tables = made;
    if (status)
        mr_db_tables_destroy(tables);
    return status;
}

void mr_db_tables_destroy(mr_db_tables **tables) {
    mr_db_tables *gone = *tables;
    for (size_t i = 0; gone && i < gone->count; i++)
        mr_free(gone->tables[i].columns);
    if (gone)
        mr_free(gone->tables);
    mr_free(gone);
    *tables = NULL;
}

int mr_db_tables_check(mr_negotiation *n, const mr_strings *wanted) {
    for (size_t i = 0; i < wanted->count; i++)
        if (!mr_rows_find_kind(&n->inputs[0], wanted->item[i]))
            return mr_rows_refuse(n, wanted->item[i]);
    for (const mr_planned_result *one = n->inputs[0].results; one; one = one->next)
        for (size_t i = 0; one->kind->fields && i < sizeof taken_tables / sizeof *taken_tables; i++)
            if (strcmp(one->kind->name, taken_tables[i]) == 0)
                return mr_refuse(n, NULL, "%s gives results of a kind \"%s\", which is the name of a table that all "
                                 "databases have: its plugin must rename it", n->inputs[0].from, one->kind->name);
    return MR_OK;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

enum { NONE, SOME };

static void *grow(mr_row_writer *at, size_t bytes) {
    at->too_large |= bytes > at->most - at->bytes;
    if (at->too_large)
        return NULL;
    at->failed |= !mr_grow_bytes((void **)&at->data, &at->room, at->bytes + bytes);
    void *place = at->failed ? NULL : at->data + at->bytes;
    at->bytes += at->failed ? 0 : bytes;
    return place;
}

static void put_bytes(mr_row_writer *at, const void *bytes, size_t count) {
    void *to = grow(at, count);
    if (to && count)
        memcpy(to, bytes, count);
}

static void put_mark(mr_row_writer *at, char mark) {
    put_bytes(at, &mark, 1);
}

static void put_integer(mr_row_writer *at, int64_t value) {
    put_mark(at, SOME);
    put_bytes(at, &value, sizeof value);
}

static void put_real(mr_row_writer *at, double value) {
    put_mark(at, isfinite(value) ? SOME : NONE);
    if (isfinite(value))
        put_bytes(at, &value, sizeof value);
}

/* Invalid bytes become question marks. A zero ends a text. */
static void put_text(mr_row_writer *at, const char *text, size_t bytes) {
    const uint32_t count = (uint32_t)bytes;
    put_mark(at, text ? SOME : NONE);
    if (!text)
        return;
    put_bytes(at, &count, sizeof count);
    char *copy = grow(at, bytes);
    if (!copy || !bytes)
        return;
    memcpy(copy, text, bytes);
    for (size_t i = 0, valid; i < bytes; i += valid ? valid : 1) {
        valid = mr_utf8_bytes(text + i, bytes - i);
        if (!valid)
            copy[i] = '?';
    }
}

static void put_word(mr_row_writer *at, const char *text) {
    put_text(at, text, text ? strlen(text) : 0);
}

/* A text, cut to what the column takes. */
static void put_column_word(mr_row_writer *at, const mr_db_column *column, const char *text) {
    const size_t bytes = text ? strlen(text) : 0;
    put_text(at, text, column->most && bytes > column->most ? column->most : bytes);
}

/* The double with the fewest decimals that is this float: 0.87, not 0.870000005. */
static double shortest(float value) {
    static const double scales[] = {1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9};
    for (size_t i = 0; i < sizeof scales / sizeof *scales && fabsf(value) < 1e6F; i++) {
        const double rounded = nearbyint((double)value * scales[i]) / scales[i];
        if ((float)rounded == value)
            return rounded;
    }
    return (double)value;
}

static void put_seconds(mr_row_writer *at, int64_t time_ns) {
    put_real(at, time_ns == MR_NO_TIME ? (double)NAN : (double)time_ns / 1e9);
}

static void put_items(mr_row_writer *at, const mr_result *result, const mr_field *field, const void *element) {
    const mr_items *items = (const void *)((const char *)element + field->offset);
    size_t bytes = 0;
    const char *text = NULL;
    if (field->type == MR_FIELD_STRING && items->count) {
        text = mr_result_items(result, *items);
        bytes = strnlen(text, items->count);
    } else if (items->count) {
        text = mr_record_make_field(&at->json, result, element, field, &bytes);
        at->failed |= !text;
    }
    put_text(at, text, bytes);
}

static void put_field(mr_row_writer *at, const mr_result *result, const mr_db_column *column, const void *element) {
    const mr_field *field = column->field;
    const void *value = (const char *)element + field->offset;
    if (field->sparse && !mr_value_is_set(field, element)) {
        put_mark(at, NONE);
        return;
    }
    switch (field->type) {
    case MR_FIELD_BOOL:
        put_integer(at, *(const bool *)value);
        break;
    case MR_FIELD_I32:
        put_integer(at, *(const int32_t *)value);
        break;
    case MR_FIELD_I64:
        put_integer(at, *(const int64_t *)value);
        break;
    case MR_FIELD_F32:
        put_real(at, shortest(*(const float *)value));
        break;
    case MR_FIELD_F64:
        put_real(at, *(const double *)value);
        break;
    case MR_FIELD_TEXT:
        put_column_word(at, column, *(const char *const *)value);
        break;
    case MR_FIELD_TIME:
        put_seconds(at, *(const int64_t *)value);
        break;
    case MR_FIELD_DATE:
    case MR_FIELD_ID:
        if (*(const int64_t *)value > 0)
            put_integer(at, *(const int64_t *)value);
        else
            put_mark(at, NONE);
        break;
    default:
        put_items(at, result, field, element);
    }
}

static void put_elements(mr_row_writer *at, uint16_t index, const mr_result *result) {
    const mr_db_table *table = &at->tables->tables[index];
    const char *element = result->data;
    for (size_t i = 0; i < result->count && !at->too_large; i++, element += result->kind->element_bytes) {
        put_bytes(at, &index, sizeof index);
        put_column_word(at, &table->columns[MR_STAGE_COLUMN], result->stage ? result->stage : "");
        put_integer(at, (int64_t)i + 1);
        for (size_t c = ELEMENT_COLUMNS; c < table->count; c++)
            put_field(at, result, &table->columns[c], element);
    }
}

/* The result that has rows after `last`, or the first one. Every stage's newest classes count, as its events do. */
static const mr_result *next_result(const mr_frame *frame, const mr_result_kind *kind, const mr_result *last) {
    if (kind != mr_kind_classes())
        return mr_rows_next(frame, kind, last);
    const mr_result *next = mr_result_find(last ? last->next : frame->results, kind, NULL);
    while (next && mr_frame_result(frame, kind, next->stage) != next)
        next = mr_result_find(next->next, kind, NULL);
    return next;
}

static void put_frame(mr_row_writer *at, const mr_frame *frame, const char *source) {
    const uint16_t table = 0;
    const mr_recorded recorded = {.frame = frame, .source = source};
    const mr_record_values values = mr_record_values_of(&recorded);
    put_bytes(at, &table, sizeof table);
    put_word(at, values.source);
    put_integer(at, values.epoch);
    put_integer(at, values.seq);
    put_integer(at, values.sub);
    put_seconds(at, values.pts_ns);
    if (values.captured_ns)
        put_integer(at, values.captured_ns);
    else
        put_mark(at, NONE);
    put_word(at, values.id);
    put_word(at, values.file);
    put_word(at, values.label);
    put_integer(at, values.damaged);
    put_integer(at, values.away);
}

int mr_row_writer_open(mr_row_writer *at, const mr_db_tables *tables, bool found_only, size_t most) {
    *at = (mr_row_writer){.tables = tables, .found_only = found_only, .most = most};
    return mr_record_open(&at->json);
}

void mr_row_writer_close(mr_row_writer *at) {
    mr_record_close(&at->json);
    mr_free(at->data);
    *at = (mr_row_writer){0};
}

int mr_row_writer_make(mr_row_writer *at, const mr_frame *frame, const char *source, size_t *bytes) {
    at->bytes = 0;
    at->failed = at->too_large = false;
    put_frame(at, frame, source);
    const size_t alone = at->bytes;
    for (size_t t = 1; t < at->tables->count; t++)
        for (const mr_result *one = NULL; (one = next_result(frame, at->tables->tables[t].kind, one));)
            put_elements(at, (uint16_t)t, one);
    *bytes = at->too_large ? SIZE_MAX : at->found_only && at->bytes == alone ? 0 : at->bytes;
    return at->failed ? mr_fail(MR_ERROR_MEMORY, "no memory for the rows of a frame") : MR_OK;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static void get(mr_row_reader *from, void *to, size_t bytes) {
    memcpy(to, from->at, bytes);
    from->at += bytes;
}

int mr_row_next(mr_row_reader *from) {
    uint16_t table;
    if (from->at == from->end)
        return -1;
    get(from, &table, sizeof table);
    return table;
}

mr_row_value mr_row_value_of(mr_row_reader *from, mr_column_type type) {
    mr_row_value value = {.null = *from->at++ == NONE};
    uint32_t bytes;
    if (value.null)
        return value;
    switch (type) {
    case MR_COLUMN_REAL:
        get(from, &value.real, sizeof value.real);
        break;
    case MR_COLUMN_TEXT:
    case MR_COLUMN_JSON:
        get(from, &bytes, sizeof bytes);
        value.text = from->at;
        value.bytes = bytes;
        from->at += bytes;
        break;
    default:
        get(from, &value.integer, sizeof value.integer);
    }
    return value;
}
