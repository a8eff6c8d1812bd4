/* draw: draws objects and words on pictures. */
#include <inttypes.h>

#include "engine/base/memory.h"
#include "engine/device/device.h"
#include "millrace/objects.h"
#include "stages/draw/drawing.h"
#include "stages/draw/shown_zones.h"
#include "stages/draw/words.h"
#include "stages/list.h"

typedef struct options {
    const char *objects;
    bool boxes, points, zones;
    const char *label, *caption, *font;
    int corner, color, anchor;
    int64_t font_size;
    double thickness, masks, fill, point_score;
    int64_t tails_ns;
} options;

/* Of one source. */
typedef struct state {
    mr_font *font;
    mr_tails *tails;
    mr_shown_zones shown;
    const mr_planned_result *zones; /* NULL: none are drawn */
    uint32_t epoch;
    int64_t now_ns;
    uint64_t full_frames, left_out; /* frames that had more to draw than a call has room for, and their shapes */
    bool unmapped, missing;         /* warned about it */
} state;

/* ---- start ------------------------------------------------------------------------------------------------------- */

static int check_words(mr_negotiation *n) {
    const options *o = n->options;
    if (mr_words_check_label(o->label))
        return mr_refuse(n, "label", "label: %s", mr_message());
    if (o->caption && mr_words_check_caption(o->caption))
        return mr_refuse(n, "caption", "caption: %s", mr_message());
    return MR_OK;
}

static bool has_words(const options *o) {
    return o->label[0] || o->caption;
}

static int check_font(mr_negotiation *n) {
    const options *o = n->options;
    mr_font *font = NULL;
    if (n->offline || !has_words(o))
        return MR_OK;
    int status = mr_font_open(&font, o->font);
    mr_font_close(&font);
    return status ? mr_refuse_status(n, status, "font", "font: %s", mr_message()) : MR_OK;
}

/* A source's tails are few bytes beside its pictures; the sketch is the memory of a call. */
static int negotiate(mr_negotiation *n) {
    const options *o = n->options;
    mr_promise_changes(n, 0, 0);
    if (!o->caption && !mr_planned_may_have(n, 0, mr_kind_objects()))
        return mr_refuse(n, NULL, "no frame that comes here has objects: name a join of pictures and detect's or "
                                  "track's frames as its input, or write a caption");
    const bool zones = o->zones && mr_shown_zones_exist(n->inputs[0].results);
    if (!o->boxes && !o->points && !zones && !has_words(o) && o->masks == 0 && !o->tails_ns)
        return mr_refuse(n, NULL, "all that could be drawn is switched off: allow boxes, points, masks or tails, or "
                                  "write a label or a caption");
    int status = check_words(n);
    n->scratch_bytes = n->result_bytes = MR_SKETCH_BYTES;
    n->work.launches = 1;
    return status ? status : check_font(n);
}

static int open_stage(mr_stage *self) {
    const options *o = self->options;
    state *s = self->state;
    int status = has_words(o) ? mr_font_open(&s->font, o->font) : MR_OK;
    if (!status && o->tails_ns && !(s->tails = mr_calloc(1, sizeof *s->tails)))
        status = mr_fail(MR_ERROR_MEMORY, "no memory for tails");
    if (o->zones && mr_shown_zones_exist(self->inputs[0].results))
        s->zones = self->inputs[0].results;
    if (!status && s->tails)
        *s->tails = (mr_tails){.length_ns = o->tails_ns, .step = 4};
    return status;
}

static void close_stage(mr_stage *self) {
    state *s = self->state;
    if (s->full_frames)
        mr_stage_warn(self, "%" PRIu64 " frame%s of %s had more to draw than a call has room for: %" PRIu64 " shapes "
                      "were left out", s->full_frames, s->full_frames == 1 ? "" : "s", self->source_id, s->left_out);
    mr_font_close(&s->font);
    mr_free(s->tails);
}

/* ---- drawing ----------------------------------------------------------------------------------------------------- */

/* Times restart with an epoch, and tracks end. */
static void keep_up(state *s, const mr_frame *frame) {
    const int64_t now_ns = mr_frame_time_ns(frame);
    if (s->tails && (s->epoch != frame->identity.epoch || now_ns < s->now_ns))
        mr_tails_clear(s->tails);
    s->epoch = frame->identity.epoch;
    s->now_ns = now_ns;
}

