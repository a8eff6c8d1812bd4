/* The operations in kernels/paint and kernels/blur: boxes with labels, and hidden faces, on a 1920x1080 picture. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/memory.h"
#include "kernels/blur/blur.h"
#include "kernels/blur/blur_picture.h"
#include "kernels/paint/paint.h"
#include "millrace/status.h"
#include "stages/operations/operation.h"

enum { WIDTH = 1920, HEIGHT = 1080, BOXES = 20, BOX_WIDTH = 200, BOX_HEIGHT = 240, LINE = 3, LABEL_WIDTH = 160,
       LABEL_HEIGHT = 30, LETTERS = LABEL_WIDTH * LABEL_HEIGHT, FACES = 10, FACE = 120 };

/* ---- painting ---------------------------------------------------------------------------------------------------- */

/* An outline, the label's ground, and its letters: noise for all. */
typedef struct drawing {
    mr_paint_item items[3 * BOXES];
    uint8_t letters[LETTERS];
} drawing;

typedef struct painting {
    drawing host;
    void *device; /* the same there */
} painting;

static mr_paint_item item_of(mr_paint_kind kind, int32_t left, int32_t top, int32_t width, int32_t height) {
    return (mr_paint_item){.kind = (int32_t)kind, .left = left, .top = top, .right = left + width,
                           .bottom = top + height, .code = {128, 90, 200}, .opacity = 255};
}

/* Boxes stand at odd places, in four rows of five. */
static void fill(drawing *to) {
    for (int32_t i = 0; i < BOXES; i++) {
        const int32_t left = 21 + i % 5 * 370, top = 31 + i / 5 * 261;
        mr_paint_item *box = &to->items[3 * i];
        box[0] = item_of(MR_PAINT_RECTANGLE, left, top, BOX_WIDTH, BOX_HEIGHT);
        box[0].u[0] = left + LINE;
        box[0].u[1] = left + BOX_WIDTH - LINE;
        box[0].v[0] = top + LINE;
        box[0].v[1] = top + BOX_HEIGHT - LINE;
        box[1] = item_of(MR_PAINT_RECTANGLE, left, top - LABEL_HEIGHT, LABEL_WIDTH, LABEL_HEIGHT);
        box[2] = item_of(MR_PAINT_STENCIL, left, top - LABEL_HEIGHT, LABEL_WIDTH, LABEL_HEIGHT);
        box[2].columns = LABEL_WIDTH;
        box[2].rows = LABEL_HEIGHT;
        box[2].u[1] = box[2].v[2] = 1 << 16;
    }
    for (size_t i = 0; i < LETTERS; i++)
        to->letters[i] = (uint8_t)(i * 73 % 256);
}

/* Each covered sample is read and written; a pixel has one and a half. */
static int open_painting(mr_operation_call *call) {
    const mr_format format = {.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_I420, .width = WIDTH, .height = HEIGHT};
    const double covered = 2.0 * LINE * (BOX_WIDTH + BOX_HEIGHT - 2 * LINE) + 2.0 * LETTERS;
    painting *p = call->state = mr_calloc(1, sizeof *p);
    if (!p)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a drawing");
    fill(&p->host);
    mr_operation_region(call, MR_MEMORY_DEVICE, mr_packed_bytes(&format), MR_NOISE_BYTES);
    call->bytes = 2 * 1.5 * BOXES * covered;
    int status = mr_device_allocate(call->device, MR_MEMORY_DEVICE, sizeof p->host, &p->device);
    return status ? status : mr_stream_copy(call->stream, p->device, &p->host, sizeof p->host);
}

static int enqueue_painting(mr_operation_call *call, size_t set) {
    const painting *p = call->state;
    mr_frame frame = {.format = {.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_I420, .width = WIDTH,
                                 .height = HEIGHT}};
    mr_paint_work work;
    memset(&work, 0, sizeof work);
    mr_lay_out(&frame.format, 1, mr_operation_at(call, set, 0), frame.plane);
    work.target = mr_paint_target_of(&frame);
    work.items = p->device;
    work.stencils = (const uint8_t *)p->device + offsetof(drawing, letters);
    work.count = 3 * BOXES;
    work.right = WIDTH;
    work.bottom = HEIGHT;
    return mr_paint_enqueue(call->stream, &work);
}

static void close_painting(mr_operation_call *call) {
    painting *p = call->state;
    if (p && p->device)
        mr_device_free(call->device, MR_MEMORY_DEVICE, p->device);
    mr_free(p);
    call->state = NULL;
}

/* ---- hiding ------------------------------------------------------------------------------------------------------ */

/* The areas, with a copy in the device's memory. */
typedef struct hiding {
    mr_blur_areas *host;
    void *device;
} hiding;

static const mr_format hidden_in = {.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_I420, .width = WIDTH,
                                    .height = HEIGHT};

/* Each covered sample is read and written; a pixel has one and a half. */
static int open_hiding(mr_operation_call *call) {
    const size_t bytes = mr_blur_areas_bytes(FACES);
    hiding *h = call->state = mr_calloc(1, sizeof *h);
    if (!h || !(h->host = mr_calloc(1, bytes)))
        return mr_fail(MR_ERROR_MEMORY, "no memory for areas");
    for (int i = 0; i < FACES; i++) {
        const double corner[2] = {30 + i % 5 * 370, 30 + i / 5 * 500}, end[2] = {corner[0] + FACE, corner[1] + FACE};
        mr_blur_add(h->host, &hidden_in, MR_BLUR_CELLS, corner, end);
    }
    mr_operation_region(call, MR_MEMORY_DEVICE, mr_packed_bytes(&hidden_in), MR_NOISE_BYTES);
    mr_operation_region(call, MR_MEMORY_DEVICE, mr_blur_table_bytes(FACES), MR_NOISE_NONE);
    call->bytes = 2 * 1.5 * FACES * FACE * FACE;
    int status = mr_device_allocate(call->device, MR_MEMORY_DEVICE, bytes, &h->device);
    return status ? status : mr_stream_copy(call->stream, h->device, h->host, bytes);
}

static int enqueue_hiding(mr_operation_call *call, size_t set) {
    const hiding *h = call->state;
    mr_plane plane[MR_MAX_PLANES] = {0};
    mr_blur_work work;
    memset(&work, 0, sizeof work);
    mr_lay_out(&hidden_in, 1, mr_operation_at(call, set, 0), plane);
    mr_blur_describe(&work, &hidden_in, plane);
    work.how = MR_BLUR_GAUSSIAN;
    work.most = FACES;
    work.areas = h->device;
    work.table = mr_operation_at(call, set, 1);
    return mr_blur_enqueue(call->stream, &work);
}

static void close_hiding(mr_operation_call *call) {
    hiding *h = call->state;
    if (h && h->device)
        mr_device_free(call->device, MR_MEMORY_DEVICE, h->device);
    if (h)
        mr_free(h->host);
    mr_free(h);
    call->state = NULL;
}

const mr_operation_type mr_operation_drawings[] = {
    {.name = "paint", .function = "mr_paint_enqueue", .works_on = "20 boxes with labels on I420 1920x1080",
     .group = MR_OPERATION_KERNEL, .here = MR_HERE_ALL, .open = open_painting, .enqueue = enqueue_painting,
     .close = close_painting},
    {.name = "blur", .function = "mr_blur_enqueue", .works_on = "Gaussian, 10 faces of 120x120 on I420 1920x1080",
     .group = MR_OPERATION_KERNEL, .here = MR_HERE_ALL, .open = open_hiding, .enqueue = enqueue_hiding,
     .close = close_hiding},
    {0},
};
