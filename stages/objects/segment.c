/* segment: objects from a segmentation network's output, one for each class that a picture shows. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/memory.h"
#include "stages/list.h"
#include "stages/model/labels.h"
#include "stages/named_tensor.h"
#include "stages/objects/place.h"
#include "stages/wanted.h"

typedef struct options {
    const char *tensor, *labels;
    mr_strings classes;
    int channels;
    double least;
    mr_strings without;
} options;

/* The cells of a class: how many, their edges, and the sum of their scores. */
typedef struct area {
    int32_t cells, left, top, right, bottom;
    double score;
} area;

/* Of one source. */
typedef struct state {
    mr_labels labels;
    int32_t *map;   /* a class for each cell */
    float *score;
    area *areas;    /* of all classes */
    float *numbers; /* a mask */
    size_t cells, classes;
} state;

enum { CHANNELS_FIRST, CHANNELS_LAST };
static const char *const channels[] = {"first", "last", NULL};
/* A map has at most this side, and a network this number of classes. */
enum { MOST_SIDE = 4096, MOST_CLASSES = 4096 };

/* ---- planning ---------------------------------------------------------------------------------------------------- */

static int refuse_count(const options *o, size_t labels, size_t classes) {
    return mr_fail(MR_ERROR_CONFIG, "%s has %zu labels, and the network has %zu classes", o->labels, labels, classes);
}

/* `tensor`: as planned; NULL: not known. */
static int check_labels(const options *o, const mr_labels *labels, const mr_planned_result *tensor) {
    if (!tensor || !labels->count || tensor->set.rank != 3)
        return MR_OK;
    const mr_bounds *classes = &tensor->set.dims[o->channels == CHANNELS_LAST ? 2 : 0];
    return classes->max && classes->min == classes->max && (size_t)classes->max != labels->count
               ? refuse_count(o, labels->count, (size_t)classes->max)
               : MR_OK;
}

static int negotiate(mr_negotiation *n) {
    const options *o = n->options;
    mr_labels labels = {0};
    n->outputs[0].follows = n->outputs[0].shares = 0;
    n->unread = n->offline;
    int status = mr_promise_result(n, 0, mr_kind_objects(), NULL, NULL);
    if (status || n->offline)
        return status;
    if (!mr_planned_tensor(&n->inputs[0], o->tensor) && !n->inputs[0].more_results)
        return mr_refuse(n, o->tensor ? "tensor" : NULL, "no tensor%s%s comes from %s: put infer with a segmentation "
                         "network before it", o->tensor ? " called " : "", o->tensor ? o->tensor : "",
                         n->inputs[0].from);
    status = o->labels ? mr_labels_read(o->labels, &labels) : MR_OK;
    if (!status)
        status = check_labels(o, &labels, mr_planned_tensor(&n->inputs[0], o->tensor));
    mr_labels_free(&labels);
    return status ? mr_refuse_status(n, status, "labels", "%s", mr_message()) : MR_OK;
}

static int open_stage(mr_stage *self) {
    const options *o = self->options;
    return o->labels ? mr_labels_read(o->labels, &((state *)self->state)->labels) : MR_OK;
}

static void close_stage(mr_stage *self) {
    state *s = self->state;
    mr_labels_free(&s->labels);
    mr_free(s->map);
    mr_free(s->score);
    mr_free(s->areas);
    mr_free(s->numbers);
}

/* ---- the map ----------------------------------------------------------------------------------------------------- */

/* A tensor's sizes, and the distances between its numbers. classes 0: the numbers are classes. */
typedef struct layout {
    int32_t width, height, classes;
    size_t cell, channel;
} layout;

