/* A stage type with a new result kind: the box around all bright pixels of a picture. */
#include <millrace/plugin.h>

/* One element of a result. */
typedef struct box {
    int32_t left, top, width, height;
    float share;
} box;

/* The fields of an element. Records in JSON, CSV and protobuf, cuts and `verify` all use this table. */
static const mr_field fields[] = {
    {.name = "left", .type = MR_FIELD_I32, .offset = offsetof(box, left), .unit = "px", .help = "its left edge"},
    {.name = "top", .type = MR_FIELD_I32, .offset = offsetof(box, top), .unit = "px", .help = "its upper edge"},
    {.name = "width", .type = MR_FIELD_I32, .offset = offsetof(box, width), .unit = "px", .help = "its width"},
    {.name = "height", .type = MR_FIELD_I32, .offset = offsetof(box, height), .unit = "px", .help = "its height"},
    {.name = "share", .type = MR_FIELD_F32, .offset = offsetof(box, share), .help = "of its pixels that are bright"},
    {.name = NULL},
};
static const mr_result_kind boxes = {
    .name = "bright", .help = "boxes around bright pixels", .fields = fields, .element_bytes = sizeof(box)};
static const mr_result_kind *const kinds[] = {&boxes, NULL};

static int negotiate(mr_negotiation *negotiation) {
    negotiation->outputs[0].follows = negotiation->outputs[0].shares = 0;
    return mr_promise_result(negotiation, 0, &boxes, NULL, NULL);
}

/* Returns the number of bright pixels; sets *around to the smallest box that contains them all. */
static int64_t find(const mr_frame *picture, box *around) {
    enum { BRIGHT = 200 };
    int32_t left = picture->format.width, right = -1, top = -1, bottom = -1;
    int64_t count = 0;
    for (int32_t y = 0; y < picture->format.height; y++) {
        const uint8_t *row = picture->plane[0].data + y * picture->plane[0].stride;
        for (int32_t x = 0; x < picture->format.width; x++) {
            if (row[x] < BRIGHT)
                continue;
            count++;
            left = x < left ? x : left;
            right = x > right ? x : right;
            top = top < 0 ? y : top;
            bottom = y;
        }
    }
    *around = (box){.left = left, .top = top, .width = right - left + 1, .height = bottom - top + 1};
    around->share = count ? (float)((double)count / ((double)around->width * around->height)) : 0;
    return count;
}

/* Every frame gets a result, even an empty one. So consumers can tell a frame without a box from one that no stage
 * examined. */
static int process(mr_stage *self, mr_io *io) {
    mr_frame *output = NULL;
    mr_result *result = NULL;
    (void)self;
    int status = mr_io_share(io, mr_io_input(io), &output);
    if (!status)
        status = mr_io_add_result(io, output, &boxes, 1, &result);
    if (status) {
        mr_frame_unref(&output);
        return status;
    }
    result->count = find(output, result->data) > 0;
    return mr_io_emit(io, 0, output);
}

static const mr_format_set pictures[] = {
    {.payload = MR_PAYLOAD_PICTURE, .pixels = MR_IN_SET(MR_PIXEL_GRAY8) | MR_IN_SET(MR_PIXEL_I420)}, {0}};
static const mr_port inputs[] = {{.name = "in", .accepts = pictures}, {0}};
static const mr_port outputs[] = {{.name = "out", .accepts = pictures}, {0}};

static const mr_stage_type bright_stage = {
    .name = "bright",
    .summary = "adds a box around all bright pixels of each picture",
    .inputs = inputs,
    .outputs = outputs,
    .kinds = kinds,
    .entry = MR_ENTRY_STATELESS,
    .negotiate = negotiate,
    .process = process,
};

MR_PLUGIN("bright", "1.0", &bright_stage);
