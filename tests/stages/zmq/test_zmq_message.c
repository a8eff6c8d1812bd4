/* Results with items in protobuf: results.proto describes what is written. */
#include <string.h>

#include "engine/data/store.h"
#include "millrace/objects.h"
#include "millrace/status.h"
#include "millrace/text.h"
#include "proto/results.pb-c.h"
#include "stages/zmq/zmq_message.h"
#include "tests/support/suite.h"

static bool fits(const ProtobufCFieldDescriptor *found, mr_field_type type) {
    static const ProtobufCType types[MR_FIELD_TYPES] = {
        [MR_FIELD_BOOL] = PROTOBUF_C_TYPE_BOOL,     [MR_FIELD_I32] = PROTOBUF_C_TYPE_INT32,
        [MR_FIELD_I64] = PROTOBUF_C_TYPE_INT64,     [MR_FIELD_F32] = PROTOBUF_C_TYPE_FLOAT,
        [MR_FIELD_F64] = PROTOBUF_C_TYPE_DOUBLE,    [MR_FIELD_TEXT] = PROTOBUF_C_TYPE_STRING,
        [MR_FIELD_TIME] = PROTOBUF_C_TYPE_INT64,    [MR_FIELD_DATE] = PROTOBUF_C_TYPE_SINT64,
        [MR_FIELD_ID] = PROTOBUF_C_TYPE_INT64,      [MR_FIELD_F32S] = PROTOBUF_C_TYPE_FLOAT,
        [MR_FIELD_I32S] = PROTOBUF_C_TYPE_INT32,    [MR_FIELD_STRING] = PROTOBUF_C_TYPE_STRING,
        [MR_FIELD_LIST] = PROTOBUF_C_TYPE_MESSAGE};
    const bool repeated = type == MR_FIELD_F32S || type == MR_FIELD_I32S || type == MR_FIELD_LIST;
    return found->type == types[type] && (found->label == PROTOBUF_C_LABEL_REPEATED) == repeated;
}

/* The message has the table's fields, with the numbers of their order. */
static void check(const ProtobufCMessageDescriptor *message, const mr_field *fields) {
    unsigned count = 0;
    for (const mr_field *field = fields; field->name; field++) {
        const ProtobufCFieldDescriptor *found = protobuf_c_message_descriptor_get_field(message, ++count);
        if (!found || strcmp(found->name, field->name) != 0 || !fits(found, field->type))
            fail_msg("results.proto: message %s needs field %u: %s", message->short_name, count, field->name);
        if (field->fields)
            check(found->descriptor, field->fields);
    }
    assert_int_equal(message->n_fields, count);
}

TEST(messages_are_those_of_the_kinds) {
    check(&millrace__results__class__descriptor, mr_kind_classes()->fields);
    check(&millrace__results__object__descriptor, mr_kind_objects()->fields);
    check(&millrace__results__text__descriptor, mr_kind_text()->fields);
}

static mr_items add(mr_result *result, const void *items, size_t count, size_t bytes) {
    mr_items made;
    assert_int_equal(mr_result_add_items(result, items, count, bytes, &made), MR_OK);
    return made;
}

static void add_object(mr_store *store, mr_frame *frame) {
    static const float quad[8] = {1, -2.5F, 3, 4, 5, 6, 7, 8};
    static const int32_t mask[3] = {0, -7, 300};
    const mr_object_zone zone = {"door", 1.5, "watch"};
    mr_object_attribute attributes[2] = {{.stage = "read", .score = 0.5F, .label = "plate"}, {.index = -9}};
    assert_int_equal(mr_store_result(store, mr_kind_objects(), 1, &frame->results), MR_OK);
    mr_result *result = frame->results;
    result->stage = "detect";
    result->count = 1;
    attributes[0].text = add(result, "K\xc3\xb6ln \xff", 7, 1);
    mr_object *object = result->data;
    *object = (mr_object){.left = 1, .label = "car", .number = 3, .parent = 2, .mask_width = 303, .mask_height = 1};
    object->quad = add(result, quad, 8, sizeof *quad);
    object->mask = add(result, mask, 3, sizeof *mask);
    object->zones = add(result, &zone, 1, sizeof zone);
    object->attributes = add(result, attributes, 2, sizeof *attributes);
}

TEST(an_object_is_read_by_others) {
    ENDED_BY(mr_store_release) mr_store *store = NULL;
    ENDED_BY(mr_frame_unref) mr_frame *frame = NULL;
    ENDED_BY(mr_zmq_message_destroy) mr_zmq_message *message = NULL;
    const uint8_t *data;
    size_t bytes;
    assert_int_equal(mr_store_create(&store), MR_OK);
    assert_int_equal(mr_store_frame(store, &frame), MR_OK);
    add_object(store, frame);
    assert_int_equal(mr_zmq_message_create(&message), MR_OK);
    assert_int_equal(mr_zmq_message_make(message, &(mr_recorded){.frame = frame, .source = "a"}, &data, &bytes), MR_OK);
    Millrace__Results__Record *record = millrace__results__record__unpack(NULL, bytes, data);
    assert_non_null(record);
    assert_int_equal(record->n_results, 1);
    assert_string_equal(record->results[0]->kind, "objects");
    const ProtobufCBinaryData packed = record->results[0]->elements[0];
    Millrace__Results__Object *object = millrace__results__object__unpack(NULL, packed.len, packed.data);
    assert_non_null(object);
    assert_true(object->left == 1 && object->number == 3 && object->parent == 2 && object->n_points == 0);
    assert_true(object->n_quad == 8 && object->quad[1] == -2.5F && object->quad[7] == 8);
    assert_true(object->n_mask == 3 && object->mask[1] == -7 && object->mask[2] == 300 && object->mask_width == 303);
    assert_true(object->n_zones == 1 && object->zones[0]->dwell == 1.5 && object->n_attributes == 2);
    assert_string_equal(object->zones[0]->zone, "door");
    assert_string_equal(object->zones[0]->stage, "watch");
    assert_string_equal(object->attributes[0]->label, "plate");
    assert_int_equal(object->attributes[1]->index, -9);
    /* Text that is not UTF-8 is mended, as everywhere in messages. */
    assert_memory_equal(object->attributes[0]->text, "K", 1);
    assert_null(strchr(object->attributes[0]->text, '\xff'));
    millrace__results__object__free_unpacked(object, NULL);
    millrace__results__record__free_unpacked(record, NULL);
}

RUN_TESTS(NULL, NULL)
