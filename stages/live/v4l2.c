/* Local cameras, read with Video4Linux2 ioctls (kernel documentation, "Video for Linux API").
 *
 * Pictures lie in mapped driver buffers. A raw picture is passed on without a copy. Its buffer returns to the driver
 * when any thread releases the packet, and the last reference (connection or packet) closes the device. Raw pictures
 * must be copied if the driver would have too few buffers, rows are padded, or no room is left for the zeros that
 * FFmpeg's readers need. Compressed pictures are small and always copied. */
#include "stages/live/v4l2.h"

#include <errno.h>
#include <fcntl.h>
#include <libavcodec/codec_par.h>
#include <libavutil/imgutils.h>
#include <libavutil/mem.h>
#include <linux/videodev2.h>
#include <pthread.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "stages/live/connection/address.h"
#include "stages/media/media_codec.h"
#include "stages/media/media_probe.h"
#include "stages/media/coded/nal.h"

enum {
    BUFFERS = 8,
    LEFT_TO_DRIVER = 3,
    MOST_MODES = 512,
    PADDING = AV_INPUT_BUFFER_PADDING_SIZE
};
static const int64_t SECOND_NS = 1000000000;

typedef struct device device;

typedef struct mapped {
    device *of;
    uint8_t *data;
    size_t bytes;
    uint32_t index;
} mapped;

struct device {
    int fd;
    pthread_mutex_t lock;
    int references;
    bool streaming;
    int handed_on; /* buffers that packets hold */
    uint32_t count;
    mapped buffer[BUFFERS];
};

typedef struct camera {
    mr_connection base;
    mr_connection_params params;
    device *device;
    mr_camera_mode mode;
    uint32_t row_bytes;    /* row distance in the driver's layout */
    int packed;            /* a raw picture's bytes without padding */
    mr_media *media;
    mr_connection_counts counts;
    bool begun, gap;       /* gap: data is missing before the next packet */
    uint32_t next;         /* the driver's number for the next picture */
    int64_t last_ns;       /* when the last one came */
    mr_packet held;        /* read by the survey */
    bool holds;
} camera;

/* A signal can interrupt it; drivers take long only for STREAMON and S_FMT. */
static int control(int fd, unsigned long request, void *argument) {
    int result;
    do
        result = ioctl(fd, request, argument);
    while (result < 0 && errno == EINTR);
    return result;
}

/* ---- the device ------------------------------------------------------------------------------------------------ */

static void let_go(device *of) {
    pthread_mutex_lock(&of->lock);
    const bool last = --of->references == 0;
    pthread_mutex_unlock(&of->lock);
    if (!last)
        return;
    for (uint32_t i = 0; i < of->count; i++)
        munmap(of->buffer[i].data, of->buffer[i].bytes);
    close(of->fd);
    pthread_mutex_destroy(&of->lock);
    mr_free(of);
}

static int give_back(device *of, uint32_t index) {
    struct v4l2_buffer at = {.type = V4L2_BUF_TYPE_VIDEO_CAPTURE, .memory = V4L2_MEMORY_MMAP, .index = index};
    return control(of->fd, VIDIOC_QBUF, &at);
}

/* Called when a packet is released, on any thread. */
static void release_mapped(void *context) {
    const mapped *at = context;
    device *of = at->of;
    pthread_mutex_lock(&of->lock);
    of->handed_on--;
    if (of->streaming)
        give_back(of, at->index);
    pthread_mutex_unlock(&of->lock);
    let_go(of);
}

