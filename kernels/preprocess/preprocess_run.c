#include <string.h>

#include "kernels/preprocess/preprocess_plan.h"

_Static_assert(MR_ROWS * MR_MAX_PLANES <= MR_PREFETCH_PIECES, "each row of a batch is a piece in each plane");

/* One run: the state that every step needs. */
typedef struct run {
    const mr_preprocess *plan;
    const mr_preprocess_rows *rows;
    const mr_picture *source;
    uint8_t *dst, *scratch;
    mr_prefetch *ahead; /* rows that the next batch needs */
    int steps;       /* steps per batch, in which they are fetched */
} run;

static int16_t *samples(const run *r, size_t at) {
    return (int16_t *)(void *)(r->scratch + at);
}

static float *finished_row(const run *r, int c) {
    return (float *)(void *)(r->scratch + r->plan->scratch.finished) + (size_t)c * r->plan->scratch.finished_stride;
}

/* Whether the plane's rows and columns can be filtered in one pass. */
static bool blends(const run *r, const plane_plan *plane) {
    const mr_filter *x = &r->plan->filter[plane->table][0], *y = &r->plan->filter[plane->table][1];
    return r->rows->blend8 && plane->sample_bytes == 1 && plane->step == 1 && x->pairs.count && x->blends && y->blends;
}

/* A plane's rows that small row i + MR_ROWS needs and the row before it does not. They must be fetched a batch ahead to
 * be there in time. */
static mr_prefetched_rows rows_ahead(const run *r, const plane_plan *plane, int p, int i) {
    const mr_filter *x = &r->plan->filter[plane->table][0], *y = &r->plan->filter[plane->table][1];
    int later = i + MR_ROWS, pixel_bytes = plane->step * plane->sample_bytes;
    if (later >= y->count)
        return (mr_prefetched_rows){.rows = 0};
    int from = y->first[later], to = from + y->length[later], before = y->first[later - 1];
    int seen = before + y->length[later - 1];
    if (from >= before)
        from = from > seen ? from : seen;
    else
        to = to < before ? to : before;
    ptrdiff_t stride = r->source->stride[p];
    const uint8_t *row = r->source->data[p] + from * stride + (ptrdiff_t)x->begin * pixel_bytes;
    return (mr_prefetched_rows){(uintptr_t)row, stride, (x->end - x->begin) * pixel_bytes, to > from ? to - from : 0};
}

/* Whether a plane's rows should be fetched one after another, in both passes: if reading the picture takes longer than
 * weighing it. Area filters need about one product per sample, wider ones two or more. With few taps, the large result
 * takes the time. */
static bool is_spread(const run *r, const plane_plan *plane) {
    enum { LEAST_TAPS = 4 };
    const mr_preprocess *plan = r->plan;
    return plane->parts > 0 && plan->params.interpolation == MR_AREA && plan->filter[0][1].taps >= LEAST_TAPS &&
           !blends(r, plane);
}

/* Steps in both passes over MR_ROWS rows in the planes that are fetched so: see preprocess_rows.h. */
static int count_steps(const run *r) {
    int steps = 0;
    for (int p = 0; p < r->plan->planes; p++) {
        const plane_plan *plane = &r->plan->plane[p];
        if (!is_spread(r, plane))
            continue;
        const mr_filter *x = &r->plan->filter[plane->table][0];
        int bytes = (x->end - x->begin) * plane->step * plane->sample_bytes;
        steps += MR_ROWS * (bytes / MR_PREFETCH_LINE) + plane->parts * ((x->count + 7) / 8);
    }
    return steps;
}

/* Begins to fetch what the batch after rows i, i + 1, ... needs. */
static void look_ahead(const run *r, int i, int count) {
    mr_prefetch *ahead = r->ahead;
    if (r->steps == 0)
        return;
    ahead->pieces = 0;
    for (int p = 0; p < r->plan->planes; p++)
        for (int k = 0; k < count && is_spread(r, &r->plan->plane[p]); k++) {
            mr_prefetched_rows rows = rows_ahead(r, &r->plan->plane[p], p, i + k);
            if (rows.rows > 0)
                ahead->of[ahead->pieces++] = rows;
        }
    mr_prefetch_begin(ahead, r->steps);
}

