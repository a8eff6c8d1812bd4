/* The preprocess kernel, on random pictures, sizes and parameters. Each variant must equal the C reference bit for bit.
 * The C reference must match the whole chain in double precision. Batches on devices must equal the C reference bit for
 * bit, too; they are skipped if there is no such device. MILLRACE_SEED repeats a run. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "millrace/status.h"
#include "tests/support/seeded.h"
#include "tests/support/suite.h"
#ifdef MILLRACE_CUDA_HOST
#include "cuda_runtime_api.h"
#endif
#include "kernels/preprocess/preprocess_enqueue.h"
#include "tests/support/on_device.h"
#include "tests/support/preprocess_reference.h"
#include "tests/support/sanitized.h"

enum {
    GUARD_BYTES = 256,
    GUARD = 0xa5,
    CASES = UNDER_TSAN(40, UNDER_ASAN(250, 800)),
    DEVICE_CASES = UNDER_TSAN(30, UNDER_ASAN(100, 300)),
    PLANAR_CASES = UNDER_TSAN(20, UNDER_ASAN(80, 200)),
    WIDE_CASES = UNDER_TSAN(4, UNDER_ASAN(12, 40)),
    BATCH = 3
};

/* Each plane has a separate allocation, so that the address sanitizer sees any read past the end. */
typedef struct made {
    mr_picture picture;
    uint8_t *block[MR_MAX_PLANES];
    size_t bytes[MR_MAX_PLANES], row_bytes[MR_MAX_PLANES];
} made;

static void make_picture(made *m, const mr_format *format) {
    const mr_pixel_info *info = mr_pixel_describe(format->pixel);
    bool smooth = draw() % 2, even = draw() % 2; /* even: rows begin at multiples of a word */
    memset(m, 0, sizeof *m);
    for (int p = 0; p < info->planes; p++) {
        size_t row = mr_plane_row_bytes(format->pixel, p, format->width), pad = (size_t)between(0, 40);
        size_t rows = (size_t)mr_plane_rows(format->pixel, p, format->height);
        if (info->depth > 8)
            pad = pad / 2 * 2;
        m->row_bytes[p] = row;
        if (even)
            pad = (row + pad + 7) / 8 * 8 - row;
        m->bytes[p] = (row + pad) * (rows - 1) + row;
        m->block[p] = malloc(m->bytes[p]);
        for (size_t i = 0; i < m->bytes[p]; i++)
            m->block[p][i] = (uint8_t)(smooth ? i / (row + pad) * 3 + i % (row + pad) : draw());
        if (info->depth > 8 && info->shift == 0)
            for (size_t i = 1; i < m->bytes[p]; i += 2)
                m->block[p][i] &= (uint8_t)((1 << (info->depth - 8)) - 1);
        m->picture.data[p] = m->block[p];
        m->picture.stride[p] = (ptrdiff_t)(row + pad);
    }
}

/* Overwrites the padding between rows, which must not matter. */
static void spoil_padding(made *m) {
    for (int p = 0; p < MR_MAX_PLANES && m->block[p]; p++)
        for (size_t i = 0; i < m->bytes[p]; i++)
            if (i % (size_t)m->picture.stride[p] >= m->row_bytes[p])
                m->block[p][i] = (uint8_t)draw();
}

static void free_picture(made *m) {
    for (int p = 0; p < MR_MAX_PLANES; p++)
        free(m->block[p]);
}

/* Draws a whole size that can give f's size at f's scale. */
static void draw_whole(mr_format *f) {
    f->whole_width = (f->width << f->reduced) - between(0, (1 << f->reduced) - 1);
    f->whole_height = (f->height << f->reduced) - between(0, (1 << f->reduced) - 1);
}