/* A camera that is unplugged or used by another program may become available. */
static int fail_camera(const char *url, const char *verb, int error) {
    switch (error) {
    case ENOENT:
    case ENODEV:
    case ENXIO:
    case EPIPE:
        return mr_fail(MR_ERROR_IO, "%s: there is no camera; `ls /dev/video*` lists those of this machine", url);
    case EBUSY:
        return mr_fail(MR_ERROR_IO, "%s: another program has the camera; `fuser %s` names it", url, url);
    case EACCES:
    case EPERM:
        return mr_fail(MR_ERROR_PERMISSION, "%s: %s; users of cameras are often in the group `video`", url,
                       strerror(error));
    default:
        return mr_fail(MR_ERROR_IO, "%s: cannot %s: %s", url, verb, strerror(error));
    }
}

static int open_device(const char *url, device **result) {
    struct v4l2_capability has;
    device *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    made->fd = open(url, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (made->fd < 0) {
        mr_free(made);
        return fail_camera(url, "open it", errno);
    }
    made->references = 1;
    pthread_mutex_init(&made->lock, NULL);
    *result = made;
    if (control(made->fd, VIDIOC_QUERYCAP, &has))
        return errno == ENOTTY || errno == EINVAL ? mr_fail(MR_ERROR_DATA, "%s is not a camera", url)
                                                  : fail_camera(url, "ask it", errno);
    const uint32_t can = has.capabilities & V4L2_CAP_DEVICE_CAPS ? has.device_caps : has.capabilities;
    if (!(can & V4L2_CAP_VIDEO_CAPTURE) || !(can & V4L2_CAP_STREAMING))
        return mr_fail(MR_ERROR_UNAVAILABLE, "%s gives no pictures: it is another part of a camera, or gives "
                                             "each plane in a buffer of its own; try the next /dev/video", url);
    return MR_OK;
}

/* ---- modes ------------------------------------------------------------------------------------------------------ */

typedef struct mode_list {
    mr_camera_mode mode[MOST_MODES];
    size_t count;
} mode_list;

static mr_camera_format format_of(uint32_t fourcc) {
    static const struct {
        uint32_t fourcc;
        mr_camera_format format;
    } known[] = {{V4L2_PIX_FMT_NV12, MR_CAMERA_NV12},   {V4L2_PIX_FMT_YUV420, MR_CAMERA_I420},
                 {V4L2_PIX_FMT_YUYV, MR_CAMERA_YUYV},   {V4L2_PIX_FMT_UYVY, MR_CAMERA_UYVY},
                 {V4L2_PIX_FMT_MJPEG, MR_CAMERA_MJPEG}, {V4L2_PIX_FMT_JPEG, MR_CAMERA_MJPEG},
                 {V4L2_PIX_FMT_H264, MR_CAMERA_H264},   {V4L2_PIX_FMT_GREY, MR_CAMERA_GRAY}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].fourcc == fourcc)
            return known[i].format;
    return MR_CAMERA_AUTO;
}

static void add_mode(mode_list *to, const mr_camera_mode *mode) {
    if (to->count < MOST_MODES && mode->size.width > 0 && mode->size.height > 0)
        to->mode[to->count++] = *mode;
}

/* Chooses the interval in the range that is nearest to `rate` (default 30). */
static void clamp_interval(const struct v4l2_frmival_stepwise *range, double rate, mr_camera_mode *mode) {
    const double wanted = 1 / (rate > 0 ? rate : 30);
    const struct v4l2_fract *take = NULL;
    if (range->min.denominator && wanted <= (double)range->min.numerator / range->min.denominator)
        take = &range->min;
    else if (range->max.denominator && wanted >= (double)range->max.numerator / range->max.denominator)
        take = &range->max;
    mode->num = take ? take->numerator : 1000;
    mode->den = take ? take->denominator : (uint32_t)(1000 / wanted + 0.5);
}

