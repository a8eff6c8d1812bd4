#include "stages/media/coded/recovery.h"

#include <libavcodec/codec_par.h>

enum { SLICE = 1, SLICE_DATA_A = 2, IDR = 5, SEI = 6, SPS = 7, PPS = 8 };
enum { FIRST_IRAP = 16, IDR_HEVC = 19, IDR_LAST = 20, LAST_IRAP = 23, LAST_SLICE = 31, SPS_HEVC = 33, PPS_HEVC = 34,
       SEI_HEVC = 39 };

/* What a packet says about the picture. */
typedef struct picture {
    bool begins;       /* it needs no other */
    bool refers;       /* H.264: its slices need other pictures */
    bool reference;
    bool field;        /* H.264: it is half a frame */
    bool has_point;
    mr_recovery_point point;
    unsigned number;   /* frame_num, or the picture order count's low bits */
    unsigned bits;     /* how many bits it has; 0: not known */
} picture;

static int type_of(bool hevc, mr_nal one) {
    return hevc ? one.data[0] >> 1 & 63 : one.data[0] & 31;
}

static mr_bits bits_of(bool hevc, mr_nal one) {
    return (mr_bits){.data = one.data, .bytes = one.bytes, .at = hevc ? 16 : 8, .escaped = true};
}

static bool is_hevc(const mr_packet *packet) {
    return ((const AVCodecParameters *)packet->media->codec)->codec_id == AV_CODEC_ID_HEVC;
}

static bool has_nals(const mr_packet *packet) {
    const AVCodecParameters *codec = packet->media ? packet->media->codec : NULL;
    return codec && packet->data && (codec->codec_id == AV_CODEC_ID_H264 || codec->codec_id == AV_CODEC_ID_HEVC);
}

