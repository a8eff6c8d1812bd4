/* What writers and readers of the wire are made with, and parts of messages; see wire.h. */
#pragma once

#include "engine/base/names.h"
#include "engine/data/kinds.h"
#include "engine/data/store.h"
#include "engine/transport/message.h"

typedef enum mr_compression { MR_COMPRESSION_NONE, MR_COMPRESSION_LZ4, MR_COMPRESSION_ZSTD } mr_compression;

enum { MR_WIRE_BLOCKS = 256 }; /* most payload parts in one message */
enum { MR_WIRE_MOST_ENVELOPE = 4 << 20 }; /* bytes */

/* One part. With `buffer`, the bytes are in it and stay as long as it is referred to, so that they need not be copied
 * to be sent; else they are valid until the writer's next call. */
typedef struct mr_wire_part {
    const uint8_t *data;
    size_t bytes;
    mr_buffer *buffer;
} mr_wire_part;

/* Where (a part of) a buffer in shared memory is, in the exporter's numbers (engine/transport/shm). Valid on one link
 * and once. */
typedef struct mr_shm_reference {
    uint32_t pool;       /* the pool's number on this link, below MR_SHM_POOLS */
    uint32_t slot;       /* in the pool */
    uint64_t generation; /* the slot's */
    uint32_t lease;      /* the lease's number on this link, below MR_SHM_LEASES */
    uint64_t offset;     /* in the slot, bytes */
    uint64_t bytes;
} mr_shm_reference;

typedef struct mr_wire_writer mr_wire_writer;

typedef struct mr_wire_writer_params {
    mr_compression compression;
    bool checksum; /* also checks payloads */
    size_t most_envelope_bytes; /* a longer one is not written; 0: MR_WIRE_MOST_ENVELOPE */
    /* Lends `bytes` bytes at `offset` in a buffer to the peer that the message is for. False if it cannot: they go
     * inline. Must be called after everything else that can fail. NULL: nothing is shared. */
    bool (*share)(void *context, mr_buffer *buffer, size_t offset, size_t bytes, mr_shm_reference *reference);
    void *context;
    const mr_media_codec *codec; /* how codecs are described; NULL: media cross without */
    const mr_kinds *kinds;       /* result kinds, copied; NULL: the built-in ones */
} mr_wire_writer_params;

typedef struct mr_wire_reader mr_wire_reader;

typedef struct mr_wire_reader_params {
    size_t most_envelope_bytes; /* a longer one is refused; 0: MR_WIRE_MOST_ENVELOPE */
    uint64_t most_bytes;        /* payload bytes in one message, uncompressed; 0: 256 MiB */
    size_t most_media;          /* media descriptions to remember; 0: 256 */
    size_t most_media_bytes;    /* their bytes together; 0: 16 MiB */
    size_t most_items;          /* in one message; 0: 65,536 */
    size_t source_count;        /* the pipeline's; sources beyond are refused */
    mr_names *names;            /* ids of stages, labels and reasons are kept here: they live as long as it does */
    /* The names share for the peer with that session. NULL: there is no such session, and only the kind of ITEMS and
     * REPORT is read. Not set: one peer. */
    mr_names_share *(*whose)(void *context, uint64_t session);
    void *whose_context;
    mr_store *store;            /* where frames and results come from */
    /* Maps those bytes of shared memory as a buffer, with a reference. NULL: such payloads are refused.
     * MR_ERROR_PROTOCOL if there is no such slot, or it is smaller. */
    int (*map)(void *context, const mr_shm_reference *reference, mr_buffer **buffer);
    void *context;
    const mr_media_codec *codec; /* how codecs are described; NULL: media come without */
    const mr_kinds *kinds;       /* result kinds, copied: others are refused; NULL: the built-in ones */
} mr_wire_reader_params;
