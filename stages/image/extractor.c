#include "stages/image/extractor.h"

#include "engine/base/memory.h"
#include "stages/download.h"

static const mr_format_set tensors[] = {{.payload = MR_PAYLOAD_TENSOR}, {.payload = MR_PAYLOAD_ANY}};
const mr_port mr_vector_outputs[] = {{.name = "out", .help = "one vector of f32 a frame", .accepts = tensors}, {0}};

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

/* One block per batch: small pictures first, then numbers that become results. */
typedef struct layout {
    size_t picture_bytes, number_bytes, numbers_at, scratch_bytes;
} layout;

static layout lay_out(const mr_preprocess_params *look, const mr_format *tensor, bool results, size_t batch) {
    const mr_format picture = mr_preprocess_output(look);
    layout l = {.picture_bytes = mr_aligned_bytes(mr_tensor_bytes(&picture)),
                .number_bytes = mr_aligned_bytes(mr_tensor_bytes(tensor))};
    l.numbers_at = batch * l.picture_bytes;
    l.scratch_bytes = l.numbers_at + (results ? batch * l.number_bytes : 0);
    return l;
}

int mr_extractor_promise_result(mr_negotiation *n, const mr_format *tensor, const char *name) {
    const mr_format_set set = mr_format_set_of(tensor);
    n->outputs[0].follows = n->outputs[0].shares = 0;
    return mr_promise_result(n, 0, mr_kind_tensor(), name, &set);
}

void mr_extractor_plan_workspace(mr_negotiation *n, size_t bytes) {
    size_t piece = (size_t)(n->batch < MR_PIECE ? n->batch : MR_PIECE);
    n->stream_bytes[0] = n->stream_bytes[1] = piece * bytes;
}

int mr_extractor_promise(mr_negotiation *n, const mr_preprocess_params *look, const mr_format *tensor,
                         const char *name, int launches) {
    const layout l = lay_out(look, tensor, name, (size_t)n->batch);
    n->scratch_bytes = l.scratch_bytes;
    if (name)
        mr_download_plan(n, l.number_bytes);
    mr_resizer_promise(n, look);
    n->work.launches += launches * ((n->batch + MR_PIECE - 1) / MR_PIECE);
    if (name)
        return mr_extractor_promise_result(n, tensor, name);
    n->outputs[0].set = mr_format_set_of(tensor);
    n->outputs[0].buffer_bytes = (size_t)n->batch * l.number_bytes;
    return MR_OK;
}

int mr_extractor_open(mr_stage *self, const mr_preprocess_params *look) {
    mr_extractor *e = self->state;
    return mr_resizer_init(&e->resizer, look);
}

void mr_extractor_close(mr_stage *self) {
    mr_extractor *e = self->state;
    mr_resizer_fini(&e->resizer);
}

/* One call's memory, always large enough for a full batch. */
typedef struct call {
    layout layout;
    mr_buffer *scratch, *vectors; /* vectors: NULL if the numbers become results */
    mr_download home;             /* downloads results */
    uint8_t *numbers;             /* in scratch or vectors */
} call;

static void release(call *c) {
    mr_download_release(&c->home);
    mr_buffer_unref(&c->scratch);
    mr_buffer_unref(&c->vectors);
}

/* Takes everything that a call needs, before any work. */
static int take_buffers(const mr_extractor *e, const mr_stage *self, mr_io *io, call *c) {
    size_t batch = (size_t)self->batch;
    c->layout = lay_out(&e->resizer.params, &e->tensor, e->name, batch);
    int status = e->name ? MR_OK : mr_io_buffer(io, 0, batch * c->layout.number_bytes, &c->vectors);
    if (!status)
        status = mr_io_scratch(io, c->layout.scratch_bytes, &c->scratch);
    if (status)
        return status;
    c->numbers = e->name ? c->scratch->data + c->layout.numbers_at : c->vectors->data;
    c->home = (mr_download){.finish = mr_download_tensor, .each = c->layout.number_bytes};
    return e->name ? mr_download_begin(&c->home, self, io) : MR_OK;
}

/* Passes the input on with a result, which is filled in once the numbers are computed. */
static int add_result(const mr_extractor *e, mr_io *io, call *c, size_t index, mr_frame **frame) {
    void *room = NULL;
    int status = mr_io_share(io, mr_io_input_at(io, 0, index), frame);
    if (!status)
        status = mr_io_add_tensor(io, *frame, e->name, &e->tensor, &room);
    if (!status)
        mr_download_add(&c->home, (*frame)->results, c->numbers + index * c->layout.number_bytes);
    return status;
}

/* Makes the frame to emit for input `index`. */
static int make_frame(const mr_extractor *e, mr_io *io, call *c, size_t index, mr_frame **frame) {
    if (e->name)
        return add_result(e, io, c, index, frame);
    int status = mr_io_derive(io, mr_io_input_at(io, 0, index), frame);
    if (status)
        return status;
    mr_frame_place(*frame, &e->tensor, c->vectors, index * c->layout.number_bytes, 1);
    return MR_OK;
}

/* Makes the small pictures and everything computed from them. */
static int compute_piece(mr_extractor *e, const mr_stage *self, mr_io *io, const call *c, size_t first,
                         size_t count) {
    mr_resizer_item look[MR_PIECE];
    mr_image_batch work = {.count = (int32_t)count};
    for (size_t i = 0; i < count; i++) {
        uint8_t *small = c->scratch->data + (first + i) * c->layout.picture_bytes;
        work.src[i] = small;
        work.dst[i] = c->numbers + (first + i) * c->layout.number_bytes;
        look[i] = (mr_resizer_item){.picture = mr_io_input_at(io, 0, first + i), .dst = small};
    }
    int status = mr_resizer_enqueue(&e->resizer, mr_io_stream(io), look, count);
    return status ? status : e->enqueue(self, mr_io_stream(io), &work);
}

/* Inputs from `first`: at most MR_PIECE. */
static int process_piece(mr_extractor *e, const mr_stage *self, mr_io *io, call *c, size_t first, size_t count) {
    int status = compute_piece(e, self, io, c, first, count);
    for (size_t i = first; i < first + count && !status; i++) {
        mr_frame *frame = NULL;
        status = make_frame(e, io, c, i, &frame);
        status = mr_io_finish(io, 0, frame, status);
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
    if (!status)
        status = mr_download_end(&c.home, io, c.numbers);
    release(&c);
    return status;
}
