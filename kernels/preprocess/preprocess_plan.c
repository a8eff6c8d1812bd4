#include "kernels/preprocess/preprocess_plan.h"

#include <math.h>
#include <string.h>

#include "engine/base/memory.h"
#include "kernels/preprocess/color.h"
#include "kernels/preprocess/preprocess_grid.h"
#include "millrace/status.h"

/* One axis of the picture as displayed, and the part that is wanted. */
typedef struct span {
    double start, length; /* region, in oriented pixels */
    int low, high;        /* roi */
    int whole;            /* oriented pixels on this axis */
} span;

typedef struct orientation {
    bool transposed;
    bool reverse_x, reverse_y; /* the stored axes run the other way */
    int width, height;         /* oriented */
    double aspect;             /* an oriented pixel's display width over its height */
} orientation;

static orientation orient(const mr_preprocess_params *params, const mr_format *source) {
    int turn = params->rotate ? source->rotation : 0;
    bool mirror = params->rotate && source->flip;
    orientation o = {.transposed = turn == 90 || turn == 270, .aspect = 1.0};
    o.reverse_x = (turn == 180 || turn == 270) != mirror;
    o.reverse_y = turn == 90 || turn == 180;
    int width = source->reduced ? source->whole_width : source->width;
    int height = source->reduced ? source->whole_height : source->height;
    o.width = o.transposed ? height : width;
    o.height = o.transposed ? width : height;
    if (params->sar && source->sar_num > 0 && source->sar_den > 0)
        o.aspect = (double)source->sar_num / source->sar_den;
    if (o.transposed)
        o.aspect = 1.0 / o.aspect;
    return o;
}

static int apply_roi(span *x, span *y, const mr_preprocess_params *params, const orientation *o) {
    *x = (span){.low = 0, .high = o->width, .whole = o->width};
    *y = (span){.low = 0, .high = o->height, .whole = o->height};
    if (params->roi.width > 0) {
        if (params->roi.x < 0 || params->roi.y < 0 || params->roi.height < 1 ||
            params->roi.width > o->width - params->roi.x || params->roi.height > o->height - params->roi.y)
            return mr_fail(MR_ERROR_DATA, "roi %dx%d at %d,%d reaches outside a picture of %dx%d", params->roi.width,
                           params->roi.height, params->roi.x, params->roi.y, o->width, o->height);
        x->low = params->roi.x;
        x->high = params->roi.x + params->roi.width;
        y->low = params->roi.y;
        y->high = params->roi.y + params->roi.height;
    }
    x->start = x->low;
    x->length = x->high - x->low;
    y->start = y->low;
    y->length = y->high - y->low;
    return MR_OK;
}

static void narrow_span(span *s, double length) {
    s->start += (s->length - length) / 2.0;
    s->length = length;
}

static int round_within(double value, bool down, int most) {
    long rounded = down ? (long)floor(value) : lround(value);
    return rounded < 1 ? 1 : rounded > most ? most : (int)rounded;
}

static int32_t round_side(double value, bool up, int32_t least, int32_t most, int32_t multiple) {
    const double units = up ? ceil(value / multiple - 1e-6) : floor(value / multiple + 0.5);
    return (int32_t)fmin(fmax(units * multiple, least), most);
}

static void choose_size(mr_preprocess_params *p, double width, double height) {
    const mr_sides *sides = &p->sides;
    double scale = fmin(p->width / width, p->height / height);
    if (sides->shorter)
        scale = fmin(scale, fmax(1.0, sides->shorter / fmin(width, height)));
    const bool up = p->fit == MR_FIT_LETTERBOX;
    p->width = round_side(width * scale, up, sides->least_width, p->width, sides->multiple);
    p->height = round_side(height * scale, up, sides->least_height, p->height, sides->multiple);
}

/* Fits the region to the destination: see the formulas in the header. */
static void apply_fit(mr_preprocess *plan, span *x, span *y, double aspect) {
    const mr_preprocess_params *p = &plan->params;
    double width = x->length * aspect, height = y->length;
    if (p->sides.given)
        choose_size(&plan->params, width, height);
    plan->inner_width = p->width;
    plan->inner_height = p->height;
    if (p->fit == MR_FIT_CENTER_CROP) {
        double shape = (double)p->width / p->height;
        narrow_span(x, p->crop_fraction * fmin(width, height * shape) / aspect);
        narrow_span(y, p->crop_fraction * fmin(height, width / shape));
    } else if (p->fit == MR_FIT_LETTERBOX) {
        double scale = fmin(p->width / width, p->height / height);
        plan->inner_width = round_within(width * scale, p->top_left, p->width);
        plan->inner_height = round_within(height * scale, p->top_left, p->height);
    }
    plan->inner_x = p->top_left ? 0 : (p->width - plan->inner_width) / 2;
    plan->inner_y = p->top_left ? 0 : (p->height - plan->inner_height) / 2;
}

