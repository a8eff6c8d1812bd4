#include "kernels/preprocess/preprocess_grid.h"

#include <stdint.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/device/resident.h"
#include "millrace/status.h"

struct mr_preprocess_places {
    pthread_mutex_t lock; /* until the grid is made */
    bool made;
    mr_preprocess_grid grid; /* tables in `block` */
    void *block;
    mr_resident *resident;
};

/* ---- tiles ------------------------------------------------------------------------------------------------------- */

static int least(int a, int b) {
    return a < b ? a : b;
}

/* Samples that a tile column reads along one axis of a plane. */
static void measure_tile(const mr_filter *x, int from, int to, int32_t *first, int32_t *end) {
    *first = INT32_MAX;
    *end = 0;
    for (int i = from; i < to; i++) {
        int32_t begin = x->begin + x->first[i];
        *first = least(*first, begin);
        *end = *end > begin + x->length[i] ? *end : begin + x->length[i];
    }
}

static void measure_tiles(mr_preprocess_grid *grid) {
    const mr_preprocess *plan = &grid->plan;
    for (int kind = 0; kind < 2; kind++)
        for (int tile = 0; tile < grid->tiles_across && plan->filter[kind][0].count; tile++)
            measure_tile(&plan->filter[kind][0], tile * grid->tile_columns,
                         least((tile + 1) * grid->tile_columns, plan->columns), &grid->tile_first[kind][tile],
                         &grid->tile_end[kind][tile]);
}

/* All planes' weighed rows, each as wide as its widest tile. Returns the bytes. */
static size_t lay_out_rows(mr_preprocess_grid *grid) {
    size_t samples = 0;
    for (int p = 0; p < grid->plan.planes; p++) {
        const plane_plan *plane = &grid->plan.plane[p];
        int widest = 0;
        for (int tile = 0; tile < grid->tiles_across && plane->parts; tile++) {
            int width = grid->tile_end[plane->table][tile] * plane->step - mr_grid_start(grid, p, tile);
            widest = width > widest ? width : widest;
        }
        grid->pitch[p] = (widest + 3) / 4 * 4;
        grid->at[p] = (int32_t)least((int)samples, MR_GRID_MOST_SHARED);
        samples += (size_t)grid->pitch[p] * (size_t)grid->tile_rows;
    }
    return samples * sizeof(int16_t);
}

static void cut(mr_preprocess_grid *grid, int columns, int rows) {
    grid->tile_columns = columns;
    grid->tile_rows = rows;
    grid->tiles_across = (grid->plan.columns + columns - 1) / columns;
    grid->tiles = grid->tiles_across * ((grid->plan.rows + rows - 1) / rows);
}

/* Whether several pixels of a tile use the same weighed columns, so that it pays to keep them. */
static bool shares_columns(const mr_preprocess_grid *grid) {
    int span = 0;
    for (int tile = 0; tile < grid->tiles_across; tile++) {
        int width = grid->tile_end[0][tile] - grid->tile_first[0][tile];
        span = width > span ? width : span;
    }
    return span <= grid->tile_columns * grid->plan.filter[0][0].taps;
}

enum { LEAST_COLUMNS = 8 };

static void choose_tiles(mr_preprocess_grid *grid) {
    static const struct { int columns, rows; } sizes[] = {{32, 8}, {32, 4}, {16, 4}, {LEAST_COLUMNS, 2}};
    grid->mode = MR_GRID_TILED;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        cut(grid, sizes[i].columns, sizes[i].rows);
        measure_tiles(grid);
        size_t bytes = lay_out_rows(grid);
        grid->shared_bytes = (int32_t)bytes;
        if (bytes <= MR_GRID_MOST_SHARED && shares_columns(grid))
            return;
    }
    grid->mode = MR_GRID_DIRECT;
}

/* ---- tiles that are walked --------------------------------------------------------------------------------------- */

/* Whether pictures with such a plan are walked if its tiles are not too wide for it: 8-bit Y, U, V in three planes or,
 * U and V interleaved, in two, without a quarter turn. */
