#include "stages/live/rtsp/rtp.h"

#include <assert.h>
#include <string.h>

#include "engine/base/memory.h"
#include "millrace/status.h"

enum { HEADER_BYTES = 12, VERSION = 2 };

bool mr_rtp_parse(mr_rtp_packet *packet, const uint8_t *data, size_t bytes) {
    if (bytes < HEADER_BYTES || data[0] >> 6 != VERSION)
        return false;
    size_t begin = HEADER_BYTES + 4 * (size_t)(data[0] & 15), end = bytes;
    if (data[0] & 0x10) { /* an extension */
        if (begin + 4 > end)
            return false;
        begin += 4 + 4 * (size_t)mr_rtp_16(data + begin + 2);
    }
    if (data[0] & 0x20) { /* the last padding byte is the length */
        size_t padding = data[bytes - 1];
        if (padding == 0 || padding > end)
            return false;
        end -= padding;
    }
    if (begin > end)
        return false;
    *packet = (mr_rtp_packet){.source = mr_rtp_32(data + 8),
                              .sequence = (uint16_t)mr_rtp_16(data + 2),
                              .timestamp = mr_rtp_32(data + 4),
                              .type = data[1] & 0x7f,
                              .marker = data[1] >> 7,
                              .payload = data + begin,
                              .bytes = end - begin};
    return true;
}

/* ---- order ------------------------------------------------------------------------------------------------------- */

/* RFC 3550, A.1: a packet beyond these limits belongs to another count. */
enum { MOST_AHEAD = 3000, MOST_BEHIND = 100 };
/* Enough for 200 ms at 50 Mbit/s: 900 packets. Nearly all network packets fit in a slot; larger ones are allocated
 * separately. */
enum { SLOTS = 1024, SLOT_BYTES = 2048, MOST_HELD_BYTES = 4 << 20 };

typedef struct held {
    mr_rtp_packet packet;
    int64_t came_ns;
    bool used;
    bool given_up;        /* this slot's last packet did not come in time */
    uint8_t *own;         /* a large packet's block; NULL: it is in the slot */
} held;

struct mr_rtp_order {
    int64_t wait_ns;
    uint32_t rate;
    held *slots;          /* a ring, by number; NULL: nothing waits */
    uint8_t *room;        /* SLOT_BYTES for each */
    size_t count, held_bytes;
    bool begun;
    uint32_t source;
    int64_t next;         /* number of the next packet to take */
    int64_t newest;       /* highest number received */
    int64_t time;         /* that packet's time */
    uint32_t timestamp;   /* its timestamp */
    int64_t came_ns;      /* its arrival */
    int64_t release;      /* do not wait for packets below this number */
    int64_t unreported;   /* packets given up, not yet reported with a taken packet */
    bool restarted;       /* the next packet taken starts a new count */
    bool has_direct;      /* the last packet put is the next to take */
    mr_rtp_packet direct;
    uint8_t *taken;       /* block that holds the last packet taken */
    int32_t suspect;      /* sequence number that would confirm a jump; -1: none */
    uint32_t suspect_source;
};

int mr_rtp_order_create(mr_rtp_order **order, int64_t wait_ns, uint32_t rate) {
    mr_rtp_order *made = mr_calloc(1, sizeof *made);
    if (made && wait_ns > 0) {
        made->slots = mr_calloc(SLOTS, sizeof *made->slots);
        made->room = mr_alloc((size_t)SLOTS * SLOT_BYTES);
    }
    if (!made || (wait_ns > 0 && (!made->slots || !made->room))) {
        mr_rtp_order_destroy(&made);
        return mr_fail(MR_ERROR_MEMORY, "no memory for the packets of a stream");
    }
    made->wait_ns = wait_ns;
    made->rate = rate;
    made->suspect = -1;
    *order = made;
    return MR_OK;
}

static held *slot_of(const mr_rtp_order *order, int64_t number) {
    return &order->slots[(uint64_t)number % SLOTS];
}

static void empty(mr_rtp_order *order) {
    for (size_t i = 0; order->slots && i < SLOTS; i++) {
        order->slots[i].used = order->slots[i].given_up = false;
        mr_free(order->slots[i].own);
        order->slots[i].own = NULL;
    }
    order->count = order->held_bytes = 0;
    order->has_direct = false;
}

void mr_rtp_order_destroy(mr_rtp_order **order) {
    mr_rtp_order *gone = *order;
    if (!gone)
        return;
    empty(gone);
    mr_free(gone->taken);
    mr_free(gone->slots);
    mr_free(gone->room);
    mr_free(gone);
    *order = NULL;
}

static void begin_count(mr_rtp_order *order, const mr_rtp_packet *packet, int64_t now_ns) {
    const int64_t passed_ns = now_ns - order->came_ns;
    empty(order);
    order->restarted = order->begun;
    order->time = order->begun ? order->time + passed_ns / 1000 * order->rate / 1000000 : packet->timestamp;
    order->begun = true;
    order->source = packet->source;
    order->next = order->newest = packet->sequence;
    order->release = INT64_MIN;
    order->timestamp = packet->timestamp;
    order->came_ns = now_ns;
    order->suspect = -1;
}

/* The number with these low 16 bits that is nearest to the newest one. */
static int64_t number_of(const mr_rtp_order *order, uint16_t sequence) {
    return order->newest + (int16_t)(uint16_t)(sequence - (uint16_t)order->newest);
}

/* Whether the packet belongs to another count. If others can send here too, another count's first packet is not
 * believed. */
