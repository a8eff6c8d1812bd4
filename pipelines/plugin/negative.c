/* A stage type that makes pictures: the negative of each, in memory that the plan has for it. */
#include <millrace/plugin.h>

/* While planning: pictures leave in the format in which they come in, but in buffers of this stage, which the planner
 * counts and sizes. `follows` would say that the input's own buffers go on. */
static int negotiate(mr_negotiation *negotiation) {
    negotiation->outputs[0].set = negotiation->inputs[0].set;
    return MR_OK;
}

/* The size of a plane depends on the layout: chroma planes may be smaller. Rows are `stride` bytes apart, which may
 * differ between the two pictures; the bytes behind a row belong to nobody. */
static void invert(const mr_format *format, const mr_plane *from, const mr_plane *to, int plane) {
    const int32_t rows = mr_plane_rows(format->pixel, plane, format->height);
    const size_t bytes = mr_plane_row_bytes(format->pixel, plane, format->width);
    for (int32_t y = 0; y < rows; y++) {
        const uint8_t *source = from->data + y * from->stride;
        uint8_t *target = to->data + y * to->stride;
        for (size_t x = 0; x < bytes; x++)
            target[x] = (uint8_t)(255 - source[x]);
    }
}

/* The frame's own format counts, not the planned one: pictures of one source may change their size. The new frame has
 * the input's identity, times and results. */
static int process(mr_stage *self, mr_io *io) {
    const mr_frame *input = mr_io_input(io);
    mr_frame *output = NULL;
    (void)self;
    int status = mr_io_acquire(io, 0, &input->format, input, &output);
    if (status)
        return status; /* MR_ERROR_AGAIN: all buffers are in use, and it is called again */
    for (int i = 0; i < mr_pixel_describe(input->format.pixel)->planes; i++)
        invert(&input->format, &input->plane[i], &output->plane[i], i);
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
