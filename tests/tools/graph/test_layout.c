/* Layouts of random graphs, with the sizes of characters and of pixels: everything that makes a drawing readable in
 * one way only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "millrace/status.h"
#include "tools/millrace/graph/layout.h"

enum { MOST_BOXES = 64, MOST_ARROWS = 512, ROUNDS = 400 };

typedef struct drawn {
    mr_graph_layout layout;
    mr_layout_box box[MOST_BOXES];
    mr_layout_arrow arrow[MOST_ARROWS];
    mr_layout_style style;
} drawn;

static const int leasts[] = {3, 6, 60};
static const mr_layout_style cells = {.cell = 1,
                                     .box_gap = 2,
                                     .rail_gap = 1,
                                     .inset = 2,
                                     .end_gap = 4,
                                     .label_gap = 2,
                                     .label_space = 2,
                                     .label_height = 1,
                                     .track = 1,
                                     .channel = 1,
                                     .group_pad = 2,
                                     .group_gap = 1,
                                     .group_least = leasts};
static const mr_layout_style pixels = {.box_gap = 24,
                                      .rail_gap = 10,
                                      .inset = 20,
                                      .end_gap = 28,
                                      .label_gap = 7,
                                      .label_space = 14,
                                      .label_height = 18,
                                      .track = 10,
                                      .arrow = 12,
                                      .channel = 22,
                                      .head = 30,
                                      .group_pad = 14,
                                      .group_gap = 14,
                                      .group_least = leasts};

static uint64_t seed;

static int random_below(int end) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int)((seed >> 33) % (uint64_t)end);
}

/* A graph of up to `boxes` boxes with arrows from lower to higher numbers, some of them near and some far. */
static void make_graph(drawn *d, int boxes, int arrows) {
    int unit = d->style.cell ? 1 : 10;
    d->layout.box_count = 2 + random_below(boxes - 1);
    d->layout.group_count = 1 + random_below(3);
    for (int b = 0; b < d->layout.box_count; b++)
        d->box[b] = (mr_layout_box){.least = unit * (5 + random_below(20)),
                                   .height = unit * (3 + random_below(2)),
                                   .group = random_below(d->layout.group_count)};
    d->layout.arrow_count = random_below(arrows);
    for (int a = 0; a < d->layout.arrow_count; a++) {
        int to = 1 + random_below(d->layout.box_count - 1), back = random_below(2) ? to : to < 4 ? to : 4;
        int from = to - 1 - random_below(back), ports = from % 5 == 0 ? 2 : 1;
        int from_port = random_below(ports), to_port = to % 3 == 0 ? random_below(3) : 0;
        d->arrow[a] = (mr_layout_arrow){.from = from,
                                       .from_port = from_port,
                                       .to = to,
                                       .to_port = to_port,
                                       .from_label = unit * (from % 12),
                                       .to_label = to % 3 == 0 ? unit * 3 : 0,
                                       .cut = random_below(20) == 0};
    }
    d->layout.box = d->box;
    d->layout.arrow = d->arrow;
}

/* ---- what must hold -------------------------------------------------------------------------------------------- */

static void layers_follow_arrows(const drawn *d) {
    for (int a = 0; a < d->layout.arrow_count; a++)
        assert_true(d->box[d->arrow[a].from].layer < d->box[d->arrow[a].to].layer);
    for (int a = 0; a < d->layout.arrow_count; a++)
        assert_true(d->box[d->arrow[a].from].y + d->box[d->arrow[a].from].height <= d->box[d->arrow[a].to].y);
}

static void boxes_stand_apart(const drawn *d) {
    const mr_graph_layout *layout = &d->layout;
    for (int a = 0; a < layout->box_count; a++) {
        const mr_layout_box *one = &d->box[a];
        assert_true(one->width >= one->least);
        assert_true(one->x >= 0 && one->y >= 0);
        assert_true(one->x + one->width <= layout->width && one->y + one->height <= layout->height);
        for (int b = 0; b < a; b++) {
            const mr_layout_box *other = &d->box[b];
            assert_true(one->x + one->width < other->x || other->x + other->width < one->x ||
                        one->y + one->height < other->y || other->y + other->height < one->y);
        }
        if (d->style.grouped)
            assert_true(one->x >= layout->group[one->group].x &&
                        one->x + one->width <= layout->group[one->group].x + layout->group[one->group].width);
    }
    for (int g = 1; d->style.grouped && g < layout->group_count; g++)
        assert_true(layout->group[g - 1].x + layout->group[g - 1].width <= layout->group[g].x);
}