static void add_rates(int fd, mr_camera_mode mode, const mr_camera_wish *wish, mode_list *to) {
    struct v4l2_frmivalenum at = {.pixel_format = mode.fourcc, .width = (uint32_t)mode.size.width,
                                  .height = (uint32_t)mode.size.height};
    for (; at.index < MOST_MODES && !control(fd, VIDIOC_ENUM_FRAMEINTERVALS, &at); at.index++) {
        if (at.type != V4L2_FRMIVAL_TYPE_DISCRETE) {
            clamp_interval(&at.stepwise, wish->rate, &mode);
            add_mode(to, &mode);
            return;
        }
        mode.num = at.discrete.numerator;
        mode.den = at.discrete.denominator;
        add_mode(to, &mode);
    }
    if (at.index == 0)
        add_mode(to, &mode);
}

/* The length nearest to `wanted` among least, most, and multiples of the step above least. */
static int32_t clamp_length(uint32_t wanted, uint32_t least, uint32_t most, uint32_t step) {
    const uint32_t within = wanted < least ? least : wanted > most ? most : wanted;
    return (int32_t)(within - (step ? (within - least) % step : 0));
}

static mr_size clamp_size(const struct v4l2_frmsize_stepwise *range, const mr_camera_wish *wish) {
    const mr_size wanted = wish->size.width ? wish->size : (mr_size){1920, 1080};
    return (mr_size){clamp_length((uint32_t)wanted.width, range->min_width, range->max_width, range->step_width),
                     clamp_length((uint32_t)wanted.height, range->min_height, range->max_height, range->step_height)};
}

static void add_sizes(int fd, mr_camera_mode mode, const mr_camera_wish *wish, mode_list *to) {
    struct v4l2_frmsizeenum at = {.pixel_format = mode.fourcc};
    for (; at.index < MOST_MODES && !control(fd, VIDIOC_ENUM_FRAMESIZES, &at); at.index++) {
        const bool one = at.type == V4L2_FRMSIZE_TYPE_DISCRETE;
        mode.size = one ? (mr_size){(int32_t)at.discrete.width, (int32_t)at.discrete.height}
                        : clamp_size(&at.stepwise, wish);
        add_rates(fd, mode, wish, to);
        if (!one)
            return;
    }
}

/* If a driver lists no sizes, the current one counts. */
static void add_current(int fd, mode_list *to) {
    struct v4l2_format set = {.type = V4L2_BUF_TYPE_VIDEO_CAPTURE};
    if (control(fd, VIDIOC_G_FMT, &set))
        return;
    mr_camera_mode mode = {.format = format_of(set.fmt.pix.pixelformat), .fourcc = set.fmt.pix.pixelformat,
                           .size = {(int32_t)set.fmt.pix.width, (int32_t)set.fmt.pix.height}};
    if (mode.format != MR_CAMERA_AUTO)
        add_mode(to, &mode);
}

static int choose_mode(camera *at) {
    struct v4l2_fmtdesc one = {.type = V4L2_BUF_TYPE_VIDEO_CAPTURE};
    mode_list *list = mr_calloc(1, sizeof *list);
    size_t chosen = 0;
    if (!list)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    for (; one.index < MOST_MODES && !control(at->device->fd, VIDIOC_ENUM_FMT, &one); one.index++) {
        const mr_camera_mode mode = {.format = format_of(one.pixelformat), .fourcc = one.pixelformat};
        if (mode.format != MR_CAMERA_AUTO)
            add_sizes(at->device->fd, mode, &at->params.camera, list);
    }
    if (!list->count)
        add_current(at->device->fd, list);
    int status = mr_camera_choose(at->params.url, list->mode, list->count, &at->params.camera, &chosen);
    if (!status)
        at->mode = list->mode[chosen];
    mr_free(list);
    return status;
}

/* ---- setting ---------------------------------------------------------------------------------------------------- */

