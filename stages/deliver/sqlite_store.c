#include "stages/deliver/sqlite_store.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/arena.h"
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/memory.h"
#include "stages/deliver/sql.h"

enum { APPLICATION = 0x4d6c5263, HEADER_BYTES = 100, VERSION_AT = 60, APPLICATION_AT = 68 };
/* How long a statement waits for another program's lock before the batch is tried again. */
enum { LOCK_PAUSE_MS = 20, LOCK_PATIENCE_MS = 500 };

static const mr_sql_dialect dialect = {
    .types = {[MR_COLUMN_INTEGER] = "INTEGER", [MR_COLUMN_REAL] = "REAL", [MR_COLUMN_BOOL] = "INTEGER",
              [MR_COLUMN_TEXT] = "TEXT", [MR_COLUMN_DATE] = "TEXT", [MR_COLUMN_JSON] = "TEXT"},
    .id = "INTEGER PRIMARY KEY",
    .keyed = " WITHOUT ROWID",
    .prefix = "",
};

/* A source of this run, with the current batch's additions. */
typedef struct source_row {
    struct source_row *next;
    int64_t id, epoch, seq, frames;
    bool touched;
} source_row;

struct mr_sqlite_store {
    const char *path;
    const mr_db_tables *tables;
    const mr_delivery *delivery;
    sqlite3 *db; /* NULL: closed, like all below */
    dev_t device;
    ino_t file;
    int64_t run;
    sqlite3_stmt *find_source, *add_source, *update_source, *begin, *commit;
    mr_arena arena; /* for the next two, and texts of SQL */
    mr_index sources;
    source_row *rows;
    sqlite3_stmt *inserts[]; /* by table */
};

/* ---- checks ------------------------------------------------------------------------------------------------------ */

static uint32_t big_endian(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static int check_owner(const char *path, uint32_t application, uint32_t version) {
    if (application != APPLICATION)
        return mr_fail(MR_ERROR_DATA, "%s is a database of another program; name another file", path);
    if (version > MR_SQL_VERSION)
        return mr_fail(MR_ERROR_DATA, "%s is of version %u, which a later millrace has made, and this one knows %d: "
                       "name another file, or use that millrace", path, version, MR_SQL_VERSION);
    return MR_OK;
}

/* Reads the file's header. A file without any is a new database. Part of the header may still be in a
 * journal: connecting checks again. */
int mr_sqlite_store_check(const char *path) {
    uint8_t header[HEADER_BYTES] = {0};
    struct stat about;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT ? MR_OK : mr_file_fail("read", path);
    ssize_t bytes = fstat(fd, &about) || !S_ISREG(about.st_mode) ? -1 : pread(fd, header, sizeof header, 0);
    close(fd);
    if (bytes == 0)
        return MR_OK;
    if (bytes < HEADER_BYTES || memcmp(header, "SQLite format 3", 16) != 0)
        return mr_fail(MR_ERROR_DATA, "%s is no SQLite database; name another file", path);
    return check_owner(path, big_endian(header + APPLICATION_AT), big_endian(header + VERSION_AT));
}

/* ---- statements -------------------------------------------------------------------------------------------------- */

/* Another program may end its lock, and a disk may get room: another try may help. A row that the database refuses
 * costs its batch. */
static int fail_status(int code) {
    switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_SCHEMA:
        return MR_ERROR_AGAIN;
    case SQLITE_NOMEM:
        return MR_ERROR_MEMORY;
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
    case SQLITE_ERROR:
        return MR_ERROR_DATA;
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
    case SQLITE_TOOBIG:
        return MR_ERROR_PROTOCOL;
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_READONLY:
        return MR_ERROR_PERMISSION;
    default:
        return MR_ERROR_IO;
    }
}

static int fail_with(const mr_sqlite_store *at, int code) {
    const bool busy = (code & 0xff) == SQLITE_BUSY;
    if (busy && mr_delivery_stops(at->delivery))
        return mr_fail(MR_ERROR_CANCELLED, "stopped while another program locked %s", at->path);
    return mr_fail(fail_status(code), "%s: %s", at->path,
                   busy ? "another program has locked the database" : at->db ? sqlite3_errmsg(at->db)
                                                                              : sqlite3_errstr(code));
}

