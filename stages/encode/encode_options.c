#include "stages/encode/encode_options.h"

#include <math.h>
#include <string.h>

#include "engine/base/units.h"
#include "stages/encode/encode_device.h"
#include "stages/encode/encode_nvenc.h"
#include "stages/media/media_cuda.h"

enum { MOST_THREADS = 64, MOST_KEY_PICTURES = 100000 };
static const int64_t MOST_KEY_NS = INT64_C(86400) * 1000000000;
static const double MOST_BITS = 1e9;

#define FIELD(name) offsetof(mr_encode_choices, name)
static const char *const codec_choices[] = {"h264", "hevc", "vp9", "av1", "mjpeg", NULL};
static const char *const preset_choices[] = {"fastest", "fast", "medium", "slow", NULL};
static const char *const latency_choices[] = {"low", "normal", NULL};

const mr_option mr_encode_options[] = {
    {.name = "codec", .kind = MR_OPTION_ENUM, .offset = FIELD(codec), .fallback = "h264", .choices = codec_choices,
     .help = "the packets' codec; the encoders are libx264, libx265, libvpx, libaom and libavcodec itself (mjpeg)"},
    {.name = "quality", .kind = MR_OPTION_STRING, .offset = FIELD(quality), .fallback = "auto",
     .help = "constant quality in the codec's own numbers, smaller is better: h264 and hevc 0 to 51, vp9 and av1 0 "
             "to 63, mjpeg 1 to 31; auto: 23 for h264, 26 for hevc, 32 for vp9 and av1, 4 for mjpeg"},
    {.name = "bitrate", .kind = MR_OPTION_STRING, .offset = FIELD(bitrate), .fallback = "auto",
     .example = "2Mbit/s",
     .help = "bits a second on average, instead of quality, such as 800kbit/s or 2Mbit/s; auto: quality decides. "
             "With latency: low no second of h264 or hevc can have more"},
    {.name = "lossless", .kind = MR_OPTION_BOOL, .offset = FIELD(lossless), .fallback = "false",
     .help = "decoded pictures equal the encoded ones; for all codecs but mjpeg. RGB pictures are refused, since "
             "their conversion is not lossless"},
    {.name = "keyframes", .kind = MR_OPTION_STRING, .offset = FIELD(keyframes), .fallback = "2s",
     .help = "longest distance between key frames, as a duration (2s) or as a number of pictures (50); only at key "
             "frames can a file be cut or a receiver begin"},
    {.name = "preset", .kind = MR_OPTION_ENUM, .offset = FIELD(preset), .fallback = "fast", .choices = preset_choices,
     .help = "slower presets need fewer bits and more computing; fast is veryfast in x264 and x265, and cpu-used 8 "
             "in vp9 and av1"},
    {.name = "latency", .kind = MR_OPTION_ENUM, .offset = FIELD(latency), .fallback = "low", .choices = latency_choices,
     .help = "low: each picture gives a packet at once, which needs more bits; normal: the encoder looks ahead and "
             "can hold some seconds of pictures, and h264 and hevc packets are not in picture order"},
    {.name = "threads", .kind = MR_OPTION_INT, .offset = FIELD(threads), .fallback = "1", .min = 1, .max = MOST_THREADS,
     .unit = "threads",
     .help = "encoder threads per source; the packets depend on how many, but not on timing"},
    {.name = "hardware", .kind = MR_OPTION_ENUM, .offset = FIELD(hardware), .fallback = "auto",
     .choices = mr_hardware_choices,
     .help = "on a CUDA device, encode with NVENC if it supports the codec and the pictures (h264 and hevc, and av1 "
             "with FFmpeg 6 or later, from nv12, i420 or i444; hevc and av1 also from p010), and has a session left; "
             "else in software, for which pictures are copied to the host. off: all in software; require: sources "
             "that NVENC cannot encode fail. The quality is NVENC's target quality, on the same scale"},
    MR_OPTIONS_END};

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static int read_quality(const char *text, mr_encode_params *params) {
    const char *end = text;
    mr_encoder_facts facts = mr_encoder_facts_of(params->codec);
    params->quality = facts.quality;
    if (strcmp(text, "auto") == 0)
        return MR_OK;
    if (mr_units_number(text, &params->quality, &end) && !*end && params->quality >= facts.best &&
        params->quality <= facts.worst)
        return MR_OK;
    return mr_fail(MR_ERROR_CONFIG, "quality of %s must be auto or %g to %g, not \"%s\"", facts.name, facts.best,
                   facts.worst, text);
}

