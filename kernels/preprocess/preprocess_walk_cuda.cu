/* preprocess in CUDA for 8-bit YUV: see preprocess_walk.h for how source rows are walked down, and preprocess_grid.h
 * for tiles. Planes, result type and layout are known when this is compiled. It needs no divisions, and whatever a
 * variable indexes must be in tables.
 *
 * Between the passes a pair of neighbouring samples is one word in block memory, low bytes first, then high bytes: two
 * instructions can multiply it with a pair of 16-bit weights. Interleaved U and V have interleaved pairs. */
#include "kernels/preprocess/preprocess_walk_cuda.h"


__device__ static inline uint4 load_four(const void *from) {
    return *(const uint4 *)from;
}

/* ---- down -------------------------------------------------------------------------------------------------------- */

/* What a thread walks: some columns in one plane. */
typedef struct walker {
    const mr_walk_step *steps;     /* the walk's head */
    const uint8_t *top;            /* its columns in the plane's first row */
    ptrdiff_t lower;               /* bytes from the upper to the lower row of a step: 0 where there is only one */
    int32_t stride, valid;         /* valid: bytes from the first column to the row's end */
    int32_t step;                  /* samples from pixel to pixel: 1 or 2 */
    int32_t bias, shift, pitch;
    mr_location out;                  /* its pairs in the tile's first row */
} walker;

/* Three ways to read a row's words: eight aligned bytes; four at any address, if the row has three more on both sides;
 * four where any can be missing. The last two cannot be wider, since there are too few registers. */
template <int STEP> struct aligned {
    enum { WORDS = 2 };
    __device__ static int step(const walker *) { return STEP; }
    __device__ static void load(const walker *, const uint8_t *at, uint32_t word[WORDS]) {
        const uint2 both = __ldcs((const uint2 *)(const void *)at);
        word[0] = both.x;
        word[1] = both.y;
    }
};

struct unaligned {
    enum { WORDS = 1 };
    __device__ static int step(const walker *w) { return w->step; }
    __device__ static void load(const walker *, const uint8_t *at, uint32_t word[WORDS]) {
        word[0] = mr_load_word(at);
    }
};

struct at_edge {
    enum { WORDS = 1 };
    __device__ static int step(const walker *w) { return w->step; }
    __device__ static void load(const walker *w, const uint8_t *at, uint32_t word[WORDS]) {
        word[0] = 0;
#pragma unroll 1
        for (int k = 0; k < 4 && k < w->valid; k++)
            word[0] |= (uint32_t)at[k] << 8 * k;
    }
};

template <typename LOAD> struct two_rows {
    uint32_t upper[LOAD::WORDS], lower[LOAD::WORDS];
};

template <typename LOAD> struct column_sums {
    int32_t of[MR_WALK_SLOTS][4 * LOAD::WORDS];
};

template <typename LOAD>
__device__ static inline void load_rows(const walker *w, uint32_t row, two_rows<LOAD> *rows) {
    const uint8_t *upper = mr_row(w->top, row, w->stride);
    LOAD::load(w, upper, rows->upper);
    LOAD::load(w, upper + w->lower, rows->lower);
}

/* Two sums as a sample pair. */
__device__ static inline uint32_t pair_of(const walker *w, const int32_t sum[2]) {
    return __byte_perm((uint32_t)(sum[0] >> w->shift), (uint32_t)(sum[1] >> w->shift), 0x5140);
}

/* The samples of a finished row, and the sums made ready for the next one. */
template <typename LOAD>
__device__ static inline void leave_row(const walker *w, int row, int32_t sum[4 * LOAD::WORDS]) {
    mr_location to = mr_place_at(w->out, row * w->pitch);
    if (LOAD::WORDS == 2)
        mr_put_four(to, uint4{pair_of(w, sum), pair_of(w, sum + 2), pair_of(w, sum + 4 * (LOAD::WORDS - 1)),
                              pair_of(w, sum + 4 * (LOAD::WORDS - 1) + 2)});
    else
        mr_put_two(to, uint2{pair_of(w, sum), pair_of(w, sum + 2)});
#pragma unroll
    for (int k = 0; k < 4 * LOAD::WORDS; k++)
        sum[k] = w->bias;
}