static bool is_walkable(const mr_preprocess *plan) {
    const plane_plan *second = &plan->plane[1];
    if (plan->params.interpolation == MR_NEAREST || plan->transposed || plan->channels != 3 || plan->depth != 8 ||
        plan->components != 3 || plan->color.rgb || plan->plane[0].step != 1)
        return false;
    return plan->planes == 3 ? second->step == 1 && plan->plane[2].step == 1
                             : plan->planes == 2 && second->step == 2 && second->offset[0] == 0;
}

/* Samples to which weights along [luma, chroma] are aligned (mr_walk_along). */
static int walk_align(const mr_preprocess *plan, int kind) {
    return kind == plan->plane[1].table && plan->planes == 2 ? 2 : 4;
}

static int round_up(int value, int to) {
    return (value + to - 1) / to * to;
}

/* The threads that weigh plane `p` down, and how many samples they pass on: its widest tile's. */
static int measure_plane(const mr_preprocess_grid *grid, int p, int *width) {
    const plane_plan *plane = &grid->plan.plane[p];
    const mr_walk *walk = &grid->walk[plane->table];
    int jobs = 0;
    *width = 0;
    for (int tile = 0; tile < grid->tiles_across; tile++) {
        int start = mr_walk_start(grid, p, tile), end = grid->tile_end[plane->table][tile] * plane->step;
        int count = (end - start + MR_WALK_SAMPLES - 1) / MR_WALK_SAMPLES;
        jobs = count > jobs ? count : jobs;
        int to = least((tile + 1) * grid->tile_columns, grid->plan.columns);
        for (int i = tile * grid->tile_columns; i < to; i++) {
            int read = (walk->first[i] + 2 * walk->pairs) * plane->step - start;
            *width = read > *width ? read : *width;
        }
    }
    *width = *width > jobs * MR_WALK_SAMPLES ? *width : jobs * MR_WALK_SAMPLES;
    return jobs;
}

static int lay_out_walk(mr_preprocess_grid *grid) {
    int samples = 0, jobs = 0;
    for (int p = 0; p < grid->plan.planes; p++) {
        int width;
        int count = round_up(measure_plane(grid, p, &width), 32);
        grid->walked[p].jobs_begin = jobs;
        grid->walked[p].jobs = count;
        jobs += count;
        grid->pitch[p] = round_up(width, MR_WALK_SAMPLES);
        grid->at[p] = samples;
        samples = least(samples + grid->pitch[p] * MR_WALK_ROWS, MR_WALK_MOST_SHARED);
    }
    return samples * (int)sizeof(int16_t);
}

/* The blocks for the padding, whose rows each warp fills one after the other. */
static int padding_blocks(const mr_preprocess_grid *grid) {
    const mr_preprocess *plan = &grid->plan;
    int64_t inner = (int64_t)plan->inner_width * plan->inner_height;
    int64_t padding = (int64_t)plan->params.width * plan->params.height - inner;
    int64_t of_block = MR_GRID_THREADS * MR_GRID_PAD_PIXELS, blocks = (padding + of_block - 1) / of_block;
    return blocks < MR_WALK_MOST_PADDING ? (int)blocks : MR_WALK_MOST_PADDING;
}

/* Centres chroma samples before shifting, where that costs nothing. */
static void prepare_sums(mr_preprocess_grid *grid, int p) {
    const plane_plan *plane = &grid->plan.plane[p];
    mr_walk_plane *walked = &grid->walked[p];
    int center = p > 0 ? MR_SAMPLE_CENTER : 0;
    walked->shift = grid->plan.filter[plane->table][1].bits - MR_SAMPLE_BITS;
    walked->bias = 1 << (walked->shift - 1);
    walked->bits = grid->plan.filter[plane->table][0].bits;
    walked->half = (1 << (walked->bits - 1)) - (center << walked->bits);
}