static mr_format draw_format(void) {
    static const int16_t turns[] = {0, 0, 90, 180, 270};
    mr_format f = {.payload = MR_PAYLOAD_PICTURE, .pixel = (mr_pixel)between(1, MR_PIXEL_COUNT - 1)};
    int side = draw() % 16 ? 90 : 700;
    f.width = between(1, side);
    f.height = between(1, side);
    f.matrix = (mr_matrix)between(0, 3);
    f.range = (mr_range)between(0, 2);
    f.siting = (mr_siting)between(0, 3);
    if (draw() % 2) {
        f.sar_num = between(0, 20);
        f.sar_den = between(0, 20);
    }
    f.rotation = turns[between(0, 4)];
    f.flip = draw() % 2;
    if (draw() % 4 == 0) {
        f.reduced = (uint8_t)between(1, MR_PREPROCESS_MOST_REDUCED);
        draw_whole(&f);
    }
    return f;
}

static void draw_roi(mr_preprocess_params *p, const mr_format *f) {
    bool turned = p->rotate && f->rotation % 180 != 0;
    int stored_width = f->reduced ? f->whole_width : f->width, stored_height = f->reduced ? f->whole_height : f->height;
    int width = turned ? stored_height : stored_width, height = turned ? stored_width : stored_height;
    p->roi.x = between(0, width - 1);
    p->roi.y = between(0, height - 1);
    p->roi.width = between(1, width - p->roi.x);
    p->roi.height = between(1, height - p->roi.y);
}

static mr_preprocess_params draw_params(const mr_format *f) {
    mr_preprocess_params p = {.width = between(1, 50), .height = between(1, 50), .crop_fraction = 1.0};
    if (draw() % 4 == 0)
        p.width = 16 * between(1, 3); /* whole vectors */
    p.fit = (mr_fit)between(0, 2);
    if (p.fit == MR_FIT_CENTER_CROP)
        p.crop_fraction = between(1, 100) / 100.0;
    p.top_left = draw() % 2;
    p.interpolation = (mr_interpolation)between(0, 3);
    p.antialias = draw() % 2;
    p.rotate = draw() % 4 != 0;
    p.sar = draw() % 2;
    p.bgr = draw() % 2;
    p.gray = draw() % 4 == 0;
    p.dtype = (mr_dtype)between(MR_DTYPE_U8, MR_DTYPE_F32);
    p.layout = draw() % 2 ? MR_LAYOUT_NCHW : MR_LAYOUT_NHWC;
    for (int c = 0; c < 3; c++) {
        p.pad[c] = between(0, 255);
        p.mean[c] = p.dtype == MR_DTYPE_U8 ? 0.0 : between(0, 255);
        p.std[c] = p.dtype == MR_DTYPE_U8 ? 1.0 : between(1, 255);
    }
    if (draw() % 3 == 0)
        draw_roi(&p, f);
    return p;
}

/* Row operation tables: one for each instruction set that this processor has, and AVX-512 without VNNI. The first is
 * the C reference. */
static mr_preprocess_rows tables[MR_ISA_COUNT + 1];
static int table_count;

static int draw_up_tables(void **state) {
    for (int isa = MR_ISA_C; isa <= (int)mr_isa_detect(); isa++) {
        mr_preprocess_rows_init(&tables[table_count], (mr_isa)isa);
        table_count += (int)tables[table_count].isa == isa; /* not those of other kinds of processor */
    }
    assert_int_equal(tables[table_count - 1].isa, mr_isa_detect());
#if defined(__x86_64__)
    if (mr_isa_detect() == MR_ISA_AVX512) {
        mr_preprocess_rows_init(&tables[table_count], MR_ISA_AVX512);
        mr_preprocess_rows_fill_avx512(&tables[table_count++]);
    }
#endif
    return 0;
}

/* Runs one table's variant into guarded, poisoned memory. The caller must free the result. */
static uint8_t *run_variant(const mr_preprocess *plan, int table, const mr_picture *picture, size_t bytes) {
    size_t scratch_bytes = (mr_preprocess_scratch_bytes(plan) + 63) / 64 * 64;
    uint8_t *dst = malloc(bytes + 2 * GUARD_BYTES), *scratch = aligned_alloc(64, scratch_bytes);
    memset(dst, GUARD, bytes + 2 * GUARD_BYTES);
    memset(scratch, 0x7b, scratch_bytes);
    mr_preprocess_run(plan, &tables[table], picture, dst + GUARD_BYTES, scratch);
    for (size_t i = 0; i < GUARD_BYTES; i++) {
        assert_int_equal(dst[i], GUARD);
        assert_int_equal(dst[GUARD_BYTES + bytes + i], GUARD);
    }
    free(scratch);
    return dst;
}