static int read_bits(const char *text, mr_encode_params *params) {
    static const mr_unit units[] = {{"bit/s", 1},     {"kbit/s", 1e3}, {"Mbit/s", 1e6}, {"k", 1e3},
                                    {"M", 1e6},       {NULL, 0}};
    if (strcmp(text, "auto") == 0)
        return MR_OK;
    if (mr_units_read(text, units, &params->bits) && params->bits >= 1000 && (double)params->bits <= MOST_BITS)
        return MR_OK;
    return mr_fail(MR_ERROR_CONFIG, "bitrate must be auto or 1kbit/s to 1000Mbit/s, such as 2Mbit/s, not \"%s\"", text);
}

static int read_keys(const char *text, mr_encode_params *params) {
    const char *end = text;
    double count;
    bool plain = mr_units_number(text, &count, &end) && !*end;
    if (plain && count >= 1 && count <= MOST_KEY_PICTURES && floor(count) == count) {
        params->key_count = (int64_t)count;
        return MR_OK;
    }
    if (!plain && mr_units_read(text, mr_units_duration, &params->key_ns) && params->key_ns > 0 &&
        params->key_ns <= MOST_KEY_NS)
        return MR_OK;
    return mr_fail(MR_ERROR_CONFIG, "keyframes must be a duration such as 2s, or a number of pictures from 1 to %d, "
                   "not \"%s\"", MOST_KEY_PICTURES, text);
}

