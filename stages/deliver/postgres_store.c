#include "stages/deliver/postgres_store.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/clock.h"
#include "engine/base/grow.h"
#include "engine/base/memory.h"
#include "stages/deliver/postgres_link.h"
#include "stages/deliver/sql.h"

/* Two runs that make the tables wait for each other by this number. */
#define MAKING "7164780812345001"
/* From 1970 to 2000, when PostgreSQL's times begin. */
static const int64_t EPOCH_US = INT64_C(946684800000000);

/* How many bytes of a table's rows are sent at once. */
enum { MORE_BYTES = 1 << 16 };

/* Rows in the form of COPY. `bytes`: those that are not sent yet. */
typedef struct rows_of_table {
    size_t count, bytes, room;
    char *data;
    const char *copy, *insert, *insert_fresh; /* statements; the last leaves out frames that were there */
} rows_of_table;

struct mr_postgres_store {
    mr_pg_link link;
    const mr_db_tables *tables;
    mr_sql_dialect dialect;
    char prefix[80];
    const char *schema;
    char run[24]; /* runs.id */
    rows_of_table *open;   /* those that are being copied while more are made; NULL: none */
    const char *temporary, *positions; /* statements */
    bool failed; /* no memory for rows */
    mr_arena arena; /* for all of one connection: the next, and texts of SQL */
    mr_index sources; /* name: int64_t of sources.id */
    rows_of_table rows[];
};

int mr_postgres_store_check(const char *url) {
    char *wrong = NULL;
    PQconninfoOption *all = PQconninfoParse(url, &wrong);
    int status = all ? MR_OK : mr_fail(MR_ERROR_CONFIG, "%.*s", (int)strcspn(wrong ? wrong : "no memory", "\n"),
                                       wrong ? wrong : "no memory");
    PQfreemem(wrong);
    for (const PQconninfoOption *one = all; one && one->keyword && !status; one++)
        if (one->val && (strcmp(one->keyword, "password") == 0 || strcmp(one->keyword, "sslpassword") == 0))
            status = mr_fail(MR_ERROR_CONFIG, "plans would show the %s: write it before the host, or into a "
                             "password_file", one->keyword);
    PQconninfoFree(all);
    return status;
}

/* ---- the schema -------------------------------------------------------------------------------------------------- */

/* The first row's first value as a number; 0: there is none. */
static int number_of(mr_postgres_store *at, const char *text, int64_t *number) {
    PGresult *result = NULL;
    int status = mr_pg_run(&at->link, text, &result);
    *number = result && PQntuples(result) && !PQgetisnull(result, 0, 0) ? strtoll(PQgetvalue(result, 0, 0), NULL, 10)
                                                                        : 0;
    PQclear(result);
    return status;
}

/* Asks for the one value of one row, such as an id that a statement returns. A trigger may swallow the row. */
static int ask_value(mr_postgres_store *at, const char *text, const char *const *values, PGresult **result) {
    int status = mr_pg_ask(&at->link, text, values, result);
    if (!status && (PQntuples(*result) != 1 || PQgetisnull(*result, 0, 0)))
        status = mr_fail(MR_ERROR_DATA, "the schema \"%s\" does not keep rows of runs and sources: look for rules "
                         "and triggers on its tables", at->schema);
    return status;
}

#define PRINT(at, ...) mr_arena_print(&(at)->arena, __VA_ARGS__)

static int has_table(mr_postgres_store *at, const char *name, int64_t *there) {
    return number_of(at, PRINT(at, "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
                               "WHERE n.nspname = '%s' AND c.relname = '%s'", at->schema, name), there);
}

/* A view that others were built on stays as it is. */
static int make_views(mr_postgres_store *at) {
    const char *text = mr_sql_views(&at->arena, &at->dialect, at->tables);
    return mr_pg_run(&at->link, text ? PRINT(at, "DO $make$ BEGIN %s EXCEPTION WHEN dependent_objects_still_exist THEN "
                                             "NULL; END $make$", text) : NULL, NULL);
}

static int need_column(mr_postgres_store *at, const mr_db_table *table, const mr_db_column *column, bool *changed) {
    int64_t there = 0;
    int status = number_of(at, PRINT(at, "SELECT count(*) FROM pg_attribute WHERE attrelid = '%s\"%s\"'::regclass "
                                     "AND attname = '%s' AND NOT attisdropped", at->prefix, table->name,
                                     column->name), &there);
    if (status || there)
        return status;
    *changed = true;
    return mr_pg_run(&at->link, PRINT(at, "ALTER TABLE %s\"%s\" ADD COLUMN \"%s\" %s", at->prefix, table->name,
                                      column->name, at->dialect.types[column->type]), NULL);
}