static bool vertical(const mr_layout_line *line) {
    return line->x0 == line->x1;
}

/* Lines of different nets may cross at right angles, and no end of one lies on the other. */
static void nets_do_not_touch(const drawn *d) {
    const mr_graph_layout *layout = &d->layout;
    for (int i = 0; i < layout->line_count; i++)
        for (int j = 0; j < i; j++) {
            const mr_layout_line *a = &layout->line[i], *b = &layout->line[j];
            if (a->net == b->net || a->x1 < b->x0 || b->x1 < a->x0 || a->y1 < b->y0 || b->y1 < a->y0)
                continue;
            const mr_layout_line *up = vertical(a) ? a : b, *across = vertical(a) ? b : a;
            assert_true(vertical(up) && !vertical(across));
            assert_true(across->x0 < up->x0 && up->x0 < across->x1);
            assert_true(up->y0 < across->y0 && across->y0 < up->y1);
        }
}

/* Only at its ends does a line touch a box. */
static void lines_keep_clear_of_boxes(const drawn *d) {
    const mr_graph_layout *layout = &d->layout;
    for (int i = 0; i < layout->line_count; i++) {
        const mr_layout_line *line = &layout->line[i];
        assert_true(line->x0 <= line->x1 && line->y0 <= line->y1);
        assert_true(line->x0 >= 0 && line->x1 <= layout->width - d->style.cell && line->y1 <= layout->height);
        for (int b = 0; b < layout->box_count; b++) {
            const mr_layout_box *box = &d->box[b];
            int right = box->x + box->width - d->style.cell, bottom = box->y + box->height - d->style.cell;
            if (line->x1 < box->x || line->x0 > right || line->y1 < box->y || line->y0 > bottom)
                continue;
            assert_true(vertical(line) && (line->y0 == bottom || line->y1 == box->y));
            assert_true(line->x0 > box->x && line->x0 < right);
        }
    }
}

static bool meet(const mr_layout_line *a, const mr_layout_line *b) {
    return a->net == b->net && a->x0 <= b->x1 && b->x0 <= a->x1 && a->y0 <= b->y1 && b->y0 <= a->y1;
}

/* Marks with `mark` all lines that hang together with line i. */
static void spread(const mr_graph_layout *layout, int *marked, int i, int mark) {
    marked[i] = mark;
    for (int j = 0; j < layout->line_count; j++)
        if (!marked[j] && meet(&layout->line[i], &layout->line[j]))
            spread(layout, marked, j, mark);
}

static int mark_at(const mr_graph_layout *layout, const int *marked, const mr_layout_end *end) {
    for (int i = 0; i < layout->line_count; i++) {
        const mr_layout_line *line = &layout->line[i];
        if (line->net == end->net && vertical(line) && line->x0 == end->x &&
            (end->arrives ? line->y1 : line->y0) == end->y)
            return marked[i];
    }
    return 0;
}

static const mr_layout_end *find_end(const mr_graph_layout *layout, int box, int port, bool arrives, int net) {
    for (int i = 0; i < layout->end_count; i++) {
        const mr_layout_end *end = &layout->end[i];
        if (end->box == box && end->port == port && end->arrives == arrives && end->net == net)
            return end;
    }
    fail_msg("box %d has no end at port %d", box, port);
    return NULL;
}

static bool has_arrow(const drawn *d, const mr_layout_end *from, const mr_layout_end *to) {
    for (int a = 0; a < d->layout.arrow_count; a++) {
        const mr_layout_arrow *arrow = &d->arrow[a];
        if (!arrow->cut && arrow->from == from->box && arrow->from_port == from->port && arrow->to == to->box &&
            arrow->to_port == to->port)
            return true;
    }
    return false;
}