/* Does one step with `rows` and loads the rows for the step after the next, `ahead`. Returns whether there is another
 * step. */
template <typename LOAD>
__device__ static inline bool take_step(const walker *w, const mr_walk_step *from, const two_rows<LOAD> *rows,
                                        two_rows<LOAD> *ahead, column_sums<LOAD> *sum) {
    const uint4 step = load_four(from);
    const uint32_t weights[MR_WALK_SLOTS] = {step.y, step.z, step.w};
    uint32_t bytes[2 * LOAD::WORDS];
#pragma unroll
    for (int k = 0; k < LOAD::WORDS; k++) {
        /* Columns 0 and 1 in both rows, then 2 and 3; for U and V the U columns first. */
        bytes[2 * k] = __byte_perm(rows->upper[k], rows->lower[k], LOAD::step(w) == 1 ? 0x5140 : 0x6240);
        bytes[2 * k + 1] = __byte_perm(rows->upper[k], rows->lower[k], LOAD::step(w) == 1 ? 0x7362 : 0x7351);
    }
    load_rows<LOAD>(w, step.x & MR_WALK_ROW_MASK, ahead);
#pragma unroll
    for (int slot = 0; slot < MR_WALK_SLOTS; slot++)
#pragma unroll
        for (int k = 0; k < 2 * LOAD::WORDS; k++) {
            int32_t *two = &sum->of[slot][2 * k];
            two[0] = mr_dot_low(weights[slot], bytes[k], two[0]);
            two[1] = mr_dot_high(weights[slot], bytes[k], two[1]);
        }
    if (step.x & MR_WALK_ANY_DONE) {
#pragma unroll
        for (int slot = 0; slot < MR_WALK_SLOTS; slot++) {
            uint32_t done = step.x >> (MR_WALK_DONE + MR_WALK_FIELD * slot);
            if (done & MR_WALK_IS_DONE)
                leave_row<LOAD>(w, done & (MR_WALK_ROWS - 1), sum->of[slot]);
        }
    }
    return (step.x & MR_WALK_LAST) == 0;
}

template <typename LOAD>
__device__ static inline void walk_down(const walker *w) {
    const uint4 head = load_four(w->steps);
    const mr_walk_step *step = w->steps + 1;
    /* Three take turns, so that loaded rows need not move. */
    two_rows<LOAD> first, second, third;
    column_sums<LOAD> sum;
    load_rows<LOAD>(w, head.y, &first);
    load_rows<LOAD>(w, head.z, &second);
#pragma unroll
    for (int slot = 0; slot < MR_WALK_SLOTS; slot++)
#pragma unroll
        for (int k = 0; k < 4 * LOAD::WORDS; k++)
            sum.of[slot][k] = w->bias;
#pragma unroll 1
    for (;; step += 3) {
        if (!take_step<LOAD>(w, step, &first, &third, &sum))
            break;
        if (!take_step<LOAD>(w, step + 1, &second, &first, &sum))
            break;
        if (!take_step<LOAD>(w, step + 2, &third, &second, &sum))
            break;
    }
}

/* Handles eight columns at any address, four at a time. */
__device__ static inline void walk_halves(walker *w, int column) {
#pragma unroll 1
    for (int half = 0; half < 2; half++) {
        if (column >= 3 && w->valid >= 4 + 3)
            walk_down<unaligned>(w);
        else
            walk_down<at_edge>(w);
        column += 4;
        w->valid -= 4;
        w->top += 4;
        w->out = mr_place_at(w->out, 2);
    }
}

