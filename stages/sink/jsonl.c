/* jsonl: one JSON object a frame, one a line. */
#include <limits.h>

#include "stages/list.h"
#include "stages/sink/journal.h"
#include "stages/sink/output.h"
#include "stages/sink/record.h"
#include "stages/sink/written.h"

typedef struct options {
    const char *path;
    bool features, tensors;
    int on_full;
} options;

typedef struct state {
    mr_output output;
    mr_record record;
    mr_written written; /* by an earlier run that this one continues */
    mr_journal journal; /* open if the output cannot be read again and the run may be continued */
} state;

static int negotiate(mr_negotiation *negotiation) {
    const options *given = negotiation->options;
    negotiation->blocking = mr_output_blocks(given->path);
    return mr_record_check(negotiation, given->features, given->tensors);
}

/* MR_ERROR_AGAIN while it is not known whether the file's lines are of this run. */
static int begin(mr_stage *self) {
    state *at = self->state;
    if (mr_output_has_begun(&at->output))
        return MR_OK;
    const mr_line_reader reader = {.take = mr_written_take_line, .context = &at->written};
    return mr_output_begin(&at->output, mr_stage_run_state(self), &reader);
}

static int open_sink(mr_stage *self) {
    const options *given = self->options;
    state *at = self->state;
    at->record = (mr_record){.features = given->features, .tensors = given->tensors};
    int status = mr_record_open(&at->record);
    if (status)
        return status;
    at->written = (mr_written){.self = self, .path = given->path};
    if (mr_output_streams(given->path))
        status = mr_journal_open_stream(&at->journal, &at->output, self, &at->written, "\n");
    else
        status = mr_output_open(&at->output, given->path);
    at->output.full = mr_full_make(self, given->on_full);
    if (!status)
        status = begin(self);
    return status == MR_ERROR_AGAIN ? MR_OK : status;
}

static int process(mr_stage *self, mr_io *io) {
    state *at = self->state;
    const mr_frame *frame = mr_io_input(io);
    size_t bytes;
    int status = begin(self);
    if (status)
        return mr_output_await_begin(io, status);
    if (mr_written_has(&at->written, &frame->identity))
        return MR_DONE;
    const char *line = mr_record_make(&at->record, self, frame, &bytes);
    if (bytes > PIPE_BUF)
        mr_journal_begin(&at->journal);
    status = mr_output_write(&at->output, self, line, bytes);
    if (status)
        return mr_output_failed(io, frame, status);
    mr_journal_note(&at->journal, &frame->identity);
    return MR_DONE;
}

/* Lines that were written before must be there even if no frame comes any more. */
static int flush(mr_stage *self, mr_io *io, uint32_t source) {
    int status = begin(self);
    (void)source;
    return status && status != MR_ERROR_AGAIN ? mr_io_refuse(io, status) : MR_DONE;
}

static int sync_sink(mr_stage *self) {
    const state *at = self->state;
    return mr_output_has_begun(&at->output) ? mr_output_sync(&at->output) : MR_ERROR_AGAIN;
}

/* A run in which no frame came leaves an empty file, too. */
static void close_sink(mr_stage *self) {
    state *at = self->state;
    int status = at->output.path && !mr_stage_cancelled(self) ? begin(self) : MR_OK;
    if (status && status != MR_ERROR_AGAIN)
        mr_stage_warn(self, "%s", mr_message());
    mr_journal_close(&at->journal);
    mr_written_fini(&at->written);
    mr_output_close(&at->output, self);
    mr_record_close(&at->record);
    *at = (state){0};
}

static const mr_port inputs[] = {{.name = "in", .help = "frames with results, or with a tensor to print"}, {0}};

static const mr_option option_table[] = {
    {.name = "path", .kind = MR_OPTION_PATH, .file = MR_FILE_WRITTEN, .offset = offsetof(options, path),
     .fallback = "-", .help = "file to write; a new run empties it; \"-\" is standard output"},
    {.name = "features", .kind = MR_OPTION_BOOL, .offset = offsetof(options, features), .fallback = "false",
     .help = "print the tensor that the frame carries, as a flat list of numbers"},
    {.name = "tensors", .kind = MR_OPTION_BOOL, .offset = offsetof(options, tensors), .fallback = "false",
     .help = "print the named tensors that stages before gave as results, with type and shape"},
    MR_ON_FULL_OPTION(offsetof(options, on_full)),
    MR_OPTIONS_END,
};

const mr_stage_type mr_jsonl_stage = {
    .name = "jsonl",
    .summary = "writes one JSON object a frame, one a line",
    .help = "Each line has source, seq, pts (seconds, null if unknown) and classes: [{index, label, score}], best "
            "first. It has epoch and sub if they are not 0, and file and label for pictures of a folder: that label "
            "is the truth, if the source has labels: true, and those within classes are the ones found. If "
            "several stages gave classes, classes has the newest and classes_by_stage has all.",
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
    .sync = sync_sink,
    .close = close_sink,
};
