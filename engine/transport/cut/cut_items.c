#include "engine/transport/cut/cut_items.h"

#include "engine/base/memory.h"
#include "engine/flow/ledger.h"
#include "millrace/status.h"

int mr_cut_items_append(mr_cut_items *list, const mr_cut_item *item) {
    if (list->count == list->room) {
        size_t room = list->room ? 2 * list->room : 64;
        mr_cut_item *wider = mr_realloc(list->item, room * sizeof *wider);
        if (!wider)
            return mr_fail(MR_ERROR_MEMORY, "no memory for what goes over a cut");
        list->item = wider;
        list->room = room;
    }
    list->item[list->count++] = *item;
    return MR_OK;
}

void mr_cut_items_fini(mr_cut_items *list, size_t next, const char *stage) {
    for (size_t i = next; i < list->count; i++) {
        mr_frame *frame = list->item[i].frame;
        if (frame)
            mr_receipt_note(frame->receipt, MR_NOTE_DROPPED, stage, MR_REASON_STOPPED);
        mr_frame_unref(&frame);
    }
    mr_free(list->item);
    *list = (mr_cut_items){0};
}
