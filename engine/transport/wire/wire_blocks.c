/* Payload that is written, as blocks. Ranges of buffers are sent in place; small or misaligned payloads are copied into
 * one gathered block. */
#include <lz4.h>
#include <stdbool.h>
#include <string.h>
#include <xxhash.h>
#include <zstd.h>

#include "engine/base/memory.h"
#include "engine/base/references.h"
#include "engine/transport/wire/wire_parts.h"
#include "millrace/status.h"

/* Smaller payloads are copied: a part costs about as much as copying this many bytes. */
enum { SMALL_BYTES = 8192 };
/* Smaller blocks are not compressed. */
enum { LEAST_TO_COMPRESS = 512 };
/* Larger gathering buffers are not reused. */
enum { MOST_KEPT = 1 << 20 };
/* Zstandard's fastest level that is not negative. */
enum { ZSTD_LEVEL = 1 };

static mr_buffer **gathered_now(mr_wire_writer *writer) {
    return &writer->gathered[writer->gathered_turn % WIRE_GATHERED];
}

/* The least recently used memory; not if it is still referred to, and not if it is too large to be kept. */
static void begin_to_gather(mr_wire_writer *writer) {
    writer->block[writer->block_count++] = (wire_block){0};
    writer->gathered_block = writer->block_count;
    writer->gathered_turn++;
    mr_buffer **next = gathered_now(writer);
    if (*next && ((*next)->bytes > MOST_KEPT || !mr_references_alone(&(*next)->references)))
        mr_buffer_unref(next);
}

static int grow(mr_wire_writer *writer, size_t bytes) {
    mr_buffer **now = gathered_now(writer), *more;
    int status = mr_wire_new_buffer(2 * bytes + 4096, &more);
    if (status)
        return status;
    if (writer->gathered_bytes)
        memcpy(more->data, (*now)->data, writer->gathered_bytes);
    mr_buffer_unref(now);
    *now = more;
    return MR_OK;
}

int mr_wire_gather(mr_wire_writer *writer, size_t bytes, uint8_t **data, wire_spot *spot) {
    size_t at = (writer->gathered_bytes + 63) & ~(size_t)63;
    if (!writer->gathered_block)
        begin_to_gather(writer);
    mr_buffer *const *now = gathered_now(writer);
    int status = !*now || at + bytes > (*now)->bytes ? grow(writer, at + bytes) : MR_OK;
    if (status)
        return status;
    uint8_t *gathered = (*now)->data;
    memset(gathered + writer->gathered_bytes, 0, at - writer->gathered_bytes);
    writer->gathered_bytes = at + bytes;
    *data = gathered + at;
    *spot = (wire_spot){.block = writer->gathered_block, .offset = at};
    return MR_OK;
}

void mr_wire_forget_gathered(mr_wire_writer *writer) {
    for (int i = 0; i < WIRE_GATHERED; i++)
        mr_buffer_unref(&writer->gathered[i]);
}

static bool are_zero(const uint8_t *data, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        if (data[i])
            return false;
    return true;
}

static bool lies_in(const mr_buffer *buffer, const uint8_t *data, size_t bytes) {
    return data >= buffer->data && (size_t)(data - buffer->data) <= buffer->bytes &&
           bytes <= buffer->bytes - (size_t)(data - buffer->data);
}

/* Whether a range is in the last block already. */
static bool find(const mr_wire_writer *writer, const mr_buffer *buffer, const uint8_t *data, size_t bytes,
                 wire_spot *spot) {
    const wire_block *last = writer->block_count ? &writer->block[writer->block_count - 1] : NULL;
    if (!last || !buffer || last->buffer != buffer || data < last->data || data + bytes > last->data + last->bytes)
        return false;
    *spot = (wire_spot){.block = writer->block_count, .offset = (uint64_t)(data - last->data)};
    return true;
}

/* Makes a block of a range. The last place is reserved for the gathered block. */
static bool refer(mr_wire_writer *writer, mr_buffer *buffer, const uint8_t *data, size_t bytes, wire_spot *spot) {
    if (writer->block_count >= MR_WIRE_BLOCKS - 1)
        return false;
    writer->block[writer->block_count++] = (wire_block){.buffer = buffer, .data = data, .bytes = bytes};
    *spot = (wire_spot){.block = writer->block_count};
    return true;
}