/* Who follows a line from any box where one leaves comes to all boxes that it has arrows to, and to no others. */
static void lines_tell_the_arrows(const drawn *d) {
    const mr_graph_layout *layout = &d->layout;
    int *marked = test_calloc((size_t)layout->line_count + 1, sizeof *marked), mark = 0;
    for (int i = 0; i < layout->line_count; i++)
        if (!marked[i])
            spread(layout, marked, i, ++mark);
    for (int i = 0; i < layout->end_count; i++)
        for (int j = 0; j < layout->end_count; j++) {
            const mr_layout_end *from = &layout->end[i], *to = &layout->end[j];
            if (from->arrives || !to->arrives)
                continue;
            bool joined = mark_at(layout, marked, from) == mark_at(layout, marked, to);
            if (joined)
                assert_true(has_arrow(d, from, to));
        }
    for (int a = 0; a < layout->arrow_count; a++) {
        int net = layout->net_of[a];
        if (net < 0)
            continue;
        const mr_layout_end *from = find_end(layout, d->arrow[a].from, d->arrow[a].from_port, false, net);
        const mr_layout_end *to = find_end(layout, d->arrow[a].to, d->arrow[a].to_port, true, net);
        assert_int_not_equal(mark_at(layout, marked, from), 0);
        assert_int_equal(mark_at(layout, marked, from), mark_at(layout, marked, to));
    }
    test_free(marked);
}

/* Labels, from their lines to their widths, keep clear of all other labels and verticals of the same height. */
static void labels_have_room(const drawn *d) {
    const mr_graph_layout *layout = &d->layout;
    for (int i = 0; i < layout->end_count; i++) {
        const mr_layout_end *end = &layout->end[i];
        int left = end->x + d->style.label_gap, right = left + end->label, top = end->label_y;
        int bottom = top + d->style.label_height;
        for (int j = 0; end->label && j < layout->line_count; j++) {
            const mr_layout_line *line = &layout->line[j];
            bool beside = line->y1 < top || line->y0 >= bottom || line->x1 < left || line->x0 >= right;
            assert_true(beside);
        }
    }
}

static void check(const drawn *d) {
    layers_follow_arrows(d);
    boxes_stand_apart(d);
    nets_do_not_touch(d);
    lines_keep_clear_of_boxes(d);
    lines_tell_the_arrows(d);
    labels_have_room(d);
}

/* ---- tests ----------------------------------------------------------------------------------------------------- */

static drawn *start(const mr_layout_style *style) {
    drawn *d = test_calloc(1, sizeof *d);
    d->style = *style;
    d->style.grouped = random_below(2);
    d->style.limit = random_below(2) ? 0 : (style->cell ? 1 : 10) * (1 + random_below(100));
    return d;
}

/* A width that sufficed suffices again; one that does not is told. */
static void stop_at_width(drawn *d) {
    int width = d->layout.width, layers = d->layout.layer_count;
    for (int less = 0; less < 3; less++) {
        mr_layout_fini(&d->layout);
        d->style.most = width - less * (width - 1) / 2;
        assert_int_equal(mr_layout_make(&d->layout, &d->style), MR_OK);
        assert_int_equal(d->layout.layer_count, layers);
        if (d->layout.width <= d->style.most)
            check(d);
        assert_true(less < 2 || d->layout.width > d->style.most);
    }
}

static void random_layouts(const mr_layout_style *style) {
    print_message("seeds 0 to %d\n", ROUNDS - 1);
    for (int round = 0; round < ROUNDS; round++) {
        seed = (uint64_t)round;
        drawn *d = start(style);
        make_graph(d, round % 4 ? 12 : MOST_BOXES, round % 4 ? 24 : MOST_ARROWS / 4);
        assert_int_equal(mr_layout_make(&d->layout, &d->style), MR_OK);
        check(d);
        stop_at_width(d);
        mr_layout_fini(&d->layout);
        test_free(d);
    }
}

static void layouts_of_cells_can_be_read(void **state) {
    (void)state;
    random_layouts(&cells);
}

static void layouts_of_pixels_can_be_read(void **state) {
    (void)state;
    random_layouts(&pixels);
}