static bool jumps(mr_rtp_order *order, const mr_rtp_packet *packet, bool *confirmed) {
    const int64_t ahead = number_of(order, packet->sequence) - order->newest;
    *confirmed = false;
    if (packet->source == order->source && ahead <= MOST_AHEAD && ahead >= -MOST_BEHIND) {
        order->suspect = -1;
        return false;
    }
    *confirmed = order->wait_ns <= 0 ||
                 (order->suspect == packet->sequence && order->suspect_source == packet->source);
    order->suspect = (uint16_t)(packet->sequence + 1);
    order->suspect_source = packet->source;
    return true;
}

/* False without memory: the packet is then lost. */
static bool keep(mr_rtp_order *order, const mr_rtp_packet *packet, int64_t now_ns) {
    held *slot = slot_of(order, packet->number);
    uint8_t *to = order->room + (size_t)(slot - order->slots) * SLOT_BYTES;
    if (packet->bytes > SLOT_BYTES && !(to = slot->own = mr_alloc(packet->bytes)))
        return false;
    if (packet->bytes)
        memcpy(to, packet->payload, packet->bytes);
    slot->packet = *packet;
    slot->packet.payload = to;
    slot->came_ns = now_ns;
    slot->used = true;
    order->count++;
    order->held_bytes += packet->bytes;
    return true;
}

/* Handles a packet that came after the wait for it had ended. */
static mr_rtp_put put_old(mr_rtp_order *order, const mr_rtp_packet *packet) {
    held *slot = order->slots && packet->number >= order->next - SLOTS ? slot_of(order, packet->number) : NULL;
    if (!slot || !slot->given_up)
        return MR_RTP_TWICE;
    slot->given_up = false;
    return MR_RTP_LATE;
}

/* Handles a packet that comes after missing ones. */
static mr_rtp_put put_ahead(mr_rtp_order *order, const mr_rtp_packet *packet, int64_t now_ns) {
    if (packet->number >= order->next + SLOTS) {
        order->release = packet->number - SLOTS + 1;
        return MR_RTP_FULL;
    }
    if (slot_of(order, packet->number)->used)
        return MR_RTP_TWICE;
    if (order->count && order->held_bytes + packet->bytes > MOST_HELD_BYTES) {
        order->release = order->newest + 1;
        return MR_RTP_FULL;
    }
    return keep(order, packet, now_ns) ? MR_RTP_TAKEN : MR_RTP_LATE;
}

mr_rtp_put mr_rtp_order_put(mr_rtp_order *order, mr_rtp_packet *packet, int64_t now_ns) {
    bool confirmed;
    assert(!order->has_direct);
    if (!order->begun) {
        begin_count(order, packet, now_ns);
    } else if (jumps(order, packet, &confirmed)) {
        if (!confirmed)
            return MR_RTP_STRAY;
        begin_count(order, packet, now_ns);
    }
    packet->number = number_of(order, packet->sequence);
    packet->time = order->time + (int32_t)(packet->timestamp - order->timestamp);
    if (packet->number < order->next)
        return put_old(order, packet);
    mr_rtp_put put = MR_RTP_TAKEN;
    order->has_direct = packet->number == order->next || order->wait_ns <= 0;
    if (order->has_direct)
        order->direct = *packet;
    else
        put = put_ahead(order, packet, now_ns);
    if (put == MR_RTP_TAKEN && packet->number >= order->newest) {
        order->newest = packet->number;
        order->time = packet->time;
        order->timestamp = packet->timestamp;
        order->came_ns = now_ns;
    }
    return put;
}

/* The first held packet; NULL: none. */
static held *first_held(const mr_rtp_order *order) {
    for (int64_t n = order->next; order->count && n <= order->newest; n++)
        if (slot_of(order, n)->used)
            return slot_of(order, n);
    return NULL;
}

/* Moves on to a number; missing packets before it are lost. */
static void move_to(mr_rtp_order *order, int64_t number) {
    order->unreported += number - order->next;
    const int64_t from = number - order->next > SLOTS ? number - SLOTS : order->next;
    for (int64_t n = from; order->slots && n < number; n++)
        slot_of(order, n)->given_up = true;
    order->next = number;
}

static bool give(mr_rtp_order *order, mr_rtp_packet *packet, const mr_rtp_packet *from) {
    move_to(order, from->number);
    *packet = *from;
    packet->lost = (uint32_t)order->unreported;
    packet->restart = order->restarted;
    order->unreported = 0;
    order->restarted = false;
    if (order->slots)
        slot_of(order, order->next)->given_up = false;
    order->next++;
    return true;
}

static bool give_held(mr_rtp_order *order, mr_rtp_packet *packet, held *first) {
    first->used = false;
    order->taken = first->own;
    first->own = NULL;
    order->count--;
    order->held_bytes -= first->packet.bytes;
    return give(order, packet, &first->packet);
}

bool mr_rtp_order_take(mr_rtp_order *order, mr_rtp_packet *packet, int64_t now_ns) {
    mr_free(order->taken);
    order->taken = NULL;
    if (order->has_direct) {
        order->has_direct = false;
        return give(order, packet, &order->direct);
    }
    held *first = first_held(order);
    if (first && first->packet.number >= order->release && order->next < order->release)
        move_to(order, order->release);
    if (!first && order->next < order->release)
        move_to(order, order->release);
    if (!first)
        return false;
    const bool gives_up = first->packet.number < order->release || now_ns - first->came_ns >= order->wait_ns;
    return (first->packet.number == order->next || gives_up) && give_held(order, packet, first);
}

void mr_rtp_order_release(mr_rtp_order *order) {
    order->release = order->begun ? order->newest + 1 : order->release;
}

int64_t mr_rtp_order_due_ns(const mr_rtp_order *order) {
    const held *first = first_held(order);
    return first ? first->came_ns + order->wait_ns : INT64_MAX;
}