/* False: it is no map. Leading dimensions of 1 do not count. */
static bool lay_out(const options *o, const mr_format *format, layout *to) {
    const int64_t *dims = format->dims;
    int32_t rank = format->rank;
    for (; rank > 2 && *dims == 1; rank--)
        dims++;
    const bool last = rank == 3 && o->channels == CHANNELS_LAST;
    const int64_t *side = rank == 3 && !last ? dims + 1 : dims;
    const int64_t classes = rank == 3 ? dims[last ? 2 : 0] : 0;
    if (rank < 2 || rank > 3 || side[0] < 1 || side[0] > MOST_SIDE || side[1] < 1 || side[1] > MOST_SIDE ||
        (rank == 3 && classes < 1) || classes > MOST_CLASSES || (rank == 3 && format->dtype != MR_DTYPE_F32))
        return false;
    *to = (layout){(int32_t)side[1], (int32_t)side[0], (int32_t)classes, last ? (size_t)classes : 1,
                   last ? 1 : (size_t)(side[0] * side[1])};
    return rank == 3 || format->dtype == MR_DTYPE_F32 || format->dtype == MR_DTYPE_I32 ||
           format->dtype == MR_DTYPE_I64 || format->dtype == MR_DTYPE_U8;
}

static int make_room(state *s, size_t cells, size_t classes) {
    if (cells > s->cells) {
        mr_free(s->map);
        mr_free(s->score);
        mr_free(s->numbers);
        s->cells = 0;
        s->map = mr_alloc(cells * sizeof *s->map);
        s->score = mr_alloc(cells * sizeof *s->score);
        s->numbers = mr_alloc(sizeof(mr_box_mask) + (cells + 31) / 32 * sizeof(uint32_t));
        s->cells = s->map && s->score && s->numbers ? cells : 0;
    }
    if (classes > s->classes) {
        mr_free(s->areas);
        s->areas = mr_alloc(classes * sizeof *s->areas);
        s->classes = s->areas ? classes : 0;
    }
    return s->cells >= cells && s->classes >= classes ? MR_OK
                                                      : mr_fail(MR_ERROR_MEMORY, "no memory for a map of classes");
}

/* The best class of a cell; of equal ones, the first. A number that is not finite never is. */
static void find_best(const float *values, const layout *l, int32_t *best, float *score) {
    double sum = 0;
    *best = -1;
    for (int32_t c = 0; c < l->classes; c++) {
        const float value = values[(size_t)c * l->channel];
        if (isfinite(value) && (*best < 0 || value > values[(size_t)*best * l->channel]))
            *best = c;
    }
    for (int32_t c = 0; c < l->classes && *best >= 0; c++) {
        const float value = values[(size_t)c * l->channel];
        sum += isfinite(value) ? (double)expf(value - values[(size_t)*best * l->channel]) : 0;
    }
    *score = *best < 0 ? 0 : (float)(1 / sum);
}

/* A class that the network chose itself; -1: the number is none. */
static int32_t class_at(const mr_result *tensor, size_t cell) {
    const double number = tensor->format.dtype == MR_DTYPE_I64   ? (double)((const int64_t *)tensor->data)[cell]
                          : tensor->format.dtype == MR_DTYPE_I32 ? (double)((const int32_t *)tensor->data)[cell]
                          : tensor->format.dtype == MR_DTYPE_U8  ? (double)((const uint8_t *)tensor->data)[cell]
                                                                 : (double)((const float *)tensor->data)[cell];
    return number >= 0 && number < MOST_CLASSES ? (int32_t)number : -1;
}

static void read_map(state *s, const mr_result *tensor, const layout *l) {
    const size_t cells = (size_t)l->width * (size_t)l->height;
    for (size_t i = 0; i < cells; i++) {
        if (l->classes)
            find_best((const float *)tensor->data + i * l->cell, l, &s->map[i], &s->score[i]);
        else
            s->map[i] = class_at(tensor, i);
        s->score[i] = l->classes ? s->score[i] : 1;
    }
}

static void measure(state *s, const layout *l, size_t classes) {
    for (size_t i = 0; i < classes; i++)
        s->areas[i] = (area){.left = l->width, .top = l->height};
    for (int32_t y = 0, i = 0; y < l->height; y++)
        for (int32_t x = 0; x < l->width; x++, i++) {
            if (s->map[i] < 0)
                continue;
            area *one = &s->areas[s->map[i]];
            one->cells++;
            one->score += (double)s->score[i];
            one->left = x < one->left ? x : one->left;
            one->right = x + 1 > one->right ? x + 1 : one->right;
            one->top = y < one->top ? y : one->top;
            one->bottom = y + 1 > one->bottom ? y + 1 : one->bottom;
        }
}

