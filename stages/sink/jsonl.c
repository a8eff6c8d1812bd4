/* jsonl: one JSON object a frame, one a line. */
#include "stages/list.h"
#include "stages/sink/record.h"
#include "stages/sink/text_sink.h"

typedef struct options {
    const char *path;
    bool features, tensors;
    int on_full;
} options;

typedef struct state {
    mr_text_sink sink;
    mr_record record;
} state;

static int negotiate(mr_negotiation *negotiation) {
    const options *given = negotiation->options;
    negotiation->blocking = mr_output_blocks(given->path);
    return mr_record_check(negotiation, given->features, given->tensors);
}

static int open_sink(mr_stage *self) {
    static const mr_text_form form = {.take = mr_written_take_line, .line_end = "\n"};
    const options *given = self->options;
    state *at = self->state;
    at->record = (mr_record){.features = given->features, .tensors = given->tensors};
    int status = mr_record_open(&at->record);
    if (status)
        return status;
    status = mr_text_sink_open(self, given->path, given->on_full, &form);
    return status == MR_ERROR_AGAIN ? MR_OK : status;
}

static int process(mr_stage *self, mr_io *io) {
    state *at = self->state;
    const mr_frame *frame = mr_io_input(io);
    size_t bytes;
    int status = mr_text_sink_begin(self);
    if (status)
        return mr_output_await_begin(io, status);
    if (mr_text_sink_has(self, frame))
        return MR_DONE;
    const char *line = mr_record_make(&at->record, self, frame, &bytes);
    return mr_text_sink_put(self, io, frame, line, bytes);
}

/* A run in which no frame came leaves an empty file, too. */
static void close_sink(mr_stage *self) {
    state *at = self->state;
    mr_text_sink_close(self, NULL);
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
    .flush = mr_text_sink_flush,
    .resumes = true,
    .sync = mr_text_sink_sync,
    .close = close_sink,
};
