/* jsonl: one JSON object a frame, one a line.
 *
 * A record is made in the generator's buffer, which grows to the longest one and then stays: nothing is allocated
 * for a frame. Numbers are written so that they read back as the same value. */
#include <string.h>
#include <yajl/yajl_gen.h>

#include "engine/base/memory.h"
#include "stages/list.h"
#include "stages/output.h"
#include "stages/written.h"

typedef struct options {
    const char *path;
    bool features, tensors;
} options;

typedef struct state {
    mr_output output;
    yajl_gen json;
    unsigned char *clean; /* a text whose broken UTF-8 was replaced */
    size_t clean_bytes;
    mr_written written; /* by an earlier run that this one continues */
} state;

/* False only where planning knows of all results that come. */
static bool may_carry_tensors(const mr_planned_input *input) {
    const mr_planned_result *one = input->results;
    while (one && one->kind != MR_RESULT_TENSOR)
        one = one->next;
    return one || input->more_results;
}

static int negotiate(mr_negotiation *negotiation) {
    static const char *const plural[] = {[MR_PAYLOAD_PACKET] = "packets",
                                         [MR_PAYLOAD_PICTURE] = "pictures",
                                         [MR_PAYLOAD_RESULTS] = "results without content"};
    const options *given = negotiation->options;
    negotiation->blocking = mr_output_blocks(given->path);
    mr_payload payload = negotiation->inputs[0].set.payload;
    if (given->features && payload != MR_PAYLOAD_TENSOR && payload != MR_PAYLOAD_ANY)
        return mr_refuse(negotiation, "features", "%s gives %s, and only a tensor can be printed as features",
                         negotiation->inputs[0].from, plural[payload]);
    if (given->tensors && !may_carry_tensors(&negotiation->inputs[0]))
        return mr_refuse(negotiation, "tensors", "no stage before it gives a named tensor to print; leave `tensors` "
                         "out, or put infer, phash, sharpness or motion before it%s",
                         payload == MR_PAYLOAD_TENSOR ? "; `features` prints the tensor that frames are" : "");
    return MR_OK;
}

static int open_sink(mr_stage *self) {
    const options *given = self->options;
    state *at = self->state;
    at->json = yajl_gen_alloc(NULL);
    if (!at->json || !yajl_gen_config(at->json, yajl_gen_validate_utf8, 1))
        return mr_fail(MR_ERROR_MEMORY, "%s: no memory", self->id);
    if (mr_stage_checkpoints(self) && strcmp(given->path, "-") == 0)
        return mr_fail(MR_ERROR_CONFIG, "what was written to standard output cannot be continued (--resume): give a file "
                       "as path");
    if (!mr_stage_continues(self))
        return mr_output_open(&at->output, given->path);
    at->written = (mr_written){.self = self, .path = given->path};
    return mr_output_continue(&at->output, given->path, mr_written_take_line, &at->written);
}

/* ---- JSON ------------------------------------------------------------------------------------------------------ */

/* File names are bytes and need not be UTF-8: every byte above 127 of such a name becomes a question mark. */
static void put_broken_text(state *at, const char *text, size_t bytes) {
    if (at->clean_bytes < bytes) {
        unsigned char *larger = mr_realloc(at->clean, bytes);
        if (!larger) {
            yajl_gen_null(at->json);
            return;
        }
        at->clean = larger;
        at->clean_bytes = bytes;
    }
    for (size_t i = 0; i < bytes; i++)
        at->clean[i] = (unsigned char)text[i] < 128 ? (unsigned char)text[i] : '?';
    yajl_gen_string(at->json, at->clean, bytes);
}

static void put_text(state *at, const char *text) {
    size_t bytes = text ? strlen(text) : 0;
    if (!text)
        yajl_gen_null(at->json);
    else if (yajl_gen_string(at->json, (const unsigned char *)text, bytes) == yajl_gen_invalid_string)
        put_broken_text(at, text, bytes);
}

static void put_key(state *at, const char *key) {
    yajl_gen_string(at->json, (const unsigned char *)key, strlen(key));
}

static void put_number(state *at, const char *text, size_t bytes) {
    if (bytes)
        yajl_gen_number(at->json, text, bytes);
    else
        yajl_gen_null(at->json);
}

static void put_integer(state *at, const char *key, uint64_t value) {
    put_key(at, key);
    yajl_gen_integer(at->json, (long long)value);
}

/* ---- a frame --------------------------------------------------------------------------------------------------- */

static void put_identity(state *at, const mr_stage *self, const mr_frame *frame) {
    char text[MR_NUMBER_TEXT];
    put_key(at, "source");
    put_text(at, mr_stage_source_id(self, frame->identity.source));
    if (frame->identity.epoch)
        put_integer(at, "epoch", frame->identity.epoch);
    put_integer(at, "seq", frame->identity.seq);
    if (frame->identity.sub)
        put_integer(at, "sub", frame->identity.sub);
    put_key(at, "pts");
    put_number(at, text, mr_seconds_text(text, frame->pts_ns));
    if (!mr_frame_is_file(frame))
        return;
    put_key(at, "file");
    put_text(at, frame->media->path);
    if (frame->media->label) {
        put_key(at, "label");
        put_text(at, frame->media->label);
    }
}