/* A tile's plane P, a thread with its columns. */
template <int P, int STEP>
__device__ static inline void weigh_plane(const mr_preprocess_grid &grid, const mr_picture *source, uint32_t *room) {
    const mr_walk_plane *plane = &grid.walked[P];
    const int item = ((int)threadIdx.x - plane->jobs_begin) & (MR_GRID_THREADS - 1);
    mr_location out = mr_place_of(room + (uint32_t)plane->at / 4 + MR_WALK_SAMPLES / 2 * item);
    /* Must read the end each time: otherwise it would take a register that a walk needs. */
#pragma unroll 1
    for (int column = plane->start[blockIdx.x] + MR_WALK_SAMPLES * item; column < plane->end[blockIdx.x];
         column += MR_WALK_SAMPLES * MR_GRID_THREADS, out = mr_place_at(out, MR_WALK_SAMPLES / 2 * MR_GRID_THREADS)) {
        walker w;
        w.stride = (int32_t)source->stride[P];
        w.valid = plane->width - column;
        w.top = source->data[P] + column;
        w.lower = (ptrdiff_t)plane->lower * w.stride;
        w.steps = plane->steps + plane->begin[blockIdx.y];
        w.step = STEP;
        w.shift = plane->shift;
        w.bias = plane->bias;
        w.pitch = (int32_t)((uint32_t)plane->row_bytes / 4);
        w.out = out;
        const uint32_t bits = (uint32_t)(uintptr_t)source->data[P] | (uint32_t)w.stride;
        if ((bits & 7) != 0 || w.valid < MR_WALK_SAMPLES)
            walk_halves(&w, column);
        else
            walk_down<aligned<STEP>>(&w);
    }
}

/* ---- along ------------------------------------------------------------------------------------------------------- */

enum { ROWS = MR_WALK_PAIR_ROWS };

/* PARTS: 1, or 2 where U and V pairs take turns. Low and high byte sums for two columns in some rows. */
template <int PARTS> struct sums {
    int32_t low[PARTS][ROWS][2], high[PARTS][ROWS][2];
};

template <int PARTS>
__device__ static inline void add_pair(sums<PARTS> *s, int part, int row, int column, uint32_t weights, uint32_t pair) {
    s->low[part][row][column] = mr_dot_low(weights, pair, s->low[part][row][column]);
    s->high[part][row][column] = mr_dot_signed(weights, pair, s->high[part][row][column]);
}

/* Adds N weight pairs from a vector's start, and advances past them. */
template <int PARTS, int N>
__device__ static inline void add_pairs(const mr_walk_plane *plane, sums<PARTS> *s, const uint8_t **weights,
                                        const uint8_t *from[2]) {
#pragma unroll
    for (int column = 0; column < 2; column++) {
        const uint4 four = load_four(*weights + column * plane->pitch);
        const uint32_t weight[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int row = 0; row < ROWS; row++)
#pragma unroll
            for (int k = 0; k < N * PARTS; k += 2) {
                const uint2 two = *(const uint2 *)(const void *)(from[column] + row * plane->row_bytes + 4 * k);
                add_pair<PARTS>(s, 0, row, column, weight[k / PARTS], two.x);
                add_pair<PARTS>(s, PARTS - 1, row, column, weight[(k + 1) / PARTS], two.y);
            }
        from[column] += 4 * N * PARTS;
    }
    *weights += sizeof(uint4);
}

/* The vector that is not whole. Pairs of one part lie in even numbers. */
template <int PARTS>
__device__ static inline void add_head(const mr_walk_plane *plane, sums<PARTS> *s, const uint8_t **weights,
                                       const uint8_t *from[2]) {
    if (plane->head == 2)
        add_pairs<PARTS, 2>(plane, s, weights, from);
    else if (PARTS == 1 || plane->head == 4)
        add_pairs<PARTS, 4>(plane, s, weights, from);
    else if (plane->head == 3)
        add_pairs<PARTS, PARTS == 2 ? 3 : 4>(plane, s, weights, from);
    else
        add_pairs<PARTS, PARTS == 2 ? 1 : 4>(plane, s, weights, from);
}

