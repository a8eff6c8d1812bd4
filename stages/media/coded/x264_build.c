#include "stages/media/coded/x264_build.h"

#include <stdio.h>
#include <string.h>

#include "stages/media/coded/nal.h"

enum { SLICE = 1, IDR = 5, SEI = 6, UNREGISTERED = 5 };

/* User messages begin with a 16-byte number, which libavcodec ignores. Like libavcodec, reads build 0000 as 67. */
static int32_t read_build(mr_bits *bits, int64_t bytes) {
    enum { NUMBER = 16, MOST = 32 };
    char text[MOST] = "";
    int build = 0;
    for (int64_t i = 0; i < bytes && !bits->short_of; i++) {
        const unsigned byte = mr_bits_read(bits, 8);
        if (i >= NUMBER && i < NUMBER + MOST - 1)
            text[i - NUMBER] = (char)byte;
    }
    if (sscanf(text, "x264 - core %9d", &build) != 1)
        return 0;
    return build == 1 && strncmp(text, "x264 - core 0000", NUMBER) == 0 ? 67 : build > 0 ? build : 0;
}

static int32_t read_messages(mr_nal one) {
    mr_bits bits = {.data = one.data, .bytes = one.bytes, .at = 8, .escaped = true};
    int32_t build = 0;
    for (int64_t bytes; !build && (bytes = mr_nal_find_message(&bits, UNREGISTERED)) >= 0;)
        build = read_build(&bits, bytes);
    return build;
}

/* Messages precede slices. */
int32_t mr_x264_build(const AVCodecParameters *codec, const uint8_t *data, size_t bytes) {
    if (codec->codec_id != AV_CODEC_ID_H264 || !data)
        return 0;
    mr_nals from = {data, data + bytes,
                    mr_nal_read_header(false, codec->extradata, (size_t)codec->extradata_size, NULL, NULL)};
    int32_t build = 0;
    for (mr_nal one; !build && mr_nal_next(&from, &one);) {
        const int type = one.bytes ? one.data[0] & 31 : 0;
        if (type >= SLICE && type <= IDR)
            break;
        if (type == SEI)
            build = read_messages(one);
    }
    return build;
}
