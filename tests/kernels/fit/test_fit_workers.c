/* The workers' sum must have the bits that the tree in fit_sum.h gives, on any threads. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/fit/fit_workers.h"
#include "tests/support/draw.h"
#include "tests/support/suite.h"

enum { MOST = 4 * MR_FIT_BLOCKS, LENGTH = 3 };

static void take_chunk(void *context, size_t chunk, void *scratch, double *sum) {
    memcpy(sum, (const double *)context + chunk * LENGTH, LENGTH * sizeof *sum);
}

static mr_fit_task task_of(double *values, size_t chunks) {
    return (mr_fit_task){.chunks = chunks, .length = LENGTH, .make = take_chunk, .context = values};
}

/* The values differ so much in size that any other order gives other bits. */
static void draw_chunks(double *chunks, size_t count) {
    for (size_t i = 0; i < count * LENGTH; i++)
        chunks[i] = ldexp(1.0 + (double)draw() / 2.0, (int)(30.0f * draw()));
}

/* The definition as a recursion: sums the chunks [first, first + count) below a node with this `width`. */
static double sum_of(const double *chunks, size_t first, size_t width, size_t count, size_t k) {
    const size_t half = width / 2;
    if (count == 1)
        return chunks[first * LENGTH + k];
    if (count <= half)
        return sum_of(chunks, first, half, count, k);
    return sum_of(chunks, first, half, half, k) + sum_of(chunks, first + half, half, count - half, k);
}

TEST(any_threads_make_the_same_sum) {
    double values[MOST * LENGTH], nodes[MR_FIT_BLOCKS * LENGTH];
    for (int threads = 1; threads <= 16; threads++) {
        ENDED_BY(mr_fit_workers_destroy) mr_fit_workers *workers = NULL;
        const mr_fit_task most = task_of(values, MOST);
        assert_int_equal(mr_fit_workers_create(&workers, &most, threads), 0);
        for (size_t chunks = 1; chunks <= MOST; chunks += chunks < MR_FIT_BLOCKS ? 1 : 7) {
            const mr_fit_task task = task_of(values, chunks);
            draw_chunks(values, chunks);
            mr_fit_workers_sum(workers, &task, nodes);
            for (size_t k = 0; k < LENGTH; k++)
                assert_true(nodes[k] == sum_of(values, 0, MOST, chunks, k));
        }
    }
}

RUN_TESTS(NULL, NULL)
