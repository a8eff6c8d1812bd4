/* Objects from several tiles: one stays, and small whole ones in front of large ones do too. */
#include "millrace/status.h"
#include "stages/objects/cascade/merge.h"
#include "tests/support/suite.h"

/* Two tiles beside each other that share 100 to 120, and the whole picture. */
static const mr_object parts[] = {{.number = 1, .left = 0, .top = 0, .right = 120, .bottom = 100},
                                  {.number = 2, .left = 100, .top = 0, .right = 220, .bottom = 100},
                                  {.number = 3, .left = 0, .top = 0, .right = 220, .bottom = 100}};
static const mr_merge_limits limits = {.iou = 0.5, .inside = 0.6};

static mr_object object(int64_t part, float left, float top, float right, float bottom, float score) {
    return (mr_object){.left = left, .top = top, .right = right, .bottom = bottom, .score = score, .parent = part};
}

static void expect(const mr_object *found, size_t count, size_t part_count, const char *want) {
    bool kept[16];
    assert_int_equal(mr_merge_parts(parts, part_count, found, count, &limits, kept), MR_OK);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(kept[i], want[i] == '1');
}

TEST(an_object_in_both_tiles_stays_once) {
    const mr_object found[] = {object(1, 104, 10, 114, 30, 0.7f), object(2, 104, 10, 114, 31, 0.8f)};
    expect(found, 2, 2, "01");
}

TEST(a_cut_object_goes_if_the_rest_is_elsewhere) {
    /* Whole in the second tile, cut at 120 in the first, which is surer. */
    const mr_object found[] = {object(1, 106, 10, 119.5f, 30, 0.9f), object(2, 106, 10, 140, 30, 0.5f)};
    expect(found, 2, 2, "01");
}

TEST(an_object_larger_than_a_tile) {
    const mr_object found[] = {object(1, 20, 10, 120, 90, 0.9f), object(2, 100, 10, 200, 90, 0.8f),
                               object(3, 20, 10, 200, 90, 0.6f)};
    expect(found, 3, 3, "001");
    /* Without the whole picture, both parts stay: nothing tells that they are one. */
    expect(found, 2, 2, "11");
}

TEST(small_objects_in_front_of_large_ones_stay) {
    const mr_object found[] = {object(3, 10, 5, 210, 95, 0.9f), object(1, 40, 40, 50, 60, 0.4f),
                               object(2, 150, 40, 160, 60, 0.4f)};
    expect(found, 3, 3, "111");
}

TEST(the_edge_of_the_picture_cuts_nothing) {
    const mr_object found[] = {object(3, 0, 0, 60, 100, 0.9f), object(1, 0, 0, 10, 100, 0.5f)};
    expect(found, 2, 3, "11");
}

TEST(other_classes_and_the_same_tile_stay) {
    mr_object found[] = {object(1, 104, 10, 114, 30, 0.7f), object(2, 104, 10, 114, 30, 0.8f),
                         object(1, 104, 10, 114, 31, 0.6f)};
    found[1].index = 1;
    expect(found, 3, 2, "111");
}

TEST(no_objects) {
    expect(NULL, 0, 3, "");
}

RUN_TESTS(NULL, NULL)
