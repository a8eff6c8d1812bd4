#include "stages/decode/decode_needed.h"

#include <string.h>

/* ---- places ---------------------------------------------------------------------------------------------------- */

static mr_needed_place *find_place(mr_needed *needed, int64_t pts_ns) {
    for (size_t i = needed->place_count; i-- > 0 && needed->place[i].pts_ns >= pts_ns;)
        if (needed->place[i].pts_ns == pts_ns)
            return &needed->place[i];
    return NULL;
}

static bool is_ordered(const mr_needed *needed, const mr_needed_place *place) {
    return place && (size_t)(place - needed->place) < needed->ordered;
}

static void remove_places(mr_needed *needed, size_t first, size_t count) {
    needed->place_count -= count;
    memmove(&needed->place[first], &needed->place[first + count],
            (needed->place_count - first) * sizeof *needed->place);
    size_t ordered = needed->ordered > first ? needed->ordered - first : 0;
    needed->ordered -= ordered < count ? ordered : count;
}

/* Returns false if its position in the order cannot be known. */
static bool insert_place(mr_needed *needed, int64_t pts_ns) {
    size_t at = needed->place_count;
    if (pts_ns == MR_NO_TIME || at == MR_NEEDED_PLACES)
        return false;
    while (at > 0 && needed->place[at - 1].pts_ns > pts_ns)
        at--;
    if (at < needed->ordered || (at > 0 && needed->place[at - 1].pts_ns == pts_ns))
        return false;
    memmove(&needed->place[at + 1], &needed->place[at], (needed->place_count - at) * sizeof *needed->place);
    needed->place[at] = (mr_needed_place){.pts_ns = pts_ns};
    needed->place_count++;
    return true;
}

static void order_up_to(mr_needed *needed, int64_t time_ns) {
    for (; needed->ordered < needed->place_count && needed->place[needed->ordered].pts_ns <= time_ns;
         needed->ordered++) {
        mr_needed_place *place = &needed->place[needed->ordered];
        place->wanted = mr_selection_wants(&needed->ahead, needed->media, place->pts_ns);
        place->after = needed->ahead;
    }
}

/* Adjacent omitted pictures share an entry. */
static void leave(mr_needed *needed, mr_needed_place *place) {
    size_t at = (size_t)(place - needed->place);
    place->left = 1;
    place->numbers = mr_selection_has_begun(needed->media, place->pts_ns);
    if (at + 1 < needed->place_count && place[1].left) {
        place[1].left += place->left;
        place[1].numbers += place->numbers;
        remove_places(needed, at, 1);
    }
    if (at > 0 && needed->place[at - 1].left) {
        needed->place[at].left += needed->place[at - 1].left;
        needed->place[at].numbers += needed->place[at - 1].numbers;
        remove_places(needed, at - 1, 1);
    }
}

/* ---- a stretch ------------------------------------------------------------------------------------------------- */

static bool wants_all(const mr_media *media) {
    return media->every <= 1 && media->fps <= 0 && media->start_ns <= 0 && media->end_ns <= 0;
}

void mr_needed_init(mr_needed *needed, bool all) {
    *needed = (mr_needed){.all = all, .shown_pts_ns = MR_NO_TIME};
    mr_needed_begin_epoch(needed);
}

void mr_needed_begin_epoch(mr_needed *needed) {
    mr_selection_begin(&needed->now);
}

static void begin(mr_needed *needed, const mr_frame *first) {
    mr_needed_fini(needed);
    needed->begun = true;
    if (needed->all || wants_all(first->media) || !mr_packet_looks_open(&needed->looks, first->media->codec))
        return;
    needed->entry_pts_ns = INT64_MAX;
    needed->media = mr_media_ref(first->media);
    needed->mode = MR_NEEDED_BEGINS;
}

/* Counting starts after the last received picture, unless others are held or it is shown before the first key. */
static void begin_counting(mr_needed *needed, const mr_pending *pending) {
    const int64_t pts_ns = needed->shown_pts_ns, next = mr_pending_next(pending);
    if (needed->mode != MR_NEEDED_BEGINS || pts_ns == MR_NO_TIME || needed->held_count > 0 ||
        pts_ns < needed->entry_pts_ns)
        return;
    needed->mode = MR_NEEDED_COUNTS;
    needed->ahead = needed->now;
    for (int64_t number = next - MR_PENDING_WINDOW; number < next; number++) {
        const mr_frame *packet = mr_pending_find(pending, number);
        if (!packet || packet->flags & MR_FRAME_HIDDEN || (packet->pts_ns <= pts_ns && packet->pts_ns != MR_NO_TIME))
            continue;
        if (!insert_place(needed, packet->pts_ns))
            needed->mode = MR_NEEDED_OFF;
    }
}

void mr_needed_add(mr_needed *needed, mr_frame *frame, bool kept, const mr_pending *pending) {
    mr_packet_use use = {0};
    if (!needed->begun)
        begin(needed, frame);
    begin_counting(needed, pending);
    bool hidden = frame->flags & MR_FRAME_HIDDEN;
    if (needed->mode != MR_NEEDED_OFF)
        use = mr_packet_look(&needed->looks, frame);
    use.kept |= kept;
    bool counts = needed->mode == MR_NEEDED_COUNTS;
    bool placed = use.known && !hidden && !(frame->flags & MR_FRAME_SEAM) &&
                  (!counts || (frame->dts_ns != MR_NO_TIME && insert_place(needed, frame->pts_ns)));
    /* Pictures that an edit list hides at the beginning are neither counted nor emitted. */
    if (!placed && (counts || !hidden))
        needed->mode = MR_NEEDED_OFF;
    if (placed && frame->flags & MR_FRAME_KEY && frame->pts_ns != MR_NO_TIME && needed->entry_pts_ns == INT64_MAX)
        needed->entry_pts_ns = frame->pts_ns;
    if (placed && counts)
        order_up_to(needed, frame->dts_ns);
    needed->held[needed->held_count++] = (mr_needed_packet){mr_frame_ref(frame), use};
}

