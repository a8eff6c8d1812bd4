#include "tests/support/transport/node_stages.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "millrace/objects.h"

typedef struct options {
    int64_t fatal_at, bytes, at, unreadable_at, mask, large_at;
    const char *file;
    bool uneven;
} options;

static const mr_option chew_options[] = {
    {.name = "fatal_at", .kind = MR_OPTION_INT, .offset = offsetof(options, fatal_at), .fallback = "-1", .min = -1,
     .max = 1e9, .help = "Kills its process."},
    {.name = "uneven", .kind = MR_OPTION_BOOL, .offset = offsetof(options, uneven), .fallback = "false",
     .help = "Some frames take longer."},
    MR_OPTIONS_END,
};
static const mr_option bulk_options[] = {
    {.name = "bytes", .kind = MR_OPTION_INT, .offset = offsetof(options, bytes), .required = true, .min = 1, .max = 1e9,
     .help = "Size of a tensor."},
    {.name = "unreadable_at", .kind = MR_OPTION_INT, .offset = offsetof(options, unreadable_at), .fallback = "-1",
     .min = -1, .max = 1e9, .help = "The frame that gets a name which no process reads."},
    {.name = "mask", .kind = MR_OPTION_INT, .offset = offsetof(options, mask), .fallback = "0", .min = 0, .max = 1e9,
     .help = "Bytes of an object's mask."},
    {.name = "large_at", .kind = MR_OPTION_INT, .offset = offsetof(options, large_at), .fallback = "-1", .min = -1,
     .max = 1e9, .help = "The frame whose mask no message can hold."},
    MR_OPTIONS_END,
};

static const mr_option hold_options[] = {
    {.name = "at", .kind = MR_OPTION_INT, .offset = offsetof(options, at), .required = true, .min = 0, .max = 1e9,
     .help = "The first frame that waits."},
    {.name = "file", .kind = MR_OPTION_STRING, .offset = offsetof(options, file), .required = true,
     .help = "Once it is there nothing waits."},
    MR_OPTIONS_END,
};

static int chew_process(mr_stage *self, mr_io *io) {
    const options *given = self->options;
    const uint64_t seq = mr_io_input(io)->identity.seq;
    if ((int64_t)seq == given->fatal_at)
        kill(getpid(), SIGKILL);
    if (given->uneven && seq % 7 == 0)
        nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
    return mr_io_forward(io, 0);
}

/* Must not hold up a thread. */
static int hold_process(mr_stage *self, mr_io *io) {
    enum { AGAIN_NS = 10000000 };
    const options *given = self->options;
    if ((int64_t)mr_io_input(io)->identity.seq < given->at || access(given->file, F_OK) == 0)
        return mr_io_forward(io, 0);
    mr_io_wake_at(io, mr_io_now_ns(io) + AGAIN_NS);
    return MR_WAIT;
}

static mr_format bulk_format(const options *given) {
    return mr_tensor_format(MR_DTYPE_U8, MR_LAYOUT_FLAT, 1, (int64_t[]){given->bytes});
}

static int bulk_negotiate(mr_negotiation *negotiation) {
    const mr_format format = bulk_format(negotiation->options);
    negotiation->outputs[0].set = mr_format_set_of(&format);
    return MR_OK;
}

static void keep(void *context) {
}

/* A name that is not UTF-8, which mr_frame_name would refuse. */
static int spoil(mr_frame *frame) {
    static char name[] = "\xff\0";
    frame->names = mr_buffer_wrap(name, sizeof name, keep, NULL);
    return frame->names ? MR_OK : MR_ERROR_MEMORY;
}

enum { LARGE_MASK = 5 << 20 };

static int add_mask(mr_io *io, mr_frame *frame, size_t bytes) {
    mr_result *result;
    int status = mr_io_add_result(io, frame, mr_kind_objects(), 1, &result);
    if (status)
        return status;
    mr_object *object = memset(result->data, 0, sizeof *object);
    result->count = 1;
    return mr_result_add_items(result, NULL, bytes / sizeof(int32_t), sizeof(int32_t), &object->mask);
}

static int bulk_process(mr_stage *self, mr_io *io) {
    const options *given = self->options;
    const mr_format format = bulk_format(given);
    mr_frame *frame;
    int status = mr_io_acquire(io, 0, &format, mr_io_input(io), &frame);
    if (status)
        return status;
    memset(frame->plane[0].data, (int)(frame->identity.seq & 0xff), frame->plane[0].bytes);
    if ((int64_t)frame->identity.seq == given->unreadable_at && (status = spoil(frame)))
        return mr_frame_unref(&frame), status;
    const bool large = (int64_t)frame->identity.seq == given->large_at;
    if (given->mask && (status = add_mask(io, frame, large ? LARGE_MASK : (size_t)given->mask)))
        return mr_frame_unref(&frame), status;
    return mr_io_emit(io, 0, frame);
}

