#include "stages/media/index/mxf_index.h"

#include <stdbool.h>
#include <string.h>

/* libavformat's MXFIndexTable (5.1): ptses, fake_index, offsets, flags. */
enum { PICTURE_BYTES = 8 + 24 + 1 + 1 };

/* ST 377-1, 11.2: an index table segment's key; the last byte may be anything. */
static const uint8_t key[] = {0x06, 0x0e, 0x2b, 0x34, 0x02, 0x53, 0x01, 0x01, 0x0d, 0x01, 0x02, 0x01, 0x01, 0x10, 0x01};
enum { KEY = 16, DURATION = 0x3f0d, TAG_HEAD = 4, DURATION_BYTES = 8 };

static uint64_t number(const uint8_t *from, size_t bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++)
        value = value << 8 | from[i];
    return value;
}

static void add(mr_mxf_index *index, uint64_t pictures) {
    const uint64_t most = UINT64_MAX / (2 * PICTURE_BYTES), sum = index->bytes / PICTURE_BYTES;
    index->bytes = (pictures < most - sum ? sum + pictures : most) * PICTURE_BYTES;
}

/* Reads a segment's key and length. Returns how many bytes it used; 0: it needs more. */
static size_t read_head(mr_mxf_index *index, const uint8_t *data, size_t bytes) {
    const uint8_t *found = memmem(data, bytes, key, sizeof key);
    const size_t at = found ? (size_t)(found - data) : 0;
    if (!found)
        return bytes < KEY ? 0 : bytes - (KEY - 1);
    if (bytes - at <= KEY)
        return at;
    const size_t more = found[KEY] & 0x80 ? found[KEY] & 0x7f : 0;
    if (more > 8)
        return at + 1;
    if (bytes - at < KEY + 1 + more)
        return at;
    const uint64_t length = more ? number(found + KEY + 1, more) : found[KEY];
    index->left = length < SIZE_MAX / 2 ? (size_t)length : SIZE_MAX / 2;
    return at + KEY + 1 + more;
}

/* Skips the rest of the last item and reads the next item's header. Returns as read_head. */
static size_t read_item(mr_mxf_index *index, const uint8_t *data, size_t bytes) {
    if (index->left < TAG_HEAD)
        index->skip = index->left;
    if (index->skip) {
        const size_t used = index->skip < bytes ? index->skip : bytes;
        index->skip -= used;
        index->left -= used;
        return used;
    }
    const size_t length = bytes < TAG_HEAD ? 0 : (size_t)number(data + 2, 2);
    const bool counts = bytes >= TAG_HEAD && number(data, 2) == DURATION && length == DURATION_BYTES;
    if (bytes < TAG_HEAD + (counts ? DURATION_BYTES : 0))
        return 0;
    if (counts)
        add(index, number(data + TAG_HEAD, DURATION_BYTES));
    index->left -= TAG_HEAD;
    index->skip = length < index->left ? length : index->left;
    return TAG_HEAD;
}

/* Reads as many as are complete. */
static size_t read_all(mr_mxf_index *index, const uint8_t *data, size_t bytes) {
    size_t at = 0;
    for (size_t used = 1; used && at < bytes; at += used)
        used = index->left ? read_item(index, data + at, bytes - at) : read_head(index, data + at, bytes - at);
    return at;
}

void mr_mxf_index_feed(mr_mxf_index *index, int64_t offset, const uint8_t *data, size_t bytes) {
    if (offset != index->end)
        index->count = index->left = index->skip = 0;
    index->end = offset + (int64_t)bytes;
    while (index->count && bytes) {
        uint8_t joined[2 * MR_MXF_KEPT];
        const size_t room = sizeof joined - index->count, more = bytes < room ? bytes : room;
        memcpy(joined, index->kept, index->count);
        memcpy(joined + index->count, data, more);
        const size_t used = read_all(index, joined, index->count + more), old = index->count;
        index->count = used < old ? old - used : 0;
        memcpy(index->kept, joined + used, index->count);
        const size_t taken = used < old ? 0 : used - old;
        data += taken;
        bytes -= taken;
        if (!taken && more == bytes) { /* they do not suffice */
            memcpy(index->kept + index->count, data, bytes);
            index->count += bytes;
            return;
        }
    }
    const size_t used = read_all(index, data, bytes);
    index->count = bytes - used;
    memcpy(index->kept, data + used, index->count);
}
