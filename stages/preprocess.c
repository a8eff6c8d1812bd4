/* preprocess: pictures become tensors of one shape. The arithmetic, geometry included, is kernels/preprocess.h's;
 * this file says which options there are. */
#include "stages/list.h"
#include "stages/resizer.h"

enum { ORDER_RGB, ORDER_BGR, ORDER_GRAY };
enum { NORMALIZE_NONE, NORMALIZE_UNIT, NORMALIZE_SIGNED, NORMALIZE_IMAGENET };

typedef struct roi_options {
    bool given;
    int64_t x, y, width, height;
} roi_options;

typedef struct options {
    mr_size size;
    int fit;
    double crop_fraction;
    roi_options roi;
    int interpolation;
    bool antialias;
    mr_doubles pad;
    bool rotate, sar;
    int order;
    int normalize;
    mr_doubles mean, std;
    int dtype;
    int layout;
} options;

static void spread(double to[3], const mr_doubles *from, double fallback) {
    for (size_t c = 0; c < 3; c++)
        to[c] = from->count == 0 ? fallback : from->value[from->count == 3 ? c : 0];
}

static void fill_normalization(mr_preprocess_params *params, const options *o) {
    static const double imagenet_mean[3] = {0.485, 0.456, 0.406}, imagenet_std[3] = {0.229, 0.224, 0.225};
    spread(params->mean, &o->mean, o->normalize == NORMALIZE_SIGNED ? 127.5 : 0.0);
    spread(params->std, &o->std,
           o->normalize == NORMALIZE_UNIT ? 255.0 : o->normalize == NORMALIZE_SIGNED ? 127.5 : 1.0);
    for (int c = 0; c < 3 && o->normalize == NORMALIZE_IMAGENET; c++) {
        params->mean[c] = 255.0 * imagenet_mean[c];
        params->std[c] = 255.0 * imagenet_std[c];
    }
}

static mr_preprocess_params make_params(const options *o) {
    static const mr_dtype dtypes[] = {MR_DTYPE_F32, MR_DTYPE_F16, MR_DTYPE_U8};
    mr_preprocess_params params = {.width = o->size.width,
                                   .height = o->size.height,
                                   .fit = (mr_fit)o->fit,
                                   .crop_fraction = o->crop_fraction,
                                   .interpolation = (mr_interpolation)o->interpolation,
                                   .antialias = o->antialias,
                                   .rotate = o->rotate,
                                   .sar = o->sar,
                                   .bgr = o->order == ORDER_BGR,
                                   .gray = o->order == ORDER_GRAY,
                                   .dtype = dtypes[o->dtype],
                                   .layout = o->layout == 1 ? MR_LAYOUT_NHWC : MR_LAYOUT_NCHW};
    if (o->roi.given) {
        params.roi.x = (int32_t)o->roi.x;
        params.roi.y = (int32_t)o->roi.y;
        params.roi.width = (int32_t)o->roi.width;
        params.roi.height = (int32_t)o->roi.height;
    }
    spread(params.pad, &o->pad, 0.0);
    fill_normalization(&params, o);
    return params;
}

static int check_colors(mr_negotiation *n, const options *o) {
    const struct { const char *name; const mr_doubles *values; } lists[] = {
        {"pad", &o->pad}, {"mean", &o->mean}, {"std", &o->std}};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        if (lists[i].values->count == 2 || lists[i].values->count == 4)
            return mr_refuse(n, lists[i].name, "%s has %zu values; give one, or three for red, green and blue",
                             lists[i].name, lists[i].values->count);
    for (size_t i = 1; i < sizeof lists / sizeof lists[0] && o->order == ORDER_GRAY; i++)
        if (lists[i].values->count > 1)
            return mr_refuse(n, lists[i].name, "%s has %zu values, but gray is one channel; give one value",
                             lists[i].name, lists[i].values->count);
    for (size_t c = 0; c < o->std.count; c++)
        if (o->std.value[c] == 0.0)
            return mr_refuse(n, "std",
                             "std 0 cannot be divided by; give the spread of the values in 0..255, or leave it out");
    return MR_OK;
}