/* Samples for two columns, PARTS components from `which` on, in ROWS rows from tile row `row` on. */
template <int PARTS>
__device__ static inline void weigh_pair(const mr_walk_plane *plane, int which, int column, int row,
                                         const uint8_t *room, int32_t sample[3][ROWS][2]) {
    const uint2 at = *(const uint2 *)(const void *)(plane->from + column);
    const uint8_t *weights = (const uint8_t *)plane->weights + column * plane->pitch;
    const uint8_t *line = room + row * plane->row_bytes, *from[2] = {line + (int32_t)at.x, line + (int32_t)at.y};
    sums<PARTS> s;
#pragma unroll
    for (int i = 0; i < PARTS * ROWS * 2; i++) {
        s.low[i / (2 * ROWS)][i / 2 % ROWS][i % 2] = plane->half;
        s.high[i / (2 * ROWS)][i / 2 % ROWS][i % 2] = 0;
    }
    add_head<PARTS>(plane, &s, &weights, from);
#pragma unroll 1
    for (int left = plane->wholes; left > 0; left--)
        add_pairs<PARTS, 4>(plane, &s, &weights, from);
#pragma unroll
    for (int i = 0; i < PARTS * ROWS * 2; i++) {
        const int part = i / (2 * ROWS), r = i / 2 % ROWS, c = i % 2;
        int32_t value = (int32_t)((uint32_t)s.high[part][r][c] << 8) + s.low[part][r][c];
        sample[which + part][r][c] = value >> plane->bits;
    }
}

/* Filters with negative weights can leave the sample range, so samples must be clamped. */
__device__ static inline void hold_samples(int32_t limit, int32_t sample[3][ROWS][2]) {
#pragma unroll
    for (int i = 0; i < 3 * ROWS * 2; i++) {
        const int part = i / (2 * ROWS), center = part > 0 ? MR_SAMPLE_CENTER : 0;
        int32_t *one = &sample[part][i / 2 % ROWS][i % 2];
        *one = min(max(*one, -center), limit - center);
    }
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

template <mr_dtype DTYPE> struct element {
    typedef float type;
    typedef uint2 two;
    __device__ static type from(float value) { return value; }
};
template <> struct element<MR_DTYPE_F16> {
    typedef uint16_t type;
    typedef uint32_t two;
    __device__ static type from(float value) { return mr_float_to_half(value); }
};
template <> struct element<MR_DTYPE_U8> {
    typedef uint8_t type;
    typedef uint16_t two;
    __device__ static type from(float value) { return mr_float_to_u8(value); }
};

/* Two neighbouring destination elements at once. */
template <mr_dtype DTYPE>
__device__ static inline void store_two(typename element<DTYPE>::type *to, float first, float second) {
    if (DTYPE == MR_DTYPE_F32) {
        *(uint2 *)(void *)to = uint2{__float_as_uint(first), __float_as_uint(second)};
    } else if (DTYPE == MR_DTYPE_F16) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
        uint32_t both;
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
        *(uint32_t *)(void *)to = both;
#else
        *(uint32_t *)(void *)to = (uint32_t)mr_float_to_half(first) | (uint32_t)mr_float_to_half(second) << 16;
#endif
    } else {
        *(uint16_t *)(void *)to = (uint16_t)(mr_float_to_u8(first) | mr_float_to_u8(second) << 8);
    }
}

/* Elements before a pixel, in one channel plane or in all. */
template <mr_layout LAYOUT>
__device__ static inline uint32_t element_of(const mr_preprocess_params *p, int x, int y) {
    uint32_t pixel = (uint32_t)y * (uint32_t)p->width + (uint32_t)x;
    return LAYOUT == MR_LAYOUT_NHWC ? 3 * pixel : pixel;
}

template <mr_layout LAYOUT>
__device__ static inline int32_t channel_step(const mr_preprocess_params *p) {
    return LAYOUT == MR_LAYOUT_NHWC ? 1 : p->width * p->height;
}

/* Channel planes are written in the order R, G, B, wherever they are; a pixel's elements in memory order. */
template <mr_layout LAYOUT>
__device__ static inline void order_channels(bool bgr, float pixel[3]) {
    float first = bgr && LAYOUT == MR_LAYOUT_NHWC ? pixel[2] : pixel[0];
    pixel[2] = bgr && LAYOUT == MR_LAYOUT_NHWC ? pixel[0] : pixel[2];
    pixel[0] = first;
}

