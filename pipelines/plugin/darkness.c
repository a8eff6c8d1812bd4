/* A stage type in a plugin: adds the dark share of each picture, from 0 to 1, as a result named "darkness". */
#include <millrace/plugin.h>

/* The options from the YAML. The table of options below fills them in. */
typedef struct options {
    int64_t below;
} options;

static mr_format number(void) {
    const int64_t one = 1;
    return mr_tensor_format(MR_DTYPE_F32, MR_LAYOUT_FLAT, 1, &one);
}

/* While planning: the pictures pass unchanged and carry one more result. */
static int negotiate(mr_negotiation *negotiation) {
    const mr_format tensor = number();
    const mr_format_set set = mr_format_set_of(&tensor);
    negotiation->outputs[0].follows = negotiation->outputs[0].shares = 0;
    return mr_promise_result(negotiation, 0, mr_kind_tensor(), "darkness", &set);
}

/* In all layouts below, plane 0 is luma, one byte per pixel. Rows are `stride` bytes apart. */
static float darkness(const mr_frame *picture, int64_t below) {
    int64_t dark = 0;
    for (int32_t y = 0; y < picture->format.height; y++) {
        const uint8_t *row = picture->plane[0].data + y * picture->plane[0].stride;
        for (int32_t x = 0; x < picture->format.width; x++)
            dark += row[x] < below;
    }
    return (float)((double)dark / ((double)picture->format.width * picture->format.height));
}

/* Called for each frame. Frames are immutable, so a new frame shares the picture and gets the result. */
static int process(mr_stage *self, mr_io *io) {
    const options *given = self->options;
    const mr_frame *input = mr_io_input(io);
    const mr_format tensor = number();
    mr_frame *output = NULL;
    void *result = NULL;
    int status = mr_io_share(io, input, &output);
    if (!status)
        status = mr_io_add_tensor(io, output, "darkness", &tensor, &result);
    if (status) {
        mr_frame_unref(&output);
        return status;
    }
    *(float *)result = darkness(input, given->below);
    return mr_io_emit(io, 0, output);
}

static const mr_option table[] = {
    {.name = "below", .kind = MR_OPTION_INT, .offset = offsetof(options, below), .fallback = "32", .min = 1, .max = 255,
     .unit = "levels", .help = "luma under which a pixel is dark"},
    MR_OPTIONS_END,
};
static const mr_format_set pictures[] = {
    {.payload = MR_PAYLOAD_PICTURE, .pixels = MR_IN_SET(MR_PIXEL_GRAY8) | MR_IN_SET(MR_PIXEL_I420) |
                                              MR_IN_SET(MR_PIXEL_I422) | MR_IN_SET(MR_PIXEL_I444)},
    {0}};
static const mr_port inputs[] = {{.name = "in", .accepts = pictures}, {0}};
static const mr_port outputs[] = {{.name = "out", .accepts = pictures}, {0}};

static const mr_stage_type darkness_stage = {
    .name = "darkness",
    .summary = "adds to each picture how much of it is dark, from 0 to 1",
    .inputs = inputs,
    .outputs = outputs,
    .options = table,
    .options_bytes = sizeof(options),
    .entry = MR_ENTRY_STATELESS,
    .negotiate = negotiate,
    .process = process,
};

MR_PLUGIN("darkness", "1.0", &darkness_stage);