static double half_value(uint16_t half) {
    int exponent = half >> 10 & 31, mantissa = half & 1023;
    double value = exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
    return half & 0x8000 ? -value : value;
}

static double element(const uint8_t *dst, mr_dtype dtype, size_t i) {
    float single;
    uint16_t half;
    if (dtype == MR_DTYPE_U8)
        return dst[i];
    if (dtype == MR_DTYPE_F16) {
        memcpy(&half, dst + 2 * i, 2);
        return half_value(half);
    }
    memcpy(&single, dst + 4 * i, 4);
    return single;
}

/* A sample must be within 1/32 code of the exact weighted mean, in luma and in each chroma. The steepest matrix adds
 * these up to (1.17 + 2.15) / 32 codes. f16 adds half a unit in 11 bits; u8 adds rounding. */
static double tolerance(const mr_preprocess_params *p, double value, int c) {
    double codes = (1.17 + 2.15) / 32.0;
    if (p->dtype == MR_DTYPE_U8)
        return codes + 0.5;
    return codes / p->std[c] + (p->dtype == MR_DTYPE_F16 ? fabs(value) / 2048.0 + 1e-7 : 1e-5 * (1.0 + fabs(value)));
}

static double compare(const uint8_t *dst, const double *exact, const mr_preprocess_params *p) {
    double worst = 0.0;
    size_t channels = p->gray ? 1 : 3;
    for (int c = 0; c < (int)channels; c++)
        for (int y = 0; y < p->height; y++)
            for (int x = 0; x < p->width; x++) {
                size_t channel = (size_t)(p->bgr && !p->gray ? 2 - c : c), row = (size_t)y, column = (size_t)x;
                size_t at = p->layout == MR_LAYOUT_NCHW
                                ? (channel * (size_t)p->height + row) * (size_t)p->width + column
                                : (row * (size_t)p->width + column) * channels + channel;
                double want = exact[((size_t)c * (size_t)p->height + row) * (size_t)p->width + column];
                double error = fabs(element(dst, p->dtype, at) - want);
                if (error > tolerance(p, want, c))
                    fail_msg("pixel %d,%d channel %d: %g instead of %g", x, y, c, element(dst, p->dtype, at), want);
                worst = fmax(worst, (error - (p->dtype == MR_DTYPE_U8 ? 0.5 : 0.0)) * p->std[c]);
            }
    return worst;
}

static int current;
static bool finished = true; /* the last test that draws cases succeeded */
static mr_preprocess_params current_params;
static mr_format current_format;

/* Tear-down for tests that draw cases. Prints the failed case. */
static int describe_failure(void **state __attribute__((unused))) {
    const mr_preprocess_params *p = &current_params;
    const mr_format *f = &current_format;
    if (finished)
        return 0;
    fprintf(stderr,
            "case %d of seed %llu: %s %dx%d matrix %d range %d siting %d sar %d/%d turn %d flip %d -> %dx%d fit %d "
            "crop %g "
            "roi %d,%d %dx%d interpolation %d antialias %d rotate %d sar %d dtype %d gray %d reduced %d of %dx%d\n",
            current, (unsigned long long)seed, mr_pixel_describe(f->pixel)->name, f->width, f->height, f->matrix,
            f->range, f->siting, f->sar_num, f->sar_den, f->rotation, f->flip, p->width, p->height, p->fit,
            p->crop_fraction, p->roi.x, p->roi.y, p->roi.width, p->roi.height, p->interpolation, p->antialias,
            p->rotate, p->sar, p->dtype, p->gray, f->reduced, f->whole_width, f->whole_height);
    return 0;
}