static int need_table(mr_postgres_store *at, const mr_db_table *table, bool *changed) {
    int64_t there = 0;
    int status = has_table(at, table->name, &there);
    *changed |= !there;
    if (!status && !there)
        return mr_pg_run(&at->link, mr_sql_table(&at->arena, &at->dialect, table), NULL);
    for (size_t i = 0; i < table->count && !status; i++)
        status = need_column(at, table, &table->columns[i], changed);
    return status;
}

static int make_common(mr_postgres_store *at) {
    int64_t there = 0;
    int status = number_of(at, PRINT(at, "SELECT count(*) FROM pg_namespace WHERE nspname = '%s'", at->schema), &there);
    if (!status && !there)
        status = mr_pg_run(&at->link, PRINT(at, "CREATE SCHEMA \"%s\"", at->schema), NULL);
    if (!status)
        status = mr_pg_run(&at->link, mr_sql_common(&at->arena, &at->dialect), NULL);
    return status ? status
                  : mr_pg_run(&at->link, PRINT(at, "CREATE TABLE %sschema_version (version integer NOT NULL); "
                                               "INSERT INTO %sschema_version VALUES (%d)", at->prefix, at->prefix,
                                               MR_SQL_VERSION), NULL);
}

static int need_owner(mr_postgres_store *at) {
    int64_t ours = 0, others = 0, version = 0;
    int status = has_table(at, "schema_version", &ours);
    if (!status && ours)
        status = number_of(at, PRINT(at, "SELECT version FROM %sschema_version", at->prefix), &version);
    else if (!status)
        status = number_of(at, PRINT(at, "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = "
                                     "c.relnamespace WHERE n.nspname = '%s' AND relname IN ('runs', 'sources', "
                                     "'frames', 'classes', 'objects', 'events', 'texts')", at->schema), &others);
    if (status)
        return status;
    if (others)
        return mr_fail(MR_ERROR_DATA, "the schema \"%s\" has tables of another program: name another schema",
                       at->schema);
    if (version > MR_SQL_VERSION)
        return mr_fail(MR_ERROR_DATA, "the schema \"%s\" is of version %lld, which a later millrace has made, and this "
                       "one knows %d: name another schema, or use that millrace", at->schema, (long long)version,
                       MR_SQL_VERSION);
    return ours ? MR_OK : make_common(at);
}

static int need_schema(mr_postgres_store *at) {
    bool changed = false;
    int status = mr_pg_run(&at->link, "SELECT pg_advisory_xact_lock(" MAKING ")", NULL);
    if (!status)
        status = need_owner(at);
    for (size_t i = 0; i < at->tables->count && !status; i++)
        status = need_table(at, &at->tables->tables[i], &changed);
    return status || !changed ? status : make_views(at);
}

static int need_run(mr_postgres_store *at) {
    const mr_stage *self = mr_delivery_stage(at->link.delivery);
    const char *run = mr_delivery_run(self);
    char date[MR_DATE_TEXT];
    PGresult *result = NULL;
    if (!run)
        return MR_ERROR_CONFIG;
    const char *const values[] = {run, self->id, mr_stage_pipeline(self), mr_date_text(date, mr_clock_date_ns()), NULL};
    int status = ask_value(at, PRINT(at, "INSERT INTO %sruns (run, stage, pipeline, started) VALUES ($1, $2, $3, $4) "
                                     "ON CONFLICT (run, stage) DO UPDATE SET run = excluded.run RETURNING id",
                                     at->prefix), values, &result);
    if (!status)
        snprintf(at->run, sizeof at->run, "%s", PQgetvalue(result, 0, 0));
    PQclear(result);
    return status;
}

/* ---- connecting -------------------------------------------------------------------------------------------------- */

