/* Computes the figures of objects for objects.py. Prints the twelve figures and each class's precision, one a line.
 *
 *   objects_rows TRUTH FOUND CLASSES
 *
 * Standard input: TRUTH rows, then FOUND rows, of nine doubles: image, class, left, top, width, height, score, area,
 * crowd. */
#include <stdio.h>
#include <stdlib.h>

#include "millrace/figures.h"
#include "millrace/status.h"
#include "tests/reference/raw.h"

enum { COLUMNS = 9 };

static mr_boxed *read_boxes(size_t count) {
    const double *rows = read_many(stdin, count * COLUMNS, sizeof *rows);
    mr_boxed *boxes = calloc(count + 1, sizeof *boxes);
    for (size_t i = 0; boxes && i < count; i++) {
        const double *row = rows + i * COLUMNS;
        boxes[i] = (mr_boxed){.image = (size_t)row[0], .label = (int32_t)row[1], .left = row[2], .top = row[3],
                              .width = row[4], .height = row[5], .score = row[6], .area = row[7], .crowd = row[8] > 0};
    }
    free((void *)(uintptr_t)rows);
    return boxes;
}

int main(int argc, char **argv) {
    if (argc != 4)
        return 64;
    const size_t truth_count = (size_t)atol(argv[1]), count = (size_t)atol(argv[2]), classes = (size_t)atol(argv[3]);
    mr_boxed *truth = read_boxes(truth_count), *found = read_boxes(count);
    double *each = calloc(classes + 1, sizeof *each);
    mr_object_figures all;
    if (!truth || !found || !each || mr_object_figures_make(truth, truth_count, found, count, classes, &all, each))
        return EXIT_FAILURE;
    const double figures[] = {all.precision, all.precision_50, all.precision_75, all.precision_small,
                              all.precision_medium, all.precision_large, all.recall_1, all.recall_10, all.recall_100,
                              all.recall_small, all.recall_medium, all.recall_large};
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        printf("%.17g\n", figures[i]);
    for (size_t k = 0; k < classes; k++)
        printf("%.17g\n", each[k]);
    free(truth);
    free(found);
    free(each);
    return 0;
}
