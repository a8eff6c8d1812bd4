/* histogram: how often which colours occur in a picture, as a feature vector. */
#include "stages/image/extractor.h"
#include "stages/list.h"

typedef struct options {
    mr_size size;
    int space;
    int64_t bins;
    bool joint;
} options;

static mr_histogram_params make_params(const options *o) {
    return (mr_histogram_params){.width = o->size.width,
                                 .height = o->size.height,
                                 .space = (mr_color_space)o->space,
                                 .bins = (int32_t)o->bins,
                                 .joint = o->joint};
}

static mr_preprocess_params look_of(const options *o) {
    mr_preprocess_params look = mr_extractor_look(o->size, false);
    look.interpolation = MR_NEAREST; /* a mean of colours would be a colour that the picture does not have */
    return look;
}

static mr_format describe(const mr_histogram_params *params) {
    const int64_t length = mr_histogram_length(params);
    return mr_tensor_format(MR_DTYPE_F32, MR_LAYOUT_FLAT, 1, &length);
}

static int negotiate(mr_negotiation *n) {
    const options *o = n->options;
    if (o->joint && o->bins > MR_HISTOGRAM_MOST_JOINT_BINS)
        return mr_refuse(n, "bins", "%lld bins a channel are %lld boxes of colours; joint takes up to %d bins",
                         (long long)o->bins, (long long)(o->bins * o->bins * o->bins), MR_HISTOGRAM_MOST_JOINT_BINS);
    const mr_histogram_params params = make_params(o);
    const mr_preprocess_params look = look_of(o);
    const mr_format vector = describe(&params);
    mr_extractor_plan_workspace(n, (size_t)mr_histogram_length(&params) * sizeof(uint32_t));
    /* Counts, which are added up and read once more. */
    n->work.more_bytes = 2 * (double)mr_histogram_length(&params) * sizeof(uint32_t);
    return mr_extractor_promise(n, &look, &vector, NULL, 3);
}

static int enqueue(const mr_stage *self, mr_stream *stream, const mr_image_batch *piece) {
    mr_histogram_work work = {.params = make_params(self->options), .count = piece->count};
    for (int32_t i = 0; i < piece->count; i++) {
        work.src[i] = piece->src[i];
        work.dst[i] = piece->dst[i];
    }
    return mr_histogram_enqueue(stream, &work);
}

static int open_stage(mr_stage *self) {
    const options *o = self->options;
    mr_extractor *e = self->state;
    const mr_histogram_params params = make_params(o);
    e->tensor = describe(&params);
    e->enqueue = enqueue;
    const mr_preprocess_params look = look_of(o);
    return mr_extractor_open(self, &look);
}

static const char *const spaces[] = {"rgb", "hsv", NULL};

#define FIELD(field) .name = #field, .offset = offsetof(options, field)
static const mr_option table[] = {
    {FIELD(space), .kind = MR_OPTION_ENUM, .fallback = "rgb", .choices = spaces,
     .help = "red, green and blue, or hue, saturation and value"},
    {FIELD(bins), .kind = MR_OPTION_INT, .fallback = "32", .min = 1, .max = MR_HISTOGRAM_MOST_BINS,
     .help = "how many equal parts the range of each channel is divided into"},
    {FIELD(joint), .kind = MR_OPTION_BOOL, .fallback = "false",
     .help = "true: one number for each combination of bins, bins^3 in all; false: the channels one after another"},
    {FIELD(size), .kind = MR_OPTION_SIZE, .fallback = "256x256", .min = 1, .max = 4096, .unit = "px",
     .help = "how many columns and rows of pixels are sampled, evenly spread over the picture"},
    MR_OPTIONS_END};
#undef FIELD

const mr_stage_type mr_histogram_stage = {
    .name = "histogram",
    .summary = "counts how often colours occur in a picture, as a feature vector",
    .help = "The numbers are shares of the pixels. The shares in each channel add up to 1; with `joint`, all of them "
            "do. Hue has 180 steps, the other channels have 256, as in OpenCV for 8 bits.",
    .outputs = mr_vector_outputs,
    .options = table,
    .options_bytes = sizeof(options),
    .state_bytes = sizeof(mr_extractor),
    .negotiate = negotiate,
    .open = open_stage,
    MR_EXTRACTOR_TYPE,
    .close = mr_extractor_close,
};
