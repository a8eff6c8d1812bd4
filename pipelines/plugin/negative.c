/* A stage type that makes pictures: the negative of each one, in planned memory. */
#include <millrace/plugin.h>

/* While planning: output pictures have the input's format, but lie in buffers of this stage, which the planner counts
 * and sizes. `shares` would promise that they lie in the input's buffers. */
static int negotiate(mr_negotiation *negotiation) {
    negotiation->outputs[0].follows = 0;
    return MR_OK;
}

/* Walks the rows of all planes. Chroma planes may have fewer and shorter rows. */
static void invert(const mr_frame *from, const mr_frame *to) {
    for (mr_row row = {0}; mr_next_row(&from->format, &row);) {
        const uint8_t *source = mr_row_at(from->plane, &row);
        uint8_t *target = mr_row_at(to->plane, &row);
        for (size_t x = 0; x < row.bytes; x++)
            target[x] = (uint8_t)(255 - source[x]);
    }
}

/* Uses the frame's format, not the planned one: picture sizes may change within a source. The new frame has the input's
 * identity, times and results. */
static int process(mr_stage *self, mr_io *io) {
    const mr_frame *input = mr_io_input(io);
    mr_frame *output = NULL;
    (void)self;
    int status = mr_io_acquire(io, 0, &input->format, input, &output);
    if (status)
        return status; /* MR_ERROR_AGAIN: all buffers are in use; it is called again later */
    invert(input, output);
    return mr_io_emit(io, 0, output);
}

static const mr_format_set pictures[] = {
    {.payload = MR_PAYLOAD_PICTURE, .pixels = MR_IN_SET(MR_PIXEL_GRAY8) | MR_IN_SET(MR_PIXEL_I420) |
                                              MR_IN_SET(MR_PIXEL_I422) | MR_IN_SET(MR_PIXEL_I444)},
    {0}};
static const mr_port inputs[] = {{.name = "in", .accepts = pictures}, {0}};
static const mr_port outputs[] = {{.name = "out", .accepts = pictures}, {0}};

static const mr_stage_type negative_stage = {
    .name = "negative",
    .summary = "makes the negative of each picture",
    .inputs = inputs,
    .outputs = outputs,
    .entry = MR_ENTRY_STATELESS,
    .negotiate = negotiate,
    .process = process,
};

MR_PLUGIN("negative", "1.0", &negative_stage);
