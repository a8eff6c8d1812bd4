#include "stages/live/rtp.h"

#include <string.h>

#include "engine/base/memory.h"
#include "millrace/status.h"

enum { HEADER_BYTES = 12, VERSION = 2 };

static uint32_t read_16(const uint8_t *at) {
    return (uint32_t)at[0] << 8 | at[1];
}

static uint32_t read_32(const uint8_t *at) {
    return read_16(at) << 16 | read_16(at + 2);
}

bool mr_rtp_parse(mr_rtp_packet *packet, const uint8_t *data, size_t bytes) {
    if (bytes < HEADER_BYTES || data[0] >> 6 != VERSION)
        return false;
    size_t begin = HEADER_BYTES + 4 * (size_t)(data[0] & 15), end = bytes;
    if (data[0] & 0x10) { /* an extension */
        if (begin + 4 > end)
            return false;
        begin += 4 + 4 * (size_t)read_16(data + begin + 2);
    }
    if (data[0] & 0x20) { /* padding: its last byte is its length */
        size_t padding = data[bytes - 1];
        if (padding == 0 || padding > end)
            return false;
        end -= padding;
    }
    if (begin > end)
        return false;
    *packet = (mr_rtp_packet){.source = read_32(data + 8),
                              .sequence = (uint16_t)read_16(data + 2),
                              .timestamp = read_32(data + 4),
                              .type = data[1] & 0x7f,
                              .marker = data[1] >> 7,
                              .payload = data + begin,
                              .bytes = end - begin};
    return true;
}

/* ---- order ------------------------------------------------------------------------------------------------------- */

/* RFC 3550, A.1: packets further ahead or behind than these begin a new count, once a second one follows the first. */
enum { MOST_AHEAD = 3000, MOST_BEHIND = 100 };

typedef struct held {
    mr_rtp_packet packet; /* its payload lies in `data` */
    int64_t came_ns;
    bool used;
    uint8_t *data;
} held;

struct mr_rtp_order {
    int64_t wait_ns;
    size_t most, bytes, count;
    held *slots;          /* a ring, by number */
    bool begun;
    uint32_t source;
    int64_t next;         /* number of the packet to be taken next */
    int64_t newest;       /* the highest number so far */
    int64_t time;         /* of the last packet that was put */
    int64_t lost;         /* packets given up that no packet has reported yet */
    bool full;            /* a packet of the number `wanted` has no room */
    int64_t wanted;
    int32_t suspect;      /* sequence number that would confirm a jump; -1: none */
    uint32_t suspect_source;
};

int mr_rtp_order_create(mr_rtp_order **order, int64_t wait_ns, size_t most, size_t bytes) {
    mr_rtp_order *made = mr_calloc(1, sizeof *made);
    uint8_t *data = made ? mr_alloc(most * bytes) : NULL;
    if (!made || !data || !(made->slots = mr_calloc(most, sizeof *made->slots))) {
        mr_free(data);
        mr_free(made);
        return mr_fail(MR_ERROR_MEMORY, "no memory for %zu packets of a stream", most);
    }
    for (size_t i = 0; i < most; i++)
        made->slots[i].data = data + i * bytes;
    made->wait_ns = wait_ns;
    made->most = most;
    made->bytes = bytes;
    made->suspect = -1;
    *order = made;
    return MR_OK;
}

void mr_rtp_order_destroy(mr_rtp_order **order) {
    mr_rtp_order *gone = *order;
    if (!gone)
        return;
    mr_free(gone->slots[0].data);
    mr_free(gone->slots);
    mr_free(gone);
    *order = NULL;
}

static held *slot_of(const mr_rtp_order *order, int64_t number) {
    return &order->slots[(uint64_t)number % order->most];
}

static void begin_count(mr_rtp_order *order, const mr_rtp_packet *packet) {
    for (size_t i = 0; i < order->most; i++)
        order->slots[i].used = false;
    order->count = 0;
    order->begun = true;
    order->source = packet->source;
    order->next = order->newest = packet->sequence;
    order->time = packet->timestamp;
    order->suspect = -1;
}

