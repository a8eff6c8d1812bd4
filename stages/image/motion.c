/* motion: passes a picture if enough has changed since the last one that it passed.
 *
 * Both pictures are compared small and gray. The device must compare them before it is known whether the picture
 * passes: the call waits and polls every POLL_NS. An instance has one call at a time. */
#include <string.h>

#include "engine/device/device.h"
#include "stages/image/extractor.h"
#include "stages/list.h"

static const int64_t POLL_NS = 20000;

typedef struct options {
    mr_size size;
    int64_t noise;
    double threshold;
    int64_t refresh_ns;
} options;

/* One source's state. */
typedef struct state {
    mr_resizer resizer;
    mr_buffer *reference;  /* the last picture passed; NULL before the first one */
    int64_t let_through_ns;
    mr_buffer *current;    /* for the waiting call, with the count of changed pixels at the end; NULL: none waits */
    uint32_t *changed;     /* that count, once `compared` is done; pinned, since a GPU's copy to other memory blocks the
                              host */
    mr_event *compared;
} state;

static mr_format describe(void) {
    return mr_tensor_format(MR_DTYPE_F32, MR_LAYOUT_FLAT, 1, &(int64_t){1});
}

static size_t pixels(const options *o) {
    return (size_t)o->size.width * (size_t)o->size.height;
}

/* Picture size; the count follows it. */
static size_t picture_bytes(const options *o) {
    return (pixels(o) + 63) / 64 * 64;
}

static int negotiate(mr_negotiation *n) {
    const mr_format tensor = describe();
    const mr_preprocess_params look = mr_extractor_look(((const options *)n->options)->size, true);
    mr_resizer_promise(n, &look);
    /* One kernel and two copies, which clear and download the count; the kernel reads both pictures. */
    n->work.launches += 3;
    n->work.more_bytes = 2 * (double)pixels(n->options);
    n->retained = 1;
    n->outputs[0].buffer_bytes = picture_bytes(n->options) + sizeof(uint32_t);
    return mr_extractor_promise_result(n, &tensor, "motion");
}

static int open_stage(mr_stage *self) {
    const options *o = self->options;
    state *s = self->state;
    const mr_preprocess_params look = mr_extractor_look(o->size, true);
    void *changed = NULL;
    int status = mr_resizer_init(&s->resizer, &look);
    if (!status)
        status = mr_device_allocate(self->device, MR_MEMORY_PINNED, sizeof *s->changed, &changed);
    s->changed = changed;
    return status;
}

/* Call when the waiting call has finished or failed. */
static void forget_call(state *s) {
    mr_buffer_unref(&s->current);
    mr_event_unref(&s->compared);
}

static void close_stage(mr_stage *self) {
    state *s = self->state;
    forget_call(s);
    mr_buffer_unref(&s->reference);
    if (s->changed)
        mr_device_free(self->device, MR_MEMORY_PINNED, s->changed);
    mr_resizer_fini(&s->resizer);
}

static int compare(mr_stage *self, mr_io *io) {
    const options *o = self->options;
    state *s = self->state;
    mr_stream *stream = mr_io_stream(io);
    uint32_t *changed = (uint32_t *)(void *)(s->current->data + picture_bytes(o));
    const mr_resizer_item item = {.picture = mr_io_input(io), .dst = s->current->data};
    int status = mr_resizer_enqueue(&s->resizer, stream, &item, 1);
    if (!status && s->reference) {
        const mr_change_work work = {.a = s->reference->data,
                                     .b = s->current->data,
                                     .count = pixels(o),
                                     .noise = (int32_t)o->noise,
                                     .changed = changed};
        status = mr_change_enqueue(stream, &work);
        if (!status)
            status = mr_stream_copy(stream, s->changed, changed, sizeof *changed);
    }
    if (!status)
        status = mr_event_create(&s->compared, self->device, self);
    return status ? status : mr_stream_record(stream, s->compared);
}

