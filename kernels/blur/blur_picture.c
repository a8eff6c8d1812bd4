#include "kernels/blur/blur_picture.h"

#include <math.h>

/* Ellipses end there, in pixels from the picture's upper left. */
enum { FARTHEST = 1 << 24 };

/* The code of black. */
static int32_t black(const mr_format *format, const mr_pixel_info *info, int component) {
    if (component > 0 && !info->rgb)
        return 1 << (info->depth - 1);
    return mr_format_range(format) == MR_RANGE_LIMITED ? 16 << (info->depth - 8) : 0;
}

void mr_blur_describe(mr_blur_work *work, const mr_format *format, const mr_plane *plane) {
    const mr_pixel_info *info = mr_pixel_describe(format->pixel);
    work->components = info->components;
    for (int i = 0; i < info->components; i++) {
        const mr_component *from = &info->component[i];
        const bool chroma = i > 0 && !info->rgb;
        work->component[i] = (mr_blur_component){.data = plane[from->plane].data + from->offset,
                                                 .stride = plane[from->plane].stride,
                                                 .step = from->step,
                                                 .bytes = info->depth > 8 ? 2 : 1,
                                                 .down = info->shift,
                                                 .log2_x = chroma ? info->chroma_w : 0,
                                                 .log2_y = chroma ? info->chroma_h : 0,
                                                 .fill = black(format, info, i)};
    }
}

/* Rounds a side between `least` and `most` outward to a multiple of 2^log2. False: no part of it lies there. */
static bool round_side(double a, double b, int log2, int32_t least, int32_t most, int32_t *first, int32_t *end) {
    const double from = fmax(fmin(a, b), least), to = fmin(fmax(a, b), most);
    const int32_t part = (1 << log2) - 1;
    if (!(from < to))
        return false;
    *first = (int32_t)floor(from) & ~part;
    *end = ((int32_t)ceil(to) + part) & ~part;
    *end = *end < most ? *end : most;
    return true;
}

/* The area in the picture, and its ellipse, which reaches beyond. */
static bool round_area(const mr_format *format, const mr_pixel_info *info, const double corner[2],
                       const double opposite[2], mr_blur_area *area) {
    const int x = info->chroma_w, y = info->chroma_h;
    return round_side(corner[0], opposite[0], x, 0, format->width, &area->left, &area->right) &&
           round_side(corner[1], opposite[1], y, 0, format->height, &area->top, &area->bottom) &&
           round_side(corner[0], opposite[0], x, -FARTHEST, FARTHEST, &area->oval_left, &area->oval_right) &&
           round_side(corner[1], opposite[1], y, -FARTHEST, FARTHEST, &area->oval_top, &area->oval_bottom);
}

static int32_t side_of(const mr_blur_area *area) {
    const int32_t width = area->right - area->left, height = area->bottom - area->top;
    return width > height ? width : height;
}

static void divide(mr_blur_area *area, const mr_pixel_info *info, int32_t cells) {
    const int log2 = info->chroma_w > info->chroma_h ? info->chroma_w : info->chroma_h;
    area->cell = ((side_of(area) + cells - 1) / cells + (1 << log2) - 1) >> log2 << log2;
    area->columns = (area->right - area->left + area->cell - 1) / area->cell;
    area->rows = (area->bottom - area->top + area->cell - 1) / area->cell;
}

void mr_blur_add(mr_blur_areas *areas, const mr_format *format, int32_t cells, const double corner[2],
                 const double opposite[2]) {
    const mr_pixel_info *info = mr_pixel_describe(format->pixel);
    mr_blur_area area = {0};
    if (!round_area(format, info, corner, opposite, &area))
        return;
    divide(&area, info, cells);
    int32_t at = areas->count++;
    for (; at > 0 && side_of(&areas->item[at - 1]) < side_of(&area); at--)
        areas->item[at] = areas->item[at - 1];
    areas->item[at] = area;
}