/* Two neighbouring pixels in the destination's channel order; `second`: there are two. */
template <mr_dtype DTYPE, mr_layout LAYOUT>
__device__ static inline void store_pair(typename element<DTYPE>::type *to, int32_t step, bool paired, bool second,
                                         const float a[3], const float b[3]) {
    typedef element<DTYPE> made;
    if (paired && second && LAYOUT == MR_LAYOUT_NHWC) {
        store_two<DTYPE>(to, a[0], a[1]);
        store_two<DTYPE>(to + 2, a[2], b[0]);
        store_two<DTYPE>(to + 4, b[1], b[2]);
    } else if (paired && second) {
        store_two<DTYPE>(to, a[0], b[0]);
        store_two<DTYPE>(to + step, a[1], b[1]);
        store_two<DTYPE>(to + 2 * (ptrdiff_t)step, a[2], b[2]);
    } else {
#pragma unroll
        for (int c = 0; c < 3; c++) {
            to[c * (ptrdiff_t)step] = made::from(a[c]);
            if (second)
                to[c * (ptrdiff_t)step + (LAYOUT == MR_LAYOUT_NHWC ? 3 : 1)] = made::from(b[c]);
        }
    }
}

/* Converts two columns in some rows and stores the part inside the picture; `first`: its first channel. */
template <mr_dtype DTYPE, mr_layout LAYOUT>
__device__ static inline void finish_pair(const mr_preprocess_grid &grid, typename element<DTYPE>::type *first,
                                          int column, int row, bool paired, const int32_t sample[3][ROWS][2]) {
    const mr_preprocess *plan = &grid.plan;
    typename element<DTYPE>::type *to =
        first + element_of<LAYOUT>(&plan->params, plan->inner_x + column, plan->inner_y + row);
    const int32_t step = LAYOUT == MR_LAYOUT_NHWC ? 1 : grid.channel_step;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        if (row + r >= plan->rows)
            return;
        float pixel[2][3];
#pragma unroll
        for (int c = 0; c < 2; c++) {
            mr_color_from_yuv(&plan->color, sample[0][r][c], sample[1][r][c], sample[2][r][c], pixel[c]);
            mr_color_finish(&plan->color, pixel[c]);
            order_channels<LAYOUT>(plan->params.bgr, pixel[c]);
        }
        store_pair<DTYPE, LAYOUT>(to + r * (ptrdiff_t)element_of<LAYOUT>(&plan->params, 0, 1), step, paired,
                                  column + 1 < plan->columns, pixel[0], pixel[1]);
    }
}

template <mr_dtype DTYPE, mr_layout LAYOUT>
__device__ static inline void pad_picture(const mr_preprocess_grid &grid, void *dst) {
    const mr_preprocess *plan = &grid.plan;
    const int block = ((int)blockIdx.y - grid.tiles_down) * grid.tiles_across + (int)blockIdx.x;
    const bool bgr = plan->params.bgr;
    const int32_t step = channel_step<LAYOUT>(&plan->params);
    const typename element<DTYPE>::type value[3] = {element<DTYPE>::from(bgr ? plan->pad[2] : plan->pad[0]),
                                                    element<DTYPE>::from(plan->pad[1]),
                                                    element<DTYPE>::from(bgr ? plan->pad[0] : plan->pad[2])};
    mr_fill_padding(plan, block, grid.padding_down * grid.tiles_across, [=](int x, int y) {
        typename element<DTYPE>::type *to =
            (typename element<DTYPE>::type *)dst + element_of<LAYOUT>(&plan->params, x, y);
        to[0] = value[0];
        to[step] = value[1];
        to[2 * (ptrdiff_t)step] = value[2];
    });
}

/* ---- the kernel -------------------------------------------------------------------------------------------------- */

template <int PLANES>
__device__ static inline void weigh_tile(const mr_preprocess_grid &grid, const mr_picture *source, uint32_t *room) {
    weigh_plane<0, 1>(grid, source, room);
    weigh_plane<1, PLANES == 2 ? 2 : 1>(grid, source, room);
    if (PLANES == 3)
        weigh_plane<PLANES - 1, 1>(grid, source, room);
}

