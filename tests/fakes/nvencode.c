/* Replaces libnvidia-encode.so.1: H.264 and HEVC sessions that encode with libx264 and libx265. Each picture gives one
 * packet at once, by the quality or the rates that the session was given. Device memory is host memory.
 *
 * Environment: FAKE_SESSIONS limits the sessions that can be open at once. FAKE_NO_NVENC: the device has no encoder. */
#include <ffnvcodec/dynlink_cuda.h>
#include <ffnvcodec/nvEncodeAPI.h>
#include <libavcodec/avcodec.h>
#include <libavutil/imgutils.h>
#include <libavutil/opt.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct session {
    bool hevc;
    char preset[8], tune[12];
    AVCodecContext *codec;
} session;

/* A surface; mapping returns it unchanged. */
typedef struct resource {
    uint8_t *data;
    int pitch, width, height;
    NV_ENC_BUFFER_FORMAT format;
} resource;

typedef struct output {
    AVPacket *packet;
    uint64_t time;
} output;

static atomic_int opened, open_now, kept, encoded;
static char told[256];

/* For tests: sessions opened so far, sessions now open, surfaces and outputs not released, encoded pictures, and the
 * settings of the last session. */
int fake_nvenc_opened(void);
int fake_nvenc_open(void);
int fake_nvenc_kept(void);
int fake_nvenc_encoded(void);
const char *fake_nvenc_told(void);
int fake_nvenc_opened(void) {
    return opened;
}
int fake_nvenc_open(void) {
    return open_now;
}
int fake_nvenc_kept(void) {
    return kept;
}
int fake_nvenc_encoded(void) {
    return encoded;
}
const char *fake_nvenc_told(void) {
    return told;
}

/* ---- sessions ---------------------------------------------------------------------------------------------------- */

static NVENCSTATUS NVENCAPI open_session(NV_ENC_OPEN_ENCODE_SESSION_EX_PARAMS *params, void **made) {
    const char *most = getenv("FAKE_SESSIONS");
    if (getenv("FAKE_NO_NVENC"))
        return NV_ENC_ERR_UNSUPPORTED_DEVICE;
    if (params->deviceType != NV_ENC_DEVICE_TYPE_CUDA || !params->device)
        return NV_ENC_ERR_INVALID_DEVICE;
    if (atomic_fetch_add(&open_now, 1) >= (most ? atoi(most) : 64)) {
        open_now--;
        return NV_ENC_ERR_OUT_OF_MEMORY;
    }
    opened++;
    *made = calloc(1, sizeof(session));
    return NV_ENC_SUCCESS;
}

static NVENCSTATUS NVENCAPI close_session(void *of) {
    session *gone = of;
    avcodec_free_context(&gone->codec);
    free(gone);
    open_now--;
    return NV_ENC_SUCCESS;
}

static NVENCSTATUS NVENCAPI count_codecs(void *of, uint32_t *count) {
    *count = 2;
    return NV_ENC_SUCCESS;
}

static NVENCSTATUS NVENCAPI list_codecs(void *of, GUID *list, uint32_t room, uint32_t *count) {
    list[0] = NV_ENC_CODEC_H264_GUID;
    list[1] = NV_ENC_CODEC_HEVC_GUID;
    *count = 2;
    return NV_ENC_SUCCESS;
}

static NVENCSTATUS NVENCAPI say_cap(void *of, GUID codec, NV_ENC_CAPS_PARAM *params, int *value) {
    bool size = params->capsToQuery == NV_ENC_CAPS_WIDTH_MAX || params->capsToQuery == NV_ENC_CAPS_HEIGHT_MAX;
    bool deep = params->capsToQuery == NV_ENC_CAPS_SUPPORT_10BIT_ENCODE;
    *value = size ? 4096 : deep ? memcmp(&codec, &NV_ENC_CODEC_HEVC_GUID, sizeof codec) == 0 : 1;
    return NV_ENC_SUCCESS;
}

