#include "tests/support/preprocess_reference.h"

#include <math.h>

enum { LONGEST = 4096 }; /* side of a picture */

/* One display axis: the oriented region that the destination's pixels share. */
typedef struct side {
    double start, length;
    int low, high, whole, inner, offset;
} side;

typedef struct picture {
    const mr_preprocess_params *params;
    const mr_format *format;
    const mr_pixel_info *info;
    const mr_picture *source;
    side x, y;
    int turn;
    bool mirror;
} picture;

/* The source picture's. */
static int whole_width(const mr_format *f) {
    return f->reduced ? f->whole_width : f->width;
}

static int whole_height(const mr_format *f) {
    return f->reduced ? f->whole_height : f->height;
}

static double sample(const picture *p, int c, int x, int y) {
    const mr_component *component = &p->info->component[c];
    const uint8_t *at = p->source->data[component->plane] + y * p->source->stride[component->plane] +
                        x * component->step + component->offset;
    if (p->info->depth == 8)
        return *at;
    return (double)((at[0] | at[1] << 8) >> p->info->shift) / exp2(p->info->depth - 8);
}

static double kernel(const mr_preprocess_params *params, double x) {
    x = fabs(x);
    if (params->interpolation == MR_BILINEAR)
        return fmax(0.0, 1.0 - x);
    double a = params->antialias ? -0.5 : -0.75;
    if (x < 1.0)
        return (a + 2.0) * pow(x, 3) - (a + 3.0) * pow(x, 2) + 1.0;
    return x < 2.0 ? a * pow(x, 3) - 5.0 * a * pow(x, 2) + 8.0 * a * x - 4.0 * a : 0.0;
}

/* Computes each sample's weight for a destination pixel that covers from..to. Samples are low..high-1; `weight` is
 * indexed from 0. */
static void weigh(const mr_preprocess_params *params, double from, double to, int low, int high, double *weight) {
    double center = (from + to) / 2.0, step = to - from, sum = 0.0, width = fmax(step, 1.0);
    double reach = params->interpolation == MR_BICUBIC ? 2.0 : 1.0;
    for (int k = low; k < high; k++)
        weight[k] = 0.0;
    if (params->interpolation == MR_AREA) {
        for (int k = low; k < high; k++)
            weight[k] = fmax(0.0, fmin(to, k + 1) - fmax(from, k));
        if (to <= low + 1e-9)
            weight[low] = 1.0;
        if (from >= high - 1e-9)
            weight[high - 1] = 1.0;
    } else if (params->antialias) {
        /* Like Pillow, counts samples whose centre rounds into the support. */
        int begin = (int)fmax(low, floor(center - reach * width + 0.5));
        int end = (int)fmin(high, floor(center + reach * width + 0.5));
        for (int k = begin; k < end; k++)
            weight[k] = kernel(params, (k + 0.5 - center) / width);
    } else {
        for (int k = (int)floor(center - 0.5) - 2; k <= (int)floor(center - 0.5) + 3; k++)
            weight[k < low ? low : k >= high ? high - 1 : k] += kernel(params, k + 0.5 - center);
    }
    for (int k = low; k < high; k++)
        sum += weight[k];
    for (int k = low; k < high; k++)
        weight[k] /= sum;
}

/* Maps a point in the oriented picture to the stored axes. */
static void to_stored(const picture *p, double ox, double oy, double *sx, double *sy) {
    double w = whole_width(p->format), h = whole_height(p->format);
    switch (p->turn) {
    case 90: *sx = oy, *sy = h - ox; break;
    case 180: *sx = w - ox, *sy = h - oy; break;
    case 270: *sx = w - oy, *sy = ox; break;
    default: *sx = ox, *sy = oy;
    }
    if (p->mirror)
        *sx = w - *sx;
}

static void order(double *a, double *b) {
    if (*a > *b) {
        double t = *a;
        *a = *b;
        *b = t;
    }
}

/* Whole-picture pixels per sample in a plane, on each axis. */
static int pixels_wide(const picture *p, int c) {
    return 1 << (p->format->reduced + (c > 0 && !p->info->rgb ? p->info->chroma_w : 0));
}

static int pixels_high(const picture *p, int c) {
    return 1 << (p->format->reduced + (c > 0 && !p->info->rgb ? p->info->chroma_h : 0));
}

