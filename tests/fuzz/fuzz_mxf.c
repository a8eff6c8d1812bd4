/* Index tables of MXF: any bytes, fed in one piece and in several, take the same. */
#include <stdint.h>
#include <stdlib.h>

#include "stages/media/index/mxf_index.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    mr_mxf_index whole = {0}, pieces = {0};
    if (size < 2)
        return 0;
    const size_t step = 1 + data[0];
    data++;
    size--;
    mr_mxf_index_feed(&whole, 0, data, size);
    for (size_t at = 0; at < size; at += step)
        mr_mxf_index_feed(&pieces, (int64_t)at, data + at, size - at < step ? size - at : step);
    if (whole.bytes != pieces.bytes)
        abort();
    return 0;
}
