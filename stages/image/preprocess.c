/* preprocess: pictures become tensors of one shape. The arithmetic, geometry included, is
 * kernels/preprocess/preprocess.h's; this file has the options. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "stages/image/resizer.h"
#include "stages/list.h"

enum { ORDER_RGB, ORDER_BGR, ORDER_GRAY };
enum { NORMALIZE_NONE, NORMALIZE_UNIT, NORMALIZE_SIGNED, NORMALIZE_IMAGENET };

static const char *const orders[] = {"rgb", "bgr", "gray", NULL};
/* As the options name them; auto first. */
static const char *const dtype_names[] = {"auto", "f32", "f16", "u8", NULL};
static const mr_dtype dtypes[] = {MR_DTYPE_ANY, MR_DTYPE_F32, MR_DTYPE_F16, MR_DTYPE_U8};
static const char *const layout_names[] = {"auto", "nchw", "nhwc", NULL};
static const mr_layout layouts[] = {MR_LAYOUT_ANY, MR_LAYOUT_NCHW, MR_LAYOUT_NHWC};

typedef struct roi_options {
    bool given;
    int64_t x, y, width, height;
} roi_options;

typedef struct sides_options {
    bool given;
    mr_size least, most;
    int64_t shorter, multiple;
} sides_options;

typedef struct options {
    mr_size size; /* 0x0: the following stages choose */
    sides_options sides;
    int fit, place;
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

/* `output`: size, dtype and layout as planned. */
static mr_preprocess_params make_params(const options *o, const mr_format *output) {
    bool last = output->layout == MR_LAYOUT_NHWC;
    mr_preprocess_params params = {.width = (int32_t)output->dims[last ? 1 : 2],
                                   .height = (int32_t)output->dims[last ? 0 : 1],
                                   .fit = (mr_fit)o->fit,
                                   .top_left = o->place,
                                   .crop_fraction = o->crop_fraction,
                                   .interpolation = (mr_interpolation)o->interpolation,
                                   .antialias = o->antialias,
                                   .rotate = o->rotate,
                                   .sar = o->sar,
                                   .bgr = o->order == ORDER_BGR,
                                   .gray = o->order == ORDER_GRAY,
                                   .dtype = output->dtype,
                                   .layout = output->layout};
    if (o->sides.given) {
        params.width = o->sides.most.width;
        params.height = o->sides.most.height;
        params.sides = (mr_sides){true, (int32_t)o->sides.shorter, o->sides.least.width, o->sides.least.height,
                                  (int32_t)o->sides.multiple};
    }
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

/* Pictures of one known size, turned or not, do not need the largest tensors that `sides` allows. A multiple more than
 * the rounded size keeps all sizes as they are without this limit. */
static options limited(const options *given, const mr_format_set *input) {
    options o = *given;
    mr_format picture = mr_format_set_common(input), any = {0};
    const mr_preprocess_params params = make_params(given, &any);
    mr_size most = {0};
    if (!given->sides.given || !picture.width || !picture.height)
        return o;
    picture.pixel = picture.pixel ? picture.pixel : MR_PIXEL_I420;
    for (picture.rotation = 0; picture.rotation <= 90; picture.rotation += 90) {
        int32_t width, height;
        if (mr_preprocess_size(&params, &picture, &width, &height))
            return o;
        most.width = width > most.width ? width : most.width;
        most.height = height > most.height ? height : most.height;
    }
    most.width += (int32_t)given->sides.multiple;
    most.height += (int32_t)given->sides.multiple;
    o.sides.most.width = most.width < o.sides.most.width ? most.width : o.sides.most.width;
    o.sides.most.height = most.height < o.sides.most.height ? most.height : o.sides.most.height;
    return o;
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

/* An infinite value would reach the network: 0 and 255 must map to finite numbers in this type. */
static int check_extremes(mr_negotiation *n, const options *o, const mr_preprocess_params *params, mr_dtype dtype) {
    const double most = dtype == MR_DTYPE_F16 ? 65504.0 : (double)FLT_MAX;
    for (size_t c = 0; c < 3; c++) {
        double low = fabs((0.0 - params->mean[c]) / params->std[c]);
        double high = fabs((255.0 - params->mean[c]) / params->std[c]);
        if (!(low <= most && high <= most))
            return mr_refuse(n, o->std.count ? "std" : "mean",
                             "with mean %g and std %g values reach %.3g, and the largest %s is %.3g; mean and "
                             "std are for values in 0..255",
                             params->mean[c], params->std[c], high > low ? high : low, mr_dtype_name(dtype), most);
    }
    return MR_OK;
}

static bool normalizes(const options *o) {
    return o->mean.count > 0 || o->std.count > 0 || o->normalize != NORMALIZE_NONE;
}

static int check_sides(mr_negotiation *n, const options *o) {
    const sides_options *s = &o->sides;
    if (!s->given)
        return MR_OK;
    if (o->size.width)
        return mr_refuse(n, "sides", "size and sides are both given; keep one of them");
    if (o->fit == MR_FIT_CENTER_CROP)
        return mr_refuse(n, "fit",
                         "with sides, pictures keep their shape and nothing is cut off; remove fit: center-crop");
    if (s->least.width > s->most.width || s->least.height > s->most.height)
        return mr_refuse(n, "sides", "least %dx%d is more than most %dx%d", s->least.width, s->least.height,
                         s->most.width, s->most.height);
    const int64_t rest = s->most.width % s->multiple + s->most.height % s->multiple + s->least.width % s->multiple +
                         s->least.height % s->multiple;
    return rest ? mr_refuse(n, "sides", "least %dx%d and most %dx%d are no multiples of %lld", s->least.width,
                            s->least.height, s->most.width, s->most.height, (long long)s->multiple)
                : MR_OK;
}

static int check_options(mr_negotiation *n, const options *o) {
    bool own = o->mean.count > 0 || o->std.count > 0;
    if (own && o->normalize != NORMALIZE_NONE)
        return mr_refuse(n, "normalize", "normalize is given together with mean or std; keep one of them");
    if (dtypes[o->dtype] == MR_DTYPE_U8 && normalizes(o))
        return mr_refuse(n, own ? (o->mean.count ? "mean" : "std") : "normalize",
                         "normalised values do not fit dtype u8; use f32 or f16, or leave the normalisation out");
    if (o->order == ORDER_GRAY && o->normalize == NORMALIZE_IMAGENET)
        return mr_refuse(n, "normalize",
                         "imagenet normalises three channels and gray has one; give its mean and std");
    if (o->crop_fraction != 1.0 && o->fit != MR_FIT_CENTER_CROP)
        return mr_refuse(n, "crop_fraction",
                         "crop_fraction has no meaning here; add fit: center-crop or leave it out");
    if (o->pad.count > 0 && o->fit != MR_FIT_LETTERBOX)
        return mr_refuse(n, "pad", "pad has no meaning here; add fit: letterbox or leave it out");
    if (o->place && o->fit != MR_FIT_LETTERBOX)
        return mr_refuse(n, "place", "place has no meaning here; add fit: letterbox or leave it out");
    int status = check_sides(n, o);
    return status ? status : check_colors(n, o);
}

static bool reaches_outside(const roi_options *roi, int64_t width, int64_t height) {
    return roi->x + roi->width > width || roi->y + roi->height > height;
}

/* If planning knows the largest picture size, a roi outside it must be refused before the start. An image's rotation
 * may be known only after decoding. */
static int check_roi(mr_negotiation *n, const options *o, const mr_format_set *in) {
    int64_t width = in->width.max, height = in->height.max;
    if (!o->roi.given || width == 0 || height == 0)
        return MR_OK;
    bool turned = o->rotate && in->look.rotation % 180 != 0, unsure = o->rotate && in->look.rotation == 0;
    bool upright = !turned && !reaches_outside(&o->roi, width, height);
    if (upright || ((turned || unsure) && !reaches_outside(&o->roi, height, width)))
        return MR_OK;
    bool bounded = in->width.min < width || in->height.min < height;
    return mr_refuse(n, "roi", "roi reaches to %lld,%lld but the pictures of %s are %s%lldx%lld; make it smaller",
                     (long long)(o->roi.x + o->roi.width), (long long)(o->roi.y + o->roi.height), n->inputs[0].from,
                     bounded ? "at most " : "", (long long)(turned ? height : width),
                     (long long)(turned ? width : height));
}

/* ---- outputs --------------------------------------------------------------------------------------------------- */

static int64_t channels_of(const options *o) {
    return o->order == ORDER_GRAY ? 1 : 3;
}

static mr_format_set tensor_of(const options *o, uint32_t of_dtypes, mr_layout layout, const mr_size *size) {
    const int64_t count = channels_of(o);
    const sides_options *s = &o->sides;
    mr_bounds channels = {count, count}, rows = {size->height, size->height}, columns = {size->width, size->width};
    if (s->given) {
        rows = (mr_bounds){s->least.height, s->most.height};
        columns = (mr_bounds){s->least.width, s->most.width};
    }
    mr_format_set set = {.payload = MR_PAYLOAD_TENSOR, .dtypes = of_dtypes, .layouts = MR_IN_SET(layout), .rank = 3,
                         .dims = {channels, rows, columns}};
    if (layout == MR_LAYOUT_NHWC) {
        set.dims[0] = rows;
        set.dims[1] = columns;
        set.dims[2] = channels;
    }
    return set;
}

/* All outputs that the options allow. The channel position is known only with the layout. */
static mr_format_set possible(const options *o) {
    uint32_t whole = normalizes(o) ? 0 : MR_IN_SET(MR_DTYPE_U8);
    uint32_t some = dtypes[o->dtype] ? MR_IN_SET(dtypes[o->dtype])
                                     : MR_IN_SET(MR_DTYPE_F32) | MR_IN_SET(MR_DTYPE_F16) | whole;
    if (layouts[o->layout])
        return tensor_of(o, some, layouts[o->layout], &o->size);
    return (mr_format_set){.payload = MR_PAYLOAD_TENSOR, .dtypes = some, .rank = 3,
                           .layouts = MR_IN_SET(MR_LAYOUT_NCHW) | MR_IN_SET(MR_LAYOUT_NHWC)};
}

static int32_t side(mr_bounds bounds) {
    return bounds.min == bounds.max && bounds.max <= MR_PREPROCESS_MAX_SIDE ? (int32_t)bounds.max : 0;
}

/* Narrows the formats to what the following stages accept: first the channel position, then the size. */
static mr_format_set decided(const options *o, const mr_format_set *wanted) {
    const int64_t channels = channels_of(o);
    mr_format_set first = possible(o), both = first;
    mr_format_set_meet(&first, wanted, &both);
    bool last = !(both.layouts & MR_IN_SET(MR_LAYOUT_NCHW));
    if (!layouts[o->layout] && wanted->rank == 3)
        last |= wanted->dims[2].max == channels && wanted->dims[0].max && wanted->dims[0].min != channels;
    mr_size size = {side(wanted->dims[last ? 1 : 2]), side(wanted->dims[last ? 0 : 1])};
    return tensor_of(o, both.dtypes, last ? MR_LAYOUT_NHWC : MR_LAYOUT_NCHW, o->size.width ? &o->size : &size);
}

static void append(char *text, size_t bytes, const char *option, const char *value) {
    size_t used = strlen(text);
    snprintf(text + used, bytes - used, "%s%s: %s", used ? ", " : "", option, value);
}

/* Sets the options that `wanted` requires; false if the stage cannot produce it. */
static bool change(const options *o, const mr_format_set *wanted, options *changed, mr_format *output) {
    mr_format_set met;
    *changed = *o;
    changed->size = (mr_size){0};
    changed->dtype = changed->layout = 0;
    for (int gray = 0; gray < 2; gray++) {
        changed->order = gray ? ORDER_GRAY : o->order == ORDER_GRAY ? ORDER_RGB : o->order;
        const mr_format_set best = decided(changed, wanted);
        *output = mr_format_set_common(&best);
        if (mr_format_set_meet(&best, wanted, &met))
            return !gray || (o->normalize != NORMALIZE_IMAGENET && o->mean.count < 2 && o->std.count < 2);
    }
    return false;
}

static bool suggest(const void *given, const mr_format_set *wanted, char *text, size_t bytes) {
    const options *o = given;
    options changed;
    mr_format output;
    char size[32];
    text[0] = 0;
    if (!change(o, wanted, &changed, &output))
        return false;
    const mr_preprocess_params params = make_params(&changed, &output);
    snprintf(size, sizeof size, "%dx%d", params.width, params.height);
    if (params.width && o->size.width && (params.width != o->size.width || params.height != o->size.height))
        append(text, bytes, "size", size);
    if (changed.order != o->order)
        append(text, bytes, "order", orders[changed.order]);
    if (o->dtype && dtypes[o->dtype] != output.dtype)
        for (int i = 1; dtype_names[i]; i++)
            if (dtypes[i] == output.dtype)
                append(text, bytes, "dtype", dtype_names[i]);
    if (o->layout && layouts[o->layout] != output.layout)
        append(text, bytes, "layout", output.layout == MR_LAYOUT_NHWC ? "nhwc" : "nchw");
    return *text;
}

static bool are_at_most(const mr_doubles *list, double most) {
    for (size_t i = 0; i < list->count; i++)
        if (fabs(list->value[i]) > most)
            return false;
    return true;
}

static bool are_all(const mr_doubles *list, double value) {
    for (size_t i = 0; i < list->count; i++)
        if (list->value[i] != value)
            return false;
    return true;
}

/* Writes "mean: [123.7, 116.3, 103.5]", scaled for values in 0..255. */
static void append_scaled(char *text, size_t bytes, const char *name, const mr_doubles *list) {
    size_t used = strlen(text);
    if (list->count)
        used += (size_t)snprintf(text + used, bytes - used, "%s: %s", name, list->count > 1 ? "[" : "");
    for (size_t i = 0; i < list->count && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%.4g", i ? ", " : "", 255.0 * list->value[i]);
    if (list->count > 1 && used < bytes)
        snprintf(text + used, bytes - used, "]");
}

/* Mean and std as torchvision has them, for values in 0..1: here they move values in 0..255 hardly at all. */
static void judge_scale(mr_negotiation *n, const options *o, mr_dtype dtype) {
    const bool nothing = are_all(&o->mean, 0.0) && are_all(&o->std, 1.0);
    if (!normalizes(o) && (dtype == MR_DTYPE_F32 || dtype == MR_DTYPE_F16))
        mr_remark(n, "gives values in 0..255: neither mean, std nor normalize is given");
    if (nothing || !are_at_most(&o->mean, 1.0) || !are_at_most(&o->std, 1.0))
        return;
    char hint[256];
    snprintf(hint, sizeof hint, "write %s", o->mean.count == 3 ? "normalize: imagenet, or " : "");
    append_scaled(hint, sizeof hint, "mean", &o->mean);
    if (o->mean.count && o->std.count)
        append_scaled(hint, sizeof hint, " and std", &o->std);
    else
        append_scaled(hint, sizeof hint, "std", &o->std);
    mr_warn(n, o->mean.count ? "mean" : "std", hint,
            "these are fractions of 1, and values are 0..255 before mean and std");
}

static int negotiate(mr_negotiation *n) {
    const options *o = n->options;
    mr_planned_output *output = &n->outputs[0];
    int status = check_options(n, o);
    if (status == MR_OK)
        status = check_roi(n, o, &n->inputs[0].set);
    if (status < 0)
        return status;
    const options within = limited(o, &n->inputs[0].set);
    o = &within;
    output->set = output->wanted ? decided(o, output->wanted) : possible(o);
    output->buffer_bytes = (size_t)n->batch * mr_format_set_most_bytes(&output->set);
    const mr_format shape = mr_format_set_common(&output->set);
    const mr_preprocess_params params = make_params(o, &shape);
    status = check_extremes(n, o, &params, shape.dtype == MR_DTYPE_F16 ? MR_DTYPE_F16 : MR_DTYPE_F32);
    if (status < 0)
        return status;
    judge_scale(n, o, shape.dtype);
    mr_resizer_promise(n, &params);
    output->chosen = true;
    output->ranges = o->sides.given;
    output->unfixed = "write its size, as in size: 224x224";
    return MR_OK;
}

static double shrinks(const void *given, const mr_format *output, const mr_format *picture) {
    const mr_preprocess_params params = make_params(given, output);
    return mr_preprocess_shrink(&params, picture);
}

static int open_stage(mr_stage *self) {
    const options within = limited(self->options, &self->inputs[0].set);
    const mr_preprocess_params params = make_params(&within, &self->outputs[0]);
    return mr_resizer_init(self->state, &params);
}

/* ---- running --------------------------------------------------------------------------------------------------- */

static size_t most_bytes(const mr_stage *self) {
    const mr_format format = mr_preprocess_output(&((const mr_resizer *)self->state)->params);
    return mr_tensor_bytes(&format);
}

/* A call's results are contiguous in one buffer, so that they already form a batch for the next network: this is number
 * `at`. */
static int place(mr_stage *self, mr_io *io, const mr_frame *picture, mr_buffer *buffer, size_t at, mr_frame **frame) {
    const mr_preprocess_params *params = &((const mr_resizer *)self->state)->params;
    mr_preprocess_params own = *params;
    int status = params->sides.given ? mr_preprocess_size(params, &picture->format, &own.width, &own.height) : MR_OK;
    if (!status)
        status = mr_io_derive(io, picture, frame);
    if (status)
        return status;
    const mr_format format = mr_preprocess_output(&own);
    mr_frame_place(*frame, &format, buffer, at * most_bytes(self), 1);
    return MR_OK;
}

/* Inputs from `first`: at most MR_PREPROCESS_LAUNCH. *made_before: how many results the call has. */
static int process_piece(mr_stage *self, mr_io *io, mr_buffer *buffer, size_t first, size_t count,
                         size_t *made_before) {
    mr_resizer_item items[MR_PREPROCESS_LAUNCH];
    mr_frame *made[MR_PREPROCESS_LAUNCH] = {0};
    size_t worked = 0;
    int status = MR_OK;
    for (size_t i = 0; i < count && !status; i++) {
        if (mr_io_passes(io, first + i))
            continue;
        const mr_frame *picture = mr_io_input_at(io, 0, first + i);
        status = place(self, io, picture, buffer, *made_before + worked, &made[i]);
        if (!status)
            items[worked++] = (mr_resizer_item){picture, made[i]->plane[0].data, &made[i]->geometry,
                                                self->batch == 1 ? &buffer->contents : NULL};
    }
    *made_before += worked;
    if (!status && worked)
        status = mr_resizer_enqueue(self->state, mr_io_stream(io), items, worked);
    for (size_t i = 0; i < count; i++) {
        if (!status)
            status = made[i] ? mr_io_emit(io, 0, made[i]) : mr_io_pass(io, first + i);
        else
            mr_frame_unref(&made[i]);
    }
    return status;
}

static int process(mr_stage *self, mr_io *io) {
    mr_buffer *buffer = NULL;
    size_t count = mr_io_count(io), made = 0, passed = 0;
    while (passed < count && mr_io_passes(io, passed))
        passed++;
    int status = passed < count ? mr_io_buffer(io, 0, (size_t)self->batch * most_bytes(self), &buffer) : MR_OK;
    for (size_t first = 0; first < count && !status; first += MR_PREPROCESS_LAUNCH) {
        size_t left = count - first;
        status = process_piece(self, io, buffer, first, left < MR_PREPROCESS_LAUNCH ? left : MR_PREPROCESS_LAUNCH,
                               &made);
    }
    mr_buffer_unref(&buffer);
    return status;
}

static void close_stage(mr_stage *self) {
    mr_resizer_fini(self->state);
}

static const char *const places[] = {"center", "top-left", NULL};
static const char *const fits[] = {"stretch", "center-crop", "letterbox", NULL};
static const char *const interpolations[] = {"nearest", "bilinear", "bicubic", "area", NULL};
static const char *const normalizations[] = {"none", "unit", "signed", "imagenet", NULL};

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

#define FIELD(field) .name = #field, .offset = offsetof(sides_options, field)
static const mr_option sides_fields[] = {
    {FIELD(most), .kind = MR_OPTION_SIZE, .required = true, .min = 1, .max = MR_PREPROCESS_MAX_SIDE, .unit = "px",
     .example = "2016x2016", .help = "largest width and height"},
    {FIELD(least), .kind = MR_OPTION_SIZE, .required = true, .min = 1, .max = MR_PREPROCESS_MAX_SIDE, .unit = "px",
     .example = "32x32", .help = "smallest width and height"},
    {FIELD(shorter), .kind = MR_OPTION_INT, .fallback = "0", .max = MR_PREPROCESS_MAX_SIDE, .unit = "px",
     .help = "pictures are enlarged until the shorter side has this length; 0: until they are as large as `most` "
             "allows. Larger ones are shrunk as far as `most` asks"},
    {FIELD(multiple), .kind = MR_OPTION_INT, .fallback = "1", .min = 1, .max = 1024, .unit = "px",
     .help = "width and height become multiples of this: the nearest, or for letterbox the next, with bars"},
    MR_OPTIONS_END};
#undef FIELD

#define FIELD(field) .name = #field, .offset = offsetof(options, field)
static const mr_option table[] = {
    {FIELD(size), .kind = MR_OPTION_SIZE, .fallback = "auto", .min = 1, .max = MR_PREPROCESS_MAX_SIDE, .unit = "px",
     .help = "width and height of the result; auto: the size that the next model accepts"},
    {FIELD(sides), .kind = MR_OPTION_MAP, .fields = sides_fields,
     .help = "each picture gets a size of its shape, for a network on the processors that takes any size, one frame at "
             "a time"},
    {FIELD(fit), .kind = MR_OPTION_ENUM, .fallback = "stretch", .choices = fits,
     .help = "how a picture with another shape is fitted: stretched, cut around the centre, or whole with bars"},
    {FIELD(crop_fraction), .kind = MR_OPTION_DOUBLE, .fallback = "1", .min = 0.01, .max = 1.0,
     .help = "center-crop: the side of the region, as a fraction of the largest centred region"},
    {FIELD(roi), .kind = MR_OPTION_MAP, .fields = roi_fields,
     .help = "the part of the picture that is used, in pixels after rotation; all of it by default"},
    {FIELD(interpolation), .kind = MR_OPTION_ENUM, .fallback = "bilinear", .choices = interpolations,
     .help = "how pixels are resized"},
    {FIELD(antialias), .kind = MR_OPTION_BOOL, .fallback = "true",
     .help = "widen bilinear and bicubic filters when shrinking, as Pillow does; false: do not, as OpenCV"},
    {FIELD(pad), .kind = MR_OPTION_DOUBLES, .min = 0, .max = 255,
     .help = "letterbox: colour of the bars, one value or red, green, blue in 0..255; black by default"},
    {FIELD(place), .kind = MR_OPTION_ENUM, .fallback = "center", .choices = places,
     .help = "letterbox: where the picture lies; center: its size is rounded, as for Ultralytics' networks; top-left: "
             "its size is rounded down, as for YOLOX"},
    {FIELD(rotate), .kind = MR_OPTION_BOOL, .fallback = "true",
     .help = "rotate and mirror the picture as its file declares"},
    {FIELD(sar), .kind = MR_OPTION_BOOL, .fallback = "true",
     .help = "correct for pixels that are not square (sample aspect ratio)"},
    {FIELD(order), .kind = MR_OPTION_ENUM, .fallback = "rgb", .choices = orders,
     .help = "the channels and their order; gray is the luma, one channel"},
    {FIELD(normalize), .kind = MR_OPTION_ENUM, .fallback = "none", .choices = normalizations,
     .help = "the values of the result; none: 0..255; unit: 0..1; signed: -1..1; imagenet: with ImageNet's mean and "
             "standard deviation"},
    {FIELD(mean), .kind = MR_OPTION_DOUBLES,
     .help = "what is subtracted from values in 0..255: one value, or one each for red, green and blue, whatever the "
             "order"},
    {FIELD(std), .kind = MR_OPTION_DOUBLES,
     .help = "the divisor of the difference: one value, or one each for red, green and blue, whatever the order"},
    {FIELD(dtype), .kind = MR_OPTION_ENUM, .fallback = "auto", .choices = dtype_names,
     .help = "type of the values; auto: the type that the next model accepts, else f32"},
    {FIELD(layout), .kind = MR_OPTION_ENUM, .fallback = "auto", .choices = layout_names,
     .help = "channels before or after rows and columns; auto: as the next model accepts them, else nchw"},
    MR_OPTIONS_END};
#undef FIELD

static const mr_format_set tensors[] = {
    {.payload = MR_PAYLOAD_TENSOR,
     .dtypes = MR_IN_SET(MR_DTYPE_F32) | MR_IN_SET(MR_DTYPE_F16) | MR_IN_SET(MR_DTYPE_U8),
     .layouts = MR_IN_SET(MR_LAYOUT_NCHW) | MR_IN_SET(MR_LAYOUT_NHWC),
     .rank = 3},
    {.payload = MR_PAYLOAD_ANY}};
static const mr_port outputs[] = {
    {.name = "out", .help = "a tensor of 3 channels, or one of gray, with `size` and `dtype`", .accepts = tensors},
    {0}};

const mr_stage_type mr_preprocess_stage = {
    .name = "preprocess",
    .summary = "turns pictures into the input of a network: crop, resize, colour, normalise",
    .help = "Cuts out the region that roi and fit choose, resizes it, turns it upright, converts it to RGB, BGR or "
            "gray and normalises it: (value - mean) / std with values in 0..255.",
    .inputs = mr_picture_inputs,
    .outputs = outputs,
    .options = table,
    .options_bytes = sizeof(options),
    .state_bytes = sizeof(mr_resizer),
    .entry = MR_ENTRY_STATELESS,
    .converts = true,
    .negotiate = negotiate,
    .suggest = suggest,
    .shrinks = shrinks,
    .open = open_stage,
    .process = process,
    .batches = true,
    .spares = true,
    .streams = true,
    .cuda = true,
    .close = close_stage,
};
