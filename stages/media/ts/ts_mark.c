#include "stages/media/ts/ts_mark.h"

static bool mark_doubtful(mr_ts_marks *marks, AVPacket *packet) {
    const bool marked = packet->flags & AV_PKT_FLAG_CORRUPT;
    if (marks->doubtful)
        packet->flags |= AV_PKT_FLAG_CORRUPT;
    marks->doubtful = marked;
    return marked;
}

bool mr_ts_mark(mr_ts_marks *marks, const mr_ts_scan *scan, int pid, AVPacket *packet) {
    mr_ts_found found = {0};
    if (scan)
        found = mr_ts_scan_find(scan, &marks->cursor, pid, packet->pos, (size_t)packet->size);
    if (!found.known)
        return mark_doubtful(marks, packet);
    marks->doubtful = false;
    packet->flags &= ~AV_PKT_FLAG_CORRUPT;
    packet->flags |= found.lacks ? AV_PKT_FLAG_CORRUPT : 0;
    return found.gap || found.within;
}