static void put_class_list(state *at, const mr_result *result) {
    char text[MR_NUMBER_TEXT];
    yajl_gen_array_open(at->json);
    for (size_t i = 0; result && i < result->count; i++) {
        const mr_class *one = &result->classes[i];
        yajl_gen_map_open(at->json);
        put_key(at, "index");
        yajl_gen_integer(at->json, one->index);
        put_key(at, "label");
        put_text(at, one->label);
        put_key(at, "score");
        put_number(at, text, mr_float_text(text, one->score));
        yajl_gen_map_close(at->json);
    }
    yajl_gen_array_close(at->json);
}

/* `classes` are the newest ones; where several stages gave some, `classes_by_stage` has them all. */
static void put_classes(state *at, const mr_frame *frame) {
    const mr_result *newest = mr_frame_result(frame, MR_RESULT_CLASSES, NULL);
    put_key(at, "classes");
    put_class_list(at, newest);
    bool several = false;
    for (const mr_result *one = newest ? newest->next : NULL; one; one = one->next)
        several = several || one->kind == MR_RESULT_CLASSES;
    if (!several)
        return;
    put_key(at, "classes_by_stage");
    yajl_gen_map_open(at->json);
    for (const mr_result *one = newest; one; one = one->next)
        if (one->kind == MR_RESULT_CLASSES && mr_frame_result(frame, MR_RESULT_CLASSES, one->stage) == one) {
            put_text(at, one->stage);
            put_class_list(at, one);
        }
    yajl_gen_map_close(at->json);
}

static void put_elements(state *at, const mr_format *format, const uint8_t *data) {
    char text[MR_NUMBER_TEXT];
    size_t count = mr_tensor_count(format);
    yajl_gen_array_open(at->json);
    for (size_t i = 0; i < count; i++)
        put_number(at, text, mr_element_text(text, format->dtype, data, i));
    yajl_gen_array_close(at->json);
}

static void put_tensors(state *at, const mr_frame *frame) {
    put_key(at, "tensors");
    yajl_gen_array_open(at->json);
    for (const mr_result *one = frame->results; one; one = one->next) {
        if (one->kind != MR_RESULT_TENSOR)
            continue;
        yajl_gen_map_open(at->json);
        put_key(at, "stage");
        put_text(at, one->stage);
        put_key(at, "name");
        put_text(at, one->name);
        put_key(at, "dtype");
        put_text(at, mr_dtype_name(one->format.dtype));
        put_key(at, "shape");
        yajl_gen_array_open(at->json);
        for (int32_t i = 0; i < one->format.rank; i++)
            yajl_gen_integer(at->json, one->format.dims[i]);
        yajl_gen_array_close(at->json);
        put_key(at, "data");
        put_elements(at, &one->format, one->data);
        yajl_gen_map_close(at->json);
    }
    yajl_gen_array_close(at->json);
}

static int process(mr_stage *self, mr_io *io) {
    const options *given = self->options;
    state *at = self->state;
    const mr_frame *frame = mr_io_input(io);
    if (mr_written_has(&at->written, &frame->identity))
        return MR_DONE;
    yajl_gen_map_open(at->json);
    put_identity(at, self, frame);
    put_classes(at, frame);
    if (given->features && frame->format.payload == MR_PAYLOAD_TENSOR) {
        put_key(at, "features");
        put_elements(at, &frame->format, frame->plane[0].data);
    }
    if (given->tensors)
        put_tensors(at, frame);
    yajl_gen_map_close(at->json);
    yajl_gen_reset(at->json, "\n");

    const unsigned char *text = NULL;
    size_t bytes = 0;
    yajl_gen_get_buf(at->json, &text, &bytes);
    int status = mr_output_write(&at->output, self, (const char *)text, bytes);
    yajl_gen_clear(at->json);
    return status ? mr_output_failed(io, frame, status) : MR_DONE;
}

static int sync_sink(mr_stage *self) {
    const state *at = self->state;
    return mr_output_sync(&at->output);
}

static void close_sink(mr_stage *self) {
    state *at = self->state;
    mr_written_fini(&at->written);
    mr_output_close(&at->output, self);
    if (at->json)
        yajl_gen_free(at->json);
    mr_free(at->clean);
    *at = (state){0};
}

static const mr_port inputs[] = {{.name = "in", .help = "frames with results, or with a tensor to print"}, {0}};

static const mr_option option_table[] = {
    {.name = "path", .kind = MR_OPTION_PATH, .file = MR_FILE_WRITTEN, .offset = offsetof(options, path),
     .fallback = "-", .help = "file to write, emptied first; \"-\" is standard output"},
    {.name = "features", .kind = MR_OPTION_BOOL, .offset = offsetof(options, features), .fallback = "false",
     .help = "print the tensor that the frame carries, as a flat list of numbers"},
    {.name = "tensors", .kind = MR_OPTION_BOOL, .offset = offsetof(options, tensors), .fallback = "false",
     .help = "print the named tensors that stages before gave as results, with type and shape"},
    MR_OPTIONS_END,
};

const mr_stage_type mr_jsonl_stage = {
    .name = "jsonl",
    .summary = "writes one JSON object a frame, one a line",
    .help = "Each line has source, seq, pts (seconds, null where unknown) and classes: [{index, label, score}], best "
            "first. epoch and sub stand there where they are not 0, file and label for pictures of a folder. Where "
            "several stages classified, classes are the newest ones and classes_by_stage has all.",
    .inputs = inputs,
    .options = option_table,
    .options_bytes = sizeof(options),
    .state_bytes = sizeof(state),
    .entry = MR_ENTRY_SHARED,
    .negotiate = negotiate,
    .open = open_sink,
    .process = process,
    .resumes = true,
    .sync = sync_sink,
    .close = close_sink,
};