int mr_encode_read(const mr_encode_choices *from, mr_encode_params *params, const char **option) {
    *params = (mr_encode_params){.codec = from->codec, .preset = from->preset, .latency = from->latency,
                                 .threads = (int)from->threads, .hardware = from->hardware,
                                 .lossless = from->lossless};
    *option = "quality";
    int status = read_quality(from->quality, params);
    if (!status && from->lossless && strcmp(from->quality, "auto") != 0)
        status = mr_fail(MR_ERROR_CONFIG, "lossless: true and quality exclude each other: remove one of them");
    if (status)
        return status;
    *option = "bitrate";
    status = read_bits(from->bitrate, params);
    if (!status && params->bits && (from->lossless || strcmp(from->quality, "auto") != 0))
        status = mr_fail(MR_ERROR_CONFIG, "bitrate and %s exclude each other: remove one of them",
                         from->lossless ? "lossless: true" : "quality");
    if (status)
        return status;
    *option = "lossless";
    if (from->lossless && from->codec == MR_CODEC_MJPEG)
        return mr_fail(MR_ERROR_CONFIG, "mjpeg has no lossless mode: write another codec, such as h264");
    *option = "keyframes";
    return read_keys(from->keyframes, params);
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

/* The layouts that these have after encoding and decoding; 0: not known. */
static uint32_t encoded_pixels(int codec, uint32_t pixels) {
    uint32_t found = 0;
    for (int pixel = MR_PIXEL_ANY + 1; pixel < MR_PIXEL_COUNT; pixel++)
        if (pixels & MR_IN_SET(pixel))
            found |= MR_IN_SET(mr_encoder_decoded(mr_encoder_pixel(codec, (mr_pixel)pixel)));
    return found;
}

static bool all_rgb(uint32_t pixels) {
    for (int pixel = MR_PIXEL_ANY + 1; pixel < MR_PIXEL_COUNT; pixel++)
        if (pixels & MR_IN_SET(pixel) && !mr_pixel_describe((mr_pixel)pixel)->rgb)
            return false;
    return pixels != 0;
}

/* Plans the encoder's memory, threads and work, as far as the encoder is known. */
static void plan_encoder(mr_negotiation *negotiation, const mr_encode_params *params) {
    const mr_format_set *pictures = &negotiation->inputs[0].set;
    bool on_device = strcmp(negotiation->device, "cpu") != 0;
    bool nvenc = on_device && params->hardware != MR_HARDWARE_OFF && mr_nvenc_suits(params, pictures->pixels) == MR_OK;
    bool required = nvenc && params->hardware == MR_HARDWARE_REQUIRE;
    int delay = nvenc && params->latency != MR_LATENCY_LOW ? mr_nvenc_surfaces(params) : 0;
    if (!required) {
        negotiation->threads = mr_encoder_threads(params);
        delay = mr_encoder_delay(params) > delay ? mr_encoder_delay(params) : delay;
    }
    /* The caller waits for encoder threads and for a device's encoder; otherwise a call only computes. */
    negotiation->blocking = negotiation->threads > 0 || on_device;
    if (delay)
        mr_remark(negotiation, "%s holds up to %d pictures of each source: latency: low holds none",
                  required ? mr_nvenc_name(params->codec) : mr_encoder_facts_of(params->codec).encoder, delay);
    if (nvenc)
        negotiation->library_bytes = mr_nvenc_bytes(params, pictures);
    if (on_device)
        negotiation->work.unknown = nvenc ? "NVENC's rate is not known" : "the host's processors encode";
}

int mr_encode_negotiate(mr_negotiation *negotiation) {
    mr_encode_params params;
    const char *option;
    int status = mr_encode_read(negotiation->options, &params, &option);
    if (status)
        return mr_refuse(negotiation, option, "%s", mr_message());
    const mr_planned_input *pictures = &negotiation->inputs[0];
    mr_encoder_facts facts = mr_encoder_facts_of(params.codec);
    if (params.lossless && all_rgb(pictures->set.pixels))
        return mr_refuse(negotiation, "lossless", "lossless: true needs pictures of Y'CbCr or gray, and %s gives RGB",
                         pictures->from);
    if (params.hardware == MR_HARDWARE_REQUIRE && mr_nvenc_suits(&params, pictures->set.pixels))
        return mr_refuse(negotiation, "hardware", "hardware: require cannot be: %s; write hardware: auto",
                         mr_message());
    if (!mr_encoder_is_here(params.codec))
        return mr_refuse_status(negotiation, MR_ERROR_UNAVAILABLE, "codec", "this FFmpeg has no encoder %s",
                                facts.encoder);
    mr_planned_output *packets = &negotiation->outputs[0];
    packets->set = (mr_format_set){.payload = MR_PAYLOAD_PACKET, .codec = facts.name,
                                   .pixels = encoded_pixels(params.codec, pictures->set.pixels),
                                   .width = pictures->set.width, .height = pictures->set.height};
    if (params.codec == MR_CODEC_H264 || params.codec == MR_CODEC_HEVC) {
        packets->set.width.max += packets->set.width.max & 1;
        packets->set.height.max += packets->set.height.max & 1;
    }
    packets->mean_pixels = pictures->mean_pixels;
    packets->references = 0;
    packets->stills = false;
    plan_encoder(negotiation, &params);
    return MR_OK;
}

int mr_encode_check(const void *options, const char *device) {
    return mr_hardware_check((mr_hardware)((const mr_encode_choices *)options)->hardware, device, mr_nvenc_check);
}

int mr_encode_check_input(const void *options, const mr_format_set *input, const char *device, bool *otherwise) {
    mr_encode_params params;
    const char *option;
    int status = mr_encode_read(options, &params, &option);
    return status ? status : mr_encode_device_check_input(&params, input, device, otherwise);
}
