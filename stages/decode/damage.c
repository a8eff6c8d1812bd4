#include "stages/decode/damage.h"

static void note_wrong(mr_damage *damage, int64_t number) {
    damage->wrong_to = number > damage->wrong_to ? number : damage->wrong_to;
}

void mr_damage_init(mr_damage *damage, mr_decode_log *log, mr_pending *pending) {
    *damage = (mr_damage){.log = log, .pending = pending, .latest_pts_ns = INT64_MIN};
}

void mr_damage_begin(mr_damage *damage, bool epoch) {
    damage->alone = (mr_alone){0};
    damage->unknown = 0;
    if (!epoch) {
        damage->zeros = (mr_zeros){0};
        return;
    }
    damage->gaps = (mr_gaps){0};
    damage->latest_pts_ns = INT64_MIN;
}

void mr_damage_replace(mr_damage *damage, int64_t again) {
    damage->unknown = 0;
    note_wrong(damage, damage->sent);
    mr_decode_log_forget(damage->log, again);
    mr_gaps_restart(&damage->gaps);
}

/* ---- packets ----------------------------------------------------------------------------------------------------- */

void mr_damage_note(mr_damage *damage, const mr_frame *packet, mr_damage_arrival arrival) {
    const bool skipped = arrival == MR_DAMAGE_MISSED || arrival == MR_DAMAGE_SPARED;
    if (arrival == MR_DAMAGE_TAKEN || arrival == MR_DAMAGE_SPARED)
        mr_gaps_note(&damage->gaps, packet);
    if (skipped && packet->flags & MR_FRAME_SEAM)
        mr_gaps_taint(&damage->gaps);
}

static bool *wrong_at(mr_damage *damage, int64_t number) {
    return &damage->wrong[number % MR_PENDING_WINDOW];
}

/* Whether something that a packet depends on is missing or wrong, or part of the packet is missing. */
static bool is_wrong(mr_damage *damage, const mr_frame *packet, int64_t number) {
    return packet->flags & MR_FRAME_CORRUPT || *wrong_at(damage, number);
}

/* ---- pictures that are made from damaged ones -------------------------------------------------------------------- */

/* Passes again all packets sent since `first`, and notes wrong ones after `number`. */
static void pass_again(mr_damage *damage, int64_t first, int64_t number) {
    for (int64_t i = first; i <= damage->sent; i++) {
        const mr_frame *packet = mr_pending_find(damage->pending, i);
        if (packet && mr_gaps_pass_again(&damage->gaps, packet) && i > number) {
            *wrong_at(damage, i) = true;
            note_wrong(damage, i);
        }
        if (i + MR_PENDING_WINDOW > damage->sent && damage->spoils[i % MR_PENDING_WINDOW])
            mr_gaps_taint(&damage->gaps);
    }
}

/* The last key before the packet, if it is shown later than the packet; 0: there is none. */
static int64_t leads_to(const mr_damage *damage, const mr_frame *packet, int64_t number) {
    const int64_t next = mr_pending_next(damage->pending);
    for (int64_t i = number - 1; i > 0 && i + MR_PENDING_WINDOW >= next; i--) {
        const mr_frame *key = mr_pending_find(damage->pending, i);
        if (key && key->flags & MR_FRAME_KEY)
            return packet->pts_ns < key->pts_ns && packet->pts_ns != MR_NO_TIME ? i : 0;
    }
    return 0;
}

/* Whether the picture is decoded after a key but shown before it. Pictures shown after the key do not depend on it. */
static bool taint_leading(mr_damage *damage, const mr_frame *packet, int64_t number) {
    const int64_t key = leads_to(damage, packet, number);
    if (!key)
        return false;
    mr_gaps_taint(&damage->gaps);
    if (mr_gaps_pass_again(&damage->gaps, mr_pending_find(damage->pending, key)))
        return false;
    pass_again(damage, key + 1, number);
    return true;
}

