#include "stages/decode/decode_packet.h"

#include <string.h>

#include "stages/media/coded/nal.h"

/* ---- headers ---------------------------------------------------------------------------------------------------- */

static void add_header(mr_packet_headers *headers, mr_nal one) {
    if (headers->bytes <= sizeof headers->data && one.bytes <= sizeof headers->data - headers->bytes)
        memcpy(headers->data + headers->bytes, one.data, one.bytes);
    headers->bytes += one.bytes;
}

/* Whether a packet's headers differ from the last ones. */
static bool are_new(mr_packet_looks *looks, const mr_packet_headers *headers) {
    if (headers->bytes == 0)
        return false;
    bool same = headers->bytes == looks->last.bytes && headers->bytes <= sizeof headers->data &&
                memcmp(headers->data, looks->last.data, headers->bytes) == 0;
    looks->last = *headers;
    return !same;
}

/* ---- H.264 ----------------------------------------------------------------------------------------------------- */

/* Whether the packet's picture is a frame. libavcodec's parser has the parameter sets, which determine where the flag
 * is. */
static bool is_frame(mr_packet_looks *looks, const mr_frame *packet) {
    uint8_t *out;
    int bytes;
    looks->parser->picture_structure = AV_PICTURE_STRUCTURE_UNKNOWN;
    av_parser_parse2(looks->parser, looks->about, &out, &bytes, packet->plane[0].data, (int)packet->plane[0].bytes,
                     AV_NOPTS_VALUE, AV_NOPTS_VALUE, 0);
    return looks->parser->picture_structure == AV_PICTURE_STRUCTURE_FRAME;
}

static mr_packet_use look_h264(mr_packet_looks *looks, const mr_frame *packet) {
    enum { SLICE = 1, PARTITION_A = 2, IDR = 5, SEI = 6, SPS = 7, PPS = 8, DELIMITER = 9, FILLER = 12, PREFIX = 14 };
    mr_nals from = {packet->plane[0].data, packet->plane[0].data + packet->plane[0].bytes, looks->length_bytes};
    mr_packet_use use = {.disposable = true};
    mr_packet_headers headers;
    int pictures = 0;
    headers.bytes = 0;
    for (mr_nal one; mr_nal_next(&from, &one);) {
        if (one.bytes < 2)
            continue;
        int type = one.data[0] & 31;
        bool slice = type >= SLICE && type <= IDR;
        if (slice && (type <= PARTITION_A || type == IDR))
            pictures += one.data[1] >> 7; /* first_mb_in_slice is 0 */
        if (slice)
            use.disposable &= !(one.data[0] >> 5 & 3);
        else if (type == SPS || type == PPS)
            add_header(&headers, one);
        else if (type != SEI && type != DELIMITER && type != FILLER && type != PREFIX)
            use.kept = true;
        use.restart |= type == IDR;
    }
    use.kept |= are_new(looks, &headers);
    use.known = is_frame(looks, packet) && pictures == 1;
    return use;
}

/* ---- HEVC ------------------------------------------------------------------------------------------------------ */

enum {
    HEVC_BLA = 16,
    HEVC_IDR = 19,
    HEVC_IDR_LAST = 20,
    HEVC_SLICES = 32,
    HEVC_VPS = 32,
    HEVC_SPS = 33,
    HEVC_PPS = 34,
    HEVC_DELIMITER = 35,
    HEVC_END = 36,
    HEVC_END_LAST = 37,
    HEVC_FILLER = 38,
    HEVC_SEI = 39,
    HEVC_SEI_LAST = 40
};

static void note_parameters(mr_packet_looks *looks, mr_nal one) {
    int type = one.data[0] >> 1 & 63;
    if (one.bytes < 4)
        return;
    if (type == HEVC_SPS) {
        int layers = one.data[2] >> 1 & 7; /* sps_max_sub_layers_minus1 */
        looks->top_layer = layers > looks->top_layer ? layers : looks->top_layer;
    } else if (type == HEVC_PPS) {
        mr_bits bits = {.data = one.data, .bytes = one.bytes, .at = 16, .escaped = true};
        mr_bits_golomb(&bits); /* skips the set's number and the sequence parameter set's */
        mr_bits_golomb(&bits);
        mr_bits_read(&bits, 1);
        looks->may_be_hidden |= mr_bits_read(&bits, 1); /* output_flag_present_flag */
    }
}

