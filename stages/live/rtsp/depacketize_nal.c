/* NAL units of H.264 (RFC 6184: single, STAP-A, FU-A) and HEVC (RFC 7798: single, AP, FU). */
#include <string.h>

#include "stages/live/rtsp/assembly.h"
#include "stages/media/coded/recovery.h"

static const uint8_t start_code[] = {0, 0, 0, 1};

static void begin_nal(mr_assembly *to, const uint8_t *header, size_t bytes) {
    to->nal = to->bytes;
    to->nal_open = true;
    mr_assembly_add(to, start_code, sizeof start_code);
    mr_assembly_add(to, header, bytes);
}

/* Whether a sender has left a start code where a NAL unit should begin. */
static bool has_start_code(const uint8_t *nal, size_t bytes) {
    const uint8_t *end = nal + bytes;
    for (; nal < end && *nal == 0; nal++)
        bytes--;
    return nal < end && *nal == 1 && bytes > 1;
}

typedef void noting(mr_depacketizer *d, mr_assembly *to, size_t begin, uint8_t *nal, size_t bytes);

/* Ends the last NAL unit, or several with start codes between them: some senders pack sets with a picture that way.
 * `note` gets each one and where its start code is. */
static void end_nal(mr_depacketizer *d, mr_assembly *to, bool coded, noting *note) {
    to->nal_open = false;
    if (to->too_large)
        return;
    const size_t written = to->bytes - to->nal - sizeof start_code;
    uint8_t *first = to->data + to->nal;
    if (coded && has_start_code(first + sizeof start_code, written)) { /* which replaces ours */
        memmove(first, first + sizeof start_code, written);
        to->bytes -= sizeof start_code;
    } else if (coded) {
        to->damaged = true;
    }
    mr_nals from = {to->data + to->nal, to->data + to->bytes, 0};
    size_t begin = to->nal;
    for (mr_nal nal; mr_nal_next(&from, &nal);) {
        while (nal.bytes && nal.data[nal.bytes - 1] == 0) /* zeros that belong to the next start code */
            nal.bytes--;
        if (nal.bytes)
            note(d, to, begin, to->data + (nal.data - to->data), nal.bytes);
        begin = (size_t)(nal.data + nal.bytes - to->data);
    }
}

static void note_set(mr_assembly *to, int kind, size_t begin, size_t end) {
    if (kind < 0 || to->set_count == MR_ASSEMBLY_SETS)
        return;
    to->sets[to->set_count].kind = kind;
    to->sets[to->set_count].begin = begin;
    to->sets[to->set_count++].bytes = end - begin;
}

static void note_point(mr_assembly *to, bool hevc, const uint8_t *messages, size_t bytes) {
    mr_recovery_point point;
    to->point = to->point || mr_recovery_point_read(&point, hevc, (mr_nal){messages, bytes});
}

/* Marks the unit damaged if a fragmented NAL unit did not end. */
static void check_ended(mr_assembly *to) {
    if (to->nal_open)
        to->damaged = true;
    to->nal_open = false;
}

/* Adds NAL units, each with a length in front. */
static void add_aggregate(mr_depacketizer *d, mr_assembly *to, const uint8_t *at, size_t bytes, size_t least,
                          void (*add)(mr_depacketizer *d, mr_assembly *to, const uint8_t *nal, size_t bytes)) {
    while (bytes >= 2) {
        const size_t length = mr_rtp_16(at);
        if (length < least || length > bytes - 2)
            break;
        add(d, to, at + 2, length);
        at += 2 + length;
        bytes -= 2 + length;
    }
    if (bytes)
        to->damaged = true;
}

static void finish(mr_depacketizer *d, mr_assembly *unit) {
    check_ended(unit);
}

/* ---- H.264 ------------------------------------------------------------------------------------------------------- */

enum { SLICE = 1, SLICE_DATA_A = 2, IDR = 5, SEI = 6, SPS = 7, PPS = 8, DELIMITER = 9, STAP_A = 24, FU_A = 28 };

/* Tests a slice's first bit: first_mb_in_slice is 0. */
static bool begins_picture(int type, const uint8_t *slice, size_t bytes) {
    if (type == SLICE || type == SLICE_DATA_A || type == IDR)
        return bytes > 0 && slice[0] & 0x80;
    return type == SEI || type == SPS || type == PPS || type == DELIMITER;
}

static bool begins_h264(const uint8_t *payload, size_t bytes) {
    const int type = bytes ? payload[0] & 31 : 0;
    if (type == 0)
        return has_start_code(payload, bytes);
    if (type == STAP_A)
        return bytes > 4 && begins_picture(payload[3] & 31, payload + 4, bytes - 4);
    if (type == FU_A)
        return bytes > 2 && payload[1] & 0x80 &&
               (!(payload[1] & 31) || begins_picture(payload[1] & 31, payload + 2, bytes - 2));
    return bytes > 1 && begins_picture(type, payload + 1, bytes - 1);
}