/* OpenCV's INTER_NEAREST in the same floating point, so that ties must fall the same way. */
static int32_t *nearest_table(const span *s, int count, bool reverse, int reduced) {
    int32_t *table = mr_alloc((size_t)count * sizeof *table);
    if (!table)
        return NULL;
    double scale = 1.0 / (count / s->length);
    for (int i = 0; i < count; i++) {
        double position = floor(s->start + i * scale);
        int at = position < s->high - 1 ? (int)position : s->high - 1;
        int index = reverse ? s->whole - 1 - at : at;
        table[i] = index >> reduced;
    }
    return table;
}

/* An oriented span as a stored plane's axis. `shift` is log2 of picture pixels per sample. `siting` is how far
 * positions move, in samples, because chroma is beside luma. */
static mr_axis stored_axis(const span *s, int count, bool reverse, int shift, double siting) {
    double ratio = 1 << shift, start = reverse ? s->whole - s->start - s->length : s->start;
    int low = reverse ? s->whole - s->high : s->low, high = reverse ? s->whole - s->low : s->high;
    return (mr_axis){.start = start / ratio + siting,
                     .step = s->length / count / ratio,
                     .low = low >> shift,
                     .high = (high + (1 << shift) - 1) >> shift,
                     .count = count,
                     .reverse = reverse};
}

/* A chroma sample at the left luma sample of a pair is centred at luma position 2k + 0.5 rather than 2k + 1. */
static double siting_offset(const mr_format *source, const mr_pixel_info *info, bool horizontal) {
    mr_siting siting = source->siting;
    if (siting == MR_SITING_ANY)
        siting = source->range == MR_RANGE_FULL ? MR_SITING_CENTER : MR_SITING_LEFT;
    if (horizontal)
        return info->chroma_w == 1 && siting != MR_SITING_CENTER ? 0.25 : 0.0;
    return info->chroma_h == 1 && siting == MR_SITING_TOPLEFT ? 0.25 : 0.0;
}

static int make_filters(mr_preprocess *plan, const mr_format *source, const mr_pixel_info *info, const span *x,
                        const span *y, const orientation *o) {
    bool chroma = info->components == 3 && !info->rgb && (info->chroma_w || info->chroma_h);
    const span *stored[2] = {o->transposed ? y : x, o->transposed ? x : y};
    const int count[2] = {plan->columns, plan->rows};
    const bool reverse[2] = {o->reverse_x, o->reverse_y};
    for (int kind = 0; kind < (chroma ? 2 : 1); kind++)
        for (int direction = 0; direction < 2; direction++) {
            int shift = source->reduced + (kind == 0 ? 0 : direction == 0 ? info->chroma_w : info->chroma_h);
            double siting = kind == 0 ? 0.0 : siting_offset(source, info, direction == 0) / (1 << source->reduced);
            mr_axis axis = stored_axis(stored[direction], count[direction], reverse[direction], shift, siting);
            axis.horizontal = direction == 0;
            axis.most_bits = direction == 0 ? 16 : 30 - info->depth;
            int status = mr_filter_init(&plan->filter[kind][direction], &axis, plan->params.interpolation,
                                        plan->params.antialias);
            if (status < 0)
                return status;
        }
    return MR_OK;
}

static int make_nearest(mr_preprocess *plan, const span *x, const span *y, const orientation *o, int reduced) {
    plan->nearest_x = nearest_table(o->transposed ? y : x, plan->columns, o->reverse_x, reduced);
    plan->nearest_y = nearest_table(o->transposed ? x : y, plan->rows, o->reverse_y, reduced);
    if (!plan->nearest_x || !plan->nearest_y)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a table of %d positions", plan->columns + plan->rows);
    return MR_OK;
}

