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

static bool pass(mr_gaps *gaps, const mr_frame *packet, uint32_t flags, bool enters) {
    const mr_packet seen = {.media = packet->media, .data = packet->plane[0].data, .bytes = packet->plane[0].bytes,
                            .pts_ns = packet->pts_ns, .flags = flags | (enters ? MR_FRAME_SEAM : 0)};
    return mr_recovery_pass(&gaps->recovery, &seen);
}

bool mr_gaps_pass(mr_gaps *gaps, const mr_frame *packet, bool spared) {
    if (!gaps->passed && packet->media->live)
        mr_gaps_restart(gaps);
    gaps->passed = true;
    const bool enters = gaps->entered && packet->identity.seq >= gaps->entry;
    const uint32_t marks = MR_FRAME_SEAM | MR_FRAME_CORRUPT, flags = packet->flags & ~(spared ? marks : 0);
    if (!enters && !(flags & marks) && !gaps->recovery.tainted && !gaps->recovery.leads)
        return false;
    gaps->entered = gaps->entered && !enters;
    gaps->has_entry |= enters;
    return pass(gaps, packet, flags, enters);
}

void mr_gaps_taint(mr_gaps *gaps) {
    mr_recovery_taint(&gaps->recovery);
}

bool mr_gaps_pass_again(mr_gaps *gaps, const mr_frame *packet) {
    return pass(gaps, packet, packet->flags, gaps->has_entry && !gaps->entered && packet->identity.seq == gaps->entry);
}
