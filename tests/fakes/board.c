/* Imitates a board whose kernel has a V4L2 decoder for H.264 and HEVC, /dev/video19: system calls on that node are
 * answered here, and libavcodec's software decodes. Linked into a suite, or preloaded into the command.
 *
 * It follows the kernel's "Memory-to-Memory Stateful Video Decoder Interface": packets wait if nobody takes pictures,
 * sizes are padded to whole blocks and announced by an event, times are copied, and after the last picture comes an
 * empty one. A call that would wait forever ends the program. */
#include "tests/fakes/board.h"

#include <dirent.h>
#include <errno.h>
#include <libavcodec/avcodec.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fakes/wrapped.h"

enum { NODES = 8, BUFFERS = 32, WAITING = 3, BLOCK = 16, MOST_WIDTH = 1920, MOST_HEIGHT = 1088, PACKET = 1 << 20 };
static const char node[] = "/dev/video19", name[] = "video19";
static const uint32_t coded[] = {V4L2_PIX_FMT_H264, V4L2_PIX_FMT_HEVC};

fake_board fake_board_here;

/* One side of the device: packets, or pictures. */
typedef struct side {
    bool streaming;
    struct v4l2_pix_format_mplane format;
    uint32_t count;
    uint8_t *data[BUFFERS];
    struct timeval time[BUFFERS];
    uint32_t bytes[BUFFERS], flags[BUFFERS];
    uint32_t queued[BUFFERS], done[BUFFERS]; /* indexes, in order */
    uint32_t queued_count, done_count;
} side;

typedef struct session {
    int fd; /* 0: not open */
    side packets, pictures;
    AVCodecContext *codec;
    AVFrame *picture; /* decoded, and waits for a buffer */
    bool parsed, event, changing, stopping, drained, ended; /* changing: until pictures are streamed anew */
    int given;
} session;

