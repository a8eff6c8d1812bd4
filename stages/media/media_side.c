#include "stages/media/media_side.h"

#include <string.h>

#include "engine/base/memory.h"
#include "millrace/status.h"

typedef struct record {
    uint32_t type, bytes;
} record;

static bool is_needed(enum AVPacketSideDataType type) {
    return type == AV_PKT_DATA_PALETTE || type == AV_PKT_DATA_NEW_EXTRADATA;
}

static size_t padded(size_t bytes) {
    return (bytes + 7) & ~(size_t)7;
}

int mr_side_pack(const AVPacket *packet, mr_buffer **buffer) {
    size_t total = 0;
    for (int i = 0; i < packet->side_data_elems; i++)
        if (is_needed(packet->side_data[i].type))
            total += sizeof(record) + padded(packet->side_data[i].size);
    if (total == 0)
        return MR_OK;
    uint8_t *block = mr_calloc(1, total);
    *buffer = block ? mr_buffer_wrap(block, total, mr_free, block) : NULL;
    if (!*buffer) {
        mr_free(block);
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    }
    for (int i = 0; i < packet->side_data_elems; i++) {
        const AVPacketSideData *side = &packet->side_data[i];
        if (!is_needed(side->type))
            continue;
        memcpy(block, &(record){(uint32_t)side->type, (uint32_t)side->size}, sizeof(record));
        memcpy(block + sizeof(record), side->data, side->size);
        block += sizeof(record) + padded(side->size);
    }
    return MR_OK;
}

int mr_side_unpack(const mr_plane *plane, AVPacket *packet) {
    const uint8_t *at = plane->data;
    for (size_t left = at ? plane->bytes : 0; left > 0;) {
        record head;
        if (left < sizeof head)
            return mr_fail(MR_ERROR_DATA, "side data of a packet is cut off");
        memcpy(&head, at, sizeof head);
        size_t whole = sizeof head + padded(head.bytes);
        if (left < whole || !is_needed((enum AVPacketSideDataType)head.type))
            return mr_fail(MR_ERROR_DATA, "side data of a packet is malformed");
        uint8_t *copy = av_packet_new_side_data(packet, (enum AVPacketSideDataType)head.type, head.bytes);
        if (!copy)
            return mr_fail(MR_ERROR_MEMORY, "out of memory");
        memcpy(copy, at + sizeof head, head.bytes);
        at += whole;
        left -= whole;
    }
    return MR_OK;
}
