/* A cut message as one record in shared memory (shm.h): session and number, then its parts. Session and number put
 * messages that arrive this way and through ZeroMQ into one order.
 *
 * The bytes came from another process, but are in memory of this one: they are read in place, and sizes are checked
 * against the bytes that there are. */
#pragma once

#include "engine/transport/wire/wire.h"

typedef struct mr_ring_message {
    uint64_t session, number; /* copied from the envelope, which is authoritative */
    size_t count;
    mr_wire_part parts[MR_WIRE_BLOCKS + 1]; /* each at a multiple of 8 bytes from the record's first byte */
} mr_ring_message;

/* Writes count parts, at most MR_WIRE_BLOCKS + 1; *bytes: how many bytes that takes. MR_ERROR_AGAIN, without a message:
 * more than there is room for. */
int mr_ring_message_write(uint8_t *data, size_t room, const mr_cut_message *message, const mr_wire_part *parts,
                          size_t count, size_t *bytes);
/* The parts lie in `data`. MR_ERROR_PROTOCOL. */
int mr_ring_message_read(const uint8_t *data, size_t bytes, mr_ring_message *message_in);