/* Vertical pass for row i in one plane, over the columns that the horizontal pass will read. */
static void weigh_rows(const run *r, const plane_plan *plane, int p, int i, int16_t *row) {
    const mr_preprocess *plan = r->plan;
    const mr_filter *x = &plan->filter[plane->table][0], *y = &plan->filter[plane->table][1];
    ptrdiff_t stride = r->source->stride[p];
    const uint8_t *column = r->source->data[p] + (ptrdiff_t)x->begin * plane->step * plane->sample_bytes;
    const uint8_t *first = column + y->first[i] * stride;
    const int16_t *weights = y->weights + (ptrdiff_t)i * y->taps;
    /* The last pixel's samples end the row: in an interleaved layout nothing need follow them. */
    int width = (x->end - x->begin) * plane->step, shift = y->bits + plan->depth - 8 - MR_SAMPLE_BITS;
    if (!is_spread(r, plane))
        mr_prefetch_begin_columns(r->ahead, rows_ahead(r, plane, p, i));
    if (plane->sample_bytes == 1) {
        r->rows->vertical8(row, first, stride, weights, y->length[i], width, shift, r->ahead);
        return;
    }
    mr_word word = plan->word;
    word.offset = word.flip << y->bits;
    r->rows->vertical16(row, first, stride, weights, y->length[i], width, shift, word, r->ahead);
}

/* Weighs row i in one plane and splits its components if they are interleaved. */
static void weigh_and_split(const run *r, const plane_plan *plane, int p, int i, int k) {
    const scratch_plan *s = &r->plan->scratch;
    int16_t *row = samples(r, s->row) + (size_t)k * s->row_stride, *part[3] = {NULL, NULL, NULL};
    weigh_rows(r, plane, p, i, row);
    if (plane->step == 1)
        return;
    for (int c = 0; c < plane->parts; c++)
        part[c] = samples(r, s->part[c]) + (size_t)k * s->part_stride;
    const mr_filter *x = &r->plan->filter[plane->table][0];
    r->rows->split(part, row, plane->step, plane->offset, plane->parts, x->end - x->begin);
}

/* Row i in plane p's small component. */
static void blend_row(const run *r, const plane_plan *plane, int p, int i, int16_t *out) {
    const mr_preprocess *plan = r->plan;
    const mr_filter *x = &plan->filter[plane->table][0], *y = &plan->filter[plane->table][1];
    ptrdiff_t stride = r->source->stride[p];
    const uint8_t *column = r->source->data[p] + x->begin;
    r->rows->blend8(out, column + y->first[i] * stride, stride, y->weights + (ptrdiff_t)i * y->taps, y->length[i],
                    y->bits - MR_SAMPLE_BITS, x, plan->limit, rows_ahead(r, plane, p, i));
}

/* `count` small component rows: i, i + 1, ... */
static void resize_rows(const run *r, int i, int count, int16_t *const out[3]) {
    const mr_preprocess *plan = r->plan;
    const scratch_plan *s = &plan->scratch;
    for (int p = 0; p < plan->planes; p++) {
        const plane_plan *plane = &plan->plane[p];
        if (plane->parts && blends(r, plane)) {
            for (int k = 0; k < count; k++)
                blend_row(r, plane, p, i + k, out[plane->component[0]] + (size_t)k * s->line_stride);
            continue;
        }
        bool apart = plane->step > 1;
        for (int k = 0; k < count && plane->parts; k++)
            weigh_and_split(r, plane, p, i + k, k);
        for (int c = 0; c < plane->parts; c++)
            r->rows->horizontal(out[plane->component[c]], (ptrdiff_t)s->line_stride,
                                samples(r, apart ? s->part[c] : s->row),
                                (ptrdiff_t)(apart ? s->part_stride : s->row_stride), count,
                                &plan->filter[plane->table][0], plan->limit, r->ahead);
    }
}

static void pick_row(const run *r, int i, int16_t *const out[3]) {
    const mr_preprocess *plan = r->plan;
    for (int p = 0; p < plan->planes; p++) {
        const plane_plan *plane = &plan->plane[p];
        const uint8_t *row = r->source->data[p] + (plan->nearest_y[i] >> plane->shift_y) * r->source->stride[p];
        for (int c = 0; c < plane->parts; c++)
            for (int x = 0; x < plan->columns; x++)
                out[plane->component[c]][x] =
                    mr_pick(row, (plan->nearest_x[x] >> plane->shift_x) * plane->step + plane->offset[c], plan->depth,
                            plan->word);
    }
}

