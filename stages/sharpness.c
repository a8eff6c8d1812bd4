/* sharpness: the variance of the Laplacian of each picture, as a result.
 *
 * Where a picture has a plane of luma of 8 bits, that is read as it is; others, and all where a size is asked for,
 * are made gray by preprocess first. */
#include "kernels/classical.h"
#include "kernels/color.h"
#include "stages/extractor.h"
#include "stages/list.h"
#include "stages/payload.h"

typedef struct options {
    mr_size size;
} options;

static mr_format describe(void) {
    return mr_tensor_format(MR_DTYPE_F32, MR_LAYOUT_FLAT, 1, &(int64_t){1});
}

static int negotiate(mr_negotiation *n) {
    const mr_format tensor = describe();
    return mr_extractor_promise(n, &tensor, "sharpness");
}

static int open_stage(mr_stage *self) {
    const options *o = self->options;
    const mr_preprocess_params look = mr_extractor_look(o->size, true);
    return mr_resizer_init(self->state, &look);
}

static void close_stage(mr_stage *self) {
    mr_resizer_fini(self->state);
}

static bool is_read_as_it_is(const options *o, const mr_format *picture) {
    const mr_pixel_info *info = mr_pixel_describe(picture->pixel);
    return o->size.width == 0 && !info->rgb && info->depth == 8 && info->component[0].step == 1;
}

/* Bytes of the gray picture that is made of a frame; 0 where none is. */
static size_t gray_bytes(const options *o, const mr_format *picture) {
    if (is_read_as_it_is(o, picture))
        return 0;
    size_t width = (size_t)(o->size.width ? o->size.width : picture->width);
    size_t height = (size_t)(o->size.width ? o->size.height : picture->height);
    return (width * height + 63) / 64 * 64;
}

/* What limited range is stretched by. */
static float scale_of(const mr_format *picture) {
    static const double nothing[3] = {0, 0, 0}, one[3] = {1, 1, 1};
    const mr_color color = mr_color_plan(picture, mr_pixel_describe(picture->pixel), nothing, one);
    return color.luma * (float)(1 << MR_SAMPLE_BITS);
}

/* The picture to look at: the frame's own luma, or what preprocess makes of it at `gray`. */
static int look_at(mr_stage *self, mr_stream *stream, const mr_frame *frame, uint8_t *gray,
                   mr_sharpness_item *item) {
    const options *o = self->options;
    const mr_format *picture = &frame->format;
    if (is_read_as_it_is(o, picture)) {
        *item = (mr_sharpness_item){.src = frame->plane[0].data,
                                    .stride = (int32_t)frame->plane[0].stride,
                                    .width = picture->width,
                                    .height = picture->height,
                                    .scale = scale_of(picture)};
        return MR_OK;
    }
    int32_t width = o->size.width ? o->size.width : picture->width;
    *item = (mr_sharpness_item){.src = gray,
                                .stride = width,
                                .width = width,
                                .height = o->size.width ? o->size.height : picture->height,
                                .scale = 1.0f};
    return mr_resizer_enqueue(self->state, stream, frame, gray);
}

static int make_frame(mr_io *io, size_t index, mr_frame **frame, float **sharpness) {
    const mr_format tensor = describe();
    void *data = NULL;
    int status = mr_payload_share(io, mr_io_input_at(io, 0, index), frame);
    if (!status)
        status = mr_payload_add_tensor(io, *frame, "sharpness", &tensor, &data);
    *sharpness = data;
    return status;
}

static int process_piece(mr_stage *self, mr_io *io, size_t first, size_t count, uint8_t **gray) {
    mr_frame *frame[MR_PIECE] = {NULL};
    mr_sharpness_work work = {.count = (int32_t)count};
    int status = MR_OK;
    for (size_t i = 0; i < count && !status; i++) {
        const mr_frame *input = mr_io_input_at(io, 0, first + i);
        float *sharpness = NULL;
        status = make_frame(io, first + i, &frame[i], &sharpness);
        if (!status)
            status = look_at(self, mr_io_stream(io), input, *gray, &work.item[i]);
        work.item[i].dst = sharpness;
        *gray += gray_bytes(self->options, &input->format);
    }
    if (!status)
        status = mr_sharpness_enqueue(mr_io_stream(io), &work);
    for (size_t i = 0; i < count; i++) {
        if (!status)
            status = mr_io_emit(io, 0, frame[i]);
        else
            mr_frame_unref(&frame[i]);
    }
    return status;
}

static int process(mr_stage *self, mr_io *io) {
    size_t count = mr_io_count(io), bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += gray_bytes(self->options, &mr_io_input_at(io, 0, i)->format);
    mr_buffer *buffer = NULL;
    int status = bytes ? mr_io_buffer(io, 0, bytes, &buffer) : MR_OK;
    uint8_t *gray = buffer ? buffer->data : NULL;
    for (size_t first = 0; first < count && !status; first += MR_PIECE)
        status = process_piece(self, io, first, count - first < MR_PIECE ? count - first : MR_PIECE, &gray);
    mr_buffer_unref(&buffer);
    return status;
}

static const mr_option table[] = {
    {.name = "size", .offset = offsetof(options, size), .kind = MR_OPTION_SIZE, .min = 1, .max = 4096, .unit = "px",
     .help = "width and height that pictures are resized to; their own where not given"},
    MR_OPTIONS_END};

static const mr_format_set pictures[] = {{.payload = MR_PAYLOAD_PICTURE}, {.payload = MR_PAYLOAD_ANY}};
static const mr_port inputs[] = {{.name = "in", .help = "pictures of any size and layout", .accepts = pictures}, {0}};
static const mr_port outputs[] = {
    {.name = "out", .help = "the same pictures, with the result \"sharpness\"", .accepts = pictures}, {0}};

const mr_stage_type mr_sharpness_stage = {
    .name = "sharpness",
    .summary = "adds to each picture how sharp it is: the variance of its Laplacian",
    .help = "Of the luma in 0..255, as OpenCV's Laplacian gives it with its smallest kernel. It depends on the size "
            "of the picture: compare pictures of one size.",
    .inputs = inputs,
    .outputs = outputs,
    .options = table,
    .options_bytes = sizeof(options),
    .state_bytes = sizeof(mr_resizer),
    .entry = MR_ENTRY_STATELESS,
    .batches = true,
    .streams = true,
    .negotiate = negotiate,
    .open = open_stage,
    .process = process,
    .close = close_stage,
};
