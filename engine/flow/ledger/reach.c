#include "engine/flow/ledger/reach.h"

#include "engine/base/memory.h"
#include "millrace/status.h"

static mr_reach_frame *frame_at(const mr_reach *reach, uint64_t number) {
    return &reach->ring[number & (reach->room - 1)];
}

static int widen(mr_reach *reach) {
    size_t room = reach->room ? 2 * reach->room : 64;
    mr_reach wider = {.ring = mr_alloc(room * sizeof *wider.ring), .room = room};
    if (!wider.ring)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the frames of a source that are in flight");
    for (uint64_t i = reach->first; i < reach->next; i++)
        *frame_at(&wider, i) = *frame_at(reach, i);
    mr_free(reach->ring);
    reach->ring = wider.ring;
    reach->room = room;
    return MR_OK;
}

int mr_reach_open(mr_reach *reach, const mr_identity *frame, uint64_t *number) {
    int status = reach->next - reach->first == reach->room ? widen(reach) : MR_OK;
    if (status)
        return status;
    *number = reach->next++;
    *frame_at(reach, *number) = (mr_reach_frame){.epoch = frame->epoch, .seq = frame->seq};
    return MR_OK;
}

void mr_reach_close(mr_reach *reach, uint64_t number) {
    frame_at(reach, number)->closed = true;
    for (; reach->first < reach->next && frame_at(reach, reach->first)->closed; reach->first++) {
        reach->last = *frame_at(reach, reach->first);
        reach->any = true;
    }
}

void mr_reach_fini(mr_reach *reach) {
    mr_free(reach->ring);
    *reach = (mr_reach){0};
}
