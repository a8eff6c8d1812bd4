#include "engine/device/cuda/cuda.h"
#include "kernels/blur/blur_cuda.h"
#include "kernels/blur/blur_pixel.h"
#include "kernels/scratch.h"
#include "millrace/status.h"

static uint8_t *sample_at(const mr_blur_component *c, int32_t x, int32_t y) {
    return c->data + y * c->stride + (ptrdiff_t)x * c->step;
}

/* ---- cells ------------------------------------------------------------------------------------------------------- */

/* Of the samples that the area hides. */
static int32_t mean_of(const mr_blur_component *c, const mr_blur_area *area, int ellipse, const mr_blur_part *part) {
    uint64_t sum = 0, count = 0;
    for (int32_t y = part->top; y < part->bottom; y++) {
        const uint8_t *at = sample_at(c, part->left, y);
        for (int32_t x = part->left; x < part->right; x++, at += c->step)
            if (!ellipse || mr_blur_hides(area, c, 1, x, y)) {
                sum += mr_blur_get(c, at);
                count++;
            }
    }
    return count ? mr_blur_mean(sum, count) : MR_BLUR_OUTSIDE;
}

static void measure(const mr_blur_work *work, const mr_blur_component *c, const mr_blur_area *area, int32_t *cells) {
    const mr_blur_span span = mr_blur_span_of(area, c);
    for (int32_t i = 0; i < area->rows * area->columns; i++) {
        const mr_blur_part part = mr_blur_part_of(&span, i % area->columns, i / area->columns);
        cells[i] = mean_of(c, area, work->ellipse && !area->whole, &part);
    }
}

static void smooth(const mr_blur_area *area, int32_t *cells) {
    int32_t across[MR_BLUR_TABLE];
    const int32_t columns = area->columns, rows = area->rows, middle = mr_blur_middle(cells, rows * columns);
    for (int32_t i = 0; i < rows * columns; i++)
        cells[i] = cells[i] == MR_BLUR_OUTSIDE ? middle : cells[i];
    for (int32_t i = 0; i < rows * columns; i++)
        across[i] = mr_blur_smooth(cells + i / columns * columns, i % columns, columns, 1);
    for (int32_t i = 0; i < rows * columns; i++)
        cells[i] = mr_blur_smooth(across + i % columns, i / columns, rows, columns);
}

/* ---- samples ----------------------------------------------------------------------------------------------------- */

/* Computes a row of values for an area; `columns` has the place of each sample between cells. */
static void fill_row(const mr_blur_work *work, const mr_blur_component *c, const mr_blur_area *area,
                     const mr_blur_span *span, const int32_t *cells, const mr_blur_between *columns, int32_t y,
                     uint16_t *row) {
    if (work->how == MR_BLUR_FILL) {
        for (int32_t x = 0; x < span->width; x++)
            row[x] = (uint16_t)c->fill;
    } else if (work->how == MR_BLUR_PIXELATE) {
        cells += y / span->cell_height * area->columns;
        for (int32_t x = 0; x < span->width; x++)
            row[x] = (uint16_t)mr_blur_round((uint64_t)cells[columns[x].first], MR_BLUR_BITS);
    } else {
        uint64_t down[MR_BLUR_CELLS];
        const mr_blur_between rows = mr_blur_find(y, span->cell_height, area->rows);
        for (int32_t i = 0; i < area->columns; i++)
            down[i] = mr_blur_mix((uint64_t)cells[rows.first * area->columns + i],
                                  (uint64_t)cells[rows.second * area->columns + i], rows.share);
        for (int32_t x = 0; x < span->width; x++)
            row[x] = (uint16_t)mr_blur_round(mr_blur_mix(down[columns[x].first], down[columns[x].second],
                                                         columns[x].share), 3 * MR_BLUR_BITS);
    }
}

static void put_row(const mr_blur_work *work, const mr_blur_component *c, const mr_blur_area *area,
                    const mr_blur_span *span, int32_t y, const uint16_t *row) {
    uint8_t *at = sample_at(c, span->left, y);
    for (int32_t x = 0; x < span->width; x++, at += c->step)
        if (!work->ellipse || mr_blur_hides(area, c, 1, span->left + x, y))
            mr_blur_put(c, at, row[x]);
}

static void hide(const mr_blur_work *work, const mr_blur_component *c, const mr_blur_area *area, const int32_t *cells,
                 void *scratch) {
    const mr_blur_span span = mr_blur_span_of(area, c);
    mr_blur_between *columns = scratch;
    uint16_t *row = (uint16_t *)(columns + span.width);
    for (int32_t x = 0; x < span.width; x++)
        columns[x] = work->how == MR_BLUR_GAUSSIAN ? mr_blur_find(x, span.cell_width, area->columns)
                                                   : (mr_blur_between){.first = x / span.cell_width};
    for (int32_t y = 0; y < span.height; y++) {
        fill_row(work, c, area, &span, cells, columns, y, row);
        put_row(work, c, area, &span, span.top + y, row);
    }
}

/* ---- pictures ---------------------------------------------------------------------------------------------------- */

static size_t row_bytes(const mr_blur_areas *areas) {
    int32_t most = 0;
    for (int32_t i = 0; i < areas->count; i++)
        if (areas->item[i].right - areas->item[i].left > most)
            most = areas->item[i].right - areas->item[i].left;
    return (size_t)most * (sizeof(mr_blur_between) + sizeof(uint16_t));
}

/* All means first. Then the largest areas, which come first, overwrite the others. */
static int run_blur(void *arguments) {
    const mr_blur_work *work = arguments;
    const mr_blur_areas *areas = work->areas;
    void *scratch = mr_scratch(row_bytes(areas));
    if (!scratch)
        return mr_fail(MR_ERROR_MEMORY, "no scratch memory to hide objects");
    for (int32_t i = 0; i < areas->count && work->how != MR_BLUR_FILL; i++)
        for (int32_t k = 0; k < work->components; k++) {
            measure(work, &work->component[k], &areas->item[i], mr_blur_cells(work, i, k));
            if (work->how == MR_BLUR_GAUSSIAN)
                smooth(&areas->item[i], mr_blur_cells(work, i, k));
        }
    for (int32_t i = areas->count - 1; i >= 0; i--)
        for (int32_t k = 0; k < work->components; k++)
            hide(work, &work->component[k], &areas->item[i], mr_blur_cells(work, i, k), scratch);
    return MR_OK;
}

static int launch_blur(const void *arguments, void *handle) {
    return mr_blur_cuda(arguments, handle);
}

int mr_blur_enqueue(mr_stream *stream, const mr_blur_work *work) {
    if (!mr_stream_is_cuda(stream))
        return mr_stream_submit(stream, run_blur, work, sizeof *work);
    return mr_cuda_launch(stream, launch_blur, work, sizeof *work, mr_blur_launches((mr_blur_how)work->how));
}