static int execute(mr_sqlite_store *at, const char *text) {
    int code = text ? sqlite3_exec(at->db, text, NULL, NULL, NULL) : SQLITE_NOMEM;
    return code ? fail_with(at, code) : MR_OK;
}

static int prepare(mr_sqlite_store *at, const char *text, sqlite3_stmt **to) {
    int code = text ? sqlite3_prepare_v3(at->db, text, -1, SQLITE_PREPARE_PERSISTENT, to, NULL) : SQLITE_NOMEM;
    return code ? fail_with(at, code) : MR_OK;
}

/* Runs a statement that gives no rows, or whose first row's first column is *number. MR_ERROR_NO_INPUT: it has none. */
static int step(mr_sqlite_store *at, sqlite3_stmt *statement, int64_t *number) {
    int code = sqlite3_step(statement), status = MR_OK;
    if (code == SQLITE_ROW && number)
        *number = sqlite3_column_int64(statement, 0);
    else if (code != SQLITE_DONE && code != SQLITE_ROW)
        status = fail_with(at, code);
    else if (number)
        status = MR_ERROR_NO_INPUT;
    sqlite3_reset(statement);
    return status;
}

static int number_of(mr_sqlite_store *at, const char *text, int64_t *number) {
    sqlite3_stmt *statement = NULL;
    int status = prepare(at, text, &statement);
    if (!status)
        status = step(at, statement, number);
    sqlite3_finalize(statement);
    return status;
}

static int wait_for_lock(void *context, int tries) {
    const mr_sqlite_store *at = context;
    const struct timespec pause = {.tv_nsec = LOCK_PAUSE_MS * 1000000};
    if (mr_delivery_stops(at->delivery) || tries * LOCK_PAUSE_MS >= LOCK_PATIENCE_MS)
        return 0;
    nanosleep(&pause, NULL);
    return 1;
}

/* ---- the schema -------------------------------------------------------------------------------------------------- */

/* Adds a column unless the table has it. */
static int need_column(mr_sqlite_store *at, const mr_db_table *table, const mr_db_column *column, bool *changed) {
    int64_t there = 0;
    int status = number_of(at, mr_arena_print(&at->arena, "SELECT count(*) FROM pragma_table_info('%s') WHERE "
                                              "name = '%s'", table->name, column->name), &there);
    if (status || there)
        return status;
    *changed = true;
    return execute(at, mr_arena_print(&at->arena, "ALTER TABLE \"%s\" ADD COLUMN \"%s\" %s", table->name, column->name,
                                      dialect.types[column->type]));
}

static int need_table(mr_sqlite_store *at, const mr_db_table *table, bool *changed) {
    int64_t there = 0;
    int status = number_of(at, mr_arena_print(&at->arena, "SELECT count(*) FROM sqlite_master WHERE name = '%s'",
                                              table->name), &there);
    *changed |= !there;
    if (!status && !there)
        return execute(at, mr_sql_table(&at->arena, &dialect, table));
    for (size_t i = 0; i < table->count && !status; i++)
        status = need_column(at, table, &table->columns[i], changed);
    return status;
}

static int need_owner(mr_sqlite_store *at) {
    int64_t objects = 0, application = 0, version = 0;
    int status = number_of(at, "SELECT count(*) FROM sqlite_master", &objects);
    if (!status)
        status = number_of(at, "PRAGMA application_id", &application);
    if (!status)
        status = number_of(at, "PRAGMA user_version", &version);
    if (status || objects || application)
        return status ? status : check_owner(at->path, (uint32_t)application, (uint32_t)version);
    return execute(at, mr_arena_print(&at->arena, "PRAGMA application_id = %d; PRAGMA user_version = %d", APPLICATION,
                                      MR_SQL_VERSION));
}

