/* blur: hides objects in pictures.
 *
 * The boxes may not be known before the device has done earlier work. So a host function on the stream finds the areas,
 * which are then copied to the device. What cannot be placed hides the whole picture. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "engine/device/device.h"
#include "kernels/blur/blur_picture.h"
#include "millrace/objects.h"
#include "stages/list.h"
#include "stages/wanted.h"

typedef struct options {
    mr_strings classes, stages;
    int how, shape;
    double margin;
    int64_t blocks, max;
} options;

/* With 3 blocks CenterFace finds nothing above 0.07 where a face was hidden in 93 stills, with 4 blocks up to 0.16; its
 * threshold is 0.2. */
enum { BLOCKS = 3 };

typedef enum reason { UNSEARCHED, CROWDED, LIMITED, LOST, UNPLACED, REASONS } reason;

typedef struct state {
    const mr_stage *self;
    atomic_uint_fast64_t whole[REASONS]; /* frames that were hidden whole */
} state;

/* mr_blur_how's. */
static const char *const hows[] = {"pixelate", "gaussian", "fill", NULL};
enum { SHAPE_BOX, SHAPE_ELLIPSE };
static const char *const shapes[] = {"box", "ellipse", NULL};

static const char *const reasons[REASONS] = {
    [UNSEARCHED] = "no stage had searched for objects",
    [CROWDED] = "there were more objects to hide than max",
    [LIMITED] = "a stage gave as many objects as its max allows, and may have left out others",
    [LOST] = "objects are missing: a stage left some out, or their pictures were lost in a cascade",
    [UNPLACED] = "it was not known where the boxes lie",
};

/* ---- planning ---------------------------------------------------------------------------------------------------- */

static int32_t cells_of(const options *o) {
    return o->how != MR_BLUR_PIXELATE ? MR_BLUR_CELLS : o->blocks ? (int32_t)o->blocks : BLOCKS;
}

static size_t scratch_bytes(const options *o) {
    return mr_blur_areas_bytes((size_t)o->max) + mr_blur_table_bytes((size_t)o->max);
}

/* A misspelt label would hide nothing. */
static int check_classes(mr_negotiation *n) {
    const mr_strings *classes = &((const options *)n->options)->classes;
    int status = MR_OK;
    for (size_t i = 0; i < classes->count && !status; i++)
        status = mr_wanted_objects_check(n, &(mr_strings){1, &classes->item[i]}, "it would never be hidden",
                                         "is never hidden");
    return status;
}

static int negotiate(mr_negotiation *n) {
    const options *o = n->options;
    if (o->how != MR_BLUR_PIXELATE && o->blocks)
        return mr_refuse(n, "blocks", "blocks has no meaning here; add how: pixelate or leave it out");
    if (!mr_planned_may_have(n, 0, mr_kind_objects()))
        return mr_refuse(n, NULL, "no frame that comes here has objects: join the pictures with what detect gives, "
                         "such as join: {pictures: decode, objects: detect}");
    if (check_classes(n))
        return MR_ERROR_CONFIG;
    mr_promise_changes(n, 0, 0);
    n->scratch_bytes = scratch_bytes(o);
    n->result_bytes = mr_blur_areas_bytes((size_t)o->max);
    n->work = (mr_planned_work){.launches = mr_blur_launches((mr_blur_how)o->how) + 1,
                                .unknown = "how much is hidden depends on the pictures"};
    return MR_OK;
}

static int open_stage(mr_stage *self) {
    ((state *)self->state)->self = self;
    return MR_OK;
}

static void close_stage(mr_stage *self) {
    state *s = self->state;
    for (int i = 0; i < REASONS; i++) {
        const unsigned long long count = atomic_load(&s->whole[i]);
        if (count)
            mr_stage_warn(self, "%llu picture%s hidden whole: %s", count, count == 1 ? " was" : "s were", reasons[i]);
    }
}

/* ---- areas ------------------------------------------------------------------------------------------------------- */

/* A call's arguments for the host function. The call holds the results until the work is done. */
typedef struct finding {
    state *state;
    const options *options;
    const mr_result *results;
    mr_blur_areas *areas;
    mr_geometry geometry;
    mr_format format;
} finding;

