/* null, the source: frames without content, as many and as fast as the options say. It needs no thread: between paced
 * frames the executor's timer calls it again. All frames share one block of zeros. */
#include <string.h>

#include "stages/list.h"

typedef struct options {
    double rate;
    int64_t frames;
    mr_format format;
} options;

typedef struct state {
    int64_t next;      /* next frame's number */
    int64_t start_ns;  /* when frame 0 left, on the pipeline's clock */
    mr_buffer *zeros;  /* payload of every frame; NULL for results only */
    mr_format format;
} state;

static int negotiate(mr_negotiation *negotiation) {
    const options *given = negotiation->options;
    mr_format format = given->format;
    if (format.payload == MR_PAYLOAD_ANY)
        format.payload = MR_PAYLOAD_RESULTS;
    if (format.payload == MR_PAYLOAD_PACKET)
        return mr_refuse(negotiation, "format", "a null source cannot make packets: write a picture or a tensor "
                                                "format");
    if (format.payload == MR_PAYLOAD_PICTURE && (!format.pixel || format.width < 1 || format.height < 1))
        return mr_refuse(negotiation, "format", "the pixel layout, width and height must be given");
    if (format.payload == MR_PAYLOAD_TENSOR && mr_tensor_bytes(&format) == 0)
        return mr_refuse(negotiation, "format", "all dimensions of the tensor must be given");
    negotiation->outputs[0].set = mr_format_set_of(&format);
    negotiation->rate = given->rate;
    negotiation->paced = given->rate > 0;
    negotiation->frames = given->frames;
    negotiation->endless = given->frames == 0;
    return MR_OK;
}

static int open_source(mr_stage *self) {
    state *at = self->state;
    at->format = self->outputs[0];
    const size_t bytes = mr_packed_bytes(&at->format);
    if (bytes == 0)
        return MR_OK;
    at->zeros = mr_buffer_alloc(bytes);
    if (!at->zeros)
        return MR_ERROR_MEMORY;
    memset(at->zeros->data, 0, bytes);
    return MR_OK;
}

static int process(mr_stage *self, mr_io *io) {
    const options *given = self->options;
    state *at = self->state;
    if (given->frames > 0 && at->next >= given->frames)
        return MR_END;
    int64_t pts_ns = MR_NO_TIME;
    if (given->rate > 0) {
        int64_t now_ns = mr_io_now_ns(io);
        if (at->next == 0)
            at->start_ns = now_ns;
        pts_ns = (int64_t)((double)at->next * 1e9 / given->rate);
        const mr_identity next = {self->source, 0, (uint64_t)at->next, 0};
        if (mr_stage_settled(self, &next))
            at->start_ns = now_ns - pts_ns;
        if (now_ns < at->start_ns + pts_ns) {
            mr_io_wake_at(io, at->start_ns + pts_ns);
            return MR_WAIT;
        }
    }
    mr_identity identity = {.seq = (uint64_t)at->next};
    mr_frame *frame;
    int status = mr_io_originate(io, &identity, &frame);
    if (status)
        return status;
    frame->pts_ns = pts_ns;
    if (given->rate > 0)
        mr_io_set_due(io, frame, at->start_ns + pts_ns);
    frame->flags = MR_FRAME_KEY;
    frame->format = at->format;
    if (at->zeros)
        mr_frame_place(frame, &at->format, at->zeros, 0, 1);
    at->next++;
    return mr_io_emit(io, 0, frame);
}

static void close_source(mr_stage *self) {
    state *at = self->state;
    mr_buffer_unref(&at->zeros);
}

static const mr_port outputs[] = {{.name = "out", .help = "frames with the given format"}, {0}};

static const mr_option option_table[] = {
    {.name = "rate", .kind = MR_OPTION_RATE, .offset = offsetof(options, rate), .fallback = "0", .max = 1e6,
     .help = "frames a second, in real time; 0: as fast as they are taken"},
    {.name = "frames", .kind = MR_OPTION_INT, .offset = offsetof(options, frames), .fallback = "0", .max = 1e12,
     .unit = "frames", .help = "how many frames before the source ends; 0: it never ends"},
    {.name = "format", .kind = MR_OPTION_FORMAT, .offset = offsetof(options, format),
     .help = "picture or tensor, all zeros; without it frames carry results only"},
    MR_OPTIONS_END,
};

const mr_stage_type mr_null_source = {
    .name = "null",
    .summary = "makes empty frames at a given rate, or as fast as they are taken",
    .outputs = outputs,
    .options = option_table,
    .options_bytes = sizeof(options),
    .state_bytes = sizeof(state),
    .entry = MR_ENTRY_PER_SOURCE,
    .repeats = true,
    .paced_by = "a rate, such as rate: 25",
    .negotiate = negotiate,
    .open = open_source,
    .process = process,
    .close = close_source,
};
