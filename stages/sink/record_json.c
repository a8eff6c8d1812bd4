#include "stages/sink/record_json.h"

#include <string.h>

#include "engine/base/json.h"
#include "stages/sink/number_text.h"
#include "stages/sink/rows.h"

/* ---- planning -------------------------------------------------------------------------------------------------- */

/* False only if planning knows all results. */
static bool may_carry_tensors(const mr_planned_input *input) {
    const mr_planned_result *one = input->results;
    while (one && one->kind->fields)
        one = one->next;
    return one || input->more_results;
}

/* Elements of a plugin's kind appear under its name, which must not equal a field name. */
static int check_names(mr_negotiation *negotiation) {
    const mr_record_field *field;
    for (const mr_planned_result *one = negotiation->inputs[0].results; one; one = one->next)
        for (size_t i = 0; one->kind != mr_kind_classes() && (field = mr_record_field_at(i)); i++)
            if (one->kind->fields && strcmp(one->kind->name, field->field.name) == 0)
                return mr_refuse(negotiation, NULL, "%s gives results of a kind \"%s\", which is the name of a field "
                                 "of records: its plugin must rename it", negotiation->inputs[0].from, one->kind->name);
    return MR_OK;
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
    return check_names(negotiation);
}

/* ---- JSON ------------------------------------------------------------------------------------------------------ */

static void put_number(yajl_gen json, const char *text, size_t bytes) {
    if (bytes)
        yajl_gen_number(json, text, bytes);
    else
        yajl_gen_null(json);
}

/* ---- the encoder ----------------------------------------------------------------------------------------------- */

static yajl_gen json_of(const mr_encoder *to) {
    return ((const mr_record *)to)->json;
}

static void put_value(mr_encoder *to, const mr_field *field, uint32_t number, const void *base) {
    const void *value = (const char *)base + field->offset;
    const yajl_gen json = json_of(to);
    char text[MR_VALUE_TEXT];
    mr_json_key(json, field->name);
    if (field->type == MR_FIELD_TEXT)
        mr_json_text(json, NULL, *(const char *const *)value);
    else if (field->type == MR_FIELD_BOOL)
        yajl_gen_bool(json, *(const bool *)value);
    else if (field->type == MR_FIELD_DATE)
        mr_json_text(json, NULL, mr_value_text(text, field, base) ? text : NULL);
    else
        put_number(json, text, mr_value_text(text, field, base));
}

static void put_numbers(mr_encoder *to, const mr_field *field, uint32_t number, const void *data, size_t count) {
    const mr_dtype dtype = field->type == MR_FIELD_F32S ? MR_DTYPE_F32 : MR_DTYPE_I32;
    const yajl_gen json = json_of(to);
    char text[MR_NUMBER_TEXT];
    MR_JSON_ARRAY(json, field->name)
        for (size_t i = 0; i < count; i++)
            put_number(json, text, mr_element_text(text, dtype, data, i));
}

static void open_part(mr_encoder *to, mr_record_opening what, const char *name, uint32_t number, size_t likely) {
    if (name)
        mr_json_text(json_of(to), NULL, name);
    if (what == MR_OPEN_LIST || what == MR_OPEN_GROUP)
        yajl_gen_array_open(json_of(to));
    else
        yajl_gen_map_open(json_of(to));
}

static void close_part(mr_encoder *to, mr_record_opening what) {
    if (what == MR_OPEN_LIST || what == MR_OPEN_GROUP)
        yajl_gen_array_close(json_of(to));
    else
        yajl_gen_map_close(json_of(to));
}

static void put_array(mr_encoder *to, const char *name, uint32_t number, const mr_format *format, const void *data) {
    const size_t count = mr_tensor_count(format);
    const yajl_gen json = json_of(to);
    char text[MR_NUMBER_TEXT];
    if (!name) {
        mr_json_text(json, "dtype", mr_dtype_name(format->dtype));
        MR_JSON_ARRAY(json, "shape")
            for (int32_t i = 0; i < format->rank; i++)
                yajl_gen_integer(json, format->dims[i]);
    }
    MR_JSON_ARRAY(json, name ? name : "data")
        for (size_t i = 0; i < count; i++)
            put_number(json, text, mr_element_text(text, format->dtype, data, i));
}

/* ---- making one ------------------------------------------------------------------------------------------------ */

int mr_record_open(mr_record *at) {
    *at = (mr_record){.encoder = {.value = put_value, .numbers = put_numbers, .open = open_part, .close = close_part,
                                  .array = put_array},
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
    MR_JSON_MAP(at->json, NULL)
        mr_record_walk(recorded, &at->encoder);
    yajl_gen_reset(at->json, "\n");
    yajl_gen_get_buf(at->json, &text, bytes);
    return (const char *)text;
}

const char *mr_record_make_elements(mr_record *at, const mr_recorded *recorded, const mr_result_kind *kind,
                                    size_t *bytes) {
    const unsigned char *text = NULL;
    yajl_gen_clear(at->json);
    for (const mr_result *one = NULL; (one = mr_rows_next(recorded->frame, kind, one));)
        for (size_t i = 0; i < one->count; i++) {
            MR_JSON_MAP(at->json, NULL)
                mr_record_walk_element(recorded, one, i, &at->encoder);
            yajl_gen_reset(at->json, "\n");
        }
    yajl_gen_get_buf(at->json, &text, bytes);
    return (const char *)text;
}

const char *mr_record_make_field(mr_record *at, const mr_result *result, const void *element, const mr_field *field,
                                 size_t *bytes) {
    const unsigned char *text = NULL;
    mr_field nameless = *field;
    nameless.name = NULL;
    yajl_gen_clear(at->json);
    mr_record_walk_field(result, element, &nameless, 0, &at->encoder);
    yajl_gen_reset(at->json, "");
    yajl_gen_get_buf(at->json, &text, bytes);
    return (const char *)text;
}
