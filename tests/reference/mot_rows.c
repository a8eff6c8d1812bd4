/* Computes the figures of tracks for mot.py. Prints them, one a line, in the order of mr_track_figures.
 *
 *   mot_rows TRUTH FOUND CLASSES IMAGES
 *
 * Standard input: the sequence of each picture, then TRUTH rows and FOUND rows, all doubles. A row: image, class, left,
 * top, width, height, track, crowd. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "millrace/figures.h"
#include "millrace/status.h"
#include "tests/reference/raw.h"

enum { COLUMNS = 8 };

static mr_boxed *read_boxes(size_t count) {
    const double *rows = read_many(stdin, count * COLUMNS, sizeof *rows);
    mr_boxed *boxes = calloc(count + 1, sizeof *boxes);
    for (size_t i = 0; boxes && i < count; i++) {
        const double *row = rows + i * COLUMNS;
        boxes[i] = (mr_boxed){.image = (size_t)row[0], .label = (int32_t)row[1], .left = row[2], .top = row[3],
                              .width = row[4], .height = row[5], .track = (int64_t)row[6], .crowd = row[7] > 0};
    }
    free((void *)(uintptr_t)rows);
    return boxes;
}

int main(int argc, char **argv) {
    if (argc != 5)
        return 64;
    const size_t truth_count = (size_t)atol(argv[1]), count = (size_t)atol(argv[2]), images = (size_t)atol(argv[4]);
    const double *numbers = read_many(stdin, images, sizeof *numbers);
    size_t *sequence = calloc(images + 1, sizeof *sequence);
    mr_boxed *truth = read_boxes(truth_count), *found = read_boxes(count);
    mr_track_figures all;
    for (size_t i = 0; sequence && i < images; i++)
        sequence[i] = (size_t)numbers[i];
    if (!truth || !found || !sequence ||
        mr_track_figures_make(truth, truth_count, found, count, (size_t)atol(argv[3]), sequence,
                              images ? sequence[images - 1] + 1 : 0, &all))
        return EXIT_FAILURE;
    const uint64_t counts[] = {all.objects, all.found, all.matched, all.switches, all.tracks, all.found_tracks,
                               all.mostly_tracked, all.mostly_lost};
    const double figures[] = {all.mota, all.motp, all.idf1, all.id_precision, all.id_recall, all.hota, all.detection,
                              all.association};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        printf("%" PRIu64 "\n", counts[i]);
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        printf("%.17g\n", figures[i]);
    free((void *)(uintptr_t)numbers);
    free(sequence);
    free(truth);
    free(found);
    return 0;
}