void mr_needed_end(mr_needed *needed, bool cut_short) {
    needed->ended = true;
    if (needed->mode == MR_NEEDED_COUNTS && !cut_short)
        order_up_to(needed, INT64_MAX);
}

void mr_needed_fini(mr_needed *needed) {
    for (size_t i = 0; i < needed->held_count; i++)
        mr_frame_unref(&needed->held[i].frame);
    mr_packet_looks_close(&needed->looks);
    mr_media_unref(&needed->media);
    *needed = (mr_needed){.mode = MR_NEEDED_OFF, .all = needed->all, .now = needed->now, .shown_pts_ns = MR_NO_TIME};
}

/* ---- deciding -------------------------------------------------------------------------------------------------- */

static mr_needed_place *place_of(mr_needed *needed, size_t i) {
    return find_place(needed, needed->held[i].frame->pts_ns);
}

static bool is_unwanted(mr_needed *needed, size_t i) {
    const mr_needed_place *place = place_of(needed, i);
    return is_ordered(needed, place) && !place->wanted && !needed->held[i].use.kept;
}

/* Whether no other picture depends on it; *open if that is not known yet. */
static bool is_disposable(const mr_needed *needed, size_t i, bool *open) {
    mr_packet_use use = needed->held[i].use;
    bool last = i + 1 == needed->held_count;
    *open = use.disposable && use.if_renewed && last && !needed->ended;
    return use.disposable && (!use.if_renewed || (last ? needed->ended : needed->held[i + 1].use.renewed));
}

/* For a picture that is not wanted, but that others may depend on. */
static mr_needed_answer decide_by_others(mr_needed *needed, size_t i) {
    for (size_t k = i + 1; k < needed->held_count; k++) {
        if (needed->held[k].use.restart)
            return MR_NEEDED_LEAVE;
        if (!is_ordered(needed, place_of(needed, k)))
            return MR_NEEDED_WAIT;
        if (!is_unwanted(needed, k))
            return MR_NEEDED_SEND;
    }
    return needed->ended ? MR_NEEDED_LEAVE : MR_NEEDED_WAIT;
}

static mr_needed_answer decide_first(mr_needed *needed) {
    if (needed->mode != MR_NEEDED_COUNTS || needed->held[0].use.kept)
        return MR_NEEDED_SEND;
    if (!is_ordered(needed, place_of(needed, 0)))
        return MR_NEEDED_WAIT;
    return is_unwanted(needed, 0) ? decide_by_others(needed, 0) : MR_NEEDED_SEND;
}

mr_needed_answer mr_needed_next(mr_needed *needed, size_t room) {
    needed->chosen = 0;
    bool open;
    for (size_t i = 0; needed->mode == MR_NEEDED_COUNTS && i < needed->held_count; i++)
        if (is_unwanted(needed, i) && is_disposable(needed, i, &open) && !open) {
            needed->chosen = i;
            return MR_NEEDED_LEAVE;
        }
    if (needed->held_count == 0)
        return MR_NEEDED_WAIT;
    mr_needed_answer answer = decide_first(needed);
    bool full = needed->held_count >= room || needed->held_count == MR_NEEDED_MOST;
    return answer == MR_NEEDED_WAIT && (full || needed->ended) ? MR_NEEDED_SEND : answer;
}

const mr_frame *mr_needed_chosen(const mr_needed *needed) {
    return needed->held[needed->chosen].frame;
}

mr_frame *mr_needed_take(mr_needed *needed, mr_needed_answer answer) {
    mr_frame *frame = needed->held[needed->chosen].frame;
    if (answer == MR_NEEDED_LEAVE)
        leave(needed, place_of(needed, needed->chosen));
    needed->held_count--;
    memmove(&needed->held[needed->chosen], &needed->held[needed->chosen + 1],
            (needed->held_count - needed->chosen) * sizeof *needed->held);
    return frame;
}

/* ---- pictures -------------------------------------------------------------------------------------------------- */

uint64_t mr_needed_reach(mr_needed *needed, int64_t pts_ns) {
    uint64_t numbers = 0;
    size_t passed = 0;
    for (; passed < needed->place_count && needed->place[passed].pts_ns < pts_ns; passed++) {
        const mr_needed_place *place = &needed->place[passed];
        if (place->left)
            needed->now = place->after;
        numbers += place->numbers;
    }
    remove_places(needed, 0, passed);
    return numbers;
}

/* Decides by the next picture's position, if that is known. */
static bool is_placed(mr_needed *needed, int64_t pts_ns, bool *wanted) {
    if (pts_ns == MR_NO_TIME || needed->place_count == 0 || needed->place[0].pts_ns != pts_ns || needed->place[0].left)
        return false;
    /* All pictures shown before it have come. */
    if (needed->mode == MR_NEEDED_COUNTS)
        order_up_to(needed, pts_ns);
    const bool placed = is_ordered(needed, needed->place);
    if (placed) {
        *wanted = needed->place[0].wanted;
        needed->now = needed->place[0].after;
    }
    remove_places(needed, 0, 1);
    return placed;
}

bool mr_needed_wants(mr_needed *needed, const mr_frame *packet, int64_t time_ns) {
    bool wanted;
    if (!is_placed(needed, packet->pts_ns, &wanted))
        wanted = mr_selection_wants(&needed->now, packet->media, time_ns);
    needed->shown_pts_ns = time_ns == packet->pts_ns ? time_ns : MR_NO_TIME;
    return wanted;
}