/* Makes the next small component rows from row i on; returns how many. */
static int make_rows(const run *r, int i, int16_t *const out[3]) {
    int left = r->plan->rows - i, count = left < MR_ROWS ? left : MR_ROWS;
    if (r->plan->params.interpolation == MR_NEAREST) {
        pick_row(r, i, out);
        return 1;
    }
    look_ahead(r, i, count);
    resize_rows(r, i, count, out);
    return count;
}

/* Interleaves three rows whose elements have one size. */
#define INTERLEAVE(name, type)                                                                                         \
    static void name(uint8_t *dst, const uint8_t *const src[3], int width) {                                           \
        type *out = (type *)(void *)dst;                                                                               \
        const type *a = (const type *)(const void *)src[0], *b = (const type *)(const void *)src[1];                   \
        const type *c = (const type *)(const void *)src[2];                                                            \
        for (int x = 0; x < width; x++) {                                                                              \
            out[3 * x] = a[x];                                                                                         \
            out[3 * x + 1] = b[x];                                                                                     \
            out[3 * x + 2] = c[x];                                                                                     \
        }                                                                                                              \
    }
INTERLEAVE(interleave8, uint8_t)
INTERLEAVE(interleave16, uint16_t)
INTERLEAVE(interleave32, uint32_t)
#undef INTERLEAVE

/* Floats -> the destination's type; `to` holds a whole row. */
static void store_as(const run *r, uint8_t *to, const float *from, int width) {
    if (r->plan->params.dtype == MR_DTYPE_U8)
        r->rows->to_u8(to, from, width);
    else if (r->plan->params.dtype == MR_DTYPE_F16)
        r->rows->to_f16((uint16_t *)(void *)to, from, width);
    else
        memcpy(to, from, (size_t)width * sizeof(float));
}

/* Writes the finished rows as destination row `y`. */
static void store_row(const run *r, int y) {
    const mr_preprocess_params *p = &r->plan->params;
    size_t element = mr_dtype_bytes(p->dtype), row_bytes = (size_t)p->width * element;
    size_t narrow_stride = r->plan->scratch.finished_stride * sizeof(float);
    const uint8_t *narrow[3];
    bool interleaved = p->layout == MR_LAYOUT_NHWC && r->plan->channels == 3;
    for (int c = 0; c < r->plan->channels; c++) {
        const float *from = finished_row(r, p->bgr ? 2 - c : c);
        uint8_t *to = r->dst + ((size_t)c * (size_t)p->height + (size_t)y) * row_bytes;
        if (interleaved)
            to = r->scratch + r->plan->scratch.narrow + (size_t)c * narrow_stride;
        store_as(r, to, from, p->width);
        narrow[c] = to;
    }
    if (!interleaved)
        return;
    uint8_t *to = r->dst + 3 * (size_t)y * row_bytes;
    if (element == 1)
        interleave8(to, narrow, p->width);
    else if (element == 2)
        interleave16(to, narrow, p->width);
    else
        interleave32(to, narrow, p->width);
}

static void fill_padding(const run *r, int from, int to) {
    for (int c = 0; c < 3; c++)
        for (int x = from; x < to; x++)
            finished_row(r, c)[x] = r->plan->pad[c];
}

/* Whether a destination row takes whole float vectors as they are, and so can be written directly. */
static bool writes_directly(const mr_preprocess *plan) {
    const mr_preprocess_params *p = &plan->params;
    return p->dtype == MR_DTYPE_F32 && p->layout == MR_LAYOUT_NCHW && plan->inner_width == p->width &&
           p->width % 16 == 0 && plan->channels == 3;
}

/* Mixes three colour rows into one luma row, the first. */
static void mix_luma(const mr_preprocess *plan, float *const row[3], int width) {
    for (int x = 0; x < width; x++)
        row[0][x] = (mr_luma(row[0][x], row[1][x], row[2][x]) - plan->gray_mean) * plan->gray_scale;
}

/* Converts one row of small samples and stores it with padding. Conversion works on whole vectors and can write past
 * the end, so the right padding must come after it. */
