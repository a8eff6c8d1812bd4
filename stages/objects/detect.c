/* detect: runs a detector and adds the objects that it found to the frame. */

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/base/nearest.h"
#include "engine/device/device.h"
#include "kernels/detect/detect_cuda.h"
#include "millrace/objects.h"
#include "stages/download.h"
#include "stages/list.h"
#include "stages/model/call.h"
#include "stages/model/device_options.h"
#include "stages/model/labels.h"
#include "stages/objects/place.h"
#include "stages/objects/quad.h"

typedef struct custom_options {
    bool given;
    const char *boxes, *scores, *classes;
    int order;
    bool normalized, background, logits, suppress;
} custom_options;

typedef struct db_options {
    bool given;
    double mask, unclip;
    bool apart;
} db_options;

typedef struct options {
    const char *model, *external_data, *labels;
    mr_strings outputs, classes;
    int head;
    custom_options custom;
    db_options db;
    double score, iou;
    bool agnostic;
    int64_t max, points;
    mr_every every;
    mr_model_device_options device;
} options;

typedef struct state {
    mr_model *model;
    mr_call call;
    mr_box_head head;          /* if the call varies, for the smallest input */
    mr_box_head_params params; /* it is made with */
    mr_box_head_custom custom;
    mr_labels labels;
    bool *wanted; /* NULL: all classes are */
    const mr_stage *self;
    atomic_uint_fast64_t cut;      /* frames with more objects than max */
    atomic_uint_fast64_t odd;      /* frames with scores or boxes that are not finite */
    atomic_bool unknown;           /* a frame without geometry has come */
} state;

/* mr_box_head_family's, after auto. */
enum { HEAD_AUTO };
static const char *const heads[] = {"auto", "yolox", "yolov5", "yolov8", "yolov8-pose", "yolov8-seg", "yolov8-obb",
                                    "ssd", "rtdetr", "end2end", "yolov7-end2end", "centerface", "db", "custom", NULL};
_Static_assert(sizeof heads / sizeof *heads == MR_BOX_HEAD_FAMILIES + 2, "all families");

static const size_t only_port = 0;

/* ---- planning ---------------------------------------------------------------------------------------------------- */

/* Width and height of the picture that an input item holds; false: it is none. */
static bool picture_size(const mr_format *input, int32_t *width, int32_t *height) {
    const int64_t *dims = input->dims;
    const bool channels_first = dims[0] == 3 || dims[0] == 1;
    if (input->rank != 3 || (!channels_first && dims[2] != 3 && dims[2] != 1))
        return false;
    *height = (int32_t)dims[channels_first ? 1 : 0];
    *width = (int32_t)dims[channels_first ? 2 : 1];
    return true;
}

static int make_head_of(mr_box_head *head, const mr_box_head_params *params, const options *o,
                        const mr_box_head_output *outputs, size_t count) {
    int status = mr_box_head_make(head, params, outputs, count);
    head->agnostic = o->agnostic;
    head->mask = (float)o->db.mask;
    head->unclip = o->db.unclip;
    head->apart = o->db.apart;
    return status;
}