/* Each is said once for a source, when it happens first. What is left out is also counted (close_stage). */
static void warn(mr_stage *self, const mr_drawing *f, bool mapped) {
    state *s = self->state;
    if (!mapped && !s->unmapped)
        mr_stage_warn(self, "boxes are drawn as they are: frames do not say where their pixels lie in the source's "
                      "picture");
    if (f->sketch->left_out && !s->full_frames)
        mr_stage_warn(self, "a frame has more to draw than a call has room for: %" PRIu64 " shapes are left out",
                      f->sketch->left_out);
    if (f->missing && !s->missing)
        mr_stage_warn(self, "no font has the character U+%04" PRIX32 ": install one, such as fonts-noto-cjk",
                      f->missing);
    s->unmapped |= !mapped;
    s->full_frames += f->sketch->left_out > 0;
    s->left_out += f->sketch->left_out;
    s->missing |= f->missing != 0;
}

/* Fills in the sketch. */
static int collect(mr_stage *self, const mr_frame *frame, const mr_result *objects, mr_sketch *sketch) {
    const options *o = self->options;
    state *s = self->state;
    mr_drawing f = {.sketch = sketch, .font = s->font, .tails = s->tails, .label = o->label,
                    .thickness = o->thickness, .font_size = (int32_t)o->font_size, .color = (mr_ink_choice)o->color,
                    .anchor = (mr_anchor)o->anchor, .mask = o->masks, .fill = o->fill, .point_score = o->point_score,
                    .boxes = o->boxes, .points = o->points};
    char text[MR_WORDS] = "";
    const bool mapped = mr_drawing_begin(&f, frame) || !objects;
    int status = s->zones ? mr_shown_zones_draw(&s->shown, s->zones, frame, objects, &f) : MR_OK;
    if (!status && objects)
        status = mr_drawing_add(&f, objects, s->now_ns);
    if (o->caption)
        mr_words_of_frame(text, o->caption, self->source_id, frame, objects);
    if (!status && text[0])
        status = mr_drawing_add_caption(&f, text, o->corner);
    warn(self, &f, mapped);
    return status;
}

/* The sketch is made in host memory; a device gets a copy of the used parts. */
typedef struct memory {
    mr_buffer *host, *work; /* the same on the processors */
} memory;

static int take_memory(mr_io *io, memory *m) {
    const bool host = mr_io_stream(io)->device->type->kind == MR_DEVICE_CPU;
    int status = mr_io_scratch(io, MR_SKETCH_BYTES, &m->work);
    if (!status && host)
        m->host = mr_buffer_ref(m->work);
    return status || host ? status : mr_io_results(io, MR_SKETCH_BYTES, &m->host);
}

static int upload(mr_stream *stream, const memory *m, const mr_sketch *sketch) {
    const size_t stencils = (size_t)(sketch->stencils - m->host->data);
    if (m->host == m->work)
        return MR_OK;
    int status = mr_stream_copy(stream, m->work->data, m->host->data, (size_t)sketch->count * sizeof *sketch->items);
    if (!status && sketch->stencil_bytes)
        status = mr_stream_copy(stream, m->work->data + stencils, sketch->stencils, sketch->stencil_bytes);
    return status;
}

static int paint(mr_io *io, const mr_frame *input, const memory *m, const mr_sketch *sketch) {
    mr_frame *frame = NULL;
    int status = mr_io_change(io, 0, input, &frame);
    if (status)
        return status;
    status = upload(mr_io_stream(io), m, sketch);
    if (!status) {
        const mr_paint_work work = mr_sketch_work(sketch, frame, m->work->data);
        status = mr_paint_enqueue(mr_io_stream(io), &work);
    }
    return mr_io_finish(io, 0, frame, status);
}

static int draw(mr_stage *self, mr_io *io, const mr_frame *input, const mr_result *objects) {
    memory m = {0};
    mr_sketch sketch;
    int status = take_memory(io, &m);
    if (!status) {
        mr_sketch_begin(&sketch, &input->format, m.host->data);
        status = collect(self, input, objects, &sketch);
    }
    if (!status)
        status = sketch.count ? paint(io, input, &m, &sketch) : mr_io_pass_unchanged(io);
    mr_buffer_unref(&m.host);
    mr_buffer_unref(&m.work);
    return status;
}

/* A device's results are complete only when its work is. */
static int process(mr_stage *self, mr_io *io) {
    static const int64_t POLL_NS = 100000;
    const options *o = self->options;
    state *s = self->state;
    const mr_frame *input = mr_io_input(io);
    if (input->ready && !mr_event_done(input->ready)) {
        mr_io_wake_at(io, mr_io_now_ns(io) + POLL_NS);
        return MR_WAIT;
    }
    if (input->flags & MR_FRAME_AWAY)
        return mr_io_pass_unchanged(io);
    const mr_result *objects = mr_frame_result(input, mr_kind_objects(), o->objects);
    keep_up(s, input);
    mr_shown_zones_count(&s->shown, s->zones, input);
    if ((objects && objects->count) || s->zones || o->caption)
        return draw(self, io, input, objects);
    return mr_io_pass_unchanged(io);
}

