#include "engine/device/probe/board.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/videodev2.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Those that libavcodec has a V4L2 decoder for. */
static const struct {
    uint32_t fourcc;
    const char *codec;
} codecs[] = {
    {V4L2_PIX_FMT_H264, "h264"},        {V4L2_PIX_FMT_HEVC, "hevc"},        {V4L2_PIX_FMT_VP8, "vp8"},
    {V4L2_PIX_FMT_VP9, "vp9"},          {V4L2_PIX_FMT_MPEG1, "mpeg1video"}, {V4L2_PIX_FMT_MPEG2, "mpeg2video"},
    {V4L2_PIX_FMT_MPEG4, "mpeg4"},      {V4L2_PIX_FMT_H263, "h263"},        {V4L2_PIX_FMT_VC1_ANNEX_G, "vc1"},
};
static const uint32_t layouts[] = {V4L2_PIX_FMT_YUV420, V4L2_PIX_FMT_NV12, V4L2_PIX_FMT_NV21, V4L2_PIX_FMT_YUV420M,
                                   V4L2_PIX_FMT_NV12M};

/* A signal can interrupt it. */
static bool ask(int fd, unsigned long request, void *answer) {
    int result;
    do
        result = ioctl(fd, request, answer);
    while (result < 0 && errno == EINTR);
    return result == 0;
}

static const char *codec_of(uint32_t fourcc) {
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++)
        if (codecs[i].fourcc == fourcc)
            return codecs[i].codec;
    return NULL;
}

/* Whether one of the formats on this side of the device has a layout that decode takes. */
static bool gives_pictures(int fd, uint32_t side) {
    struct v4l2_fmtdesc format = {.type = side};
    for (; ask(fd, VIDIOC_ENUM_FMT, &format); format.index++)
        for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
            if (format.pixelformat == layouts[i])
                return true;
    return false;
}

/* Sets the decoder's largest picture. */
static void read_sizes(int fd, uint32_t fourcc, mr_board_decoder *decoder) {
    struct v4l2_frmsizeenum size = {.pixel_format = fourcc};
    for (; ask(fd, VIDIOC_ENUM_FRAMESIZES, &size); size.index++) {
        const bool one = size.type == V4L2_FRMSIZE_TYPE_DISCRETE;
        const unsigned width = one ? size.discrete.width : size.stepwise.max_width,
                       height = one ? size.discrete.height : size.stepwise.max_height;
        if ((uint64_t)width * height > (uint64_t)decoder->max_width * decoder->max_height) {
            decoder->max_width = width;
            decoder->max_height = height;
        }
        if (!one)
            return;
    }
}

static void add_decoders(mr_board *board, int fd, const char *node, const struct v4l2_capability *has, uint32_t coded) {
    struct v4l2_fmtdesc format = {.type = coded};
    for (; board->count < MR_BOARD_DECODERS && ask(fd, VIDIOC_ENUM_FMT, &format); format.index++) {
        const char *codec = codec_of(format.pixelformat);
        if (!codec || mr_board_decoder_for(board, codec))
            continue;
        mr_board_decoder *decoder = &board->decoder[board->count++];
        *decoder = (mr_board_decoder){.codec = codec};
        snprintf(decoder->node, sizeof decoder->node, "%s", node);
        snprintf(decoder->card, sizeof decoder->card, "%.*s", (int)sizeof has->card, (const char *)has->card);
        read_sizes(fd, format.pixelformat, decoder);
    }
}

/* Whether it is on a bus where no decoder is, only cameras, tuners and the like: opening them can wake them up. */
static bool is_camera(const char *name) {
    char path[256], bus[256];
    if (snprintf(path, sizeof path, "/sys/class/video4linux/%s/device/subsystem", name) >= (int)sizeof path)
        return false;
    const ssize_t length = readlink(path, bus, sizeof bus - 1);
    if (length < 0)
        return false;
    bus[length] = '\0';
    const char *last = strrchr(bus, '/');
    return last && (strcmp(last, "/usb") == 0 || strcmp(last, "/pci") == 0);
}

static void ask_node(mr_board *board, const char *node) {
    const int fd = open(node, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    struct v4l2_capability has = {0};
    if (fd < 0) {
        if (errno == EACCES || errno == EPERM)
            snprintf(board->closed, sizeof board->closed, "%s", node);
        return;
    }
    if (ask(fd, VIDIOC_QUERYCAP, &has)) {
        const uint32_t can = has.capabilities & V4L2_CAP_DEVICE_CAPS ? has.device_caps : has.capabilities;
        const bool planes = can & V4L2_CAP_VIDEO_M2M_MPLANE;
        if (can & V4L2_CAP_STREAMING && can & (V4L2_CAP_VIDEO_M2M | V4L2_CAP_VIDEO_M2M_MPLANE) &&
            gives_pictures(fd, planes ? V4L2_BUF_TYPE_VIDEO_CAPTURE_MPLANE : V4L2_BUF_TYPE_VIDEO_CAPTURE))
            add_decoders(board, fd, node, &has,
                         planes ? V4L2_BUF_TYPE_VIDEO_OUTPUT_MPLANE : V4L2_BUF_TYPE_VIDEO_OUTPUT);
    }
    close(fd);
}

void mr_board_probe(mr_board *board) {
    DIR *folder = opendir("/dev");
    *board = (mr_board){0};
    for (const struct dirent *entry; folder && (entry = readdir(folder));) {
        char node[MR_BOARD_NODE];
        if (strncmp(entry->d_name, "video", 5) == 0 && !is_camera(entry->d_name) &&
            snprintf(node, sizeof node, "/dev/%s", entry->d_name) < (int)sizeof node)
            ask_node(board, node);
    }
    if (folder)
        closedir(folder);
}

const mr_board_decoder *mr_board_decoder_for(const mr_board *board, const char *codec) {
    for (int i = 0; i < board->count; i++)
        if (strcmp(board->decoder[i].codec, codec) == 0)
            return &board->decoder[i];
    return NULL;
}