static int make_head(state *s, const options *o) {
    s->custom = (mr_box_head_custom){
        .boxes = o->custom.boxes, .scores = o->custom.scores, .classes = o->custom.classes,
        .order = (mr_box_order)o->custom.order, .normalized = o->custom.normalized,
        .background = o->custom.background, .logits = o->custom.logits, .suppress = o->custom.suppress};
    mr_box_head_output outputs[MR_BOX_HEAD_MOST_OUTPUTS];
    const size_t count = s->call.binding.output_count;
    char shape[MR_FORMAT_TEXT];
    int32_t width, height;
    if (!picture_size(&s->call.input[0], &width, &height))
        return mr_fail(MR_ERROR_CONFIG, "%s takes a %s; a detector takes a picture, 3 x height x width or height x "
                       "width x 3", s->model->file, mr_format_print(&s->call.input[0], shape, sizeof shape));
    for (size_t i = 0; i < count; i++)
        outputs[i] = (mr_box_head_output){s->model->outputs[s->call.binding.output[i]].name, s->call.output[i]};
    mr_box_head_params params = {.custom = &s->custom, .width = width, .height = height, .points = (int32_t)o->points,
                                 .family = (mr_box_head_family)(o->head - 1), .task = s->model->note[MR_MODEL_TASK],
                                 .key_points = s->model->note[MR_MODEL_POINTS]};
    if (o->head == HEAD_AUTO && mr_box_head_find(&params.family, &params, outputs, count))
        return mr_fail(MR_ERROR_CONFIG, "%s: %s", s->model->file, mr_message());
    s->params = params;
    int status = make_head_of(&s->head, &params, o, outputs, count);
    if (!status && s->call.varies && s->head.kind == MR_BOX_MASK)
        return mr_fail(MR_ERROR_CONFIG, "head: %s finds masks in pictures of one size: write size in preprocess, not "
                       "sides", mr_box_head_names[params.family]);
    return status;
}

/* `device` NULL: only for planning; `name` is its name. Networks that give as many rows as they find objects do so on
 * the processors. */
static int open_model(state *s, const options *o, mr_device *device, const char *name, const mr_planned_input *inputs,
                      int batch, size_t outputs[MR_MODEL_MAX_TENSORS], size_t *count) {
    mr_model_params params = {.path = o->model, .external = o->external_data, .brief = !device, .device = device,
                              .max_rows = strcmp(name, "cpu") == 0 ? MR_DETECT_CANDIDATES : 0};
    char shapes[MR_MODEL_SHAPES];
    mr_model_set_device_params(&params, &o->device);
    params.shapes = mr_model_shapes(inputs, device ? 1 : 0, batch, shapes);
    int status = mr_model_open(&s->model, &params);
    if (!status && s->model->input_count != 1)
        status = mr_fail(MR_ERROR_CONFIG, "%s has %zu inputs, and a detector takes one picture", s->model->file,
                         s->model->input_count);
    if (!status)
        status = mr_call_choose(s->model, &o->outputs, outputs, count);
    if (!status && *count > MR_BOX_HEAD_MOST_OUTPUTS)
        return mr_fail(MR_ERROR_CONFIG, "%s has %zu outputs, and a head has at most %d: name them (outputs)",
                       s->model->file, *count, MR_BOX_HEAD_MOST_OUTPUTS);
    return status;
}

/* One of the labels, or a number. */
static int class_named(const state *s, const char *name) {
    char *end;
    for (size_t i = 0; i < s->labels.count; i++)
        if (strcmp(s->labels.item[i], name) == 0)
            return (int)i;
    const long number = strtol(name, &end, 10);
    return end > name && !*end && number >= 0 && number < MR_BOX_HEAD_MOST_CLASSES ? (int)number : -1;
}

/* Reads the file that the pipeline names, or else the notes in the model's file. */
static int read_labels(state *s, const options *o) {
    char *const *note = s->model->note;
    const char *found = note[MR_MODEL_LABELS] ? note[MR_MODEL_LABELS] : note[MR_MODEL_NAMES];
    int status = o->labels ? mr_labels_read(o->labels, &s->labels) : mr_labels_read_note(found, &s->labels);
    if (status && !o->labels)
        return mr_fail(status, "%s: %s; name a file", s->model->file, mr_message());
    if (!status && s->labels.count && s->head.classes && s->labels.count != (size_t)s->head.classes)
        return mr_fail(MR_ERROR_CONFIG, "%s has %zu labels, and the network finds %d classes%s",
                       o->labels ? o->labels : s->model->file, s->labels.count, (int)s->head.classes,
                       o->labels ? "" : "; write labels: FILE, a file with one label a line");
    return status;
}