static void finish_row(const run *r, int y, int16_t *const small[3]) {
    const mr_preprocess *plan = r->plan;
    bool gray = plan->components == 1;
    const int16_t *const src[3] = {small[0], gray ? small[0] : small[1], gray ? small[0] : small[2]};
    float *out[3];
    bool directly = writes_directly(plan);
    for (size_t c = 0; c < 3; c++) {
        size_t plane = plan->params.bgr ? 2 - c : c, row = (size_t)(plan->inner_y + y);
        size_t width = (size_t)plan->params.width;
        out[c] = directly ? (float *)(void *)r->dst + (plane * (size_t)plan->params.height + row) * width
                          : finished_row(r, (int)c) + plan->inner_x;
    }
    r->rows->convert(out, src, &plan->color, plan->inner_width);
    if (directly)
        return;
    if (plan->channels == 1 && !gray)
        mix_luma(plan, out, plan->inner_width);
    fill_padding(r, plan->inner_x + plan->inner_width, plan->params.width);
    store_row(r, plan->inner_y + y);
}

static void run_rows(const run *r) {
    int16_t *small[3], *row[3];
    for (int c = 0; c < 3; c++)
        small[c] = samples(r, r->plan->scratch.small[c]);
    for (int y = 0, count; y < r->plan->rows; y += count) {
        count = make_rows(r, y, small);
        for (int k = 0; k < count; k++) {
            for (int c = 0; c < 3; c++)
                row[c] = small[c] + (size_t)k * r->plan->scratch.line_stride;
            finish_row(r, y + k, row);
        }
    }
}

/* Resized rows become columns. */
static void transpose(const run *r, int i, int count, int16_t *const line[3]) {
    const mr_preprocess *plan = r->plan;
    for (int c = 0; c < plan->components; c++)
        for (int k = 0; k < count; k++) {
            const int16_t *from = line[c] + (size_t)k * plan->scratch.line_stride;
            int16_t *column = samples(r, plan->scratch.small[c]) + i + k;
            for (int x = 0; x < plan->columns; x++)
                column[(ptrdiff_t)x * plan->stride] = from[x];
        }
}

/* A quarter turn: resizes the planes as stored, and turns the small ones before the rest. */
static void run_transposed(const run *r) {
    const mr_preprocess *plan = r->plan;
    int16_t *line[3], *small[3];
    for (int c = 0; c < 3; c++)
        line[c] = samples(r, plan->scratch.line[c]);
    for (int i = 0, count; i < plan->rows; i += count) {
        count = make_rows(r, i, line);
        transpose(r, i, count, line);
    }
    for (int y = 0; y < plan->columns; y++) {
        for (int c = 0; c < 3; c++)
            small[c] = samples(r, plan->scratch.small[c]) + (ptrdiff_t)y * plan->stride;
        finish_row(r, y, small);
    }
}

static void store_bars(const run *r) {
    const mr_preprocess *plan = r->plan;
    for (int y = 0; y < plan->inner_y; y++)
        store_row(r, y);
    for (int y = plan->inner_y + plan->inner_height; y < plan->params.height; y++)
        store_row(r, y);
}

static void run_all(const mr_preprocess *plan, const mr_preprocess_rows *rows, const mr_picture *source, void *dst,
                    void *scratch, bool bars) {
    mr_prefetch ahead = {0};
    run r = {.plan = plan, .rows = rows, .source = source, .dst = dst, .scratch = scratch, .ahead = &ahead};
    r.steps = plan->params.interpolation == MR_NEAREST ? 0 : count_steps(&r);
    fill_padding(&r, 0, plan->params.width);
    if (bars)
        store_bars(&r);
    if (plan->transposed)
        run_transposed(&r);
    else
        run_rows(&r);
}

void mr_preprocess_run(const mr_preprocess *plan, const mr_preprocess_rows *rows, const mr_picture *source, void *dst,
                       void *scratch) {
    run_all(plan, rows, source, dst, scratch, true);
}

void mr_preprocess_run_inside(const mr_preprocess *plan, const mr_preprocess_rows *rows, const mr_picture *source,
                              void *dst, void *scratch) {
    run_all(plan, rows, source, dst, scratch, false);
}