static void same_graph_same_layout(void **state) {
    (void)state;
    drawn *d[2];
    for (int i = 0; i < 2; i++) {
        seed = 7;
        d[i] = start(&cells);
        make_graph(d[i], MOST_BOXES, MOST_ARROWS / 2);
        assert_int_equal(mr_layout_make(&d[i]->layout, &d[i]->style), MR_OK);
    }
    const mr_graph_layout *a = &d[0]->layout, *b = &d[1]->layout;
    assert_memory_equal(d[0]->box, d[1]->box, sizeof d[0]->box);
    assert_int_equal(a->line_count, b->line_count);
    assert_memory_equal(a->line, b->line, (size_t)a->line_count * sizeof *a->line);
    for (int i = 0; i < 2; i++) {
        mr_layout_fini(&d[i]->layout);
        test_free(d[i]);
    }
}

static drawn *of_arrows(const mr_layout_style *style, int boxes, const int (*arrows)[2], int count) {
    drawn *d = test_calloc(1, sizeof *d);
    d->style = *style;
    for (int b = 0; b < boxes; b++)
        d->box[b] = (mr_layout_box){.least = 10, .height = 3};
    for (int a = 0; a < count; a++)
        d->arrow[a] = (mr_layout_arrow){.from = arrows[a][0], .to = arrows[a][1]};
    d->layout =
        (mr_graph_layout){.box_count = boxes, .box = d->box, .arrow_count = count, .arrow = d->arrow, .group_count = 1};
    assert_int_equal(mr_layout_make(&d->layout, &d->style), MR_OK);
    check(d);
    return d;
}

static void stop(drawn *d) {
    mr_layout_fini(&d->layout);
    test_free(d);
}

/* Longest paths by hand; 2 takes nothing and stands above its consumer. */
static void layers_are_longest_paths(void **state) {
    (void)state;
    const int arrows[][2] = {{0, 1}, {1, 3}, {0, 3}, {3, 4}, {2, 4}, {0, 4}};
    const int layers[] = {0, 1, 2, 2, 3};
    drawn *d = of_arrows(&cells, 5, arrows, 6);
    for (int b = 0; b < 5; b++)
        assert_int_equal(d->box[b].layer, layers[b]);
    stop(d);
}

static void chains_are_straight(void **state) {
    (void)state;
    const int arrows[][2] = {{0, 1}, {1, 2}, {2, 3}};
    drawn *d = of_arrows(&cells, 4, arrows, 3);
    assert_int_equal(d->layout.line_count, 3);
    assert_int_equal(d->layout.height, 4 * 3 + 3);
    assert_int_equal(d->layout.width, 10);
    stop(d);
}

/* One to six to one under a width for two: two nets, however many layers. */
static void fans_share_lines(void **state) {
    (void)state;
    int arrows[12][2];
    mr_layout_style narrow = cells;
    for (int i = 0; i < 6; i++) {
        arrows[i][0] = 0;
        arrows[i][1] = arrows[6 + i][0] = 1 + i;
        arrows[6 + i][1] = 7;
    }
    narrow.limit = 22;
    narrow.most = 22 + 2 * 2;
    drawn *d = of_arrows(&narrow, 8, (const int(*)[2])arrows, 12);
    assert_int_equal(d->layout.net_count, 2);
    assert_int_equal(d->layout.layer_count, 5);
    assert_true(d->layout.width <= 22 + 2 * 2);
    stop(d);
}

/* Two boxes whose consumers stand the other way round: sorting takes the crossing away. */
static void crossings_are_undone(void **state) {
    (void)state;
    const int arrows[][2] = {{0, 3}, {1, 2}};
    drawn *d = of_arrows(&cells, 4, arrows, 2);
    assert_int_equal(d->layout.line_count, 2);
    stop(d);
}

static void nothing_is_drawn_of_nothing(void **state) {
    (void)state;
    drawn *d = of_arrows(&cells, 1, NULL, 0);
    assert_int_equal(d->layout.line_count, 0);
    assert_int_equal(d->layout.height, 3);
    stop(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_are_longest_paths),
        cmocka_unit_test(chains_are_straight),
        cmocka_unit_test(fans_share_lines),
        cmocka_unit_test(crossings_are_undone),
        cmocka_unit_test(nothing_is_drawn_of_nothing),
        cmocka_unit_test(same_graph_same_layout),
        cmocka_unit_test(layouts_of_cells_can_be_read),
        cmocka_unit_test(layouts_of_pixels_can_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
