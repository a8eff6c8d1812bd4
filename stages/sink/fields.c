#include "stages/sink/fields.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/data/kinds.h"
#include "stages/sink/number_text.h"
#include "stages/sink/output.h"

/* ---- values ------------------------------------------------------------------------------------------------------ */

_Static_assert((int)MR_VALUE_TEXT >= (int)MR_DATE_TEXT && (int)MR_VALUE_TEXT >= (int)MR_NUMBER_TEXT, "each has room");

size_t mr_value_text(char text[MR_VALUE_TEXT], const mr_field *field, const void *base) {
    const void *at = (const char *)base + field->offset;
    text[0] = 0;
    switch (field->type) {
    case MR_FIELD_BOOL:
        return (size_t)snprintf(text, MR_VALUE_TEXT, "%s", *(const bool *)at ? "true" : "false");
    case MR_FIELD_I32:
        return (size_t)snprintf(text, MR_VALUE_TEXT, "%ld", (long)*(const int32_t *)at);
    case MR_FIELD_I64:
        return (size_t)snprintf(text, MR_VALUE_TEXT, "%lld", (long long)*(const int64_t *)at);
    case MR_FIELD_F32:
        return mr_float_text(text, *(const float *)at);
    case MR_FIELD_F64:
        return mr_double_text(text, *(const double *)at);
    case MR_FIELD_TIME:
        return mr_seconds_text(text, *(const int64_t *)at);
    case MR_FIELD_DATE:
        return *(const int64_t *)at ? strlen(mr_date_text(text, *(const int64_t *)at)) : 0;
    case MR_FIELD_ID:
        return *(const int64_t *)at > 0 ? (size_t)snprintf(text, MR_VALUE_TEXT, "%lld", (long long)*(const int64_t *)at)
                                        : 0;
    default:
        return 0;
    }
}

bool mr_value_is_set(const mr_field *field, const void *base) {
    const void *at = (const char *)base + field->offset;
    switch (field->type) {
    case MR_FIELD_BOOL:
        return *(const bool *)at;
    case MR_FIELD_I32:
        return *(const int32_t *)at != 0;
    case MR_FIELD_I64:
    case MR_FIELD_DATE:
    case MR_FIELD_ID:
        return *(const int64_t *)at != 0;
    case MR_FIELD_F32:
        return *(const float *)at != 0;
    case MR_FIELD_F64:
        return *(const double *)at != 0;
    case MR_FIELD_TIME:
        return *(const int64_t *)at != MR_NO_TIME;
    case MR_FIELD_F32S:
    case MR_FIELD_I32S:
    case MR_FIELD_STRING:
    case MR_FIELD_LIST:
        return ((const mr_items *)at)->count != 0;
    default:
        return *(const char *const *)at != NULL;
    }
}

mr_record_values mr_record_values_of(const mr_recorded *recorded) {
    const mr_frame *frame = recorded->frame;
    if (!frame)
        return (mr_record_values){.source = recorded->source, .pts_ns = MR_NO_TIME, .end = true};
    return (mr_record_values){
        .source = recorded->source,
        .epoch = frame->identity.epoch,
        .seq = (int64_t)frame->identity.seq,
        .sub = frame->identity.sub,
        .pts_ns = frame->pts_ns,
        .id = mr_frame_id(frame),
        .captured_ns = frame->captured_ns,
        .damaged = mr_frame_is_damaged(frame),
        .away = frame->flags & MR_FRAME_AWAY,
        .file = mr_frame_file(frame),
        .label = mr_frame_label(frame),
        .format = recorded->format,
    };
}

/* ---- lists ------------------------------------------------------------------------------------------------------- */

/* Field numbers in messages. */
enum { STAGE = 1, NAME, KIND = 6, ELEMENTS = 4, GROUP_ELEMENTS = 2 };
static const mr_field stage_field = {.name = "stage", .type = MR_FIELD_TEXT, .offset = offsetof(mr_result, stage)};
static const mr_field name_field = {.name = "name", .type = MR_FIELD_TEXT, .offset = offsetof(mr_result, name)};
static const mr_field kind_field = {.name = "kind", .type = MR_FIELD_TEXT, .offset = offsetof(mr_result_kind, name)};

