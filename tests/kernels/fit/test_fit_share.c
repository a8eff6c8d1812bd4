/* Shares of a sum: for any number of processes and any weights they are all blocks, once, and the sum that is joined
 * from them has the bits of the sum that one process makes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/fit/fit_crew.h"
#include "kernels/fit/fit_share.h"
#include "tests/support/draw.h"

enum { MOST = MR_FIT_BLOCKS, PARTS = 16, LENGTH = 3 };

static mr_fit_crew *crew; /* one thread */

static void take_block(void *context, size_t block, void *scratch, double *sum) {
    (void)scratch;
    memcpy(sum, (const double *)context + block * LENGTH, LENGTH * sizeof *sum);
}

/* A task whose chunks are blocks, with values that are there. */
static mr_fit_task task_of(double *values, size_t blocks) {
    return (mr_fit_task){.chunks = blocks, .length = LENGTH, .make = take_block, .context = values};
}

/* Values of very different sizes: any other order of additions gives other bits. */
static void draw_blocks(double *blocks, size_t count) {
    for (size_t i = 0; i < count * LENGTH; i++)
        blocks[i] = ldexp(1.0 + (double)draw() / 2.0, (int)(30.0f * draw()));
}

/* The definition, as a recursion: the sum of blocks [first, first + count) below a node of `width`. */
static double sum_of(const double *blocks, size_t first, size_t width, size_t count, size_t k) {
    const size_t half = width / 2;
    if (count == 1)
        return blocks[first * LENGTH + k];
    if (count <= half)
        return sum_of(blocks, first, half, count, k);
    return sum_of(blocks, first, half, half, k) + sum_of(blocks, first + half, half, count - half, k);
}

/* As a helper does: its span as whole nodes. Returns how many there are. */
static size_t make(mr_fit_crew *by, mr_fit_span span, const mr_fit_task *task, double *nodes, size_t *has) {
    size_t made = 0;
    mr_fit_crew_blocks(by, task, span.first, span.count, nodes + span.first * LENGTH);
    for (size_t count; (count = mr_fit_widest(span, task->chunks)) > 0; made++) {
        has[span.first] = count;
        span.first += count;
        span.count -= count;
    }
    assert_int_equal(span.count, 0);
    return made;
}

static void draw_weights(double *weights, size_t parts) {
    for (size_t i = 0; i < parts; i++)
        weights[i] = draw() > 0.0f ? (double)draw() + 1.0 : 0.0;
    weights[(size_t)((double)(parts - 1) * ((double)draw() + 1.0) / 2.0)] = 1.0;
}

static void check(size_t blocks, size_t parts, const double *weights) {
    double values[MOST * LENGTH], nodes[MOST * LENGTH];
    mr_fit_span spans[PARTS];
    size_t has[MOST] = {0}, next = 0;
    const mr_fit_task task = task_of(values, blocks);
    draw_blocks(values, blocks);
    mr_fit_share(blocks, weights, parts, spans);
    for (size_t i = 0; i < parts; i++) {
        assert_int_equal(spans[i].first, next);
        next += spans[i].count;
        const size_t made = make(crew, spans[i], &task, nodes, has);
        assert_true(made <= 12); /* two for each level of 64 blocks */
        if (weights[i] <= 0.0 && i > 0)
            assert_int_equal(spans[i].count, 0);
    }
    assert_int_equal(next, blocks);
    mr_fit_join_nodes(nodes, LENGTH, blocks, has);
    for (size_t k = 0; k < LENGTH; k++)
        assert_true(nodes[k] == sum_of(values, 0, MOST, blocks, k));
}

static void any_shares_make_the_same_sum(void **state) {
    (void)state;
    for (size_t parts = 1; parts <= PARTS; parts++)
        for (size_t blocks = 1; blocks <= MOST; blocks++)
            for (int round = 0; round < 4; round++) {
                double weights[PARTS];
                for (size_t i = 0; i < parts; i++)
                    weights[i] = 1.0;
                if (round)
                    draw_weights(weights, parts);
                check(blocks, parts, weights);
            }
}