static int check_options(mr_negotiation *n, const options *o) {
    bool own = o->mean.count > 0 || o->std.count > 0;
    if (own && o->normalize != NORMALIZE_NONE)
        return mr_refuse(n, "normalize", "normalize stands beside mean or std, which say the same; keep one of them");
    if (o->dtype == 2 && (own || o->normalize != NORMALIZE_NONE))
        return mr_refuse(n, own ? (o->mean.count ? "mean" : "std") : "normalize",
                         "normalised values do not fit dtype u8; use f32 or f16, or leave the normalisation out");
    if (o->order == ORDER_GRAY && o->normalize == NORMALIZE_IMAGENET)
        return mr_refuse(n, "normalize", "imagenet normalises three channels and gray has one; give its mean and std");
    if (o->crop_fraction != 1.0 && o->fit != MR_FIT_CENTER_CROP)
        return mr_refuse(n, "crop_fraction",
                         "crop_fraction has no meaning here; add fit: center-crop or leave it out");
    if (o->pad.count > 0 && o->fit != MR_FIT_LETTERBOX)
        return mr_refuse(n, "pad", "pad has no meaning here; add fit: letterbox or leave it out");
    return check_colors(n, o);
}

/* Where planning knows the picture's size already, a roi outside of it is found before anything runs. */
static int check_roi(mr_negotiation *n, const options *o, const mr_format *in) {
    if (!o->roi.given || in->width == 0 || in->height == 0)
        return MR_OK;
    bool turned = o->rotate && in->rotation % 180 != 0;
    int64_t width = turned ? in->height : in->width, height = turned ? in->width : in->height;
    if (o->roi.x + o->roi.width <= width && o->roi.y + o->roi.height <= height)
        return MR_OK;
    return mr_refuse(n, "roi", "roi reaches to %lld,%lld but the pictures of %s are %lldx%lld; make it smaller",
                     (long long)(o->roi.x + o->roi.width), (long long)(o->roi.y + o->roi.height), n->inputs[0].from,
                     (long long)width, (long long)height);
}

static int negotiate(mr_negotiation *n) {
    const options *o = n->options;
    int status = check_options(n, o);
    if (status == MR_OK)
        status = check_roi(n, o, &n->inputs[0].format);
    if (status < 0)
        return status;
    mr_preprocess_params params = make_params(o);
    const mr_format output = mr_preprocess_output(&params);
    n->outputs[0].set = mr_format_set_of(&output);
    return MR_OK;
}

static int open_stage(mr_stage *self) {
    const mr_preprocess_params params = make_params(self->options);
    return mr_resizer_init(self->state, &params);
}

static int map(mr_stage *self, mr_stream *stream, const mr_frame *input, mr_frame *output) {
    return mr_resizer_enqueue(self->state, stream, input, output->plane[0].data);
}

static void close_stage(mr_stage *self) {
    mr_resizer_fini(self->state);
}

static const char *const fits[] = {"stretch", "center-crop", "letterbox", NULL};
static const char *const interpolations[] = {"nearest", "bilinear", "bicubic", "area", NULL};
static const char *const orders[] = {"rgb", "bgr", "gray", NULL};
static const char *const normalizations[] = {"none", "unit", "signed", "imagenet", NULL};
static const char *const dtypes[] = {"f32", "f16", "u8", NULL};
static const char *const layouts[] = {"nchw", "nhwc", NULL};

static const mr_option roi_fields[] = {
    {.name = "x", .kind = MR_OPTION_INT, .offset = offsetof(roi_options, x), .fallback = "0", .max = 32767,
     .unit = "px", .help = "left edge"},
    {.name = "y", .kind = MR_OPTION_INT, .offset = offsetof(roi_options, y), .fallback = "0", .max = 32767,
     .unit = "px", .help = "upper edge"},
    {.name = "width", .kind = MR_OPTION_INT, .offset = offsetof(roi_options, width), .required = true, .min = 1,
     .max = 32768, .unit = "px", .help = "width"},
    {.name = "height", .kind = MR_OPTION_INT, .offset = offsetof(roi_options, height), .required = true, .min = 1,
     .max = 32768, .unit = "px", .help = "height"},
    MR_OPTIONS_END};