static mr_nals nals_of(const mr_packet *packet, int length_bytes) {
    return (mr_nals){packet->data, packet->data + packet->bytes, length_bytes};
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

bool mr_recovery_point_read(mr_recovery_point *point, bool hevc, mr_nal messages) {
    enum { RECOVERY_POINT = 6, MOST_COUNT = 1 << 16 };
    mr_bits bits = bits_of(hevc, messages);
    if (mr_nal_find_message(&bits, RECOVERY_POINT) < 0)
        return false;
    const int64_t count = hevc ? mr_bits_signed_golomb(&bits) : (int64_t)mr_bits_golomb(&bits);
    mr_bits_read(&bits, 1); /* exact_match_flag */
    point->broken_link = mr_bits_read(&bits, 1);
    point->count = (int)count;
    return !bits.short_of && count < MOST_COUNT && count > -MOST_COUNT;
}

static bool needs_no_other(bool hevc, mr_nal one) {
    const int type = type_of(hevc, one);
    return hevc ? type >= FIRST_IRAP && type <= LAST_IRAP : type == IDR;
}

bool mr_recovery_begins(const mr_packet *packet) {
    mr_recovery_point point;
    if (!has_nals(packet))
        return false;
    const bool hevc = is_hevc(packet);
    const AVCodecParameters *codec = packet->media->codec;
    mr_nals from = nals_of(packet,
                           mr_nal_read_header(hevc, codec->extradata, (size_t)codec->extradata_size, NULL, NULL));
    for (mr_nal one; mr_nal_next(&from, &one);)
        if (one.bytes && (needs_no_other(hevc, one) || (type_of(hevc, one) == (hevc ? SEI_HEVC : SEI) &&
                                                        mr_recovery_point_read(&point, hevc, one))))
            return true;
    return false;
}

/* ---- parameter sets ---------------------------------------------------------------------------------------------- */

/* H.264, 7.3.2.1.1.1. */
static void pass_scaling(mr_bits *bits, int lists) {
    for (int i = 0; i < lists; i++) {
        int last = 8, next = 8;
        const bool present = mr_bits_read(bits, 1);
        for (int k = 0; present && next && k < (i < 6 ? 16 : 64); k++) {
            next = (last + mr_bits_signed_golomb(bits) % 256 + 256) % 256;
            last = next ? next : last;
        }
    }
}

static bool has_chroma_format(unsigned profile) {
    static const uint8_t profiles[] = {100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135};
    for (size_t i = 0; i < sizeof profiles; i++)
        if (profiles[i] == profile)
            return true;
    return false;
}

static void keep_sequence(mr_recovery *r, unsigned number, mr_recovery_sequence read, const mr_bits *bits) {
    if (number < sizeof r->sequences / sizeof *r->sequences && read.bits <= 16 && !bits->short_of)
        r->sequences[number] = read;
}

/* Width that frame_num or the picture order count has; an invalid value gives too many bits. */
static uint8_t bits_of_number(unsigned coded) {
    return coded > 12 ? UINT8_MAX : (uint8_t)(coded + 4);
}

static void note_sps(mr_recovery *r, mr_bits bits) {
    bool planes = false;
    const unsigned profile = mr_bits_read(&bits, 8);
    const unsigned constraints = mr_bits_read(&bits, 8);
    mr_bits_read(&bits, 8);
    const unsigned number = mr_bits_golomb(&bits);
    if (has_chroma_format(profile)) {
        const unsigned chroma = mr_bits_golomb(&bits);
        planes = chroma == 3 && mr_bits_read(&bits, 1);
        mr_bits_golomb(&bits); /* depths */
        mr_bits_golomb(&bits);
        mr_bits_read(&bits, 1);
        if (mr_bits_read(&bits, 1))
            pass_scaling(&bits, chroma == 3 ? 12 : 8);
    }
    mr_recovery_sequence read = {.bits = bits_of_number(mr_bits_golomb(&bits)), .planes = planes};
    read.reorder = mr_reorder_read_h264(bits, profile, constraints);
    read.known = true;
    keep_sequence(r, number, read, &bits);
}

static void pass(mr_bits *bits, unsigned count) {
    for (; count > 32; count -= 32)
        mr_bits_read(bits, 32);
    mr_bits_read(bits, count);
}

/* HEVC, 7.3.3: profile_tier_level(). */
static void pass_profiles(mr_bits *bits, unsigned layers) {
    enum { PROFILE = 88, LEVEL = 8 };
    pass(bits, PROFILE + LEVEL);
    const unsigned present = layers ? mr_bits_read(bits, 16) : 0; /* two bits per layer, and filling */
    for (unsigned i = 0; i < layers; i++)
        pass(bits, (present >> (15 - 2 * i) & 1 ? PROFILE : 0u) + (present >> (14 - 2 * i) & 1 ? LEVEL : 0u));
}

static void note_sps_hevc(mr_recovery *r, mr_bits bits) {
    mr_bits_read(&bits, 4);
    const unsigned layers = mr_bits_read(&bits, 3);
    mr_bits_read(&bits, 1);
    pass_profiles(&bits, layers);
    const unsigned number = mr_bits_golomb(&bits);
    const bool planes = mr_bits_golomb(&bits) == 3 && mr_bits_read(&bits, 1);
    mr_bits_golomb(&bits); /* width and height */
    mr_bits_golomb(&bits);
    if (mr_bits_read(&bits, 1))
        for (int i = 0; i < 4; i++)
            mr_bits_golomb(&bits);
    mr_bits_golomb(&bits); /* depths */
    mr_bits_golomb(&bits);
    mr_recovery_sequence read = {.known = true, .bits = bits_of_number(mr_bits_golomb(&bits)), .planes = planes};
    read.reorder = mr_reorder_read_hevc(bits, layers);
    keep_sequence(r, number, read, &bits);
}

static void note_pps(mr_recovery *r, bool hevc, mr_bits bits) {
    mr_recovery_picture_set set = {0};
    const unsigned number = mr_bits_golomb(&bits), sequence = mr_bits_golomb(&bits);
    if (hevc) {
        mr_bits_read(&bits, 1);
        set.output = mr_bits_read(&bits, 1);
        set.extra = (uint8_t)mr_bits_read(&bits, 3);
    }
    set.sequence = (uint8_t)sequence;
    if (number < sizeof r->sets / sizeof *r->sets && sequence < sizeof r->sequences / sizeof *r->sequences &&
        !bits.short_of)
        r->sets[number] = set;
}

static void note_set(mr_recovery *r, bool hevc, mr_nal one) {
    const int type = type_of(hevc, one);
    if (type == (hevc ? PPS_HEVC : PPS))
        note_pps(r, hevc, bits_of(hevc, one));
    else if (hevc && type == SPS_HEVC)
        note_sps_hevc(r, bits_of(hevc, one));
    else if (!hevc && type == SPS)
        note_sps(r, bits_of(hevc, one));
}

static void note_avc(void *recovery, mr_nal one) {
    note_set(recovery, false, one);
}

static void note_hevc(void *recovery, mr_nal one) {
    note_set(recovery, true, one);
}

/* Reads the sets in the stream header; packets may bring more. */
static void read_header(mr_recovery *r, const AVCodecParameters *codec, bool hevc) {
    r->has_sets = true;
    r->length_bytes = mr_nal_read_header(hevc, codec->extradata, (size_t)codec->extradata_size,
                                         hevc ? note_hevc : note_avc, r);
}

/* ---- pictures ---------------------------------------------------------------------------------------------------- */

static const mr_recovery_sequence *sequence_of(const mr_recovery *r, unsigned set) {
    const bool known = set < sizeof r->sets / sizeof *r->sets;
    return &r->sequences[known ? r->sets[set].sequence : 0];
}

static void read_slice(const mr_recovery *r, picture *to, mr_nal one) {
    enum { INTRA = 2, SWITCHING_INTRA = 4, KINDS = 5 }; /* slice_type, table 7-6 */
    mr_bits bits = bits_of(false, one);
    mr_bits_golomb(&bits); /* first_mb_in_slice */
    const unsigned kind = mr_bits_golomb(&bits) % KINDS;
    const mr_recovery_sequence *sequence = sequence_of(r, mr_bits_golomb(&bits));
    if (sequence->planes)
        mr_bits_read(&bits, 2);
    to->number = mr_bits_read(&bits, sequence->bits);
    to->field = sequence->reorder.fields && mr_bits_read(&bits, 1);
    to->bits = bits.short_of ? 0 : sequence->bits;
    to->begins = needs_no_other(false, one);
    to->refers = kind != INTRA && kind != SWITCHING_INTRA;
    to->reference = one.data[0] >> 5 & 3;
}

static void read_slice_hevc(const mr_recovery *r, picture *to, mr_nal one) {
    mr_bits bits = bits_of(true, one);
    const int type = type_of(true, one);
    const bool first = mr_bits_read(&bits, 1); /* other cases need more bits */
    if (type >= FIRST_IRAP && type <= LAST_IRAP)
        mr_bits_read(&bits, 1);
    const unsigned number = mr_bits_golomb(&bits);
    const mr_recovery_sequence *sequence = sequence_of(r, number);
    const mr_recovery_picture_set set = r->sets[number % (sizeof r->sets / sizeof *r->sets)];
    mr_bits_read(&bits, set.extra);
    mr_bits_golomb(&bits); /* slice_type */
    mr_bits_read(&bits, set.output + (sequence->planes ? 2u : 0u));
    to->number = mr_bits_read(&bits, sequence->bits);
    to->bits = bits.short_of || !first ? 0 : sequence->bits;
    to->begins = needs_no_other(true, one);
    to->reference = true;
}

/* Reads up to the first slice. */
static picture look(mr_recovery *r, const mr_packet *packet, bool hevc) {
    picture found = {0};
    mr_nals from = nals_of(packet, r->length_bytes);
    for (mr_nal one; mr_nal_next(&from, &one);) {
        const int type = one.bytes ? type_of(hevc, one) : -1;
        if (type < 0 || (hevc && one.bytes > 1 && (one.data[0] & 1 || one.data[1] >> 3))) /* skips other layers */
            continue;
        if (hevc ? type <= LAST_SLICE : type == SLICE || type == SLICE_DATA_A || type == IDR) {
            (hevc ? read_slice_hevc : read_slice)(r, &found, one);
            break;
        }
        if (type == (hevc ? SEI_HEVC : SEI) && !found.has_point)
            found.has_point = mr_recovery_point_read(&found.point, hevc, one);
        note_set(r, hevc, one);
    }
    return found;
}

/* How far the picture is from the previous one. frame_num rises by one after a reference frame, and both fields share
 * it. If it rises by more, frames were omitted intentionally. */
static int64_t move(const mr_recovery *r, const picture *now, bool hevc) {
    if (!now->bits || !hevc)
        return now->bits && now->number != r->last;
    const unsigned all = 1u << now->bits, ahead = (now->number - r->last) & (all - 1);
    return ahead < all / 2 ? (int64_t)ahead : (int64_t)ahead - (int64_t)all;
}

/* From here everything is right, except what is shown earlier. */
static void recover(mr_recovery *r, int64_t pts_ns) {
    r->leads = r->tainted;
    r->from_ns = pts_ns;
    r->tainted = r->waits = false;
}

static void pass_picture(mr_recovery *r, const mr_packet *packet) {
    const bool hevc = is_hevc(packet), key = packet->flags & MR_FRAME_KEY;
    if (key || !r->has_sets)
        read_header(r, packet->media->codec, hevc);
    const picture now = look(r, packet, hevc);
    if (now.begins || (key && !now.has_point)) {
        recover(r, packet->pts_ns);
        return;
    }
    r->tainted = r->tainted || (now.has_point && now.point.broken_link);
    if (r->waits) {
        r->moved += move(r, &now, hevc);
    } else if (r->tainted && now.has_point && !(r->fresh && now.refers) && (now.bits || now.point.count <= 0)) {
        r->waits = true;
        r->count = now.point.count;
        r->moved = 0;
    }
    r->last = now.bits ? now.number : r->last;
    if (r->waits && r->moved >= r->count && now.reference)
        recover(r, packet->pts_ns);
}

void mr_recovery_begin(mr_recovery *recovery) {
    *recovery = (mr_recovery){.fresh = true, .tainted = true};
}

void mr_recovery_taint(mr_recovery *recovery) {
    recovery->tainted = true;
    recovery->waits = false;
}

bool mr_recovery_pass(mr_recovery *r, const mr_packet *packet) {
    const bool whole = !(packet->flags & MR_FRAME_CORRUPT), key = packet->flags & MR_FRAME_KEY;
    if (packet->flags & (MR_FRAME_SEAM | MR_FRAME_CORRUPT))
        mr_recovery_taint(r);
    if (whole && (key || r->tainted)) {
        if (has_nals(packet))
            pass_picture(r, packet);
        else if (key)
            recover(r, packet->pts_ns);
    }
    r->fresh = r->fresh && !whole;
    return r->tainted || !whole || (r->leads && packet->pts_ns < r->from_ns);
}

bool mr_recovery_restarts(const mr_packet *packet) {
    const AVCodecParameters *codec = packet->media->codec;
    const bool hevc = is_hevc(packet);
    mr_nals from = nals_of(packet,
                           mr_nal_read_header(hevc, codec->extradata, (size_t)codec->extradata_size, NULL, NULL));
    for (mr_nal one; mr_nal_next(&from, &one);) {
        const int type = one.bytes ? type_of(hevc, one) : -1;
        if (hevc ? type >= FIRST_IRAP && type <= IDR_LAST : type == IDR)
            return true;
    }
    return false;
}

size_t mr_recovery_use_at(mr_nal sequence) {
    mr_recovery r = {0};
    note_set(&r, false, sequence);
    for (size_t i = 0; i < sizeof r.sequences / sizeof *r.sequences; i++)
        if (r.sequences[i].known)
            return r.sequences[i].reorder.use_at;
    return 0;
}

mr_reorder mr_recovery_reorder(const AVCodecParameters *codec) {
    mr_recovery r = {0};
    mr_reorder found = {0};
    read_header(&r, codec, codec->codec_id == AV_CODEC_ID_HEVC);
    for (size_t i = 0; i < sizeof r.sequences / sizeof *r.sequences; i++)
        if (r.sequences[i].known && r.sequences[i].reorder.depth >= found.depth)
            found = r.sequences[i].reorder;
    return found;
}

mr_recovery_place mr_recovery_place_of(mr_recovery *r, const mr_packet *packet) {
    if (!has_nals(packet) || is_hevc(packet))
        return (mr_recovery_place){0};
    if (packet->flags & MR_FRAME_KEY || !r->has_sets)
        read_header(r, packet->media->codec, false);
    const picture found = look(r, packet, false);
    return (mr_recovery_place){.known = found.bits && !found.field, .restarts = found.begins,
                               .reference = found.reference, .number = found.number, .bits = found.bits};
}