static mr_packet_use look_hevc(mr_packet_looks *looks, const mr_frame *packet) {
    bool ends = false; /* this ends a sequence: leading pictures after it are not shown */
    mr_nals from = {packet->plane[0].data, packet->plane[0].data + packet->plane[0].bytes, looks->length_bytes};
    mr_packet_use use = {.disposable = true};
    mr_packet_headers headers;
    int pictures = 0;
    headers.bytes = 0;
    for (mr_nal one; mr_nal_next(&from, &one);) {
        bool base = one.bytes >= 3 && !(one.data[0] & 1) && !(one.data[1] >> 3);
        int type = one.bytes ? one.data[0] >> 1 & 63 : 0;
        if (!base)
            continue;
        if (type < HEVC_SLICES) {
            pictures += one.data[2] >> 7; /* first_slice_segment_in_pic_flag */
            use.disposable &= type < 16 && type % 2 == 0 && (one.data[1] & 7) - 1 == looks->top_layer;
            ends |= type >= HEVC_BLA && type < HEVC_IDR;
            use.restart |= type == HEVC_IDR || type == HEVC_IDR_LAST;
            continue;
        }
        note_parameters(looks, one);
        ends |= type == HEVC_END || type == HEVC_END_LAST;
        if (type == HEVC_VPS || type == HEVC_SPS || type == HEVC_PPS)
            add_header(&headers, one);
        else
            use.kept |= type != HEVC_DELIMITER && type != HEVC_FILLER && type != HEVC_SEI && type != HEVC_SEI_LAST;
    }
    use.kept |= are_new(looks, &headers);
    use.known = !ends && pictures == 1 && !looks->may_be_hidden;
    return use;
}

static void note_set(void *looks, mr_nal one) {
    note_parameters(looks, one);
}

/* ---- MPEG-1 and MPEG-2 ----------------------------------------------------------------------------------------- */

static mr_packet_use look_mpeg(mr_packet_looks *looks, const mr_frame *packet) {
    enum { PICTURE = 0, SLICE_LAST = 0xaf, SEQUENCE = 0xb3, EXTENSION = 0xb5, END = 0xb7, GROUP = 0xb8, CODING = 8,
           MATRICES = 3, B = 3, FRAME = 3 };
    mr_nals from = {packet->plane[0].data, packet->plane[0].data + packet->plane[0].bytes, 0};
    mr_packet_use use = {0};
    mr_packet_headers headers;
    headers.bytes = 0;
    int pictures = 0, structure = looks->codec == AV_CODEC_ID_MPEG1VIDEO ? FRAME : 0;
    for (mr_nal one; mr_nal_next(&from, &one);) {
        int code = one.data[0];
        if (code > PICTURE && code <= SLICE_LAST)
            break; /* a picture's other units come before the slices */
        if (code == PICTURE && one.bytes > 2) {
            pictures++;
            use.disposable = (one.data[2] >> 3 & 7) == B;
        } else if (code == EXTENSION && one.bytes > 3 && one.data[1] >> 4 == CODING) {
            structure = one.data[3] & 3;
        } else if (code == GROUP && one.bytes > 4) {
            use.restart = one.data[4] >> 6 & 1;
        }
        /* Includes sequence extensions and a picture's matrices: they last until the next sequence header. */
        bool matrices = code == EXTENSION && one.bytes > 1 && one.data[1] >> 4 == MATRICES;
        if (code == SEQUENCE || matrices || (code == EXTENSION && pictures == 0))
            add_header(&headers, one);
        use.kept |= code == END;
    }
    use.kept |= are_new(looks, &headers);
    use.known = pictures == 1 && structure == FRAME;
    return use;
}

/* ---- VP9 ------------------------------------------------------------------------------------------------------- */

typedef struct vp9_frame {
    bool valid, shown, key, resilient, existing;
    unsigned refreshes; /* one bit per reference buffer */
} vp9_frame;

