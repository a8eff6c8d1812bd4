/* Bytes to messages: payload, frames and marks, envelopes. Everything is checked: inconsistent messages are refused. */
#include <lz4.h>
#include <string.h>
#include <xxhash.h>
#include <zstd.h>

#include "engine/base/memory.h"
#include "engine/base/utf8.h"
#include "engine/data/store.h"
#include "engine/transport/wire/elements.h"
#include "engine/transport/wire/wire.h"
#include "engine/transport/wire/wire_parts.h"
#include "millrace/status.h"

static int no_memory(void) {
    return mr_fail(MR_ERROR_MEMORY, "no memory for a message");
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static int read_names(mr_wire_reader *reader, char *const *names, size_t count) {
    reader->name = WIRE_NEW(&reader->arena, const char *, count);
    reader->name_count = count;
    if (!reader->name)
        return no_memory();
    for (size_t i = 0; i < count; i++) {
        int status = mr_names_keep(reader->params.names, reader->share, names[i], strlen(names[i]), &reader->name[i]);
        if (status)
            return status;
    }
    return MR_OK;
}

/* The name with that number. NULL for 0. */
static int read_name(const mr_wire_reader *reader, uint32_t number, const char **name) {
    if (number > reader->name_count)
        return mr_fail(MR_ERROR_PROTOCOL, "a message refers to name %u of %zu", number, reader->name_count);
    *name = number ? reader->name[number - 1] : NULL;
    return MR_OK;
}

/* ---- blocks of payload ------------------------------------------------------------------------------------------- */

/* The largest alignment that any payload element needs. Large parts from libzmq always have it. */
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
    return whole ? MR_OK : mr_fail(MR_ERROR_PROTOCOL, "a compressed payload that does not expand to its stated size");
}

static int read_part(mr_wire_reader *reader, const Millrace__V1__Block *block, const mr_wire_part *part,
                     mr_buffer **buffer, uint8_t **data) {
    bool plain = block->compression == MILLRACE__V1__BLOCK__COMPRESSION__NONE;
    if ((unsigned)block->compression > MILLRACE__V1__BLOCK__COMPRESSION__ZSTD)
        return mr_fail(MR_ERROR_PROTOCOL, "an unknown compression %d", (int)block->compression);
    if (plain && part->bytes != block->bytes)
        return mr_fail(MR_ERROR_PROTOCOL, "a part of %zu bytes in place of %llu", part->bytes,
                       (unsigned long long)block->bytes);
    if (block->checked && XXH3_64bits(part->data, part->bytes) != block->checksum)
        return mr_fail(MR_ERROR_PROTOCOL, "a payload whose checksum is wrong");
    if (plain && part->buffer && (uintptr_t)part->data % ALIGNMENT == 0) {
        *buffer = mr_buffer_ref(part->buffer);
        memcpy(data, &part->data, sizeof *data);
        return MR_OK;
    }
    int status = mr_wire_new_buffer(block->bytes, buffer);
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
    const mr_shm_reference slot = {.pool = block->pool, .slot = block->slot, .lease = block->lease,
                                   .generation = block->generation, .offset = block->offset, .bytes = block->bytes};
    if (!reader->params.map)
        return mr_fail(MR_ERROR_PROTOCOL, "a payload in shared memory, although no memory is shared");
    int status = reader->params.map(reader->params.context, &slot, buffer);
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
            return mr_fail(MR_ERROR_PROTOCOL, "a message with more payload than the %llu bytes that are allowed",
                           (unsigned long long)reader->params.most_bytes);
        bytes += blocks[i]->bytes;
    }
    if (inline_blocks != part_count)
        return mr_fail(MR_ERROR_PROTOCOL, "%zu parts of payload, and the envelope has %zu", part_count,
                       inline_blocks);
    return MR_OK;
}

