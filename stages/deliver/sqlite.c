/* sqlite: rows in a database file. */
#include <string.h>

#include "stages/deliver/db_sink.h"
#include "stages/deliver/sqlite_store.h"
#include "stages/list.h"

typedef struct options {
    mr_db_options db;
    const char *path;
} options;

/* The file of a run that only measures. */
static bool is_discarded(const char *path) {
    return strcmp(path, "/dev/null") == 0;
}

static int negotiate(mr_negotiation *n) {
    const options *given = n->options;
    int status = MR_OK;
    if (strcmp(given->path, "-") == 0)
        return mr_refuse(n, "path", "a database cannot be written to standard output: name a file");
    if (!n->offline && !is_discarded(given->path))
        status = mr_sqlite_store_check(given->path);
    return status ? mr_refuse_status(n, status, "path", "%s", mr_message()) : mr_db_sink_negotiate(n);
}

static int open_sink(mr_stage *self) {
    const options *given = self->options;
    mr_db_sink *at = self->state;
    mr_sqlite_store *store;
    int status = mr_db_sink_open(self);
    if (status || is_discarded(given->path))
        return status;
    status = mr_sqlite_store_create(&store, given->path, at->tables);
    return status ? status : mr_delivery_open(&at->delivery, self, &mr_sqlite_service, store);
}

static const mr_port inputs[] = {{.name = "in", .help = "frames with results"}, {0}};

static const mr_option option_table[] = {
    {.name = "path", .kind = MR_OPTION_PATH, .file = MR_FILE_WRITTEN, .offset = offsetof(options, path),
     .required = true, .example = "results.db",
     .help = "the database file; it and its folder are made if they do not exist. Rows of earlier runs stay in it"},
    MR_DB_OPTIONS,
    MR_OPTIONS_END,
};

const mr_stage_type mr_sqlite_stage = {
    .name = "sqlite",
    .summary = "writes results into the tables of a SQLite database",
    .help = "Tables are made by themselves: runs, sources, frames, and one for each kind of results: classes, objects, "
            "events, texts, and kinds of plugins. A view for each, such as objects_view, has the names of run and "
            "source. Each frame is stored exactly once, also after a killed process, if the run can be continued. "
            "Several runs can write into one file, also at the same time.",
    .inputs = inputs,
    .options = option_table,
    .options_bytes = sizeof(options),
    MR_DB_SINK_TYPE,
    .negotiate = negotiate,
    .open = open_sink,
};
