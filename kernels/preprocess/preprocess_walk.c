#include "kernels/preprocess/preprocess_walk.h"

#include <string.h>

/* ---- down -------------------------------------------------------------------------------------------------------- */

/* A result that is open. */
typedef struct slot {
    int result; /* -1: free */
    int next;   /* first source row that it lacks */
} slot;

/* A walk's state: one tile row's results, in the order in which they begin. */
typedef struct way {
    const mr_filter *y;
    mr_walk_step *out;    /* NULL: steps are counted only */
    int rows[MR_WALK_ROWS], count, opened; /* results */
    int from;             /* the tile's first result */
    int last;             /* the last source row but one */
    slot open[MR_WALK_SLOTS];
    int source[2];        /* the first two steps' source rows */
    size_t steps;
} way;

static int end_of(const mr_filter *y, int result) {
    return y->first[result] + y->length[result];
}

static void fill_slots(way *w) {
    for (int k = 0; k < MR_WALK_SLOTS && w->opened < w->count; k++)
        if (w->open[k].result < 0) {
            int result = w->rows[w->opened++];
            w->open[k] = (slot){result, w->y->first[result]};
        }
}

/* The upper source row of the next step: the first that an open result lacks. -1: none is open. */
static int next_row(const way *w) {
    int row = -1;
    for (int k = 0; k < MR_WALK_SLOTS; k++)
        if (w->open[k].result >= 0 && (row < 0 || w->open[k].next < row))
            row = w->open[k].next;
    return row < w->last ? row : w->last;
}

/* A result's weights for both rows in a step; zero for rows that it already has or does not need. */
static uint32_t weights_of(const way *w, const slot *s, int row) {
    uint32_t pair = 0;
    for (int k = 0; k < 2; k++) {
        int tap = row + k - w->y->first[s->result];
        if (row + k >= s->next && row + k < end_of(w->y, s->result))
            pair |= (uint32_t)(uint16_t)w->y->weights[(ptrdiff_t)s->result * w->y->taps + tap] << 16 * k;
    }
    return pair;
}

/* Notes a step's source row two steps earlier, or in the head. */
static void announce(way *w, size_t step, int row) {
    if (step < 2)
        w->source[step] = row;
    else if (w->out)
        w->out[step - 1].ahead |= (uint32_t)row;
}

static void put_step(way *w, int row) {
    mr_walk_step step = {0};
    for (int k = 0; k < MR_WALK_SLOTS; k++) {
        slot *s = &w->open[k];
        if (s->result < 0)
            continue;
        step.weights[k] = weights_of(w, s, row);
        s->next = s->next > row + 2 ? s->next : row + 2;
        if (s->next >= end_of(w->y, s->result)) {
            step.ahead |= (MR_WALK_IS_DONE | (uint32_t)(s->result - w->from)) << (MR_WALK_DONE + MR_WALK_FIELD * k);
            s->result = -1;
        }
    }
    announce(w, w->steps, row);
    w->steps++;
    if (w->out)
        w->out[w->steps] = step;
}

/* One tile row's steps; returns how many entries, head included. */
static size_t walk_tile(way *w) {
    int row = 0;
    for (;;) {
        fill_slots(w);
        int next = next_row(w);
        if (next < 0)
            break;
        put_step(w, row = next);
    }
    /* Rows read ahead in the last steps are discarded: any rows at hand will do. */
    for (size_t i = w->steps; i < w->steps + 2; i++)
        announce(w, i, row);
    if (w->out) {
        w->out[w->steps].ahead |= MR_WALK_LAST;
        w->out[0] = (mr_walk_step){0, {(uint32_t)w->source[0], (uint32_t)w->source[1]}};
    }
    return w->steps + 1;
}

/* Results in the order of their source rows, which a mirrored axis reverses. */
static void order_rows(way *w, int from, int to) {
    bool backwards = w->y->first[from] > w->y->first[to - 1];
    w->from = from;
    w->count = to - from;
    for (int i = 0; i < w->count; i++)
        w->rows[i] = backwards ? to - 1 - i : from + i;
    for (int k = 0; k < MR_WALK_SLOTS; k++)
        w->open[k].result = -1;
}

size_t mr_walk_down(mr_walk *walk, const mr_filter *y) {
    size_t entries = 0;
    int low = y->first[0], high = 0;
    for (int i = 0; i < y->count; i++) {
        low = y->first[i] < low ? y->first[i] : low;
        high = end_of(y, i) > high ? end_of(y, i) : high;
    }
    walk->single = high - low < 2;
    for (int from = 0, tile = 0; from < y->count; from += MR_WALK_ROWS, tile++) {
        way w = {.y = y, .last = walk->single ? low : high - 2, .out = walk->steps ? walk->steps + entries : NULL};
        order_rows(&w, from, from + MR_WALK_ROWS < y->count ? from + MR_WALK_ROWS : y->count);
        if (walk->begin)
            walk->begin[tile] = (int32_t)entries;
        entries += walk_tile(&w);
    }
    return entries;
}

/* ---- along ------------------------------------------------------------------------------------------------------- */

size_t mr_walk_pitch(const mr_walk *walk) {
    return 4 * ((size_t)walk->wholes + 1);
}

static void put_weights(mr_walk *walk, const mr_filter *x, int i, int align) {
    int first = x->begin + x->first[i], skipped = first % align;
    uint32_t *to = walk->weights + (size_t)i * mr_walk_pitch(walk);
    walk->first[i] = first - skipped;
    for (int t = 0; t < x->length[i]; t++) {
        int at = skipped + t, pair = at / 2;
        uint32_t *both = &to[pair < walk->head ? pair : pair - walk->head + 4];
        *both |= (uint32_t)(uint16_t)x->weights[mr_filter_weight(x, i, t)] << 16 * (at % 2);
    }
}

void mr_walk_along(mr_walk *walk, const mr_filter *x, int align) {
    int most = 0;
    for (int i = 0; i < x->count; i++) {
        int samples = (x->begin + x->first[i]) % align + x->length[i];
        most = samples > most ? samples : most;
    }
    walk->pairs = (most + align - 1) / align * align / 2;
    walk->wholes = (walk->pairs - 1) / 4;
    walk->head = walk->pairs - 4 * walk->wholes;
    if (!walk->weights)
        return;
    size_t columns = ((size_t)x->count + 1) / 2 * 2;
    memset(walk->weights, 0, columns * mr_walk_pitch(walk) * sizeof *walk->weights);
    for (int i = 0; i < x->count; i++)
        put_weights(walk, x, i, align);
    if (x->count % 2)
        walk->first[x->count] = walk->first[x->count - 1];
}