/* Collects each plane's components. */
static void describe_planes(mr_preprocess *plan, const mr_format *source, const mr_pixel_info *info) {
    for (int c = 0; c < info->components; c++) {
        const mr_component *component = &info->component[c];
        plane_plan *plane = &plan->plane[component->plane];
        bool subsampled = c > 0 && !info->rgb && (info->chroma_w || info->chroma_h);
        plane->sample_bytes = info->depth > 8 ? 2 : 1;
        plane->row_bytes = (int)mr_plane_row_bytes(source->pixel, component->plane, source->width);
        plane->step = component->step / plane->sample_bytes;
        plane->component[plane->parts] = c;
        plane->offset[plane->parts] = component->offset / plane->sample_bytes;
        plane->parts++;
        plane->shift_x = subsampled ? info->chroma_w : 0;
        plane->shift_y = subsampled ? info->chroma_h : 0;
        plane->table = subsampled;
    }
    for (int p = 0; p < MR_MAX_PLANES; p++)
        if (plan->plane[p].parts > 0)
            plan->planes = p + 1;
    plan->components = info->components;
    plan->depth = info->depth;
    plan->limit = (int)(((1u << info->depth) - 1) << (8 + MR_SAMPLE_BITS) >> info->depth);
}

static size_t take(size_t *bytes, size_t more) {
    size_t at = *bytes;
    *bytes += (more + 63) / 64 * 64;
    return at;
}

/* Widest row between the passes, in pixels, and the room that a horizontal pass reads past it. */
static size_t row_samples(const mr_preprocess *plan, int step) {
    size_t most = 0;
    for (int kind = 0; kind < 2; kind++) {
        const mr_filter *x = &plan->filter[kind][0];
        size_t samples = (size_t)(x->end - x->begin) * (size_t)step + (size_t)x->chunks * 8;
        most = samples > most ? samples : most;
    }
    return (most + 2 * MR_ROW_SLACK + 31) / 32 * 32;
}

static void lay_out_scratch(mr_preprocess *plan) {
    scratch_plan *s = &plan->scratch;
    int step = 1;
    for (int p = 0; p < plan->planes; p++)
        step = plan->plane[p].step > step ? plan->plane[p].step : step;
    s->line_stride = ((size_t)plan->columns + 15) / 16 * 16 + MR_ROW_SLACK;
    s->row_stride = row_samples(plan, step);
    s->part_stride = row_samples(plan, 1);
    plan->stride = (plan->rows + 15) / 16 * 16;
    size_t small = plan->transposed ? (size_t)plan->stride * (size_t)plan->columns + MR_ROW_SLACK
                                    : MR_ROWS * s->line_stride;
    s->row = take(&s->bytes, MR_ROWS * s->row_stride * sizeof(int16_t));
    for (int c = 0; c < 3; c++) {
        s->part[c] = take(&s->bytes, MR_ROWS * s->part_stride * sizeof(int16_t));
        s->small[c] = take(&s->bytes, small * sizeof(int16_t));
        s->line[c] = take(&s->bytes, MR_ROWS * s->line_stride * sizeof(int16_t));
    }
    s->finished_stride = (size_t)plan->params.width + MR_ROW_SLACK;
    s->finished = take(&s->bytes, 3 * s->finished_stride * sizeof(float));
    s->narrow = take(&s->bytes, 3 * s->finished_stride * sizeof(float));
}

static int reduced_side(int whole, int reduced) {
    return (int)(((int64_t)whole + (1 << reduced) - 1) >> reduced);
}

static int check_params(const mr_preprocess_params *p, const mr_format *source) {
    if (p->width < 1 || p->height < 1 || p->width > MR_PREPROCESS_MAX_SIDE || p->height > MR_PREPROCESS_MAX_SIDE)
        return mr_fail(MR_ERROR_CONFIG, "size %dx%d is not within 1 to %d pixels", p->width, p->height,
                       MR_PREPROCESS_MAX_SIDE);
    if (!(p->crop_fraction > 0.0 && p->crop_fraction <= 1.0))
        return mr_fail(MR_ERROR_CONFIG, "crop_fraction %g is not above 0 and at most 1", p->crop_fraction);
    for (int c = 0; c < 3; c++)
        if (!(fabs(p->std[c]) > 0.0))
            return mr_fail(MR_ERROR_CONFIG, "std %g cannot be divided by", p->std[c]);
    if (source->pixel <= MR_PIXEL_ANY || source->pixel >= MR_PIXEL_COUNT)
        return mr_fail(MR_ERROR_DATA, "the pixel layout of the picture is not known");
    if (source->width < 1 || source->height < 1 || source->width > MR_PREPROCESS_MAX_SIDE ||
        source->height > MR_PREPROCESS_MAX_SIDE)
        return mr_fail(MR_ERROR_DATA, "a picture of %dx%d is not within 1 to %d pixels", source->width,
                       source->height, MR_PREPROCESS_MAX_SIDE);
    if (source->reduced > MR_PREPROCESS_MOST_REDUCED ||
        (source->reduced && (source->width != reduced_side(source->whole_width, source->reduced) ||
                             source->height != reduced_side(source->whole_height, source->reduced))))
        return mr_fail(MR_ERROR_DATA, "a picture of %dx%d is not 1/%d of %dx%d", source->width, source->height,
                       1 << (source->reduced & 15), source->whole_width, source->whole_height);
    return MR_OK;
}