static session sessions[NODES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char folder[64];
static bool asked;

static session *find(int fd) {
    for (int i = 0; i < NODES; i++)
        if (fd > 0 && sessions[i].fd == fd)
            return &sessions[i];
    return NULL;
}

/* ---- decoding ---------------------------------------------------------------------------------------------------- */

static uint32_t take(uint32_t *list, uint32_t *count) {
    const uint32_t first = list[0];
    memmove(list, list + 1, --*count * sizeof *list);
    return first;
}

static void open_codec(session *s) {
    const AVCodec *decoder =
        avcodec_find_decoder(s->packets.format.pixelformat == V4L2_PIX_FMT_HEVC ? AV_CODEC_ID_HEVC : AV_CODEC_ID_H264);
    s->codec = avcodec_alloc_context3(decoder);
    s->codec->pkt_timebase = (AVRational){1, 1000000};
    s->codec->thread_count = 1;
    s->picture = av_frame_alloc();
    if (avcodec_open2(s->codec, decoder, NULL) < 0)
        abort();
}

static uint32_t padded(uint32_t length) {
    return (length + BLOCK - 1) / BLOCK * BLOCK;
}

static void lay_out(struct v4l2_pix_format_mplane *format) {
    format->num_planes = 1;
    format->plane_fmt[0].bytesperline = padded(format->width) + 2 * BLOCK;
    format->plane_fmt[0].sizeimage = format->plane_fmt[0].bytesperline * format->height * 3 / 2;
}

/* The first packet shows the size. Returns whether pictures have buffers of that size. */
static bool parse(session *s, const AVFrame *picture) {
    struct v4l2_pix_format_mplane *format = &s->pictures.format;
    const uint32_t width = padded((uint32_t)picture->width), height = padded((uint32_t)picture->height);
    if (!s->parsed && (format->width != width || format->height != height)) {
        s->event = s->changing = true;
        format->width = width;
        format->height = height;
        lay_out(format);
    }
    s->parsed = true;
    return !s->changing;
}

static void copy_rows(uint8_t *to, size_t to_stride, const uint8_t *from, int from_stride, int width, int rows) {
    for (int y = 0; y < rows; y++)
        memcpy(to + (size_t)y * to_stride, from + (ptrdiff_t)y * from_stride, (size_t)width);
}

static void copy_picture(const session *s, uint8_t *to) {
    const AVFrame *from = s->picture;
    const size_t stride = s->pictures.format.plane_fmt[0].bytesperline, rows = s->pictures.format.height;
    const int width = (from->width + 1) / 2, height = (from->height + 1) / 2;
    uint8_t *chroma = to + stride * rows;
    memset(to, 0x55, stride * rows * 3 / 2);
    copy_rows(to, stride, from->data[0], from->linesize[0], from->width, from->height);
    if (s->pictures.format.pixelformat == V4L2_PIX_FMT_YUV420) {
        copy_rows(chroma, stride / 2, from->data[1], from->linesize[1], width, height);
        copy_rows(chroma + stride / 2 * (rows / 2), stride / 2, from->data[2], from->linesize[2], width, height);
        return;
    }
    for (int y = 0; y < height; y++, chroma += stride)
        for (int i = 0; i < 2 * width; i++)
            chroma[i] = from->data[1 + i % 2][y * from->linesize[1 + i % 2] + i / 2];
}

/* Gives the waiting picture, or, at the end, an empty one. False: there is no buffer for it. */
static bool give(session *s) {
    side *to = &s->pictures;
    if (!to->streaming || !to->queued_count)
        return false;
    const uint32_t index = take(to->queued, &to->queued_count);
    if (s->picture->buf[0]) {
        copy_picture(s, to->data[index]);
        to->time[index] = (struct timeval){s->picture->pts / 1000000, s->picture->pts % 1000000};
        to->bytes[index] = to->format.plane_fmt[0].sizeimage;
        s->given++;
        fake_board_here.given++;
        const bool bad = fake_board_here.bad_every && s->given % fake_board_here.bad_every == 0;
        to->flags[index] = bad ? V4L2_BUF_FLAG_ERROR : 0;
        av_frame_unref(s->picture);
    } else {
        to->bytes[index] = 0;
        to->flags[index] = V4L2_BUF_FLAG_LAST;
        s->ended = true;
    }
    to->done[to->done_count++] = index;
    return true;
}

static void send(session *s) {
    side *from = &s->packets;
    const uint32_t index = take(from->queued, &from->queued_count);
    AVPacket *packet = av_packet_alloc();
    if (av_new_packet(packet, (int)from->bytes[index]) < 0)
        abort();
    memcpy(packet->data, from->data[index], from->bytes[index]);
    packet->pts = from->time[index].tv_sec * 1000000 + from->time[index].tv_usec;
    avcodec_send_packet(s->codec, packet);
    av_packet_free(&packet);
    from->done[from->done_count++] = index;
}

/* Decodes as much as there is room for. */
static void work(session *s) {
    if (!s->packets.streaming)
        return;
    while (!s->ended) {
        if (!s->picture->buf[0] && !s->drained) {
            const int error = avcodec_receive_frame(s->codec, s->picture);
            s->drained = error == AVERROR_EOF;
            if (fake_board_here.silent)
                av_frame_unref(s->picture);
        }
        if (s->picture->buf[0] || s->drained) {
            if ((s->picture->buf[0] && !parse(s, s->picture)) || s->pictures.done_count >= WAITING || !give(s))
                return;
        } else if (s->packets.queued_count) {
            send(s);
        } else if (s->stopping) {
            avcodec_send_packet(s->codec, NULL);
            s->stopping = false;
        } else {
            return;
        }
    }
}

static bool is_broken(const session *s) {
    return fake_board_here.pictures_left && s->given >= fake_board_here.pictures_left;
}

/* ---- ioctl ------------------------------------------------------------------------------------------------------- */

static int fail(int error) {
    errno = error;
    return -1;
}

static side *side_of(session *s, uint32_t type) {
    return type == V4L2_BUF_TYPE_VIDEO_OUTPUT_MPLANE    ? &s->packets
           : type == V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE ? &s->pictures
                                                        : NULL;
}

static uint32_t layout(void) {
    return fake_board_here.layout ? fake_board_here.layout : V4L2_PIX_FMT_NV12;
}

static int list_format(struct v4l2_fmtdesc *format) {
    const bool packets = format->type == V4L2_BUF_TYPE_VIDEO_OUTPUT_MPLANE;
    if (format->index >= (packets ? 2 : 1) || (!packets && format->type != V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE))
        return fail(EINVAL);
    format->pixelformat = packets ? coded[format->index] : layout();
    return 0;
}

static int list_size(struct v4l2_frmsizeenum *size) {
    if (size->index > 0)
        return fail(EINVAL);
    size->type = V4L2_FRMSIZE_TYPE_STEPWISE;
    size->stepwise = (struct v4l2_frmsize_stepwise){BLOCK, MOST_WIDTH, 2, BLOCK, MOST_HEIGHT, 2};
    return 0;
}

/* A driver changes what it cannot do. */
static int set_format(session *s, struct v4l2_format *format, bool keep) {
    struct v4l2_pix_format_mplane *about = &format->fmt.pix_mp;
    side *of = side_of(s, format->type);
    if (!of)
        return fail(EINVAL);
    if (of == &s->packets) {
        about->num_planes = 1;
        about->plane_fmt[0].sizeimage = PACKET;
    } else {
        about->pixelformat = layout();
        lay_out(about);
    }
    if (keep)
        of->format = *about;
    return 0;
}

static int get_format(session *s, struct v4l2_format *format) {
    const side *of = side_of(s, format->type);
    if (!of)
        return fail(EINVAL);
    format->fmt.pix_mp = of->format;
    return 0;
}

static int request(session *s, struct v4l2_requestbuffers *wanted) {
    side *of = side_of(s, wanted->type);
    if (!of || of->streaming)
        return fail(EBUSY);
    wanted->count = wanted->count < BUFFERS ? wanted->count : BUFFERS;
    of->count = wanted->count;
    of->queued_count = of->done_count = 0;
    return 0;
}

static int query(session *s, struct v4l2_buffer *buffer) {
    const side *of = side_of(s, buffer->type);
    if (!of || buffer->index >= of->count)
        return fail(EINVAL);
    buffer->length = 1;
    buffer->m.planes[0].length = of->format.plane_fmt[0].sizeimage;
    buffer->m.planes[0].m.mem_offset = (buffer->index + (of == &s->pictures ? BUFFERS : 0)) << 12;
    return 0;
}

static int enqueue(session *s, const struct v4l2_buffer *buffer) {
    side *of = side_of(s, buffer->type);
    if (!of || buffer->index >= of->count || of->queued_count + of->done_count >= of->count)
        return fail(EINVAL);
    of->queued[of->queued_count++] = buffer->index;
    of->time[buffer->index] = buffer->timestamp;
    of->bytes[buffer->index] = buffer->m.planes[0].bytesused;
    return 0;
}

static int dequeue(session *s, struct v4l2_buffer *buffer) {
    side *of = side_of(s, buffer->type);
    if (!of || !of->streaming || (of == &s->pictures && is_broken(s)))
        return fail(of ? EIO : EINVAL);
    if (!of->done_count)
        return fail(of == &s->pictures && s->ended ? EPIPE : EAGAIN);
    const uint32_t index = take(of->done, &of->done_count);
    buffer->index = index;
    buffer->flags = of->flags[index];
    buffer->timestamp = of->time[index];
    buffer->m.planes[0].bytesused = of->bytes[index];
    buffer->length = 1;
    return 0;
}

static int stream(session *s, uint32_t type, bool on) {
    side *of = side_of(s, type);
    if (on && of == &s->pictures && fake_board_here.start_error)
        return fail(fake_board_here.start_error);
    fake_board_here.sessions += on && of == &s->packets;
    of->streaming = on;
    s->changing &= !(on && of == &s->pictures);
    if (!on)
        of->queued_count = of->done_count = 0;
    if (on && !s->codec)
        open_codec(s);
    return 0;
}

static int next_event(session *s, struct v4l2_event *event) {
    if (!s->event)
        return fail(ENOENT);
    s->event = false;
    event->type = V4L2_EVENT_SOURCE_CHANGE;
    event->u.src_change.changes = V4L2_EVENT_SRC_CH_RESOLUTION;
    return 0;
}

static int answer(session *s, unsigned long request_number, void *argument) {
    struct v4l2_capability *has = argument;
    switch (request_number) {
    case VIDIOC_QUERYCAP:
        *has = (struct v4l2_capability){.capabilities = V4L2_CAP_VIDEO_M2M_MPLANE | V4L2_CAP_STREAMING};
        snprintf((char *)has->driver, sizeof has->driver, "imitated");
        snprintf((char *)has->card, sizeof has->card, "imitated-decoder");
        return 0;
    case VIDIOC_ENUM_FMT:
        return list_format(argument);
    case VIDIOC_ENUM_FRAMESIZES:
        return list_size(argument);
    case VIDIOC_TRY_FMT:
    case VIDIOC_S_FMT:
        return set_format(s, argument, request_number == VIDIOC_S_FMT);
    case VIDIOC_G_FMT:
        return get_format(s, argument);
    case VIDIOC_REQBUFS:
        return request(s, argument);
    case VIDIOC_QUERYBUF:
        return query(s, argument);
    case VIDIOC_QBUF:
        return enqueue(s, argument);
    case VIDIOC_DQBUF:
        return dequeue(s, argument);
    case VIDIOC_STREAMON:
    case VIDIOC_STREAMOFF:
        return stream(s, *(const uint32_t *)argument, request_number == VIDIOC_STREAMON);
    case VIDIOC_DQEVENT:
        return next_event(s, argument);
    case VIDIOC_SUBSCRIBE_EVENT:
        return 0;
    case VIDIOC_DECODER_CMD:
        s->stopping = true;
        return 0;
    default:
        return fail(ENOTTY);
    }
}

static int answer_now(int fd, unsigned long number, void *argument) {
    pthread_mutex_lock(&lock);
    session *s = find(fd);
    const int result = s ? answer(s, number, argument) : fail(EBADF);
    if (s)
        work(s);
    pthread_mutex_unlock(&lock);
    return result;
}

static bool is_own(int fd) {
    pthread_mutex_lock(&lock);
    const bool own = find(fd);
    pthread_mutex_unlock(&lock);
    return own;
}

WRAP_IOCTL(is_own, answer_now)

/* ---- other calls ------------------------------------------------------------------------------------------------- */

static int open_node(void) {
    fake_board_here.opened++;
    if (asked && fake_board_here.open_error)
        return fail(fake_board_here.open_error);
    asked = true;
    for (int i = 0; i < NODES; i++)
        if (!sessions[i].fd) {
            sessions[i] = (session){.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
            return sessions[i].fd;
        }
    return fail(EBUSY);
}

static int open_now(void) {
    pthread_mutex_lock(&lock);
    const int fd = open_node();
    pthread_mutex_unlock(&lock);
    return fd;
}

WRAP_OPENS(node, open_now)

int close(int fd) {
    pthread_mutex_lock(&lock);
    session *s = find(fd);
    if (s) {
        avcodec_free_context(&s->codec);
        av_frame_free(&s->picture);
        *s = (session){0};
    }
    pthread_mutex_unlock(&lock);
    return REAL(close)(fd);
}

#define MMAP(function)                                                                                                \
    void *function(void *at, size_t bytes, int access, int flags, int fd, off_t offset) {                             \
        session *s = find(fd);                                                                                        \
        if (!s)                                                                                                       \
            return REAL(function)(at, bytes, access, flags, fd, offset);                                              \
        const off_t index = offset >> 12;                                                                             \
        uint8_t *data = REAL(function)(at, bytes, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);                        \
        side *of = index < BUFFERS ? &s->packets : &s->pictures;                                                      \
        of->data[index % BUFFERS] = data;                                                                             \
        return data;                                                                                                  \
    }
MMAP(mmap)
MMAP(mmap64)

static bool is_idle(const side *of) {
    return !of->streaming || of->queued_count + of->done_count == 0;
}

static short ready(session *s, short events) {
    work(s);
    const bool picture = s->pictures.done_count > 0 || s->ended || is_broken(s);
    if (s->event)
        return events & POLLPRI;
    if (is_idle(&s->packets) && is_idle(&s->pictures))
        return POLLERR;
    return (short)(events & ((picture ? POLLIN | POLLRDNORM : 0) |
                             (s->packets.done_count ? POLLOUT | POLLWRNORM : 0)));
}

int poll(struct pollfd *all, nfds_t count, int timeout) {
    pthread_mutex_lock(&lock);
    session *s = count == 1 ? find(all->fd) : NULL;
    if (s)
        all->revents = ready(s, all->events);
    pthread_mutex_unlock(&lock);
    if (!s)
        return REAL(poll)(all, count, timeout);
    while (fake_board_here.hangs_after && s->given >= fake_board_here.hangs_after)
        pause();
    if (!all->revents && timeout) {
        fprintf(stderr, "the imitated board: nothing will ever come after %d pictures\n", s->given);
        abort();
    }
    return all->revents != 0;
}

ssize_t readlink(const char *restrict path, char *restrict to, size_t room) {
    if (strncmp(path, "/sys/class/video4linux/", 23) != 0)
        return REAL(readlink)(path, to, room);
    if (!fake_board_here.bus)
        return fail(ENOENT);
    char link[64];
    const int length = snprintf(link, sizeof link, "../../../bus/%s", fake_board_here.bus);
    memcpy(to, link, (size_t)length < room ? (size_t)length : room);
    return length;
}

/* The folder of devices, for whoever lists it, has only this one. */
DIR *opendir(const char *path) {
    char file[96];
    if (strcmp(path, "/dev") != 0)
        return REAL(opendir)(path);
    pthread_mutex_lock(&lock);
    if (!folder[0]) {
        snprintf(folder, sizeof folder, "/tmp/imitated-board-XXXXXX");
        if (!mkdtemp(folder))
            abort();
        snprintf(file, sizeof file, "%s/%s", folder, name);
        REAL(close)(REAL(open)(file, O_CREAT | O_WRONLY, 0600));
    }
    pthread_mutex_unlock(&lock);
    return REAL(opendir)(folder);
}

__attribute__((constructor)) static void begin(void) {
    const char *error = getenv("FAKE_BOARD_START_ERROR");
    const char *hangs = getenv("FAKE_BOARD_HANGS_AFTER");
    fake_board_here.start_error = error ? atoi(error) : 0;
    fake_board_here.hangs_after = hangs ? atoi(hangs) : 0;
}

__attribute__((destructor)) static void end(void) {
    char file[96];
    snprintf(file, sizeof file, "%s/%s", folder, name);
    if (folder[0]) {
        unlink(file);
        rmdir(folder);
    }
}
