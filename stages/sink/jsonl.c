/* jsonl: one JSON object per frame, one per line. */
#include "stages/list.h"
#include "stages/sink/record_json.h"
#include "stages/sink/rows.h"
#include "stages/sink/text_sink.h"

typedef struct options {
    mr_text_options text;
    bool features, tensors, by_stage;
    const char *results;
} options;

typedef struct state {
    mr_text_sink sink;
    mr_record record;
    const mr_result_kind *kind; /* a line for each of its elements; NULL: for each frame */
} state;

static int negotiate(mr_negotiation *negotiation) {
    const options *given = negotiation->options;
    negotiation->shows = given->features ? MR_IN_SET(MR_PAYLOAD_TENSOR) : 0;
    negotiation->blind = !given->features;
    int status = mr_text_sink_negotiate(negotiation);
    if (!status && given->results && !mr_rows_find_kind(&negotiation->inputs[0], given->results))
        return mr_rows_refuse(negotiation, given->results);
    if (!status && given->results && (given->features || given->tensors))
        return mr_refuse(negotiation, given->features ? "features" : "tensors", "with results there is a line for each "
                         "element, not for each frame: write another jsonl for the numbers");
    return status ? status : mr_record_check(negotiation, given->features, given->tensors);
}

static int open_sink(mr_stage *self) {
    static const mr_text_form form = {.take = mr_written_take_line, .line_end = "\n"};
    static const mr_text_form several = {
        .take = mr_written_take_lines, .finish = mr_written_finish_rows, .line_end = "\n"};
    const options *given = self->options;
    state *at = self->state;
    int status = mr_record_open(&at->record);
    at->kind = given->results ? mr_rows_find_kind(&self->inputs[0], given->results) : NULL;
    return status ? status : mr_text_sink_open(self, at->kind ? &several : &form);
}

static int process(mr_stage *self, mr_io *io) {
    state *at = self->state;
    const options *given = self->options;
    const mr_frame *frame = mr_io_input(io);
    const mr_recorded recorded = {.frame = frame, .source = mr_stage_source_id(self, frame->identity.source),
                                  .features = given->features, .tensors = given->tensors, .newest = !given->by_stage};
    size_t bytes;
    int answer;
    if (!mr_text_sink_ready(self, io, &answer))
        return answer;
    if (mr_text_sink_has(self, frame))
        return MR_DONE;
    const char *line = at->kind ? mr_record_make_elements(&at->record, &recorded, at->kind, &bytes)
                                : mr_record_make(&at->record, &recorded, &bytes);
    return !bytes ? MR_DONE : mr_text_sink_put(self, io, frame, line, bytes);
}

/* If no frame came, an empty file remains. */
static void close_sink(mr_stage *self) {
    state *at = self->state;
    mr_text_sink_close(self);
    mr_record_close(&at->record);
    *at = (state){0};
}

static const mr_port inputs[] = {{.name = "in", .help = "frames with results, or with a tensor to print"}, {0}};

static const mr_option option_table[] = {
    MR_TEXT_SINK_OPTIONS,
    {.name = "features", .kind = MR_OPTION_BOOL, .offset = offsetof(options, features), .fallback = "false",
     .help = "print the tensor that the frame carries, as a flat list of numbers"},
    {.name = "tensors", .kind = MR_OPTION_BOOL, .offset = offsetof(options, tensors), .fallback = "false",
     .help = "print the named tensors that stages before gave as results, with type and shape"},
    {.name = "by_stage", .kind = MR_OPTION_BOOL, .offset = offsetof(options, by_stage), .fallback = "true",
     .help = "if several stages gave classes, objects or texts, print those of each (objects_by_stage), besides the "
             "newest"},
    {.name = "results", .kind = MR_OPTION_STRING, .offset = offsetof(options, results), .example = "events",
     .help = "write a line for each element of this result kind, such as events, with the frame's values before its "
             "fields; a frame without any then has no line"},
    MR_OPTIONS_END,
};

const mr_stage_type mr_jsonl_stage = {
    .name = "jsonl",
    .summary = "writes one JSON object a frame, one a line",
    .help = "Each line has source, seq, pts (seconds, null if unknown) and classes: [{index, label, score}], best "
            "first. It has epoch and sub if they are not 0, file and label for pictures from a folder, and id, file "
            "and label as the sending program gives them (zmq.pull, zmq.sub). That label is the truth, from a folder "
            "with labels: true; labels within classes are the ones found. If several stages gave classes, classes "
            "has the newest and classes_by_stage has all.",
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
