#include "engine/data/receipt.h"

#include <string.h>

bool mr_note_settles(mr_note note, const char *reason) {
    return note != MR_NOTE_DROPPED || strcmp(reason, MR_REASON_STOPPED) != 0;
}

mr_receipt *mr_receipt_ref(mr_receipt *receipt) {
    atomic_fetch_add_explicit(&receipt->references, 1, memory_order_relaxed);
    return receipt;
}

void mr_receipt_unref(mr_receipt **receipt) {
    mr_receipt *dropped = *receipt;
    *receipt = NULL;
    if (!dropped)
        return;
    /* A sole holder needs no locked instruction, unless the owner can still take a reference. */
    bool alone = !dropped->findable && atomic_load_explicit(&dropped->references, memory_order_acquire) == 1;
    if (alone || atomic_fetch_sub_explicit(&dropped->references, 1, memory_order_acq_rel) == 1)
        dropped->close(dropped);
}