static const char *const colors[] = {"auto", "class", "track", NULL};
static const char *const anchors[] = {"bottom", "center", NULL};
static const char *const corners[] = {"top-left", "top-right", "bottom-left", "bottom-right", NULL};

#define FIELD(field) .name = #field, .offset = offsetof(options, field)
static const mr_option table[] = {
    {FIELD(boxes), .kind = MR_OPTION_BOOL, .fallback = "true",
     .help = "draw boxes, with the lines inside, or quadrilaterals where objects have them"},
    {FIELD(label), .kind = MR_OPTION_STRING, .fallback = "{label} {track} {score}",
     .help = "text at each box: {label}, {index}, {track}, {number}, {score}, {speed}, {distance}, {zones}, {class} "
             "(of other stages) and {text} (that other stages read) are replaced; a word whose tokens have no value is "
             "left out. \"\": none"},
    {FIELD(color), .kind = MR_OPTION_ENUM, .fallback = "auto", .choices = colors,
     .help = "what the colour shows; auto, track: the track, and the class of objects without one. The same number "
             "always has the same colour"},
    {FIELD(thickness), .kind = MR_OPTION_DOUBLE, .fallback = "0", .min = 0, .max = 100, .unit = "px",
     .help = "width of lines; 0: by the picture's size"},
    {.name = "tails", .offset = offsetof(options, tails_ns), .kind = MR_OPTION_DURATION, .fallback = "0s",
     .max = 3600e9, .example = "2s", .help = "how far back the way of each track is drawn; 0s: not at all"},
    {FIELD(anchor), .kind = MR_OPTION_ENUM, .fallback = "bottom", .choices = anchors,
     .help = "the place in the box that a tail follows"},
    {FIELD(masks), .kind = MR_OPTION_DOUBLE, .fallback = "0.4", .max = 1, .help = "opacity of masks; 0: none"},
    {FIELD(points), .kind = MR_OPTION_BOOL, .fallback = "true",
     .help = "draw key points, and the limbs between COCO's 17"},
    {FIELD(point_score), .kind = MR_OPTION_DOUBLE, .fallback = "0.3", .max = 1,
     .help = "key points must have this score"},
    {FIELD(zones), .kind = MR_OPTION_BOOL, .fallback = "true",
     .help = "draw areas and lines of zones, if its results come here, with the objects inside and, if zones reports "
             "them, the crossings"},
    {FIELD(fill), .kind = MR_OPTION_DOUBLE, .fallback = "0", .max = 1, .example = "0.2",
     .help = "opacity of the areas of zones; 0: only their edges"},
    {FIELD(caption), .kind = MR_OPTION_STRING, .example = "{source} {time}",
     .help = "text in a corner of every picture: {source}, {time} (of capture, in this computer's zone), {utc}, "
             "{position} (presentation time), {seq} and {objects} (their number) are replaced"},
    {FIELD(corner), .kind = MR_OPTION_ENUM, .fallback = "top-left", .choices = corners, .help = "where the caption is"},
    {FIELD(font), .kind = MR_OPTION_STRING, .fallback = "Sans", .example = "\"DejaVu Sans:bold\"",
     .help = "a font's name, as fontconfig finds it, or the path of a font file. If it lacks a character, another font "
             "of the system gives it"},
    {FIELD(font_size), .kind = MR_OPTION_INT, .fallback = "0", .max = 400, .unit = "px",
     .help = "size of letters; 0: by the picture's size"},
    {FIELD(objects), .kind = MR_OPTION_STRING, .example = "track",
     .help = "the stage whose objects are drawn; if not given, the newest"},
    MR_OPTIONS_END};
#undef FIELD

static const mr_format_set pictures[] = {{.payload = MR_PAYLOAD_PICTURE}, {.payload = MR_PAYLOAD_ANY}};
static const mr_port inputs[] = {{.name = "in", .help = "pictures with objects", .accepts = pictures}, {0}};
static const mr_port outputs[] = {{.name = "out", .help = "the same pictures, drawn on", .accepts = pictures}, {0}};

const mr_stage_type mr_draw_stage = {
    .name = "draw",
    .summary = "draws objects and words on pictures",
    .help = "Boxes, labels, tails of tracks, masks, key points and zones, in all pixel layouts. Only the touched "
            "pixels change; colours follow the picture's matrix and range. If no other stage holds the picture, it is "
            "changed where it lies; else it is copied. Text is upright when the picture is shown. Pictures that only "
            "show that a source is away pass as they are.",
    .inputs = inputs,
    .outputs = outputs,
    .options = table,
    .options_bytes = sizeof(options),
    .state_bytes = sizeof(state),
    .entry = MR_ENTRY_PER_SOURCE,
    .streams = true,
    .cuda = true,
    .negotiate = negotiate,
    .open = open_stage,
    .process = process,
    .close = close_stage,
};