static int set_format(camera *at) {
    struct v4l2_format set = {.type = V4L2_BUF_TYPE_VIDEO_CAPTURE};
    struct v4l2_pix_format *pix = &set.fmt.pix;
    pix->width = (uint32_t)at->mode.size.width;
    pix->height = (uint32_t)at->mode.size.height;
    pix->pixelformat = at->mode.fourcc;
    pix->field = V4L2_FIELD_ANY;
    if (control(at->device->fd, VIDIOC_S_FMT, &set))
        return fail_camera(at->params.url, "set its format", errno);
    if (pix->pixelformat != at->mode.fourcc || !pix->width || !pix->height)
        return mr_fail(MR_ERROR_IO, "%s: the camera has set another format than the one that it offers",
                       at->params.url);
    at->mode.size = (mr_size){(int32_t)pix->width, (int32_t)pix->height};
    at->row_bytes = pix->bytesperline;
    return MR_OK;
}

/* Drivers may not allow setting a rate; what they return counts. */
static void set_rate(camera *at) {
    struct v4l2_streamparm set = {.type = V4L2_BUF_TYPE_VIDEO_CAPTURE};
    struct v4l2_fract *interval = &set.parm.capture.timeperframe;
    *interval = (struct v4l2_fract){at->mode.num, at->mode.den};
    if (at->mode.num && !control(at->device->fd, VIDIOC_S_PARM, &set) && interval->numerator && interval->denominator) {
        at->mode.num = interval->numerator;
        at->mode.den = interval->denominator;
    }
}

static int map_buffers(camera *at) {
    device *of = at->device;
    struct v4l2_requestbuffers wanted = {.count = BUFFERS, .type = V4L2_BUF_TYPE_VIDEO_CAPTURE,
                                         .memory = V4L2_MEMORY_MMAP};
    if (control(of->fd, VIDIOC_REQBUFS, &wanted))
        return fail_camera(at->params.url, "get buffers of it", errno);
    for (uint32_t i = 0; i < wanted.count && i < BUFFERS; i++) {
        struct v4l2_buffer one = {.type = wanted.type, .memory = wanted.memory, .index = i};
        if (control(of->fd, VIDIOC_QUERYBUF, &one))
            return fail_camera(at->params.url, "get buffers of it", errno);
        void *data = mmap(NULL, one.length, PROT_READ | PROT_WRITE, MAP_SHARED, of->fd, (off_t)one.m.offset);
        if (data == MAP_FAILED)
            return fail_camera(at->params.url, "map its buffers", errno);
        of->buffer[of->count++] = (mapped){of, data, one.length, i};
    }
    return of->count >= 2 ? MR_OK : mr_fail(MR_ERROR_IO, "%s: the camera has too few buffers", at->params.url);
}

static int start(camera *at) {
    int type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
    for (uint32_t i = 0; i < at->device->count; i++)
        if (give_back(at->device, i))
            return fail_camera(at->params.url, "use its buffers", errno);
    if (control(at->device->fd, VIDIOC_STREAMON, &type))
        return fail_camera(at->params.url, "start it", errno);
    at->device->streaming = true;
    return MR_OK;
}

static int describe(camera *at) {
    const mr_camera_codec codec = mr_camera_codec_of(at->mode.format);
    AVCodecParameters *made = avcodec_parameters_alloc();
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    made->codec_type = AVMEDIA_TYPE_VIDEO;
    made->codec_id = codec.codec;
    made->format = codec.pixel;
    made->width = at->mode.size.width;
    made->height = at->mode.size.height;
    if (codec.pixel != AV_PIX_FMT_NONE) {
        made->codec_tag = avcodec_pix_fmt_to_codec_tag(codec.pixel);
        at->packed = av_image_get_buffer_size(codec.pixel, made->width, made->height, 1);
    }
    at->media = mr_reader_describe(&at->params.media, at->params.url, made);
    avcodec_parameters_free(&made);
    if (!at->media)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    at->media->rate_num = (int32_t)at->mode.den;
    at->media->rate_den = (int32_t)at->mode.num;
    if ((int64_t)at->mode.size.width * at->mode.size.height > at->params.media.max_pixels)
        return mr_fail(MR_ERROR_DATA, "%s: pictures of %dx%d are larger than max_pixels", at->params.url,
                       at->mode.size.width, at->mode.size.height);
    return at->packed < 0 ? mr_fail(MR_ERROR_DATA, "%s: impossible size of pictures", at->params.url) : MR_OK;
}

