/* hog: histograms of oriented gradients (Dalal and Triggs) as a feature vector. */

#include "stages/image/extractor.h"
#include "stages/list.h"

typedef struct options {
    mr_size size;
    int fit;
    mr_size block, stride, cell;
    int64_t bins;
    bool signed_gradients, gamma, color;
    double clip;
} options;

typedef struct state {
    mr_extractor extractor;
    mr_hog *hog;
} state;

static mr_hog_params make_params(const options *o) {
    return (mr_hog_params){.width = o->size.width,
                           .height = o->size.height,
                           .channels = o->color ? 3 : 1,
                           .block_width = o->block.width,
                           .block_height = o->block.height,
                           .stride_x = o->stride.width,
                           .stride_y = o->stride.height,
                           .cell_width = o->cell.width,
                           .cell_height = o->cell.height,
                           .bins = (int32_t)o->bins,
                           .full_turn = o->signed_gradients,
                           .gamma = o->gamma,
                           .clip = (float)o->clip};
}

static mr_preprocess_params look_of(const options *o) {
    mr_preprocess_params look = mr_extractor_look(o->size, !o->color);
    look.fit = (mr_fit)o->fit;
    look.rotate = look.sar = true;
    return look;
}

static mr_format describe(const mr_hog_layout *layout) {
    const int64_t length = mr_hog_length(layout);
    return mr_tensor_format(MR_DTYPE_F32, MR_LAYOUT_FLAT, 1, &length);
}

/* The option that mr_hog_plan rejects. */
static const char *culprit(const mr_hog_params *p) {
    if (p->block_width % p->cell_width || p->block_height % p->cell_height)
        return "cell";
    if (p->block_width > p->width || p->block_height > p->height)
        return "size";
    bool ends = (p->width - p->block_width) % p->stride_x == 0 && (p->height - p->block_height) % p->stride_y == 0;
    return ends ? "cell" : "stride";
}

static int negotiate(mr_negotiation *n) {
    const mr_hog_params params = make_params(n->options);
    mr_hog_layout layout;
    if (mr_hog_plan(&layout, &params))
        return mr_refuse(n, culprit(&params), "%s", mr_message());
    const mr_preprocess_params look = look_of(n->options);
    const mr_format vector = describe(&layout);
    return mr_extractor_promise(n, &look, &vector, NULL, 1);
}

static int enqueue(const mr_stage *self, mr_stream *stream, const mr_image_batch *piece) {
    mr_hog_work work = {.hog = ((const state *)self->state)->hog, .count = piece->count};
    for (int32_t i = 0; i < piece->count; i++) {
        work.src[i] = piece->src[i];
        work.dst[i] = piece->dst[i];
    }
    return mr_hog_enqueue(stream, &work);
}

static int open_stage(mr_stage *self) {
    const options *o = self->options;
    state *s = self->state;
    const mr_hog_params params = make_params(o);
    int status = mr_hog_create(&s->hog, &params);
    if (status)
        return status;
    s->extractor.tensor = describe(mr_hog_layout_of(s->hog));
    s->extractor.enqueue = enqueue;
    const mr_preprocess_params look = look_of(o);
    return mr_extractor_open(self, &look);
}

static void close_stage(mr_stage *self) {
    mr_extractor_close(self);
    mr_hog_destroy(&((state *)self->state)->hog);
}

static const char *const fits[] = {"stretch", "center-crop", "letterbox", NULL};

#define FIELD(field) .name = #field, .offset = offsetof(options, field)
static const mr_option table[] = {
    {FIELD(size), .kind = MR_OPTION_SIZE, .fallback = "64x128", .min = 1, .max = 4096, .unit = "px",
     .help = "the size to which pictures are resized"},
    {FIELD(fit), .kind = MR_OPTION_ENUM, .fallback = "stretch", .choices = fits,
     .help = "how a picture with another shape is fitted: stretched, cut around the centre, or whole with black bars"},
    {FIELD(block), .kind = MR_OPTION_SIZE, .fallback = "16x16", .min = 1, .max = MR_HOG_MOST_BLOCK, .unit = "px",
     .help = "the area that is normalised together; a multiple of the cell"},
    {FIELD(stride), .kind = MR_OPTION_SIZE, .fallback = "8x8", .min = 1, .max = 4096, .unit = "px",
     .help = "distance between blocks; the last block ends within the picture"},
    {FIELD(cell), .kind = MR_OPTION_SIZE, .fallback = "8x8", .min = 1, .max = MR_HOG_MOST_BLOCK, .unit = "px",
     .help = "the area of one histogram of directions"},
    {FIELD(bins), .kind = MR_OPTION_INT, .fallback = "9", .min = 1, .max = MR_HOG_MOST_BINS,
     .help = "number of directions"},
    {.name = "signed", .offset = offsetof(options, signed_gradients), .kind = MR_OPTION_BOOL, .fallback = "false",
     .help = "true: dark to light differs from light to dark, and the bins cover 360 degrees; false: they cover 180"},
    {FIELD(gamma), .kind = MR_OPTION_BOOL, .fallback = "true",
     .help = "take gradients of the square roots of the values"},
    {FIELD(color), .kind = MR_OPTION_BOOL, .fallback = "false",
     .help = "true: each pixel uses the longest of the red, green and blue gradients; false: the gradient of the luma"},
    {FIELD(clip), .kind = MR_OPTION_DOUBLE, .fallback = "0.2", .min = 0.001, .max = 1.0,
     .help = "the largest normalised value, before the second normalisation (L2-hys)"},
    MR_OPTIONS_END};
#undef FIELD

const mr_stage_type mr_hog_stage = {
    .name = "hog",
    .summary = "histograms of oriented gradients of a picture, as a feature vector",
    .help = "This is the descriptor of Dalal and Triggs, with the choices and the order of OpenCV's HOGDescriptor: "
            "3780 numbers for an upright picture of 64x128. classify applies a linear layer to it.",
    .outputs = mr_vector_outputs,
    .options = table,
    .options_bytes = sizeof(options),
    .state_bytes = sizeof(state),
    .negotiate = negotiate,
    .open = open_stage,
    MR_EXTRACTOR_TYPE,
    .close = close_stage,
};