/* ---- objects ----------------------------------------------------------------------------------------------------- */

static const char *label_of(const state *s, int32_t index) {
    return (size_t)index < s->labels.count ? s->labels.item[index] : NULL;
}

static void make_mask(const state *s, const layout *l, const area *from, int32_t index) {
    mr_box_mask *mask = (mr_box_mask *)(void *)s->numbers;
    const int32_t width = from->right - from->left, height = from->bottom - from->top;
    mask->width = width;
    mask->height = height;
    memset(mask->bits, 0, ((size_t)width * (size_t)height + 31) / 32 * sizeof *mask->bits);
    for (int32_t y = 0, bit = 0; y < height; y++)
        for (int32_t x = 0; x < width; x++, bit++)
            if (s->map[(from->top + y) * l->width + from->left + x] == index)
                mask->bits[bit / 32] |= 1u << bit % 32;
}

/* The map lies over the network's input. */
static mr_geometry way_of(const mr_frame *frame, const layout *l) {
    const mr_geometry way = frame->geometry, cells = {
        .x = {way.width / (double)l->width, 0, 0}, .y = {0, way.height / (double)l->height, 0}, .width = l->width,
        .height = l->height};
    if (way.width)
        return mr_geometry_chain(&cells, &way);
    return (mr_geometry){.x = {1, 0, 0}, .y = {0, 1, 0}, .width = l->width, .height = l->height,
                         .source_width = l->width, .source_height = l->height};
}

static int add_object(const state *s, const layout *l, const mr_geometry *way, int32_t index, mr_result *result) {
    const area *from = &s->areas[index];
    const mr_box_head head = {.kind = MR_BOX_MASK, .width = l->width, .height = l->height};
    const mr_box box = {.left = (float)from->left, .top = (float)from->top, .right = (float)from->right,
                        .bottom = (float)from->bottom};
    mr_object *object = (mr_object *)result->data + result->count;
    *object = (mr_object){.score = (float)(from->score / from->cells), .index = index, .label = label_of(s, index),
                          .number = (int64_t)result->count + 1};
    const mr_object_attribute share = {.stage = result->stage, .label = "share",
                                       .score = (float)from->cells / (float)l->width / (float)l->height};
    make_mask(s, l, from, index);
    if (!mr_object_place(way, &head, &box, s->numbers, result, object))
        return MR_OK;
    result->count++;
    return mr_result_add_items(result, &share, 1, sizeof share, &object->attributes);
}

static bool is_shown(const options *o, const state *s, const layout *l, int32_t index) {
    const char *label = label_of(s, index);
    const double share = (double)s->areas[index].cells / l->width / l->height;
    return share > 0 && share >= o->least && mr_wanted_class(&o->classes, index, label) &&
           !(o->without.count && mr_wanted_class(&o->without, index, label));
}

/* For sorting: results are sorted by score. */
static int compare(const void *one, const void *other) {
    const mr_object *a = one, *b = other;
    return a->score != b->score ? (a->score > b->score ? -1 : 1) : (a->index > b->index) - (a->index < b->index);
}

static int publish(const options *o, state *s, mr_io *io, mr_frame *frame, const layout *l, size_t classes) {
    const mr_geometry way = way_of(frame, l);
    size_t shown = 0;
    mr_result *result;
    for (size_t i = 0; i < classes; i++)
        shown += is_shown(o, s, l, (int32_t)i);
    int status = mr_io_add_result(io, frame, mr_kind_objects(), shown, &result);
    for (size_t i = 0; i < classes && !status; i++)
        if (is_shown(o, s, l, (int32_t)i))
            status = add_object(s, l, &way, (int32_t)i, result);
    if (!status && result->count)
        qsort(result->data, result->count, sizeof(mr_object), compare);
    for (size_t i = 0; !status && i < result->count; i++)
        ((mr_object *)result->data)[i].number = (int64_t)i + 1;
    return status;
}