static double check_case(const mr_preprocess_params *p, const mr_format *f, made *m) {
    mr_preprocess *plan = NULL;
    assert_int_equal(mr_preprocess_create(&plan, p, f), MR_OK);
    mr_format output = mr_preprocess_output(p);
    size_t bytes = mr_tensor_bytes(&output);
    uint8_t *reference = run_variant(plan, 0, &m->picture, bytes);
    for (int table = 1; table < table_count; table++) {
        spoil_padding(m);
        FREED uint8_t *dst = run_variant(plan, table, &m->picture, bytes);
        if (memcmp(dst, reference, bytes + 2 * GUARD_BYTES) != 0)
            fail_msg("table %d (%s) differs from c", table, mr_isa_name(tables[table].isa));
    }
    double *exact = malloc(3 * (size_t)p->width * (size_t)p->height * sizeof *exact);
    preprocess_reference(exact, p, f, &m->picture);
    double worst = compare(reference + GUARD_BYTES, exact, p);
    free(exact);
    free(reference);
    mr_preprocess_destroy(&plan);
    return worst;
}

/* ---- rows of a plane --------------------------------------------------------------------------------------------- */

enum { WIDEST = 300, MOST_ROWS = 16, ROW_CASES = UNDER_TSAN(400, 4000) };

/* Draws three or more weights that sum to 1 << 15: one has the greatest value, another is far below zero. */
static void draw_extreme_weights(int16_t *weights, int taps) {
    const int high = between(0, taps - 1), low = (high + between(1, taps - 1)) % taps, below = between(0, 29000);
    int left = (1 << 15) - INT16_MAX + below, others = taps - 2;
    for (int t = 0; t < taps; t++) {
        if (t == high || t == low)
            continue;
        weights[t] = (int16_t)(others == 1 ? left : between(0, left / others));
        left -= weights[t];
        others--;
    }
    weights[high] = INT16_MAX;
    weights[low] = (int16_t)-below;
}

/* Draws weights that sum to 1 << bits. Two rows can have any, as in bilinear pictures; more rows have some below
 * zero. */
static void draw_weights(int16_t *weights, int taps, int bits) {
    int left = 1 << bits, most = left < INT16_MAX ? left : INT16_MAX;
    if (taps > 2 && bits == 15 && draw() % 2) {
        draw_extreme_weights(weights, taps);
        return;
    }
    if (taps == 2) {
        int first = draw() % 8 ? between(left - most, most) : draw() % 2 ? left - most : most;
        first = bits < 15 && draw() % 8 == 0 ? -between(1, 100) : first;
        weights[0] = (int16_t)first;
        weights[1] = (int16_t)(left - first);
        return;
    }
    for (int t = 0; t + 1 < taps; t++) {
        weights[t] = (int16_t)between(-left / 8 / taps, left / taps);
        left -= weights[t];
    }
    weights[taps - 1] = (int16_t)(left > INT16_MAX ? INT16_MAX : left);
}

PLAIN_TEST(rows_of_every_variant_are_equal) {
    random_state = seed;
    for (int n = 0; n < ROW_CASES; n++) {
        const int taps = n % 2 ? 2 : between(1, MOST_ROWS), width = between(1, WIDEST);
        const int bits = between(12, taps == 1 ? 14 : 15);
        int16_t weights[MOST_ROWS], dst[MR_ISA_COUNT + 1][WIDEST + 16];
        FREED uint8_t *src = malloc((size_t)(taps * width)); /* no byte after the last row */
        for (int i = 0; i < taps * width; i++)
            src[i] = draw() % 3 ? (uint8_t)draw() : draw() % 2 ? 255 : 0;
        draw_weights(weights, taps, bits);
        memset(dst, GUARD, sizeof dst);
        for (int k = 0; k < table_count; k++) {
            mr_prefetch ahead = {.pieces = 1, .of = {{(uintptr_t)src, width, width, taps}}};
            mr_prefetch_begin(&ahead, between(1, 8));
            tables[k].vertical8(dst[k], src, width, weights, taps, width, bits - 6, &ahead);
        }
        for (int k = 1; k < table_count; k++)
            if (memcmp(dst[k], dst[0], sizeof dst[k]) != 0)
                fail_msg("table %d (%s) differs from c in case %d of seed %llu: %d rows of %d, %d bits", k,
                         mr_isa_name(tables[k].isa), n, (unsigned long long)seed, taps, width, bits);
    }
}

