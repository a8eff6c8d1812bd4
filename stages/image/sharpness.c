/* sharpness: the variance of each picture's Laplacian, as a result.
 *
 * An 8-bit luma plane is read directly. preprocess must make other pictures gray first, and all pictures if a size is
 * given. */
#include "kernels/classical/classical.h"
#include "kernels/preprocess/color.h"
#include "stages/download.h"
#include "stages/image/extractor.h"
#include "stages/list.h"

typedef struct options {
    mr_size size;
} options;

static mr_format describe(void) {
    return mr_tensor_format(MR_DTYPE_F32, MR_LAYOUT_FLAT, 1, &(int64_t){1});
}

static bool is_read_as_it_is(const options *o, const mr_format *picture) {
    const mr_pixel_info *info = mr_pixel_describe(picture->pixel);
    return o->size.width == 0 && !info->rgb && info->depth == 8 && info->component[0].step == 1;
}

/* Size in bytes that a frame's gray picture may have. */
static size_t look_bytes(const options *o, const mr_format *picture) {
    size_t width = (size_t)(o->size.width ? o->size.width : picture->width);
    size_t height = (size_t)(o->size.width ? o->size.height : picture->height);
    return (width * height + 63) / 64 * 64;
}

/* The gray picture's size in bytes; 0 if none is needed. */
static size_t gray_bytes(const options *o, const mr_format *picture) {
    return is_read_as_it_is(o, picture) ? 0 : look_bytes(o, picture);
}

/* One number per frame comes before the gray pictures. */
static size_t numbers_bytes(size_t count) {
    return (count * sizeof(float) + 63) / 64 * 64;
}

/* ---- planning ------------------------------------------------------------------------------------------------- */

/* Whether some pictures in the set must be made gray first. */
static bool may_need_gray(const options *o, const mr_format_set *set) {
    for (int pixel = MR_PIXEL_ANY + 1; pixel < MR_PIXEL_COUNT; pixel++)
        if ((!set->pixels || set->pixels & MR_IN_SET(pixel)) &&
            !is_read_as_it_is(o, &(mr_format){.pixel = (mr_pixel)pixel}))
            return true;
    return false;
}

/* One launch makes one picture gray; three more serve the whole call. */
static void promise_work(mr_negotiation *n, bool gray) {
    const options *o = n->options;
    int64_t width = o->size.width ? o->size.width : n->inputs[0].set.width.max;
    int64_t height = o->size.width ? o->size.height : n->inputs[0].set.height.max;
    n->work.launches = (gray ? n->batch : 0) + 3 * ((n->batch + MR_PIECE - 1) / MR_PIECE);
    if (!gray)
        n->work.read_bytes = (double)width * (double)height;
    if (!width || !height)
        n->work.unknown = "the size of its pictures is not known";
}

static int negotiate(mr_negotiation *n) {
    const options *o = n->options;
    const mr_format tensor = describe();
    const mr_format_set *set = &n->inputs[0].set;
    const mr_format largest = {.width = (int32_t)set->width.max, .height = (int32_t)set->height.max};
    size_t gray = may_need_gray(o, set) ? look_bytes(o, &largest) : 0;
    const mr_preprocess_params look = mr_extractor_look(o->size, true);
    n->scratch_bytes = numbers_bytes((size_t)n->batch) + (size_t)n->batch * gray;
    mr_download_plan(n, sizeof(float));
    if (gray)
        mr_resizer_promise(n, &look);
    promise_work(n, gray > 0);
    mr_extractor_plan_workspace(n, 2 * sizeof(uint64_t)); /* a sum and a sum over squares */
    return mr_extractor_promise_result(n, &tensor, "sharpness");
}

static int open_stage(mr_stage *self) {
    const options *o = self->options;
    const mr_preprocess_params look = mr_extractor_look(o->size, true);
    return mr_resizer_init(self->state, &look);
}

static void close_stage(mr_stage *self) {
    mr_resizer_fini(self->state);
}

/* ---- running -------------------------------------------------------------------------------------------------- */

/* The factor that expands limited range. */
static float scale_of(const mr_format *picture) {
    static const double nothing[3] = {0, 0, 0}, one[3] = {1, 1, 1};
    const mr_color color = mr_color_plan(picture, mr_pixel_describe(picture->pixel), nothing, one);
    return color.luma * (float)(1 << MR_SAMPLE_BITS);
}

