/* Payload that is read: each block a buffer, which is the part itself where that lies as it must. */
#include <lz4.h>
#include <string.h>
#include <xxhash.h>
#include <zstd.h>

#include "engine/base/memory.h"
#include "engine/transport/wire/wire_parts.h"
#include "millrace/status.h"

/* What every element of a payload is aligned to at most, and large parts of libzmq always are. */
enum { ALIGNMENT = 8 };

static int unpack(mr_wire_reader *reader, const Millrace__V1__Block *block, const mr_wire_part *part, uint8_t *to) {
    bool whole;
    if (block->compression == MILLRACE__V1__BLOCK__COMPRESSION__LZ4) {
        whole = part->bytes <= LZ4_MAX_INPUT_SIZE && block->bytes <= LZ4_MAX_INPUT_SIZE &&
                LZ4_decompress_safe((const char *)part->data, (char *)to, (int)part->bytes, (int)block->bytes) ==
                    (int)block->bytes;
    } else {
        size_t got = ZSTD_decompressDCtx(reader->zstd, to, block->bytes, part->data, part->bytes);
        whole = !ZSTD_isError(got) && got == block->bytes;
    }
    return whole ? MR_OK : mr_fail(MR_ERROR_PROTOCOL, "a compressed payload that is not what was compressed");
}

static int read_part(mr_wire_reader *reader, const Millrace__V1__Block *block, const mr_wire_part *part,
                     mr_buffer **buffer, uint8_t **data) {
    bool plain = block->compression == MILLRACE__V1__BLOCK__COMPRESSION__NONE;
    if ((unsigned)block->compression > MILLRACE__V1__BLOCK__COMPRESSION__ZSTD)
        return mr_fail(MR_ERROR_PROTOCOL, "a compression %d that there is not", (int)block->compression);
    if (plain && part->bytes != block->bytes)
        return mr_fail(MR_ERROR_PROTOCOL, "a part of %zu bytes that should have %llu", part->bytes,
                       (unsigned long long)block->bytes);
    if (block->checked && XXH3_64bits(part->data, part->bytes) != block->checksum)
        return mr_fail(MR_ERROR_PROTOCOL, "a payload whose checksum is wrong");
    if (plain && part->buffer && (uintptr_t)part->data % ALIGNMENT == 0) {
        *buffer = mr_buffer_ref(part->buffer);
        memcpy(data, &part->data, sizeof *data);
        return MR_OK;
    }
    int status = wire_new_buffer(block->bytes, buffer);
    if (status)
        return status;
    *data = (*buffer)->data;
    if (!plain)
        status = unpack(reader, block, part, *data);
    else if (part->bytes)
        memcpy(*data, part->data, part->bytes);
    if (status)
        mr_buffer_unref(buffer);
    return status;
}

static int read_shared(mr_wire_reader *reader, const Millrace__V1__Block *block, mr_buffer **buffer, uint8_t **data) {
    const mr_shared_slot slot = {.pool = block->pool, .slot = block->slot, .lease = block->lease,
                                 .generation = block->generation, .offset = block->offset};
    if (!reader->params.map)
        return mr_fail(MR_ERROR_PROTOCOL, "a payload in shared memory, of which none was agreed upon");
    int status = reader->params.map(reader->params.context, &slot, block->bytes, buffer);
    if (!status)
        *data = (*buffer)->data;
    return status;
}

/* Counts before anything is made. */
static int check(const mr_wire_reader *reader, Millrace__V1__Block *const *blocks, size_t count, size_t part_count) {
    uint64_t bytes = 0;
    size_t inline_blocks = 0;
    if (count > MR_WIRE_BLOCKS)
        return mr_fail(MR_ERROR_PROTOCOL, "a message of %zu payloads; it has at most %d", count, MR_WIRE_BLOCKS);
    for (size_t i = 0; i < count; i++) {
        inline_blocks += !blocks[i]->shared;
        if (blocks[i]->bytes > reader->params.most_bytes - bytes)
            return mr_fail(MR_ERROR_PROTOCOL, "a message with more payload than the %llu bytes that are taken",
                           (unsigned long long)reader->params.most_bytes);
        bytes += blocks[i]->bytes;
    }
    if (inline_blocks != part_count)
        return mr_fail(MR_ERROR_PROTOCOL, "%zu parts of payload where the envelope tells of %zu", part_count,
                       inline_blocks);
    return MR_OK;
}

int wire_read_blocks(mr_wire_reader *reader, Millrace__V1__Block *const *blocks, size_t count,
                     const mr_wire_part *parts, size_t part_count) {
    int status = check(reader, blocks, count, part_count);
    reader->block_count = 0;
    for (size_t i = 0; i < count && !status; i++) {
        mr_buffer **buffer = &reader->block[i];
        uint8_t **data = &reader->block_data[i];
        status = blocks[i]->shared ? read_shared(reader, blocks[i], buffer, data)
                                   : read_part(reader, blocks[i], parts++, buffer, data);
        reader->block_bytes[i] = blocks[i]->bytes;
        reader->block_count += !status;
    }
    return status;
}