/* Handles a damaged picture: pictures that depend on it are damaged too, also future ones. */
static void taint(mr_damage *damage, int64_t number) {
    const mr_frame *packet = mr_pending_find(damage->pending, number);
    if (packet && !mr_decode_log_spilt(damage->log, number) &&
        (mr_alone_is_sure(&damage->alone, packet, number) || taint_leading(damage, packet, number)))
        return;
    if (number + MR_PENDING_WINDOW > damage->sent)
        damage->spoils[number % MR_PENDING_WINDOW] = true;
    mr_gaps_taint(&damage->gaps);
    note_wrong(damage, number);
    pass_again(damage, number + 1, number);
}

static void spoil(mr_damage *damage, int64_t number) {
    note_wrong(damage, number);
    mr_decode_log_spoil(damage->log, number);
    taint(damage, number);
}

bool mr_damage_refuse(mr_damage *damage, int64_t number, bool sure) {
    spoil(damage, number);
    const bool known = sure && mr_pending_find(damage->pending, number);
    damage->unknown += !known;
    return known;
}

/* Processes what the decoder has reported. */
static void learn(mr_damage *damage) {
    for (int64_t number; (number = mr_decode_log_take(damage->log));)
        taint(damage, number);
}

/* ---- packets that are sent --------------------------------------------------------------------------------------- */

static bool find_zeros(mr_damage *damage, const mr_frame *packet) {
    const mr_packet sent = {.media = packet->media, .data = packet->plane[0].data, .bytes = packet->plane[0].bytes};
    return mr_zeros_find(&damage->zeros, &sent);
}

void mr_damage_send(mr_damage *damage, const mr_frame *packet, int64_t number, bool again) {
    bool *zeroed = &damage->zeroed[number % MR_PENDING_WINDOW];
    if (!again && !mr_alone_note(&damage->alone, packet, number))
        mr_gaps_taint(&damage->gaps);
    if (!again)
        *zeroed = find_zeros(damage, packet);
    const bool lacks = packet->flags & (MR_FRAME_SEAM | MR_FRAME_CORRUPT);
    const bool wrong = mr_gaps_pass(&damage->gaps, packet, lacks && mr_alone_spares(&damage->alone, packet, number));
    if (wrong)
        note_wrong(damage, number);
    *wrong_at(damage, number) = wrong || *zeroed;
    damage->spoils[number % MR_PENDING_WINDOW] = false;
    damage->sent = number;
    if (*zeroed)
        spoil(damage, number);
}

/* ---- pictures that come out -------------------------------------------------------------------------------------- */

/* A key that comes out well ends the damage: if times still run back, the stream itself does that. */
static void note_recovery(mr_damage *damage, const mr_frame *packet, int64_t number) {
    if (packet->flags & MR_FRAME_KEY && number > damage->wrong_to) {
        damage->wrong_to = 0;
        damage->latest_pts_ns = packet->pts_ns;
    }
}

/* Whether the packet's picture comes out after pictures that are shown later. If the decoder refused the key between
 * two sequences, it takes both for one and gives pictures wrong times. */
static bool is_out_of_order(mr_damage *damage, const mr_frame *packet) {
    if (packet->pts_ns == MR_NO_TIME)
        return false;
    const bool late = packet->pts_ns < damage->latest_pts_ns;
    damage->latest_pts_ns = late ? damage->latest_pts_ns : packet->pts_ns;
    return late && damage->wrong_to;
}

bool mr_damage_judge(mr_damage *damage, const mr_frame *packet, const AVFrame *picture) {
    const int64_t number = picture->reordered_opaque;
    const bool logged = mr_decode_log_blames(damage->log, number);
    learn(damage);
    const bool patched = logged || picture->decode_error_flags;
    bool damaged = patched || picture->flags & AV_FRAME_FLAG_CORRUPT || is_wrong(damage, packet, number);
    if (!damaged)
        note_recovery(damage, packet, number);
    damaged |= is_out_of_order(damage, packet);
    if (patched)
        mr_decode_log_spoil(damage->log, number);
    if (patched && !logged)
        taint(damage, number);
    return damaged;
}

mr_damage_cause mr_damage_explain(mr_damage *damage, const mr_frame *packet, int64_t number) {
    const bool unknown = damage->unknown > 0;
    if (!unknown && !is_wrong(damage, packet, number))
        return damage->wrong_to ? MR_DAMAGE_LASTING : MR_DAMAGE_NONE;
    damage->unknown -= unknown;
    return MR_DAMAGE_KNOWN;
}