static NVENCSTATUS NVENCAPI give_preset(void *of, GUID codec, GUID preset, NV_ENC_TUNING_INFO tuning,
                                        NV_ENC_PRESET_CONFIG *config) {
    static const char *const tunes[] = {"none", "hq", "ll", "ull", "lossless"};
    const GUID presets[] = {NV_ENC_PRESET_P1_GUID, NV_ENC_PRESET_P2_GUID, NV_ENC_PRESET_P3_GUID, NV_ENC_PRESET_P4_GUID,
                            NV_ENC_PRESET_P5_GUID, NV_ENC_PRESET_P6_GUID, NV_ENC_PRESET_P7_GUID};
    session *s = of;
    for (int i = 0; i < 7; i++)
        if (memcmp(&preset, &presets[i], sizeof preset) == 0)
            snprintf(s->preset, sizeof s->preset, "p%d", i + 1);
    snprintf(s->tune, sizeof s->tune, "%s", tunes[tuning]);
    s->hevc = memcmp(&codec, &NV_ENC_CODEC_HEVC_GUID, sizeof codec) == 0;
    config->presetCfg.frameIntervalP = 1;
    return NV_ENC_SUCCESS;
}

/* ---- encoding ---------------------------------------------------------------------------------------------------- */

static const char *rate_name(NV_ENC_PARAMS_RC_MODE mode) {
    return mode == NV_ENC_PARAMS_RC_CONSTQP ? "constqp" : mode == NV_ENC_PARAMS_RC_VBR ? "vbr" : "other";
}

static enum AVPixelFormat layout_of(const session *s, const NV_ENC_CODEC_CONFIG *config) {
    unsigned chroma = s->hevc ? config->hevcConfig.chromaFormatIDC : config->h264Config.chromaFormatIDC;
    bool deep = s->hevc && config->hevcConfig.pixelBitDepthMinus8;
    return chroma == 3 ? AV_PIX_FMT_YUV444P : deep ? AV_PIX_FMT_YUV420P10 : AV_PIX_FMT_YUV420P;
}

static NVENCSTATUS NVENCAPI initialize(void *of, NV_ENC_INITIALIZE_PARAMS *params) {
    session *s = of;
    const NV_ENC_RC_PARAMS *rate = &params->encodeConfig->rcParams;
    double quality = rate->targetQuality + rate->targetQualityLSB / 256.0;
    const AVCodec *by = avcodec_find_encoder_by_name(s->hevc ? "libx265" : "libx264");
    snprintf(told, sizeof told, "%s %s %s %s cq=%g qp=%u bits=%u most=%u buffer=%u %ux%u", s->hevc ? "hevc" : "h264",
             s->preset, s->tune, rate_name(rate->rateControlMode), quality, rate->constQP.qpInterP,
             rate->averageBitRate, rate->maxBitRate, rate->vbvBufferSize, params->encodeWidth, params->encodeHeight);
    s->codec = avcodec_alloc_context3(by);
    s->codec->pix_fmt = layout_of(s, &params->encodeConfig->encodeCodecConfig);
    s->codec->width = (int)params->encodeWidth;
    s->codec->height = (int)params->encodeHeight;
    s->codec->time_base = (AVRational){(int)params->frameRateDen, (int)params->frameRateNum};
    s->codec->gop_size = (int)params->encodeConfig->gopLength;
    s->codec->thread_count = 1;
    av_opt_set(s->codec->priv_data, "preset", "veryfast", 0);
    av_opt_set(s->codec->priv_data, "tune", "zerolatency", 0);
    av_opt_set_int(s->codec->priv_data, "forced-idr", 1, 0);
    if (s->hevc)
        av_opt_set(s->codec->priv_data, "x265-params", "log-level=none:info=0:pools=none:frame-threads=1", 0);
    if (rate->rateControlMode == NV_ENC_PARAMS_RC_CONSTQP)
        av_opt_set_int(s->codec->priv_data, "qp", rate->constQP.qpInterP, 0);
    else if (quality > 0)
        av_opt_set_double(s->codec->priv_data, "crf", quality, 0);
    else
        s->codec->bit_rate = rate->averageBitRate;
    /* libx265 would initialize with the first picture, under a lock that FFmpeg holds now. That picture has the
     * headers. */
    if (!s->hevc)
        s->codec->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
    return s->hevc || avcodec_open2(s->codec, NULL, NULL) >= 0 ? NV_ENC_SUCCESS : NV_ENC_ERR_GENERIC;
}