int mr_wire_put(mr_wire_writer *writer, mr_buffer *buffer, const uint8_t *data, size_t bytes, size_t padding,
                wire_spot *spot) {
    if (!padding && find(writer, buffer, data, bytes, spot))
        return MR_OK;
    if (buffer && bytes >= SMALL_BYTES && lies_in(buffer, data, bytes + padding) &&
        are_zero(data + bytes, padding) && refer(writer, buffer, data, bytes + padding, spot))
        return MR_OK;
    uint8_t *copy;
    int status = mr_wire_gather(writer, bytes + padding, &copy, spot);
    if (status)
        return status;
    memcpy(copy, data, bytes);
    memset(copy + bytes, 0, padding);
    return MR_OK;
}

/* Compresses a part into the arena; leaves it as it is if that saves nothing. */
static int compress(mr_wire_writer *writer, mr_wire_part *part, Millrace__V1__Block *block) {
    bool lz4 = writer->params.compression == MR_COMPRESSION_LZ4;
    if (writer->params.compression == MR_COMPRESSION_NONE || part->bytes < LEAST_TO_COMPRESS ||
        part->bytes > LZ4_MAX_INPUT_SIZE)
        return MR_OK;
    size_t room = lz4 ? (size_t)LZ4_compressBound((int)part->bytes) : ZSTD_compressBound(part->bytes), bytes;
    uint8_t *squeezed = mr_wire_arena_give(&writer->arena, room);
    if (!squeezed)
        return mr_fail(MR_ERROR_MEMORY, "no memory to compress %zu bytes", part->bytes);
    if (lz4)
        bytes = (size_t)LZ4_compress_default((const char *)part->data, (char *)squeezed, (int)part->bytes, (int)room);
    else
        bytes = ZSTD_compressCCtx(writer->zstd, squeezed, room, part->data, part->bytes, ZSTD_LEVEL);
    if (ZSTD_isError(bytes) || !bytes || bytes >= part->bytes)
        return MR_OK;
    block->compression = lz4 ? MILLRACE__V1__BLOCK__COMPRESSION__LZ4 : MILLRACE__V1__BLOCK__COMPRESSION__ZSTD;
    *part = (mr_wire_part){.data = squeezed, .bytes = bytes};
    return MR_OK;
}

static bool share(mr_wire_writer *writer, const wire_block *from, Millrace__V1__Block *block) {
    mr_shm_reference slot;
    if (!writer->params.share || !from->buffer ||
        !writer->params.share(writer->params.context, from->buffer, (size_t)(from->data - from->buffer->data),
                              from->bytes, &slot))
        return false;
    block->shared = true;
    block->pool = slot.pool;
    block->slot = slot.slot;
    block->generation = slot.generation;
    block->lease = slot.lease;
    block->offset = slot.offset;
    return true;
}

static int finish_block(mr_wire_writer *writer, const wire_block *from, Millrace__V1__Block *block, size_t *parts) {
    millrace__v1__block__init(block);
    block->bytes = from->bytes;
    if (share(writer, from, block))
        return MR_OK;
    mr_wire_part *part = &writer->part[*parts];
    bool gathered = (size_t)(from - writer->block) + 1 == writer->gathered_block;
    *part = (mr_wire_part){
        .data = from->data, .bytes = from->bytes, .buffer = gathered ? *gathered_now(writer) : from->buffer};
    int status = compress(writer, part, block);
    block->checked = writer->params.checksum;
    block->checksum = block->checked ? XXH3_64bits(part->data, part->bytes) : 0;
    ++*parts;
    return status;
}

int mr_wire_finish_blocks(mr_wire_writer *writer, Millrace__V1__Items *items, size_t *parts) {
    size_t count = writer->block_count;
    items->blocks = WIRE_NEW(&writer->arena, Millrace__V1__Block *, count);
    Millrace__V1__Block *blocks = WIRE_NEW(&writer->arena, Millrace__V1__Block, count);
    if (!items->blocks || !blocks)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a message");
    if (writer->gathered_block)
        writer->block[writer->gathered_block - 1] =
            (wire_block){.data = (*gathered_now(writer))->data, .bytes = writer->gathered_bytes};
    for (size_t i = 0; i < count; i++) {
        int status = finish_block(writer, &writer->block[i], &blocks[i], parts);
        if (status)
            return status;
        items->blocks[i] = &blocks[i];
    }
    items->n_blocks = count;
    return MR_OK;
}
