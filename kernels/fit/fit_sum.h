/* Sums of many vectors whose bits do not depend on how the work is shared out.
 *
 * The vectors, one for each chunk of rows, are the leaves in a binary tree. A node on level l stands for the leaves [i
 * << l, (i + 1) << l), and is the sum of its two children, the left one first. A node without a right child equals the
 * left one. So only the number of leaves decides a sum's shape. A worker makes whole nodes: it adds the leaves below a
 * node in order, and needs one vector per level while it does. Nodes on one level, made by whichever workers, are then
 * joined in index order.
 *
 * Ownership: an mr_fit_sum owns the vectors. One thread at a time. Errors: MR_ERROR_MEMORY. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The leaves below one node while they are added. */
typedef struct mr_fit_sum {
    size_t length; /* numbers per vector */
    size_t levels; /* partial sums that there is room for: enough for 1 << (levels - 1) leaves */
    size_t leaves; /* added so far */
    double *partial;
} mr_fit_sum;

int mr_fit_sum_init(mr_fit_sum *sum, size_t length, size_t leaves);
/* Accepts a zeroed one. */
void mr_fit_sum_fini(mr_fit_sum *sum);
/* Starts again without leaves. */
void mr_fit_sum_clear(mr_fit_sum *sum);
/* Where the next leaf must be written, `length` numbers; _added then adds it to the sum. Can be called at most `leaves`
 * times. */
double *mr_fit_sum_next(mr_fit_sum *sum);
void mr_fit_sum_added(mr_fit_sum *sum);
/* Writes the node into `to`: the sum over all leaves since the start, at least one. */
void mr_fit_sum_finish(const mr_fit_sum *sum, double *to);

/* left += right, as the tree adds them. */
void mr_fit_sum_add(double *left, const double *right, size_t length);
