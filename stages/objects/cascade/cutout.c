#include "stages/objects/cascade/cutout.h"

#include <math.h>

/* If it is not known from which picture the frame was made, boxes are in its pixels. */
static mr_geometry geometry_of(const mr_frame *picture) {
    return picture->geometry.width ? picture->geometry : mr_geometry_of(&picture->format);
}

/* The smallest and the largest of the corners' columns and rows. */
static bool span(const mr_geometry *geometry, const double x[2], const double y[2], double low[2], double high[2]) {
    double at[2];
    for (int corner = 0; corner < 4; corner++) {
        if (!mr_geometry_from_display(geometry, x[corner & 1], y[corner >> 1], at))
            return false;
        for (int axis = 0; axis < 2; axis++) {
            low[axis] = corner && low[axis] < at[axis] ? low[axis] : at[axis];
            high[axis] = corner && high[axis] > at[axis] ? high[axis] : at[axis];
        }
    }
    return isfinite(low[0] + low[1] + high[0] + high[1]);
}

/* Rounds outward and clips to 0 to `most`, in steps of 2^shift; the last step may be shorter. */
static bool round_out(double low, double high, int32_t most, int shift, int32_t *first, int32_t *end) {
    const int32_t step = 1 << shift;
    const double a = fmax(floor(low), 0), b = fmin(ceil(high), most);
    if (!(a < b))
        return false;
    *first = (int32_t)a / step * step;
    *end = ((int32_t)b + step - 1) / step * step;
    *end = *end < most ? *end : most;
    return true;
}

bool mr_cutout_of(const mr_frame *picture, const mr_object *object, double expand, mr_cutout *region) {
    const mr_pixel_info *info = mr_pixel_describe(picture->format.pixel);
    const mr_geometry geometry = geometry_of(picture);
    const double left = (double)object->left, top = (double)object->top;
    const double right = (double)object->right, bottom = (double)object->bottom;
    const double across = expand * (right - left), down = expand * (bottom - top);
    double low[2], high[2];
    return span(&geometry, (double[]){left - across, right + across}, (double[]){top - down, bottom + down}, low,
                high) &&
           round_out(low[0], high[0], picture->format.width, info->chroma_w, &region->left, &region->right) &&
           round_out(low[1], high[1], picture->format.height, info->chroma_h, &region->top, &region->bottom);
}

void mr_cutout_show(const mr_frame *picture, const mr_cutout *region, mr_frame *frame) {
    const mr_format *whole = &picture->format;
    const mr_geometry geometry = geometry_of(picture);
    const mr_geometry part = {.x = {1, 0, region->left}, .y = {0, 1, region->top},
                              .width = region->right - region->left, .height = region->bottom - region->top};
    for (int i = 0; i < mr_pixel_describe(whole->pixel)->planes; i++) {
        mr_plane *plane = &frame->plane[i];
        const ptrdiff_t rows = mr_plane_rows(whole->pixel, i, region->top) * plane->stride;
        const size_t columns = mr_plane_row_bytes(whole->pixel, i, region->left);
        const size_t skipped = (size_t)(rows < 0 ? -rows : rows) + columns;
        plane->data += rows + (ptrdiff_t)columns;
        plane->bytes -= skipped < plane->bytes ? skipped : plane->bytes;
    }
    /* The usual colours of a picture depend on its size. */
    frame->format.matrix = mr_format_matrix(whole);
    frame->format.range = mr_format_range(whole);
    frame->format.width = part.width;
    frame->format.height = part.height;
    frame->geometry = mr_geometry_chain(&part, &geometry);
}

int mr_cutout_make(mr_io *io, const mr_frame *picture, const mr_cutout *region, uint32_t number, mr_frame **frame,
                   mr_result **own) {
    int status = mr_io_share(io, picture, frame);
    if (status)
        return status;
    mr_cutout_show(picture, region, *frame);
    status = mr_io_set_object(io, *frame, number);
    if (!status && (status = mr_io_add_result(io, *frame, mr_kind_objects(), 1, own)))
        mr_io_drop(io, *frame, "error");
    if (status)
        mr_frame_unref(frame);
    return status;
}

static void set_part(mr_bounds *size) {
    *size = (mr_bounds){size->max ? 1 : 0, size->max};
}

void mr_cutout_plan(mr_negotiation *n) {
    mr_planned_output *out = &n->outputs[0];
    out->set = n->inputs[0].set;
    set_part(&out->set.width);
    set_part(&out->set.height);
    out->shares = 0;
    out->results = NULL;
    out->more_results = false;
    out->mean_pixels = 0;
}