/* For a gray result a YUV picture is its luma plane: a gray picture with the same range. */
static void keep_luma(mr_format *source, mr_pixel_info *info) {
    if (info->rgb || info->components == 1)
        return;
    info->components = 1;
    source->range = mr_format_range(source);
}

static void plan_colors(mr_preprocess *plan, const mr_format *source, const mr_pixel_info *info) {
    static const double nothing[3] = {0, 0, 0}, one[3] = {1, 1, 1};
    const mr_preprocess_params *p = &plan->params;
    plan->color = mr_color_plan(source, info, p->mean, p->std);
    float pad[3];
    for (int c = 0; c < 3; c++)
        pad[c] = mr_hold_255((float)p->pad[c]);
    if (p->gray)
        pad[0] = mr_luma(pad[0], pad[1], pad[2]);
    for (int c = 0; c < 3; c++)
        plan->pad[c] = (pad[c] - plan->color.mean[c]) * plan->color.scale[c];
    plan->channels = p->gray ? 1 : 3;
    plan->gray_mean = plan->color.mean[0];
    plan->gray_scale = plan->color.scale[0];
    if (p->gray && info->components == 3)
        plan->color = mr_color_plan(source, info, nothing, one);
}

/* Along one oriented axis: the destination's place * map[0] + map[1] in stored pixels of the picture. */
static void map_axis(const span *s, int inner_at, int inner, bool reverse, int reduced, double map[2]) {
    const double scale = s->length / inner, start = s->start - inner_at * scale;
    map[0] = ldexp(reverse ? -scale : scale, -reduced);
    map[1] = ldexp(reverse ? s->whole - start : start, -reduced);
}

static void plan_geometry(mr_preprocess *plan, const mr_format *source, const span *x, const span *y,
                          const orientation *o) {
    mr_geometry *g = &plan->geometry;
    double across[2], down[2];
    map_axis(x, plan->inner_x, plan->inner_width, o->transposed ? o->reverse_y : o->reverse_x, source->reduced, across);
    map_axis(y, plan->inner_y, plan->inner_height, o->transposed ? o->reverse_x : o->reverse_y, source->reduced, down);
    *g = (mr_geometry){.width = plan->params.width,
                       .height = plan->params.height,
                       .source_width = source->width,
                       .source_height = source->height,
                       .rotation = source->rotation,
                       .flip = source->flip};
    double *along_x = o->transposed ? g->y : g->x, *along_y = o->transposed ? g->x : g->y;
    along_x[0] = across[0];
    along_x[2] = across[1];
    along_y[1] = down[0];
    along_y[2] = down[1];
}

static int fill_plan(mr_preprocess *plan, const mr_format *picture) {
    mr_format described = *picture;
    mr_pixel_info seen = *mr_pixel_describe(picture->pixel);
    if (plan->params.gray)
        keep_luma(&described, &seen);
    const mr_format *source = &described;
    const mr_pixel_info *info = &seen;
    orientation o = orient(&plan->params, source);
    span x, y;
    int status = apply_roi(&x, &y, &plan->params, &o);
    if (status < 0)
        return status;
    apply_fit(plan, &x, &y, o.aspect);
    plan_geometry(plan, source, &x, &y, &o);
    plan->transposed = o.transposed;
    plan->columns = o.transposed ? plan->inner_height : plan->inner_width;
    plan->rows = o.transposed ? plan->inner_width : plan->inner_height;
    describe_planes(plan, source, info);
    plan_colors(plan, source, info);
    plan->word.down = info->shift;
    plan->word.flip = info->depth == 16 ? 0x8000 : 0;
    status = plan->params.interpolation == MR_NEAREST ? make_nearest(plan, &x, &y, &o, source->reduced)
                                                      : make_filters(plan, source, info, &x, &y, &o);
    if (status < 0)
        return status;
    lay_out_scratch(plan);
    return MR_OK;
}