static void prepare_plane(mr_preprocess_grid *grid, int p) {
    const plane_plan *plane = &grid->plan.plane[p];
    const mr_walk *walk = &grid->walk[plane->table];
    mr_walk_plane *walked = &grid->walked[p];
    walked->steps = walk->steps;
    walked->begin = walk->begin;
    walked->lower = walk->single ? 0 : 1;
    walked->width = plane->row_bytes;
    walked->at = grid->at[p] * (int)sizeof(int16_t);
    walked->weights = walk->weights;
    walked->head = walk->head;
    walked->wholes = walk->wholes;
    walked->pitch = (int32_t)(mr_walk_pitch(walk) * sizeof *walk->weights);
    walked->row_bytes = grid->pitch[p] * (int)sizeof(int16_t);
    prepare_sums(grid, p);
    for (int tile = 0; tile < grid->tiles_across; tile++) {
        walked->start[tile] = mr_walk_start(grid, p, tile);
        walked->end[tile] = grid->tile_end[plane->table][tile] * plane->step;
    }
    for (int i = 0; i < round_up(grid->plan.columns, 2); i++) {
        int start = walked->start[i / grid->tile_columns];
        walked->from[i] = walked->at + (walk->first[i] * plane->step - start) * (int)sizeof(int16_t);
    }
}

/* A result's weights add up to exactly one: if none is negative, no sum can leave the sample range. */
static bool has_negative(const mr_filter *filter) {
    for (int i = 0; i < filter->count; i++)
        for (int t = 0; t < filter->length[i]; t++)
            if (filter->weights[mr_filter_weight(filter, i, t)] < 0)
                return true;
    return false;
}

/* Channel planes: the first one, and the distance to the next. */
static void prepare_channels(mr_preprocess_grid *grid) {
    const mr_preprocess_params *p = &grid->plan.params;
    const int32_t plane = p->width * p->height;
    grid->first_channel = p->bgr ? 2 * (int64_t)plane : 0;
    grid->channel_step = p->bgr ? -plane : plane;
}

static void finish_walk(mr_preprocess_grid *grid, int shared_bytes) {
    const mr_preprocess *plan = &grid->plan;
    for (int p = 0; p < plan->planes; p++)
        prepare_plane(grid, p);
    for (int i = 0; i < 4; i++)
        grid->held |= has_negative(&plan->filter[i / 2][i % 2]);
    prepare_channels(grid);
    grid->mode = MR_GRID_WALKED;
    grid->shared_bytes = shared_bytes;
    grid->tiles_down = grid->tiles / grid->tiles_across;
    grid->padding_down = (padding_blocks(grid) + grid->tiles_across - 1) / grid->tiles_across;
    grid->blocks = grid->tiles_across * (grid->tiles_down + grid->padding_down);
    uint32_t pairs = (uint32_t)grid->tile_columns / 2;
    grid->per_pair = (uint32_t)(((1ull << 32) + pairs - 1) / pairs);
    grid->paired = plan->params.width % 2 == 0 && plan->inner_x % 2 == 0;
}

/* The widest tiles that fit, all equally wide. */
static bool choose_walk(mr_preprocess_grid *grid) {
    int columns = grid->plan.columns, least_across = (columns + MR_WALK_MOST_COLUMNS - 1) / MR_WALK_MOST_COLUMNS;
    for (int across = least_across; across == 1 || columns / across >= LEAST_COLUMNS; across++) {
        int width = round_up((columns + across - 1) / across, 2);
        cut(grid, width > 4 ? width : 4, MR_WALK_ROWS);
        measure_tiles(grid);
        int bytes = lay_out_walk(grid);
        if (bytes > MR_WALK_MOST_SHARED)
            continue;
        if (shares_columns(grid))
            finish_walk(grid, bytes);
        return grid->mode == MR_GRID_WALKED;
    }
    return false;
}