/* Reads the uncompressed header up to refresh_frame_flags (VP9 bitstream specification, 6.2). */
static vp9_frame read_vp9(const uint8_t *data, size_t bytes) {
    enum { MARKER = 2, SYNC_BITS = 24, SRGB = 7 };
    mr_bits bits = {.data = data, .bytes = bytes};
    vp9_frame frame = {.refreshes = 255};
    bool marked = mr_bits_read(&bits, 2) == MARKER;
    unsigned profile = mr_bits_read(&bits, 1);
    profile |= mr_bits_read(&bits, 1) << 1;
    if (profile == 3)
        mr_bits_read(&bits, 1);
    if ((frame.existing = mr_bits_read(&bits, 1))) {
        frame.shown = true;
        frame.refreshes = 0;
    } else {
        frame.key = !mr_bits_read(&bits, 1);
        frame.shown = mr_bits_read(&bits, 1);
        frame.resilient = mr_bits_read(&bits, 1);
        bool intra = !frame.key && !frame.shown && mr_bits_read(&bits, 1);
        if (!frame.key && !frame.resilient)
            mr_bits_read(&bits, 2); /* reset_frame_context */
        if (intra) {
            mr_bits_read(&bits, SYNC_BITS);
            if (profile >= 2)
                mr_bits_read(&bits, 1);
            if (profile > 0 && mr_bits_read(&bits, 3) != SRGB)
                mr_bits_read(&bits, profile & 1 ? 4 : 1);
            else if (profile > 0)
                mr_bits_read(&bits, profile & 1);
        }
        if (!frame.key)
            frame.refreshes = mr_bits_read(&bits, 8);
    }
    frame.valid = marked && !bits.short_of;
    return frame;
}

enum { VP9_FRAMES = 8 };

/* Splits a packet into frames: a superframe has several and an index at the end (Annex B). 0: malformed. */
static int split_vp9(const uint8_t *data, size_t bytes, mr_nal frames[VP9_FRAMES]) {
    uint8_t last = bytes ? data[bytes - 1] : 0;
    int count = (last & 7) + 1, each = (last >> 3 & 3) + 1;
    size_t index = 2 + (size_t)count * (size_t)each;
    frames[0] = (mr_nal){data, bytes};
    if (last >> 5 != 6 || bytes < index || data[bytes - index] != last)
        return bytes > 0;
    const uint8_t *size = data + bytes - index + 1;
    size_t at = 0;
    for (int i = 0; i < count; i++) {
        size_t length = 0;
        for (int k = 0; k < each; k++)
            length |= (size_t)*size++ << 8 * k;
        if (!length || length > bytes - index - at)
            return 0;
        frames[i] = (mr_nal){data + at, length};
        at += length;
    }
    return count;
}

static mr_packet_use look_vp9(const mr_frame *packet) {
    mr_nal frames[VP9_FRAMES];
    int count = split_vp9(packet->plane[0].data, packet->plane[0].bytes, frames), shown = 0;
    bool valid = count > 0;
    mr_packet_use use = {.disposable = true, .if_renewed = true};
    for (int i = 0; i < count; i++) {
        vp9_frame frame = read_vp9(frames[i].data, frames[i].bytes);
        valid &= frame.valid;
        shown += frame.shown;
        use.disposable &= frame.refreshes == 0;
        if (i == 0) {
            use.renewed = !frame.existing && (frame.key || frame.resilient);
            use.restart = !frame.existing && frame.key;
        }
    }
    use.known = valid && shown == 1;
    return use;
}

/* ---- all of them ----------------------------------------------------------------------------------------------- */

static bool open_h264(mr_packet_looks *looks, const AVCodecParameters *codec) {
    looks->parser = av_parser_init(AV_CODEC_ID_H264);
    looks->about = avcodec_alloc_context3(NULL);
    if (!looks->parser || !looks->about || avcodec_parameters_to_context(looks->about, codec) < 0) {
        mr_packet_looks_close(looks);
        return false;
    }
    looks->parser->flags |= PARSER_FLAG_COMPLETE_FRAMES;
    looks->length_bytes = mr_nal_read_header(false, codec->extradata, (size_t)codec->extradata_size, NULL, NULL);
    return true;
}

bool mr_packet_looks_open(mr_packet_looks *looks, const AVCodecParameters *codec) {
    *looks = (mr_packet_looks){.codec = codec->codec_id, .top_layer = -1};
    switch (codec->codec_id) {
    case AV_CODEC_ID_H264:
        return open_h264(looks, codec);
    case AV_CODEC_ID_HEVC:
        looks->length_bytes =
            mr_nal_read_header(true, codec->extradata, (size_t)codec->extradata_size, note_set, looks);
        return true;
    case AV_CODEC_ID_MPEG1VIDEO:
    case AV_CODEC_ID_MPEG2VIDEO:
    case AV_CODEC_ID_VP9:
        return true;
    default:
        return false;
    }
}

void mr_packet_looks_close(mr_packet_looks *looks) {
    if (looks->parser)
        av_parser_close(looks->parser);
    avcodec_free_context(&looks->about);
    *looks = (mr_packet_looks){0};
}

