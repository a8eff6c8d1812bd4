/* Any bytes as an MP4 index, a Matroska header, and an MXF index table. The first byte chooses.
 *
 *     tests/fuzz/run 60 fuzz_indexes */
#include "stages/media/index/mkv_index.h"
#include "stages/media/index/mp4_index.h"
#include "stages/media/index/mxf_index.h"
#include "tests/fuzz/fuzz.h"

/* Two pieces, and then a part of both again. The first bytes say where they are cut and where the file begins. */
typedef struct cuts {
    size_t cut;
    int64_t from;
} cuts;

static cuts cuts_of(const uint8_t *data, size_t size) {
    return (cuts){(data[0] | (size_t)data[1] << 8) % size,
                  data[2] == 1 ? INT64_MAX - (int64_t)size : data[2] == 2 ? 1 : 0};
}

#define FEED(kind)                                                                                                     \
    mr_##kind##_index *index = mr_##kind##_index_create();                                                             \
    const cuts at = cuts_of(data, size);                                                                               \
    fault_if(!index || mr_##kind##_index_bytes(index));                                                                \
    mr_##kind##_index_feed(index, 0, data + 3, at.cut > 3 ? at.cut - 3 : 0);                                           \
    const uint64_t between = mr_##kind##_index_bytes(index);                                                           \
    mr_##kind##_index_feed(index, (int64_t)at.cut + at.from - 3, data + at.cut, size - at.cut);                        \
    mr_##kind##_index_feed(index, (int64_t)at.cut / 2, data + at.cut / 2, size - at.cut / 2);                          \
    const uint64_t after = mr_##kind##_index_bytes(index);                                                             \
    mr_##kind##_index_destroy(&index)

/* Only PCM can take less later, once the times are known. */
static void read_mp4(const uint8_t *data, size_t size) {
    FEED(mp4);
    fault_if(between == UINT64_MAX && after != UINT64_MAX);
}

static void read_mkv(const uint8_t *data, size_t size) {
    FEED(mkv);
    fault_if(after < between);
}

/* One piece, and several, take the same. */
static void read_mxf(const uint8_t *data, size_t size) {
    mr_mxf_index whole = {0}, pieces = {0};
    const size_t step = 1 + data[0];
    mr_mxf_index_feed(&whole, 0, ++data, --size);
    for (size_t at = 0; at < size; at += step)
        mr_mxf_index_feed(&pieces, (int64_t)at, data + at, size - at < step ? size - at : step);
    fault_if(whole.bytes != pieces.bytes);
}

FUZZ(data, size) {
    static void (*const read[])(const uint8_t *data, size_t size) = {read_mp4, read_mkv, read_mxf};
    if (size > 4)
        read[data[0] % 3](data + 1, size - 1);
}
