/* Resamples from figures.h. tests/reference compares the figures with scikit-learn and SciPy. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "millrace/figures.h"
#include "millrace/status.h"
#include "tests/support/suite.h"

/* LONG rows are in group 0; each other row is alone in a group. */
enum { LONG = 100000, OTHERS = 99999, ROWS = LONG + OTHERS, GROUPS = OTHERS + 1, RESAMPLES = 40 };

/* Checks that a resample draws as many whole groups as there are groups. */
static double share_of_long(void *user, const size_t *row, size_t count) {
    size_t of_long = 0;
    double *largest = user;
    for (size_t i = 0; i < count; i++) {
        assert_in_range(row[i], 0, ROWS - 1);
        of_long += row[i] < LONG;
    }
    assert_int_equal(of_long % LONG, 0);
    assert_int_equal(of_long / LONG + (count - of_long), GROUPS);
    *largest = fmax(*largest, (double)(of_long / LONG));
    return (double)(of_long / LONG);
}

/* A video among pictures. If each group had as much memory as the longest needs, that would be 80 GB. */
TEST(one_group_may_be_long_and_groups_many) {
    FREED int32_t *group = calloc(ROWS, sizeof *group);
    mr_interval interval;
    double largest = 0;
    assert_non_null(group);
    for (int32_t i = 0; i < OTHERS; i++)
        group[LONG + i] = i + 1;
    if (mr_bootstrap(group, ROWS, GROUPS, RESAMPLES, 5, 0.95, share_of_long, &largest, &interval))
        fail_msg("%s", mr_message());
    /* How often n draws choose one of n groups: the mean is 1, and 7 or more are rare (Poisson: 8e-5). */
    assert_true(interval.low >= 0 && interval.low <= 1 && interval.high >= 1 && interval.high < 7);
    assert_true(largest >= 2);
}

static double mean_of(void *user, const size_t *row, size_t count) {
    const double *value = user;
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += value[row[i]];
    return sum / (double)count;
}

/* If n values are 0 or 1, each in a separate group, the interval must be near p +- 1.96 sqrt(p (1 - p) / n). */
TEST(the_interval_of_a_mean_is_that_of_the_formula) {
    enum { N = 1000 };
    int32_t group[N];
    double value[N];
    mr_interval interval;
    for (int i = 0; i < N; i++) {
        group[i] = i;
        value[i] = i % 5 == 0;
    }
    assert_int_equal(mr_bootstrap(group, N, N, 2000, 1, 0.95, mean_of, value, &interval), MR_OK);
    const double half = 1.96 * sqrt(0.2 * 0.8 / N);
    assert_true(fabs(interval.low - (0.2 - half)) < 0.003);
    assert_true(fabs(interval.high - (0.2 + half)) < 0.003);
}

RUN_TESTS(NULL, NULL)
