#include "stages/decode/decode_gaps.h"

void mr_gaps_restart(mr_gaps *gaps) {
    mr_recovery_begin(&gaps->recovery);
}

void mr_gaps_note(mr_gaps *gaps, const mr_frame *packet) {
    const uint64_t number = packet->identity.seq;
    if (gaps->begun && number != gaps->next && packet->flags & MR_FRAME_KEY && !gaps->entered) {
        gaps->entered = true;
        gaps->entry = number;
    }
    gaps->begun = true;
    gaps->next = number + 1;
}

static bool pass(mr_gaps *gaps, const mr_frame *packet, bool enters) {
    const mr_packet seen = {.media = packet->media, .data = packet->plane[0].data, .bytes = packet->plane[0].bytes,
                            .pts_ns = packet->pts_ns, .flags = packet->flags | (enters ? MR_FRAME_SEAM : 0)};
    return mr_recovery_pass(&gaps->recovery, &seen);
}

bool mr_gaps_pass(mr_gaps *gaps, const mr_frame *packet) {
    const bool enters = gaps->entered && packet->identity.seq >= gaps->entry;
    if (!enters && !gaps->recovery.tainted && !gaps->recovery.leads)
        return false;
    gaps->entered = gaps->entered && !enters;
    gaps->has_entry |= enters;
    return pass(gaps, packet, enters);
}

void mr_gaps_taint(mr_gaps *gaps) {
    mr_recovery_taint(&gaps->recovery);
}

bool mr_gaps_pass_again(mr_gaps *gaps, const mr_frame *packet) {
    return pass(gaps, packet, gaps->has_entry && !gaps->entered && packet->identity.seq == gaps->entry);
}