/* ---- packets ---------------------------------------------------------------------------------------------------- */

/* Driver rows may be longer than picture rows; chroma rows scale with them. */
static bool is_padded(const camera *at) {
    int row = av_image_get_linesize(mr_camera_codec_of(at->mode.format).pixel, at->mode.size.width, 0);
    return at->packed && row > 0 && at->row_bytes > (uint32_t)row;
}

static size_t laid_out_bytes(const camera *at) {
    uint8_t *planes[4];
    int rows[4] = {0};
    const enum AVPixelFormat pixel = mr_camera_codec_of(at->mode.format).pixel;
    if (!is_padded(at))
        return (size_t)at->packed;
    av_image_fill_linesizes(rows, pixel, at->mode.size.width);
    for (int i = 3; i >= 0; i--)
        rows[i] = rows[0] ? (int)((int64_t)rows[i] * at->row_bytes / rows[0]) : 0;
    int bytes = av_image_fill_pointers(planes, pixel, at->mode.size.height, NULL, rows);
    return bytes < 0 ? SIZE_MAX : (size_t)bytes;
}

static int copy_rows(const camera *at, const uint8_t *data, mr_packet *packet) {
    const enum AVPixelFormat pixel = mr_camera_codec_of(at->mode.format).pixel;
    uint8_t *from[4];
    int rows[4] = {0};
    const int status = mr_packet_room(packet, (size_t)at->packed);
    if (status)
        return status;
    av_image_fill_linesizes(rows, pixel, at->mode.size.width);
    for (int i = 3; i >= 0; i--)
        rows[i] = (int)((int64_t)rows[i] * at->row_bytes / rows[0]);
    av_image_fill_pointers(from, pixel, at->mode.size.height, (uint8_t *)(uintptr_t)data, rows);
    av_image_copy_to_buffer(packet->data, at->packed, (const uint8_t *const *)from, rows, pixel, at->mode.size.width,
                            at->mode.size.height, 1);
    return MR_OK;
}

/* Whether the picture can stay in the driver's buffer until the packet is released. */
static bool can_hand_on(camera *at, const mapped *from, size_t bytes) {
    device *of = at->device;
    if (!at->packed || is_padded(at) || from->bytes - bytes < PADDING)
        return false;
    pthread_mutex_lock(&of->lock);
    bool can = of->handed_on + LEFT_TO_DRIVER < (int)of->count;
    of->handed_on += can;
    of->references += can;
    pthread_mutex_unlock(&of->lock);
    return can;
}

/* Takes the buffer. */
static int take_picture(camera *at, mapped *from, size_t bytes, mr_packet *packet) {
    int status;
    if (can_hand_on(at, from, bytes)) {
        memset(from->data + bytes, 0, PADDING);
        packet->buffer = mr_buffer_wrap(from->data, from->bytes, release_mapped, from);
        packet->data = from->data;
        packet->bytes = bytes;
        if (packet->buffer)
            return MR_OK;
        release_mapped(from);
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    }
    if (is_padded(at)) {
        status = copy_rows(at, from->data, packet);
    } else if (!(status = mr_packet_room(packet, bytes))) {
        memcpy(packet->data, from->data, bytes);
    }
    if (give_back(at->device, from->index) && !status)
        status = fail_camera(at->params.url, "use its buffers", errno);
    return status;
}

