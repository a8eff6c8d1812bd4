/* Float sums in C, in the order that lanes.h defines; and the table. */
#include "kernels/vector/vector_rows.h"

#include "kernels/vector/lanes.h"

static float sum_c(const float *src, int count) {
    float lane[MR_LANES] = {0};
    for (int i = 0; i < count; i++)
        lane[i % MR_LANES] += src[i];
    return mr_join_lanes(lane);
}

static float sum_of_squares_c(const float *src, int count) {
    float lane[MR_LANES] = {0};
    for (int i = 0; i < count; i++)
        lane[i % MR_LANES] += src[i] * src[i];
    return mr_join_lanes(lane);
}

static float dot_c(const float *a, const float *b, int count) {
    float lane[MR_LANES] = {0};
    for (int i = 0; i < count; i++)
        lane[i % MR_LANES] += a[i] * b[i];
    return mr_join_lanes(lane);
}

static void fill_c(mr_vector_rows *table) {
    table->sum = sum_c;
    table->sum_of_squares = sum_of_squares_c;
    table->dot = dot_c;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

void mr_vector_rows_init(mr_vector_rows *table, mr_isa most) {
    fill_c(table);
    MR_ROWS_FILL(vector, table, mr_isa_up_to(most));
}

MR_ROWS_OF_PROCESS(vector)
