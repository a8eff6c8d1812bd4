#include "engine/transport/shm/shm_message.h"

#include <string.h>

#include "millrace/status.h"

/* Both ends are on one machine, so fields have the processor's form. The part sizes follow, 8 bytes each, and then the
 * parts. */
typedef struct head {
    uint64_t session, number, count;
} head;

enum { ALIGNMENT = 8 };

static size_t padded(size_t bytes) {
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

int mr_ring_message_write(uint8_t *data, size_t room, const mr_cut_message *message, const mr_wire_part *parts,
                          size_t count, size_t *bytes) {
    const head begin = {.session = message->session, .number = message->number, .count = count};
    size_t at = sizeof begin + count * sizeof(uint64_t);
    if (at > room)
        return MR_ERROR_AGAIN;
    memcpy(data, &begin, sizeof begin);
    for (size_t i = 0; i < count; i++) {
        const uint64_t size = parts[i].bytes;
        if (size > room || padded(size) > room - at)
            return MR_ERROR_AGAIN;
        memcpy(data + sizeof begin + i * sizeof size, &size, sizeof size);
        if (size)
            memcpy(data + at, parts[i].data, size);
        memset(data + at + size, 0, padded(size) - size);
        at += padded(size);
    }
    *bytes = at;
    return MR_OK;
}

static int refuse(void) {
    return mr_fail(MR_ERROR_PROTOCOL, "shared memory: the other end sends a malformed record");
}

int mr_ring_message_read(const uint8_t *data, size_t bytes, mr_ring_message *message_in) {
    head begin;
    if (bytes < sizeof begin)
        return refuse();
    memcpy(&begin, data, sizeof begin);
    if (begin.count < 1 || begin.count > MR_WIRE_BLOCKS + 1 ||
        bytes - sizeof begin < begin.count * sizeof(uint64_t))
        return refuse();
    size_t at = sizeof begin + begin.count * sizeof(uint64_t);
    for (size_t i = 0; i < begin.count; i++) {
        uint64_t size;
        memcpy(&size, data + sizeof begin + i * sizeof size, sizeof size);
        if (size > bytes - at || padded(size) > bytes - at)
            return refuse();
        message_in->parts[i] = (mr_wire_part){.data = data + at, .bytes = size};
        at += padded(size);
    }
    if (at != bytes)
        return refuse();
    message_in->session = begin.session;
    message_in->number = begin.number;
    message_in->count = begin.count;
    return MR_OK;
}