/* Each line in each row must be fetched, and no step may go past the last row. */
PLAIN_TEST(rows_ahead_are_fetched_whole) {
    enum { MOST = 8, WIDE = 700 };
    random_state = seed;
    for (int n = 0; n < 1000; n++) {
        FREED uint8_t *plane = calloc(MOST, WIDE);
        const uintptr_t first = (uintptr_t)plane;
        const int bytes = between(1, WIDE), rows = between(1, MOST), second = between(0, rows - 1);
        mr_prefetch ahead = {.pieces = 1, .of = {{first, WIDE, bytes, rows}}};
        if (second > 0) /* the remaining rows, from the last row upwards */
            ahead = (mr_prefetch){.pieces = 2, .of = {{first, WIDE, bytes, rows - second},
                                                   {(uintptr_t)(plane + (rows - 1) * WIDE), -WIDE, bytes, second}}};
        if (n % 2)
            mr_prefetch_begin(&ahead, between(2, 200));
        else
            mr_prefetch_begin_columns(&ahead, (mr_prefetched_rows){first, WIDE, bytes, rows});
        for (int step = 0; ahead.lines > 0; step++) {
            for (int i = 0; i < ahead.lines && !(step & ahead.skip); i++) {
                const uintptr_t line = ahead.at + (uintptr_t)(i * ahead.apart);
                const ptrdiff_t from = (ptrdiff_t)(line - first), column = from % WIDE;
                for (ptrdiff_t x = column; x < column + MR_PREFETCH_LINE && x < bytes; x++)
                    plane[from / WIDE * WIDE + x]++;
                if (line + (uintptr_t)ahead.apart >= ahead.end && n % 2)
                    break; /* the remaining bytes are past the row */
            }
            mr_fetch(&ahead, step);
        }
        for (int i = 0; i < MOST * WIDE; i++)
            assert_int_equal(plane[i], i % WIDE < bytes && i / WIDE < rows);
    }
}

TEST_WITH(random_pictures, NULL, describe_failure) {
    need_no_card();
    double worst = 0.0;
    finished = false;
    for (current = 0; current < CASES; current++) {
        random_state = seed + (uint64_t)current * 7919;
        draw();
        ENDED_BY(free_picture) made m;
        current_format = draw_format();
        current_params = draw_params(&current_format);
        make_picture(&m, &current_format);
        worst = fmax(worst, check_case(&current_params, &current_format, &m));
    }
    finished = true;
    printf("seed %llu: %d pictures, variants up to %s equal, at most %.4f of a code from double precision\n",
           (unsigned long long)seed, CASES, mr_isa_name(mr_isa_detect()), worst);
}

/* Planar pictures so wide that several results share a window (windows.h), shrunk and enlarged by each filter. */
TEST_WITH(wide_pictures, NULL, describe_failure) {
    need_no_card();
    static const mr_pixel pixels[] = {MR_PIXEL_I420, MR_PIXEL_I422, MR_PIXEL_I444, MR_PIXEL_NV12};
    finished = false;
    for (current = 0; current < PLANAR_CASES; current++) {
        random_state = seed + (uint64_t)current * 32452843;
        draw();
        ENDED_BY(free_picture) made m;
        current_format = draw_format();
        current_format.pixel = pixels[current / 8 % 4];
        current_format.width = between(60, 700);
        current_format.height = draw() % 4 ? between(1, 120) : between(1, 4);
        current_format.reduced = 0;
        current_params = draw_params(&current_format);
        current_params.width = between(20, 200);
        current_params.interpolation = current % 4 ? MR_BILINEAR : MR_AREA;
        current_params.antialias = current % 4 == 1;
        if (current % 3)
            memset(&current_params.roi, 0, sizeof current_params.roi);
        make_picture(&m, &current_format);
        check_case(&current_params, &current_format, &m);
    }
    finished = true;
}

