/* Replaces libnvcuvid.so.1. The decoder on cuda:0 takes 8-bit H.264 4:2:0 from 48x16 to 4096x4096, with at most 65536
 * macroblocks. It also takes HEVC 4:2:0 and 4:4:4 with 8 and 10 bits, up to 8192x8192. The decoder on cuda:1 takes only
 * VC-1. A query must come from a thread with a current context.
 *
 * If FAKE_ALL is in the environment, each decoder takes all codecs, 4:2:0 with 8 and 10 bits.
 *
 * A decoder decodes nothing. In a 4:2:0 picture, all luma samples are the number of pictures decoded before; chroma
 * samples are 100 and 200. FAKE_SURFACES in the environment limits the surfaces that a decoder can have; the default is
 * 32. Memory that is not mapped is filled with noise. */
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/device/probe/gpu.h"

enum { VC1 = 3, H264 = 4, HEVC = 8, NO_CONTEXT = 201 };

int cuCtxGetCurrent(void **context);
int cuvidGetDecoderCaps(mr_nvdec_caps *caps);

static int takes(int device, const mr_nvdec_caps *caps) {
    if (getenv("FAKE_ALL"))
        return caps->chroma == MR_GPU_420 && caps->depth_minus_8 <= 2;
    if (device == 1)
        return caps->codec == VC1 && caps->chroma == MR_GPU_420 && caps->depth_minus_8 == 0;
    if (caps->codec == H264)
        return caps->chroma == MR_GPU_420 && caps->depth_minus_8 == 0;
    return caps->codec == HEVC && (caps->chroma == MR_GPU_420 || caps->chroma == MR_GPU_444) &&
           caps->depth_minus_8 <= 2;
}

int cuvidGetDecoderCaps(mr_nvdec_caps *caps) {
    void *context = NULL;
    if (cuCtxGetCurrent(&context) || !context)
        return NO_CONTEXT;
    caps->supported = (unsigned char)takes(*(const int *)context, caps);
    caps->min_width = 48;
    caps->min_height = 16;
    caps->max_width = caps->max_height = caps->codec == HEVC ? 8192 : 4096;
    caps->max_macroblocks = caps->max_width * caps->max_height / 256;
    return 0;
}

/* ---- decoders -------------------------------------------------------------------------------------------------- */

enum { INVALID_VALUE = 1, MOST_SURFACES = 32, NOT_MAPPED = 0xee };

/* CUVIDDECODECREATEINFO up to the fields that the fake needs. That header's ulong is C's. */
typedef struct creation {
    unsigned long width, height, surfaces;
    int codec, chroma;
    unsigned long flags, depth_minus_8;
} creation;

typedef struct decoder {
    unsigned width, height, sample_bytes, pitch;
    unsigned surfaces, decoded, mapped;
    unsigned number[MOST_SURFACES];
    uint8_t *memory[MOST_SURFACES];
} decoder;

static atomic_int refused, created, open_now, mapped_at_the_end;

/* For tests: refused decoders, surfaces in the last decoder, open decoders, and pictures still mapped when their
 * decoder was destroyed. */
int fake_nvdec_refused(void);
int fake_nvdec_surfaces(void);
int fake_nvdec_open(void);
int fake_nvdec_mapped(void);
int fake_nvdec_refused(void) {
    return refused;
}
int fake_nvdec_surfaces(void) {
    return created;
}
int fake_nvdec_open(void) {
    return open_now;
}
int fake_nvdec_mapped(void) {
    return mapped_at_the_end;
}

int cuvidCreateDecoder(decoder **made, const creation *wanted);
int cuvidDestroyDecoder(decoder *gone);
int cuvidDecodePicture(decoder *with, const int *picture);
int cuvidMapVideoFrame64(decoder *with, int index, unsigned long long *data, unsigned *pitch, const void *how);
int cuvidUnmapVideoFrame64(decoder *with, unsigned long long data);

static size_t picture_bytes(const decoder *d) {
    return (size_t)d->pitch * (d->height + (d->height + 1) / 2 + 2);
}

