#include "stages/extractor.h"

#include "stages/payload.h"

mr_preprocess_params mr_extractor_look(mr_size size, bool gray) {
    return (mr_preprocess_params){.width = size.width,
                                  .height = size.height,
                                  .crop_fraction = 1.0,
                                  .interpolation = MR_AREA,
                                  .gray = gray,
                                  .std = {1.0, 1.0, 1.0},
                                  .dtype = MR_DTYPE_U8,
                                  .layout = MR_LAYOUT_NCHW};
}

int mr_extractor_promise(mr_negotiation *n, const mr_format *tensor, const char *name) {
    const mr_format_set set = mr_format_set_of(tensor);
    if (!name) {
        n->outputs[0].set = set;
        return MR_OK;
    }
    n->outputs[0].follows = 0;
    return mr_promise_result(n, 0, MR_RESULT_TENSOR, name, &set);
}

int mr_extractor_open(mr_stage *self, const mr_preprocess_params *look) {
    mr_extractor *e = self->state;
    return mr_resizer_init(&e->resizer, look);
}

void mr_extractor_close(mr_stage *self) {
    mr_extractor *e = self->state;
    mr_resizer_fini(&e->resizer);
}

/* The buffers of one call. */
typedef struct call {
    mr_buffer *pictures, *numbers; /* numbers: NULL where they become results */
    size_t picture_bytes, number_bytes;
} call;

static size_t aligned(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

static void release(call *c) {
    mr_buffer_unref(&c->pictures);
    mr_buffer_unref(&c->numbers);
}

/* All that a call needs, before any work: where one buffer is missing, none is kept. Always enough for a whole
 * batch, so that one pool serves all calls. */
static int take_buffers(const mr_extractor *e, const mr_stage *self, mr_io *io, call *c) {
    const mr_format picture = mr_preprocess_output(&e->resizer.params);
    c->picture_bytes = aligned(mr_tensor_bytes(&picture));
    c->number_bytes = aligned(mr_tensor_bytes(&e->tensor));
    int status = e->name ? MR_OK : mr_io_buffer(io, 0, (size_t)self->batch * c->number_bytes, &c->numbers);
    if (!status)
        status = mr_io_buffer(io, 0, (size_t)self->batch * c->picture_bytes, &c->pictures);
    return status;
}

/* The frame that goes on for input `index`, and where its numbers go. */
static int make_frame(const mr_extractor *e, mr_io *io, const call *c, size_t index, mr_frame **frame,
                      void **numbers) {
    const mr_frame *from = mr_io_input_at(io, 0, index);
    if (e->name) {
        int status = mr_payload_share(io, from, frame);
        return status ? status : mr_payload_add_tensor(io, *frame, e->name, &e->tensor, numbers);
    }
    int status = mr_io_derive(io, from, frame);
    if (status)
        return status;
    uint8_t *data = c->numbers->data + index * c->number_bytes;
    (*frame)->format = e->tensor;
    (*frame)->plane[0] =
        (mr_plane){.buffer = mr_buffer_ref(c->numbers), .data = data, .bytes = mr_tensor_bytes(&e->tensor)};
    *numbers = data;
    return MR_OK;
}

/* Inputs first, first + 1, ...: at most MR_PIECE of them. */
static int process_piece(mr_extractor *e, const mr_stage *self, mr_io *io, const call *c, size_t first,
                         size_t count) {
    mr_frame *frame[MR_PIECE] = {NULL};
    mr_extraction work = {.count = (int32_t)count};
    int status = MR_OK;
    for (size_t i = 0; i < count && !status; i++) {
        uint8_t *small = c->pictures->data + (first + i) * c->picture_bytes;
        work.src[i] = small;
        status = make_frame(e, io, c, first + i, &frame[i], &work.dst[i]);
        if (!status)
            status = mr_resizer_enqueue(&e->resizer, mr_io_stream(io), mr_io_input_at(io, 0, first + i), small);
    }
    if (!status)
        status = e->enqueue(self, mr_io_stream(io), &work);
    for (size_t i = 0; i < count; i++) {
        if (!status)
            status = mr_io_emit(io, 0, frame[i]);
        else
            mr_frame_unref(&frame[i]);
    }
    return status;
}

int mr_extractor_process(mr_stage *self, mr_io *io) {
    mr_extractor *e = self->state;
    call c = {0};
    size_t count = mr_io_count(io);
    int status = take_buffers(e, self, io, &c);
    for (size_t first = 0; first < count && !status; first += MR_PIECE) {
        size_t left = count - first;
        status = process_piece(e, self, io, &c, first, left < MR_PIECE ? left : MR_PIECE);
    }
    release(&c);
    return status;
}
