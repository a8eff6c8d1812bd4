#include "stages/live/rtsp/rtsp_media.h"

#include <libavutil/mem.h>
#include <string.h>

#include "stages/media/media_input.h"
#include "stages/media/media_probe.h"
#include "stages/media/coded/nal.h"

enum { STUB_BYTES = 48 };

static enum AVCodecID id_of(mr_rtp_codec codec) {
    return codec == MR_RTP_H264 ? AV_CODEC_ID_H264 : codec == MR_RTP_HEVC ? AV_CODEC_ID_HEVC : AV_CODEC_ID_MJPEG;
}

/* ---- a picture that was never sent ------------------------------------------------------------------------------- */

typedef struct bits {
    uint8_t *to;
    size_t count;
} bits;

static void put(bits *to, unsigned value, int count) {
    for (int i = count - 1; i >= 0; i--, to->count++)
        to->to[to->count / 8] |= (uint8_t)((value >> i & 1) << (7 - to->count % 8));
}

/* Exp-Golomb codes, ITU-T H.264, 9.1. */
static void put_ue(bits *to, unsigned value) {
    int length = 0;
    while ((value + 1) >> (length + 1))
        length++;
    put(to, 0, length);
    put(to, value + 1, length + 1);
}

/* The first picture parameter set's number; 0: none. */
static unsigned find_pps(const uint8_t *sets, size_t bytes) {
    enum { PPS = 8, MOST_NUMBER = 255 };
    mr_nals from = {sets, sets + bytes, 0};
    for (mr_nal one; mr_nal_next(&from, &one);) {
        mr_bits number = {.data = one.data, .bytes = one.bytes, .at = 8, .escaped = true};
        if ((one.data[0] & 31) != PPS)
            continue;
        const unsigned found = mr_bits_golomb(&number);
        return found <= MOST_NUMBER ? found : 0;
    }
    return 0;
}

/* H.264 decoders read parameter sets when a picture begins. This writes an IDR slice header whose bits fit any
 * parameter set (7.3.3): first_mb_in_slice, slice_type I and the set's number. Then come 17 zeros for frame_num (up to
 * 16 bits), the field flag and the start of idr_pic_id, then ones. */
static size_t write_stub(uint8_t stub[STUB_BYTES + MR_RTP_PADDING], unsigned pps) {
    static const uint8_t start[] = {0, 0, 0, 1, 0x65};
    memset(stub, 0, STUB_BYTES + MR_RTP_PADDING);
    memcpy(stub, start, sizeof start);
    bits to = {.to = stub + sizeof start};
    put_ue(&to, 0);
    put_ue(&to, 7);
    put_ue(&to, pps);
    put(&to, 0, 17);
    while (to.count < 8 * (STUB_BYTES - sizeof start))
        put(&to, 1, 1);
    return STUB_BYTES;
}

/* ---- media ------------------------------------------------------------------------------------------------------- */

static AVCodecParameters *make_parameters(const mr_rtsp_facts *facts) {
    AVCodecParameters *made = avcodec_parameters_alloc();
    if (!made)
        return NULL;
    made->codec_type = AVMEDIA_TYPE_VIDEO;
    made->codec_id = id_of(facts->codec);
    made->width = facts->width;
    made->height = facts->height;
    if (facts->sets_bytes) {
        made->extradata = av_mallocz(facts->sets_bytes + AV_INPUT_BUFFER_PADDING_SIZE);
        if (!made->extradata) {
            avcodec_parameters_free(&made);
            return NULL;
        }
        memcpy(made->extradata, facts->sets, facts->sets_bytes);
        made->extradata_size = (int)facts->sets_bytes;
    }
    return made;
}

/* Gives the decoder a picture, or a stub that replaces it. */
static void look(mr_probe *probe, const mr_rtsp_facts *facts) {
    uint8_t stub[STUB_BYTES + MR_RTP_PADDING];
    if (facts->unit)
        mr_probe_look(probe, facts->unit, facts->unit_bytes);
    else if (facts->codec == MR_RTP_H264 && facts->sets_bytes)
        mr_probe_look(probe, stub, write_stub(stub, find_pps(facts->sets, facts->sets_bytes)));
    mr_av_forget(); /* the complaint that the picture has no content */
}

static double rate_of(const mr_rtsp_facts *facts, const AVCodecContext *codec) {
    const AVRational rate = codec ? codec->framerate : (AVRational){0, 1};
    return facts->rate > 0 ? facts->rate : rate.num > 0 && rate.den > 0 ? av_q2d(rate) : 0;
}

int mr_rtsp_describe(mr_media **media, mr_survey *survey, const mr_rtsp_facts *facts, const mr_reader_params *params) {
    mr_probe probe = {0};
    AVCodecParameters *codec = make_parameters(facts);
    *survey = (mr_survey){.set = {.payload = MR_PAYLOAD_PACKET}};
    const bool open = codec && mr_probe_open(&probe, codec, params->max_pixels);
    if (open) {
        look(&probe, facts);
        if (probe.codec->width > 0)
            avcodec_parameters_from_context(codec, probe.codec);
    }
    *media = codec ? mr_reader_describe(params, params->uri, codec) : NULL;
    if (*media && open)
        mr_probe_survey(probe.codec, *media, survey);
    if (*media) {
        const AVRational rate = av_d2q(rate_of(facts, probe.codec), 1 << 16);
        (*media)->rate_num = rate.num;
        (*media)->rate_den = rate.num ? rate.den : 0;
        survey->set.codec = avcodec_get_name(codec->codec_id);
        survey->rate = rate.num ? av_q2d(rate) : 0;
    }
    mr_probe_close(&probe);
    avcodec_parameters_free(&codec);
    return *media ? MR_OK : mr_fail(MR_ERROR_MEMORY, "out of memory");
}
