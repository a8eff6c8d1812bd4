/* A device's limits: memory, arithmetic, host link, and launching work. */
#include "kernels/ceiling/ceiling.h"
#include "kernels/vector/vector.h"
#include "stages/operations/operation.h"

enum { ARRAY = 64 << 20 }; /* bytes */

/* Each word is read; a single one is written. */
static int open_read(mr_operation_call *call) {
    mr_operation_region(call, MR_MEMORY_DEVICE, ARRAY, MR_NOISE_BYTES);
    mr_operation_region(call, MR_MEMORY_DEVICE, sizeof(uint32_t), MR_NOISE_NONE);
    call->bytes = ARRAY + sizeof(uint32_t);
    return MR_OK;
}

static int enqueue_read(mr_operation_call *call, size_t set) {
    const mr_read_work work = {mr_operation_at(call, set, 0), mr_operation_at(call, set, 1),
                               ARRAY / sizeof(uint32_t)};
    return mr_read_enqueue(call->stream, &work);
}

/* Two floats are read and one is written. */
static int open_triad(mr_operation_call *call) {
    for (int i = 0; i < 3; i++)
        mr_operation_region(call, MR_MEMORY_DEVICE, ARRAY, i == 0 ? MR_NOISE_NONE : MR_NOISE_FLOATS);
    call->bytes = 3.0 * ARRAY;
    return MR_OK;
}

static int enqueue_triad(mr_operation_call *call, size_t set) {
    const mr_triad_work work = {mr_operation_at(call, set, 0), mr_operation_at(call, set, 1),
                                mr_operation_at(call, set, 2), ARRAY / sizeof(float)};
    return mr_triad_enqueue(call->stream, &work);
}

static int open_copy(mr_operation_call *call) {
    return mr_operation_open_copy(call, ARRAY, ARRAY, MR_NOISE_BYTES);
}

/* A square product of `side`: each result is a sum over `side` products, so 2 side^3. Two factors are read, and the
 * product is written. It must be large enough that memory cannot bind: 2 side^3 / (12 side^2) = side / 6 per byte. A
 * card needs a larger product than a core to be fully busy. */
static int side_of(const mr_operation_call *call) {
    return call->device->type->kind == MR_DEVICE_CUDA ? 8192 : 1024;
}

static int open_gemm(mr_operation_call *call) {
    const double side = side_of(call);
    for (int i = 0; i < 3; i++)
        mr_operation_region(call, MR_MEMORY_DEVICE, (size_t)(side * side) * sizeof(float),
                            i == 2 ? MR_NOISE_NONE : MR_NOISE_FLOATS);
    call->bytes = 3 * side * side * sizeof(float);
    call->flops = 2 * side * side * side;
    return MR_OK;
}

static int enqueue_gemm(mr_operation_call *call, size_t set) {
    const int side = side_of(call);
    const mr_linear_work work = {
        .weights = mr_operation_at(call, set, 0), .weight_stride = (size_t)side, .outputs = side, .inputs = side,
        .batch = side, .src = mr_operation_at(call, set, 1), .src_stride = (size_t)side,
        .dst = mr_operation_at(call, set, 2), .dst_stride = (size_t)side,
    };
    return mr_linear_enqueue(call->stream, &work);
}

static int open_launch(mr_operation_call *call) {
    return MR_OK;
}

static int enqueue_launch(mr_operation_call *call, size_t set) {
    return mr_nothing_enqueue(call->stream);
}

const mr_operation_type mr_operation_ceilings[] = {
    {.name = "read", .function = "mr_read_enqueue", .works_on = "a sum of 64 MiB", .here = MR_HERE_ALL,
     .open = open_read, .enqueue = enqueue_read},
    {.name = "triad", .function = "mr_triad_enqueue", .works_on = "a = b + 3 c, 64 MiB each", .here = MR_HERE_ALL,
     .open = open_triad, .enqueue = enqueue_triad},
    {.name = "copy", .function = "mr_stream_copy", .works_on = "64 MiB within the device", .here = MR_HERE_ALL,
     .open = open_copy, .enqueue = mr_operation_enqueue_copy},
    {.name = "gemm", .function = "mr_linear_enqueue", .works_on = "f32 1024x1024x1024; on a GPU 8192x8192x8192",
     .here = MR_HERE_ALL, .open = open_gemm, .enqueue = enqueue_gemm},
    {.name = "upload", .function = "mr_stream_copy", .works_on = "64 MiB from pinned memory", .path = MR_PATH_UPLOAD,
     .here = MR_HERE_CARDS, .open = open_copy, .enqueue = mr_operation_enqueue_copy},
    {.name = "download", .function = "mr_stream_copy", .works_on = "64 MiB to pinned memory",
     .path = MR_PATH_DOWNLOAD, .here = MR_HERE_CARDS, .open = open_copy, .enqueue = mr_operation_enqueue_copy},
    {.name = "launch", .function = "mr_nothing_enqueue", .works_on = "nothing", .here = MR_HERE_ALL,
     .open = open_launch, .enqueue = enqueue_launch},
    {0},
};
