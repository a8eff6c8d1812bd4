/* Headers of Matroska: any bytes are fed, in two pieces, and once more from the middle. */
#include <stdint.h>
#include <stdlib.h>

#include "stages/media/index/mkv_index.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    mr_mkv_index *index = mr_mkv_index_create();
    if (!index || size < 4) {
        mr_mkv_index_destroy(&index);
        return 0;
    }
    const size_t cut = (data[0] | (size_t)data[1] << 8) % size;
    const int64_t from = data[2] == 1 ? INT64_MAX - (int64_t)size : data[2] == 2 ? 1 : 0;
    mr_mkv_index_feed(index, 0, data + 3, cut > 3 ? cut - 3 : 0);
    const uint64_t between = mr_mkv_index_bytes(index);
    mr_mkv_index_feed(index, (int64_t)cut + from - 3, data + cut, size - cut);
    mr_mkv_index_feed(index, (int64_t)cut / 2, data + cut / 2, size - cut / 2);
    if (mr_mkv_index_bytes(index) < between)
        abort();
    mr_mkv_index_destroy(&index);
    return 0;
}
