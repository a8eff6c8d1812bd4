#include "stages/sink/record.h"

#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "stages/sink/output.h"

/* ---- planning -------------------------------------------------------------------------------------------------- */

/* False only if planning knows all results. */
static bool may_carry_tensors(const mr_planned_input *input) {
    const mr_planned_result *one = input->results;
    while (one && one->kind != mr_kind_tensor())
        one = one->next;
    return one || input->more_results;
}

int mr_record_check(mr_negotiation *negotiation, bool features, bool tensors) {
    static const char *const plural[] = {[MR_PAYLOAD_PACKET] = "packets",
                                         [MR_PAYLOAD_PICTURE] = "pictures",
                                         [MR_PAYLOAD_RESULTS] = "results without content"};
    mr_payload payload = negotiation->inputs[0].set.payload;
    if (features && payload != MR_PAYLOAD_TENSOR && payload != MR_PAYLOAD_ANY)
        return mr_refuse(negotiation, "features", "%s gives %s, and only a tensor can be printed as features",
                         negotiation->inputs[0].from, plural[payload]);
    if (tensors && !may_carry_tensors(&negotiation->inputs[0]))
        return mr_refuse(negotiation, "tensors", "no stage before it gives a named tensor to print; leave `tensors` "
                         "out, or put infer, phash, sharpness or motion before it%s",
                         payload == MR_PAYLOAD_TENSOR ? "; `features` prints the tensor that frames are" : "");
    return MR_OK;
}

/* ---- making one ------------------------------------------------------------------------------------------------ */

int mr_record_open(mr_record *at) {
    at->json = yajl_gen_alloc(NULL);
    if (!at->json || !yajl_gen_config(at->json, yajl_gen_validate_utf8, 1))
        return mr_fail(MR_ERROR_MEMORY, "no memory for JSON");
    return MR_OK;
}

void mr_record_close(mr_record *at) {
    if (at->json)
        yajl_gen_free(at->json);
    *at = (mr_record){0};
}

/* ---- JSON ------------------------------------------------------------------------------------------------------ */

static void put_text(mr_record *at, const char *text) {
    mr_json_text(at->json, NULL, text);
}

static void put_key(mr_record *at, const char *key) {
    yajl_gen_string(at->json, (const unsigned char *)key, strlen(key));
}

static void put_number(mr_record *at, const char *text, size_t bytes) {
    if (bytes)
        yajl_gen_number(at->json, text, bytes);
    else
        yajl_gen_null(at->json);
}

static void put_integer(mr_record *at, const char *key, uint64_t value) {
    put_key(at, key);
    yajl_gen_integer(at->json, (long long)value);
}

/* ---- a frame --------------------------------------------------------------------------------------------------- */

static void put_name(mr_record *at, const char *key, const char *name) {
    if (!name)
        return;
    put_key(at, key);
    put_text(at, name);
}

static void put_identity(mr_record *at, const mr_stage *self, const mr_frame *frame) {
    char text[MR_NUMBER_TEXT];
    put_key(at, "source");
    put_text(at, mr_stage_source_id(self, frame->identity.source));
    if (frame->identity.epoch)
        put_integer(at, "epoch", frame->identity.epoch);
    put_integer(at, "seq", frame->identity.seq);
    if (frame->identity.sub)
        put_integer(at, "sub", frame->identity.sub);
    put_key(at, "pts");
    put_number(at, text, mr_seconds_text(text, frame->pts_ns));
    put_name(at, "id", mr_frame_id(frame));
    if (frame->captured_ns) {
        char date[MR_DATE_TEXT];
        put_key(at, "captured");
        put_text(at, mr_date_text(date, frame->captured_ns));
    }
    if (mr_frame_is_damaged(frame)) {
        put_key(at, "damaged");
        yajl_gen_bool(at->json, 1);
    }
    if (frame->flags & MR_FRAME_AWAY) {
        put_key(at, "away");
        yajl_gen_bool(at->json, 1);
    }
    put_name(at, "file", mr_frame_file(frame));
    put_name(at, "label", mr_frame_label(frame));
}

