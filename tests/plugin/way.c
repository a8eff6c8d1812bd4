/* A plugin that maps a frame's pixels to the source picture: `way` adds the frame's map, and where three grid corners
 * are in the displayed picture. */
#include <math.h>
#include <millrace/plugin.h>

enum { WAY = 10, SHOWN = 6 };

static mr_format numbers(int64_t count) {
    return mr_tensor_format(MR_DTYPE_F32, MR_LAYOUT_FLAT, 1, &count);
}

static int negotiate(mr_negotiation *n) {
    const mr_format way = numbers(WAY), shown = numbers(SHOWN);
    const mr_format_set of_way = mr_format_set_of(&way), of_shown = mr_format_set_of(&shown);
    n->outputs[0].follows = n->outputs[0].shares = 0;
    int status = mr_promise_result(n, 0, mr_kind_tensor(), "way", &of_way);
    return status ? status : mr_promise_result(n, 0, mr_kind_tensor(), "shown", &of_shown);
}

static void tell(const mr_geometry *g, float *way, float *shown) {
    const int32_t sizes[] = {g->width, g->height, g->source_width, g->source_height};
    const double corners[3][2] = {{0, 0}, {g->width, 0}, {0, g->height}};
    for (int i = 0; i < 3; i++) {
        double point[2];
        way[i] = (float)g->x[i];
        way[3 + i] = (float)g->y[i];
        mr_geometry_to_display(g, corners[i][0], corners[i][1], point);
        shown[2 * i] = (float)point[0];
        shown[2 * i + 1] = (float)point[1];
    }
    for (int i = 0; i < 4; i++)
        way[6 + i] = (float)sizes[i];
}

static int process(mr_stage *self, mr_io *io) {
    const mr_format way = numbers(WAY), shown = numbers(SHOWN);
    mr_frame *frame = NULL;
    void *of_way = NULL, *of_shown = NULL;
    (void)self;
    int status = mr_io_share(io, mr_io_input(io), &frame);
    if (!status)
        status = mr_io_add_tensor(io, frame, "way", &way, &of_way);
    if (!status)
        status = mr_io_add_tensor(io, frame, "shown", &shown, &of_shown);
    if (status) {
        mr_frame_unref(&frame);
        return status;
    }
    tell(&frame->geometry, of_way, of_shown);
    return mr_io_emit(io, 0, frame);
}

/* It looks at no pixel, so that pictures may be decoded at any size. */
static double shrinks(const void *options, const mr_format *output, const mr_format *picture) {
    (void)options;
    (void)output;
    (void)picture;
    return INFINITY;
}

static const mr_port in[] = {{.name = "in"}, {0}}, out[] = {{.name = "out"}, {0}};
static const mr_stage_type way_stage = {.name = "way", .summary = "tells where pixels lie in the source's picture",
    .inputs = in, .outputs = out, .shrinks = shrinks, .negotiate = negotiate, .process = process};
MR_PLUGIN("way", "1", &way_stage);