static int read_blocks(mr_wire_reader *reader, Millrace__V1__Block *const *blocks, size_t count,
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

static int refuse(const char *what) {
    return mr_fail(MR_ERROR_PROTOCOL, "%s", what);
}

/* NULL: it is refused. */
static const mr_format *find_format(const mr_wire_reader *reader, uint32_t number) {
    if (number && number <= reader->format_count)
        return &reader->format[number - 1];
    refuse("a format that the message does not describe");
    return NULL;
}

/* `bytes` bytes at a place in a block. */
static int find(const mr_wire_reader *reader, uint32_t block, uint64_t offset, uint64_t bytes, mr_buffer **buffer,
                uint8_t **data) {
    if (!block || block > reader->block_count)
        return refuse("a payload in an unknown block");
    size_t room = reader->block_bytes[block - 1];
    if (offset > room || bytes > room - offset)
        return refuse("a payload beyond its block");
    *buffer = reader->block[block - 1];
    *data = reader->block_data[block - 1] + offset;
    return MR_OK;
}

/* ---- planes ------------------------------------------------------------------------------------------------------ */

static int check_picture_plane(const mr_format *format, int i, const Millrace__V1__Plane *from) {
    mr_row row = {.plane = i};
    mr_next_plane(format, &row);
    bool wide = mr_pixel_describe(format->pixel)->depth > 8;
    if (from->stride < row.bytes || from->stride > INT32_MAX || (wide && (from->stride % 2 || from->offset % 2)))
        return refuse("a picture whose rows overlap, or whose samples are not aligned");
    if (from->bytes < (uint64_t)(row.rows - 1) * from->stride + row.bytes)
        return refuse("a picture with fewer bytes than its rows");
    return MR_OK;
}

/* Bit stream readers read past the end. */
static int check_padding(const mr_wire_reader *reader, const Millrace__V1__Plane *from) {
    mr_buffer *buffer;
    uint8_t *data;
    uint64_t all;
    if (__builtin_add_overflow(from->bytes, WIRE_PADDING, &all) ||
        find(reader, from->block, from->offset, all, &buffer, &data))
        return refuse("a packet that is not followed by 64 zero bytes");
    for (uint64_t i = from->bytes; i < all; i++)
        if (data[i])
            return refuse("a packet that is not followed by 64 zero bytes");
    return MR_OK;
}

static int check_plane(const mr_wire_reader *reader, const mr_format *format, int i, const Millrace__V1__Plane *from) {
    if (format->payload == MR_PAYLOAD_PICTURE)
        return check_picture_plane(format, i, from);
    if (format->payload == MR_PAYLOAD_PACKET)
        return i == 0 ? check_padding(reader, from) : MR_OK;
    if (from->bytes != mr_tensor_bytes(format) || !from->bytes || from->offset % mr_dtype_bytes(format->dtype))
        return refuse("a tensor whose bytes are not those of its format");
    return MR_OK;
}

/* How many planes a frame of that format has at least and at most; false if no frame has that format. */
static bool count_planes(const mr_format *format, size_t *least, size_t *most) {
    *least = *most = 1;
    if (format->payload == MR_PAYLOAD_PICTURE) {
        *least = *most = mr_pixel_describe(format->pixel)->planes;
        return format->pixel && format->width > 0 && format->height > 0;
    }
    if (format->payload == MR_PAYLOAD_PACKET) {
        *least = 0;
        *most = 2;
    } else if (format->payload == MR_PAYLOAD_RESULTS) {
        *least = *most = 0;
    }
    return format->payload != MR_PAYLOAD_ANY;
}

static int read_planes(mr_wire_reader *reader, const Millrace__V1__Item *item, mr_frame *frame) {
    size_t least, most;
    if (!count_planes(&frame->format, &least, &most) || item->n_planes < least || item->n_planes > most)
        return refuse("a frame with more or fewer planes than its format has");
    for (size_t i = 0; i < item->n_planes; i++) {
        const Millrace__V1__Plane *from = item->planes[i];
        mr_plane *plane = &frame->plane[i];
        mr_buffer *buffer;
        if (!from->block && frame->format.payload == MR_PAYLOAD_PACKET)
            continue; /* a packet that could not be read */
        int status = check_plane(reader, &frame->format, (int)i, from);
        if (!status)
            status = find(reader, from->block, from->offset, from->bytes, &buffer, &plane->data);
        if (status)
            return status;
        plane->buffer = mr_buffer_ref(buffer);
        plane->stride = (ptrdiff_t)from->stride;
        plane->bytes = from->bytes;
    }
    return MR_OK;
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

static int read_packed_name(void *context, uint32_t number, const char **name) {
    return read_name(context, number, name);
}

static int read_elements(mr_wire_reader *reader, const Millrace__V1__Result *from, size_t count, mr_result *result) {
    const mr_element_names names = {.read = read_packed_name, .context = reader};
    return mr_elements_read(result, from->elements.data, from->elements.len, count, &names);
}

/* A list without rows: some dimension is 0. One whose size overflows is none. */
static bool is_empty(const mr_format *format) {
    bool empty = false;
    for (int32_t i = 0; i < format->rank; i++)
        empty |= format->dims[i] == 0;
    return format->payload == MR_PAYLOAD_TENSOR && empty;
}

static int read_array(const mr_wire_reader *reader, const Millrace__V1__Result *from, mr_result *result) {
    mr_buffer *buffer;
    uint8_t *data;
    const mr_format *format = find_format(reader, from->format);
    if (!format)
        return MR_ERROR_PROTOCOL;
    result->format = *format;
    size_t bytes = mr_tensor_bytes(&result->format);
    if (is_empty(&result->format))
        return MR_OK;
    if (result->format.payload != MR_PAYLOAD_TENSOR || !bytes || from->offset % mr_dtype_bytes(result->format.dtype))
        return refuse("a tensor without a size, or that is not aligned");
    int status = find(reader, from->block, from->offset, bytes, &buffer, &data);
    if (status)
        return status;
    result->data = data;
    result->buffer = mr_buffer_ref(buffer);
    return MR_OK;
}

static int read_origin(const mr_wire_reader *reader, const Millrace__V1__Origin *from, wire_origin *origin) {
    origin->kind = mr_kinds_find(&reader->kinds, from->kind);
    if (!origin->kind)
        return refuse("results of an unknown kind");
    int status = read_name(reader, from->stage, &origin->stage);
    if (!status)
        status = read_name(reader, from->name, &origin->name);
    return status || origin->stage ? status : refuse("results without a stage");
}

static int read_origins(mr_wire_reader *reader, Millrace__V1__Origin *const *origins, size_t count) {
    int status = MR_OK;
    reader->origin = WIRE_NEW(&reader->arena, wire_origin, count);
    reader->origin_count = count;
    if (!reader->origin)
        return no_memory();
    for (size_t i = 0; i < count && !status; i++)
        status = read_origin(reader, origins[i], &reader->origin[i]);
    return status;
}

static int read_result(mr_wire_reader *reader, const Millrace__V1__Result *from, mr_result **tail) {
    if (!from->origin || from->origin > reader->origin_count)
        return refuse("a result whose origin the message does not describe");
    const wire_origin *origin = &reader->origin[from->origin - 1];
    const mr_result_kind *kind = origin->kind;
    size_t count = 0;
    if (!kind->fields && from->elements.len)
        return refuse("a result whose elements are not those of its kind");
    int status = kind->fields ? mr_elements_count(kind, from->elements.len, from->count, &count) : MR_OK;
    if (!status)
        status = mr_store_result(reader->params.store, kind, count, tail);
    if (status)
        return status;
    (*tail)->stage = origin->stage;
    (*tail)->name = origin->name;
    (*tail)->cut = from->cut;
    return kind->fields ? read_elements(reader, from, count, *tail) : read_array(reader, from, *tail);
}

static int read_results(mr_wire_reader *reader, const Millrace__V1__Item *item, mr_frame *frame) {
    mr_result **tail = &frame->results;
    int status = MR_OK;
    for (size_t i = 0; i < item->n_results && !status; i++) {
        status = read_result(reader, item->results[i], tail);
        if (*tail)
            tail = &(*tail)->next;
    }
    return status;
}

/* ---- items ------------------------------------------------------------------------------------------------------- */

/* A time that this process knows the beginning of; without bounds it is that. */
static int64_t since(int64_t begin_ns, int64_t span_ns) {
    const int64_t time_ns = mr_time_step(begin_ns, 1, span_ns);
    return time_ns == MR_NO_TIME ? begin_ns : time_ns;
}

static bool is_name(const char *text, size_t most) {
    return mr_utf8_fit(text, most) == strlen(text);
}

static int name_frame(const Millrace__V1__Item *item, mr_frame *frame) {
    if (!is_name(item->id, MR_FRAME_ID) || !is_name(item->file, MR_FRAME_FILE) || !is_name(item->label, MR_FRAME_LABEL))
        return refuse("a frame with a name that is too long, or that is not UTF-8");
    return mr_frame_name(frame, &(mr_frame_names){item->id, item->file, item->label});
}

static int fill_frame(mr_wire_reader *reader, const Millrace__V1__Item *item, mr_frame *frame) {
    const mr_format *format = find_format(reader, item->format);
    if (!format)
        return MR_ERROR_PROTOCOL;
    frame->format = *format;
    if (item->geometry > reader->geometry_count)
        return refuse("a frame with a geometry that the message does not describe");
    if (item->geometry)
        frame->geometry = reader->geometry[item->geometry - 1];
    frame->identity = (mr_identity){
        .source = item->source, .epoch = item->epoch, .seq = item->seq, .sub = item->sub};
    frame->pts_ns = mr_time_bound(item->pts_ns);
    frame->dts_ns = mr_time_bound(item->dts_ns);
    frame->duration_ns = mr_time_bound(item->duration_ns) > 0 ? item->duration_ns : 0;
    frame->born_ns = since(reader->now_ns, mr_time_bound(item->age_ns) == MR_NO_TIME ? 0 : -item->age_ns);
    frame->captured_ns = mr_time_bound(item->captured_ns) == MR_NO_TIME ? 0 : item->captured_ns;
    int status = name_frame(item, frame);
    if (status)
        return status;
    if (item->remaining_ns)
        frame->deadline_ns = since(reader->now_ns, item->remaining_ns);
    frame->flags = item->flags & (MR_FRAME_KEY | MR_FRAME_DISPOSABLE | MR_FRAME_CORRUPT | MR_FRAME_HIDDEN |
                                  MR_FRAME_SEAM | MR_FRAME_AWAY);
    if (item->media > reader->media_count)
        return refuse("a frame with media that the message does not describe");
    if (item->media)
        frame->media = mr_media_ref(reader->media[item->media - 1]);
    status = read_planes(reader, item, frame);
    return status ? status : read_results(reader, item, frame);
}

static int read_frame(mr_wire_reader *reader, const Millrace__V1__Item *item, mr_frame **frame) {
    int status = mr_store_frame(reader->params.store, frame);
    if (status)
        return status;
    status = fill_frame(reader, item, *frame);
    if (status)
        mr_frame_unref(frame);
    return status;
}

static int read_item(mr_wire_reader *reader, const Millrace__V1__Item *from, mr_cut_item *item) {
    if ((unsigned)from->kind > MILLRACE__V1__ITEM__KIND__FORMAT)
        return refuse("an item of an unknown kind");
    if (from->source >= reader->params.source_count)
        return refuse("an item of an unknown source");
    *item = (mr_cut_item){.kind = (mr_cut_kind)from->kind, .position = from->position,
                          .identity = {.source = from->source, .epoch = from->epoch, .seq = from->seq,
                                       .sub = from->sub}};
    if (item->kind == MR_CUT_FRAME) {
        item->context = (mr_span_context){.trace = {from->trace_high, from->trace_low}, .span = from->span};
        int status = read_frame(reader, from, &item->frame);
        if (status)
            return status;
        item->bytes = mr_wire_frame_bytes(item->frame);
        item->packet = item->frame->format.payload == MR_PAYLOAD_PACKET;
        item->key = item->frame->flags & MR_FRAME_KEY;
        return MR_OK;
    }
    if (item->kind == MR_CUT_FORMAT)
        return (item->format = find_format(reader, from->format)) ? MR_OK : MR_ERROR_PROTOCOL;
    return read_name(reader, from->reason, &item->reason);
}

static int read_all_media(mr_wire_reader *reader, const Millrace__V1__Items *from) {
    reader->media = WIRE_NEW(&reader->arena, mr_media *, from->n_media);
    if (!reader->media)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a message");
    int status = MR_OK;
    for (size_t i = 0; i < from->n_media && !status; i++) {
        status = mr_wire_read_media(reader, &from->media[i], &reader->media[i]);
        reader->media_count += !status;
    }
    return status;
}

static int read_all(mr_wire_reader *reader, const Millrace__V1__Items *from, const mr_wire_part *parts, size_t count,
                    mr_cut_message *message) {
    int status = read_names(reader, from->names, from->n_names);
    if (!status)
        status = mr_wire_read_formats(reader, from->formats, from->n_formats);
    if (!status)
        status = mr_wire_read_geometries(reader, from->geometries, from->n_geometries);
    if (!status)
        status = read_origins(reader, from->origins, from->n_origins);
    if (!status)
        status = read_blocks(reader, from->blocks, from->n_blocks, parts, count);
    if (!status)
        status = read_all_media(reader, from);
    for (size_t i = 0; i < from->n_items && !status; i++) {
        status = read_item(reader, from->items[i], &message->items.item[i]);
        message->items.count += !status;
    }
    return status;
}

/* Marks have a meaning for what is above (engine/data/gap.h). */
#define MOST_INCARNATION (UINT64_MAX - 1)

static int read_items(mr_wire_reader *reader, const Millrace__V1__Items *from, const mr_wire_part *parts, size_t count,
                    mr_cut_message *message) {
    reader->block_count = reader->media_count = 0;
    message->items.count = 0;
    message->items.made_by = from->made_by;
    if (from->made_by > MOST_INCARNATION)
        return mr_fail(MR_ERROR_PROTOCOL, "items of an impossible process");
    if (from->n_items > reader->params.most_items)
        return mr_fail(MR_ERROR_PROTOCOL, "a message of %zu items; at most %zu are allowed", from->n_items,
                       reader->params.most_items);
    message->items.item = WIRE_NEW(&reader->arena, mr_cut_item, from->n_items);
    if (!message->items.item)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a message");
    int status = read_all(reader, from, parts, count, message);
    for (size_t i = 0; i < reader->block_count; i++)
        mr_buffer_unref(&reader->block[i]);
    for (size_t i = 0; i < reader->media_count; i++)
        mr_media_unref(&reader->media[i]);
    for (size_t i = 0; status && i < message->items.count; i++)
        mr_frame_unref(&message->items.item[i].frame);
    return status;
}

enum { MOST_PAYLOAD_BYTES = 256 << 20, MOST_ITEMS = 65536 };
enum { MOST_MEDIA = 256, MOST_MEDIA_BYTES = 16 << 20 };
/* Bound on the memory for a message with this many bytes. A struct is larger than the shortest wire form, but no
 * sensible message exceeds this factor. */
enum { MEMORY_BASE = 65536, MEMORY_PER_BYTE = 64, MEMORY_MOST = 64 << 20 };

int mr_wire_reader_create(mr_wire_reader **reader, const mr_wire_reader_params *params) {
    mr_wire_reader *made = mr_calloc(1, sizeof *made);
    if (!made)
        return no_memory();
    made->params = *params;
    made->kinds = params->kinds ? *params->kinds : mr_kinds_built_in();
    if (!made->params.most_envelope_bytes)
        made->params.most_envelope_bytes = MR_WIRE_MOST_ENVELOPE;
    if (!made->params.most_bytes)
        made->params.most_bytes = MOST_PAYLOAD_BYTES;
    if (!made->params.most_media_bytes)
        made->params.most_media_bytes = MOST_MEDIA_BYTES;
    if (!made->params.most_items)
        made->params.most_items = MOST_ITEMS;
    made->known_count = params->most_media ? params->most_media : MOST_MEDIA;
    made->known = mr_calloc(made->known_count, sizeof *made->known);
    made->zstd = ZSTD_createDCtx();
    if (!made->known || !made->zstd) {
        mr_wire_reader_destroy(&made);
        return no_memory();
    }
    *reader = made;
    return MR_OK;
}

void mr_wire_reader_destroy(mr_wire_reader **reader) {
    mr_wire_reader *gone = *reader;
    *reader = NULL;
    if (!gone)
        return;
    for (size_t i = 0; gone->known && i < gone->known_count; i++) {
        mr_media_unref(&gone->known[i].media);
        mr_free(gone->known[i].data);
    }
    mr_wire_arena_fini(&gone->arena);
    ZSTD_freeDCtx(gone->zstd);
    mr_free(gone->known);
    mr_free(gone);
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

/* More than any process knows; all of them are searched. */
enum { MOST_KINDS = 1024 };

static int read_hello(const Millrace__V1__Hello *from, mr_cut_message *message) {
    message->kind = MR_MESSAGE_HELLO;
    if (from->digest.len != MR_DIGEST_BYTES)
        return mr_fail(MR_ERROR_PROTOCOL, "a digest of %zu bytes instead of %d", from->digest.len, MR_DIGEST_BYTES);
    if (from->n_kinds > MOST_KINDS)
        return mr_fail(MR_ERROR_PROTOCOL, "a hello with %zu kinds of results; at most %d are read", from->n_kinds,
                       MOST_KINDS);
    message->hello.oldest_version = from->oldest_version;
    message->hello.newest_version = from->newest_version;
    message->hello.name = from->name;
    message->hello.incarnation = from->incarnation;
    message->hello.attempt = from->attempt;
    memcpy(message->hello.digest, from->digest.data, MR_DIGEST_BYTES);
    message->hello.cut = from->cut;
    message->hello.formats = from->formats;
    message->hello.memory = from->memory;
    message->hello.refused = from->refused;
    message->hello.kinds = from->kinds;
    message->hello.kind_count = from->n_kinds;
    return MR_OK;
}

/* A run state that this version does not know counts as unknown. */
static mr_run_state read_run_state(Millrace__V1__RunState state) {
    return state == MILLRACE__V1__RUN_STATE__RUN_BEGINS     ? MR_RUN_BEGINS
           : state == MILLRACE__V1__RUN_STATE__RUN_GOES_ON ? MR_RUN_GOES_ON
                                                            : MR_RUN_UNKNOWN;
}

static int read_welcome(const Millrace__V1__Welcome *from, mr_cut_message *message) {
    message->kind = MR_MESSAGE_WELCOME;
    if (from->beat_ns > INT64_MAX)
        return mr_fail(MR_ERROR_PROTOCOL, "a welcome whose beat_ns is too large");
    if (from->incarnation > MOST_INCARNATION)
        return mr_fail(MR_ERROR_PROTOCOL, "a welcome of an impossible process");
    message->welcome.version = from->version;
    message->welcome.attempt = from->attempt;
    message->welcome.incarnation = from->incarnation;
    message->welcome.run = from->run;
    message->welcome.beat_ns = (int64_t)from->beat_ns;
    message->welcome.live = from->live;
    message->welcome.run_state = read_run_state(from->run_state);
    message->welcome.memory = from->memory;
    return MR_OK;
}

static int read_reject(const Millrace__V1__Reject *from, mr_cut_message *message) {
    message->kind = MR_MESSAGE_REJECT;
    bool known = (unsigned)from->reason < MR_REJECT_COUNT;
    message->reject.reason = known ? (mr_reject_reason)from->reason : MR_REJECT_UNKNOWN;
    message->reject.attempt = from->attempt;
    message->reject.text = from->text;
    return MR_OK;
}

static int read_settled(const mr_wire_reader *reader, const Millrace__V1__Settled *from, mr_settled *settled) {
    static const mr_note outcome[] = {
        [MILLRACE__V1__SETTLED__OUTCOME__HELD] = MR_NOTE_NONE,
        [MILLRACE__V1__SETTLED__OUTCOME__ABSORBED] = MR_NOTE_ABSORBED,
        [MILLRACE__V1__SETTLED__OUTCOME__DELIVERED] = MR_NOTE_DELIVERED,
        [MILLRACE__V1__SETTLED__OUTCOME__DROPPED] = MR_NOTE_DROPPED};
    if ((unsigned)from->outcome >= sizeof outcome / sizeof *outcome)
        return mr_fail(MR_ERROR_PROTOCOL, "an unknown outcome %d", (int)from->outcome);
    *settled = (mr_settled){.first = from->first, .count = from->count, .outcome = outcome[from->outcome]};
    int status = read_name(reader, from->stage, &settled->stage);
    if (!status)
        status = read_name(reader, from->reason, &settled->reason);
    const bool is_lost = settled->outcome == MR_NOTE_ABSORBED || settled->outcome == MR_NOTE_DROPPED;
    if (!status && is_lost && !(settled->stage && settled->reason))
        return refuse("a frame that was absorbed or dropped without a stage and a reason");
    return status;
}

static int read_report(mr_wire_reader *reader, const Millrace__V1__Report *from, mr_cut_message *message) {
    message->kind = MR_MESSAGE_REPORT;
    mr_settled *settled = WIRE_NEW(&reader->arena, mr_settled, from->n_settled);
    int status = settled ? read_names(reader, from->names, from->n_names) : no_memory();
    for (size_t i = 0; !status && i < from->n_settled; i++)
        status = read_settled(reader, from->settled[i], &settled[i]);
    message->report.granted_frames = from->granted_frames;
    message->report.granted_bytes = from->granted_bytes;
    message->report.progress = from->progress;
    message->report.settled = settled;
    message->report.settled_count = from->n_settled;
    message->report.ended = from->ended;
    message->report.ended_count = from->n_ended;
    message->report.withdrawn = from->withdrawn;
    return status;
}

static int read_body(mr_wire_reader *reader, const Millrace__V1__Envelope *envelope, const mr_wire_part *parts,
                     size_t count, mr_cut_message *message) {
    bool items = envelope->body_case == MILLRACE__V1__ENVELOPE__BODY_ITEMS;
    if (!items && count != 1)
        return mr_fail(MR_ERROR_PROTOCOL, "a message of %zu parts that has no payload", count);
    switch (envelope->body_case) {
    case MILLRACE__V1__ENVELOPE__BODY_HELLO:
        return read_hello(envelope->hello, message);
    case MILLRACE__V1__ENVELOPE__BODY_WELCOME:
        return read_welcome(envelope->welcome, message);
    case MILLRACE__V1__ENVELOPE__BODY_REJECT:
        return read_reject(envelope->reject, message);
    case MILLRACE__V1__ENVELOPE__BODY_ITEMS:
        message->kind = MR_MESSAGE_ITEMS;
        return read_items(reader, envelope->items, parts + 1, count - 1, message);
    case MILLRACE__V1__ENVELOPE__BODY_REPORT:
        return read_report(reader, envelope->report, message);
    case MILLRACE__V1__ENVELOPE__BODY_BEAT:
        message->kind = MR_MESSAGE_BEAT;
        message->beat.progress = envelope->beat->progress;
        message->beat.run_state = read_run_state(envelope->beat->run_state);
        return MR_OK;
    case MILLRACE__V1__ENVELOPE__BODY_BYE:
        message->kind = MR_MESSAGE_BYE;
        message->bye.text = envelope->bye->text;
        return MR_OK;
    default:
        return mr_fail(MR_ERROR_PROTOCOL, "a message with an unknown body");
    }
}

/* Handshakes come in any version, so that it can be agreed upon. */
static int check_version(const Millrace__V1__Envelope *envelope) {
    bool handshake = envelope->body_case == MILLRACE__V1__ENVELOPE__BODY_HELLO ||
                     envelope->body_case == MILLRACE__V1__ENVELOPE__BODY_REJECT;
    if (handshake || (envelope->version >= MR_PROTOCOL_OLDEST && envelope->version <= MR_PROTOCOL_NEWEST))
        return MR_OK;
    return mr_fail(MR_ERROR_PROTOCOL, "a message in version %u; %d to %d are read here", envelope->version,
                   MR_PROTOCOL_OLDEST, MR_PROTOCOL_NEWEST);
}

/* A stranger's words would stay for the whole run. So only the kind is read if a message has no session. */
static bool is_admitted(mr_wire_reader *reader, const Millrace__V1__Envelope *envelope, mr_cut_message *message) {
    bool items = envelope->body_case == MILLRACE__V1__ENVELOPE__BODY_ITEMS;
    reader->share = NULL;
    if (!reader->params.whose || (!items && envelope->body_case != MILLRACE__V1__ENVELOPE__BODY_REPORT))
        return true;
    message->kind = items ? MR_MESSAGE_ITEMS : MR_MESSAGE_REPORT;
    reader->share = reader->params.whose(reader->params.whose_context, envelope->session);
    return reader->share != NULL;
}

/* Checks length and checksum before anything is parsed. */
static int check_envelope(const mr_wire_reader *reader, const mr_wire_part *parts, size_t count) {
    const mr_wire_part *envelope = parts;
    if (!count || count > MR_WIRE_BLOCKS + 1)
        return mr_fail(MR_ERROR_PROTOCOL, "a message of %zu parts; it has 1 to %d", count, MR_WIRE_BLOCKS + 1);
    if (envelope->bytes < WIRE_TAIL || envelope->bytes > reader->params.most_envelope_bytes)
        return mr_fail(MR_ERROR_PROTOCOL, "an envelope of %zu bytes; it has %d to %zu", envelope->bytes, WIRE_TAIL,
                       reader->params.most_envelope_bytes);
    const uint8_t *tail = envelope->data + envelope->bytes - WIRE_TAIL;
    uint64_t sum = 0;
    for (int i = 0; i < 8; i++)
        sum |= (uint64_t)tail[1 + i] << 8 * i;
    if (tail[0] != WIRE_TAG || sum != XXH3_64bits(envelope->data, envelope->bytes - WIRE_TAIL))
        return mr_fail(MR_ERROR_PROTOCOL, "an envelope whose checksum is wrong");
    return MR_OK;
}

int mr_wire_read(mr_wire_reader *reader, const mr_wire_part *parts, size_t count, int64_t now_ns,
                 mr_cut_message *message) {
    int status = check_envelope(reader, parts, count);
    if (status)
        return status;
    size_t bytes = parts->bytes - WIRE_TAIL;
    size_t memory = MEMORY_PER_BYTE * bytes;
    mr_wire_arena_reset(&reader->arena, MEMORY_BASE + (memory < MEMORY_MOST ? memory : MEMORY_MOST));
    ProtobufCAllocator allocator = mr_wire_allocator(&reader->arena);
    reader->now_ns = now_ns;
    Millrace__V1__Envelope *envelope = millrace__v1__envelope__unpack(&allocator, bytes, parts->data);
    if (!envelope)
        return mr_fail(MR_ERROR_PROTOCOL, "an envelope that does not follow the schema, or takes too much memory");
    status = check_version(envelope);
    if (status)
        return status;
    mr_cut_message read = {.version = envelope->version, .session = envelope->session, .number = envelope->number};
    if (is_admitted(reader, envelope, &read))
        status = read_body(reader, envelope, parts, count, &read);
    if (!status)
        *message = read;
    return status;
}