/* Chroma is in pairs; 10-bit samples use the upper bits in 16. */
static void unpair(const resource *from, AVFrame *to) {
    bool deep = from->format == NV_ENC_BUFFER_FORMAT_YUV420_10BIT;
    for (int y = 0; y < from->height * 3 / 2; y++)
        for (int x = 0; x < from->width; x++) {
            const uint8_t *row = from->data + (size_t)y * (size_t)from->pitch;
            unsigned value = deep ? ((const uint16_t *)(const void *)row)[x] >> 6 : row[x];
            int plane = y < from->height ? 0 : 1 + x % 2;
            uint8_t *line = to->data[plane] + (y < from->height ? y : y - from->height) * to->linesize[plane];
            if (deep)
                ((uint16_t *)(void *)line)[plane ? x / 2 : x] = (uint16_t)value;
            else
                line[plane ? x / 2 : x] = (uint8_t)value;
        }
}

static void read_surface(const resource *from, AVFrame *to) {
    size_t luma = (size_t)from->pitch * (size_t)from->height;
    const uint8_t *planes[4] = {from->data, from->data + luma, from->data + 2 * luma, NULL};
    int strides[4] = {from->pitch, from->pitch, from->pitch, 0};
    if (from->format == NV_ENC_BUFFER_FORMAT_YV12_PL) {
        strides[1] = strides[2] = from->pitch / 2;
        planes[2] = from->data + luma;
        planes[1] = planes[2] + luma / 4;
    }
    bool pairs = from->format == NV_ENC_BUFFER_FORMAT_NV12_PL || from->format == NV_ENC_BUFFER_FORMAT_YUV420_10BIT;
    if (pairs)
        unpair(from, to);
    else
        av_image_copy(to->data, to->linesize, planes, strides, to->format, from->width, from->height);
}

static NVENCSTATUS NVENCAPI encode(void *of, NV_ENC_PIC_PARAMS *params) {
    session *s = of;
    if (params->encodePicFlags & NV_ENC_PIC_FLAG_EOS)
        return NV_ENC_SUCCESS;
    const resource *from = params->inputBuffer;
    output *to = params->outputBitstream;
    AVFrame *picture = av_frame_alloc();
    if (!avcodec_is_open(s->codec) && avcodec_open2(s->codec, NULL, NULL) < 0)
        return NV_ENC_ERR_GENERIC;
    picture->format = s->codec->pix_fmt;
    picture->width = from->width;
    picture->height = from->height;
    picture->pict_type = params->encodePicFlags & NV_ENC_PIC_FLAG_FORCEIDR ? AV_PICTURE_TYPE_I : AV_PICTURE_TYPE_NONE;
    picture->pts = (int64_t)params->inputTimeStamp;
    to->time = params->inputTimeStamp;
    av_frame_get_buffer(picture, 0);
    read_surface(from, picture);
    int error = avcodec_send_frame(s->codec, picture);
    if (error >= 0)
        error = avcodec_receive_packet(s->codec, to->packet);
    av_frame_free(&picture);
    encoded += error >= 0;
    return error < 0 ? NV_ENC_ERR_GENERIC : NV_ENC_SUCCESS;
}

static NVENCSTATUS NVENCAPI give_headers(void *of, NV_ENC_SEQUENCE_PARAM_PAYLOAD *params) {
    const session *s = of;
    uint32_t bytes = (uint32_t)s->codec->extradata_size;
    if (bytes > params->inBufferSize)
        return NV_ENC_ERR_NOT_ENOUGH_BUFFER;
    if (bytes)
        memcpy(params->spsppsBuffer, s->codec->extradata, bytes);
    *params->outSPSPPSPayloadSize = bytes;
    return NV_ENC_SUCCESS;
}

static NVENCSTATUS NVENCAPI lock(void *of, NV_ENC_LOCK_BITSTREAM *params) {
    const output *from = params->outputBitstream;
    params->bitstreamBufferPtr = from->packet->data;
    params->bitstreamSizeInBytes = (uint32_t)from->packet->size;
    params->outputTimeStamp = from->time;
    params->pictureType = from->packet->flags & AV_PKT_FLAG_KEY ? NV_ENC_PIC_TYPE_IDR : NV_ENC_PIC_TYPE_P;
    return NV_ENC_SUCCESS;
}

