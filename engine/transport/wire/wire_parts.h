/* Internals that the wire's files share; see wire.h. */
#pragma once

#include <proto/millrace.pb-c.h>

#include "engine/transport/wire/wire_arena.h"
#include "engine/transport/wire/wire_types.h"

/* An envelope ends with its checksum as a separate field: one tag byte, eight value bytes, the least first. */
enum { WIRE_TAG = 15 << 3 | 1, WIRE_TAIL = 9 };
/* Zero bytes after a packet, which bit stream readers need. */
enum { WIRE_PADDING = 64 };

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Bytes that become a block: a range of a buffer, or, without a buffer, the gathered bytes. */
typedef struct wire_block {
    mr_buffer *buffer;
    const uint8_t *data;
    size_t bytes;
} wire_block;

typedef struct name_slot {
    const char *name; /* by pointer: ids, labels and reasons are kept once */
    uint32_t number;
    uint64_t message; /* the message that it belongs to; else the slot is free */
} name_slot;

/* Gathering buffers in rotation: while messages are being sent the next ones are written. */
enum { WIRE_GATHERED = 8 };

enum { WIRE_MEDIA_KEPT = 8 };
typedef struct packed_media {
    mr_media *media; /* a reference, so that the pointer stays this one's */
    uint8_t *data;
    size_t bytes, room;
} packed_media;

/* What several items in a message share, with its written form in the arena. */
typedef struct wire_shared {
    const void **of;
    void **written;
    size_t count, room;
} wire_shared;

struct mr_wire_writer {
    mr_wire_writer_params params;
    mr_kinds kinds;
    wire_arena arena;
    uint8_t *envelope;
    size_t envelope_room;
    mr_buffer *gathered[WIRE_GATHERED]; /* NULL: not needed yet, or not kept */
    uint32_t gathered_turn;  /* the present message's */
    size_t gathered_bytes;
    uint32_t gathered_block; /* the number among the blocks; 0: there is none */
    wire_block block[MR_WIRE_BLOCKS];
    uint32_t block_count;
    mr_wire_part part[MR_WIRE_BLOCKS + 1];
    name_slot *slot;         /* a power of two */
    size_t slot_count;
    char **name;             /* this message's names, in the writer's arena */
    size_t name_count, name_room;
    wire_shared formats, geometries, origins; /* this message's */
    uint64_t message;
    packed_media media[WIRE_MEDIA_KEPT];
    uint32_t media_turn;
    const mr_media **used_media; /* this message's */
    ProtobufCBinaryData *packed; /* the same, packed */
    size_t used_media_count;
    void *zstd;
    int64_t now_ns;
};

/* The number of an equal one among those that this message had last; 0: there is none. `from` must stay until the
 * message is written. */
uint32_t mr_wire_find_shared(const wire_shared *shared, const void *from, bool (*equal)(const void *, const void *));
/* Adds one; `written` NULL: there was no memory. */
int mr_wire_add_shared(wire_shared *shared, const void *from, void *written, uint32_t *number);
int mr_wire_number_format(mr_wire_writer *writer, const mr_format *from, uint32_t *number);
/* 0: the geometry is not known. */
int mr_wire_number_geometry(mr_wire_writer *writer, const mr_geometry *from, uint32_t *number);
/* A media's number in this message. 0 for NULL. */
int mr_wire_write_media(mr_wire_writer *writer, mr_media *media, uint32_t *number);
void mr_wire_forget_media(mr_wire_writer *writer);

/* A text that protobuf-c will only read; "" for NULL. */
static inline char *mr_wire_text(const char *from) {
    return (char *)(uintptr_t)(from ? from : "");
}

/* Where bytes are: block numbers start at 1; 0 means none. */
typedef struct wire_spot {
    uint32_t block;
    uint64_t offset;
} wire_spot;
/* Puts a buffer's bytes into the message, followed by `padding` zero bytes. */
int mr_wire_put(mr_wire_writer *writer, mr_buffer *buffer, const uint8_t *data, size_t bytes, size_t padding,
                wire_spot *spot);
/* Room for bytes that are copied; valid until the next call. */
int mr_wire_gather(mr_wire_writer *writer, size_t bytes, uint8_t **data, wire_spot *spot);
void mr_wire_forget_gathered(mr_wire_writer *writer);
/* Describes the blocks, compresses and sums them up as is asked for, and makes parts of them. */
int mr_wire_finish_blocks(mr_wire_writer *writer, Millrace__V1__Items *items, size_t *parts);

/* ---- reading ----------------------------------------------------------------------------------------------------- */

typedef struct known_media {
    mr_media *media;
    uint64_t hash;
    uint8_t *data;
    size_t bytes;
} known_media;

/* As in the proto. */
typedef struct wire_origin {
    const mr_result_kind *kind;
    const char *stage, *name;
} wire_origin;

struct mr_wire_reader {
    mr_wire_reader_params params;
    mr_kinds kinds;
    wire_arena arena;
    known_media *known;
    size_t known_count, known_turn;
    size_t known_bytes;      /* all known entries together */
    mr_names_share *share;   /* for the present message's peer */
    void *zstd;
    int64_t now_ns;
    mr_buffer *block[MR_WIRE_BLOCKS]; /* the present message's */
    uint8_t *block_data[MR_WIRE_BLOCKS];
    size_t block_bytes[MR_WIRE_BLOCKS];
    size_t block_count;
    const char **name;
    size_t name_count;
    mr_format *format;
    size_t format_count;
    mr_geometry *geometry;
    size_t geometry_count;
    wire_origin *origin;
    size_t origin_count;
    mr_media **media; /* references */
    size_t media_count;
};

int mr_wire_read_formats(mr_wire_reader *reader, Millrace__V1__Format *const *formats, size_t count);
int mr_wire_read_geometries(mr_wire_reader *reader, Millrace__V1__Geometry *const *geometries, size_t count);
/* A reference to the media that has those bytes. */
int mr_wire_read_media(mr_wire_reader *reader, const ProtobufCBinaryData *packed, mr_media **media);