/* In any order of spans, and of any borders. */
static void any_borders_make_the_same_sum(void **state) {
    (void)state;
    for (size_t blocks = 1; blocks <= MOST; blocks++)
        for (size_t a = 0; a <= blocks; a++)
            for (size_t b = a; b <= blocks; b += 5) {
                double values[MOST * LENGTH], nodes[MOST * LENGTH];
                size_t has[MOST] = {0};
                const mr_fit_task task = task_of(values, blocks);
                draw_blocks(values, blocks);
                make(crew, (mr_fit_span){b, blocks - b}, &task, nodes, has);
                make(crew, (mr_fit_span){0, a}, &task, nodes, has);
                make(crew, (mr_fit_span){a, b - a}, &task, nodes, has);
                mr_fit_join_nodes(nodes, LENGTH, blocks, has);
                for (size_t k = 0; k < LENGTH; k++)
                    assert_true(nodes[k] == sum_of(values, 0, MOST, blocks, k));
            }
}

/* Whichever threads make the blocks, and in whatever order they come to an end. */
static void any_threads_make_the_same_sum(void **state) {
    (void)state;
    for (int threads = 1; threads <= 16; threads++) {
        double values[MOST * LENGTH], nodes[MOST * LENGTH];
        mr_fit_crew *many = NULL;
        const mr_fit_task most = task_of(values, MOST);
        assert_int_equal(mr_fit_crew_create(&many, &most, threads), 0);
        for (size_t blocks = 1; blocks <= MOST; blocks++) {
            const size_t border = (size_t)((double)blocks * ((double)draw() + 1.0) / 2.0);
            size_t has[MOST] = {0};
            const mr_fit_task task = task_of(values, blocks);
            draw_blocks(values, blocks);
            mr_fit_crew_sum(many, &task, nodes);
            for (size_t k = 0; k < LENGTH; k++)
                assert_true(nodes[k] == sum_of(values, 0, MOST, blocks, k));
            make(many, (mr_fit_span){border, blocks - border}, &task, nodes, has);
            make(many, (mr_fit_span){0, border}, &task, nodes, has);
            mr_fit_join_nodes(nodes, LENGTH, blocks, has);
            for (size_t k = 0; k < LENGTH; k++)
                assert_true(nodes[k] == sum_of(values, 0, MOST, blocks, k));
        }
        mr_fit_crew_destroy(&many);
    }
}

static void equal_parts_have_equal_shares(void **state) {
    const double weights[PARTS] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    mr_fit_span spans[PARTS];
    (void)state;
    for (size_t parts = 1; parts <= PARTS; parts++) {
        mr_fit_share(MOST, weights, parts, spans);
        for (size_t i = 0; i < parts; i++)
            assert_true(fabs((double)spans[i].count - (double)MOST / (double)parts) <= 4.0);
    }
    mr_fit_share(28, weights, 2, spans);
    assert_int_equal(spans[0].count, 14);
    assert_int_equal(mr_fit_widest((mr_fit_span){0, 14}, 28), 8);
    assert_int_equal(mr_fit_widest((mr_fit_span){16, 12}, 28), 12);
    assert_int_equal(mr_fit_widest((mr_fit_span){16, 12}, 29), 8);
    assert_int_equal(mr_fit_widest((mr_fit_span){5, 0}, 28), 0);
}

static int begin(void **state) {
    const mr_fit_task most = task_of(NULL, MOST);
    (void)state;
    return mr_fit_crew_create(&crew, &most, 1);
}

static int end(void **state) {
    (void)state;
    mr_fit_crew_destroy(&crew);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_shares_make_the_same_sum),
        cmocka_unit_test(any_borders_make_the_same_sum),
        cmocka_unit_test(any_threads_make_the_same_sum),
        cmocka_unit_test(equal_parts_have_equal_shares),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