static void note_h264(mr_assembly *to, uint8_t header) {
    const int type = header & 31;
    const bool slice = type >= SLICE && type <= IDR;
    to->picture = to->picture || slice;
    to->key = to->key || type == IDR;
    to->reference = to->reference || (slice && header & 0x60);
}

static int kind_h264(const uint8_t *nal) {
    const int type = nal[0] & 31;
    return type == SPS ? MR_SET_SPS : type == PPS ? MR_SET_PPS : -1;
}

static void note_nal_h264(mr_depacketizer *d, mr_assembly *to, size_t begin, uint8_t *nal, size_t bytes) {
    const int type = nal[0] & 31;
    const size_t end = (size_t)(nal + bytes - to->data);
    note_h264(to, nal[0]);
    note_set(to, kind_h264(nal), begin, end);
    if (type == DELIMITER && begin == 0)
        to->lead = end;
    if (type == SEI)
        note_point(to, false, nal, bytes);
}

/* Slices need no search for start codes, and most of a stream is slices. */
static void end_h264(mr_depacketizer *d, mr_assembly *to, uint8_t header) {
    const int type = header & 31;
    if (type >= SLICE && type <= IDR)
        to->nal_open = false;
    else
        end_nal(d, to, type == 0, note_nal_h264);
}

static void add_nal_h264(mr_depacketizer *d, mr_assembly *to, const uint8_t *nal, size_t bytes) {
    if (((nal[0] & 31) == 0 && !has_start_code(nal, bytes)) || (nal[0] & 31) >= STAP_A) {
        mr_depacketizer_refuse(d, to, "NAL units of type %d", nal[0] & 31);
        return;
    }
    note_h264(to, nal[0]);
    begin_nal(to, nal, bytes);
    end_h264(d, to, nal[0]);
}

/* Begins a NAL unit with its first fragment, or continues it; false: its first fragment was lost. */
static bool continue_nal(mr_assembly *to, bool first, const uint8_t *header, size_t bytes) {
    if (first) {
        check_ended(to);
        begin_nal(to, header, bytes);
    }
    to->damaged = to->damaged || !to->nal_open;
    return to->nal_open;
}

static void add_fragment_h264(mr_depacketizer *d, mr_assembly *to, const uint8_t *payload, size_t bytes) {
    const bool first = payload[1] & 0x80, last = payload[1] & 0x40, coded = !(payload[1] & 31);
    const uint8_t header = coded ? 0 : (uint8_t)((payload[0] & 0xe0) | (payload[1] & 31));
    note_h264(to, header);
    if (!continue_nal(to, first, &header, 1))
        return;
    mr_assembly_add(to, payload + 2, bytes - 2);
    if (last)
        end_h264(d, to, header);
}

static void add_h264(mr_depacketizer *d, mr_assembly *to, const mr_rtp_packet *packet) {
    const uint8_t *payload = packet->payload;
    const size_t bytes = packet->bytes;
    const int type = bytes ? payload[0] & 31 : -1;
    if (type == FU_A && bytes > 2) {
        add_fragment_h264(d, to, payload, bytes);
        return;
    }
    if (bytes) /* empty ones only keep a connection open */
        check_ended(to);
    if (type == STAP_A)
        add_aggregate(d, to, payload + 1, bytes - 1, 1, add_nal_h264);
    else if ((type >= SLICE && type < STAP_A) || (type == 0 && has_start_code(payload, bytes)))
        add_nal_h264(d, to, payload, bytes);
    else if (bytes)
        mr_depacketizer_refuse(d, to, "H.264 packets of type %d", type);
}

const mr_payload_type mr_payload_h264 = {.kind = kind_h264, .begins = begins_h264, .add = add_h264, .finish = finish};

/* ---- HEVC -------------------------------------------------------------------------------------------------------- */

enum { FIRST_IRAP = 16, CRA = 21, LAST_IRAP = 23, LAST_SLICE = 31, VPS = 32, PPS_HEVC = 34, DELIMITER_HEVC = 35,
       SEI_HEVC = 39, AGGREGATE = 48, FRAGMENT = 49, HEADER = 2 };

static int type_of(const uint8_t *header) {
    return header[0] >> 1 & 63;
}

/* Whether a start code stands in place of a header; a header's second byte can never be 0. */
static bool is_coded(const uint8_t *header) {
    return type_of(header) == 0 && header[1] == 0;
}

/* Tests a slice's first bit: first_slice_segment_in_pic_flag. */
static bool begins_picture_hevc(int type, const uint8_t *slice, size_t bytes) {
    if (type <= LAST_SLICE)
        return bytes > 0 && slice[0] & 0x80;
    return (type >= VPS && type <= DELIMITER_HEVC) || type == SEI_HEVC;
}