/* In memory that cannot be shared: the frame number and a thousand; every third frame gets much more. */
static int add_load(mr_io *io, mr_frame *frame) {
    mr_result *result;
    const int64_t count = frame->identity.seq % 3 ? 1 : 10000;
    const size_t bytes = (size_t)count * sizeof(int64_t);
    int64_t *data = calloc(1, bytes);
    mr_buffer *buffer = data ? mr_buffer_wrap(data, bytes, free, data) : NULL;
    if (!buffer)
        return free(data), MR_ERROR_MEMORY;
    *data = (int64_t)frame->identity.seq + 1000;
    int status = mr_io_add_result(io, frame, mr_kind_tensor(), 0, &result);
    if (status)
        return mr_buffer_unref(&buffer), status;
    result->name = "load";
    result->format = mr_tensor_format(MR_DTYPE_I64, MR_LAYOUT_FLAT, 1, (int64_t[]){count});
    result->buffer = buffer;
    result->data = buffer->data;
    return MR_OK;
}

static int load_process(mr_stage *self, mr_io *io) {
    mr_frame *frame;
    int status = mr_io_derive(io, mr_io_input(io), &frame);
    if (status)
        return status;
    frame->format = mr_io_input(io)->format;
    if ((status = add_load(io, frame)))
        return mr_frame_unref(&frame), status;
    return mr_io_emit(io, 0, frame);
}

/* ---- pictures of layouts ----------------------------------------------------------------------------------------- */

enum { SIDE = 16, OTHER_EVERY = 3 };

static const mr_format_set gray[] = {{.payload = MR_PAYLOAD_PICTURE, .pixels = MR_IN_SET(MR_PIXEL_GRAY8)}, {0}};

static int paint_negotiate(mr_negotiation *negotiation) {
    const mr_format format = {
        .payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_GRAY8, .width = SIDE, .height = SIDE};
    negotiation->outputs[0].set = mr_format_set_of(&format);
    return MR_OK;
}

static int paint_process(mr_stage *self, mr_io *io) {
    bool other = mr_io_input(io)->identity.seq % OTHER_EVERY == 0;
    const mr_format format = {.payload = MR_PAYLOAD_PICTURE,
                              .pixel = other ? MR_PIXEL_RGB24 : MR_PIXEL_GRAY8,
                              .width = other ? SIDE / 4 : SIDE,
                              .height = SIDE};
    mr_frame *frame;
    int status = mr_io_acquire(io, 0, &format, mr_io_input(io), &frame);
    if (status)
        return status;
    memset(frame->plane[0].data, 7, frame->plane[0].bytes);
    return mr_io_emit(io, 0, frame);
}

static int gray_process(mr_stage *self, mr_io *io) {
    if (mr_io_input(io)->format.pixel != MR_PIXEL_GRAY8)
        abort(); /* as if a stage read past a picture's end */
    return mr_io_forward(io, 0);
}

/* ---- types ------------------------------------------------------------------------------------------------------- */

static const mr_port inputs[] = {{.name = "in", .help = "frames"}, {0}};
static const mr_port gray_inputs[] = {{.name = "in", .help = "gray pictures", .accepts = gray}, {0}};
static const mr_port outputs[] = {{.name = "out", .help = "frames"}, {0}};
static const mr_option no_options[] = {MR_OPTIONS_END};

#define TYPE(name_, about, takes, table, ...)                                                                          \
    const mr_stage_type node_##name_ = {.name = #name_, .summary = about, .inputs = takes, .outputs = outputs,         \
                                        .options = table, .options_bytes = sizeof(options), __VA_ARGS__}
TYPE(chew, "passes frames on, if it survives them", inputs, chew_options, .entry = MR_ENTRY_STATELESS,
     .process = chew_process);
TYPE(hold, "passes frames on; from one number on they wait for a file", inputs, hold_options,
     .entry = MR_ENTRY_SHARED, .process = hold_process);
TYPE(bulk, "gives frames a tensor", inputs, bulk_options, .entry = MR_ENTRY_STATELESS, .negotiate = bulk_negotiate,
     .process = bulk_process);
TYPE(load, "gives frames a result, and every third one a long one", inputs, no_options, .entry = MR_ENTRY_STATELESS,
     .process = load_process);
TYPE(paint, "makes gray pictures, and every third of another layout than it has said", inputs, no_options,
     .entry = MR_ENTRY_STATELESS, .negotiate = paint_negotiate, .process = paint_process);
TYPE(gray, "passes gray pictures on, and takes no others", gray_inputs, no_options, .entry = MR_ENTRY_STATELESS,
     .process = gray_process);