/* The stored rectangle in the whole picture that oriented x0..x1, y0..y1 comes from. */
static void stored_box(const picture *p, const double in[4], double box[4]) {
    to_stored(p, in[0], in[1], &box[0], &box[1]);
    to_stored(p, in[2], in[3], &box[2], &box[3]);
    order(&box[0], &box[2]);
    order(&box[1], &box[3]);
}

static void to_plane(const picture *p, int c, double box[4]) {
    bool chroma = c > 0 && !p->info->rgb;
    mr_siting siting = p->format->siting;
    if (siting == MR_SITING_ANY)
        siting = p->format->range == MR_RANGE_FULL ? MR_SITING_CENTER : MR_SITING_LEFT;
    /* A chroma sample at the pair's left luma sample is half a luma sample left of the pair's middle. */
    double dx = chroma && p->info->chroma_w && siting != MR_SITING_CENTER ? 0.5 : 0.0;
    double dy = chroma && p->info->chroma_h && siting == MR_SITING_TOPLEFT ? 0.5 : 0.0;
    double fx = pixels_wide(p, c), fy = pixels_high(p, c);
    box[0] = (box[0] + dx) / fx, box[2] = (box[2] + dx) / fx;
    box[1] = (box[1] + dy) / fy, box[3] = (box[3] + dy) / fy;
}

static double nearest(const picture *p, int c, int i, int j) {
    double ox = fmin(floor(p->x.start + i * (1.0 / (p->x.inner / p->x.length))), p->x.high - 1);
    double oy = fmin(floor(p->y.start + j * (1.0 / (p->y.inner / p->y.length))), p->y.high - 1);
    const double in[4] = {ox, oy, ox + 1, oy + 1};
    double box[4];
    stored_box(p, in, box);
    return sample(p, c, (int)box[0] / pixels_wide(p, c), (int)box[1] / pixels_high(p, c));
}

static double resized(const picture *p, int c, int i, int j) {
    if (p->params->interpolation == MR_NEAREST)
        return nearest(p, c, i, j);
    double stepx = p->x.length / p->x.inner, stepy = p->y.length / p->y.inner;
    const double in[4] = {p->x.start + i * stepx, p->y.start + j * stepy, p->x.start + (i + 1) * stepx,
                          p->y.start + (j + 1) * stepy};
    const double roi[4] = {p->x.low, p->y.low, p->x.high, p->y.high};
    double box[4], all[4], wx[LONGEST], wy[LONGEST], sum = 0.0;
    stored_box(p, in, box);
    stored_box(p, roi, all);
    to_plane(p, c, box);
    int fx = pixels_wide(p, c), fy = pixels_high(p, c);
    int x0 = (int)all[0] / fx, x1 = ((int)all[2] + fx - 1) / fx;
    int y0 = (int)all[1] / fy, y1 = ((int)all[3] + fy - 1) / fy;
    weigh(p->params, box[0], box[2], x0, x1, wx);
    weigh(p->params, box[1], box[3], y0, y1, wy);
    while (x0 < x1 && wx[x0] == 0.0)
        x0++;
    while (x1 > x0 && wx[x1 - 1] == 0.0)
        x1--;
    for (int y = y0; y < y1; y++)
        for (int x = x0; x < x1 && wy[y] != 0.0; x++)
            sum += wx[x] * wy[y] * sample(p, c, x, y);
    return fmin(fmax(sum, 0.0), (exp2(p->info->depth) - 1.0) / exp2(p->info->depth - 8));
}

