#include "stages/decode/decode_pending.h"

void mr_pending_init(mr_pending *pending) {
    *pending = (mr_pending){.next = 1, .oldest = 1};
}

int64_t mr_pending_next(const mr_pending *pending) {
    return pending->next;
}

static size_t slot_of(int64_t number) {
    return (size_t)(number % MR_PENDING_WINDOW);
}

int64_t mr_pending_add(mr_pending *pending, mr_frame *packet) {
    pending->packet[slot_of(pending->next)] = mr_frame_ref(packet);
    pending->interlaced[slot_of(pending->next)] = false;
    return pending->next++;
}

static bool in_window(const mr_pending *pending, int64_t number) {
    return number >= 1 && number < pending->next && number + MR_PENDING_WINDOW >= pending->next;
}

mr_frame *mr_pending_find(const mr_pending *pending, int64_t number) {
    return in_window(pending, number) ? pending->packet[slot_of(number)] : NULL;
}

size_t mr_pending_count(const mr_pending *pending) {
    size_t count = 0;
    for (size_t i = 0; i < MR_PENDING_WINDOW; i++)
        count += pending->packet[i] != NULL;
    return count;
}

mr_frame *mr_pending_take(mr_pending *pending, int64_t number) {
    mr_frame *packet = mr_pending_find(pending, number);
    if (packet)
        pending->packet[slot_of(number)] = NULL;
    return packet;
}

void mr_pending_note_interlaced(mr_pending *pending, int64_t number) {
    if (in_window(pending, number))
        pending->interlaced[slot_of(number)] = true;
}

bool mr_pending_may_be_field(const mr_pending *pending, int64_t number) {
    return in_window(pending, number - 1) && pending->interlaced[slot_of(number - 1)];
}

mr_frame *mr_pending_expired(mr_pending *pending, int64_t *number) {
    /* Expires one number early, so that the previous packet's record still exists. */
    *number = pending->next - MR_PENDING_WINDOW + 1;
    return mr_pending_take(pending, *number);
}

mr_frame *mr_pending_take_oldest(mr_pending *pending, int64_t end, int64_t *number) {
    int64_t window_start = pending->next - MR_PENDING_WINDOW;
    if (pending->oldest < window_start)
        pending->oldest = window_start;
    for (; pending->oldest < pending->next && pending->oldest < end; pending->oldest++) {
        *number = pending->oldest;
        mr_frame *packet = mr_pending_take(pending, pending->oldest);
        if (packet)
            return packet;
    }
    return NULL;
}

void mr_pending_fini(mr_pending *pending) {
    int64_t number;
    for (mr_frame *packet; (packet = mr_pending_take_oldest(pending, INT64_MAX, &number));)
        mr_frame_unref(&packet);
}