static int refuse_class(const state *s, const char *name, size_t count) {
    char text[256];
    mr_nearest nearest = {.wanted = name};
    if (!s->labels.count)
        return mr_fail(MR_ERROR_CONFIG, "classes: \"%s\" is no name without labels, and not a number below %zu: write "
                       "labels: FILE, a file with one label a line", name, count);
    for (size_t i = 0; i < s->labels.count; i++)
        mr_nearest_offer(&nearest, s->labels.item[i]);
    const char *hint = mr_nearest_hint(&nearest, text, sizeof text, NULL);
    return mr_fail(MR_ERROR_CONFIG, "classes: \"%s\" is neither one of the labels nor a number below %zu%s%s", name,
                   count, hint ? ": " : "", hint ? hint : "");
}

/* *wrong: the option at fault. */
static int read_classes(state *s, const options *o, const char **wrong) {
    int status = read_labels(s, o);
    const size_t count = s->head.classes ? (size_t)s->head.classes : MR_BOX_HEAD_MOST_CLASSES;
    *wrong = status ? "labels" : "classes";
    if (!status && o->classes.count && !(s->wanted = calloc(count, sizeof *s->wanted)))
        return mr_fail(MR_ERROR_MEMORY, "no memory for classes");
    for (size_t i = 0; i < o->classes.count && !status; i++) {
        const int found = class_named(s, o->classes.item[i]);
        if (found < 0 || (size_t)found >= count)
            return refuse_class(s, o->classes.item[i], count);
        s->wanted[found] = true;
    }
    return status;
}

/* Refuses heads that CUDA kernels cannot do. *wrong: the option at fault. */
static int check_cuda(const state *s, const char *device, const char **wrong) {
    if (strncmp(device, "cuda", 4) != 0)
        return MR_OK;
    *wrong = "device";
    if (s->head.family == MR_BOX_HEAD_DB)
        return mr_fail(MR_ERROR_CONFIG, "lines of text (head: db) are found on the host's processors: write device: "
                                        "cpu");
    if (mr_box_head_most(&s->head) > MR_DETECT_CUDA_MOST)
        return mr_fail(MR_ERROR_CONFIG, "the network has %zu candidates for a frame, and a CUDA device compares at "
                       "most %d: write device: cpu", mr_box_head_most(&s->head), MR_DETECT_CUDA_MOST);
    *wrong = "classes";
    const int32_t classes = s->head.classes ? s->head.classes : MR_BOX_HEAD_MOST_CLASSES;
    for (int32_t i = MR_DETECT_CUDA_CLASSES; s->wanted && i < classes; i++)
        if (s->wanted[i])
            return mr_fail(MR_ERROR_CONFIG, "a CUDA device selects classes below %d", MR_DETECT_CUDA_CLASSES);
    return MR_OK;
}

/* What later stages can know about the classes: those that are wanted. */
static int promise_labels(mr_negotiation *n, const state *s, const options *o) {
    const char **labels = s->labels.count ? calloc(s->labels.count, sizeof *labels) : NULL;
    mr_planned_classes classes = {.labels = labels, .most_score = o->custom.given ? (double)INFINITY : 1};
    if (s->labels.count && !labels)
        return mr_fail(MR_ERROR_MEMORY, "no memory for labels");
    for (size_t i = 0; i < s->labels.count; i++)
        if (!s->wanted || s->wanted[i])
            labels[classes.count++] = s->labels.item[i];
    int status = mr_promise_labels(n, 0, &classes);
    free(labels);
    return status;
}

static size_t block_bytes(const state *s, const options *o) {
    return mr_aligned_bytes(s->call.output_bytes) + (size_t)s->call.batch * mr_found_bytes(&s->head, (size_t)o->max);
}

static void release(state *s) {
    mr_model_close(&s->model);
    mr_labels_free(&s->labels);
    free(s->wanted);
    s->wanted = NULL;
}