int mr_preprocess_create(mr_preprocess **result, const mr_preprocess_params *params, const mr_format *source) {
    int status = check_params(params, source);
    if (status < 0)
        return status;
    static _Atomic uint64_t made;
    mr_preprocess *plan = mr_calloc(1, sizeof *plan);
    if (!plan)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a preprocess plan");
    plan->number = ++made;
    plan->params = *params;
    plan->params.bgr = params->bgr && !params->gray;
    status = mr_preprocess_places_create(&plan->places);
    if (!status)
        status = fill_plan(plan, source);
    if (status < 0) {
        mr_preprocess_destroy(&plan);
        return status;
    }
    *result = plan;
    return MR_OK;
}

const mr_geometry *mr_preprocess_geometry(const mr_preprocess *plan) {
    return &plan->geometry;
}

void mr_preprocess_destroy(mr_preprocess **plan) {
    if (!*plan)
        return;
    for (int kind = 0; kind < 2; kind++)
        for (int direction = 0; direction < 2; direction++)
            mr_filter_fini(&(*plan)->filter[kind][direction]);
    mr_free((*plan)->nearest_x);
    mr_free((*plan)->nearest_y);
    mr_preprocess_places_destroy(&(*plan)->places);
    mr_free(*plan);
    *plan = NULL;
}

double mr_preprocess_shrink(const mr_preprocess_params *params, const mr_format *source) {
    mr_preprocess plan = {.params = *params};
    orientation o = orient(params, source);
    span x, y;
    bool area = params->interpolation == MR_AREA;
    bool averages = area || (params->interpolation != MR_NEAREST && params->antialias);
    if (!averages || check_params(params, source))
        return 1.0;
    if (apply_roi(&x, &y, params, &o))
        return INFINITY;
    apply_fit(&plan, &x, &y, o.aspect);
    double shrink = fmin(x.length / plan.inner_width, y.length / plan.inner_height);
    return fmax(1.0, area ? shrink / 2.0 : shrink);
}

int mr_preprocess_size(const mr_preprocess_params *params, const mr_format *source, int32_t *width, int32_t *height) {
    mr_preprocess plan = {.params = *params};
    const orientation o = orient(params, source);
    span x, y;
    int status = check_params(params, source);
    if (!status)
        status = apply_roi(&x, &y, params, &o);
    if (status)
        return status;
    apply_fit(&plan, &x, &y, o.aspect);
    *width = plan.params.width;
    *height = plan.params.height;
    return MR_OK;
}

mr_format mr_preprocess_output(const mr_preprocess_params *params) {
    bool channels_first = params->layout != MR_LAYOUT_NHWC;
    const int64_t channels = params->gray ? 1 : 3;
    const int64_t first[3] = {channels, params->height, params->width};
    const int64_t last[3] = {params->height, params->width, channels};
    return mr_tensor_format(params->dtype, channels_first ? MR_LAYOUT_NCHW : MR_LAYOUT_NHWC, 3,
                            channels_first ? first : last);
}

/* Source samples that the results of an axis need, from the first to the last. */
static double reach(const mr_filter *filter, bool horizontal) {
    int first = INT32_MAX, end = 0;
    if (horizontal)
        return filter->end - filter->begin;
    for (int i = 0; i < filter->count; i++) {
        int last = filter->first[i] + filter->length[i];
        first = filter->first[i] < first ? filter->first[i] : first;
        end = last > end ? last : end;
    }
    return end > first ? end - first : 0;
}

/* By nearest neighbour each result reads one sample. */
double mr_preprocess_read_bytes(const mr_preprocess *plan) {
    double bytes = 0;
    for (int p = 0; p < plan->planes; p++) {
        const plane_plan *plane = &plan->plane[p];
        const mr_filter *x = &plan->filter[plane->table][0], *y = &plan->filter[plane->table][1];
        if (plane->parts)
            bytes += plan->nearest_x ? (double)plan->columns * plan->rows * plane->parts * plane->sample_bytes
                                     : reach(x, true) * plane->step * plane->sample_bytes * reach(y, false);
    }
    return bytes;
}

size_t mr_preprocess_scratch_bytes(const mr_preprocess *plan) {
    return plan->scratch.bytes;
}