static void put_class_list(mr_record *at, const mr_result *result) {
    char text[MR_NUMBER_TEXT];
    yajl_gen_array_open(at->json);
    for (size_t i = 0; result && i < result->count; i++) {
        const mr_class *one = &result->classes[i];
        yajl_gen_map_open(at->json);
        put_key(at, "index");
        yajl_gen_integer(at->json, one->index);
        put_key(at, "label");
        put_text(at, one->label);
        put_key(at, "score");
        put_number(at, text, mr_float_text(text, one->score));
        yajl_gen_map_close(at->json);
    }
    yajl_gen_array_close(at->json);
}

/* `classes` are the newest ones; if several stages gave classes, `classes_by_stage` has them all. */
static void put_classes(mr_record *at, const mr_frame *frame) {
    const mr_result *newest = mr_frame_result(frame, mr_kind_classes(), NULL);
    put_key(at, "classes");
    put_class_list(at, newest);
    bool several = false;
    for (const mr_result *one = newest ? newest->next : NULL; one; one = one->next)
        several = several || one->kind == mr_kind_classes();
    if (!several)
        return;
    put_key(at, "classes_by_stage");
    yajl_gen_map_open(at->json);
    for (const mr_result *one = newest; one; one = one->next)
        if (one->kind == mr_kind_classes() && mr_frame_result(frame, mr_kind_classes(), one->stage) == one) {
            put_text(at, one->stage);
            put_class_list(at, one);
        }
    yajl_gen_map_close(at->json);
}

static void put_elements(mr_record *at, const mr_format *format, const uint8_t *data) {
    char text[MR_NUMBER_TEXT];
    size_t count = mr_tensor_count(format);
    yajl_gen_array_open(at->json);
    for (size_t i = 0; i < count; i++)
        put_number(at, text, mr_element_text(text, format->dtype, data, i));
    yajl_gen_array_close(at->json);
}

static void put_tensors(mr_record *at, const mr_frame *frame) {
    put_key(at, "tensors");
    yajl_gen_array_open(at->json);
    for (const mr_result *one = frame->results; one; one = one->next) {
        if (one->kind != mr_kind_tensor())
            continue;
        yajl_gen_map_open(at->json);
        put_key(at, "stage");
        put_text(at, one->stage);
        put_key(at, "name");
        put_text(at, one->name);
        put_key(at, "dtype");
        put_text(at, mr_dtype_name(one->format.dtype));
        put_key(at, "shape");
        yajl_gen_array_open(at->json);
        for (int32_t i = 0; i < one->format.rank; i++)
            yajl_gen_integer(at->json, one->format.dims[i]);
        yajl_gen_array_close(at->json);
        put_key(at, "data");
        put_elements(at, &one->format, one->data);
        yajl_gen_map_close(at->json);
    }
    yajl_gen_array_close(at->json);
}

/* ---- the whole ------------------------------------------------------------------------------------------------- */

static const char *finish(mr_record *at, size_t *bytes) {
    const unsigned char *text = NULL;
    yajl_gen_map_close(at->json);
    yajl_gen_reset(at->json, "\n");
    yajl_gen_get_buf(at->json, &text, bytes);
    return (const char *)text;
}

static void begin(mr_record *at) {
    yajl_gen_clear(at->json);
    yajl_gen_map_open(at->json);
}

const char *mr_record_make(mr_record *at, const mr_stage *self, const mr_frame *frame, size_t *bytes) {
    begin(at);
    put_identity(at, self, frame);
    put_classes(at, frame);
    if (at->features && frame->format.payload == MR_PAYLOAD_TENSOR) {
        put_key(at, "features");
        put_elements(at, &frame->format, frame->plane[0].data);
    }
    if (at->tensors)
        put_tensors(at, frame);
    if (at->format) {
        put_key(at, "format");
        put_text(at, at->format);
    }
    return finish(at, bytes);
}

const char *mr_record_make_end(mr_record *at, const char *source, size_t *bytes) {
    begin(at);
    put_key(at, "source");
    put_text(at, source);
    put_key(at, "end");
    yajl_gen_bool(at->json, 1);
    return finish(at, bytes);
}
