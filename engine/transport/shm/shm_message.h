/* A message of a cut as one note of shared memory (shm.h): which message of which session it is, so that those
 * that come this way and those that come through ZeroMQ can be put in one order, then its parts.
 *
 * What is read came from another process, but lies in memory of this one: it is looked at where it is, and what it says
 * of sizes is believed only as far as there are bytes. */
#ifndef MILLRACE_TRANSPORT_SHM_MESSAGE_H
#define MILLRACE_TRANSPORT_SHM_MESSAGE_H

#include "engine/transport/wire/wire.h"

typedef struct mr_ring_message {
    uint64_t session, number; /* as the envelope says, which is what counts */
    size_t count;
    mr_wire_part parts[MR_WIRE_BLOCKS + 1]; /* each at a multiple of 8 bytes from the first byte of the note */
} mr_ring_message;

/* Writes count parts, at most MR_WIRE_BLOCKS + 1; *bytes: how many bytes that takes. MR_ERROR_AGAIN, without a message:
 * more than there is room for. */
int mr_ring_message_write(uint8_t *data, size_t room, const mr_cut_message *message, const mr_wire_part *parts, size_t count,
                    size_t *bytes);
/* The parts lie in `data`. MR_ERROR_PROTOCOL. */
int mr_ring_message_read(const uint8_t *data, size_t bytes, mr_ring_message *message_in);

#endif