/* Pictures in one format, with the C reference's results, on the host and on a device. */
typedef struct batch {
    made picture[BATCH];
    mr_picture there[BATCH];
    uint8_t *expected[BATCH], *dst[BATCH]; /* with guards */
    mr_preprocess_work work[BATCH];
    int count;
} batch;

static void count_done(void *context) {
    ++*(int *)context;
}

static void put_batch(batch *b, on_device *d, const mr_preprocess *plan, size_t bytes, int *done) {
    FREED uint8_t *poison = malloc(bytes + 2 * GUARD_BYTES);
    memset(poison, GUARD, bytes + 2 * GUARD_BYTES);
    b->count = between(1, BATCH);
    for (int i = 0; i < b->count; i++) {
        made *m = &b->picture[i];
        make_picture(m, &current_format);
        b->expected[i] = run_variant(plan, 0, &m->picture, bytes);
        b->there[i] = m->picture;
        for (int p = 0; p < MR_MAX_PLANES && m->block[p]; p++)
            b->there[i].data[p] = on_device_put(d, m->block[p], m->bytes[p]);
        b->dst[i] = on_device_put(d, poison, bytes + 2 * GUARD_BYTES);
        b->work[i] = (mr_preprocess_work){.plan = plan, .source = b->there[i], .dst = b->dst[i] + GUARD_BYTES,
                                          .done = count_done, .context = done};
    }
}

static void take_batch(batch *b, on_device *d, size_t bytes) {
    FREED uint8_t *got = malloc(bytes + 2 * GUARD_BYTES);
    for (int i = 0; i < b->count; i++) {
        on_device_take(d, b->dst[i], got, bytes + 2 * GUARD_BYTES);
        for (size_t at = 0; at < bytes + 2 * GUARD_BYTES; at++)
            if (got[at] != b->expected[i][at])
                fail_msg("picture %d of %d: byte %zu of %zu is %d instead of %d", i, b->count, at,
                         bytes + 2 * GUARD_BYTES, got[at], b->expected[i][at]);
        for (int p = 0; p < MR_MAX_PLANES && b->picture[i].block[p]; p++)
            on_device_free(d, (void *)(uintptr_t)b->there[i].data[p]);
        free_picture(&b->picture[i]);
        free(b->expected[i]);
    }
}

/* Draws pictures in the current format and runs them with the current parameters. */
static void check_batch(on_device *d) {
    ENDED_BY(mr_preprocess_destroy) mr_preprocess *plan = NULL;
    assert_int_equal(mr_preprocess_create(&plan, &current_params, &current_format), MR_OK);
    mr_format output = mr_preprocess_output(&current_params);
    batch b = {.count = 0};
    int done = 0;
    put_batch(&b, d, plan, mr_tensor_bytes(&output), &done);
    assert_int_equal(mr_preprocess_enqueue(d->stream, b.work, b.count), MR_OK);
    on_device_finish(d);
    assert_int_equal(done, b.count);
    take_batch(&b, d, mr_tensor_bytes(&output));
}

static void random_batches(on_device *d) {
    finished = false;
    for (current = 0; current < DEVICE_CASES; current++) {
        random_state = seed + (uint64_t)current * 104729;
        draw();
        current_format = draw_format();
        current_params = draw_params(&current_format);
        check_batch(d);
    }
    finished = true;
    printf("seed %llu: %d batches equal to c\n", (unsigned long long)seed, DEVICE_CASES);
}

TEST_WITH(random_batches_sim, NULL, describe_failure) {
    need_no_card();
    on_device_test("sim:0", random_batches);
}

TEST_WITH(random_batches_cuda, NULL, describe_failure) {
    on_device_test("cuda:0", random_batches);
}