/* Uses the driver's monotonic time for the first row, or else the arrival. */
static void set_times(camera *at, const struct v4l2_buffer *filled, mr_packet *packet) {
    const int64_t now = mr_now_ns();
    const bool monotonic = (filled->flags & V4L2_BUF_FLAG_TIMESTAMP_MASK) == V4L2_BUF_FLAG_TIMESTAMP_MONOTONIC;
    int64_t taken = filled->timestamp.tv_sec * SECOND_NS + filled->timestamp.tv_usec * (int64_t)1000;
    if (!monotonic || taken <= 0 || taken > now || now - taken > 10 * SECOND_NS)
        taken = now;
    packet->arrived_ns = now;
    packet->captured_ns = mr_clock_offset_ns(mr_clock_real(), NULL) + taken;
    packet->pts_ns = packet->dts_ns = taken;
    if (at->begun) {
        double gap = (double)(now - at->last_ns) - (at->mode.num ? 1e9 / mr_camera_rate(&at->mode) : 0);
        at->counts.jitter_ns += ((gap < 0 ? -gap : gap) - at->counts.jitter_ns) / 16;
    }
    at->last_ns = now;
}

/* Whether this is an H.264 key frame: it has an IDR picture, or a parameter set, which precedes one. */
static bool begins_with_key(const uint8_t *data, size_t bytes) {
    enum { IDR = 5, SPS = 7, MOST_BYTES = 4096 };
    mr_nals from = {data, data + (bytes < MOST_BYTES ? bytes : MOST_BYTES), 0};
    for (mr_nal one; mr_nal_next(&from, &one);)
        if ((one.data[0] & 31) == IDR || (one.data[0] & 31) == SPS)
            return true;
    return false;
}

static void set_flags(camera *at, const struct v4l2_buffer *filled, mr_packet *packet) {
    if (at->mode.format != MR_CAMERA_H264 || filled->flags & V4L2_BUF_FLAG_KEYFRAME ||
        begins_with_key(packet->data, packet->bytes))
        packet->flags |= MR_FRAME_KEY;
    if (at->gap)
        packet->flags |= MR_FRAME_SEAM;
    at->gap = false;
}

/* The driver numbers pictures: it dropped some if there was no buffer. */
static void note_number(camera *at, uint32_t number) {
    const uint32_t missing = number - at->next;
    if (at->begun && missing && missing < 1000000) {
        at->counts.lost += missing;
        at->gap = true;
    }
    at->next = number + 1;
}

/* Whether a buffer holds a whole picture. */
static bool is_whole(const camera *at, const struct v4l2_buffer *filled) {
    const size_t bytes = filled->bytesused;
    if (filled->flags & V4L2_BUF_FLAG_ERROR || !bytes || bytes > at->device->buffer[filled->index].bytes)
        return false;
    return at->packed ? bytes >= laid_out_bytes(at) : !at->params.most_bytes || bytes <= at->params.most_bytes;
}

/* MR_ERROR_AGAIN: there was none, or it was damaged. */
static int take_buffer(camera *at, mr_packet *packet) {
    struct v4l2_buffer filled = {.type = V4L2_BUF_TYPE_VIDEO_CAPTURE, .memory = V4L2_MEMORY_MMAP};
    if (control(at->device->fd, VIDIOC_DQBUF, &filled))
        return errno == EAGAIN ? MR_ERROR_AGAIN : fail_camera(at->params.url, "read from it", errno);
    if (filled.index >= at->device->count)
        return mr_fail(MR_ERROR_IO, "%s: the camera has no such buffer", at->params.url);
    note_number(at, filled.sequence);
    if (!is_whole(at, &filled)) {
        at->counts.lost++;
        at->gap = true;
        return give_back(at->device, filled.index) ? fail_camera(at->params.url, "use its buffers", errno)
                                                   : MR_ERROR_AGAIN;
    }
    at->counts.packets++;
    at->counts.bytes += filled.bytesused;
    const size_t bytes = at->packed ? (size_t)at->packed : filled.bytesused;
    int status = take_picture(at, &at->device->buffer[filled.index], bytes, packet);
    if (status)
        return status;
    set_times(at, &filled, packet);
    set_flags(at, &filled, packet);
    packet->duration_ns = at->mode.num ? (int64_t)(1e9 / mr_camera_rate(&at->mode)) : 0;
    packet->media = mr_media_ref(at->media);
    at->begun = true;
    return MR_OK;
}

