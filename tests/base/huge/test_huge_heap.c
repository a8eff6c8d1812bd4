#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "engine/base/huge/huge_heap.h"
#include "engine/base/thread.h"
#include "tests/support/suite.h"

static void assert_empty(mr_huge_heap *heap) {
    mr_huge_trim(heap);
    assert_int_equal(heap->mapped, 0);
    assert_int_equal(heap->in_use, 0);
    assert_null(heap->vacant);
}

TEST(blocks_are_aligned_and_apart) {
    static const size_t sizes[] = {0, 1, 63, 64, 65, 4096, MR_HUGE_PAGE - 64, MR_HUGE_PAGE, 5 * MR_HUGE_PAGE + 7};
    enum { COUNT = sizeof sizes / sizeof sizes[0] };
    mr_huge_heap heap = MR_HUGE_HEAP;
    uint8_t *block[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        block[i] = mr_huge_alloc(&heap, sizes[i]);
        assert_non_null(block[i]);
        assert_int_equal((uintptr_t)block[i] % 64, 0);
        memset(block[i], (int)i + 1, sizes[i]);
    }
    for (size_t i = 0; i < COUNT; i++)
        for (size_t at = 0; at < sizes[i]; at++)
            if (block[i][at] != i + 1)
                fail_msg("block %zu was written to at %zu", i, at);
    for (size_t i = 0; i < COUNT; i++)
        mr_huge_free(&heap, block[i * 4 % COUNT]);
    mr_huge_free(&heap, NULL);
    assert_empty(&heap);
}

/* Three neighbours that are freed in any order are one block again: they fit into the first region. */
TEST(free_neighbours_join) {
    static const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    mr_huge_heap heap = MR_HUGE_HEAP;
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        void *block[3];
        for (int j = 0; j < 3; j++)
            block[j] = mr_huge_alloc(&heap, MR_HUGE_PAGE / 4);
        for (int j = 0; j < 3; j++)
            mr_huge_free(&heap, block[orders[i][j]]);
        void *whole = mr_huge_alloc(&heap, MR_HUGE_PAGE - 64);
        assert_int_equal(heap.mapped, MR_HUGE_PAGE);
        mr_huge_free(&heap, whole);
    }
    assert_empty(&heap);
}

TEST(a_repeated_sequence_maps_nothing_more) {
    mr_huge_heap heap = MR_HUGE_HEAP;
    size_t mapped = 0;
    for (int round = 0; round < 100; round++) {
        void *block[20];
        for (size_t i = 0; i < 20; i++)
            block[i] = mr_huge_alloc(&heap, (i * 7919 % 20 + 1) * 300000);
        if (round == 0)
            mapped = heap.mapped;
        assert_int_equal(heap.mapped, mapped);
        for (size_t i = 0; i < 20; i++)
            mr_huge_free(&heap, block[i * 3 % 20]);
    }
    assert_empty(&heap);
}

/* Each block is larger than the region before, which would otherwise stay. */
TEST(growth_returns_regions_that_are_too_small) {
    mr_huge_heap heap = MR_HUGE_HEAP;
    for (size_t pages = 1; pages <= 32; pages++) {
        mr_huge_free(&heap, mr_huge_alloc(&heap, pages * MR_HUGE_PAGE - 64));
        assert_int_equal(heap.mapped, pages * MR_HUGE_PAGE);
    }
    assert_empty(&heap);
}

TEST(a_trim_keeps_what_is_used) {
    mr_huge_heap heap = MR_HUGE_HEAP;
    uint8_t *kept = mr_huge_alloc(&heap, 1000), *other = mr_huge_alloc(&heap, 3 * MR_HUGE_PAGE);
    memset(kept, 7, 1000);
    mr_huge_free(&heap, other);
    mr_huge_trim(&heap);
    assert_int_equal(heap.mapped, MR_HUGE_PAGE);
    assert_int_equal(kept[999], 7);
    mr_huge_free(&heap, kept);
    assert_empty(&heap);
}

/* The pages of a region that are in memory, in bytes. */
static size_t resident_bytes(void *region, size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char in[8 * MR_HUGE_PAGE / 4096];
    size_t sum = 0;
    assert_true(bytes / page <= sizeof in);
    assert_int_equal(mincore(region, bytes, in), 0);
    for (size_t i = 0; i < bytes / page; i++)
        sum += in[i] & 1 ? page : 0;
    return sum;
}