/* Starts to compare the call's picture with the reference. */
static int begin(mr_stage *self, mr_io *io) {
    const options *o = self->options;
    state *s = self->state;
    int status = mr_io_buffer(io, 0, picture_bytes(o) + sizeof(uint32_t), &s->current);
    if (!status)
        status = compare(self, io);
    if (status)
        forget_call(s);
    return status;
}

/* Makes the picture the reference and emits it with the share of changed pixels. */
static int let_through(state *s, mr_io *io, float share) {
    const mr_format tensor = describe();
    mr_frame *frame = NULL;
    void *data = NULL;
    int status = mr_io_share(io, mr_io_input(io), &frame);
    if (!status)
        status = mr_io_add_tensor(io, frame, "motion", &tensor, &data);
    if (status) {
        mr_frame_unref(&frame);
        return status;
    }
    memcpy(data, &share, sizeof share);
    mr_buffer_unref(&s->reference);
    s->reference = mr_buffer_ref(s->current);
    s->let_through_ns = mr_frame_time_ns(frame);
    return mr_io_emit(io, 0, frame);
}

static int decide(mr_stage *self, mr_io *io) {
    const options *o = self->options;
    state *s = self->state;
    const mr_frame *input = mr_io_input(io);
    int status = mr_event_status(s->compared);
    if (status < 0)
        return mr_fail(status, "pictures could not be compared");
    double share = s->reference ? (double)*s->changed / (double)pixels(o) : 1.0;
    int64_t since_ns = mr_frame_time_ns(input) - s->let_through_ns;
    if (!s->reference || share >= o->threshold || (o->refresh_ns > 0 && since_ns >= o->refresh_ns))
        return let_through(s, io, (float)share);
    mr_io_absorb(io, input, "still");
    return MR_DONE;
}

static int process(mr_stage *self, mr_io *io) {
    state *s = self->state;
    int status = s->compared ? MR_OK : begin(self, io);
    if (status)
        return status;
    if (!mr_event_done(s->compared)) {
        mr_io_wake_at(io, mr_io_now_ns(io) + POLL_NS);
        return MR_WAIT;
    }
    status = decide(self, io);
    forget_call(s);
    return status;
}

#define FIELD(field) .name = #field, .offset = offsetof(options, field)
static const mr_option table[] = {
    {FIELD(threshold), .kind = MR_OPTION_DOUBLE, .fallback = "0.005", .min = 0, .max = 1,
     .help = "the share of pixels that must have changed for a picture to pass; 0: all pass"},
    {FIELD(noise), .kind = MR_OPTION_INT, .fallback = "15", .max = 254, .unit = "levels",
     .help = "the largest difference in luma (0..255) that does not count as a change"},
    {.name = "refresh", .offset = offsetof(options, refresh_ns), .kind = MR_OPTION_DURATION, .fallback = "0s",
     .min = 0, .max = 3600e9 * 1000,
     .help = "a picture passes if the last one passed this long ago, even if nothing moves; 0s: never"},
    {FIELD(size), .kind = MR_OPTION_SIZE, .fallback = "160x90", .min = 1, .max = 4096, .unit = "px",
     .help = "the size at which pictures are compared; a smaller size forgives more noise"},
    MR_OPTIONS_END};
#undef FIELD

static const mr_port outputs[] = {{.name = "out",
                                   .help = "pictures in which something moves, with the share that has changed as the "
                                           "result \"motion\"",
                                   .accepts = mr_pictures},
                                  {0}};

const mr_stage_type mr_motion_stage = {
    .name = "motion",
    .summary = "lets pictures through while something moves; the others are absorbed as \"still\"",
    .help = "Each picture is compared with the last one from its source that passed, so that slow motion is noticed "
            "in the end. The first picture always passes.",
    .inputs = mr_picture_inputs,
    .outputs = outputs,
    .options = table,
    .options_bytes = sizeof(options),
    .state_bytes = sizeof(state),
    .whole = true,
    .entry = MR_ENTRY_PER_SOURCE,
    .streams = true,
    .cuda = true,
    .negotiate = negotiate,
    .open = open_stage,
    .process = process,
    .close = close_stage,
};
