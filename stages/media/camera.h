/* A local camera's modes (picture format, size and rate), and how one is chosen. Any thread. */
#pragma once

#include <libavcodec/codec_id.h>
#include <libavutil/pixfmt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "millrace/option.h"

/* In order of preference if size and rate are equal: cheapest to decode first. */
typedef enum mr_camera_format {
    MR_CAMERA_AUTO,
    MR_CAMERA_NV12,
    MR_CAMERA_I420,
    MR_CAMERA_YUYV,
    MR_CAMERA_UYVY,
    MR_CAMERA_MJPEG,
    MR_CAMERA_H264,
    MR_CAMERA_GRAY,
    MR_CAMERA_FORMATS
} mr_camera_format;

/* "auto", "nv12", ...; ended by NULL. */
extern const char *const mr_camera_format_names[];

typedef struct mr_camera_codec {
    enum AVCodecID codec;
    enum AVPixelFormat pixel; /* for raw pictures; else AV_PIX_FMT_NONE */
} mr_camera_codec;

mr_camera_codec mr_camera_codec_of(mr_camera_format format);

typedef struct mr_camera_mode {
    mr_camera_format format;
    uint32_t fourcc;     /* V4L2's format name */
    mr_size size;
    uint32_t num, den;   /* seconds between pictures; 0/0: not known */
} mr_camera_mode;

/* What the author asks for; 0: anything. */
typedef struct mr_camera_wish {
    mr_size size;
    double rate;
    mr_camera_format format;
} mr_camera_wish;

/* Pictures a second; 0: not known. */
double mr_camera_rate(const mr_camera_mode *mode);

/* Chooses the best mode that meets the wish. Largest picture up to 1920x1080 among modes with at least 25 pictures a
 * second (if there are none, among the fastest). Then the preferred format, then the rate nearest to 30. A requested
 * rate must match within one percent. If no mode fits: MR_ERROR_CONFIG with a list of modes. */
int mr_camera_choose(const char *camera, const mr_camera_mode *modes, size_t count, const mr_camera_wish *wish,
                     size_t *chosen);
