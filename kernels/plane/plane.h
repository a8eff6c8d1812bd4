/* Geometry of points, segments and polygons in a plane: areas and lines in a picture, and the ground that it shows.
 *
 * Points are x, y, with y downwards as in pictures. Polygons are open lists: the last corner joins the first. All
 * functions are pure; any thread may call them. Coordinates must be finite. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Above 0: `p` lies to the right of somebody who looks from `a` to `b`; below 0: to the left; 0: on that straight line.
 * The value is the distance from it, times the length of a-b. */
double mr_plane_side(const double a[2], const double b[2], const double p[2]);
/* Distance from `p` to the nearest point of the segment. */
double mr_plane_segment_distance(const double a[2], const double b[2], const double p[2]);
/* Whether two segments have a point in common; touching counts. */
bool mr_plane_segments_meet(const double a[2], const double b[2], const double c[2], const double d[2]);

/* Whether the polygon covers `p`: inside by the even-odd rule, or on an edge. */
bool mr_plane_covers(const double (*polygon)[2], size_t count, const double p[2]);
/* Distance from `p` to the nearest edge. */
double mr_plane_edge_distance(const double (*polygon)[2], size_t count, const double p[2]);
/* Signed: above 0 if the corners run clockwise as one sees them in a picture. */
double mr_plane_area(const double (*polygon)[2], size_t count);
/* Whether two edges that are not neighbours meet, or two neighbours lie on each other: the area is not well defined. */
bool mr_plane_crosses_itself(const double (*polygon)[2], size_t count);

/* A projective map between planes: X = (m[0] x + m[1] y + m[2]) / (m[6] x + m[7] y + 1), Y alike with m[3..5], where x,
 * y are measured from `centre`, which must not lie on the horizon. */
typedef struct mr_plane_map {
    double centre[2], m[8];
} mr_plane_map;

/* The map that takes four points to four others, by solving its eight equations (Hartley and Zisserman, "Multiple View
 * Geometry", 2nd edition, section 4.1, with m[8] = 1). False: three of the points lie on a line, or `from` in this
 * order is no convex quadrilateral. */
bool mr_plane_map_make(mr_plane_map *map, const double from[4][2], const double to[4][2]);
/* False: the point lies on or beyond the plane's horizon. */
bool mr_plane_map_apply(const mr_plane_map *map, const double p[2], double to[2]);
