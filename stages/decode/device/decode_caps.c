#include "stages/decode/device/decode_caps.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "engine/device/device.h"
#include "engine/device/open/open.h"
#include "engine/device/probe/gpu.h"
#include "millrace/status.h"

/* ---- answers, by GPU ------------------------------------------------------------------------------------------- */

/* Kept until the process ends: hardware capabilities do not change. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static mr_gpu_decoders *answers[MR_GPU_MOST];

static mr_gpu_decoders *ask(int index) {
    mr_gpu_access access;
    mr_gpu_decoders *found = mr_calloc(1, sizeof *found);
    mr_gpu_access_open(&access);
    if (found && mr_gpu_read_decoders(&access, index, found)) {
        mr_free(found);
        found = NULL;
    }
    mr_gpu_access_close(&access);
    return found;
}

/* NULL if it cannot be queried. */
static const mr_gpu_decoders *decoders_of(const char *device) {
    char text[MR_DEVICE_NAME];
    int index = -1;
    if (sscanf(mr_device_number(device, text), "cuda:%d", &index) != 1 || index < 0 || index >= MR_GPU_MOST)
        return NULL;
    MR_LOCKED(&lock);
    if (!answers[index])
        answers[index] = ask(index);
    return answers[index];
}

/* ---- one kind of stream ---------------------------------------------------------------------------------------- */

/* -1: NVDEC has no such chroma format. */
static int chroma_of(const mr_pixel_info *about) {
    if (about->planes == 1 && !about->rgb)
        return MR_GPU_MONO;
    if (about->chroma_w == 1)
        return about->chroma_h == 1 ? MR_GPU_420 : MR_GPU_422;
    return about->chroma_w == 0 && about->chroma_h == 0 ? MR_GPU_444 : -1;
}

static int check_pixel(const mr_gpu_decoders *decoders, const char *device, const mr_format_set *packets,
                       mr_pixel pixel) {
    static const char *const chromas[] = {"monochrome", "4:2:0", "4:2:2", "4:4:4"};
    const mr_pixel_info *about = mr_pixel_describe(pixel);
    int chroma = chroma_of(about);
    const mr_gpu_decoder *decoder =
        chroma < 0 ? NULL : mr_gpu_decoder_for(decoders, packets->codec, chroma, about->depth);
    int64_t width = packets->width.max, height = packets->height.max;
    if (!decoder || !decoder->supported)
        return mr_fail(MR_ERROR_UNAVAILABLE, "NVDEC of %s does not take %s %s of %d bits", device, packets->codec,
                       decoder ? chromas[chroma] : about->name, about->depth);
    if (width > decoder->max_width || height > decoder->max_height)
        return mr_fail(MR_ERROR_UNAVAILABLE, "NVDEC of %s takes %s of at most %ux%u, and it is %dx%d", device,
                       packets->codec, decoder->max_width, decoder->max_height, (int)width, (int)height);
    if (width && (width < decoder->min_width || height < decoder->min_height))
        return mr_fail(MR_ERROR_UNAVAILABLE, "NVDEC of %s takes %s of at least %ux%u, and it is %dx%d", device,
                       packets->codec, decoder->min_width, decoder->min_height, (int)width, (int)height);
    if (decoder->max_macroblocks && width * height / 256 > decoder->max_macroblocks)
        return mr_fail(MR_ERROR_UNAVAILABLE, "NVDEC of %s takes %s of at most %u macroblocks, and %dx%d are %d", device,
                       packets->codec, decoder->max_macroblocks, (int)width, (int)height, (int)(width * height / 256));
    return MR_OK;
}

/* If several layouts are possible, it suffices that one is supported: the pictures decide. */
int mr_decode_caps_check(const char *device, const mr_format_set *packets) {
    const mr_gpu_decoders *decoders = packets->codec && packets->pixels ? decoders_of(device) : NULL;
    int status = MR_OK;
    if (!decoders)
        return MR_OK;
    for (int pixel = MR_PIXEL_ANY + 1; pixel < MR_PIXEL_COUNT; pixel++)
        if (packets->pixels & MR_IN_SET(pixel) &&
            (status = check_pixel(decoders, device, packets, (mr_pixel)pixel)) == MR_OK)
            return MR_OK;
    return status;
}