/* The number nearest to the newest one that has these 16 bits. */
static int64_t number_of(const mr_rtp_order *order, uint16_t sequence) {
    return order->newest + (int16_t)(uint16_t)(sequence - (uint16_t)order->newest);
}

/* Whether the packet does not belong to the present count. The first packet of another count is not believed: it may be
 * a stray one. */
static bool jumps(mr_rtp_order *order, const mr_rtp_packet *packet, bool *confirmed) {
    const int64_t ahead = number_of(order, packet->sequence) - order->newest;
    *confirmed = false;
    if (packet->source == order->source && ahead <= MOST_AHEAD && ahead >= -MOST_BEHIND)
        return false;
    *confirmed = order->suspect == packet->sequence && order->suspect_source == packet->source;
    order->suspect = (uint16_t)(packet->sequence + 1);
    order->suspect_source = packet->source;
    return true;
}

static void keep(mr_rtp_order *order, const mr_rtp_packet *packet, int64_t now_ns) {
    held *slot = slot_of(order, packet->number);
    memcpy(slot->data, packet->payload, packet->bytes);
    slot->packet = *packet;
    slot->packet.payload = slot->data;
    slot->came_ns = now_ns;
    slot->used = true;
    order->count++;
}

mr_rtp_put mr_rtp_order_put(mr_rtp_order *order, mr_rtp_packet *packet, int64_t now_ns) {
    bool restarted = false;
    if (packet->bytes > order->bytes)
        return MR_RTP_TOO_LARGE;
    if (!order->begun) {
        begin_count(order, packet);
    } else if (jumps(order, packet, &restarted)) {
        if (!restarted)
            return MR_RTP_LATE;
        begin_count(order, packet);
    }
    packet->number = number_of(order, packet->sequence);
    packet->time = order->time + (int32_t)(packet->timestamp - (uint32_t)order->time);
    if (packet->number < order->next)
        return MR_RTP_LATE;
    order->full = packet->number >= order->next + (int64_t)order->most;
    if (order->full) {
        order->wanted = packet->number;
        return MR_RTP_FULL;
    }
    if (slot_of(order, packet->number)->used)
        return MR_RTP_TWICE;
    if (packet->number > order->newest) {
        order->newest = packet->number;
        order->time = packet->time;
    }
    keep(order, packet, now_ns);
    return restarted ? MR_RTP_RESTART : MR_RTP_TAKEN;
}

/* The first packet that is here; NULL if there is none. */
static held *first_held(const mr_rtp_order *order) {
    for (int64_t n = order->next; order->count && n <= order->newest; n++)
        if (slot_of(order, n)->used)
            return slot_of(order, n);
    return NULL;
}

/* Whether what is missing before a packet is given up. */
static bool gives_up(const mr_rtp_order *order, const held *first, int64_t now_ns) {
    return order->full || now_ns - first->came_ns >= order->wait_ns;
}

bool mr_rtp_order_take(mr_rtp_order *order, mr_rtp_packet *packet, int64_t now_ns) {
    held *first = first_held(order);
    if (order->full && (!first || order->next + (int64_t)order->most > order->wanted)) {
        /* All before it was taken: the numbers up to its place are lost. */
        order->full = false;
        order->lost += first ? 0 : order->wanted - order->next;
        order->next = first ? order->next : order->wanted;
        return false;
    }
    if (!first || (first->packet.number > order->next && !gives_up(order, first, now_ns)))
        return false;
    *packet = first->packet;
    packet->lost = (uint32_t)(first->packet.number - order->next + order->lost);
    order->lost = 0;
    order->next = first->packet.number + 1;
    first->used = false;
    order->count--;
    return true;
}

int64_t mr_rtp_order_due_ns(const mr_rtp_order *order) {
    const held *first = first_held(order);
    return first ? first->came_ns + order->wait_ns : INT64_MAX;
}
