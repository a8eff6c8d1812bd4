#include "kernels/text/rectangle.h"

#include <math.h>

static mr_rectangle fit(const mr_point *hull, size_t count, mr_point along) {
    double low[2] = {INFINITY, INFINITY}, high[2] = {-INFINITY, -INFINITY};
    for (size_t i = 0; i < count; i++) {
        const double at[2] = {hull[i].x * along.x + hull[i].y * along.y, hull[i].y * along.x - hull[i].x * along.y};
        for (int axis = 0; axis < 2; axis++) {
            low[axis] = fmin(low[axis], at[axis]);
            high[axis] = fmax(high[axis], at[axis]);
        }
    }
    const double u = (low[0] + high[0]) / 2, v = (low[1] + high[1]) / 2;
    return (mr_rectangle){{u * along.x - v * along.y, u * along.y + v * along.x}, along, high[0] - low[0],
                          high[1] - low[1]};
}

mr_rectangle mr_rectangle_around(const mr_point *hull, size_t count) {
    mr_rectangle best = {.length = INFINITY, .breadth = INFINITY};
    for (size_t i = 0; i < count; i++) {
        const mr_point *from = &hull[i], *to = &hull[(i + 1) % count];
        const double x = to->x - from->x, y = to->y - from->y, side = sqrt(x * x + y * y);
        if (!(side > 0))
            continue;
        const mr_rectangle next = fit(hull, count, (mr_point){x / side, y / side});
        if (next.length * next.breadth < best.length * best.breadth)
            best = next;
    }
    return best;
}

void mr_rectangle_grow(mr_rectangle *rectangle, double distance) {
    rectangle->length += 2 * distance;
    rectangle->breadth += 2 * distance;
}

void mr_rectangle_corners(const mr_rectangle *r, float corner[8]) {
    static const double sides[4][2] = {{-0.5, -0.5}, {0.5, -0.5}, {0.5, 0.5}, {-0.5, 0.5}};
    for (int i = 0; i < 4; i++) {
        const double u = sides[i][0] * r->length, v = sides[i][1] * r->breadth;
        corner[2 * i] = (float)(r->middle.x + u * r->along.x - v * r->along.y);
        corner[2 * i + 1] = (float)(r->middle.y + u * r->along.y + v * r->along.x);
    }
}

static double column_at(const double a[2], const double b[2], double row) {
    return a[0] + (b[0] - a[0]) * (row - a[1]) / (b[1] - a[1]);
}

/* Widens `reach` by the pixels of the side from a to b in a row: a flat side has several, those nearest to it. */
static void cross(const double a[2], const double b[2], double row, double reach[2]) {
    const double low = fmin(a[1], b[1]), high = fmax(a[1], b[1]);
    const double half = fabs(b[0] - a[0]) > high - low ? 0.5 : 0;
    if (row < low || row > high)
        return;
    const double ends[2] = {low == high ? a[0] : column_at(a, b, fmax(row - half, low)),
                            low == high ? b[0] : column_at(a, b, fmin(row + half, high))};
    for (int i = 0; i < 2; i++) {
        reach[0] = fmin(reach[0], ends[i]);
        reach[1] = fmax(reach[1], ends[i]);
    }
}

static int32_t limited(double value, int32_t most) {
    return value > 0 ? value < most ? (int32_t)value : most : 0;
}

double mr_rectangle_mean(const mr_rectangle *rectangle, const float *map, int32_t width, int32_t height) {
    float exact[8];
    double corner[4][2], top = INFINITY, bottom = -INFINITY, sum = 0, pixels = 0;
    mr_rectangle_corners(rectangle, exact);
    for (int i = 0; i < 4; i++) {
        corner[i][0] = floor((double)exact[2 * i]);
        corner[i][1] = floor((double)exact[2 * i + 1]);
        /* GCC 12 for ARM64 crashes if these are fmin and fmax. */
        top = corner[i][1] < top ? corner[i][1] : top;
        bottom = corner[i][1] > bottom ? corner[i][1] : bottom;
    }
    const int32_t end = limited(bottom, height - 1);
    for (int32_t y = limited(top, height - 1); y <= end; y++) {
        double reach[2] = {INFINITY, -INFINITY};
        for (int i = 0; i < 4; i++)
            cross(corner[i], corner[(i + 1) % 4], y, reach);
        const int32_t last = limited(reach[1] + 0.5, width - 1);
        for (int32_t x = limited(reach[0] + 0.5, width - 1); x <= last; x++, pixels++)
            sum += (double)fminf(fmaxf(map[(size_t)y * (size_t)width + (size_t)x], 0), 1);
    }
    return pixels > 0 ? sum / pixels : 0;
}
