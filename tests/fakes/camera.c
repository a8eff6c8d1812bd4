/* Imitates a camera, /dev/video0, for the command that this is preloaded into: grey pictures of 64x48, 25 a second. As
 * long as the file $FAKE_CAMERA_HANGS_WHILE is there, its driver returns neither from opening it nor from reading a
 * picture. As long as $FAKE_CAMERA_FAILS_WHILE is there, no picture can be read.
 *
 * Its descriptor is a timer, so that the real poll() waits for it. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "tests/fakes/wrapped.h"

enum { WIDTH = 64, HEIGHT = 48, BYTES = WIDTH * HEIGHT, ROOM = 2 * BYTES, BUFFERS = 8, RATE = 25 };
static const char node[] = "/dev/video0";

static atomic_int camera_fd;              /* 0: not open */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t queued[BUFFERS], waiting; /* buffers that the driver may fill, in order; with the lock */
static uint32_t taken;

static int fail(int error) {
    errno = error;
    return -1;
}

/* ---- the driver -------------------------------------------------------------------------------------------------- */

static bool is_there(const char *variable) {
    const char *file = getenv(variable);
    return file && !access(file, F_OK);
}

static void hang(void) {
    while (is_there("FAKE_CAMERA_HANGS_WHILE"))
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

static int describe(struct v4l2_capability *has) {
    hang();
    *has = (struct v4l2_capability){.capabilities = V4L2_CAP_VIDEO_CAPTURE | V4L2_CAP_STREAMING};
    return 0;
}

static int list_format(struct v4l2_fmtdesc *format) {
    format->pixelformat = V4L2_PIX_FMT_GREY;
    return format->index ? fail(EINVAL) : 0;
}

static int list_size(struct v4l2_frmsizeenum *size) {
    size->type = V4L2_FRMSIZE_TYPE_DISCRETE;
    size->discrete = (struct v4l2_frmsize_discrete){WIDTH, HEIGHT};
    return size->index ? fail(EINVAL) : 0;
}

static int list_interval(struct v4l2_frmivalenum *interval) {
    interval->type = V4L2_FRMIVAL_TYPE_DISCRETE;
    interval->discrete = (struct v4l2_fract){1, RATE};
    return interval->index ? fail(EINVAL) : 0;
}

static int set_format(struct v4l2_format *format) {
    format->fmt.pix = (struct v4l2_pix_format){.width = WIDTH, .height = HEIGHT, .pixelformat = V4L2_PIX_FMT_GREY,
                                               .bytesperline = WIDTH, .sizeimage = BYTES};
    return 0;
}

static int start(int fd) {
    const struct itimerspec each = {{0, 1000000000 / RATE}, {0, 1000000000 / RATE}};
    return timerfd_settime(fd, 0, &each, NULL);
}

static int give_back(uint32_t index) {
    pthread_mutex_lock(&lock);
    const bool fits = index < BUFFERS && waiting < BUFFERS;
    if (fits)
        queued[waiting++] = index;
    pthread_mutex_unlock(&lock);
    return fits ? 0 : fail(EINVAL);
}

static int take_picture(int fd, struct v4l2_buffer *filled) {
    uint64_t pictures;
    if (is_there("FAKE_CAMERA_FAILS_WHILE"))
        return fail(EIO);
    hang();
    if (read(fd, &pictures, sizeof pictures) != sizeof pictures)
        return fail(EAGAIN);
    pthread_mutex_lock(&lock);
    const bool there = waiting > 0;
    filled->index = queued[0];
    if (there)
        memmove(queued, queued + 1, --waiting * sizeof *queued);
    pthread_mutex_unlock(&lock);
    filled->bytesused = BYTES;
    filled->sequence = taken++;
    return there ? 0 : fail(EAGAIN);
}

static int answer(int fd, unsigned long number, void *argument) {
    switch (number) {
    case VIDIOC_QUERYCAP:
        return describe(argument);
    case VIDIOC_ENUM_FMT:
        return list_format(argument);
    case VIDIOC_ENUM_FRAMESIZES:
        return list_size(argument);
    case VIDIOC_ENUM_FRAMEINTERVALS:
        return list_interval(argument);
    case VIDIOC_S_FMT:
    case VIDIOC_G_FMT:
        return set_format(argument);
    case VIDIOC_S_PARM:
        ((struct v4l2_streamparm *)argument)->parm.capture.timeperframe = (struct v4l2_fract){1, RATE};
        return 0;
    case VIDIOC_REQBUFS:
        ((struct v4l2_requestbuffers *)argument)->count = BUFFERS;
        return 0;
    case VIDIOC_QUERYBUF:
        ((struct v4l2_buffer *)argument)->length = ROOM;
        return 0;
    case VIDIOC_QBUF:
        return give_back(((const struct v4l2_buffer *)argument)->index);
    case VIDIOC_DQBUF:
        return take_picture(fd, argument);
    case VIDIOC_STREAMON:
        return start(fd);
    case VIDIOC_STREAMOFF:
        waiting = 0;
        return 0;
    default:
        return fail(ENOTTY);
    }
}

/* ---- system calls ------------------------------------------------------------------------------------------------ */

static bool is_own(int fd) {
    return fd > 0 && fd == atomic_load(&camera_fd);
}

WRAP_IOCTL(is_own, answer)

static int open_camera(void) {
    waiting = taken = 0;
    atomic_store(&camera_fd, timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    return atomic_load(&camera_fd);
}

WRAP_OPENS(node, open_camera)

int close(int fd) {
    int open_fd = fd;
    if (fd > 0)
        atomic_compare_exchange_strong(&camera_fd, &open_fd, 0);
    return REAL(close)(fd);
}

#define MMAP(function)                                                                                                \
    void *function(void *at, size_t bytes, int access, int flags, int fd, off_t offset) {                             \
        const bool own = is_own(fd);                                                                                  \
        return REAL(function)(at, bytes, access, own ? MAP_PRIVATE | MAP_ANONYMOUS : flags, own ? -1 : fd,            \
                              own ? 0 : offset);                                                                      \
    }
MMAP(mmap)
MMAP(mmap64)
