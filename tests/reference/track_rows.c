/* Follows objects for track.py.
 *
 *   track_rows CONFIRM_NS LOST_NS LOW HIGH BEGIN [DISSIMILAR REACH REMEMBER_NS LENGTH TIMES]
 *
 * Standard input, a line for each frame: time in nanoseconds, number of objects, then left, top, right, bottom, score
 * and class of each, and LENGTH numbers of its features; if the first is "none", it has none. The tracker gets them
 * TIMES times in a row, which changes no distance. Prints the objects' tracks, a line for each frame; 0: none. Standard
 * error has the time for a frame, in microseconds of this thread: the median. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "millrace/status.h"
#include "stages/objects/tracker.h"

enum { MOST_OBJECTS = 1000, MOST_FRAMES = 100000 };

static mr_object objects[MOST_OBJECTS];
static float *vectors; /* MOST_OBJECTS x length */
static const float *of[MOST_OBJECTS];
static size_t length, times;
static double taken_us[MOST_FRAMES];

static double now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int compare(const void *a, const void *b) {
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* Returns NULL for "none". */
static const float *read_vector(float *to) {
    char word[64];
    for (size_t i = 0; i < length; i++) {
        if (scanf("%63s", word) != 1)
            exit(EXIT_FAILURE);
        if (strcmp(word, "none") == 0)
            return NULL;
        to[i] = strtof(word, NULL);
    }
    for (size_t i = length; i < length * times; i++)
        to[i] = to[i - length];
    return to;
}

static void read_objects(size_t count) {
    for (size_t i = 0; i < count; i++) {
        mr_object *one = &objects[i];
        *one = (mr_object){0};
        if (scanf("%f %f %f %f %f %d", &one->left, &one->top, &one->right, &one->bottom, &one->score, &one->index) != 6)
            exit(EXIT_FAILURE);
        of[i] = read_vector(vectors + i * length * times);
    }
}

int main(int argc, char **argv) {
    long long now_ns;
    size_t count, frames = 0;
    mr_tracker *tracker;
    if (argc != 6 && argc != 11)
        return EXIT_FAILURE;
    length = argc > 6 ? (size_t)atoll(argv[9]) : 0;
    times = argc > 6 ? (size_t)atoll(argv[10]) : 1;
    vectors = malloc(MOST_OBJECTS * length * times * sizeof *vectors + 1);
    const mr_looks features = {of, length * times};
    const bool looks = argc > 6;
    const mr_tracker_params params = {
        .low = strtof(argv[3], NULL), .high = strtof(argv[4], NULL), .begin = strtof(argv[5], NULL),
        .confirm_ns = atoll(argv[1]), .lost_ns = atoll(argv[2]), .by_class = true, .most = 1000, .first_id = 1,
        .dissimilar = looks ? atof(argv[6]) : 0, .reach = looks ? atof(argv[7]) : 0,
        .remember_ns = looks ? atoll(argv[8]) : 0};
    if (!vectors || mr_tracker_create(&tracker, &params))
        return EXIT_FAILURE;
    while (frames < MOST_FRAMES && scanf("%lld %zu", &now_ns, &count) == 2 && count <= MOST_OBJECTS) {
        read_objects(count);
        const double since_us = now_us();
        const int status = mr_tracker_update(tracker, now_ns, objects, count, length ? &features : NULL);
        taken_us[frames++] = now_us() - since_us;
        for (size_t i = 0; i < count && !status; i++)
            printf("%lld ", (long long)objects[i].track);
        printf("\n");
    }
    mr_tracker_destroy(&tracker);
    free(vectors);
    qsort(taken_us, frames, sizeof *taken_us, compare);
    fprintf(stderr, "%.3f\n", taken_us[frames / 2]);
    return EXIT_SUCCESS;
}
