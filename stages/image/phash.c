/* phash: a perceptual hash for each picture. Pictures that look alike differ in few bits. */
#include "stages/image/extractor.h"
#include "stages/list.h"

enum { FORM_BYTES, FORM_BITS };

typedef struct options {
    int form;
} options;

static mr_preprocess_params look_of_all(void) {
    mr_preprocess_params look = mr_extractor_look((mr_size){32, 32}, true);
    look.rotate = true;
    return look;
}

static mr_format describe(const options *o) {
    const int64_t bytes = MR_HASH_BYTES, bits = 8 * MR_HASH_BYTES;
    return o->form == FORM_BITS ? mr_tensor_format(MR_DTYPE_F32, MR_LAYOUT_FLAT, 1, &bits)
                                : mr_tensor_format(MR_DTYPE_U8, MR_LAYOUT_FLAT, 1, &bytes);
}

static int negotiate(mr_negotiation *n) {
    const mr_preprocess_params look = look_of_all();
    const mr_format tensor = describe(n->options);
    return mr_extractor_promise(n, &look, &tensor, "phash", 1);
}

static int enqueue(const mr_stage *self, mr_stream *stream, const mr_image_batch *piece) {
    const options *o = self->options;
    mr_phash_work work = {.count = piece->count, .bits = o->form == FORM_BITS};
    for (int32_t i = 0; i < piece->count; i++) {
        work.src[i] = piece->src[i];
        work.dst[i] = piece->dst[i];
    }
    return mr_phash_enqueue(stream, &work);
}

static int open_stage(mr_stage *self) {
    mr_extractor *e = self->state;
    e->tensor = describe(self->options);
    e->name = "phash";
    e->enqueue = enqueue;
    const mr_preprocess_params look = look_of_all();
    return mr_extractor_open(self, &look);
}

static const char *const forms[] = {"bytes", "bits", NULL};

static const mr_option table[] = {
    {.name = "form", .offset = offsetof(options, form), .kind = MR_OPTION_ENUM, .fallback = "bytes", .choices = forms,
     .help = "bytes: 8 values of u8, which in hexadecimal are ImageHash's text; bits: 64 values of f32, 0 or 1, for "
             "classify"},
    MR_OPTIONS_END};

static const mr_port outputs[] = {
    {.name = "out", .help = "the same pictures, with the result \"phash\"", .accepts = mr_pictures}, {0}};

const mr_stage_type mr_phash_stage = {
    .name = "phash",
    .summary = "adds a perceptual hash of 64 bits to each picture",
    .help = "The hash is pHash as the Python package ImageHash defines it: the luma at 32x32, its 64 lowest "
            "frequencies (DCT), and one bit for each that is above their median. Pictures are resized by area.",
    .outputs = outputs,
    .options = table,
    .options_bytes = sizeof(options),
    .state_bytes = sizeof(mr_extractor),
    .negotiate = negotiate,
    .open = open_stage,
    MR_EXTRACTOR_TYPE,
    .close = mr_extractor_close,
};
