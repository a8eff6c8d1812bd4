#include "stages/objects/quad.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const float LEAST_SIDE = 4;

typedef struct corner {
    float x, y;
} corner;

/* For qsort: the left one first, then the upper one. */
static int compare(const void *one, const void *other) {
    const corner *a = one, *b = other;
    if (a->x != b->x)
        return a->x < b->x ? -1 : 1;
    return (a->y > b->y) - (a->y < b->y);
}

static void swap_if(corner *a, corner *b, bool swap) {
    const corner kept = *a;
    *a = swap ? *b : *a;
    *b = swap ? kept : *b;
}

static void sort(corner at[4]) {
    qsort(at, 4, sizeof *at, compare);
    swap_if(&at[0], &at[1], at[1].y < at[0].y);
    swap_if(&at[2], &at[3], at[3].y < at[2].y);
    /* Now upper left, lower left, upper right, lower right. */
    const corner lower_left = at[1];
    at[1] = at[2];
    at[2] = at[3];
    at[3] = lower_left;
}

/* Whether the corners turn to one side only. If all are cut at an edge of the picture, three may lie in line. */
static bool is_convex(const corner at[4]) {
    bool left = true, right = true;
    for (int i = 0; i < 4; i++) {
        const corner *a = &at[i], *b = &at[(i + 1) % 4], *c = &at[(i + 2) % 4];
        const double turn = ((double)b->x - (double)a->x) * ((double)c->y - (double)b->y) -
                            ((double)b->y - (double)a->y) * ((double)c->x - (double)b->x);
        right = right && turn > 1e-3;
        left = left && turn < -1e-3;
    }
    return left || right;
}

static float side(const corner *a, const corner *b) {
    return hypotf(b->x - a->x, b->y - a->y);
}

static void set_box(const corner at[4], double width, double height, mr_object *object) {
    object->left = object->top = INFINITY;
    object->right = object->bottom = -INFINITY;
    for (int i = 0; i < 4; i++) {
        object->left = fminf(object->left, fmaxf(at[i].x, 0));
        object->right = fmaxf(object->right, fminf(at[i].x, (float)width));
        object->top = fminf(object->top, fmaxf(at[i].y, 0));
        object->bottom = fmaxf(object->bottom, fminf(at[i].y, (float)height));
    }
}

/* Cuts the corners at the picture's edges. */
static void cut(corner at[4], double width, double height, const mr_object *object) {
    for (int i = 0; i < 4; i++)
        at[i] = (corner){fminf(fmaxf(at[i].x, 0), (float)width), fminf(fmaxf(at[i].y, 0), (float)height)};
    sort(at);
    if (is_convex(at))
        return;
    at[0] = (corner){object->left, object->top};
    at[1] = (corner){object->right, object->top};
    at[2] = (corner){object->right, object->bottom};
    at[3] = (corner){object->left, object->bottom};
}

bool mr_quad_place(const mr_geometry *way, bool line, const float given[MR_QUAD_NUMBERS], mr_object *object,
                   float quad[MR_QUAD_NUMBERS]) {
    double size[2];
    mr_geometry_display_size(way, size);
    corner at[4];
    for (int i = 0; i < 4; i++) {
        double point[2];
        mr_geometry_to_display(way, (double)given[2 * i], (double)given[2 * i + 1], point);
        at[i] = (corner){(float)point[0], (float)point[1]};
    }
    set_box(at, size[0], size[1], object);
    if (line)
        cut(at, size[0], size[1], object);
    else
        sort(at);
    memcpy(quad, at, sizeof at);
    return object->right > object->left && object->bottom > object->top &&
           (!line || (side(&at[0], &at[1]) >= LEAST_SIDE && side(&at[0], &at[3]) >= LEAST_SIDE));
}