static int make_statements(mr_postgres_store *at, const mr_db_table *table, rows_of_table *rows) {
    const char *columns = mr_sql_columns(&at->arena, table, ""), *of_new = mr_sql_columns(&at->arena, table, "n.");
    if (!columns || !of_new)
        return MR_ERROR_MEMORY;
    const char *into = PRINT(at, "INSERT INTO %s\"%s\" (%s) SELECT %s FROM \"new_%s\" n", at->prefix, table->name,
                             columns, of_new, table->name);
    rows->copy = PRINT(at, "COPY \"new_%s\" (%s) FROM STDIN (FORMAT binary)", table->name, columns);
    rows->insert = !into          ? NULL
                   : table->kind ? PRINT(at, "%s ON CONFLICT DO NOTHING", into)
                                 : PRINT(at, "WITH added AS (%s ON CONFLICT DO NOTHING RETURNING source, epoch, seq, "
                                         "sub) INSERT INTO fresh SELECT source, epoch, seq, sub FROM added", into);
    rows->insert_fresh = into ? PRINT(at, "%s JOIN fresh USING (source, epoch, seq, sub) ON CONFLICT DO NOTHING", into)
                              : NULL;
    at->temporary = PRINT(at, "%s; CREATE TEMP TABLE \"new_%s\" (LIKE %s\"%s\") ON COMMIT %s", at->temporary,
                          table->name, at->prefix, table->name, at->link.pooled ? "DROP" : "DELETE ROWS");
    return at->temporary && rows->copy && rows->insert && rows->insert_fresh ? MR_OK : MR_ERROR_MEMORY;
}

/* Temporary tables belong to a session. With a pooler each transaction makes its own. */
static int make_temporary(mr_postgres_store *at) {
    at->positions = PRINT(at, "UPDATE %ssources s SET frames = s.frames + f.frames, epoch = f.last[1], "
                          "seq = f.last[2] FROM (SELECT source, count(*) AS frames, max(ARRAY[epoch, seq]) AS last "
                          "FROM fresh GROUP BY source) f WHERE s.id = f.source", at->prefix);
    at->temporary = PRINT(at, "CREATE TEMP TABLE fresh (source bigint, epoch bigint, seq bigint, sub bigint) "
                          "ON COMMIT %s", at->link.pooled ? "DROP" : "DELETE ROWS");
    int status = at->temporary ? MR_OK : MR_ERROR_MEMORY;
    for (size_t i = 0; i < at->tables->count && !status; i++)
        status = make_statements(at, &at->tables->tables[i], &at->rows[i]);
    return status || at->link.pooled ? status : mr_pg_run(&at->link, at->temporary, NULL);
}

static void forget(mr_postgres_store *at) {
    mr_arena_fini(&at->arena);
    at->arena = (mr_arena){0};
    at->sources = (mr_index){0};
}

static void disconnect(void *service) {
    mr_postgres_store *at = service;
    mr_pg_close(&at->link);
    forget(at);
}

static int connect_to(void *service, const mr_delivery *delivery) {
    mr_postgres_store *at = service;
    int status = mr_pg_open(&at->link, delivery);
    if (!status)
        status = mr_pg_begin(&at->link);
    if (!status)
        status = need_schema(at);
    if (!status)
        status = need_run(at);
    if (!status)
        status = mr_pg_run(&at->link, "COMMIT", NULL);
    return status ? status : make_temporary(at);
}

/* ---- rows in the form of COPY ------------------------------------------------------------------------------------ */

static void put_bytes(mr_postgres_store *at, rows_of_table *to, const void *bytes, size_t count) {
    at->failed = at->failed || !mr_append_bytes((void **)&to->data, &to->room, &to->bytes, bytes, count);
}

static void put_i16(mr_postgres_store *at, rows_of_table *to, int value) {
    const uint16_t big = htobe16((uint16_t)value);
    put_bytes(at, to, &big, sizeof big);
}

static void put_length(mr_postgres_store *at, rows_of_table *to, int64_t value) {
    const uint32_t big = htobe32((uint32_t)value);
    put_bytes(at, to, &big, sizeof big);
}

static void put_i64(mr_postgres_store *at, rows_of_table *to, int64_t value) {
    const uint64_t big = htobe64((uint64_t)value);
    put_length(at, to, sizeof big);
    put_bytes(at, to, &big, sizeof big);
}

static void put_real(mr_postgres_store *at, rows_of_table *to, double value) {
    int64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_i64(at, to, bits);
}

/* JSON begins with the version of its form. */
static void put_text(mr_postgres_store *at, rows_of_table *to, const mr_row_value *value, bool json) {
    put_length(at, to, (int64_t)value->bytes + json);
    if (json)
        put_bytes(at, to, "\1", 1);
    put_bytes(at, to, value->text, value->bytes);
}