/* Block x, y in picture z. */
template <int PLANES, mr_dtype DTYPE, mr_layout LAYOUT>
__global__ static void __launch_bounds__(MR_GRID_THREADS, 8) walk(const __grid_constant__ mr_preprocess_grid grid,
                                                                        const __grid_constant__ mr_pictures pictures) {
    MR_DYNAMIC_SHARED(uint4, memory);
    uint32_t *const room = (uint32_t *)(void *)memory;
    void *const dst = pictures.dst[blockIdx.z];
    if ((int)blockIdx.y >= grid.tiles_down) {
        pad_picture<DTYPE, LAYOUT>(grid, dst);
        return;
    }
    weigh_tile<PLANES>(grid, &pictures.source[blockIdx.z], room);
    __syncthreads();
    const bool paired = grid.paired && ((uintptr_t)dst & (sizeof(typename element<DTYPE>::two) - 1)) == 0;
    typename element<DTYPE>::type *const first =
        (typename element<DTYPE>::type *)dst + (LAYOUT == MR_LAYOUT_NCHW ? grid.first_channel : 0);
    const uint8_t *const bytes = (const uint8_t *)room;
    const int pairs = grid.tile_columns / 2;
    for (int item = (int)threadIdx.x; item < pairs * (MR_WALK_ROWS / ROWS); item += MR_GRID_THREADS) {
        int line = (int)__umulhi((uint32_t)item, grid.per_pair), row = line * ROWS;
        int column = (int)blockIdx.x * grid.tile_columns + 2 * (item - line * pairs);
        if (column >= grid.plan.columns || (int)blockIdx.y * MR_WALK_ROWS + row >= grid.plan.rows)
            continue;
        int32_t sample[3][ROWS][2];
        weigh_pair<1>(&grid.walked[0], 0, column, row, bytes, sample);
        if (PLANES == 2) {
            weigh_pair<2>(&grid.walked[1], 1, column, row, bytes, sample);
        } else {
            weigh_pair<1>(&grid.walked[1], 1, column, row, bytes, sample);
            weigh_pair<1>(&grid.walked[2], 2, column, row, bytes, sample);
        }
        if (grid.held)
            hold_samples(grid.plan.limit, sample);
        finish_pair<DTYPE, LAYOUT>(grid, first, column, (int)blockIdx.y * MR_WALK_ROWS + row, paired, sample);
    }
}

template <int PLANES, mr_dtype DTYPE>
static void launch_layout(const mr_preprocess_grid *grid, const mr_pictures *pictures, int count, void *stream) {
    const dim3 blocks((unsigned)grid->tiles_across, (unsigned)(grid->tiles_down + grid->padding_down), (unsigned)count);
    if (grid->plan.params.layout == MR_LAYOUT_NHWC)
        MR_LAUNCH((walk<PLANES, DTYPE, MR_LAYOUT_NHWC>), blocks, MR_GRID_THREADS, (size_t)grid->shared_bytes, stream,
                  *grid, *pictures);
    else
        MR_LAUNCH((walk<PLANES, DTYPE, MR_LAYOUT_NCHW>), blocks, MR_GRID_THREADS, (size_t)grid->shared_bytes, stream,
                  *grid, *pictures);
}

template <int PLANES>
static void launch_type(const mr_preprocess_grid *grid, const mr_pictures *pictures, int count, void *stream) {
    if (grid->plan.params.dtype == MR_DTYPE_U8)
        launch_layout<PLANES, MR_DTYPE_U8>(grid, pictures, count, stream);
    else if (grid->plan.params.dtype == MR_DTYPE_F16)
        launch_layout<PLANES, MR_DTYPE_F16>(grid, pictures, count, stream);
    else
        launch_layout<PLANES, MR_DTYPE_F32>(grid, pictures, count, stream);
}

void mr_preprocess_launch_walk(const mr_preprocess_grid *grid, const mr_pictures *pictures, int count, void *stream) {
    if (grid->plan.planes == 2)
        launch_type<2>(grid, pictures, count, stream);
    else
        launch_type<3>(grid, pictures, count, stream);
}
