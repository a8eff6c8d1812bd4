#include "kernels/fit/fit_share.h"

#include "kernels/fit/fit_sum.h"

enum { FINENESS = 4 }; /* units of each part at least, if there are so many blocks */

static size_t unit_of(size_t blocks, size_t parts) {
    size_t unit = 1;
    while (2 * unit * FINENESS * parts <= blocks)
        unit *= 2;
    return unit;
}

void mr_fit_share(size_t blocks, const double *weights, size_t parts, mr_fit_span *spans) {
    const size_t unit = unit_of(blocks, parts), units = (blocks + unit - 1) / unit;
    double all = 0.0, so_far = 0.0;
    size_t first = 0;
    for (size_t i = 0; i < parts; i++)
        all += weights[i];
    for (size_t i = 0; i < parts; i++) {
        so_far += weights[i];
        size_t end = i + 1 == parts ? blocks : unit * (size_t)((double)units * (so_far / all) + 0.5);
        end = end > blocks ? blocks : end < first ? first : end;
        spans[i] = (mr_fit_span){first, end - first};
        first = end;
    }
}

size_t mr_fit_widest(mr_fit_span span, size_t blocks) {
    const bool last = span.first + span.count == blocks;
    size_t width = span.count > 0;
    while (width && width < span.count && span.first % (2 * width) == 0 && (last || 2 * width <= span.count))
        width *= 2;
    return width < span.count ? width : span.count;
}

void mr_fit_join_nodes(double *nodes, size_t length, size_t blocks, size_t *has) {
    for (size_t apart = 1; apart < blocks; apart *= 2)
        for (size_t i = 0; i + apart < blocks; i += 2 * apart)
            if (has[i] && has[i] <= apart) {
                mr_fit_sum_add(nodes + i * length, nodes + (i + apart) * length, length);
                has[i] += has[i + apart];
            }
}
