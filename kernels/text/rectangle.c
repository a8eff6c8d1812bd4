#include "kernels/text/rectangle.h"

#include <math.h>
#include <stdbool.h>

/* ---- the least rectangle ----------------------------------------------------------------------------------------- */

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

/* ---- neighbours -------------------------------------------------------------------------------------------------- */

/* From `low` to `high` along each side of a rectangle, from its middle. */
typedef struct extent {
    double low[2], high[2];
} extent;

/* Where a rectangle is, as another one sees it. */
static extent seen_from(const mr_rectangle *from, const mr_rectangle *other) {
    const double x = other->middle.x - from->middle.x, y = other->middle.y - from->middle.y;
    const double cosine = other->along.x * from->along.x + other->along.y * from->along.y;
    const double sine = other->along.y * from->along.x - other->along.x * from->along.y;
    const double middle[2] = {x * from->along.x + y * from->along.y, y * from->along.x - x * from->along.y};
    const double half[2] = {(other->length * fabs(cosine) + other->breadth * fabs(sine)) / 2,
                            (other->length * fabs(sine) + other->breadth * fabs(cosine)) / 2};
    return (extent){{middle[0] - half[0], middle[1] - half[1]}, {middle[0] + half[0], middle[1] + half[1]}};
}

/* Whether two are so far apart that neither can grow past the middle. */
static bool are_far(const mr_growth *one, const mr_growth *other) {
    const double far = (one->from.length + one->from.breadth + other->from.length + other->from.breadth) / 2 +
                       2 * (one->by + other->by);
    return fabs(one->from.middle.x - other->from.middle.x) > far ||
           fabs(one->from.middle.y - other->from.middle.y) > far;
}

/* Whether both are on one line along `axis`. */
static bool share_line(const extent *own, double by, const extent *other, double other_by, int axis) {
    const int across = !axis;
    const double high = own->high[across] - own->low[across], other_high = other->high[across] - other->low[across];
    const double shared = fmin(own->high[across] + by, other->high[across] + other_by) -
                          fmax(own->low[across] - by, other->low[across] - other_by);
    return shared >= fmin(high + 2 * by, other_high + 2 * other_by) / 2 &&
           (own->high[axis] - own->low[axis] >= high || other->high[axis] - other->low[axis] >= other_high);
}

mr_rectangle mr_rectangle_grow_apart(const mr_growth *one, const mr_growth *others, size_t count) {
    const mr_rectangle *from = &one->from;
    const extent own = {{-from->length / 2, -from->breadth / 2}, {from->length / 2, from->breadth / 2}};
    extent grown = {{own.low[0] - one->by, own.low[1] - one->by}, {own.high[0] + one->by, own.high[1] + one->by}};
    for (size_t i = 0; i < count; i++) {
        if (are_far(one, &others[i]))
            continue;
        const extent other = seen_from(from, &others[i].from);
        for (int axis = 0; axis < 2; axis++) {
            const double middle = (other.low[axis] + other.high[axis]) / 2, end = own.high[axis];
            if (fabs(middle) <= end || !share_line(&own, one->by, &other, others[i].by, axis))
                continue;
            if (middle > 0)
                grown.high[axis] = fmin(grown.high[axis], end + fmax(other.low[axis] - end, 0) / 2);
            else
                grown.low[axis] = fmax(grown.low[axis], -end + fmin(other.high[axis] + end, 0) / 2);
        }
    }
    const double u = (grown.low[0] + grown.high[0]) / 2, v = (grown.low[1] + grown.high[1]) / 2;
    return (mr_rectangle){{from->middle.x + u * from->along.x - v * from->along.y,
                           from->middle.y + u * from->along.y + v * from->along.x}, from->along,
                          grown.high[0] - grown.low[0], grown.high[1] - grown.low[1]};
}

/* ---- corners and values ------------------------------------------------------------------------------------------ */

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