static void hide_whole(const finding *f, reason why) {
    const double corner[2] = {0, 0}, opposite[2] = {f->format.width, f->format.height};
    f->areas->count = 0;
    mr_blur_add(f->areas, &f->format, cells_of(f->options), corner, opposite);
    f->areas->item[0].whole = 1;
    if (!atomic_fetch_add(&f->state->whole[why], 1))
        mr_stage_warn(f->state->self, "a picture is hidden whole: %s", reasons[why]);
}

/* How far a box whose longer side is 1 grows on each side: both sides by as much, since the narrow box of a face in
 * profile leaves out the back of the head, which detectors then take for a face. The smallest ellipse around a square
 * is larger by the square root of 2. */
static double growth(const options *o) {
    return o->shape == SHAPE_ELLIPSE ? ((1 + 2 * o->margin) * sqrt(2) - 1) / 2 : o->margin;
}

/* Finds the smallest rectangle in the picture that contains the grown box, or the ellipse around it. */
static bool place(const finding *f, const mr_object *object, double corner[2], double opposite[2]) {
    const double grown = growth(f->options) * fmax((double)object->right - (double)object->left,
                                                   (double)object->bottom - (double)object->top);
    for (int i = 0; i < 4; i++) {
        double at[2];
        const double x = i & 1 ? (double)object->right + grown : (double)object->left - grown;
        const double y = i & 2 ? (double)object->bottom + grown : (double)object->top - grown;
        if (!mr_geometry_from_display(&f->geometry, x, y, at) || !isfinite(at[0]) || !isfinite(at[1]))
            return false;
        for (int k = 0; k < 2; k++) {
            corner[k] = i && corner[k] < at[k] ? corner[k] : at[k];
            opposite[k] = i && opposite[k] > at[k] ? opposite[k] : at[k];
        }
    }
    return true;
}

/* False: it has hidden the whole picture. */
static bool add_objects(const finding *f, const char *stage) {
    const mr_result *found = mr_result_find(f->results, mr_kind_objects(), stage);
    const mr_object *objects = found ? found->data : NULL;
    double corner[2], opposite[2];
    if (!found)
        return hide_whole(f, UNSEARCHED), false;
    if (found->cut)
        return hide_whole(f, LOST), false;
    for (size_t i = 0; i < found->count; i++) {
        if (!mr_wanted_class(&f->options->classes, objects[i].index, objects[i].label))
            continue;
        if (f->areas->count == f->options->max)
            return hide_whole(f, CROWDED), false;
        if (!place(f, &objects[i], corner, opposite))
            return hide_whole(f, UNPLACED), false;
        mr_blur_add(f->areas, &f->format, cells_of(f->options), corner, opposite);
    }
    return true;
}

/* Whether a detector gave so many objects that it may have left out others. */
static bool is_limited(const finding *f) {
    for (const mr_planned_result *one = f->state->self->inputs[0].results; one; one = one->next) {
        const mr_result *found = one->most ? mr_result_find(f->results, mr_kind_objects(), one->limited) : NULL;
        if (found && found->count >= one->most)
            return true;
    }
    return false;
}

