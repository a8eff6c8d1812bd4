/* postgres: rows in a PostgreSQL database. */
#include <string.h>

#include "stages/deliver/db_sink.h"
#include "stages/deliver/postgres_store.h"
#include "stages/list.h"

typedef struct options {
    mr_db_options db;
    mr_postgres_params server;
} options;

static bool is_word(const char *name) {
    const size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");
    return length > 0 && length < 64 && !name[length] && strncmp(name, "pg_", 3) != 0 &&
           (*name < '0' || *name > '9');
}

static int negotiate(mr_negotiation *n) {
    const options *given = n->options;
    if (!is_word(given->server.schema))
        return mr_refuse(n, "schema", "\"%s\" cannot name a schema: up to 63 lower-case letters, digits and _, without "
                         "pg_ at the beginning", given->server.schema);
    int status = given->server.url ? mr_postgres_store_check(given->server.url) : MR_OK;
    if (status == MR_ERROR_UNAVAILABLE && n->offline)
        status = MR_OK;
    return status ? mr_refuse_status(n, status, "url", "%s", mr_message()) : mr_db_sink_negotiate(n);
}

static int open_sink(mr_stage *self) {
    const options *given = self->options;
    mr_db_sink *at = self->state;
    mr_postgres_store *store;
    int status = mr_db_sink_open(self);
    if (status || !given->server.url)
        return status;
    status = mr_postgres_store_create(&store, &given->server, at->tables);
    return status ? status : mr_delivery_open(&at->delivery, self, &mr_postgres_service, store);
}

static const mr_port inputs[] = {{.name = "in", .help = "frames with results"}, {0}};

#define SERVER(name) offsetof(options, server.name)
static const mr_option option_table[] = {
    {.name = "url", .kind = MR_OPTION_URI, .file = MR_FILE_SENT, .offset = SERVER(url), .required = true,
     .credentials = SERVER(login), .example = "postgresql://millrace@db.example/results?sslmode=verify-full",
     .help = "the database, as libpq takes it. A user and a password in it are never shown; a password_file, ~/.pgpass "
             "or PGPASSWORD keep the password out of the pipeline"},
    {.name = "password_file", .kind = MR_OPTION_PATH, .file = MR_FILE_READ, .offset = SERVER(password_file),
     .help = "a file whose first line is the password, which only its owner may read"},
    {.name = "schema", .kind = MR_OPTION_STRING, .offset = SERVER(schema), .fallback = "millrace",
     .help = "the schema for the tables; it is made if it does not exist"},
    {.name = "timeout", .kind = MR_OPTION_DURATION, .offset = SERVER(timeout_ns), .fallback = "60s", .min = 1e9,
     .max = 86400e9, .neutral = true,
     .help = "how long a statement may take; then the server counts as away, and the batch is sent again"},
    MR_DB_OPTIONS,
    MR_OPTIONS_END,
};

const mr_stage_type mr_postgres_stage = {
    .name = "postgres",
    .summary = "writes results into the tables of a PostgreSQL database",
    .help = "The tables and views are those of sqlite, in a schema. Batches go in by COPY. Each frame is stored "
            "exactly once, also if this process or the server is killed, if the run can be continued. While the server "
            "is away, records wait in the backlog.",
    .inputs = inputs,
    .options = option_table,
    .options_bytes = sizeof(options),
    MR_DB_SINK_TYPE,
    .negotiate = negotiate,
    .open = open_sink,
};
