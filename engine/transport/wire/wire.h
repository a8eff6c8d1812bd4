/* The wire: messages to and from bytes, by proto/millrace.proto.
 *
 * A message is one envelope and any number of payload parts, which a transport sends as they are. Payloads are not
 * copied where they need not be: a part points into a frame's own buffer, and a frame that is read points into the
 * part that came. Small payloads are gathered into one part, since each part costs more than copying a few KiB.
 * Payloads in shared memory have no part: where `share` knows a buffer, its slot goes over instead.
 *
 * What comes may be hostile. Every size is checked before anything is allocated for it, memory for one message is
 * bounded by its own length, names and descriptions that are kept are bounded by `most_names` and `most_media`; what
 * cannot be is refused with MR_ERROR_PROTOCOL and a message that says what it is. Nothing that was refused leaves a
 * trace. The checksums find damage, not malice: that is CURVE's.
 *
 * Payloads must be in host memory, and ready (mr_frame.ready done), when they are written.
 *
 * A writer and a reader are each used by one thread at a time; they share nothing. After some time neither allocates:
 * what they need is kept, as large as it ever was, but for buffers that frames hold. */
#ifndef MILLRACE_TRANSPORT_WIRE_H
#define MILLRACE_TRANSPORT_WIRE_H

#include "engine/base/names.h"
#include "engine/data/store.h"
#include "engine/transport/message.h"

typedef enum mr_compression { MR_COMPRESSION_NONE, MR_COMPRESSION_LZ4, MR_COMPRESSION_ZSTD } mr_compression;

enum { MR_WIRE_BLOCKS = 256 }; /* most payload parts of one message */

/* One part. With `buffer`, the bytes lie in it and stay as long as somebody refers to it, so that they need not be
 * copied to be sent; else they are only there until the writer's next call. */
typedef struct mr_wire_part {
    const uint8_t *data;
    size_t bytes;
    mr_buffer *buffer;
} mr_wire_part;

/* Where bytes lie in shared memory, in the words of who lends it. */
typedef struct mr_shared_slot {
    uint32_t pool, slot, lease;
    uint64_t generation, offset;
} mr_shared_slot;

/* ---- writing ----------------------------------------------------------------------------------------------------- */

typedef struct mr_wire_writer mr_wire_writer;

typedef struct mr_wire_writer_params {
    mr_compression compression;
    bool checksum; /* of payloads, too */
    /* Lends `bytes` bytes of a buffer, from `offset` on, to the peer that the message is for; false where that cannot
     * be: they go inline. Called last of all that could fail. NULL: nothing is shared. */
    bool (*share)(void *context, mr_buffer *buffer, size_t offset, size_t bytes, mr_shared_slot *slot);
    void *context;
    const mr_media_codec *codec; /* how codecs are described; NULL: media cross without */
} mr_wire_writer_params;

int mr_wire_writer_create(mr_wire_writer **writer, const mr_wire_writer_params *params);
void mr_wire_writer_destroy(mr_wire_writer **writer);

/* Writes a message: *count parts at *parts, the envelope first. They stay until the next call. `now_ns`: the clock of
 * the frames' times. MR_ERROR_MEMORY; MR_ERROR_DATA (a frame that no message can hold: a payload that is not in host
 * memory, more planes or results than there may be). */
int mr_wire_write(mr_wire_writer *writer, const mr_cut_message *message, int64_t now_ns, const mr_wire_part **parts,
                  size_t *count);

/* Bytes of payload that a frame puts on the wire: what credit in bytes counts, before compression. */
uint64_t mr_wire_frame_bytes(const mr_frame *frame);

/* ---- reading ----------------------------------------------------------------------------------------------------- */

typedef struct mr_wire_reader mr_wire_reader;

typedef struct mr_wire_reader_params {
    size_t most_envelope_bytes; /* a longer one is refused; 0: 4 MiB */
    uint64_t most_bytes;        /* of payload in one message, uncompressed; 0: 256 MiB */
    size_t most_media;          /* descriptions of media that are remembered; 0: 256 */
    size_t most_media_bytes;    /* of these together; 0: 16 MiB */
    size_t most_items;          /* in one message; 0: 65,536 */
    size_t source_count;        /* of the pipeline; sources beyond are refused */
    mr_names *names;            /* ids of stages, labels and reasons are kept here: they live as long as it does */
    /* Who has sent a message of that session: what it may add to `names`. NULL: there is no such session, and of ITEMS
     * and REPORT nothing is read but that they came. Not set: all come from one. */
    mr_names_share *(*whose)(void *context, uint64_t session);
    void *whose_context;
    mr_store *store;            /* where frames and results come from */
    /* A reference to a buffer that is those bytes of shared memory. NULL: such payloads are refused.
     * MR_ERROR_PROTOCOL where there is no such slot or it has not so many bytes. */
    int (*map)(void *context, const mr_shared_slot *slot, uint64_t bytes, mr_buffer **buffer);
    void *context;
    const mr_media_codec *codec; /* how codecs are described; NULL: media come without */
} mr_wire_reader_params;

int mr_wire_reader_create(mr_wire_reader **reader, const mr_wire_reader_params *params);
void mr_wire_reader_destroy(mr_wire_reader **reader);

/* Reads a message of `count` parts, the envelope first. Parts are borrowed; a part with a buffer is referred to by
 * the frames that point into it, which keep it; bytes without one, or that do not lie at a multiple of 8, are copied.
 *
 * The message stays until the reader's next call. The frames of its items are new, with one reference each, which is
 * the caller's; their receipts are NULL, their times by the clock that says `now_ns`. Nothing is left to be freed
 * where it fails: MR_ERROR_PROTOCOL, MR_ERROR_MEMORY. */
int mr_wire_read(mr_wire_reader *reader, const mr_wire_part *parts, size_t count, int64_t now_ns,
                 mr_cut_message *message);

#endif
