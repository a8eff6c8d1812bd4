/* For suites of indexes, which must take the same in whatever pieces a file is read. */
#pragma once

#include "tests/support/suite.h"

/* Returns what `take` finds in the data with pieces of one byte, and fails unless it finds that in larger ones, too. */
static inline uint64_t in_any_pieces(uint64_t (*take)(size_t piece), size_t most) {
    const uint64_t first = take(1);
    for (size_t piece = 4; piece < most; piece = piece * 3 + 1)
        assert_int_equal(take(piece), first);
    return first;
}