static void colored(const picture *p, const double s[3], double rgb[3]) {
    static const double k[4][2] = {{0, 0}, {0.299, 0.114}, {0.2126, 0.0722}, {0.2627, 0.0593}};
    bool yuv = !p->info->rgb && p->info->components == 3;
    bool limited = p->format->range == MR_RANGE_LIMITED || (p->format->range == MR_RANGE_ANY && yuv);
    mr_matrix matrix = p->format->matrix;
    if (matrix == MR_MATRIX_ANY)
        matrix = whole_height(p->format) >= 720 || whole_width(p->format) >= 1280 ? MR_MATRIX_BT709 : MR_MATRIX_BT601;
    double most = (exp2(p->info->depth) - 1.0) / exp2(p->info->depth - 8), kr = k[matrix][0], kb = k[matrix][1];
    double v[3];
    for (int c = 0; c < 3; c++) {
        bool luma = c == 0 || !yuv;
        v[c] = luma ? (limited ? (s[c] - 16.0) / 219.0 : s[c] / most) : (s[c] - 128.0) / (limited ? 224.0 : most);
    }
    double r = v[0], g = v[1], b = v[2];
    if (yuv) {
        r = v[0] + 2.0 * (1.0 - kr) * v[2];
        b = v[0] + 2.0 * (1.0 - kb) * v[1];
        g = (v[0] - kr * r - kb * b) / (1.0 - kr - kb);
    }
    rgb[0] = r * 255.0, rgb[1] = g * 255.0, rgb[2] = b * 255.0;
}

static void fit(picture *p) {
    const mr_preprocess_params *q = p->params;
    double a = 1.0;
    if (q->sar && p->format->sar_num > 0 && p->format->sar_den > 0)
        a = (double)p->format->sar_num / p->format->sar_den;
    bool turned = p->turn % 180 != 0;
    if (turned)
        a = 1.0 / a;
    p->x = (side){.whole = turned ? whole_height(p->format) : whole_width(p->format), .inner = q->width};
    p->y = (side){.whole = turned ? whole_width(p->format) : whole_height(p->format), .inner = q->height};
    p->x.low = q->roi.width ? q->roi.x : 0;
    p->y.low = q->roi.width ? q->roi.y : 0;
    p->x.high = q->roi.width ? q->roi.x + q->roi.width : p->x.whole;
    p->y.high = q->roi.width ? q->roi.y + q->roi.height : p->y.whole;
    double rw = p->x.high - p->x.low, rh = p->y.high - p->y.low, w = rw, h = rh;
    if (q->fit == MR_FIT_CENTER_CROP) {
        w = q->crop_fraction * fmin(a * rw, rh * q->width / q->height) / a;
        h = q->crop_fraction * fmin(rh, a * rw * q->height / q->width);
    } else if (q->fit == MR_FIT_LETTERBOX) {
        double s = fmin(q->width / (a * rw), q->height / rh);
        double inner_width = a * rw * s, inner_height = rh * s;
        p->x.inner = (int)fmin(q->width, fmax(1, q->top_left ? floor(inner_width) : round(inner_width)));
        p->y.inner = (int)fmin(q->height, fmax(1, q->top_left ? floor(inner_height) : round(inner_height)));
    }
    p->x.start = p->x.low + (rw - w) / 2.0, p->x.length = w;
    p->y.start = p->y.low + (rh - h) / 2.0, p->y.length = h;
    p->x.offset = q->top_left ? 0 : (q->width - p->x.inner) / 2;
    p->y.offset = q->top_left ? 0 : (q->height - p->y.inner) / 2;
}

void preprocess_reference(double *out, const mr_preprocess_params *params, const mr_format *format,
                          const mr_picture *source) {
    picture p = {.params = params, .format = format, .info = mr_pixel_describe(format->pixel), .source = source};
    p.turn = params->rotate ? format->rotation : 0;
    p.mirror = params->rotate && format->flip;
    fit(&p);
    for (int j = 0; j < params->height; j++)
        for (int i = 0; i < params->width; i++) {
            int x = i - p.x.offset, y = j - p.y.offset;
            double s[3] = {0}, rgb[3] = {params->pad[0], params->pad[1], params->pad[2]};
            if (x >= 0 && x < p.x.inner && y >= 0 && y < p.y.inner) {
                for (int c = 0; c < 3; c++)
                    s[c] = resized(&p, c < p.info->components ? c : 0, x, y);
                /* Without chroma a YUV picture is luma, three times. */
                if (params->gray && !p.info->rgb && p.info->components == 3)
                    s[1] = s[2] = 128.0;
                colored(&p, s, rgb);
            }
            for (int c = 0; c < 3; c++)
                rgb[c] = fmin(255.0, fmax(0.0, rgb[c]));
            for (int c = 0; c < (params->gray ? 1 : 3); c++)
                out[((long)c * params->height + j) * params->width + i] =
                    ((params->gray ? 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2] : rgb[c]) - params->mean[c]) /
                    params->std[c];
        }
}
