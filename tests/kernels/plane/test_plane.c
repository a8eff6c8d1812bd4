/* Points, segments, polygons and maps between planes, against values that were worked out by hand. */
#include <math.h>

#include "kernels/plane/plane.h"
#include "tests/support/seeded.h"
#include "tests/support/suite.h"

/* A letter U, with a notch from above. */
static const double letter[][2] = {{0, 0}, {2, 0}, {2, 6}, {4, 6}, {4, 0}, {6, 0}, {6, 8}, {0, 8}};

TEST(sides) {
    const double a[2] = {1, 1}, b[2] = {5, 1};
    assert_true(mr_plane_side(a, b, (double[]){2, 3}) == 8);
    assert_true(mr_plane_side(a, b, (double[]){2, 0}) == -4);
    assert_true(mr_plane_side(a, b, (double[]){9, 1}) == 0);
    assert_true(mr_plane_segment_distance(a, b, (double[]){3, 4}) == 3);
    assert_true(mr_plane_segment_distance(a, b, (double[]){8, 5}) == 5);
    assert_true(mr_plane_segment_distance(a, a, (double[]){4, 5}) == 5);
}

TEST(segments) {
    static const struct {
        double a[2], b[2], c[2], d[2];
        bool meet;
    } cases[] = {
        {{0, 0}, {4, 4}, {0, 4}, {4, 0}, true},  {{0, 0}, {4, 4}, {5, 4}, {9, 0}, false},
        {{0, 0}, {4, 0}, {4, 0}, {4, 5}, true},  {{0, 0}, {4, 0}, {2, 0}, {2, 5}, true},
        {{0, 0}, {4, 0}, {2, 1}, {2, 5}, false}, {{0, 0}, {4, 0}, {3, 0}, {9, 0}, true},
        {{0, 0}, {4, 0}, {5, 0}, {9, 0}, false}, {{0, 0}, {4, 0}, {1, 1}, {3, 1}, false},
        {{1, 1}, {1, 1}, {0, 0}, {2, 2}, true},  {{1, 2}, {1, 2}, {0, 0}, {2, 2}, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(mr_plane_segments_meet(cases[i].a, cases[i].b, cases[i].c, cases[i].d), cases[i].meet);
        assert_int_equal(mr_plane_segments_meet(cases[i].d, cases[i].c, cases[i].b, cases[i].a), cases[i].meet);
    }
}

TEST(points_in_a_polygon) {
    static const struct {
        double at[2];
        bool covered;
    } cases[] = {
        {{1, 1}, true},  {{3, 1}, false}, {{5, 1}, true},  {{3, 7}, true},  {{3, 5.9}, false}, {{-1, 7}, false},
        {{7, 7}, false}, {{1, 9}, false}, {{3, 6}, true},  {{2, 3}, true},  {{0, 0}, true},    {{6, 8}, true},
        {{3, 8}, true},  {{3, 0}, false}, {{1, 0}, true},  {{1, 6}, true},  {{5, 8.01}, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(mr_plane_covers(letter, 8, cases[i].at), cases[i].covered);
    assert_true(mr_plane_edge_distance(letter, 8, (double[]){3, 3}) == 1);
    assert_true(mr_plane_edge_distance(letter, 8, (double[]){3, 6.5}) == 0.5);
    assert_true(mr_plane_edge_distance(letter, 8, (double[]){9, 12}) == 5);
}

/* A triangle covers a point if all edges have it on one side. */
TEST(points_in_random_triangles) {
    for (int i = 0; i < 20000; i++) {
        double corner[3][2], p[2] = {between(0, 12), between(0, 12)};
        for (int k = 0; k < 3; k++)
            for (int axis = 0; axis < 2; axis++)
                corner[k][axis] = between(0, 12);
        if (mr_plane_area((const double(*)[2])corner, 3) == 0)
            continue;
        int right = 0, left = 0;
        for (int k = 0; k < 3; k++) {
            const double side = mr_plane_side(corner[k], corner[(k + 1) % 3], p);
            right += side > 0;
            left += side < 0;
        }
        assert_int_equal(mr_plane_covers((const double(*)[2])corner, 3, p), !right || !left);
    }
}

TEST(areas) {
    static const double bow[][2] = {{0, 0}, {4, 4}, {4, 0}, {0, 4}}, touch[][2] = {{0, 0}, {4, 0}, {4, 4}, {2, 0}};
    static const double twice[][2] = {{0, 0}, {4, 0}, {4, 0}, {4, 4}}, back[][2] = {{0, 0}, {4, 0}, {2, 0}};
    static const double straight[][2] = {{0, 0}, {2, 0}, {4, 0}, {4, 4}};
    assert_true(mr_plane_area(letter, 8) == 36);
    assert_true(mr_plane_area((const double[][2]){{0, 0}, {0, 3}, {4, 0}}, 3) == -6);
    assert_false(mr_plane_crosses_itself(letter, 8));
    assert_false(mr_plane_crosses_itself(straight, 4));
    assert_true(mr_plane_crosses_itself(bow, 4));
    assert_true(mr_plane_crosses_itself(touch, 4));
    assert_true(mr_plane_crosses_itself(twice, 4));
    assert_true(mr_plane_crosses_itself(back, 3));
}

static void leads(const mr_plane_map *map, double x, double y, double to_x, double to_y) {
    double to[2];
    assert_true(mr_plane_map_apply(map, (double[]){x, y}, to));
    assert_true(fabs(to[0] - to_x) < 1e-9 && fabs(to[1] - to_y) < 1e-9);
}

/* A road that becomes half as wide: its far half is a third of its height in the picture. The horizon is at y = 200. */
TEST(ground) {
    static const double picture[4][2] = {{300, 300}, {500, 300}, {600, 400}, {200, 400}};
    static const double metres[4][2] = {{0, 0}, {10, 0}, {10, 30}, {0, 30}};
    static const double inward[4][2] = {{0, 0}, {10, 0}, {2, 2}, {0, 10}};
    static const double line[4][2] = {{0, 0}, {1, 0}, {2, 0}, {0, 4}};
    mr_plane_map map;
    double none[2];
    assert_true(mr_plane_map_make(&map, picture, metres));
    for (int i = 0; i < 4; i++)
        leads(&map, picture[i][0], picture[i][1], metres[i][0], metres[i][1]);
    leads(&map, 400, 300, 5, 0);
    leads(&map, 400, 400, 5, 30);
    leads(&map, 400, 200 + 400. / 3, 5, 15); /* depth is the inverse of the height below the horizon */
    leads(&map, 400, 1000, 5, 52.5);
    assert_false(mr_plane_map_apply(&map, (double[]){400, 200}, none));
    assert_false(mr_plane_map_apply(&map, (double[]){400, 0}, none));
    assert_false(mr_plane_map_make(&map, line, metres));
    assert_false(mr_plane_map_make(&map, inward, metres));
}

RUN_TESTS(NULL, NULL)