/* Only pages with a part of the block that is left, or the start of free memory, stay. The rest can be used again. */
TEST(a_trim_empties_the_pages_of_free_blocks) {
    enum { REGION = 8 * MR_HUGE_PAGE, BYTES = 300 << 10, COUNT = 50 };
    for (size_t left = 0; left < COUNT; left += 7) {
        mr_huge_heap heap = {.lock = PTHREAD_MUTEX_INITIALIZER, .region = REGION};
        uint8_t *block[COUNT], *region = NULL;
        for (size_t i = 0; i < COUNT; i++) {
            assert_non_null(block[i] = mr_huge_alloc(&heap, BYTES));
            memset(block[i], (int)i + 1, BYTES);
            region = !region || block[i] < region ? block[i] : region;
        }
        region -= (uintptr_t)region % MR_HUGE_PAGE;
        assert_int_equal(heap.mapped, REGION);
        assert_true(resident_bytes(region, REGION) >= COUNT * BYTES);
        for (size_t i = 0; i < COUNT; i++)
            if (i != left)
                mr_huge_free(&heap, block[i]);
        mr_huge_trim(&heap);
        assert_in_range(resident_bytes(region, REGION), BYTES, 3 * MR_HUGE_PAGE);
        for (size_t at = 0; at < BYTES; at++)
            if (block[left][at] != left + 1)
                fail_msg("byte %zu of the block that is left has changed", at);
        for (size_t i = 0; i < COUNT; i++)
            if (i != left) {
                assert_non_null(block[i] = mr_huge_alloc(&heap, BYTES));
                memset(block[i], 1, BYTES);
            }
        assert_int_equal(heap.mapped, REGION);
        for (size_t i = 0; i < COUNT; i++)
            mr_huge_free(&heap, block[i]);
        assert_empty(&heap);
    }
}

/* The process's address space. */
static rlim_t mapped_bytes(void) {
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu", &pages), 1);
    fclose(file);
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

TEST(too_much_is_refused) {
    mr_huge_heap heap = MR_HUGE_HEAP;
    assert_null(mr_huge_alloc(&heap, SIZE_MAX));
    assert_null(mr_huge_alloc(&heap, SIZE_MAX - 100));
    assert_null(mr_huge_alloc(&heap, (size_t)1 << 60));
    assert_int_equal(heap.in_use, 0);
    assert_empty(&heap);
}

/* Large blocks lie side by side in large regions. If there is no room for one, the block still has its own pages. */
TEST(blocks_share_large_regions) {
    enum { REGION = 8 * MR_HUGE_PAGE, BYTES = MR_HUGE_PAGE / 5 * 3 };
    mr_huge_heap heap = {.lock = PTHREAD_MUTEX_INITIALIZER, .region = REGION};
    struct rlimit before, less;
    void *block[14];
    skip_emulated("it does not limit a program's memory");
    for (size_t i = 0; i < 13; i++)
        assert_non_null(block[i] = mr_huge_alloc(&heap, BYTES));
    assert_int_equal(heap.mapped, REGION);
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    less = before;
    less.rlim_cur = mapped_bytes() + REGION / 2;
    assert_int_equal(setrlimit(RLIMIT_AS, &less), 0);
    block[13] = mr_huge_alloc(&heap, BYTES);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_non_null(block[13]);
    assert_int_equal(heap.mapped, REGION + MR_HUGE_PAGE);
    for (size_t i = 0; i < 14; i++)
        mr_huge_free(&heap, block[i]);
    assert_empty(&heap);
}

TEST(pages_that_no_region_fills_are_not_used) {
    assert_true(mr_huge_pages_fit("always [madvise] never\n", "2097152\n"));
    assert_true(mr_huge_pages_fit("[always] madvise never\n", ""));
    assert_false(mr_huge_pages_fit("always madvise [never]\n", "2097152\n"));
    assert_false(mr_huge_pages_fit("", ""));
    assert_false(mr_huge_pages_fit("always [madvise] never\n", "33554432\n"));
    assert_false(mr_huge_pages_fit("always [madvise] never\n", "536870912\n"));
}

static void *use(void *context) {
    mr_huge_heap *heap = context;
    uint8_t *block[8] = {0};
    size_t bytes[8] = {0};
    uint32_t random = (uint32_t)(uintptr_t)&block;
    for (int i = 0; i < 4000; i++) {
        size_t at = (random = random * 1664525 + 1013904223) >> 29;
        if (block[at] && (block[at][0] != at + 1 || block[at][bytes[at] - 1] != at + 1))
            return "another thread wrote into a block";
        mr_huge_free(heap, block[at]);
        bytes[at] = random % 700000 + 1;
        if (!(block[at] = mr_huge_alloc(heap, bytes[at])))
            return "no memory";
        block[at][0] = block[at][bytes[at] - 1] = (uint8_t)(at + 1);
    }
    for (int at = 0; at < 8; at++)
        mr_huge_free(heap, block[at]);
    return NULL;
}

TEST(threads_share_a_heap) {
    mr_huge_heap heap = MR_HUGE_HEAP;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(mr_thread_create(&threads[i], use, &heap), 0);
    for (int i = 0; i < 4; i++) {
        void *fault;
        assert_int_equal(pthread_join(threads[i], &fault), 0);
        if (fault)
            fail_msg("%s", (char *)fault);
    }
    assert_empty(&heap);
}

RUN_TESTS(NULL, NULL)
