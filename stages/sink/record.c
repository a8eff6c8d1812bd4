#include "stages/sink/record.h"

#include <string.h>

#include "engine/base/json.h"
#include "stages/sink/output.h"

/* ---- planning -------------------------------------------------------------------------------------------------- */

/* False only if planning knows all results. */
static bool may_carry_tensors(const mr_planned_input *input) {
    const mr_planned_result *one = input->results;
    while (one && one->kind->fields)
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

/* ---- the encoder ----------------------------------------------------------------------------------------------- */

static void put_value(mr_encoder *to, const mr_field *field, uint32_t number, const void *base) {
    mr_record *at = (mr_record *)to;
    const void *value = (const char *)base + field->offset;
    char text[MR_VALUE_TEXT];
    (void)number;
    put_key(at, field->name);
    if (field->type == MR_FIELD_TEXT)
        put_text(at, *(const char *const *)value);
    else if (field->type == MR_FIELD_BOOL)
        yajl_gen_bool(at->json, *(const bool *)value);
    else if (field->type == MR_FIELD_DATE)
        put_text(at, mr_value_text(text, field, base) ? text : NULL);
    else
        put_number(at, text, mr_value_text(text, field, base));
}

static void open_part(mr_encoder *to, mr_opening what, const char *name, uint32_t number, size_t likely) {
    mr_record *at = (mr_record *)to;
    (void)number;
    (void)likely;
    if (name)
        put_text(at, name);
    if (what == MR_OPEN_LIST || what == MR_OPEN_GROUP)
        yajl_gen_array_open(at->json);
    else
        yajl_gen_map_open(at->json);
}

static void close_part(mr_encoder *to, mr_opening what) {
    mr_record *at = (mr_record *)to;
    if (what == MR_OPEN_LIST || what == MR_OPEN_GROUP)
        yajl_gen_array_close(at->json);
    else
        yajl_gen_map_close(at->json);
}

static void put_numbers(mr_record *at, const char *key, const mr_format *format, const uint8_t *data) {
    char text[MR_NUMBER_TEXT];
    size_t count = mr_tensor_count(format);
    put_key(at, key);
    yajl_gen_array_open(at->json);
    for (size_t i = 0; i < count; i++)
        put_number(at, text, mr_element_text(text, format->dtype, data, i));
    yajl_gen_array_close(at->json);
}

static void put_array(mr_encoder *to, const mr_format *format, const void *data) {
    mr_record *at = (mr_record *)to;
    put_key(at, "dtype");
    put_text(at, mr_dtype_name(format->dtype));
    put_key(at, "shape");
    yajl_gen_array_open(at->json);
    for (int32_t i = 0; i < format->rank; i++)
        yajl_gen_integer(at->json, format->dims[i]);
    yajl_gen_array_close(at->json);
    put_numbers(at, "data", format, data);
}

static void put_payload(mr_encoder *to, const char *name, uint32_t number, const mr_format *format, const void *data) {
    (void)number;
    put_numbers((mr_record *)to, name, format, data);
}

/* ---- making one ------------------------------------------------------------------------------------------------ */

int mr_record_open(mr_record *at) {
    *at = (mr_record){.encoder = {.value = put_value, .open = open_part, .close = close_part, .array = put_array,
                                  .payload = put_payload},
                      .json = yajl_gen_alloc(NULL)};
    if (!at->json || !yajl_gen_config(at->json, yajl_gen_validate_utf8, 1))
        return mr_fail(MR_ERROR_MEMORY, "no memory for JSON");
    return MR_OK;
}

void mr_record_close(mr_record *at) {
    if (at->json)
        yajl_gen_free(at->json);
    *at = (mr_record){0};
}

const char *mr_record_make(mr_record *at, const mr_recorded *recorded, size_t *bytes) {
    const unsigned char *text = NULL;
    yajl_gen_clear(at->json);
    yajl_gen_map_open(at->json);
    mr_record_walk(recorded, &at->encoder);
    yajl_gen_map_close(at->json);
    yajl_gen_reset(at->json, "\n");
    yajl_gen_get_buf(at->json, &text, bytes);
    return (const char *)text;
}
