/* Indexes of MP4: any bytes are fed, in two pieces, and once more from the middle. */
#include <stdint.h>
#include <stdlib.h>

#include "stages/media/index/mp4_index.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    mr_mp4_index *index = mr_mp4_index_create();
    if (!index || size < 4) {
        mr_mp4_index_destroy(&index);
        return 0;
    }
    const size_t cut = (data[0] | (size_t)data[1] << 8) % size;
    const int64_t from = data[2] == 1 ? INT64_MAX - (int64_t)size : data[2] == 2 ? 1 : 0;
    const uint64_t before = mr_mp4_index_bytes(index);
    mr_mp4_index_feed(index, 0, data + 3, cut > 3 ? cut - 3 : 0);
    const uint64_t between = mr_mp4_index_bytes(index);
    mr_mp4_index_feed(index, (int64_t)cut + from - 3, data + cut, size - cut);
    mr_mp4_index_feed(index, (int64_t)cut / 2, data + cut / 2, size - cut / 2);
    /* PCM takes less once its times are known; nothing else is taken back. */
    if (before || (between == UINT64_MAX && mr_mp4_index_bytes(index) != UINT64_MAX))
        abort();
    mr_mp4_index_destroy(&index);
    return 0;
}
