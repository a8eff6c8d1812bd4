#include "stages/media/camera.h"

#include <math.h>
#include <string.h>

#include "engine/base/print.h"
#include "millrace/status.h"

enum { MOST_PIXELS = 1920 * 1080, MOST_LISTED = 12, LIST_BYTES = 640 };
static const double SMOOTH = 25, USUAL = 30, TOLERANCE = 0.01;

const char *const mr_camera_format_names[] = {"auto", "nv12", "i420", "yuyv", "uyvy", "mjpeg", "h264", "gray", NULL};

mr_camera_codec mr_camera_codec_of(mr_camera_format format) {
    static const mr_camera_codec codecs[MR_CAMERA_FORMATS] = {
        [MR_CAMERA_NV12] = {AV_CODEC_ID_RAWVIDEO, AV_PIX_FMT_NV12},
        [MR_CAMERA_I420] = {AV_CODEC_ID_RAWVIDEO, AV_PIX_FMT_YUV420P},
        [MR_CAMERA_YUYV] = {AV_CODEC_ID_RAWVIDEO, AV_PIX_FMT_YUYV422},
        [MR_CAMERA_UYVY] = {AV_CODEC_ID_RAWVIDEO, AV_PIX_FMT_UYVY422},
        [MR_CAMERA_GRAY] = {AV_CODEC_ID_RAWVIDEO, AV_PIX_FMT_GRAY8},
        [MR_CAMERA_MJPEG] = {AV_CODEC_ID_MJPEG, AV_PIX_FMT_NONE},
        [MR_CAMERA_H264] = {AV_CODEC_ID_H264, AV_PIX_FMT_NONE}};
    return codecs[format];
}

double mr_camera_rate(const mr_camera_mode *mode) {
    return mode->num ? (double)mode->den / mode->num : 0;
}

static bool is_as_wished(const mr_camera_mode *mode, const mr_camera_wish *wish) {
    const mr_size size = wish->size;
    if (wish->format != MR_CAMERA_AUTO && mode->format != wish->format)
        return false;
    if (size.width && (mode->size.width != size.width || mode->size.height != size.height))
        return false;
    return wish->rate <= 0 || fabs(mr_camera_rate(mode) - wish->rate) <= wish->rate * TOLERANCE;
}

static double pixels_of(const mr_camera_mode *mode) {
    return (double)mode->size.width * mode->size.height;
}

/* < 0 if a is better than b, > 0 if worse. An unknown rate matches any. */
static double compare(const mr_camera_mode *a, const mr_camera_mode *b) {
    const double a_rate = mr_camera_rate(a), b_rate = mr_camera_rate(b);
    const bool a_smooth = a_rate >= SMOOTH || a_rate <= 0, b_smooth = b_rate >= SMOOTH || b_rate <= 0;
    const bool a_large = pixels_of(a) > MOST_PIXELS, b_large = pixels_of(b) > MOST_PIXELS;
    if (a_smooth != b_smooth)
        return b_smooth - a_smooth;
    if (!a_smooth && fabs(a_rate - b_rate) > TOLERANCE)
        return b_rate - a_rate;
    if (a_large != b_large)
        return a_large - b_large;
    if (pixels_of(a) < pixels_of(b) || pixels_of(a) > pixels_of(b))
        return a_large ? pixels_of(a) - pixels_of(b) : pixels_of(b) - pixels_of(a);
    if (a->format != b->format)
        return (double)a->format - (double)b->format;
    return fabs(a_rate - USUAL) - fabs(b_rate - USUAL);
}

static int refuse(const char *camera, const mr_camera_mode *modes, size_t count) {
    char list[LIST_BYTES] = "";
    size_t length = 0;
    for (size_t i = 0; i < count && i < MOST_LISTED && length < sizeof list; i++) {
        length += mr_print_into(list + length, sizeof list - length, "%s%s %dx%d", i ? ", " : "",
                                mr_camera_format_names[modes[i].format], modes[i].size.width, modes[i].size.height);
        if (modes[i].num && length < sizeof list)
            length += mr_print_into(list + length, sizeof list - length, " at %g", mr_camera_rate(&modes[i]));
    }
    if (count > MOST_LISTED && length < sizeof list)
        mr_print_into(list + length, sizeof list - length, ", and %zu more", count - MOST_LISTED);
    if (!count)
        return mr_fail(MR_ERROR_UNAVAILABLE, "%s gives pictures in no format that is read here: nv12, i420, yuyv, "
                                             "uyvy, mjpeg, h264, gray", camera);
    return mr_fail(MR_ERROR_CONFIG, "%s does not give such pictures; it gives %s", camera, list);
}

int mr_camera_choose(const char *camera, const mr_camera_mode *modes, size_t count, const mr_camera_wish *wish,
                     size_t *chosen) {
    const mr_camera_mode *best = NULL;
    for (size_t i = 0; i < count; i++)
        if (is_as_wished(&modes[i], wish) && (!best || compare(&modes[i], best) < 0))
            best = &modes[i];
    if (!best)
        return refuse(camera, modes, count);
    *chosen = (size_t)(best - modes);
    return MR_OK;
}
