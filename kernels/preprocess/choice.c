#include "kernels/preprocess/choice.h"

#include <pthread.h>

#include "engine/base/clock.h"
#include "engine/base/memory.h"

/* As many samples as a 1080p row has, reduced to a usual size. */
enum { WIDTH = 1920, ROWS = 4, TAPS = 6, SMALL = 224, SLACK = 64 };
/* One measurement takes some microseconds. The shortest of ROUNDS counts, since disturbances can only add. */
enum { ROUNDS = 9, REPEATS = 4 };

/* What the operations work on. */
typedef struct bench {
    mr_filter filter;
    uint8_t *source;             /* TAPS rows, WIDTH each */
    int16_t *samples, *small[3]; /* ROWS rows each */
    float *floats[3];            /* a row each */
} bench;

static void vertical(const mr_preprocess_rows *rows, const bench *b) {
    static const int16_t weights[TAPS] = {1000, 3000, 4192, 4192, 3000, 1000};
    mr_prefetch none = {0};
    for (int r = 0; r < ROWS; r++)
        rows->vertical8(b->samples + r * (WIDTH + SLACK), b->source, WIDTH, weights, TAPS, WIDTH, 8, &none);
}

static void horizontal(const mr_preprocess_rows *rows, const bench *b) {
    mr_prefetch none = {0};
    for (int c = 0; c < 3; c++)
        rows->horizontal(b->small[c], SMALL, b->samples, WIDTH + SLACK, ROWS, &b->filter, 16320, &none);
}

static void convert(const mr_preprocess_rows *rows, const bench *b) {
    const mr_color color = {.luma = 0.02f, .rv = 0.02f, .gu = 0.01f, .gv = 0.01f, .bu = 0.03f, .scale = {1, 1, 1}};
    for (int r = 0; r < ROWS; r++) {
        const int16_t *const row[3] = {b->small[0] + r * SMALL, b->small[1] + r * SMALL, b->small[2] + r * SMALL};
        rows->convert(b->floats, row, &color, SMALL);
    }
}

static void take_vertical(mr_preprocess_rows *rows, const mr_preprocess_rows *from) {
    rows->vertical8 = from->vertical8;
}

static void take_horizontal(mr_preprocess_rows *rows, const mr_preprocess_rows *from) {
    rows->horizontal = from->horizontal;
}

static void take_convert(mr_preprocess_rows *rows, const mr_preprocess_rows *from) {
    rows->convert = from->convert;
}

static const struct {
    void (*run)(const mr_preprocess_rows *rows, const bench *b);
    void (*take)(mr_preprocess_rows *rows, const mr_preprocess_rows *from);
} steps[MR_PREPROCESS_STEPS] = {
    [MR_STEP_VERTICAL] = {vertical, take_vertical},
    [MR_STEP_HORIZONTAL] = {horizontal, take_horizontal},
    [MR_STEP_CONVERT] = {convert, take_convert},
};

static int64_t time_of(mr_preprocess_step step, const mr_preprocess_rows *rows, const bench *b,
                       int64_t (*now_ns)(void)) {
    int64_t begun_ns = now_ns();
    for (int i = 0; i < REPEATS; i++)
        steps[step].run(rows, b);
    return now_ns() - begun_ns;
}

/* The variants take turns, so that a slow phase of the processor affects both. */
static bool narrow_wins(mr_preprocess_step step, const mr_preprocess_rows *narrow, const mr_preprocess_rows *wide,
                        const bench *b, int64_t (*now_ns)(void)) {
    int64_t least[2] = {INT64_MAX, INT64_MAX};
    for (int round = 0; round < 2 * ROUNDS; round++) {
        int64_t spent_ns = time_of(step, round % 2 ? wide : narrow, b, now_ns);
        if (spent_ns < least[round % 2])
            least[round % 2] = spent_ns;
    }
    return least[0] <= least[1];
}

static void fini(bench *b) {
    mr_filter_fini(&b->filter);
    mr_free(b->source);
    mr_free(b->samples);
    for (int c = 0; c < 3; c++) {
        mr_free(b->small[c]);
        mr_free(b->floats[c]);
    }
}

static bool init(bench *b) {
    const mr_axis axis = {.step = (double)WIDTH / SMALL, .high = WIDTH, .count = SMALL, .most_bits = 15,
                          .horizontal = true};
    *b = (bench){0};
    bool failed = mr_filter_init(&b->filter, &axis, MR_AREA, false);
    b->source = mr_calloc(TAPS, WIDTH);
    b->samples = mr_calloc(ROWS * (WIDTH + SLACK), sizeof(int16_t));
    failed |= !b->source || !b->samples;
    for (int c = 0; c < 3; c++) {
        b->small[c] = mr_calloc(ROWS * SMALL + SLACK, sizeof(int16_t));
        b->floats[c] = mr_calloc(SMALL + SLACK, sizeof(float));
        failed |= !b->small[c] || !b->floats[c];
    }
    if (failed)
        fini(b);
    return !failed;
}

void mr_preprocess_rows_choose(mr_preprocess_rows *wide, const mr_preprocess_rows *narrow, int64_t (*now_ns)(void)) {
    bench b;
    if (!init(&b))
        return;
    for (int step = 0; step < MR_PREPROCESS_STEPS; step++)
        if (narrow_wins((mr_preprocess_step)step, narrow, wide, &b, now_ns)) {
            steps[step].take(wide, narrow);
            wide->step[step] = narrow->step[step];
        }
    fini(&b);
}

/* ---- the table of this process ---------------------------------------------------------------------------------- */

static mr_preprocess_rows best;
static mr_kernel_variant best_steps[MR_PREPROCESS_STEPS];
static mr_kernel_variants listed;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill_best(void) {
    mr_isa named = mr_isa_named();
    mr_preprocess_rows_init(&best, named);
    if (named == MR_ISA_COUNT && best.isa == MR_ISA_AVX512) {
        mr_preprocess_rows narrow;
        mr_preprocess_rows_init(&narrow, MR_ISA_AVX2);
        mr_preprocess_rows_choose(&best, &narrow, mr_now_ns);
    }
    listed = mr_preprocess_rows_list(&best, best_steps);
}

mr_kernel_variants mr_preprocess_rows_list(const mr_preprocess_rows *rows,
                                           mr_kernel_variant each[MR_PREPROCESS_STEPS]) {
    static const char *const names[MR_PREPROCESS_STEPS] = {"vertical", "horizontal", "colour"};
    for (int step = 0; step < MR_PREPROCESS_STEPS; step++)
        each[step] = (mr_kernel_variant){names[step], mr_isa_name(rows->step[step])};
    return (mr_kernel_variants){mr_isa_name(rows->isa), MR_PREPROCESS_STEPS, each};
}

const mr_preprocess_rows *mr_preprocess_rows_get(void) {
    pthread_once(&once, fill_best);
    return &best;
}

const mr_kernel_variants *mr_kernel_variants_get(void) {
    pthread_once(&once, fill_best);
    return &listed;
}