static NVENCSTATUS NVENCAPI unlock(void *of, NV_ENC_OUTPUT_PTR which) {
    av_packet_unref(((output *)which)->packet);
    return NV_ENC_SUCCESS;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static NVENCSTATUS NVENCAPI make_output(void *of, NV_ENC_CREATE_BITSTREAM_BUFFER *params) {
    output *made = calloc(1, sizeof *made);
    made->packet = av_packet_alloc();
    params->bitstreamBuffer = made;
    kept++;
    return NV_ENC_SUCCESS;
}

static NVENCSTATUS NVENCAPI free_output(void *of, NV_ENC_OUTPUT_PTR which) {
    output *gone = which;
    av_packet_free(&gone->packet);
    free(gone);
    kept--;
    return NV_ENC_SUCCESS;
}

static NVENCSTATUS NVENCAPI take_surface(void *of, NV_ENC_REGISTER_RESOURCE *params) {
    resource *made = calloc(1, sizeof *made);
    *made = (resource){params->resourceToRegister, (int)params->pitch, (int)params->width, (int)params->height,
                       params->bufferFormat};
    params->registeredResource = made;
    kept++;
    return NV_ENC_SUCCESS;
}

static NVENCSTATUS NVENCAPI leave_surface(void *of, NV_ENC_REGISTERED_PTR which) {
    free(which);
    kept--;
    return NV_ENC_SUCCESS;
}

static NVENCSTATUS NVENCAPI map(void *of, NV_ENC_MAP_INPUT_RESOURCE *params) {
    params->mappedResource = params->registeredResource;
    params->mappedBufferFmt = ((const resource *)params->registeredResource)->format;
    kept++;
    return NV_ENC_SUCCESS;
}

static NVENCSTATUS NVENCAPI unmap(void *of, NV_ENC_INPUT_PTR which) {
    kept--;
    return NV_ENC_SUCCESS;
}

static NVENCSTATUS NVENCAPI take_streams(void *of, NV_ENC_CUSTREAM_PTR in, NV_ENC_CUSTREAM_PTR out) {
    return in && out ? NV_ENC_SUCCESS : NV_ENC_ERR_INVALID_PARAM;
}

static const char *NVENCAPI last_error(void *of) {
    return "";
}

/* ---- the library ------------------------------------------------------------------------------------------------- */

NVENCSTATUS NVENCAPI NvEncodeAPIGetMaxSupportedVersion(uint32_t *version);
NVENCSTATUS NVENCAPI NvEncodeAPICreateInstance(NV_ENCODE_API_FUNCTION_LIST *functions);

NVENCSTATUS NVENCAPI NvEncodeAPIGetMaxSupportedVersion(uint32_t *version) {
    *version = NVENCAPI_MAJOR_VERSION << 4 | NVENCAPI_MINOR_VERSION;
    return NV_ENC_SUCCESS;
}

NVENCSTATUS NVENCAPI NvEncodeAPICreateInstance(NV_ENCODE_API_FUNCTION_LIST *functions) {
    functions->nvEncOpenEncodeSessionEx = open_session;
    functions->nvEncDestroyEncoder = close_session;
    functions->nvEncGetEncodeGUIDCount = count_codecs;
    functions->nvEncGetEncodeGUIDs = list_codecs;
    functions->nvEncGetEncodeCaps = say_cap;
    functions->nvEncGetEncodePresetConfigEx = give_preset;
    functions->nvEncInitializeEncoder = initialize;
    functions->nvEncGetSequenceParams = give_headers;
    functions->nvEncEncodePicture = encode;
    functions->nvEncLockBitstream = lock;
    functions->nvEncUnlockBitstream = unlock;
    functions->nvEncCreateBitstreamBuffer = make_output;
    functions->nvEncDestroyBitstreamBuffer = free_output;
    functions->nvEncRegisterResource = take_surface;
    functions->nvEncUnregisterResource = leave_surface;
    functions->nvEncMapInputResource = map;
    functions->nvEncUnmapInputResource = unmap;
    functions->nvEncSetIOCudaStreams = take_streams;
    functions->nvEncGetLastErrorString = last_error;
    return NV_ENC_SUCCESS;
}
