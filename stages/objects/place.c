#include "stages/objects/place.h"

#include <math.h>

#include "stages/objects/quad.h"

static float limited(double value, double most) {
    return (float)(value < 0 ? 0 : value > most ? most : value);
}

/* Maps the box to the source's picture as it is shown. */
static bool place_box(const mr_geometry *way, const mr_box *box, mr_object *to) {
    double a[2] = {(double)box->left, (double)box->top}, b[2] = {(double)box->right, (double)box->bottom};
    double size[2];
    mr_geometry_display_size(way, size);
    mr_geometry_to_display(way, a[0], a[1], a);
    mr_geometry_to_display(way, b[0], b[1], b);
    to->left = limited(a[0] < b[0] ? a[0] : b[0], size[0]);
    to->right = limited(a[0] < b[0] ? b[0] : a[0], size[0]);
    to->top = limited(a[1] < b[1] ? a[1] : b[1], size[1]);
    to->bottom = limited(a[1] < b[1] ? b[1] : a[1], size[1]);
    return to->right > to->left && to->bottom > to->top;
}

static bool place_corners(const mr_geometry *way, bool line, const float *corner, mr_result *result, mr_object *to) {
    float quad[MR_QUAD_NUMBERS];
    if (!mr_quad_place(way, line, corner, to, quad))
        return false;
    mr_result_add_items(result, quad, MR_QUAD_NUMBERS, sizeof *quad, &to->quad);
    return true;
}

static void place_points(const mr_geometry *way, const float *numbers, int32_t count, mr_result *result,
                         mr_object *to) {
    float points[3 * MR_BOX_HEAD_MOST_POINTS];
    for (int32_t i = 0; i < count; i++) {
        double at[2];
        mr_geometry_to_display(way, (double)numbers[3 * i], (double)numbers[3 * i + 1], at);
        points[3 * i] = (float)at[0];
        points[3 * i + 1] = (float)at[1];
        points[3 * i + 2] = numbers[3 * i + 2];
    }
    mr_result_add_items(result, points, 3 * (size_t)count, sizeof *points, &to->points);
}

/* ---- masks ------------------------------------------------------------------------------------------------------- */

/* Whether the mask holds that point in the network's input. */
static bool holds(const mr_box_mask *mask, const mr_box *box, const double at[2]) {
    const double across = (at[0] - (double)box->left) / ((double)box->right - (double)box->left);
    const double down = (at[1] - (double)box->top) / ((double)box->bottom - (double)box->top);
    const int32_t x = (int32_t)floor(across * mask->width), y = (int32_t)floor(down * mask->height);
    if (x < 0 || y < 0 || x >= mask->width || y >= mask->height)
        return false;
    const int32_t bit = y * mask->width + x;
    return mask->bits[bit / 32] >> bit % 32 & 1;
}

/* Where the first cell's centre lies in the network's input, and the steps to the next column and row. */
typedef struct walk {
    double origin[2], column[2], row[2];
} walk;

static walk walk_of(const mr_geometry *way, const mr_object *object) {
    const double across = ((double)object->right - (double)object->left) / object->mask_width;
    const double down = ((double)object->bottom - (double)object->top) / object->mask_height;
    const double x = (double)object->left + across / 2, y = (double)object->top + down / 2;
    walk w = {0};
    mr_geometry_from_display(way, x, y, w.origin);
    mr_geometry_from_display(way, x + across, y, w.column);
    mr_geometry_from_display(way, x, y + down, w.row);
    for (int i = 0; i < 2; i++) {
        w.column[i] -= w.origin[i];
        w.row[i] -= w.origin[i];
    }
    return w;
}

/* Counts the runs. Adds their lengths to `run`, which is zeroed; NULL: only counts. */
static size_t find_runs(const walk *w, const mr_box_mask *mask, const mr_box *box, const mr_object *object,
                        int32_t *run) {
    size_t count = 1;
    bool inside = false;
    for (int32_t y = 0; y < object->mask_height; y++)
        for (int32_t x = 0; x < object->mask_width; x++) {
            const double at[2] = {w->origin[0] + x * w->column[0] + y * w->row[0],
                                  w->origin[1] + x * w->column[1] + y * w->row[1]};
            if (holds(mask, box, at) != inside) {
                inside = !inside;
                count++;
            }
            if (run)
                run[count - 1]++;
        }
    return count;
}

/* The mask over the object's box, which may be turned, and cut at the picture's edges. */
static void place_mask(const mr_geometry *way, const mr_box_head *head, const mr_box *box, const mr_box_mask *mask,
                       mr_result *result, mr_object *to) {
    const mr_box cut = {.left = fmaxf(fminf(box->left, box->right), 0), .top = fmaxf(fminf(box->top, box->bottom), 0),
                        .right = fminf(fmaxf(box->left, box->right), (float)head->width),
                        .bottom = fminf(fmaxf(box->top, box->bottom), (float)head->height)};
    const bool turned = way->rotation % 180;
    to->mask_width = turned ? mask->height : mask->width;
    to->mask_height = turned ? mask->width : mask->height;
    const walk w = walk_of(way, to);
    if (mr_result_add_items(result, NULL, find_runs(&w, mask, &cut, to, NULL), sizeof(int32_t), &to->mask))
        to->mask_width = to->mask_height = 0;
    else
        find_runs(&w, mask, &cut, to, (int32_t *)(uintptr_t)mr_result_items(result, to->mask));
}

/* ------------------------------------------------------------------------------------------------------------------ */

bool mr_object_place(const mr_geometry *way, const mr_box_head *head, const mr_box *box, const float *numbers,
                     mr_result *result, mr_object *to) {
    if (head->kind == MR_BOX_CORNERS)
        return place_corners(way, head->family == MR_BOX_HEAD_DB, numbers, result, to);
    if (!place_box(way, box, to))
        return false;
    if (head->kind == MR_BOX_POINTS)
        place_points(way, numbers, head->points, result, to);
    if (head->kind == MR_BOX_MASK)
        place_mask(way, head, box, (const mr_box_mask *)(const void *)numbers, result, to);
    return true;
}
