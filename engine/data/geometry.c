#include "millrace/geometry.h"

mr_geometry mr_geometry_of(const mr_format *picture) {
    const double scale = 1 << picture->reduced;
    return (mr_geometry){.x = {scale, 0, 0},
                         .y = {0, scale, 0},
                         .width = picture->width,
                         .height = picture->height,
                         .source_width = picture->reduced ? picture->whole_width : picture->width,
                         .source_height = picture->reduced ? picture->whole_height : picture->height,
                         .rotation = picture->rotation,
                         .flip = picture->flip};
}

mr_geometry mr_geometry_chain(const mr_geometry *first, const mr_geometry *next) {
    mr_geometry chain = *next;
    if (!first->width || !next->width)
        return (mr_geometry){0};
    for (int i = 0; i < 3; i++) {
        chain.x[i] = next->x[0] * first->x[i] + next->x[1] * first->y[i];
        chain.y[i] = next->y[0] * first->x[i] + next->y[1] * first->y[i];
    }
    chain.x[2] += next->x[2];
    chain.y[2] += next->y[2];
    chain.width = first->width;
    chain.height = first->height;
    return chain;
}

void mr_geometry_to_source(const mr_geometry *geometry, double column, double row, double point[2]) {
    point[0] = geometry->x[0] * column + geometry->x[1] * row + geometry->x[2];
    point[1] = geometry->y[0] * column + geometry->y[1] * row + geometry->y[2];
}

void mr_geometry_to_display(const mr_geometry *geometry, double column, double row, double point[2]) {
    const double width = geometry->source_width, height = geometry->source_height;
    mr_geometry_to_source(geometry, column, row, point);
    const double x = geometry->flip ? width - point[0] : point[0], y = point[1];
    const double turned[4][2] = {{x, y}, {height - y, x}, {width - x, height - y}, {y, width - x}};
    point[0] = turned[geometry->rotation / 90 & 3][0];
    point[1] = turned[geometry->rotation / 90 & 3][1];
}

bool mr_geometry_from_display(const mr_geometry *geometry, double x, double y, double place[2]) {
    double zero[2], column[2], row[2];
    mr_geometry_to_display(geometry, 0, 0, zero);
    mr_geometry_to_display(geometry, 1, 0, column);
    mr_geometry_to_display(geometry, 0, 1, row);
    const double a = column[0] - zero[0], b = row[0] - zero[0], c = column[1] - zero[1], d = row[1] - zero[1];
    const double area = a * d - b * c;
    if (!geometry->width || area == 0)
        return false;
    place[0] = (d * (x - zero[0]) - b * (y - zero[1])) / area;
    place[1] = (a * (y - zero[1]) - c * (x - zero[0])) / area;
    return true;
}