/* Makes missing parts, in one transaction: two runs may do so at once. */
static int need_schema(mr_sqlite_store *at) {
    bool changed = false;
    int status = need_owner(at);
    if (!status)
        status = execute(at, mr_sql_common(&at->arena, &dialect));
    for (size_t i = 0; i < at->tables->count && !status; i++)
        status = need_table(at, &at->tables->tables[i], &changed);
    return status || !changed ? status : execute(at, mr_sql_views(&at->arena, &dialect, at->tables));
}

static int need_run(mr_sqlite_store *at) {
    const mr_stage *self = mr_delivery_stage(at->delivery);
    const char *run = mr_delivery_run(self);
    char date[MR_DATE_TEXT];
    sqlite3_stmt *add = NULL;
    if (!run)
        return MR_ERROR_CONFIG;
    int status = prepare(at, "INSERT INTO runs (run, stage, pipeline, started) VALUES (?, ?, ?, ?) "
                         "ON CONFLICT (run, stage) DO UPDATE SET run = excluded.run RETURNING id", &add);
    if (status)
        return status;
    sqlite3_bind_text(add, 1, run, -1, SQLITE_TRANSIENT);
    sqlite3_bind_text(add, 2, self->id, -1, SQLITE_STATIC);
    sqlite3_bind_text(add, 3, mr_stage_pipeline(self), -1, SQLITE_STATIC);
    sqlite3_bind_text(add, 4, mr_date_text(date, mr_clock_date_ns()), -1, SQLITE_TRANSIENT);
    status = step(at, add, &at->run);
    sqlite3_finalize(add);
    return status;
}

/* ---- connecting -------------------------------------------------------------------------------------------------- */

static const char *insert_of(mr_arena *arena, const mr_db_table *table) {
    const char *columns = mr_sql_columns(arena, table, ""), *marks = "?1";
    const size_t count = table->count + (table->kind ? MR_KEY_COLUMNS : 0);
    for (size_t i = 1; marks && i < count; i++)
        marks = mr_arena_print(arena, "%s,?%zu", marks, i + 1);
    return columns && marks ? mr_arena_print(arena, "INSERT INTO \"%s\" (%s) VALUES (%s) ON CONFLICT DO NOTHING",
                                             table->name, columns, marks)
                            : NULL;
}

static int prepare_all(mr_sqlite_store *at) {
    int status = prepare(at, "BEGIN IMMEDIATE", &at->begin);
    if (!status)
        status = prepare(at, "COMMIT", &at->commit);
    if (!status)
        status = prepare(at, "SELECT id FROM sources WHERE run = ?1 AND name = ?2", &at->find_source);
    if (!status)
        status = prepare(at, "INSERT INTO sources (run, name) VALUES (?1, ?2)", &at->add_source);
    if (!status)
        status = prepare(at, "UPDATE sources SET frames = frames + ?2, epoch = ?3, seq = ?4 WHERE id = ?1",
                         &at->update_source);
    for (size_t i = 0; i < at->tables->count && !status; i++)
        status = prepare(at, insert_of(&at->arena, &at->tables->tables[i]), &at->inserts[i]);
    return status;
}

static int open_file(mr_sqlite_store *at) {
    struct stat about;
    int code = sqlite3_open_v2(at->path, &at->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                               NULL);
    if (code)
        return fail_with(at, code);
    sqlite3_busy_handler(at->db, wait_for_lock, at);
    if (stat(at->path, &about))
        return mr_file_fail("read", at->path);
    at->device = about.st_dev;
    at->file = about.st_ino;
    return MR_OK;
}

static void forget_sources(mr_sqlite_store *at) {
    at->sources = (mr_index){0};
    at->rows = NULL;
    mr_arena_fini(&at->arena);
    at->arena = (mr_arena){0};
}

