/* tile: makes pictures of overlapping parts of a picture, so that a detector sees small objects in full size. They
 * share the memory of the whole picture. */
#include <math.h>

#include "stages/list.h"
#include "stages/objects/cascade/cutout.h"

typedef struct options {
    mr_size size;
    double overlap;
    bool whole;
} options;

/* A tile has at least this side, and a picture at most this number of tiles. */
enum { LEAST_SIDE = 32, MOST_TILES = 4096 };

static int negotiate(mr_negotiation *n) {
    static const mr_format_set pictures = {.payload = MR_PAYLOAD_PICTURE};
    const options *o = n->options;
    if (o->size.width < LEAST_SIDE || o->size.height < LEAST_SIDE)
        return mr_refuse(n, "size", "a tile has at least %dx%d pixels", LEAST_SIDE, LEAST_SIDE);
    mr_take(n, 0, &pictures, "tile cuts pictures");
    mr_cutout_plan(n);
    n->outputs[0].mean_pixels = (int64_t)o->size.width * o->size.height;
    int status = mr_promise_result(n, 0, mr_kind_objects(), NULL, NULL);
    if (!status)
        mr_promise_items(n, 0, 0);
    return status;
}

/* Tiles along one direction. */
typedef struct row {
    int32_t side, length, count; /* the tile's side, the picture's, and the number of tiles */
} row;

/* Chroma samples begin at multiples of this in all formats. */
enum { STEP = 4 };

static row row_of(int32_t length, int32_t side, double overlap) {
    row r = {.side = (side + STEP - 1) / STEP * STEP, .length = length, .count = 1};
    if (r.side >= length)
        return (row){length, length, 1};
    r.count += (int32_t)ceil((length - r.side) / (r.side * (1 - overlap)));
    return r;
}

/* Tiles are spread evenly. */
static int32_t start_of(const row *r, int32_t index) {
    const int64_t left = r->length - r->side;
    return r->count > 1 ? (int32_t)(left * index / (r->count - 1)) / STEP * STEP : 0;
}

static int32_t end_of(const row *r, int32_t index) {
    return index + 1 == r->count ? r->length : start_of(r, index) + r->side;
}

/* The part's own place goes along as its object. */
static int give(mr_io *io, const mr_frame *picture, const mr_cutout *part, uint32_t number) {
    double a[2], b[2];
    mr_frame *frame;
    mr_result *own;
    int status = mr_cutout_make(io, picture, part, number, &frame, &own);
    if (status)
        return status;
    mr_geometry_to_display(&frame->geometry, 0, 0, a);
    mr_geometry_to_display(&frame->geometry, frame->geometry.width, frame->geometry.height, b);
    *(mr_object *)own->data = (mr_object){
        .left = (float)(a[0] < b[0] ? a[0] : b[0]), .top = (float)(a[1] < b[1] ? a[1] : b[1]),
        .right = (float)(a[0] < b[0] ? b[0] : a[0]), .bottom = (float)(a[1] < b[1] ? b[1] : a[1]),
        .score = 1, .number = number};
    own->count = 1;
    return mr_io_emit(io, 0, frame);
}

static int process(mr_stage *self, mr_io *io) {
    const options *o = self->options;
    const mr_frame *picture = mr_io_input(io);
    const mr_format *format = &picture->format;
    const row across = row_of(format->width, o->size.width, o->overlap);
    const row down = row_of(format->height, o->size.height, o->overlap);
    const bool whole = o->whole && (across.count > 1 || down.count > 1);
    uint32_t given = 0;
    int status = MR_OK;
    if ((int64_t)across.count * down.count > MOST_TILES)
        return mr_fail(MR_ERROR_CONFIG, "a picture of %dx%d has %lld tiles of %dx%d, and at most %d are allowed: write "
                       "a larger size", format->width, format->height, (long long)across.count * down.count,
                       o->size.width, o->size.height, MOST_TILES);
    if (picture->flags & MR_FRAME_AWAY) {
        mr_io_end_objects(io, picture, 0, "away");
        return MR_OK;
    }
    for (int32_t y = 0; y < down.count && !status; y++)
        for (int32_t x = 0; x < across.count && !status; x++) {
            const mr_cutout part = {start_of(&across, x), start_of(&down, y), end_of(&across, x), end_of(&down, y)};
            status = give(io, picture, &part, ++given);
        }
    if (whole && !status)
        status = give(io, picture, &(mr_cutout){0, 0, format->width, format->height}, ++given);
    if (!status)
        mr_io_end_objects(io, picture, given, "tiled");
    return status;
}

#define FIELD(field) .name = #field, .offset = offsetof(options, field)
static const mr_option table[] = {
    {FIELD(size), .kind = MR_OPTION_SIZE, .fallback = "640x640", .min = 0, .max = 65536, .unit = "px",
     .example = "640x640", .help = "a tile's size, in stored pixels; a smaller picture is one tile"},
    {FIELD(overlap), .kind = MR_OPTION_DOUBLE, .fallback = "0.2", .min = 0, .max = 0.9, .example = "0.25",
     .help = "the least share of a tile that its neighbour has too; objects should fit into it"},
    {FIELD(whole), .kind = MR_OPTION_BOOL, .fallback = "true",
     .help = "the whole picture is one more tile, for objects larger than a tile"},
    MR_OPTIONS_END};
#undef FIELD

static const mr_format_set pictures[] = {{.payload = MR_PAYLOAD_PICTURE}, {.payload = MR_PAYLOAD_ANY}};
static const mr_port inputs[] = {{.name = "in", .help = "pictures"}, {0}};
static const mr_port outputs[] = {{.name = "out", .help = "pictures of the tiles", .accepts = pictures}, {0}};

const mr_stage_type mr_tile_stage = {
    .name = "tile",
    .summary = "makes pictures of overlapping parts of a picture",
    .help = "For small objects in large pictures: detect looks at each tile, and gather with merge: {} puts the "
            "objects of all tiles onto the frame. Tiles are spread evenly and begin at multiples of 4 pixels. No pixel "
            "is copied.",
    .inputs = inputs,
    .outputs = outputs,
    .options = table,
    .options_bytes = sizeof(options),
    .entry = MR_ENTRY_PER_SOURCE,
    .cascade = MR_CASCADE_SPLIT,
    .negotiate = negotiate,
    .process = process,
};
