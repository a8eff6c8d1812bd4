#include "stages/decode_pending.h"

void mr_pending_init(mr_pending *pending) {
    *pending = (mr_pending){.next = 1, .oldest = 1};
}

int64_t mr_pending_add(mr_pending *pending, mr_frame *packet) {
    pending->packet[pending->next % MR_PENDING_WINDOW] = mr_frame_ref(packet);
    return pending->next++;
}

mr_frame *mr_pending_find(const mr_pending *pending, int64_t number) {
    if (number < 1 || number >= pending->next || number + MR_PENDING_WINDOW < pending->next)
        return NULL;
    return pending->packet[number % MR_PENDING_WINDOW];
}

mr_frame *mr_pending_take(mr_pending *pending, int64_t number) {
    mr_frame *packet = mr_pending_find(pending, number);
    if (packet)
        pending->packet[number % MR_PENDING_WINDOW] = NULL;
    return packet;
}

mr_frame *mr_pending_expired(mr_pending *pending) {
    return mr_pending_take(pending, pending->next - MR_PENDING_WINDOW);
}

mr_frame *mr_pending_take_oldest(mr_pending *pending) {
    int64_t window_start = pending->next - MR_PENDING_WINDOW;
    if (pending->oldest < window_start)
        pending->oldest = window_start;
    for (; pending->oldest < pending->next; pending->oldest++) {
        mr_frame *packet = mr_pending_take(pending, pending->oldest);
        if (packet)
            return packet;
    }
    return NULL;
}

void mr_pending_fini(mr_pending *pending) {
    for (mr_frame *packet; (packet = mr_pending_take_oldest(pending));)
        mr_frame_unref(&packet);
}