static int find_areas(void *arguments) {
    const finding *f = arguments;
    const mr_strings *stages = &f->options->stages;
    f->areas->count = 0;
    if (is_limited(f)) {
        hide_whole(f, LIMITED);
        return MR_OK;
    }
    if (stages->count == 0)
        add_objects(f, NULL);
    for (size_t i = 0; i < stages->count; i++)
        if (!add_objects(f, stages->item[i]))
            break;
    return MR_OK;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* One call's memory. On the processors the areas are found where the kernel reads them. */
typedef struct call {
    mr_buffer *scratch, *found;
} call;

static int take_memory(const mr_stage *self, mr_io *io, call *c) {
    const options *o = self->options;
    int status = mr_io_scratch(io, scratch_bytes(o), &c->scratch);
    if (!status && mr_io_stream(io)->device->type->kind != MR_DEVICE_CPU)
        status = mr_io_results(io, mr_blur_areas_bytes((size_t)o->max), &c->found);
    return status;
}

static int hide(mr_stage *self, mr_io *io, const call *c, const mr_frame *frame) {
    const options *o = self->options;
    mr_stream *stream = mr_io_stream(io);
    const size_t bytes = mr_blur_areas_bytes((size_t)o->max);
    mr_buffer *found = c->found ? c->found : c->scratch;
    finding f;
    mr_blur_work work;
    memset(&f, 0, sizeof f);
    memset(&work, 0, sizeof work);
    f.state = self->state;
    f.options = o;
    f.results = mr_io_input(io)->results;
    f.areas = (mr_blur_areas *)(void *)found->data;
    f.geometry = frame->geometry;
    f.format = frame->format;
    work.how = o->how;
    work.ellipse = o->shape == SHAPE_ELLIPSE;
    work.most = (int32_t)o->max;
    work.areas = (const mr_blur_areas *)(const void *)c->scratch->data;
    work.table = (int32_t *)(void *)(c->scratch->data + bytes);
    mr_blur_describe(&work, &frame->format, frame->plane);
    int status = mr_stream_submit(stream, find_areas, &f, sizeof f);
    if (!status && c->found)
        status = mr_stream_copy(stream, c->scratch->data, c->found->data, bytes);
    return status ? status : mr_blur_enqueue(stream, &work);
}

/* A picture that only says its stream is away shows nobody. */
static int process(mr_stage *self, mr_io *io) {
    mr_frame *frame = NULL;
    call c = {0};
    int status = take_memory(self, io, &c);
    if (!status)
        status = mr_io_change(io, 0, mr_io_input(io), &frame);
    if (!status && !(frame->flags & MR_FRAME_AWAY))
        status = hide(self, io, &c, frame);
    mr_buffer_unref(&c.scratch);
    mr_buffer_unref(&c.found);
    return mr_io_finish(io, 0, frame, status);
}

#define FIELD(field) .name = #field, .offset = offsetof(options, field)
static const mr_option table[] = {
    {FIELD(classes), .kind = MR_OPTION_STRINGS, .example = "face",
     .help = "which objects to hide: labels, or class numbers; all by default"},
    {FIELD(how), .kind = MR_OPTION_ENUM, .fallback = "pixelate", .choices = hows,
     .help = "pixelate: square blocks of one colour; gaussian: a standard deviation of a quarter of the longer side; "
             "fill: black"},
    {FIELD(blocks), .kind = MR_OPTION_INT, .min = 1, .max = MR_BLUR_CELLS,
     .help = "pixelate: blocks along the longer side, at most; 3 by default. With more, detectors find some "
             "faces again"},
    {FIELD(shape), .kind = MR_OPTION_ENUM, .fallback = "box", .choices = shapes,
     .help = "what is hidden: the box with its margin, or an ellipse around that"},
    {FIELD(margin), .kind = MR_OPTION_DOUBLE, .fallback = "0.4", .min = 0, .max = 10,
     .help = "how far a box grows on each side, as a share of its longer side"},
    {FIELD(stages), .kind = MR_OPTION_STRINGS, .example = "detect",
     .help = "hide what these stages found; by default the objects of the last one"},
    {FIELD(max), .kind = MR_OPTION_INT, .fallback = "100", .min = 1, .max = 1000, .unit = "objects",
     .help = "most objects that are hidden one by one; a picture with more is hidden whole"},
    MR_OPTIONS_END};
#undef FIELD

static const mr_format_set pictures[] = {{.payload = MR_PAYLOAD_PICTURE}, {0}};
static const mr_port inputs[] = {{.name = "in", .help = "pictures with objects", .accepts = pictures}, {0}};
static const mr_port outputs[] = {
    {.name = "out", .help = "the same pictures, in which the objects cannot be recognized", .accepts = pictures}, {0}};

const mr_stage_type mr_blur_stage = {
    .name = "blur",
    .summary = "hides objects in pictures",
    .help = "Only the pixels of the objects change. Boxes are found in any picture that was made from the source's: "
            "turned, scaled or cropped. They are rounded outward to whole chroma samples. If a frame has no result of "
            "detect or track, has more objects than max, lost pictures of objects in a cascade with another detect, or "
            "does not say where it lies in the source's picture, it is hidden whole. Pictures that only say that a "
            "stream is away pass. `require: blurred` at the top of the pipeline refuses to let out any other picture.",
    .inputs = inputs,
    .outputs = outputs,
    .options = table,
    .options_bytes = sizeof(options),
    .state_bytes = sizeof(state),
    .entry = MR_ENTRY_STATELESS,
    .streams = true,
    .cuda = true,
    .ensures = "blurred",
    .negotiate = negotiate,
    .open = open_stage,
    .process = process,
    .close = close_stage,
};