/* The most bytes of items in a result. A box that is turned in the picture has corners. */
static uint64_t items_bytes(const mr_box_head *head, size_t most) {
    const size_t quad = mr_items_bytes(MR_QUAD_NUMBERS, sizeof(float));
    const size_t points = head->kind == MR_BOX_POINTS ? mr_items_bytes((size_t)head->numbers, sizeof(float)) : 0;
    return head->kind == MR_BOX_MASK ? MR_MOST_ITEMS_BYTES : most * (quad + points);
}

static int negotiate(mr_negotiation *n) {
    const options *o = n->options;
    state s = {0};
    size_t outputs[MR_MODEL_MAX_TENSORS], count;
    const char *wrong = "model";
    mr_planned_input known;
    n->outputs[0].follows = n->outputs[0].shares = 0;
    n->unread = n->offline;
    n->every = o->every;
    if (o->every.frames > 1)
        mr_remark(n, "searches the frames of a source whose number is a multiple of %lld, and passes the others",
                  (long long)o->every.frames);
    else if (o->every.time_ns)
        mr_remark(n, "searches a source's first frame, and then one every %g s; it passes the others",
                  (double)o->every.time_ns / 1e9);
    mr_model_plan_device(n, &o->device);
    if ((o->head - 1 == MR_BOX_HEAD_CUSTOM) != o->custom.given)
        return mr_refuse(n, "custom", "head: custom and custom: {boxes: ...} belong together");
    if (o->custom.given && !o->custom.boxes)
        return mr_refuse(n, "custom", "custom needs the names of outputs: boxes, and scores if boxes have none");
    if (o->custom.background && !o->custom.scores)
        return mr_refuse(n, "custom", "background is about scores: name their output");
    int status = mr_promise_result(n, 0, mr_kind_objects(), NULL, NULL);
    if (!status)
        mr_promise_limit(n, 0, (size_t)o->max);
    if (status || n->offline)
        return status;
    status = open_model(&s, o, NULL, n->device, n->inputs, n->batch, outputs, &count);
    if (!status)
        status = mr_call_take(n, s.model, &only_port);
    if (!status && mr_call_foresees(n, &known)) {
        status = mr_call_plan(&s.call, s.model, &known, &only_port, n->batch, outputs, count);
        if (!status)
            status = mr_call_check_sizes(&s.call, n);
        if (!status)
            status = make_head(&s, o);
        if (!status)
            status = read_classes(&s, o, &wrong);
        if (!status)
            status = promise_labels(n, &s, o);
        if (!status)
            status = check_cuda(&s, n->device, &wrong);
        if (!status) {
            mr_call_warn(&s.call, n);
            mr_call_count(&s.call, n);
            mr_model_plan_work(n, &o->device);
            n->outputs[0].buffer_bytes = block_bytes(&s, o);
            n->scratch_bytes = s.call.gathered_bytes;
            mr_promise_items(n, 0, items_bytes(&s.head, (size_t)o->max));
            mr_download_plan(n, mr_found_bytes(&s.head, (size_t)o->max));
        }
    }
    release(&s);
    return status ? mr_refuse_status(n, status, wrong, "%s", mr_message()) : MR_OK;
}

static int open_stage(mr_stage *self) {
    const options *o = self->options;
    state *s = self->state;
    size_t outputs[MR_MODEL_MAX_TENSORS], count;
    const char *wrong;
    s->self = self;
    int status = open_model(s, o, self->device, self->device->name, self->inputs, self->batch, outputs, &count);
    if (!status)
        status = mr_call_plan(&s->call, s->model, &self->inputs[0], &only_port, self->batch, outputs, count);
    if (!status)
        status = make_head(s, o);
    return status ? status : read_classes(s, o, &wrong);
}

static int check_device(const void *own, const char *device) {
    const options *o = own;
    return mr_model_check_device(o->model, &o->device, device);
}

