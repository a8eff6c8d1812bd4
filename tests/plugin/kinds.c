/* A plugin with result kinds: `find` adds boxes (elements) and heat (an array in a pool's buffer). `total` reads the
 * boxes through a second declaration, as another plugin would. */
#include <millrace/plugin.h>
#include <string.h>

typedef struct part {
    const char *name;
    int64_t at_ns;
    mr_items way, read;
} part;

/* The fields of a part. */
static const mr_field part_fields[] = {
    {.name = "name", .type = MR_FIELD_TEXT, .offset = offsetof(part, name), .help = "what it is"},
    {.name = "at", .type = MR_FIELD_TIME, .offset = offsetof(part, at_ns), .sparse = true, .help = "when it was seen"},
    {.name = "way", .type = MR_FIELD_I32S, .offset = offsetof(part, way), .help = "how to get there"},
    {.name = "read", .type = MR_FIELD_STRING, .offset = offsetof(part, read), .help = "what stands on it"},
    {0},
};

typedef struct box {
    float left;
    int32_t seen;
    bool sure;
    const char *label;
    int64_t at_ns;
    double area;
    mr_items outline, parts, note;
} box;

static const mr_field fields[] = {
    {.name = "left", .type = MR_FIELD_F32, .offset = offsetof(box, left), .unit = "px", .help = "its left edge"},
    {.name = "seen", .type = MR_FIELD_I32, .offset = offsetof(box, seen), .help = "how often it was seen"},
    {.name = "sure", .type = MR_FIELD_BOOL, .offset = offsetof(box, sure), .help = "whether it is one"},
    {.name = "name", .type = MR_FIELD_TEXT, .offset = offsetof(box, label), .help = "what it shows", .column = "shows"},
    {.name = "at", .type = MR_FIELD_TIME, .offset = offsetof(box, at_ns), .unit = "s", .help = "when it began"},
#ifndef OTHER_FIELDS
    {.name = "area", .type = MR_FIELD_F64, .offset = offsetof(box, area), .unit = "px", .help = "how large it is"},
#endif
    {.name = "outline", .type = MR_FIELD_F32S, .offset = offsetof(box, outline), .unit = "px", .help = "its corners"},
    {.name = "parts", .type = MR_FIELD_LIST, .offset = offsetof(box, parts), .help = "what it consists of",
     .fields = part_fields, .item_bytes = sizeof(part)},
    {.name = "note", .type = MR_FIELD_STRING, .offset = offsetof(box, note), .sparse = true, .help = "made for it"},
    {0},
};
static const mr_result_kind boxes = {
    .name = "boxes", .help = "what was found", .fields = fields, .element_bytes = sizeof(box)};
static const mr_result_kind same_boxes = {
    .name = "boxes", .help = "the same", .fields = fields, .element_bytes = sizeof(box)};
static const mr_result_kind heat = {.name = "heat", .help = "where it is warm", .on_device = true};
__attribute__((unused)) static const mr_result_kind *const kinds[] = {&boxes, &heat, NULL};

static mr_format heat_format(void) {
    static const int64_t four = 4;
    return mr_tensor_format(MR_DTYPE_U8, MR_LAYOUT_FLAT, 1, &four);
}

static int find_negotiate(mr_negotiation *n) {
    const mr_format format = heat_format();
    const mr_format_set set = mr_format_set_of(&format);
    n->outputs[0].follows = n->outputs[0].shares = 0;
    n->outputs[0].buffer_bytes = 4;
    int status = mr_promise_result(n, 0, &heat, "warm", &set);
    return status ? status : mr_promise_result(n, 0, &boxes, NULL, NULL);
}

/* As many parts as the frame's number, the last without a way. */
static int add_parts(mr_result *found, box *to, uint64_t seq) {
    const float outline[] = {0.25F, -1, (float)seq};
    const int32_t way[] = {-2, 1 << 20, (int32_t)seq};
    char note[] = "frame 0, \"\xc3\xa9\"";
    part parts[8];
    int status = mr_result_add_items(found, outline, 3, sizeof *outline, &to->outline);
    for (uint64_t i = 0; i < seq && !status; i++) {
        parts[i] = (part){.name = i % 2 ? "lid" : NULL, .at_ns = i ? (int64_t)i * 500000000 : MR_NO_TIME};
        status = mr_result_add_items(found, way, i + 1 < seq ? 3 : 0, sizeof *way, &parts[i].way);
        if (!status)
            status = mr_result_add_items(found, "top, side", i ? 9 : 3, 1, &parts[i].read);
    }
    if (!status)
        status = mr_result_add_items(found, parts, seq, sizeof *parts, &to->parts);
    note[6] = (char)('0' + seq);
    return status ? status : mr_result_add_items(found, note, strlen(note), 1, &to->note);
}

static int add_results(mr_io *io, mr_frame *frame, mr_buffer *buffer) {
    mr_result *found, *warm;
    const uint64_t seq = frame->identity.seq;
    int status = mr_io_add_result(io, frame, &heat, 0, &warm);
    if (!status)
        status = mr_io_add_result(io, frame, &boxes, 2, &found);
    if (status)
        return status;
    warm->name = "warm";
    warm->format = heat_format();
    warm->buffer = mr_buffer_ref(buffer);
    warm->data = memset(buffer->data, (int)seq, 4);
    box *to = (box *)found->data;
    to[0] = (box){(float)seq + 0.5F, (int32_t)seq - 3, seq % 2, "owl, \"grey\"", (int64_t)seq * 250000000, 0.1,
                  {0}, {0}, {0}};
    to[1] = (box){0, 0, true, NULL, MR_NO_TIME, 1e300, {0}, {0}, {0}};
    found->count = 2;
    return add_parts(found, to, seq);
}

static int find(mr_stage *self, mr_io *io) {
    mr_frame *frame = NULL;
    mr_buffer *buffer = NULL;
    (void)self;
    int status = mr_io_buffer(io, 0, 4, &buffer);
    if (!status)
        status = mr_io_share(io, mr_io_input(io), &frame);
    if (!status)
        status = add_results(io, frame, buffer);
    mr_buffer_unref(&buffer);
    return mr_io_finish(io, 0, frame, status);
}

static int total_negotiate(mr_negotiation *n) {
    n->outputs[0].follows = n->outputs[0].shares = 0;
    return MR_OK;
}

/* Drops frames whose boxes are not those that `find` gave. */
static int total(mr_stage *self, mr_io *io) {
    const mr_frame *frame = mr_io_input(io);
    const mr_result *found = mr_frame_result(frame, &same_boxes, "find");
    (void)self;
    if (found && found->count == 2 && ((const box *)found->data)->left == (float)frame->identity.seq + 0.5F)
        return mr_io_forward(io, 0);
    mr_io_drop(io, frame, "other boxes");
    return MR_DONE;
}

static const mr_port in[] = {{.name = "in"}, {0}}, out[] = {{.name = "out"}, {0}};
static const mr_stage_type find_stage = {.name = "find", .summary = "finds boxes and heat", .inputs = in,
    .outputs = out, .kinds = kinds, .negotiate = find_negotiate, .process = find};
static const mr_stage_type total_stage = {.name = "total", .summary = "checks boxes", .inputs = in, .outputs = out,
    .negotiate = total_negotiate, .process = total};
MR_PLUGIN("kinds", "1", &find_stage, &total_stage);
