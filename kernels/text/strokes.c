#include "kernels/text/strokes.h"

#include <math.h>
#include <stdint.h>

/* Larger pictures are looked at in as many columns and rows. */
enum { MOST_COLUMNS = 48, MOST_ROWS = 192, LEVELS = 256 };

typedef struct looked {
    uint8_t at[MOST_ROWS][MOST_COLUMNS];
    int columns, rows;
    int paper, limit; /* light of the edge; ink differs from it by more than the limit */
} looked;

/* Luma, gray or green of the pixel at a place, with 8 bits. Beyond the edges the outermost pixels continue. */
static uint8_t light_at(const mr_format *format, const mr_plane *plane, const double at[2]) {
    const mr_pixel_info *info = mr_pixel_describe(format->pixel);
    const mr_component *part = &info->component[info->rgb ? 1 : 0];
    const int32_t x = (int32_t)fmin(fmax(floor(at[0]), 0), format->width - 1);
    const int32_t y = (int32_t)fmin(fmax(floor(at[1]), 0), format->height - 1);
    const uint8_t *from = plane[part->plane].data + part->offset + y * plane[part->plane].stride +
                          (ptrdiff_t)x * part->step;
    const int light = info->depth > 8 ? ((from[0] | from[1] << 8) >> info->shift) >> (info->depth - 8) : *from;
    return (uint8_t)light;
}

static void look(const mr_plane_map *map, double width, double height, const mr_format *format, const mr_plane *plane,
                 looked *l) {
    l->columns = (int)fmin(fmax(width, 1), MOST_COLUMNS);
    l->rows = (int)fmin(fmax(height, 1), MOST_ROWS);
    for (int y = 0; y < l->rows; y++)
        for (int x = 0; x < l->columns; x++) {
            const double from[2] = {(x + 0.5) * width / l->columns, (y + 0.5) * height / l->rows};
            double to[2];
            l->at[y][x] = mr_plane_map_apply(map, from, to) ? light_at(format, plane, to) : 0;
        }
}

static bool is_edge(const looked *l, int x, int y) {
    return x == 0 || y == 0 || x == l->columns - 1 || y == l->rows - 1;
}

static bool is_ink(const looked *l, int x, int y) {
    const int difference = l->at[y][x] - l->paper;
    return difference > l->limit || difference < -l->limit;
}

/* The median of the edge. */
static int paper_of(const looked *l) {
    int count[LEVELS] = {0}, all = 0, level = 0;
    for (int y = 0; y < l->rows; y++)
        for (int x = 0; x < l->columns; x++)
            if (is_edge(l, x, y))
                count[l->at[y][x]]++, all++;
    for (int seen = count[0]; 2 * seen < all; seen += count[level])
        level++;
    return level;
}

/* False: there is no ink, or too much at the edge. */
static bool find_ink(looked *l) {
    enum { LEAST_CONTRAST = 24, MOST_AT_EDGE = 8 };
    int most = 0, at_edge = 0, edge = 0;
    l->paper = paper_of(l);
    for (int y = 0; y < l->rows; y++)
        for (int x = 0; x < l->columns; x++) {
            const int difference = l->at[y][x] - l->paper;
            most = difference > most ? difference : -difference > most ? -difference : most;
        }
    l->limit = most / 2;
    for (int y = 0; y < l->rows; y++)
        for (int x = 0; x < l->columns; x++)
            if (is_edge(l, x, y))
                edge++, at_edge += is_ink(l, x, y);
    return most >= LEAST_CONTRAST && at_edge * MOST_AT_EDGE <= edge;
}

static bool has_ink(const looked *l, int y) {
    for (int x = 0; x < l->columns; x++)
        if (is_ink(l, x, y))
            return true;
    return false;
}

bool mr_strokes_are_one(const mr_plane_map *map, double width, double height, const mr_format *format,
                        const mr_plane *plane) {
    enum { DOT = 9, CHARACTER = 2 }; /* a dot has at most 2/9 of the ink's rows */
    looked l;
    int pieces = 0, length[2] = {0};
    look(map, width, height, format, plane, &l);
    if (!find_ink(&l))
        return false;
    for (int y = 0, before = 0; y < l.rows; y++) {
        const bool ink = has_ink(&l, y);
        pieces += ink && !before;
        if (ink && pieces <= 2)
            length[pieces - 1]++;
        before = ink;
    }
    const int dot = length[0] < length[1] ? length[0] : length[1];
    return pieces == 1 || (pieces == 2 && dot * DOT <= CHARACTER * (length[0] + length[1]));
}