/* Pictures as decoders give them, large enough for several tiles side by side; most tiles are walked. */
static void wide_batches(on_device *d) {
    static const mr_pixel pixels[] = {MR_PIXEL_NV12, MR_PIXEL_NV12, MR_PIXEL_I420, MR_PIXEL_I422, MR_PIXEL_I444};
    finished = false;
    for (current = 0; current < WIDE_CASES; current++) {
        random_state = seed + (uint64_t)current * 15485863;
        draw();
        current_format = draw_format();
        current_format.pixel = pixels[between(0, 4)];
        current_format.width = between(200, 900);
        current_format.height = between(30, 300);
        if (current_format.reduced)
            draw_whole(&current_format);
        current_format.rotation = current % 2 ? 180 : 0;
        current_params = draw_params(&current_format);
        current_params.width = between(129, 420);
        current_params.height = between(17, 80);
        current_params.gray = false;
        if (current % 4)
            memset(&current_params.roi, 0, sizeof current_params.roi);
        check_batch(d);
    }
    finished = true;
    printf("seed %llu: %d batches equal to c\n", (unsigned long long)seed, WIDE_CASES);
}

TEST_WITH(wide_batches_cuda, NULL, describe_failure) {
    on_device_test("cuda:0", wide_batches);
}

/* Values from ITU-R BT.709-6 and BT.601-7: colours whose codes the standards give exactly, or nearly so. */
PLAIN_TEST(colours_of_the_standards) {
    static const struct { mr_matrix matrix; uint8_t y, u, v; double rgb[3]; } colours[] = {
        {MR_MATRIX_BT601, 16, 128, 128, {0, 0, 0}},     {MR_MATRIX_BT601, 235, 128, 128, {255, 255, 255}},
        {MR_MATRIX_BT601, 81, 90, 240, {255, 0, 0}},    {MR_MATRIX_BT601, 145, 54, 34, {0, 255, 0}},
        {MR_MATRIX_BT601, 41, 240, 110, {0, 0, 255}},   {MR_MATRIX_BT709, 63, 102, 240, {255, 0, 0}},
        {MR_MATRIX_BT709, 173, 42, 26, {0, 255, 0}},    {MR_MATRIX_BT709, 32, 240, 118, {0, 0, 255}},
        {MR_MATRIX_BT2020, 74, 97, 240, {255, 0, 0}},   {MR_MATRIX_BT2020, 164, 47, 25, {0, 255, 0}},
    };
    for (size_t i = 0; i < sizeof colours / sizeof colours[0]; i++) {
        mr_format f = {.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_I444, .width = 1, .height = 1,
                       .matrix = colours[i].matrix, .range = MR_RANGE_LIMITED};
        mr_preprocess_params p = {.width = 1, .height = 1, .crop_fraction = 1, .interpolation = MR_BILINEAR,
                                  .std = {1, 1, 1}, .dtype = MR_DTYPE_F32, .layout = MR_LAYOUT_NCHW};
        mr_picture picture = {.data = {&colours[i].y, &colours[i].u, &colours[i].v}, .stride = {1, 1, 1}};
        ENDED_BY(mr_preprocess_destroy) mr_preprocess *plan = NULL;
        assert_int_equal(mr_preprocess_create(&plan, &p, &f), MR_OK);
        FREED uint8_t *dst = run_variant(plan, 0, &picture, 12);
        for (size_t c = 0; c < 3; c++) /* codes are rounded: half a code in each, times at most 1.2 + 2.1 */
            assert_true(fabs(element(dst + GUARD_BYTES, MR_DTYPE_F32, c) - colours[i].rgb[c]) < 1.7);
    }
}