static int await_picture(camera *at, int64_t until_ns, mr_packet *packet) {
    for (;;) {
        struct pollfd picture = {.fd = at->device->fd, .events = POLLIN};
        int status = mr_live_wait(&picture, 1, at->params.wake, until_ns);
        if (status)
            return status;
        status = take_buffer(at, packet);
        if (status != MR_ERROR_AGAIN)
            return status;
        if (!(picture.revents & POLLIN))
            return fail_camera(at->params.url, "read from it", ENODEV);
        if (mr_now_ns() >= until_ns)
            return MR_ERROR_AGAIN;
    }
}

/* ---- the connection --------------------------------------------------------------------------------------------- */

static int read_camera(mr_connection *base, int64_t until_ns, mr_packet *packet) {
    camera *at = (camera *)base;
    if (!at->holds)
        return await_picture(at, until_ns, packet);
    *packet = at->held;
    at->holds = false;
    return MR_OK;
}

/* A compressed picture's layout is known only after one was read; the last one read is kept. */
static int look_at_pictures(camera *at, mr_probe *probe) {
    const int64_t until_ns = mr_now_ns() + at->params.open_timeout_ns;
    bool known = at->packed > 0;
    while (!known) {
        mr_packet packet = {.pts_ns = MR_NO_TIME, .dts_ns = MR_NO_TIME};
        int status = await_picture(at, until_ns, &packet);
        if (status)
            return status == MR_ERROR_AGAIN ? MR_OK : status;
        if (at->holds)
            mr_packet_drop(&at->held);
        at->held = packet;
        at->holds = true;
        known = mr_probe_look(probe, packet.data, packet.bytes);
    }
    return MR_OK;
}

static int survey_camera(mr_connection *base, mr_survey *survey) {
    camera *at = (camera *)base;
    mr_probe probe;
    int status = MR_OK;
    *survey = (mr_survey){0};
    if (mr_probe_open(&probe, at->media->codec, at->params.media.max_pixels)) {
        status = look_at_pictures(at, &probe);
        mr_probe_survey(probe.codec, at->media, survey);
    }
    mr_probe_close(&probe);
    survey->rate = mr_camera_rate(&at->mode);
    return status;
}

static void count_camera(const mr_connection *base, mr_connection_counts *counts) {
    *counts = ((const camera *)base)->counts;
}

static void close_camera(mr_connection *base) {
    camera *at = (camera *)base;
    int type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
    if (at->device) {
        pthread_mutex_lock(&at->device->lock);
        if (at->device->streaming)
            control(at->device->fd, VIDIOC_STREAMOFF, &type);
        at->device->streaming = false;
        pthread_mutex_unlock(&at->device->lock);
        let_go(at->device);
    }
    if (at->holds)
        mr_packet_drop(&at->held);
    mr_media_unref(&at->media);
    mr_free(at);
}

static const mr_connection_type v4l2_type = {.name = "v4l2", .survey = survey_camera, .read = read_camera,
                                             .count = count_camera, .close = close_camera};

int mr_connection_open_v4l2(mr_connection **result, const mr_connection_params *params) {
    camera *at = mr_calloc(1, sizeof *at);
    if (!at)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    *at = (camera){.base.type = &v4l2_type, .params = *params};
    int status = open_device(params->url, &at->device);
    if (!status)
        status = choose_mode(at);
    if (!status)
        status = set_format(at);
    if (!status) {
        set_rate(at);
        status = describe(at);
    }
    if (!status)
        status = map_buffers(at);
    if (!status)
        status = start(at);
    if (status) {
        close_camera(&at->base);
        return status;
    }
    *result = &at->base;
    return MR_OK;
}