static void disconnect(void *service) {
    mr_sqlite_store *at = service;
    sqlite3_stmt **const all[] = {&at->find_source, &at->add_source, &at->update_source, &at->begin, &at->commit};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        sqlite3_finalize(*all[i]);
        *all[i] = NULL;
    }
    for (size_t i = 0; i < at->tables->count; i++) {
        sqlite3_finalize(at->inserts[i]);
        at->inserts[i] = NULL;
    }
    sqlite3_close(at->db); /* rolls an open transaction back */
    at->db = NULL;
    forget_sources(at);
}

/* Whether nobody sends a delivered frame again. */
static bool is_settled_for_good(const mr_stage *self) {
    return mr_stage_checkpoints(self) || mr_stage_reliable(self);
}

/* The log of changes lets others read meanwhile. If frames are settled for good, each commit syncs it;
 * otherwise a power cut may cost the last commits, but never the database. */
static int connect_to(void *service, const mr_delivery *delivery) {
    mr_sqlite_store *at = service;
    at->delivery = delivery;
    int status = open_file(at);
    if (!status)
        status = execute(at, "BEGIN IMMEDIATE");
    if (!status)
        status = need_schema(at);
    if (!status)
        status = need_run(at);
    if (!status)
        status = execute(at, "COMMIT");
    if (!status)
        status = execute(at, is_settled_for_good(mr_delivery_stage(delivery)) ? "PRAGMA synchronous = FULL"
                                                                              : "PRAGMA synchronous = NORMAL");
    if (!status)
        status = execute(at, "PRAGMA journal_mode = WAL; PRAGMA cache_size = -16384; "
                         "PRAGMA journal_size_limit = 67108864");
    return status ? status : prepare_all(at);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static int find_source(mr_sqlite_store *at, const mr_row_value *name, source_row **found) {
    const char *text = mr_arena_text(&at->arena, name->text, name->bytes);
    source_row *made = mr_arena_alloc(&at->arena, sizeof *made);
    if (!text || !made)
        return MR_ERROR_MEMORY;
    sqlite3_stmt *const both[] = {at->find_source, at->add_source};
    for (size_t i = 0; i < 2; i++) {
        sqlite3_bind_int64(both[i], 1, at->run);
        sqlite3_bind_text(both[i], 2, text, -1, SQLITE_STATIC);
    }
    int status = step(at, at->find_source, &made->id);
    if (status == MR_ERROR_NO_INPUT) {
        status = step(at, at->add_source, NULL);
        made->id = sqlite3_last_insert_rowid(at->db);
    }
    made->next = at->rows;
    at->rows = made;
    *found = made;
    return status ? status : mr_index_put(&at->sources, &at->arena, text, made);
}

static int source_of(mr_sqlite_store *at, const mr_row_value *name, source_row **found) {
    char text[256];
    if (name->bytes < sizeof text) {
        memcpy(text, name->text, name->bytes);
        text[name->bytes] = 0;
        *found = mr_index_get(&at->sources, text);
        if (*found)
            return MR_OK;
    }
    return find_source(at, name, found);
}

static void bind_date(sqlite3_stmt *to, int place, int64_t date_ns) {
    char text[MR_DATE_TEXT];
    sqlite3_bind_text(to, place, mr_date_text(text, date_ns), -1, SQLITE_TRANSIENT);
}

static void bind_value(sqlite3_stmt *to, int place, mr_column_type type, const mr_row_value *value) {
    if (value->null)
        sqlite3_bind_null(to, place);
    else if (type == MR_COLUMN_REAL)
        sqlite3_bind_double(to, place, value->real);
    else if (type == MR_COLUMN_TEXT || type == MR_COLUMN_JSON)
        sqlite3_bind_text(to, place, value->text, (int)value->bytes, SQLITE_STATIC);
    else if (type == MR_COLUMN_DATE)
        bind_date(to, place, value->integer);
    else
        sqlite3_bind_int64(to, place, value->integer);
}

/* Stores a row. `key`: the frame's, whose values come before those in the record. */
static int put_row(mr_sqlite_store *at, size_t index, const int64_t key[MR_KEY_COLUMNS], mr_row_reader *from) {
    const mr_db_table *table = &at->tables->tables[index];
    sqlite3_stmt *insert = at->inserts[index];
    for (int i = 0; i < MR_KEY_COLUMNS; i++)
        sqlite3_bind_int64(insert, i + 1, key[i]);
    for (size_t c = table->kind ? 0 : MR_KEY_COLUMNS; c < table->count; c++) {
        const mr_row_value value = mr_row_value_of(from, table->columns[c].type);
        bind_value(insert, (int)c + 1 + (table->kind ? MR_KEY_COLUMNS : 0), table->columns[c].type, &value);
    }
    return step(at, insert, NULL);
}

static int read_key(mr_sqlite_store *at, mr_row_reader *from, int64_t key[MR_KEY_COLUMNS], source_row **source) {
    const mr_row_value name = mr_row_value_of(from, MR_COLUMN_TEXT);
    int status = source_of(at, &name, source);
    for (int i = 1; i < MR_KEY_COLUMNS; i++)
        key[i] = mr_row_value_of(from, MR_COLUMN_INTEGER).integer;
    key[0] = status ? 0 : (*source)->id;
    return status;
}

/* If the frame is there already, all its rows are. */
static int put_frame(mr_sqlite_store *at, const char *record, size_t bytes) {
    mr_row_reader from = {record, record + bytes};
    int64_t key[MR_KEY_COLUMNS];
    source_row *source = NULL;
    int table = mr_row_next(&from);
    int status = read_key(at, &from, key, &source);
    if (!status)
        status = put_row(at, (size_t)table, key, &from);
    if (status || sqlite3_changes(at->db) == 0)
        return status;
    source->touched = true;
    source->frames++;
    source->epoch = key[1];
    source->seq = key[2];
    while (!status && (table = mr_row_next(&from)) >= 0)
        status = put_row(at, (size_t)table, key, &from);
    return status;
}

static int put_positions(mr_sqlite_store *at) {
    int status = MR_OK;
    for (source_row *one = at->rows; one && !status; one = one->next) {
        const int64_t values[] = {one->id, one->frames, one->epoch, one->seq};
        if (!one->touched)
            continue;
        for (int i = 0; i < 4; i++)
            sqlite3_bind_int64(at->update_source, i + 1, values[i]);
        status = step(at, at->update_source, NULL);
        one->frames = one->touched = 0;
    }
    return status;
}

/* A file that was moved or removed would take rows that nobody finds. */
static int check_place(const mr_sqlite_store *at) {
    struct stat about;
    if (!stat(at->path, &about) && about.st_dev == at->device && about.st_ino == at->file)
        return MR_OK;
    return mr_fail(MR_ERROR_AGAIN, "%s was moved or removed", at->path);
}

/* After a failure the connection is closed, which rolls back. */
static int send_batch(void *service, const mr_delivery *delivery, const mr_batch *batch) {
    mr_sqlite_store *at = service;
    int status = check_place(at);
    if (!status)
        status = step(at, at->begin, NULL);
    for (size_t i = 0; i < batch->count && !status; i++) {
        status = put_frame(at, batch->data + batch->items[i].at, batch->items[i].bytes);
        if (!status && i % 1000 == 999 && mr_delivery_stops(delivery))
            status = mr_fail(MR_ERROR_CANCELLED, "stopped while rows were written");
    }
    if (!status)
        status = put_positions(at);
    return status ? status : step(at, at->commit, NULL);
}

static void destroy(void *service) {
    mr_sqlite_store *gone = service;
    forget_sources(gone);
    mr_free(gone);
}

const mr_service_type mr_sqlite_service = {.connect = connect_to, .send = send_batch, .disconnect = disconnect,
                                           .destroy = destroy};

/* ---- making ------------------------------------------------------------------------------------------------------ */

int mr_sqlite_store_create(mr_sqlite_store **store, const char *path, const mr_db_tables *tables) {
    mr_sqlite_store *made = mr_calloc(1, sizeof *made + tables->count * sizeof *made->inserts);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a database");
    made->path = path;
    made->tables = tables;
    *store = made;
    return MR_OK;
}