PLAIN_TEST(wrong_parameters_are_reported) {
    mr_format f = {.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_RGB24, .width = 100, .height = 50,
                   .rotation = 90};
    mr_preprocess_params p = {.width = 8, .height = 8, .crop_fraction = 1, .std = {1, 1, 1}, .rotate = true,
                              .dtype = MR_DTYPE_U8, .layout = MR_LAYOUT_NHWC, .roi = {0, 0, 51, 100}};
    mr_preprocess *plan = NULL;
    assert_int_equal(mr_preprocess_create(&plan, &p, &f), MR_ERROR_DATA);
    assert_string_equal(mr_message(), "roi 51x100 at 0,0 reaches outside a picture of 50x100");
    assert_null(plan);
    p.roi.width = 50;
    p.std[1] = 0;
    assert_int_equal(mr_preprocess_create(&plan, &p, &f), MR_ERROR_CONFIG);
    p.std[1] = 1;
    f.reduced = 2;
    f.whole_width = 401;
    f.whole_height = 200;
    assert_int_equal(mr_preprocess_create(&plan, &p, &f), MR_ERROR_DATA);
    assert_string_equal(mr_message(), "a picture of 100x50 is not 1/4 of 401x200");
    f.height = 0;
    assert_int_equal(mr_preprocess_create(&plan, &p, &f), MR_ERROR_DATA);
    assert_null(plan);
}

PLAIN_TEST(how_much_is_shrunk_is_known) {
    static const struct {
        mr_preprocess_params p;
        int16_t rotation;
        int32_t sar_num;
        double shrink;
    } cases[] = {
        {{.width = 40, .height = 20, .interpolation = MR_AREA}, 0, 1, 10},
        {{.width = 40, .height = 30, .interpolation = MR_AREA}, 0, 1, 10},
        {{.width = 40, .height = 30, .interpolation = MR_AREA, .rotate = true}, 90, 1, 7.5},
        {{.width = 40, .height = 30, .interpolation = MR_AREA}, 90, 1, 10},
        {{.width = 40, .height = 30, .interpolation = MR_BICUBIC, .antialias = true}, 0, 1, 20},
        {{.width = 40, .height = 30, .interpolation = MR_BILINEAR, .antialias = true}, 0, 1, 20},
        {{.width = 40, .height = 30, .interpolation = MR_BILINEAR}, 0, 1, 1},
        {{.width = 40, .height = 30, .interpolation = MR_BICUBIC}, 0, 1, 1},
        {{.width = 40, .height = 30, .interpolation = MR_NEAREST, .antialias = true}, 0, 1, 1},
        {{.width = 30, .height = 30, .interpolation = MR_AREA, .fit = MR_FIT_CENTER_CROP, .crop_fraction = 0.5}, 0, 1,
         5},
        {{.width = 40, .height = 40, .interpolation = MR_AREA, .fit = MR_FIT_LETTERBOX}, 0, 1, 10},
        {{.width = 10, .height = 10, .interpolation = MR_AREA, .roi = {700, 0, 100, 600}}, 0, 1, 5},
        /* Outside the picture. */
        {{.width = 10, .height = 10, .interpolation = MR_AREA, .roi = {750, 0, 100, 600}}, 0, 1, INFINITY},
        {{.width = 900, .height = 30, .interpolation = MR_AREA}, 0, 1, 1},
        /* Pixels four times as wide as high: a square with 600 rows has 150 columns. */
        {{.width = 30, .height = 30, .interpolation = MR_AREA, .fit = MR_FIT_CENTER_CROP, .sar = true}, 0, 4, 2.5},
        {{.width = 30, .height = 30, .interpolation = MR_AREA, .fit = MR_FIT_CENTER_CROP}, 0, 4, 10},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mr_preprocess_params p = cases[i].p;
        const mr_format f = {.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_I420, .width = 800, .height = 600,
                             .rotation = cases[i].rotation, .sar_num = cases[i].sar_num, .sar_den = 1};
        p.crop_fraction = p.crop_fraction > 0 ? p.crop_fraction : 1.0;
        p.std[0] = p.std[1] = p.std[2] = 1.0;
        double found = mr_preprocess_shrink(&p, &f);
        if (isinf(found) ? found != cases[i].shrink : !(fabs(found - cases[i].shrink) < 1e-9))
            fail_msg("case %zu: %g instead of %g", i, found, cases[i].shrink);
    }
}

RUN_TESTS(draw_up_tables, NULL)