static void close_stage(mr_stage *self) {
    state *s = self->state;
    const unsigned long long cut = (unsigned long long)atomic_load(&s->cut);
    const unsigned long long odd = (unsigned long long)atomic_load(&s->odd);
    if (cut)
        mr_stage_warn(self, "%llu frame%s had more objects than max (%lld), and keep%s the best", cut,
                      cut == 1 ? "" : "s", (long long)((const options *)self->options)->max, cut == 1 ? "s" : "");
    if (odd)
        mr_stage_warn(self, "in %llu frame%s scores or boxes were NaN or infinite: objects may be missing there", odd,
                      odd == 1 ? "" : "s");
    release(s);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* Makes the result from a frame's candidates. Until then the frame's geometry lies in its room. */
static void publish(const void *context, mr_result *result, uint8_t *data, size_t each) {
    state *s = (state *)(uintptr_t)context;
    const mr_found *found = (const mr_found *)(const void *)data;
    mr_geometry way;
    mr_object *objects = result->data;
    memcpy(&way, objects, sizeof way);
    if (found->count < 0 || mr_found_bytes(&s->head, (size_t)found->count) > each)
        return;
    for (int32_t i = 0; i < found->count; i++) {
        mr_object object = {.score = found->item[i].score, .index = found->item[i].class_index};
        if ((size_t)object.index < s->labels.count)
            object.label = s->labels.item[object.index];
        const int64_t most = ((const options *)s->self->options)->max;
        if (!mr_object_place(&way, &s->head, &found->item[i], mr_found_numbers(found, &s->head, (size_t)most, i),
                             result, &object))
            continue;
        object.number = (int64_t)result->count + 1;
        objects[result->count++] = object;
    }
    result->cut = found->cut || found->odd;
    if (found->odd && !atomic_fetch_add(&s->odd, 1))
        mr_stage_warn(s->self, "%s gives scores or boxes that are NaN or infinite, which are left out: numbers of 16 "
                      "bits overflow, and so does a picture whose values are not those of the training (mean, std)",
                      s->model->file);
    if (found->cut && !atomic_fetch_add(&s->cut, 1))
        mr_stage_warn(s->self, "a frame has more objects than max (%lld): it keeps the best",
                      (long long)((const options *)s->self->options)->max);
}

/* If a frame does not say which picture it was made from, boxes are in pixels of the network's input. */
static mr_geometry way_of(state *s, const mr_frame *frame) {
    if (frame->geometry.width)
        return frame->geometry;
    if (!atomic_exchange(&s->unknown, true))
        mr_stage_warn(s->self, "boxes are in pixels of the network's input: frames do not say which pictures they were "
                      "made from");
    return (mr_geometry){.x = {1, 0, 0}, .y = {0, 1, 0}, .width = s->head.width, .height = s->head.height,
                         .source_width = s->head.width, .source_height = s->head.height};
}

/* Whether each frame has outputs of a separate size: its picture has one, or it gives a row for each object. */
static bool is_separate(const mr_call *call) {
    bool rows = false;
    for (size_t i = 0; i < call->binding.output_count; i++)
        rows |= call->binding.rows_axis[i] >= 0;
    return call->varies || rows;
}

/* An output of such a frame. Returns how many rows there was no room for. */
static int64_t take_output(const mr_call *call, uint8_t *block, size_t i, mr_format *format, const void **data) {
    const int axis = call->binding.rows_axis[i];
    void *at = mr_call_item(call, block, i, 0);
    int64_t more = 0;
    *format = call->output[i];
    if (call->varies)
        mr_call_varied(call, block, i, format, &at);
    else if (axis >= 0)
        more = mr_call_rows(call, block, i, format, &at) - format->dims[axis];
    *data = at;
    return more;
}

/* The outputs of such a frame, and the head that fits them. *empty: there are no rows. */
static int take_separate(const state *s, const options *o, const mr_format *input, uint8_t *block, mr_box_head *head,
                         mr_detect_work *work, bool *empty) {
    mr_box_head_output outputs[MR_BOX_HEAD_MOST_OUTPUTS];
    mr_box_head_params params = s->params;
    const size_t count = s->call.binding.output_count;
    picture_size(input, &params.width, &params.height);
    params.like = &s->head;
    for (size_t i = 0; i < count; i++) {
        outputs[i].name = s->model->outputs[s->call.binding.output[i]].name;
        work->found->cut |= take_output(&s->call, block, i, &outputs[i].format, &work->data[i]) > 0;
        *empty |= !mr_tensor_count(&outputs[i].format);
    }
    work->head = head;
    if (*empty)
        return MR_OK;
    if (make_head_of(head, &params, o, outputs, count))
        return mr_fail(MR_ERROR_DATA, "%s: %s", s->model->file, mr_message());
    if (head->classes == s->head.classes && head->numbers == s->head.numbers)
        return MR_OK;
    return mr_fail(MR_ERROR_DATA, "%s gives %d classes, and %d more numbers of an object, for a picture of %dx%d; for "
                   "others %d and %d", s->model->file, (int)head->classes, (int)head->numbers, (int)params.width,
                   (int)params.height, (int)s->head.classes, (int)s->head.numbers);
}

/* Frames of separate sizes run on the processors, where work is done when it is enqueued. */
static int find(const state *s, const options *o, mr_io *io, uint8_t *block, size_t index, uint8_t *found) {
    mr_box_head own;
    mr_detect_work work = {.head = &s->head, .wanted = s->wanted, .score = (float)o->score, .overlap = (float)o->iou,
                           .most = (int32_t)o->max, .found = (mr_found *)(void *)found};
    bool empty = false;
    if (is_separate(&s->call)) {
        *work.found = (mr_found){0};
        int status = take_separate(s, o, &mr_io_input_at(io, 0, index)->format, block, &own, &work, &empty);
        const int32_t cut = work.found->cut;
        if (!status && !empty)
            status = mr_detect_enqueue(mr_io_stream(io), &work);
        work.found->cut |= cut;
        return status;
    }
    for (size_t i = 0; i < s->call.binding.output_count; i++)
        work.data[i] = mr_call_item(&s->call, block, i, index);
    return mr_detect_enqueue(mr_io_stream(io), &work);
}

/* A picture that only says its stream is away gets no objects. */
static int emit(state *s, const options *o, mr_io *io, size_t index, mr_download *home, uint8_t *found) {
    enum { WAY = (sizeof(mr_geometry) + sizeof(mr_object) - 1) / sizeof(mr_object) };
    mr_frame *frame = NULL;
    mr_result *result = NULL;
    int status = mr_io_share(io, mr_io_input_at(io, 0, index), &frame);
    if (!status && !(frame->flags & MR_FRAME_AWAY))
        status = mr_io_add_result(io, frame, mr_kind_objects(), o->max < WAY ? WAY : (size_t)o->max, &result);
    if (!status) {
        const mr_geometry way = way_of(s, frame);
        if (result)
            memcpy(result->data, &way, sizeof way);
        mr_download_add(home, result, found);
    }
    return mr_io_finish(io, 0, frame, status);
}

/* In order, with the frames that only pass. */
static int emit_all(state *s, const options *o, mr_io *io, mr_download *home, uint8_t *found) {
    int status = MR_OK;
    for (size_t i = 0; i < mr_io_count(io) && !status; i++) {
        if (mr_io_passes(io, i)) {
            status = mr_io_pass(io, i);
            continue;
        }
        status = emit(s, o, io, i, home, found);
        found += home->each;
    }
    return status;
}

static int process(mr_stage *self, mr_io *io) {
    const options *o = self->options;
    state *s = self->state;
    const size_t each = mr_found_bytes(&s->head, (size_t)o->max), count = mr_call_frames(io);
    mr_download home = {.finish = publish, .context = s, .each = each};
    mr_buffer *buffer = NULL;
    if (!count)
        return emit_all(s, o, io, &home, NULL);
    int status = mr_io_buffer(io, 0, block_bytes(s, o), &buffer);
    if (!status)
        status = mr_download_begin(&home, self, io);
    if (!status)
        status = mr_call_run(&s->call, io, buffer->data);
    uint8_t *found = status ? NULL : buffer->data + mr_aligned_bytes(s->call.output_bytes);
    for (size_t i = 0; i < count && !status; i++)
        status = find(s, o, io, buffer->data, i, found + i * each);
    if (!status)
        status = emit_all(s, o, io, &home, found);
    if (!status)
        status = mr_download_end(&home, io, found);
    mr_download_release(&home);
    mr_buffer_unref(&buffer);
    return status;
}

static const char *const orders[] = {"ltrb", "tlbr", "ltwh", "cxcywh", NULL};

#define FIELD(field) .name = #field, .offset = offsetof(custom_options, field)
static const mr_option custom_table[] = {
    {FIELD(boxes), .kind = MR_OPTION_STRING, .example = "boxes",
     .help = "the output with boxes, N x 4 or 4 x N; with a score as the fifth number, N x 5 or 5 x N"},
    {FIELD(scores), .kind = MR_OPTION_STRING, .example = "scores",
     .help = "the output with a score for each box, or for each class of each box; leave it out if boxes have "
             "scores"},
    {FIELD(classes), .kind = MR_OPTION_STRING, .example = "classes",
     .help = "the output with each box's class; if not given, a score's position is the class"},
    {FIELD(order), .kind = MR_OPTION_ENUM, .fallback = "ltrb", .choices = orders,
     .help = "numbers of a box: left, top, right, bottom; top first; left, top, width, height; or centre, width, "
             "height"},
    {FIELD(normalized), .kind = MR_OPTION_BOOL, .fallback = "false",
     .help = "boxes are in 0..1 of the network's input, not in its pixels"},
    {FIELD(background), .kind = MR_OPTION_BOOL, .fallback = "false", .help = "the first score is for no object"},
    {FIELD(logits), .kind = MR_OPTION_BOOL, .fallback = "false", .help = "scores become sigmoids"},
    {FIELD(suppress), .kind = MR_OPTION_BOOL, .fallback = "true", .help = "boxes overlap and must be suppressed"},
    MR_OPTIONS_END};
#undef FIELD

#define FIELD(field) .name = #field, .offset = offsetof(db_options, field)
static const mr_option db_table[] = {
    {FIELD(mask), .kind = MR_OPTION_DOUBLE, .fallback = "0.3", .min = 0, .max = 1, .example = "0.2",
     .help = "pixels above this belong to text"},
    {FIELD(unclip), .kind = MR_OPTION_DOUBLE, .fallback = "1.6", .min = 0, .max = 10, .example = "2",
     .help = "boxes grow on all sides by their area, times this, divided by their perimeter"},
    {FIELD(apart), .kind = MR_OPTION_BOOL, .fallback = "true",
     .help = "no box grows past the middle between it and the next one on its line, where it would show a letter of "
             "that; false: as in PaddleOCR"},
    MR_OPTIONS_END};
#undef FIELD

#define FIELD(field) .name = #field, .offset = offsetof(options, field)
static const mr_option table[] = {
    MR_MODEL_FILE_OPTIONS(options, "models/yolox_nano.onnx"),
    {FIELD(outputs), .kind = MR_OPTION_STRINGS, .example = "[boxes, scores]",
     .help = "the outputs that make up the head, by name; if not given, all"},
    {FIELD(head), .kind = MR_OPTION_ENUM, .fallback = "auto", .choices = heads,
     .help = "what the outputs mean; auto: by their shapes and the model's metadata, if only one head fits"},
    {FIELD(custom), .kind = MR_OPTION_MAP, .fields = custom_table, .help = "for head: custom, what the outputs mean"},
    {FIELD(db), .kind = MR_OPTION_MAP, .fields = db_table, .help = "for head: db, how lines of text are found"},
    {FIELD(points), .kind = MR_OPTION_INT, .fallback = "17", .min = 1, .max = MR_BOX_HEAD_MOST_POINTS,
     .unit = "points", .help = "for poses, how many key points an object has, unless the model's metadata says it"},
    {FIELD(score), .kind = MR_OPTION_DOUBLE, .fallback = "0.25", .min = 0, .max = 1, .example = "0.5",
     .help = "objects must have a higher score"},
    {FIELD(iou), .kind = MR_OPTION_DOUBLE, .fallback = "0.45", .min = 0, .max = 1, .example = "0.5",
     .help = "of two objects of one class, the one with the lower score is dropped if their intersection is a larger "
             "share of their union"},
    {FIELD(agnostic), .kind = MR_OPTION_BOOL, .fallback = "false",
     .help = "the same for two objects of different classes: of several classes for one object the best stays"},
    {FIELD(classes), .kind = MR_OPTION_STRINGS, .example = "[person, car]",
     .help = "classes to keep, by label or number; if not given, all"},
    {FIELD(labels), .kind = MR_OPTION_PATH, .file = MR_FILE_READ, .named = ".txt", .example = "models/coco.txt",
     .help = "a text file with one class label per line, or an ONNX file with labels in its metadata; if not given, "
             "those in the model's metadata, if any"},
    {FIELD(every), .kind = MR_OPTION_EVERY, .fallback = "1", .min = 1, .max = 100000, .unit = "frames", .neutral = true,
     .example = "200ms",
     .help = "a number: search the frames whose number in the source (seq) is a multiple of it; a time: search the "
             "first frame, and then one for each such time. The others pass, and track then says where objects "
             "should be in them"},
    {FIELD(max), .kind = MR_OPTION_INT, .fallback = "100", .min = 1, .max = 10000, .unit = "objects",
     .help = "most objects in a frame, the best ones; frames with more are counted in a warning"},
    MR_MODEL_DEVICE_OPTIONS(options, device),
    MR_OPTIONS_END};
#undef FIELD

static const mr_format_set tensors[] = {{.payload = MR_PAYLOAD_TENSOR}, {.payload = MR_PAYLOAD_ANY}};
static const mr_port inputs[] = {
    {.name = "in", .help = "tensors with the model's input shape, without the batch dimension", .accepts = tensors},
    {0}};
static const mr_port outputs[] = {{.name = "out", .help = "the same tensors, with objects as a result"}, {0}};

const mr_stage_type mr_detect_stage = {
    .name = "detect",
    .summary = "runs a detector and adds the objects that it found",
    .help = "Boxes are in pixels of the source's picture, whatever preprocess did: as it is shown (turned), in full "
            "size, not stretched by the sample aspect ratio. They are cut at the picture's edges; those without an "
            "area in it are dropped. Suppression is per class and equals ONNX's NonMaxSuppression; boxes that are not "
            "finite are dropped before, and the log reports how many frames had some, or had scores that are NaN and "
            "no object. If more than 8192 boxes (or 4 times max) exceed the score, the best are compared.",
    .inputs = inputs,
    .outputs = outputs,
    .options = table,
    .options_bytes = sizeof(options),
    .state_bytes = sizeof(state),
    .entry = MR_ENTRY_STATELESS,
    .batches = true,
    .passes = true,
    .cuda = true,
    .streams = true,
    .urgent = true,
    .negotiate = negotiate,
    .check_device = check_device,
    .open = open_stage,
    .process = process,
    .close = close_stage,
};
