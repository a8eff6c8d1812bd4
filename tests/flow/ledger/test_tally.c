/* Class tallies: several threads add while another reads, and nothing is lost; arrays grow under readers. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "engine/flow/ledger/growing.h"
#include "engine/base/memory.h"
#include "engine/flow/ledger/retired.h"
#include "engine/flow/ledger/tally.h"
#include "tests/support/suite.h"

enum { THREADS = 4, FRAMES = 20000, CLASSES = 700, FOLDERS = 90 };

static mr_tally tally;
static atomic_bool over;

static void summarize(mr_source_summary *row) {
    *row = (mr_source_summary){.message = ""};
    mr_tally_summarize(&tally, row);
}

static void *add(void *context) {
    const unsigned thread = *(const unsigned *)context;
    for (unsigned i = 0; i < FRAMES; i++) {
        mr_class class[2] = {{.index = (int32_t)((i * 7 + thread) % CLASSES), .score = 0.25f}, {.index = 5}};
        const mr_result result = {.kind = mr_kind_classes(), .count = 2, .classes = class};
        mr_media media = {.label = "folder", .label_index = (int32_t)(i % FOLDERS)};
        class[0].label = i % 3 ? "folder" : "other";
        class[1].label = "other";
        mr_tally_add(&tally, &media, &result);
    }
    return NULL;
}

static void *read_on(void *context) {
    uint64_t before = 0, *wrong = context;
    while (!atomic_load(&over)) {
        mr_source_summary row;
        summarize(&row);
        *wrong += row.classified < before || row.right > row.listed || row.listed > THREADS * FRAMES ||
                  row.truth_count > FOLDERS;
        for (size_t i = 0; i < row.truth_count; i++)
            *wrong += strcmp(row.truths[i].label, "folder") != 0;
        before = row.classified;
        mr_free(row.truths);
    }
    return NULL;
}

TEST(all_threads_are_counted) {
    pthread_t threads[THREADS], reading;
    unsigned numbers[THREADS];
    uint64_t wrong = 0;
    mr_source_summary row;
    assert_int_equal(pthread_create(&reading, NULL, read_on, &wrong), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, add, &numbers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&over, true);
    pthread_join(reading, NULL);
    assert_int_equal(wrong, 0);
    summarize(&row);
    assert_int_equal(row.classified, THREADS * FRAMES);
    assert_int_equal(row.labelled, THREADS * FRAMES);
    assert_int_equal(row.right, THREADS * (FRAMES - (FRAMES + 2) / 3));
    assert_int_equal(row.listed, row.right);
    assert_int_equal(row.longest, 2);
    assert_int_equal(row.truth_count, FOLDERS);
    uint64_t frames = 0;
    for (size_t i = 0; i < row.truth_count; i++)
        frames += row.truths[i].frames;
    assert_int_equal(frames, THREADS * FRAMES);
    assert_int_equal(row.class_count, 5);
    for (size_t i = 0; i < row.class_count; i++)
        assert_true(row.classes[i].mean_score == 0.25);
    mr_free(row.truths);
    mr_tally_fini(&tally);
}

TEST(the_most_frequent_come_first) {
    mr_source_summary row;
    for (int32_t index = 0; index < 8; index++)
        for (int n = 0; n < (index == 6 ? 3 : index % 4); n++) {
            mr_class class = {.index = index * 100, .score = (float)n};
            mr_tally_add(&tally, NULL, &(mr_result){.kind = mr_kind_classes(), .count = 1, .classes = &class});
        }
    /* Indices beyond any array, and results without classes, are ignored. */
    mr_class far[] = {{.index = MR_MOST_CLASSES}, {.index = -1}};
    for (int i = 0; i < 2; i++)
        mr_tally_add(&tally, NULL, &(mr_result){.kind = mr_kind_classes(), .count = 1, .classes = &far[i]});
    mr_tally_add(&tally, NULL, &(mr_result){.kind = mr_kind_classes(), .count = 0});
    summarize(&row);
    static const int32_t expected[] = {300, 600, 700, 200, 100};
    static const uint64_t frames[] = {3, 3, 3, 2, 1};
    assert_int_equal(row.class_count, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(row.classes[i].index, expected[i]);
        assert_int_equal(row.classes[i].frames, frames[i]);
    }
    assert_int_equal(row.classified, 13);
    assert_true(row.classes[0].mean_score == 1.0);
    assert_null(row.truths);
    mr_tally_fini(&tally);
}

TEST(arrays_grow_in_place) {
    static const size_t indices[] = {0, 63, 64, 127, 128, 4095, 4096, 65535, MR_GROWING_MOST - 1};
    enum { COUNT = sizeof indices / sizeof *indices };
    mr_growing array = {{NULL}};
    size_t *items[COUNT];
    assert_int_equal(mr_growing_next(&array, 0), MR_GROWING_MOST);
    for (size_t i = 0; i < COUNT; i++) {
        items[i] = mr_growing_make(&array, sizeof(size_t), indices[i]);
        assert_non_null(items[i]);
        assert_int_equal(*items[i], 0);
        *items[i] = indices[i] + 1;
    }
    for (size_t i = 0; i < COUNT; i++) {
        assert_ptr_equal(mr_growing_at(&array, sizeof(size_t), indices[i]), items[i]);
        assert_int_equal(*items[i], indices[i] + 1);
        assert_int_equal(mr_growing_next(&array, indices[i]), indices[i]);
    }
    assert_null(mr_growing_at(&array, sizeof(size_t), 300));
    assert_int_equal(mr_growing_next(&array, 300), 2048); /* the first in 4095's chunk */
    assert_null(mr_growing_make(&array, sizeof(size_t), MR_GROWING_MOST));
    assert_null(mr_growing_make(&array, sizeof(size_t), SIZE_MAX));
    mr_growing_fini(&array);
    assert_null(mr_growing_at(&array, sizeof(size_t), 0));
}

RUN_TESTS(NULL, NULL)