#define FIELD(field) .name = #field, .offset = offsetof(options, field)
static const mr_option table[] = {
    {FIELD(size), .kind = MR_OPTION_SIZE, .required = true, .min = 1, .max = MR_PREPROCESS_MAX_SIDE, .unit = "px",
     .help = "width and height of the result"},
    {FIELD(fit), .kind = MR_OPTION_ENUM, .fallback = "stretch", .choices = fits,
     .help = "how a picture of another shape fits: stretched, cut around the centre, or whole with bars"},
    {FIELD(crop_fraction), .kind = MR_OPTION_DOUBLE, .fallback = "1", .min = 0.01, .max = 1.0,
     .help = "center-crop: how much of the largest centred region is taken, measured on its side"},
    {FIELD(roi), .kind = MR_OPTION_MAP, .fields = roi_fields,
     .help = "the part of the picture to look at, in pixels after rotation; all of it where not given"},
    {FIELD(interpolation), .kind = MR_OPTION_ENUM, .fallback = "bilinear", .choices = interpolations,
     .help = "how pixels are resized"},
    {FIELD(antialias), .kind = MR_OPTION_BOOL, .fallback = "true",
     .help = "widen bilinear and bicubic when shrinking, as Pillow does; false: as OpenCV does"},
    {FIELD(pad), .kind = MR_OPTION_DOUBLES, .min = 0, .max = 255,
     .help = "letterbox: colour of the bars, one value or red, green, blue in 0..255; black where not given"},
    {FIELD(rotate), .kind = MR_OPTION_BOOL, .fallback = "true",
     .help = "turn and mirror the picture as its file says"},
    {FIELD(sar), .kind = MR_OPTION_BOOL, .fallback = "true",
     .help = "mind that pixels may not be square (sample aspect ratio)"},
    {FIELD(order), .kind = MR_OPTION_ENUM, .fallback = "rgb", .choices = orders,
     .help = "the channels and their order; gray is one channel, the luma"},
    {FIELD(normalize), .kind = MR_OPTION_ENUM, .fallback = "none", .choices = normalizations,
     .help = "none: 0..255; unit: 0..1; signed: -1..1; imagenet: its mean and standard deviation"},
    {FIELD(mean), .kind = MR_OPTION_DOUBLES,
     .help = "subtracted from values in 0..255: one value, or red, green, blue whatever the order"},
    {FIELD(std), .kind = MR_OPTION_DOUBLES,
     .help = "what the difference is divided by: one value, or red, green, blue whatever the order"},
    {FIELD(dtype), .kind = MR_OPTION_ENUM, .fallback = "f32", .choices = dtypes, .help = "type of the values"},
    {FIELD(layout), .kind = MR_OPTION_ENUM, .fallback = "nchw", .choices = layouts,
     .help = "channels before or behind rows and columns"},
    MR_OPTIONS_END};
#undef FIELD

static const mr_format_set pictures[] = {{.payload = MR_PAYLOAD_PICTURE}, {.payload = MR_PAYLOAD_ANY}};
static const mr_format_set tensors[] = {{.payload = MR_PAYLOAD_TENSOR}, {.payload = MR_PAYLOAD_ANY}};
static const mr_port inputs[] = {{.name = "in", .help = "pictures of any size and layout", .accepts = pictures}, {0}};
static const mr_port outputs[] = {
    {.name = "out", .help = "a tensor of 3 channels, or one of gray, with `size` and `dtype`", .accepts = tensors}, {0}};

const mr_stage_type mr_preprocess_stage = {
    .name = "preprocess",
    .summary = "turns pictures into the input of a network: crop, resize, colour, normalise",
    .help = "Takes the region that roi and fit choose, resizes it, turns it upright, converts it to RGB, BGR or gray "
            "and normalises it: (value - mean) / std with values in 0..255.",
    .inputs = inputs,
    .outputs = outputs,
    .options = table,
    .options_bytes = sizeof(options),
    .state_bytes = sizeof(mr_resizer),
    .entry = MR_ENTRY_STATELESS,
    .negotiate = negotiate,
    .open = open_stage,
    .map = map,
    .close = close_stage,
};