static void put_value(mr_postgres_store *at, rows_of_table *to, mr_column_type type, const mr_row_value *value) {
    const char truth = value->integer != 0;
    if (value->null) {
        put_length(at, to, -1);
        return;
    }
    switch (type) {
    case MR_COLUMN_REAL:
        put_real(at, to, value->real);
        break;
    case MR_COLUMN_BOOL:
        put_length(at, to, 1);
        put_bytes(at, to, &truth, 1);
        break;
    case MR_COLUMN_TEXT:
    case MR_COLUMN_JSON:
        put_text(at, to, value, type == MR_COLUMN_JSON);
        break;
    case MR_COLUMN_DATE:
        put_i64(at, to, value->integer / 1000 - EPOCH_US);
        break;
    default:
        put_i64(at, to, value->integer);
    }
}

static void begin_rows(mr_postgres_store *at) {
    static const char header[] = "PGCOPY\n\377\r\n\0\0\0\0\0\0\0\0"; /* and the zero at its end */
    for (size_t i = 0; i < at->tables->count; i++) {
        at->rows[i].count = at->rows[i].bytes = 0;
        put_bytes(at, &at->rows[i], header, sizeof header);
    }
}

static void put_row(mr_postgres_store *at, size_t index, const int64_t key[MR_KEY_COLUMNS], mr_row_reader *from) {
    const mr_db_table *table = &at->tables->tables[index];
    rows_of_table *to = &at->rows[index];
    put_i16(at, to, (int)table->count + (table->kind ? MR_KEY_COLUMNS : 0));
    for (int i = 0; i < MR_KEY_COLUMNS; i++)
        put_i64(at, to, key[i]);
    for (size_t c = table->kind ? 0 : MR_KEY_COLUMNS; c < table->count; c++) {
        const mr_row_value value = mr_row_value_of(from, table->columns[c].type);
        put_value(at, to, table->columns[c].type, &value);
    }
    to->count++;
}

/* ---- batches ----------------------------------------------------------------------------------------------------- */

static int add_source(mr_postgres_store *at, const char *name, int64_t **id) {
    const char *const values[] = {at->run, name, NULL};
    PGresult *result = NULL;
    *id = mr_arena_alloc(&at->arena, sizeof **id);
    if (!*id)
        return MR_ERROR_MEMORY;
    int status = ask_value(at, PRINT(at, "INSERT INTO %ssources (run, name) VALUES ($1, $2) ON CONFLICT (run, name) "
                                     "DO UPDATE SET name = excluded.name RETURNING id", at->prefix), values, &result);
    if (!status)
        **id = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    return status ? status : mr_index_put(&at->sources, &at->arena, name, *id);
}

static int source_of(mr_postgres_store *at, const mr_row_value *name, int64_t *id) {
    char text[256]; /* an id is shorter */
    snprintf(text, sizeof text, "%.*s", (int)name->bytes, name->text);
    int64_t *found = mr_index_get(&at->sources, text);
    const char *kept = found ? text : mr_arena_text(&at->arena, name->text, name->bytes);
    int status = found ? MR_OK : kept ? add_source(at, kept, &found) : MR_ERROR_MEMORY;
    *id = status ? 0 : *found;
    return status;
}

/* Sends what there is of a table's rows. */
static int copy_more(mr_postgres_store *at, rows_of_table *rows) {
    int status = at->failed ? mr_fail(MR_ERROR_MEMORY, "no memory for rows") : MR_OK;
    if (!status && at->open != rows)
        status = mr_pg_copy_begin(&at->link, rows->copy);
    at->open = rows;
    if (!status)
        status = mr_pg_copy_put(&at->link, rows->data, rows->bytes);
    rows->bytes = 0;
    return status;
}

static int copy_rest(mr_postgres_store *at, rows_of_table *rows) {
    put_i16(at, rows, -1);
    int status = rows->count ? copy_more(at, rows) : MR_OK;
    if (!status && rows->count)
        status = mr_pg_copy_end(&at->link);
    at->open = NULL;
    return status;
}

