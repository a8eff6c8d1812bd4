/* csv: a header and one row for each class of each frame (RFC 4180, lines end in CR LF). A frame without classes
 * has one row in which those fields are empty. All rows of a frame are written as one record. */
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "engine/base/utf8.h"
#include "stages/list.h"
#include "stages/sink/text_sink.h"

typedef struct options {
    mr_text_options text;
    bool captured, id, state, escape_formulas;
} options;

typedef struct state {
    mr_text_sink sink;
    char *text; /* the record in the making; grows to the longest one and stays */
    size_t bytes, capacity;
    bool failed; /* it could not grow */
    bool escapes; /* escape_formulas */
    char header[128];
} state;

static int negotiate(mr_negotiation *negotiation) {
    return mr_text_sink_negotiate(negotiation);
}

static int open_sink(mr_stage *self) {
    const options *given = self->options;
    state *at = self->state;
    const mr_text_form form = {mr_written_take_row, mr_written_finish_rows, at->header, "\r\n"};
    at->escapes = given->escape_formulas;
    snprintf(at->header, sizeof at->header, "source,epoch,seq,sub,pts,file,label,rank,index,class,score%s%s%s\r\n",
             given->captured ? ",captured" : "", given->id ? ",id" : "", given->state ? ",state" : "");
    return mr_text_sink_open(self, &form);
}

static void add(state *at, const char *text, size_t bytes) {
    if (at->capacity - at->bytes < bytes) {
        size_t capacity = 2 * (at->bytes + bytes) + 256;
        char *larger = mr_realloc(at->text, capacity);
        if (!larger) {
            at->failed = true;
            return;
        }
        at->text = larger;
        at->capacity = capacity;
    }
    memcpy(at->text + at->bytes, text, bytes);
    at->bytes += bytes;
}

/* Characters as they are, quotes doubled, and question marks for bytes that are no characters. */
static void add_characters(state *at, const char *text) {
    for (size_t left = strlen(text), bytes; left; text += bytes, left -= bytes) {
        bytes = mr_utf8_bytes(text, left);
        add(at, !bytes ? "?" : *text == '"' ? "\"\"" : text, !bytes ? 1 : *text == '"' ? 2 : bytes);
        bytes += !bytes;
    }
}

/* A field that holds a comma, a quote or a line break stands in quotes, its own quotes doubled. */
static void add_text(state *at, const char *text, const char *end) {
    text = text ? text : "";
    const char *quote = strpbrk(text, ",\"\r\n") ? "\"" : "";
    add(at, quote, strlen(quote));
    if (at->escapes && *text && strchr("=+-@\t\r", *text))
        add(at, "'", 1);
    add_characters(at, text);
    add(at, quote, strlen(quote));
    add(at, end, strlen(end));
}

static void add_integer(state *at, int64_t value) {
    char text[MR_NUMBER_TEXT];
    add(at, text, (size_t)snprintf(text, sizeof text, "%lld,", (long long)value));
}

static const char *state_of(const mr_frame *frame) {
    return frame->flags & MR_FRAME_AWAY ? "away" : mr_frame_is_damaged(frame) ? "damaged" : "";
}

static void add_row(state *at, const mr_stage *self, const mr_frame *frame, const mr_class *one, size_t rank) {
    const options *given = self->options;
    char text[MR_NUMBER_TEXT];
    add_text(at, mr_stage_source_id(self, frame->identity.source), ",");
    add_integer(at, frame->identity.epoch);
    add_integer(at, (int64_t)frame->identity.seq);
    add_integer(at, frame->identity.sub);
    add(at, text, mr_seconds_text(text, frame->pts_ns));
    add(at, ",", 1);
    add_text(at, mr_frame_file(frame), ",");
    add_text(at, mr_frame_label(frame), ",");
    if (one) {
        add_integer(at, (int64_t)rank);
        add_integer(at, one->index);
        add_text(at, one->label, ",");
        add(at, text, mr_float_text(text, one->score));
    } else {
        add(at, ",,,", 3);
    }
    if (given->captured) {
        char date[MR_DATE_TEXT];
        add(at, ",", 1);
        add_text(at, frame->captured_ns ? mr_date_text(date, frame->captured_ns) : "", "");
    }
    if (given->id) {
        add(at, ",", 1);
        add_text(at, mr_frame_id(frame), "");
    }
    if (given->state) {
        add(at, ",", 1);
        add_text(at, state_of(frame), "");
    }
    add(at, "\r\n", 2);
}

static int process(mr_stage *self, mr_io *io) {
    state *at = self->state;
    const mr_frame *frame = mr_io_input(io);
    const mr_result *result = mr_frame_result(frame, mr_kind_classes(), NULL);
    int answer;
    if (!mr_text_sink_ready(self, io, &answer))
        return answer;
    if (mr_text_sink_has(self, frame))
        return MR_DONE;
    at->bytes = 0;
    if (!result || result->count == 0)
        add_row(at, self, frame, NULL, 0);
    for (size_t i = 0; result && i < result->count; i++)
        add_row(at, self, frame, &result->classes[i], i + 1);
    if (at->failed)
        return mr_output_failed(io, frame, mr_fail(MR_ERROR_MEMORY, "%s: no memory for a row", self->id));
    return mr_text_sink_put(self, io, frame, at->text, at->bytes);
}

/* A run in which no frame came leaves a header alone. */
static void close_sink(mr_stage *self) {
    state *at = self->state;
    mr_text_sink_close(self);
    mr_free(at->text);
    *at = (state){0};
}

static const mr_port inputs[] = {{.name = "in", .help = "frames with classes"}, {0}};

static const mr_option option_table[] = {
    MR_TEXT_SINK_OPTIONS,
    {.name = "captured", .kind = MR_OPTION_BOOL, .offset = offsetof(options, captured), .fallback = "false",
     .help = "one more column: when the picture was taken, if its source tells (media: clock)"},
    {.name = "id", .kind = MR_OPTION_BOOL, .offset = offsetof(options, id), .fallback = "false",
     .help = "one more column: what the program that sent the frame calls it (zmq.pull, zmq.sub)"},
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
    .summary = "writes a table with one row for each class of each frame",
    .help = "The columns are source, epoch, seq, sub, pts (seconds), file and label (of pictures of a folder, or as "
            "the program says that sent them; the label is the truth), rank (from 1), index, class (the label that was "
            "found) and score. A frame without classes has one row in which the last four are empty.",
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