static void choose(mr_preprocess_grid *grid) {
    const mr_preprocess *plan = &grid->plan;
    if (is_walkable(plan) && choose_walk(grid))
        return;
    if (plan->params.interpolation == MR_NEAREST)
        grid->mode = MR_GRID_NEAREST;
    else
        choose_tiles(grid);
    if (grid->mode != MR_GRID_TILED) {
        cut(grid, 32, 4);
        grid->shared_bytes = 0;
    }
    grid->blocks = grid->tiles + padding_blocks(grid);
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

/* A block filled from the start. Without memory it only measures the size. */
typedef struct block {
    uint8_t *data;
    size_t bytes;
} block;

/* Copies a table into the block and redirects the pointer to the copy. */
static void put(block *b, void *pointer, size_t bytes) {
    void *from;
    memcpy(&from, pointer, sizeof from);
    if (!from)
        return;
    const size_t at = b->bytes;
    b->bytes += (bytes + 63) / 64 * 64;
    if (!b->data)
        return;
    void *to = b->data + at;
    memcpy(to, from, bytes);
    memcpy(pointer, &to, sizeof to);
}

static void put_tables(block *b, mr_preprocess *plan) {
    for (int kind = 0; kind < 2; kind++)
        for (int direction = 0; direction < 2; direction++) {
            mr_filter *filter = &plan->filter[kind][direction];
            size_t results = ((size_t)filter->count + 15) / 16 * 16;
            put(b, &filter->first, results * sizeof(int32_t));
            put(b, &filter->length, results * sizeof(int32_t));
            put(b, &filter->weights,
                results * (size_t)(filter->chunks ? 8 * filter->chunks : filter->taps) * sizeof(int16_t));
        }
    put(b, &plan->nearest_x, (size_t)plan->columns * sizeof(int32_t));
    put(b, &plan->nearest_y, (size_t)plan->rows * sizeof(int32_t));
}

/* Room in the block; NULL if it only measures. */
static void *take(block *b, size_t bytes) {
    void *taken = b->data ? b->data + b->bytes : NULL;
    b->bytes += (bytes + 63) / 64 * 64;
    return taken;
}

/* For a table with as many tile columns as possible. */
static size_t tile_bytes(const mr_preprocess *plan) {
    return ((size_t)plan->columns / LEAST_COLUMNS + 1) * sizeof(int32_t);
}

/* Room for the tile columns' samples. */
static void take_tiles(block *b, mr_preprocess_grid *grid) {
    size_t most = tile_bytes(&grid->plan);
    for (int kind = 0; kind < 2; kind++) {
        grid->tile_first[kind] = take(b, most);
        grid->tile_end[kind] = take(b, most);
    }
}

static void take_walk(block *b, mr_walk *walk, const mr_filter *x, const mr_filter *y, int align) {
    size_t columns = ((size_t)x->count + 1) / 2 * 2, rows = ((size_t)y->count + MR_WALK_ROWS - 1) / MR_WALK_ROWS;
    size_t entries = mr_walk_down(walk, y);
    mr_walk_along(walk, x, align);
    walk->steps = take(b, entries * sizeof *walk->steps);
    walk->begin = take(b, rows * sizeof *walk->begin);
    walk->weights = take(b, columns * mr_walk_pitch(walk) * sizeof *walk->weights);
    walk->first = take(b, columns * sizeof *walk->first);
    if (b->data) {
        mr_walk_down(walk, y);
        mr_walk_along(walk, x, align);
    }
}

static void take_walks(block *b, mr_preprocess_grid *grid) {
    mr_preprocess *plan = &grid->plan;
    for (int p = 0; p < plan->planes && is_walkable(plan); p++) {
        mr_walk_plane *walked = &grid->walked[p];
        walked->from = take(b, (size_t)round_up(plan->columns, 2) * sizeof(int32_t));
        walked->start = take(b, tile_bytes(plan));
        walked->end = take(b, tile_bytes(plan));
    }
    for (int kind = 0; kind < 2 && is_walkable(plan); kind++)
        if (plan->filter[kind][0].count)
            take_walk(b, &grid->walk[kind], &plan->filter[kind][0], &plan->filter[kind][1], walk_align(plan, kind));
}

size_t mr_preprocess_table_bytes(const mr_preprocess *plan) {
    mr_preprocess_grid grid = {.plan = *plan};
    block measured = {0};
    take_walks(&measured, &grid);
    put_tables(&measured, &grid.plan);
    take_tiles(&measured, &grid);
    return measured.bytes;
}

/* Lays out a plan. The tables are in *data, which the caller must free with mr_free. */
static int make_grid(mr_preprocess_grid *grid, const mr_preprocess *plan, void **data, size_t *bytes) {
    block made = {0};
    memset(grid, 0, sizeof *grid);
    grid->plan = *plan;
    *bytes = mr_preprocess_table_bytes(plan);
    made.data = mr_alloc_aligned(64, *bytes);
    if (!made.data)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the tables of a preprocess plan");
    memset(made.data, 0, *bytes);
    take_walks(&made, grid);
    put_tables(&made, &grid->plan);
    take_tiles(&made, grid);
    choose(grid);
    *data = made.data;
    return MR_OK;
}

static void move(void *pointer, const uint8_t *from, const uint8_t *to) {
    const uint8_t *old;
    memcpy(&old, pointer, sizeof old);
    if (!old)
        return;
    const uint8_t *fresh = to + (old - from);
    memcpy(pointer, &fresh, sizeof fresh);
}

/* Makes the tables point into a copy of the block. */
static void move_grid(mr_preprocess_grid *grid, const void *from, const void *to) {
    for (int kind = 0; kind < 2; kind++) {
        for (int direction = 0; direction < 2; direction++) {
            move(&grid->plan.filter[kind][direction].first, from, to);
            move(&grid->plan.filter[kind][direction].length, from, to);
            move(&grid->plan.filter[kind][direction].weights, from, to);
        }
        move(&grid->tile_first[kind], from, to);
        move(&grid->tile_end[kind], from, to);
        move(&grid->walk[kind].steps, from, to);
        move(&grid->walk[kind].begin, from, to);
        move(&grid->walk[kind].weights, from, to);
        move(&grid->walk[kind].first, from, to);
    }
    for (int p = 0; p < 3; p++) {
        move(&grid->walked[p].steps, from, to);
        move(&grid->walked[p].begin, from, to);
        move(&grid->walked[p].start, from, to);
        move(&grid->walked[p].end, from, to);
        move(&grid->walked[p].from, from, to);
        move(&grid->walked[p].weights, from, to);
    }
    move(&grid->plan.nearest_x, from, to);
    move(&grid->plan.nearest_y, from, to);
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

int mr_preprocess_places_create(mr_preprocess_places **places) {
    mr_preprocess_places *made = mr_calloc(1, sizeof *made);
    if (!made || pthread_mutex_init(&made->lock, NULL)) {
        mr_free(made);
        return mr_fail(MR_ERROR_MEMORY, "no memory for a preprocess plan");
    }
    *places = made;
    return MR_OK;
}

void mr_preprocess_places_destroy(mr_preprocess_places **places) {
    mr_preprocess_places *gone = *places;
    *places = NULL;
    if (!gone)
        return;
    mr_resident_destroy(&gone->resident);
    mr_free(gone->block);
    pthread_mutex_destroy(&gone->lock);
    mr_free(gone);
}

static int make(mr_preprocess_places *places, const mr_preprocess *plan) {
    size_t bytes = 0;
    int status = make_grid(&places->grid, plan, &places->block, &bytes);
    if (!status)
        status = mr_resident_create(&places->resident, places->block, bytes);
    if (status) {
        mr_free(places->block);
        places->block = NULL;
    }
    places->made = !status;
    return status;
}

int mr_preprocess_place(const mr_preprocess *plan, mr_stream *stream, mr_preprocess_grid *grid) {
    mr_preprocess_places *places = plan->places;
    const void *there = NULL;
    pthread_mutex_lock(&places->lock);
    int status = places->made ? MR_OK : make(places, plan);
    pthread_mutex_unlock(&places->lock);
    if (!status)
        status = mr_resident_get(places->resident, stream, &there);
    if (status)
        return status;
    *grid = places->grid;
    move_grid(grid, places->block, there);
    return MR_OK;
}
