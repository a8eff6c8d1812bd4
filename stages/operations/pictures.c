/* preprocess for 1920x1080 pictures, with several layouts, sizes and interpolations. */
#include "kernels/preprocess/preprocess_enqueue.h"
#include "stages/operations/operation.h"

enum { WIDTH = 1920, HEIGHT = 1080 };

typedef struct picture_shape {
    mr_pixel pixel;
    mr_preprocess_params params;
} picture_shape;

static mr_format source_of(const picture_shape *shape) {
    return (mr_format){.payload = MR_PAYLOAD_PICTURE, .pixel = shape->pixel, .width = WIDTH, .height = HEIGHT};
}

/* The region's samples are read once (the whole picture unless the filter is `nearest`), and the tensor is written
 * once. */
static int open_picture(mr_operation_call *call) {
    const picture_shape *shape = call->type->shape;
    const mr_format source = source_of(shape), output = mr_preprocess_output(&shape->params);
    mr_preprocess *plan = NULL;
    mr_operation_region(call, MR_MEMORY_DEVICE, mr_packed_bytes(&source), MR_NOISE_BYTES);
    mr_operation_region(call, MR_MEMORY_DEVICE, mr_tensor_bytes(&output), MR_NOISE_NONE);
    int status = mr_preprocess_create(&plan, &shape->params, &source);
    if (status)
        return status;
    call->state = plan;
    call->bytes = mr_preprocess_read_bytes(plan) + (double)mr_tensor_bytes(&output);
    return MR_OK;
}

static int enqueue_picture(mr_operation_call *call, size_t set) {
    const picture_shape *shape = call->type->shape;
    const mr_format source = source_of(shape);
    mr_preprocess_work work = {.plan = call->state, .dst = mr_operation_at(call, set, 1)};
    mr_plane plane[MR_MAX_PLANES] = {0};
    mr_lay_out(&source, 1, mr_operation_at(call, set, 0), plane);
    for (int p = 0; p < MR_MAX_PLANES; p++) {
        work.source.data[p] = plane[p].data;
        work.source.stride[p] = plane[p].stride;
    }
    return mr_preprocess_enqueue(call->stream, &work, 1);
}

static void close_picture(mr_operation_call *call) {
    mr_preprocess *plan = call->state;
    mr_preprocess_destroy(&plan);
    call->state = NULL;
}

/* Default shape: bilinear and antialiased, stretched, to RGB f32 NCHW. */
#define PICTURE(label, shape_text, layout_in, side, ...)                                                               \
    {                                                                                                                  \
        .name = "preprocess-" label, .function = "mr_preprocess_enqueue", .works_on = shape_text,                      \
        .group = MR_OPERATION_KERNEL, .here = MR_HERE_ALL,                                                             \
        .shape = &(const picture_shape){.pixel = MR_PIXEL_##layout_in,                                                 \
                                        .params = {.width = side, .height = side, .crop_fraction = 1.0,                \
                                                   .mean = {127, 127, 127}, .std = {128, 128, 128}, __VA_ARGS__}},     \
        .open = open_picture, .enqueue = enqueue_picture, .close = close_picture                                       \
    }
#define SMOOTH .interpolation = MR_BILINEAR, .antialias = true
#define PLANAR_F32 .dtype = MR_DTYPE_F32, .layout = MR_LAYOUT_NCHW

const mr_operation_type mr_operation_pictures[] = {
    PICTURE("i420", "I420 1920x1080 to RGB f32 224x224, bilinear", I420, 224, SMOOTH, PLANAR_F32),
    PICTURE("nv12", "NV12 1920x1080 to RGB f32 224x224, bilinear", NV12, 224, SMOOTH, PLANAR_F32),
    PICTURE("p010", "P010 1920x1080 to RGB f32 224x224, bilinear", P010, 224, SMOOTH, PLANAR_F32),
    PICTURE("rgb24", "RGB24 1920x1080 to RGB f32 224x224, bilinear", RGB24, 224, SMOOTH, PLANAR_F32),
    PICTURE("boxed", "NV12 1920x1080 to RGB f16 640x640, letterbox, bilinear", NV12, 640, SMOOTH,
            .fit = MR_FIT_LETTERBOX, .dtype = MR_DTYPE_F16, .layout = MR_LAYOUT_NCHW),
    PICTURE("bicubic", "I420 1920x1080 to RGB f32 224x224, bicubic", I420, 224, .interpolation = MR_BICUBIC,
            .antialias = true, PLANAR_F32),
    PICTURE("area", "I420 1920x1080 to RGB u8 224x224 NHWC, area", I420, 224, .interpolation = MR_AREA,
            .dtype = MR_DTYPE_U8, .layout = MR_LAYOUT_NHWC),
    PICTURE("nearest", "I420 1920x1080 to RGB f32 224x224, nearest", I420, 224, .interpolation = MR_NEAREST,
            PLANAR_F32),
    PICTURE("gray", "I420 1920x1080 to gray u8 224x224, bilinear", I420, 224, SMOOTH, .gray = true,
            .dtype = MR_DTYPE_U8, .layout = MR_LAYOUT_NCHW),
    {0},
};