/* The frame's source must be known. The server takes rows of one table while more are made. */
static int put_frame(mr_postgres_store *at, const char *record, size_t bytes) {
    mr_row_reader from = {record, record + bytes};
    int64_t key[MR_KEY_COLUMNS];
    int table = mr_row_next(&from), status;
    const mr_row_value name = mr_row_value_of(&from, MR_COLUMN_TEXT);
    status = source_of(at, &name, &key[0]);
    for (int i = 1; i < MR_KEY_COLUMNS; i++)
        key[i] = mr_row_value_of(&from, MR_COLUMN_INTEGER).integer;
    for (; table >= 0 && !status; table = mr_row_next(&from)) {
        rows_of_table *rows = &at->rows[table];
        put_row(at, (size_t)table, key, &from);
        if (rows->bytes >= MORE_BYTES && (!at->open || at->open == rows))
            status = copy_more(at, rows);
    }
    return status || !at->failed ? status : mr_fail(MR_ERROR_MEMORY, "no memory for rows");
}

/* Gives each source of the batch its number: no statement can run while rows are copied. */
static int find_sources(mr_postgres_store *at, const mr_batch *batch) {
    int status = MR_OK;
    for (size_t i = 0; i < batch->count && !status; i++) {
        const char *record = batch->data + batch->items[i].at;
        mr_row_reader from = {record, record + batch->items[i].bytes};
        int64_t id;
        mr_row_next(&from);
        const mr_row_value name = mr_row_value_of(&from, MR_COLUMN_TEXT);
        status = source_of(at, &name, &id);
    }
    return status;
}

static int copy_rows(mr_postgres_store *at, const mr_batch *batch) {
    int status = find_sources(at, batch);
    for (size_t i = 0; i < batch->count && !status; i++)
        status = put_frame(at, batch->data + batch->items[i].at, batch->items[i].bytes);
    if (!status && at->open)
        status = copy_rest(at, at->open);
    for (size_t i = 0; i < at->tables->count && !status; i++)
        if (at->rows[i].bytes)
            status = copy_rest(at, &at->rows[i]);
    return status;
}

/* If some frames were there before, only the others' results are added. */
static int insert_rows(mr_postgres_store *at) {
    PGresult *result = NULL;
    int status = mr_pg_run(&at->link, at->rows[0].insert, &result);
    const bool all = result && strtoull(PQcmdTuples(result), NULL, 10) == at->rows[0].count;
    PQclear(result);
    for (size_t i = 1; i < at->tables->count && !status; i++)
        if (at->rows[i].count)
            status = mr_pg_run(&at->link, all ? at->rows[i].insert : at->rows[i].insert_fresh, NULL);
    return status;
}

/* After a failure the connection is closed, and the server rolls back. */
static int send_batch(void *service, const mr_delivery *delivery, const mr_batch *batch) {
    mr_postgres_store *at = service;
    at->failed = false;
    at->open = NULL;
    begin_rows(at);
    int status = mr_pg_begin(&at->link);
    if (!status && at->link.pooled)
        status = mr_pg_run(&at->link, at->temporary, NULL);
    if (!status)
        status = copy_rows(at, batch);
    if (!status)
        status = insert_rows(at);
    if (!status)
        status = mr_pg_run(&at->link, at->positions, NULL);
    return status ? status : mr_pg_run(&at->link, "COMMIT", NULL);
}

static void destroy(void *service) {
    mr_postgres_store *gone = service;
    forget(gone);
    for (size_t i = 0; i < gone->tables->count; i++)
        mr_free(gone->rows[i].data);
    mr_free(gone);
}

const mr_service_type mr_postgres_service = {.connect = connect_to, .send = send_batch, .disconnect = disconnect,
                                             .destroy = destroy};

/* ---- making ------------------------------------------------------------------------------------------------------ */

int mr_postgres_store_create(mr_postgres_store **store, const mr_postgres_params *params, const mr_db_tables *tables) {
    mr_postgres_store *made = mr_calloc(1, sizeof *made + tables->count * sizeof *made->rows);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a database");
    made->link.params = (mr_pg_params){.url = params->url, .user = params->login.user,
                                       .password = params->login.password, .password_file = params->password_file,
                                       .timeout_ns = params->timeout_ns};
    made->tables = tables;
    made->schema = params->schema;
    snprintf(made->prefix, sizeof made->prefix, "\"%s\".", params->schema);
    made->dialect = (mr_sql_dialect){
        .types = {[MR_COLUMN_INTEGER] = "bigint", [MR_COLUMN_REAL] = "double precision", [MR_COLUMN_BOOL] = "boolean",
                  [MR_COLUMN_TEXT] = "text", [MR_COLUMN_DATE] = "timestamptz", [MR_COLUMN_JSON] = "jsonb"},
        .id = "bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY", .keyed = "", .prefix = made->prefix};
    *store = made;
    return MR_OK;
}
