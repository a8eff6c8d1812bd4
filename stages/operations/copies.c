/* Copies frames between host and device, and within a device. */
#include "stages/operations/operation.h"

/* A picture as a library or program delivers it: NV12, rows 2048 bytes apart with 1920 pixels; 1080 luma rows, half as
 * many chroma rows. */
enum { ROW = 1920, WIDE = 2048, ROWS = 1080 + 540 };
/* A network input with 3 x 224 x 224 floats, and results for 32 frames, 1000 floats each. */
enum { TENSOR = 3 * 224 * 224 * 4, RESULTS = 32 * 1000 * 4 };

int mr_operation_open_copy(mr_operation_call *call, size_t dst_bytes, size_t src_bytes, mr_noise noise) {
    const mr_operation_path path = call->type->path;
    mr_operation_region(call, path == MR_PATH_DOWNLOAD ? MR_MEMORY_PINNED : MR_MEMORY_DEVICE, dst_bytes,
                        MR_NOISE_NONE);
    mr_operation_region(call, path == MR_PATH_UPLOAD ? MR_MEMORY_PINNED : MR_MEMORY_DEVICE, src_bytes, noise);
    call->bytes = (path == MR_PATH_MEMORY ? 2.0 : 1.0) * (double)dst_bytes;
    return MR_OK;
}

int mr_operation_enqueue_copy(mr_operation_call *call, size_t set) {
    return mr_stream_copy(call->stream, mr_operation_at(call, set, 0), mr_operation_at(call, set, 1),
                          call->region[0].bytes);
}

/* Padding is not copied: each row has 1920 bytes. */
static int open_picture(mr_operation_call *call) {
    return mr_operation_open_copy(call, (size_t)ROW * ROWS, (size_t)WIDE * ROWS, MR_NOISE_BYTES);
}

static int enqueue_picture(mr_operation_call *call, size_t set) {
    return mr_stream_copy_rows(call->stream, mr_operation_at(call, set, 0), ROW, mr_operation_at(call, set, 1), WIDE,
                               ROW, ROWS);
}

static int open_tensor(mr_operation_call *call) {
    return mr_operation_open_copy(call, TENSOR, TENSOR, MR_NOISE_FLOATS);
}

static int open_results(mr_operation_call *call) {
    return mr_operation_open_copy(call, RESULTS, RESULTS, MR_NOISE_FLOATS);
}

#define COPY(label, to_do, shape_text, way, kinds, open_function, enqueue_function)                                    \
    {                                                                                                                  \
        .name = label, .function = to_do, .works_on = shape_text, .group = MR_OPERATION_COPY, .path = way,             \
        .here = kinds, .open = open_function, .enqueue = enqueue_function                                              \
    }

const mr_operation_type mr_operation_copies[] = {
    COPY("copy-picture", "mr_stream_copy_rows", "NV12 1920x1080 in rows of 2048 bytes, within the device",
         MR_PATH_MEMORY, MR_HERE_ALL, open_picture, enqueue_picture),
    COPY("upload-picture", "mr_stream_copy_rows", "NV12 1920x1080 in rows of 2048 bytes, pinned", MR_PATH_UPLOAD,
         MR_HERE_CARDS, open_picture, enqueue_picture),
    COPY("download-picture", "mr_stream_copy_rows", "NV12 1920x1080 in rows of 2048 bytes, pinned",
         MR_PATH_DOWNLOAD, MR_HERE_CARDS, open_picture, enqueue_picture),
    COPY("upload-tensor", "mr_stream_copy", "f32 3x224x224, pinned", MR_PATH_UPLOAD, MR_HERE_CARDS, open_tensor,
         mr_operation_enqueue_copy),
    COPY("download-results", "mr_stream_copy", "f32 32x1000, pinned", MR_PATH_DOWNLOAD, MR_HERE_CARDS, open_results,
         mr_operation_enqueue_copy),
    {0},
};