int cuvidCreateDecoder(decoder **made, const creation *wanted) {
    const char *most = getenv("FAKE_SURFACES");
    if (wanted->surfaces > (unsigned long)(most ? atoi(most) : MOST_SURFACES)) {
        refused++;
        return INVALID_VALUE;
    }
    decoder *d = calloc(1, sizeof *d);
    d->width = (unsigned)wanted->width;
    d->height = (unsigned)wanted->height;
    d->sample_bytes = wanted->depth_minus_8 ? 2 : 1;
    d->pitch = (d->width * d->sample_bytes + 255) / 256 * 256;
    d->surfaces = (unsigned)wanted->surfaces;
    for (unsigned i = 0; i < d->surfaces; i++) {
        d->memory[i] = malloc(picture_bytes(d));
        memset(d->memory[i], NOT_MAPPED, picture_bytes(d));
    }
    created = (int)d->surfaces;
    open_now++;
    *made = d;
    return 0;
}

int cuvidDestroyDecoder(decoder *gone) {
    mapped_at_the_end += (int)gone->mapped;
    for (unsigned i = 0; i < gone->surfaces; i++)
        free(gone->memory[i]);
    free(gone);
    open_now--;
    return 0;
}

/* CUVIDPICPARAMS begins with width and height in macroblocks, and the surface to decode into. */
int cuvidDecodePicture(decoder *with, const int *picture) {
    enum { SURFACE = 2 };
    if (picture[SURFACE] < 0 || (unsigned)picture[SURFACE] >= with->surfaces)
        return INVALID_VALUE;
    with->number[picture[SURFACE]] = with->decoded++;
    return 0;
}

/* 10-bit samples use the upper bits in 16. */
static void fill(uint8_t *row, const decoder *d, size_t bytes, unsigned first, unsigned second) {
    for (size_t i = 0; i < bytes / d->sample_bytes; i++) {
        unsigned value = i % 2 ? second : first;
        if (d->sample_bytes == 1)
            row[i] = (uint8_t)value;
        else
            ((uint16_t *)(void *)row)[i] = (uint16_t)(value << 8);
    }
}

int cuvidMapVideoFrame64(decoder *with, int index, unsigned long long *data, unsigned *pitch, const void *how) {
    if (index < 0 || (unsigned)index >= with->surfaces)
        return INVALID_VALUE;
    uint8_t *row = with->memory[index];
    size_t bytes = (size_t)with->width * with->sample_bytes;
    for (unsigned y = 0; y < with->height; y++, row += with->pitch)
        fill(row, with, bytes, with->number[index] & 255, with->number[index] & 255);
    for (unsigned y = 0; y < (with->height + 1) / 2; y++, row += with->pitch)
        fill(row, with, bytes, 100, 200);
    with->mapped++;
    *data = (unsigned long long)(uintptr_t)with->memory[index];
    *pitch = with->pitch;
    return 0;
}

int cuvidUnmapVideoFrame64(decoder *with, unsigned long long data) {
    if (!with->mapped)
        return INVALID_VALUE;
    with->mapped--;
    memset((void *)(uintptr_t)data, NOT_MAPPED, picture_bytes(with));
    return 0;
}

/* FFmpeg needs these symbols; nothing in millrace calls them. */
#define UNUSED(name)                                                                                                   \
    int name(void);                                                                                                    \
    int name(void) {                                                                                                   \
        return INVALID_VALUE;                                                                                          \
    }
UNUSED(cuvidCreateVideoParser)
UNUSED(cuvidCreateVideoSource)
UNUSED(cuvidCreateVideoSourceW)
UNUSED(cuvidCtxLock)
UNUSED(cuvidCtxLockCreate)
UNUSED(cuvidCtxLockDestroy)
UNUSED(cuvidCtxUnlock)
UNUSED(cuvidDestroyVideoParser)
UNUSED(cuvidDestroyVideoSource)
UNUSED(cuvidGetDecodeStatus)
UNUSED(cuvidGetSourceAudioFormat)
UNUSED(cuvidGetSourceVideoFormat)
UNUSED(cuvidGetVideoSourceState)
UNUSED(cuvidParseVideoData)
UNUSED(cuvidReconfigureDecoder)
UNUSED(cuvidSetVideoSourceState)
#undef UNUSED
