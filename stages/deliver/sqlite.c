/* sqlite: rows in a database file. */
#include <string.h>

#include "engine/base/memory.h"
#include "stages/deliver/sqlite_store.h"
#include "stages/list.h"

typedef struct options {
    mr_delivery_options delivery;
    const char *path;
    mr_strings results;
    int frames;
} options;

typedef struct state {
    mr_db_tables *tables;
    mr_row_writer writer;
    mr_sqlite_store *store;
    mr_delivery *delivery; /* NULL: the run only measures */
} state;

enum { FRAMES_ALL, FRAMES_FOUND };
static const char *const frames_choices[] = {"all", "found", NULL};

/* What a run that only measures writes to. */
static bool is_discarded(const char *path) {
    return strcmp(path, "/dev/null") == 0;
}

static int negotiate(mr_negotiation *n) {
    const options *given = n->options;
    n->shows = 0;
    int status = mr_db_tables_check(n, &given->results);
    if (!status && strcmp(given->path, "-") == 0)
        status = mr_refuse(n, "path", "a database cannot be written to standard output: name a file");
    if (!status && !n->offline && !is_discarded(given->path) && (status = mr_sqlite_store_check(given->path)))
        status = mr_refuse_status(n, status, "path", "%s", mr_message());
    return status ? status : mr_delivery_negotiate(n);
}

static int open_sink(mr_stage *self) {
    const options *given = self->options;
    state *at = self->state;
    int status = mr_db_tables_create(&at->tables, &self->inputs[0], &given->results);
    if (!status)
        status = mr_row_writer_open(&at->writer, at->tables, given->frames == FRAMES_FOUND);
    if (status || is_discarded(given->path))
        return status;
    status = mr_sqlite_store_create(&at->store, given->path, at->tables);
    return status ? status : mr_delivery_open(&at->delivery, self, &mr_sqlite_service, at->store);
}

static int process(mr_stage *self, mr_io *io) {
    state *at = self->state;
    const mr_frame *frame = mr_io_input(io);
    size_t bytes;
    int status = mr_row_writer_make(&at->writer, frame, mr_stage_source_id(self, frame->identity.source), &bytes);
    if (status || !bytes || !at->delivery)
        return status;
    return mr_delivery_put(at->delivery, io, frame, at->writer.data, bytes);
}

static int flush(mr_stage *self, mr_io *io, uint32_t source) {
    state *at = self->state;
    return at->delivery ? mr_delivery_flush(at->delivery, io, source) : MR_DONE;
}

static void close_sink(mr_stage *self) {
    state *at = self->state;
    mr_delivery_close(&at->delivery);
    mr_sqlite_store_destroy(&at->store);
    mr_row_writer_close(&at->writer);
    mr_db_tables_destroy(&at->tables);
}

static const mr_port inputs[] = {{.name = "in", .help = "frames with results"}, {0}};

static const mr_option option_table[] = {
    {.name = "path", .kind = MR_OPTION_PATH, .file = MR_FILE_WRITTEN, .offset = offsetof(options, path),
     .required = true, .example = "results.db",
     .help = "the database file; it is made if it does not exist. Rows of earlier runs stay in it"},
    {.name = "results", .kind = MR_OPTION_STRINGS, .offset = offsetof(options, results), .example = "[objects, events]",
     .help = "the kinds of results that have a table; default: all that the frames carry"},
    {.name = "frames", .kind = MR_OPTION_ENUM, .offset = offsetof(options, frames), .fallback = "all",
     .choices = frames_choices,
     .help = "which frames have a row in the table frames: all, or those for which another table has a row"},
    MR_DELIVERY_OPTIONS("20000", "500ms"),
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
    .state_bytes = sizeof(state),
    .entry = MR_ENTRY_SHARED,
    .negotiate = negotiate,
    .open = open_sink,
    .process = process,
    .flush = flush,
    .resumes = true,
    .close = close_sink,
};
