#include "kernels/plane/plane.h"

#include <math.h>
#include <string.h>

/* ---- segments ---------------------------------------------------------------------------------------------------- */

double mr_plane_side(const double a[2], const double b[2], const double p[2]) {
    return (b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0]);
}

double mr_plane_segment_distance(const double a[2], const double b[2], const double p[2]) {
    const double x = b[0] - a[0], y = b[1] - a[1], length = x * x + y * y;
    double along = length > 0 ? ((p[0] - a[0]) * x + (p[1] - a[1]) * y) / length : 0;
    along = along < 0 ? 0 : along > 1 ? 1 : along;
    return hypot(p[0] - (a[0] + along * x), p[1] - (a[1] + along * y));
}

/* Whether `p`, which is on the straight line through a and b, is between them. */
static bool is_between(const double a[2], const double b[2], const double p[2]) {
    return fmin(a[0], b[0]) <= p[0] && p[0] <= fmax(a[0], b[0]) && fmin(a[1], b[1]) <= p[1] &&
           p[1] <= fmax(a[1], b[1]);
}

static int sign(double value) {
    return (value > 0) - (value < 0);
}

bool mr_plane_segments_meet(const double a[2], const double b[2], const double c[2], const double d[2]) {
    const int of_c = sign(mr_plane_side(a, b, c)), of_d = sign(mr_plane_side(a, b, d));
    const int of_a = sign(mr_plane_side(c, d, a)), of_b = sign(mr_plane_side(c, d, b));
    if (of_c * of_d < 0 && of_a * of_b < 0)
        return true;
    return (!of_c && is_between(a, b, c)) || (!of_d && is_between(a, b, d)) || (!of_a && is_between(c, d, a)) ||
           (!of_b && is_between(c, d, b));
}

/* ---- polygons ---------------------------------------------------------------------------------------------------- */

bool mr_plane_covers(const double (*polygon)[2], size_t count, const double p[2]) {
    bool inside = false;
    for (size_t i = 0; i < count; i++) {
        const double *a = polygon[i], *b = polygon[(i + 1) % count];
        const double side = mr_plane_side(a, b, p);
        if (side == 0 && is_between(a, b, p))
            return true;
        if ((a[1] > p[1]) != (b[1] > p[1])) /* A ray to the right crosses the edge if p is to the left of it. */
            inside ^= (side < 0) == (b[1] < a[1]);
    }
    return inside;
}

double mr_plane_edge_distance(const double (*polygon)[2], size_t count, const double p[2]) {
    double least = INFINITY;
    for (size_t i = 0; i < count; i++)
        least = fmin(least, mr_plane_segment_distance(polygon[i], polygon[(i + 1) % count], p));
    return least;
}

double mr_plane_area(const double (*polygon)[2], size_t count) {
    double twice = 0;
    for (size_t i = 0; i < count; i++) {
        const double *a = polygon[i], *b = polygon[(i + 1) % count];
        twice += a[0] * b[1] - b[0] * a[1];
    }
    return twice / 2;
}

/* Whether edge b-c runs back over edge a-b. */
static bool turns_back(const double a[2], const double b[2], const double c[2]) {
    return mr_plane_side(a, b, c) == 0 && (b[0] - a[0]) * (c[0] - b[0]) + (b[1] - a[1]) * (c[1] - b[1]) <= 0;
}

bool mr_plane_crosses_itself(const double (*polygon)[2], size_t count) {
    for (size_t i = 0; i < count; i++) {
        const double *a = polygon[i], *b = polygon[(i + 1) % count];
        if (turns_back(a, b, polygon[(i + 2) % count]))
            return true;
        for (size_t k = i + 2; k < count && k + 1 < count + i; k++)
            if (mr_plane_segments_meet(a, b, polygon[k], polygon[(k + 1) % count]))
                return true;
    }
    return false;
}

/* ---- maps between planes ----------------------------------------------------------------------------------------- */

enum { UNKNOWNS = 8 };

/* Gauss elimination with the largest pivot; the last column is the right side. False: it has no single solution. */
static bool solve(double rows[UNKNOWNS][UNKNOWNS + 1], double to[UNKNOWNS]) {
    for (int i = 0; i < UNKNOWNS; i++) {
        int most = i;
        for (int k = i + 1; k < UNKNOWNS; k++)
            most = fabs(rows[k][i]) > fabs(rows[most][i]) ? k : most;
        if (fabs(rows[most][i]) < 1e-12)
            return false;
        double held[UNKNOWNS + 1];
        memcpy(held, rows[most], sizeof held);
        memcpy(rows[most], rows[i], sizeof held);
        memcpy(rows[i], held, sizeof held);
        for (int k = 0; k < UNKNOWNS; k++) {
            const double factor = k == i ? 0 : rows[k][i] / rows[i][i];
            for (int c = i; c <= UNKNOWNS && factor != 0; c++)
                rows[k][c] -= factor * rows[i][c];
        }
    }
    for (int i = 0; i < UNKNOWNS; i++)
        to[i] = rows[i][UNKNOWNS] / rows[i][i];
    return true;
}

static bool has_three_in_line(const double points[4][2]) {
    for (int i = 0; i < 4; i++) {
        const double *a = points[i], *b = points[(i + 1) % 4], *c = points[(i + 2) % 4];
        const double longest = fmax(hypot(b[0] - a[0], b[1] - a[1]), hypot(c[0] - b[0], c[1] - b[1]));
        if (fabs(mr_plane_side(a, b, c)) <= 1e-9 * longest * longest)
            return true;
    }
    return false;
}

bool mr_plane_map_make(mr_plane_map *map, const double from[4][2], const double to[4][2]) {
    double rows[UNKNOWNS][UNKNOWNS + 1], reached[2];
    if (has_three_in_line(from) || has_three_in_line(to))
        return false;
    for (int axis = 0; axis < 2; axis++)
        map->centre[axis] = (from[0][axis] + from[1][axis] + from[2][axis] + from[3][axis]) / 4;
    for (int i = 0; i < 4; i++) {
        const double x = from[i][0] - map->centre[0], y = from[i][1] - map->centre[1], u = to[i][0], v = to[i][1];
        const double first[UNKNOWNS + 1] = {x, y, 1, 0, 0, 0, -u * x, -u * y, u};
        const double second[UNKNOWNS + 1] = {0, 0, 0, x, y, 1, -v * x, -v * y, v};
        memcpy(rows[2 * i], first, sizeof first);
        memcpy(rows[2 * i + 1], second, sizeof second);
    }
    bool made = solve(rows, map->m);
    for (int i = 0; i < 4 && made; i++) /* A corner beyond the horizon: the other three do not surround the centre. */
        made = mr_plane_map_apply(map, from[i], reached);
    return made;
}

bool mr_plane_map_apply(const mr_plane_map *map, const double p[2], double to[2]) {
    const double *m = map->m, x = p[0] - map->centre[0], y = p[1] - map->centre[1], below = m[6] * x + m[7] * y + 1;
    if (below <= 1e-9)
        return false;
    to[0] = (m[0] * x + m[1] * y + m[2]) / below;
    to[1] = (m[3] * x + m[4] * y + m[5]) / below;
    return true;
}
