#include "kernels/preprocess_grid.h"

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

/* Samples that a column of tiles reads along one axis of a plane. */
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

/* The weighed rows of all planes, each as wide as its widest tile. Answers the bytes. */
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

/* Whether the columns of a tile are weighed for several of its pixels, so that it pays to keep them. */
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

static void choose(mr_preprocess_grid *grid) {
    const mr_preprocess *plan = &grid->plan;
    if (plan->params.interpolation == MR_NEAREST)
        grid->mode = MR_GRID_NEAREST;
    else
        choose_tiles(grid);
    if (grid->mode != MR_GRID_TILED) {
        cut(grid, 32, 4);
        grid->shared_bytes = 0;
    }
    int64_t padding = (int64_t)plan->params.width * plan->params.height - (int64_t)plan->columns * plan->rows;
    int64_t of_block = MR_GRID_THREADS * MR_GRID_PAD_PIXELS;
    grid->blocks = grid->tiles + (int32_t)((padding + of_block - 1) / of_block);
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

/* A block that is filled from its beginning; without memory it only measures. */
typedef struct block {
    uint8_t *data;
    size_t bytes;
} block;

/* Copies a table into the block and makes the pointer be that of the copy. */
static void put(block *b, void *pointer, size_t bytes) {
    void *from;
    memcpy(&from, pointer, sizeof from);
    if (!from)
        return;
    void *to = b->data + b->bytes;
    b->bytes += (bytes + 63) / 64 * 64;
    if (!b->data)
        return;
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

/* Room for the samples of as many columns of tiles as there can be. */
static void take_tiles(block *b, mr_preprocess_grid *grid) {
    size_t most = ((size_t)grid->plan.columns / LEAST_COLUMNS + 1) * sizeof(int32_t);
    int32_t **tables[] = {&grid->tile_first[0], &grid->tile_end[0], &grid->tile_first[1], &grid->tile_end[1]};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        *tables[i] = (int32_t *)(void *)(b->data + b->bytes);
        b->bytes += (most + 63) / 64 * 64;
    }
}

size_t mr_preprocess_table_bytes(const mr_preprocess *plan) {
    mr_preprocess copy = *plan;
    block measured = {0};
    put_tables(&measured, &copy);
    return measured.bytes + 4 * ((size_t)plan->columns / LEAST_COLUMNS * sizeof(int32_t) + 128);
}

/* Lays a plan out. The tables stand in *data, which the caller frees with mr_free. */
static int make_grid(mr_preprocess_grid *grid, const mr_preprocess *plan, void **data, size_t *bytes) {
    block made = {0};
    memset(grid, 0, sizeof *grid);
    grid->plan = *plan;
    *bytes = mr_preprocess_table_bytes(plan);
    made.data = mr_alloc_aligned(64, *bytes);
    if (!made.data)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the tables of a preprocess plan");
    memset(made.data, 0, *bytes);
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

/* Lets the tables be those of a copy of the block. */
static void move_grid(mr_preprocess_grid *grid, const void *from, const void *to) {
    for (int kind = 0; kind < 2; kind++) {
        for (int direction = 0; direction < 2; direction++) {
            move(&grid->plan.filter[kind][direction].first, from, to);
            move(&grid->plan.filter[kind][direction].length, from, to);
            move(&grid->plan.filter[kind][direction].weights, from, to);
        }
        move(&grid->tile_first[kind], from, to);
        move(&grid->tile_end[kind], from, to);
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