/* The picture to measure: the frame's luma, or a gray picture that preprocess makes at `gray`. */
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
    return mr_resizer_enqueue(self->state, stream, &(mr_resizer_item){.picture = frame, .dst = gray}, 1);
}

/* One call's memory. */
typedef struct call {
    mr_buffer *scratch;
    mr_download home;
    float *numbers;
    uint8_t *gray; /* where the next gray picture goes */
} call;

/* Emits the frame once its number is computed. */
static int emit(mr_io *io, size_t index, call *c) {
    const mr_format tensor = describe();
    mr_frame *frame = NULL;
    void *room = NULL;
    int status = mr_io_share(io, mr_io_input_at(io, 0, index), &frame);
    if (!status)
        status = mr_io_add_tensor(io, frame, "sharpness", &tensor, &room);
    if (!status)
        mr_download_add(&c->home, frame->results, (uint8_t *)(c->numbers + index));
    return mr_io_finish(io, 0, frame, status);
}

/* Frames from `first`: at most MR_PIECE. */
static int process_piece(mr_stage *self, mr_io *io, size_t first, size_t count, call *c) {
    mr_sharpness_work work = {.count = (int32_t)count};
    int status = MR_OK;
    for (size_t i = 0; i < count && !status; i++) {
        const mr_frame *input = mr_io_input_at(io, 0, first + i);
        status = look_at(self, mr_io_stream(io), input, c->gray, &work.item[i]);
        work.item[i].dst = c->numbers + first + i;
        c->gray += gray_bytes(self->options, &input->format);
    }
    if (!status)
        status = mr_sharpness_enqueue(mr_io_stream(io), &work);
    for (size_t i = first; i < first + count && !status; i++)
        status = emit(io, i, c);
    return status;
}

/* Takes everything that a call needs, before any work. */
static int take_memory(const mr_stage *self, mr_io *io, call *c) {
    size_t numbers = numbers_bytes((size_t)self->batch), bytes = numbers;
    for (size_t i = 0; i < mr_io_count(io); i++)
        bytes += gray_bytes(self->options, &mr_io_input_at(io, 0, i)->format);
    int status = mr_io_scratch(io, bytes, &c->scratch);
    if (status)
        return status;
    c->numbers = (float *)(void *)c->scratch->data;
    c->gray = c->scratch->data + numbers;
    c->home = (mr_download){.finish = mr_download_tensor, .each = sizeof(float)};
    return mr_download_begin(&c->home, self, io);
}

static int process(mr_stage *self, mr_io *io) {
    size_t count = mr_io_count(io);
    call c = {0};
    int status = take_memory(self, io, &c);
    for (size_t first = 0; first < count && !status; first += MR_PIECE) {
        size_t left = count - first;
        status = process_piece(self, io, first, left < MR_PIECE ? left : MR_PIECE, &c);
    }
    if (!status)
        status = mr_download_end(&c.home, io, (uint8_t *)c.numbers);
    mr_download_release(&c.home);
    mr_buffer_unref(&c.scratch);
    return status;
}

static const mr_option table[] = {
    {.name = "size", .offset = offsetof(options, size), .kind = MR_OPTION_SIZE, .min = 1, .max = 4096, .unit = "px",
     .help = "the size to which pictures are resized; not resized by default"},
    MR_OPTIONS_END};

static const mr_port outputs[] = {
    {.name = "out", .help = "the same pictures, with the result \"sharpness\"", .accepts = mr_pictures}, {0}};

const mr_stage_type mr_sharpness_stage = {
    .name = "sharpness",
    .summary = "adds the sharpness of each picture: the variance of its Laplacian",
    .help = "It is computed from the luma (0..255), as OpenCV's Laplacian with the smallest kernel. It depends on the "
            "picture's size: compare only pictures with the same size.",
    .inputs = mr_picture_inputs,
    .outputs = outputs,
    .options = table,
    .options_bytes = sizeof(options),
    .state_bytes = sizeof(mr_resizer),
    .entry = MR_ENTRY_STATELESS,
    .batches = true,
    .streams = true,
    .cuda = true,
    .negotiate = negotiate,
    .open = open_stage,
    .process = process,
    .close = close_stage,
};