static bool begins_hevc(const uint8_t *payload, size_t bytes) {
    if (bytes <= HEADER)
        return false;
    const int type = type_of(payload);
    if (is_coded(payload))
        return has_start_code(payload, bytes);
    if (type == AGGREGATE)
        return bytes > 6 && begins_picture_hevc(type_of(payload + 4), payload + 6, bytes - 6);
    if (type == FRAGMENT)
        return bytes > 3 && payload[2] & 0x80 && begins_picture_hevc(payload[2] & 63, payload + 3, bytes - 3);
    return begins_picture_hevc(type, payload + HEADER, bytes - HEADER);
}

/* Notes a NAL unit and sets the header to write. If pictures are missing, decoding restarts at a CRA, as at a stream's
 * beginning. The CRA is then written as a BLA (same syntax, 7.3.6.1): decoders must omit the RASL pictures after it,
 * which would be wrong. */
static void note_hevc(const mr_depacketizer *d, mr_assembly *to, int type, const uint8_t *from,
                      uint8_t header[HEADER]) {
    enum { BLA_W_LP = 16 };
    const int written = type == CRA && d->tainted ? BLA_W_LP : type;
    header[0] = (uint8_t)((from[0] & 0x81) | written << 1);
    header[1] = from[1];
    to->picture = to->picture || type <= LAST_SLICE;
    to->key = to->key || (type >= FIRST_IRAP && type <= LAST_IRAP);
    to->reference = true; /* its header does not say whether another layer refers to it */
}

static int kind_hevc(const uint8_t *nal) {
    const int type = type_of(nal);
    return type >= VPS && type <= PPS_HEVC ? MR_SET_VPS + type - VPS : -1;
}

static void note_nal_hevc(mr_depacketizer *d, mr_assembly *to, size_t begin, uint8_t *nal, size_t bytes) {
    const int type = type_of(nal);
    const size_t end = (size_t)(nal + bytes - to->data);
    if (bytes > HEADER)
        note_hevc(d, to, type, nal, nal);
    note_set(to, kind_hevc(nal), begin, end);
    if (type == DELIMITER_HEVC && begin == 0)
        to->lead = end;
    if (type == SEI_HEVC)
        note_point(to, true, nal, bytes);
}

static void end_hevc(mr_depacketizer *d, mr_assembly *to, const uint8_t header[HEADER]) {
    if (type_of(header) <= LAST_SLICE && !is_coded(header))
        to->nal_open = false;
    else
        end_nal(d, to, is_coded(header), note_nal_hevc);
}

static void add_nal_hevc(mr_depacketizer *d, mr_assembly *to, const uint8_t *nal, size_t bytes) {
    uint8_t header[HEADER];
    const int type = type_of(nal);
    if (type >= AGGREGATE || (is_coded(nal) && !has_start_code(nal, bytes))) {
        mr_depacketizer_refuse(d, to, "NAL units of type %d", type);
        return;
    }
    note_hevc(d, to, type, nal, header);
    begin_nal(to, header, sizeof header);
    mr_assembly_add(to, nal + HEADER, bytes - HEADER);
    end_hevc(d, to, header);
}

static void add_fragment_hevc(mr_depacketizer *d, mr_assembly *to, const uint8_t *payload, size_t bytes) {
    const bool first = payload[2] & 0x80, last = payload[2] & 0x40;
    const int type = payload[2] & 63;
    uint8_t header[HEADER];
    note_hevc(d, to, type, payload, header);
    if (!continue_nal(to, first, header, sizeof header))
        return;
    mr_assembly_add(to, payload + 3, bytes - 3);
    if (last)
        end_hevc(d, to, header);
}

static void add_hevc(mr_depacketizer *d, mr_assembly *to, const mr_rtp_packet *packet) {
    const uint8_t *payload = packet->payload;
    const size_t bytes = packet->bytes;
    const int type = bytes > HEADER ? type_of(payload) : -1;
    if (type == FRAGMENT && bytes > 3) {
        add_fragment_hevc(d, to, payload, bytes);
        return;
    }
    if (bytes)
        check_ended(to);
    if (type == AGGREGATE)
        add_aggregate(d, to, payload + HEADER, bytes - HEADER, HEADER + 1, add_nal_hevc);
    else if (type >= 0 && type < AGGREGATE)
        add_nal_hevc(d, to, payload, bytes);
    else if (bytes)
        mr_depacketizer_refuse(d, to, "HEVC packets of type %d", type);
}

const mr_payload_type mr_payload_hevc = {.kind = kind_hevc, .begins = begins_hevc, .add = add_hevc, .finish = finish};
