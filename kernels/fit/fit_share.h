/* Shares of a sum that several processes make together, each some of the blocks (fit_crew.h).
 *
 * A process makes a span of blocks that lie side by side. It joins them to the widest whole nodes of the tree that
 * fit_sum.h describes, and only these are sent. Nodes from all processes are then joined as the blocks would be: so the
 * sum has the same bits for any number of processes, and for any shares.
 *
 * Pure functions. */
#ifndef MILLRACE_KERNELS_FIT_FIT_SHARE_H
#define MILLRACE_KERNELS_FIT_FIT_SHARE_H

#include <stddef.h>

typedef struct mr_fit_span {
    size_t first, count; /* blocks */
} mr_fit_span;

/* Shares out all blocks: spans that follow each other, in proportion to the weights (0 or more, not all 0), of which
 * some may be empty. Their borders are where they divide few nodes, if there are many more blocks than parts. */
void mr_fit_share(size_t blocks, const double *weights, size_t parts, mr_fit_span *spans);
/* How many blocks the widest node has that begins with the span and has none outside it; 0 if the span is empty.
 * `blocks`: of the whole sum, with which the last node of each level ends. */
size_t mr_fit_widest(mr_fit_span span, size_t blocks);
/* Joins nodes into the first of them; all are destroyed. Each lies at the place of its first block, and has[i] is how
 * many blocks the node at place i has, 0: none begins there. Every block belongs to one node. */
void mr_fit_join_nodes(double *nodes, size_t length, size_t blocks, size_t *has);

#endif
