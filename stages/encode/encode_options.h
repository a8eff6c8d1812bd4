/* encode's options, as written and as parsed, and the plan. Pure, except mr_encode_negotiate. */
#pragma once

#include "millrace/stage.h"

enum { MR_CODEC_H264, MR_CODEC_HEVC, MR_CODEC_VP9, MR_CODEC_AV1, MR_CODEC_MJPEG, MR_CODECS };
enum { MR_PRESET_FASTEST, MR_PRESET_FAST, MR_PRESET_MEDIUM, MR_PRESET_SLOW, MR_PRESETS };
enum { MR_LATENCY_LOW, MR_LATENCY_NORMAL, MR_LATENCIES };

/* As in the YAML. */
typedef struct mr_encode_choices {
    int codec, preset, latency;
    const char *quality, *bitrate, *keyframes;
    bool lossless;
    int hardware; /* mr_hardware */
    int64_t threads;
} mr_encode_choices;

/* As read. */
typedef struct mr_encode_params {
    int codec, preset, latency, threads, hardware;
    bool lossless;
    double quality;            /* the codec's own scale */
    int64_t bits;              /* a second; 0: by quality */
    int64_t key_ns, key_count; /* maximum distance between key frames, in time or pictures; the other is 0 */
    unsigned primaries, transfer; /* the picture stream's, as FFmpeg numbers them; 0: not known */
} mr_encode_params;

extern const mr_option mr_encode_options[];

/* Reads the options. MR_ERROR_CONFIG with a message; *option names the wrong one. */
int mr_encode_read(const mr_encode_choices *from, mr_encode_params *params, const char **option);

/* As mr_stage_type has them. */
int mr_encode_negotiate(mr_negotiation *negotiation);
int mr_encode_check(const void *options, const char *device);
int mr_encode_check_input(const void *options, const mr_format_set *input, const char *device, bool *otherwise);