static bool is_same_text(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* Whether it is the newest result with this kind, stage and name. */
static bool is_newest(const mr_frame *frame, const mr_result *result) {
    const mr_result *one = mr_frame_result(frame, result->kind, result->stage);
    while (one && !is_same_text(one->name, result->name))
        one = mr_result_find(one->next, result->kind, result->stage);
    return one == result;
}

static void put_fields(mr_encoder *to, const mr_result *result, const mr_field *fields, const void *base) {
    uint32_t number = 0;
    for (const mr_field *field = fields; field->name; field++)
        mr_record_walk_field(result, base, field, ++number, to);
}

static void put_list(mr_encoder *to, const mr_result *result, const mr_field *field, uint32_t number, mr_items items) {
    const char *item = mr_result_items(result, items);
    to->open(to, MR_OPEN_LIST, field->name, number, 0);
    for (uint32_t i = 0; i < items.count; i++, item += field->item_bytes) {
        to->open(to, MR_OPEN_ITEM, NULL, number, 0);
        put_fields(to, result, field->fields, item);
        to->close(to, MR_OPEN_ITEM);
    }
    to->close(to, MR_OPEN_LIST);
}

/* Items end with a zero. */
static void put_string(mr_encoder *to, const mr_result *result, const mr_field *field, uint32_t number,
                       mr_items items) {
    const mr_field text = {.name = field->name, .type = MR_FIELD_TEXT};
    const char *value = items.count ? mr_result_items(result, items) : "";
    to->value(to, &text, number, &value);
}

void mr_record_walk_field(const mr_result *result, const void *element, const mr_field *field, uint32_t number,
                          mr_encoder *to) {
    const bool several = mr_field_item_bytes(field) && field->type != MR_FIELD_STRING;
    mr_items items = {0, 0};
    if ((several || field->sparse) && !mr_value_is_set(field, element))
        return;
    if (several || field->type == MR_FIELD_STRING)
        memcpy(&items, (const char *)element + field->offset, sizeof items);
    if (field->type == MR_FIELD_LIST)
        put_list(to, result, field, number, items);
    else if (field->type == MR_FIELD_STRING)
        put_string(to, result, field, number, items);
    else if (several)
        to->numbers(to, field, number, mr_result_items(result, items), items.count);
    else
        to->value(to, field, number, element);
}

static void put_elements(mr_encoder *to, const mr_result *result, uint32_t number) {
    const char *element = result->data;
    for (size_t i = 0; i < result->count; i++, element += result->kind->element_bytes) {
        to->open(to, MR_OPEN_ITEM, NULL, number, 0);
        put_fields(to, result, result->kind->fields, element);
        to->close(to, MR_OPEN_ITEM);
    }
}

/* Writes a kind's newest elements; if there are several results, each stage's newest too. */
static void put_kind(const mr_recorded *recorded, mr_encoder *to, const mr_result_kind *kind, uint32_t number,
                     uint32_t group_number) {
    const mr_frame *frame = recorded->frame;
    const mr_result *newest = mr_frame_result(frame, kind, NULL);
    char text[160];
    to->open(to, MR_OPEN_LIST, kind->name, number, 0);
    if (newest)
        put_elements(to, newest, number);
    to->close(to, MR_OPEN_LIST);
    if (recorded->newest || !newest || !mr_result_find(newest->next, kind, NULL))
        return;
    snprintf(text, sizeof text, "%s_by_stage", kind->name);
    to->open(to, MR_OPEN_GROUPS, text, group_number, 0);
    for (const mr_result *one = newest; one; one = mr_result_find(one->next, kind, NULL)) {
        if (!is_newest(frame, one))
            continue;
        snprintf(text, sizeof text, "%s%s%s", one->stage, one->name ? "." : "", one->name ? one->name : "");
        to->open(to, MR_OPEN_GROUP, text, group_number, 0);
        put_elements(to, one, GROUP_ELEMENTS);
        to->close(to, MR_OPEN_GROUP);
    }
    to->close(to, MR_OPEN_GROUPS);
}

static void put_classes(const mr_recorded *recorded, mr_encoder *to, uint32_t number) {
    put_kind(recorded, to, mr_kind_classes(), number, number + 1);
}

static void put_result(mr_encoder *to, const mr_result *one, uint32_t number) {
    to->open(to, MR_OPEN_ITEM, NULL, number, 0);
    to->value(to, &stage_field, STAGE, one);
    to->value(to, &name_field, NAME, one);
    put_elements(to, one, ELEMENTS);
    to->value(to, &kind_field, KIND, one->kind);
    to->close(to, MR_OPEN_ITEM);
}

static bool has_elements(const mr_frame *frame, const mr_result_kind *kind) {
    const mr_result *one = mr_frame_result(frame, kind, NULL);
    while (one && !one->count)
        one = mr_result_find(one->next, kind, NULL);
    return one;
}

/* Writes the elements of all kinds but classes. If most frames have none of a kind, the others say nothing of it. */
static void put_others(const mr_recorded *recorded, mr_encoder *to, uint32_t number) {
    const mr_frame *frame = recorded->frame;
    for (const mr_result *one = frame->results; one; one = one->next) {
        if (!one->kind->fields || one->kind == mr_kind_classes())
            continue;
        if (one->kind->rare && !has_elements(frame, one->kind))
            continue;
        if (to->by_result && is_newest(frame, one))
            put_result(to, one, number);
        else if (!to->by_result && mr_frame_result(frame, one->kind, NULL) == one)
            put_kind(recorded, to, one->kind, number, number);
    }
}

static void put_features(const mr_recorded *recorded, mr_encoder *to, uint32_t number) {
    const mr_frame *frame = recorded->frame;
    if (recorded->features && frame->format.payload == MR_PAYLOAD_TENSOR)
        to->array(to, "features", number, &frame->format, frame->plane[0].data);
}

static void put_tensors(const mr_recorded *recorded, mr_encoder *to, uint32_t number) {
    if (!recorded->tensors)
        return;
    to->open(to, MR_OPEN_LIST, "tensors", number, 0);
    for (const mr_result *one = recorded->frame->results; one; one = one->next) {
        if (one->kind->fields)
            continue;
        to->open(to, MR_OPEN_ITEM, NULL, number, mr_result_bytes(one));
        to->value(to, &stage_field, STAGE, one);
        to->value(to, &name_field, NAME, one);
        if (one->kind != mr_kind_tensor())
            to->value(to, &kind_field, KIND, one->kind);
        to->array(to, NULL, 0, &one->format, one->data);
        to->close(to, MR_OPEN_ITEM);
    }
    to->close(to, MR_OPEN_LIST);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

typedef struct row {
    mr_record_field shown;
    bool always; /* present in every record */
    void (*put)(const mr_recorded *recorded, mr_encoder *to, uint32_t number);
} row;

#define FIELD(id, kind, at, of, text) {.name = id, .type = kind, .offset = at, .unit = of, .help = text}
#define VALUE(name, type, member, number, always, unit, help)                                                         \
    {{FIELD(name, type, offsetof(mr_record_values, member), unit, help), number}, always, NULL}
#define LIST(name, number, put, help) {{FIELD(name, MR_FIELD_TYPES, 0, NULL, help), number}, true, put}

/* In JSON order. */
static const row rows[] = {
    VALUE("source", MR_FIELD_TEXT, source, 1, true, NULL, "id of the source"),
    VALUE("epoch", MR_FIELD_I64, epoch, 2, false, NULL, "number of the turn in a loop, or of the connection"),
    VALUE("seq", MR_FIELD_I64, seq, 3, true, NULL, "number of the frame within its epoch"),
    VALUE("sub", MR_FIELD_I64, sub, 4, false, NULL, "number among the frames that were derived from one"),
    VALUE("pts", MR_FIELD_TIME, pts_ns, 5, true, "s", "presentation time; in JSON null if unknown"),
    VALUE("id", MR_FIELD_TEXT, id, 17, false, NULL,
          "the frame's name, from the program that sent it to zmq.pull or zmq.sub; at most 255 bytes"),
    VALUE("captured", MR_FIELD_DATE, captured_ns, 13, false, "ns",
          "when the camera took the picture, since 1970, if the source knows"),
    VALUE("damaged", MR_FIELD_BOOL, damaged, 14, false, NULL, "the picture is known to be damaged"),
    VALUE("away", MR_FIELD_BOOL, away, 16, false, NULL,
          "the picture is not from the stream: it shows since when the stream is away"),
    VALUE("file", MR_FIELD_TEXT, file, 6, false, NULL,
          "the file from which the picture was read, or the one that the sending program names"),
    VALUE("label", MR_FIELD_TEXT, label, 7, false, NULL,
          "the true class, from a folder of classes or from the sending program"),
    LIST("classes", 8, put_classes, "index, label and score, best first; if several stages gave classes, the newest "
                                    "ones"),
    LIST("classes_by_stage", 9, NULL, "if several stages gave classes: the classes from each"),
    LIST("results", 18, put_others, "objects, text, and elements of kinds from plugins; in JSON under the name "
                                    "of the kind"),
    LIST("features", 10, put_features, "the tensor that the frame carries as its payload; on request"),
    LIST("tensors", 11, put_tensors, "the named tensors that the frame carries as results; on request"),
    VALUE("format", MR_FIELD_TEXT, format, 12, false, NULL,
          "format of the payload after the record: \"RGB24 640x480\" or \"f32 3x224x224\" (without gaps), or the name "
          "of a codec"),
    VALUE("end", MR_FIELD_BOOL, end, 15, false, NULL, "not a frame: nothing more comes from this source"),
};

const mr_record_field *mr_record_field_at(size_t index) {
    return index < sizeof rows / sizeof *rows ? &rows[index].shown : NULL;
}

void mr_record_walk(const mr_recorded *recorded, mr_encoder *to) {
    const mr_record_values values = mr_record_values_of(recorded);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const mr_record_field *one = &rows[i].shown;
        if (rows[i].put && recorded->frame)
            rows[i].put(recorded, to, one->number);
        else if (one->field.type != MR_FIELD_TYPES &&
                 ((rows[i].always && recorded->frame) || mr_value_is_set(&one->field, &values)))
            to->value(to, &one->field, one->number, &values);
    }
}

static bool has_field(const mr_result_kind *kind, const char *name) {
    const mr_field *field = kind->fields;
    while (field->name && strcmp(field->name, name) != 0)
        field++;
    return field->name;
}

void mr_record_walk_element(const mr_recorded *recorded, const mr_result *result, size_t index, mr_encoder *to) {
    const mr_record_values values = mr_record_values_of(recorded);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const mr_record_field *one = &rows[i].shown;
        if (one->field.type != MR_FIELD_TYPES && !has_field(result->kind, one->field.name) &&
            (rows[i].always || mr_value_is_set(&one->field, &values)))
            to->value(to, &one->field, one->number, &values);
    }
    put_fields(to, result, result->kind->fields, (const char *)result->data + index * result->kind->element_bytes);
}
