/* For suites of indexes. The result must not depend on the pieces in which a file is read. */
#pragma once

#include "tests/support/suite.h"

/* Returns the result of `take` for one-byte pieces. Fails if larger pieces give another result. */
static inline uint64_t in_any_pieces(uint64_t (*take)(size_t piece), size_t most) {
    const uint64_t first = take(1);
    for (size_t piece = 4; piece < most; piece = piece * 3 + 1)
        assert_int_equal(take(piece), first);
    return first;
}