static int segment(const mr_stage *self, mr_io *io, mr_frame *frame) {
    const options *o = self->options;
    state *s = self->state;
    const mr_result *tensor = mr_frame_tensor(frame, o->tensor);
    char shape[MR_FORMAT_TEXT];
    layout l;
    if (!tensor)
        return mr_fail(MR_ERROR_DATA, "a frame of %s has no tensor%s%s", self->inputs[0].from, o->tensor ? " " : "",
                       o->tensor ? o->tensor : "");
    if (!lay_out(o, &tensor->format, &l))
        return mr_fail(MR_ERROR_DATA, "a frame of %s has a %s, and not a map: f32 classes x height x width (or classes "
                       "last), or height x width with a class for each cell", self->inputs[0].from,
                       mr_format_print(&tensor->format, shape, sizeof shape));
    const size_t classes = l.classes ? (size_t)l.classes : MOST_CLASSES;
    if (l.classes && s->labels.count && s->labels.count != classes)
        return refuse_count(o, s->labels.count, classes);
    int status = make_room(s, (size_t)l.width * (size_t)l.height, classes);
    if (status)
        return status;
    read_map(s, tensor, &l);
    measure(s, &l, classes);
    return publish(o, s, io, frame, &l, classes);
}

/* A picture that only says its stream is away gets no objects. */
static int process(mr_stage *self, mr_io *io) {
    mr_frame *frame = NULL;
    int status = mr_io_share(io, mr_io_input(io), &frame);
    if (!status && !(frame->flags & MR_FRAME_AWAY))
        status = segment(self, io, frame);
    return mr_io_finish(io, 0, frame, status);
}

#define FIELD(field) .name = #field, .offset = offsetof(options, field)
static const mr_option table[] = {
    {FIELD(tensor), .kind = MR_OPTION_STRING, .example = "logits",
     .help = "the infer tensor with the map; if not given, the newest one"},
    {FIELD(channels), .kind = MR_OPTION_ENUM, .fallback = "first", .choices = channels,
     .help = "where the classes stand: classes x height x width, or height x width x classes"},
    {FIELD(labels), .kind = MR_OPTION_PATH, .file = MR_FILE_READ, .named = ".txt", .example = "models/ade20k.txt",
     .help = "a text file with one class label per line, or an ONNX file with labels in its metadata"},
    {FIELD(classes), .kind = MR_OPTION_STRINGS, .example = "[road, person]",
     .help = "classes to keep, by label or number; if not given, all"},
    {FIELD(without), .kind = MR_OPTION_STRINGS, .example = "[0]",
     .help = "classes to leave out, such as the background, by label or number"},
    {FIELD(least), .kind = MR_OPTION_DOUBLE, .fallback = "0.001", .min = 0, .max = 1, .example = "0.01",
     .help = "the least share of the map that a class must cover"},
    MR_OPTIONS_END};
#undef FIELD

static const mr_port inputs[] = {{.name = "in", .help = "frames with a segmentation network's tensor from infer"}, {0}};
static const mr_port outputs[] = {{.name = "out", .help = "the same frames, with objects as a result"}, {0}};

const mr_stage_type mr_segment_stage = {
    .name = "segment",
    .summary = "makes objects with masks from a segmentation network's output",
    .help = "Each class that the picture shows becomes an object: its mask, the box around it, and the mean softmax of "
            "its cells as score. An attribute with the label share has the class's share of the map. The tensor has a "
            "value for each class and cell, of which the largest counts, or is a map of classes.",
    .inputs = inputs,
    .outputs = outputs,
    .options = table,
    .options_bytes = sizeof(options),
    .state_bytes = sizeof(state),
    .entry = MR_ENTRY_PER_SOURCE,
    .negotiate = negotiate,
    .open = open_stage,
    .process = process,
    .close = close_stage,
};