mr_packet_use mr_packet_look(mr_packet_looks *looks, const mr_frame *packet) {
    mr_packet_use use;
    if (looks->codec == AV_CODEC_ID_H264)
        use = look_h264(looks, packet);
    else if (looks->codec == AV_CODEC_ID_HEVC)
        use = look_hevc(looks, packet);
    else if (looks->codec == AV_CODEC_ID_VP9)
        use = look_vp9(packet);
    else
        use = look_mpeg(looks, packet);
    use.kept |= packet->flags & MR_FRAME_CORRUPT || packet->plane[1].bytes > 0;
    return use;
}

/* ---- damaged ones ------------------------------------------------------------------------------------------------ */

/* Units other than slices; nal_ref_idc is 0, except for parameter sets (7.4.1). */
static bool is_beside_h264(mr_nal one) {
    enum { SEI = 6, SPS = 7, PPS = 8, FILLER = 12 };
    const int type = one.data[0] & 31, kept = one.data[0] >> 5;
    return type == SPS || type == PPS ? kept > 0 && kept < 4 : type >= SEI && type <= FILLER && !kept;
}

static bool is_alone_h264(const mr_frame *packet, int length_bytes) {
    enum { SLICE = 1, IDR = 5 };
    mr_nals from = {packet->plane[0].data, packet->plane[0].data + packet->plane[0].bytes, length_bytes};
    bool slices = false, others = false;
    for (mr_nal one; mr_nal_next(&from, &one);) {
        const int type = one.bytes ? one.data[0] & 31 : 0;
        if (type >= SLICE && type <= IDR && one.data[0] >> 5 & 3)
            return false;
        slices |= type >= SLICE && type <= IDR;
        others |= type > IDR && !is_beside_h264(one);
    }
    return slices || (!others && from.at == from.end);
}

static bool is_alone_hevc(const mr_frame *packet, const AVCodecParameters *codec) {
    mr_packet_looks looks = {.codec = codec->codec_id, .top_layer = -1};
    looks.length_bytes = mr_nal_read_header(true, codec->extradata, (size_t)codec->extradata_size, note_set, &looks);
    mr_nals from = {packet->plane[0].data, packet->plane[0].data + packet->plane[0].bytes, looks.length_bytes};
    bool slices = false, others = false;
    for (mr_nal one; mr_nal_next(&from, &one);) {
        const int type = one.bytes ? one.data[0] >> 1 & 63 : HEVC_SEI_LAST + 1;
        slices |= type < HEVC_SLICES;
        others |= type > HEVC_SEI_LAST;
    }
    return slices ? mr_packet_look(&looks, packet).disposable : !others && from.at == from.end;
}

static bool is_alone_mpeg(const mr_frame *packet, const AVCodecParameters *codec) {
    mr_packet_looks looks = {.codec = codec->codec_id};
    return mr_packet_look(&looks, packet).disposable;
}

/* Whether all pictures in the packet (it may have two) are B pictures (ISO/IEC 14496-2, 6.2.5). */
static bool is_alone_mpeg4(const mr_frame *packet) {
    enum { PICTURE = 0xb6, B = 2 };
    mr_nals from = {packet->plane[0].data, packet->plane[0].data + packet->plane[0].bytes, 0};
    int pictures = 0, others = 0;
    for (mr_nal one; mr_nal_next(&from, &one);)
        if (one.data[0] == PICTURE) {
            pictures++;
            others += one.bytes < 2 || one.data[1] >> 6 != B;
        }
    return pictures > 0 && !others;
}

bool mr_packet_is_alone(const mr_frame *packet) {
    const AVCodecParameters *codec = packet->media->codec;
    const AVCodecDescriptor *about = avcodec_descriptor_get(codec->codec_id);
    if (packet->media->still || (about && about->props & AV_CODEC_PROP_INTRA_ONLY))
        return true;
    switch (codec->codec_id) {
    case AV_CODEC_ID_H264:
        return is_alone_h264(packet, mr_nal_read_header(false, codec->extradata, (size_t)codec->extradata_size, NULL,
                                                        NULL));
    case AV_CODEC_ID_HEVC:
        return is_alone_hevc(packet, codec);
    case AV_CODEC_ID_MPEG1VIDEO:
    case AV_CODEC_ID_MPEG2VIDEO:
        return is_alone_mpeg(packet, codec);
    case AV_CODEC_ID_MPEG4:
        return is_alone_mpeg4(packet);
    default:
        return false;
    }
}
