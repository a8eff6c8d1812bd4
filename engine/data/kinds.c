#include "engine/data/kinds.h"

#include <stdio.h>
#include <string.h>

#include "millrace/events.h"
#include "millrace/objects.h"
#include "millrace/status.h"
#include "millrace/text.h"

/* In the order in which records must list them. */
static const mr_result_kind *(*const built_in[])(void) = {
    mr_kind_classes, mr_kind_objects, mr_kind_events, mr_kind_text, mr_kind_tensor};

/* ---- fields ------------------------------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    size_t bytes, item; /* item: bytes of one of several; 0: the field has one value, or a list */
} types[MR_FIELD_TYPES] = {
    [MR_FIELD_BOOL] = {"bool", sizeof(bool), 0},
    [MR_FIELD_I32] = {"i32", sizeof(int32_t), 0},
    [MR_FIELD_I64] = {"i64", sizeof(int64_t), 0},
    [MR_FIELD_F32] = {"f32", sizeof(float), 0},
    [MR_FIELD_F64] = {"f64", sizeof(double), 0},
    [MR_FIELD_TEXT] = {"text", sizeof(const char *), 0},
    [MR_FIELD_TIME] = {"time", sizeof(int64_t), 0},
    [MR_FIELD_DATE] = {"date", sizeof(int64_t), 0},
    [MR_FIELD_ID] = {"id", sizeof(int64_t), 0},
    [MR_FIELD_F32S] = {"f32s", sizeof(mr_items), sizeof(float)},
    [MR_FIELD_I32S] = {"i32s", sizeof(mr_items), sizeof(int32_t)},
    [MR_FIELD_STRING] = {"string", sizeof(mr_items), 1},
    [MR_FIELD_LIST] = {"list", sizeof(mr_items), 0},
};

size_t mr_field_item_bytes(const mr_field *field) {
    return field->type == MR_FIELD_LIST ? field->item_bytes : types[field->type].item;
}

bool mr_result_kind_has_items(const mr_result_kind *kind) {
    const mr_field *field = kind->fields;
    while (field && field->name && !mr_field_item_bytes(field))
        field++;
    return field && field->name;
}

/* ---- kinds ------------------------------------------------------------------------------------------------------- */

/* Returns the new length, which is at least MR_KIND_TEXT if the text does not fit. */
static size_t print_fields(const mr_field *fields, const char *between, char *text, size_t used) {
    for (const mr_field *field = fields; field && field->name && used < MR_KIND_TEXT; field++) {
        used += (size_t)snprintf(text + used, MR_KIND_TEXT - used, "%s%s:%s", field == fields ? between : " ",
                                 field->name, field->fields ? "[" : types[field->type].name);
        if (!field->fields || used >= MR_KIND_TEXT)
            continue;
        used = print_fields(field->fields, "", text, used);
        if (used < MR_KIND_TEXT)
            used += (size_t)snprintf(text + used, MR_KIND_TEXT - used, "]");
    }
    return used;
}

const char *mr_result_kind_print(const mr_result_kind *kind, char text[MR_KIND_TEXT]) {
    print_fields(kind->fields, " ", text, (size_t)snprintf(text, MR_KIND_TEXT, "%s", kind->name));
    return text;
}

uint32_t mr_result_kind_id(const mr_result_kind *kind) {
    char text[MR_KIND_TEXT];
    uint32_t sum = UINT32_C(2166136261);
    for (const char *next = mr_result_kind_print(kind, text); *next; next++)
        sum = (sum ^ (uint8_t)*next) * UINT32_C(16777619);
    return sum;
}

static bool is_word(const char *name) {
    const size_t length = name ? strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") : 0;
    return length > 0 && length <= 64 && !name[length] && (*name < '0' || *name > '9');
}

static int wrong(const mr_result_kind *kind, const char *field, const char *what) {
    return mr_fail(MR_ERROR_DATA, "the result kind \"%.64s\"%s%.64s: %s", kind->name, field ? ", field " : "",
                   field ? field : "", what);
}

static int check_fields(const mr_result_kind *kind, const mr_field *list, const mr_field *fields, size_t bytes);

/* `list`: the field whose items have this field; NULL: it is in the element. `all`: bytes in that struct. */
static int check_field(const mr_result_kind *kind, const mr_field *list, const mr_field *field, size_t all) {
    if (!is_word(field->name))
        return wrong(kind, field->name, "its name must be of up to 64 lower-case letters, digits and _");
    if ((unsigned)field->type >= MR_FIELD_TYPES)
        return wrong(kind, field->name, "its type is not a value of mr_field_type");
    const size_t bytes = types[field->type].bytes;
    const size_t alignment = bytes == sizeof(mr_items) && field->type >= MR_FIELD_F32S ? _Alignof(mr_items) : bytes;
    if (field->offset % alignment || bytes > all || field->offset > all - bytes)
        return wrong(kind, field->name, list ? "its offset is not within item_bytes, or not aligned for its type"
                                             : "its offset is not within element_bytes, or not aligned for its type");
    if (field->type != MR_FIELD_LIST)
        return field->fields || field->item_bytes
                   ? wrong(kind, field->name, "only a list has fields and item_bytes") : MR_OK;
    if (list)
        return wrong(kind, field->name, "the items of a list cannot have lists");
    if (!field->fields || !field->fields->name || field->item_bytes == 0)
        return wrong(kind, field->name, "a list needs fields and item_bytes");
    return check_fields(kind, field, field->fields, field->item_bytes);
}

static int check_fields(const mr_result_kind *kind, const mr_field *list, const mr_field *fields, size_t bytes) {
    int status = MR_OK;
    for (const mr_field *field = fields; field->name && !status; field++) {
        status = field - fields < MR_MOST_FIELDS
                     ? check_field(kind, list, field, bytes)
                     : wrong(kind, NULL, "a table has more than 64 fields, or no {0} after the last");
        for (const mr_field *other = fields; other < field && !status; other++)
            if (strcmp(other->name, field->name) == 0)
                status = wrong(kind, field->name, "two fields have this name");
    }
    return status;
}

int mr_result_kind_check(const mr_result_kind *kind) {
    char text[MR_KIND_TEXT];
    if (!is_word(kind->name))
        return mr_fail(MR_ERROR_DATA, "\"%.64s\" cannot be the name of a result kind: up to 64 lower-case letters, "
                       "digits and _", kind->name ? kind->name : "");
    if (!kind->help || !*kind->help || strchr(kind->help, '\n'))
        return wrong(kind, NULL, "it needs a help of one line");
    if (!kind->fields)
        return kind->element_bytes ? wrong(kind, NULL, "it has element_bytes, but no fields") : MR_OK;
    if (kind->on_device || kind->element_bytes == 0)
        return wrong(kind, NULL, "elements need element_bytes, and cannot lie in a device's memory");
    int status = check_fields(kind, NULL, kind->fields, kind->element_bytes);
    if (status)
        return status;
    if (!kind->fields->name || strlen(mr_result_kind_print(kind, text)) + 1 == MR_KIND_TEXT)
        return wrong(kind, NULL, "it has no fields, or the names of its fields are too long");
    return MR_OK;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static bool has_name(const mr_result_kind *kind, const mr_result_kind *other) {
    return kind == other || strcmp(kind->name, other->name) == 0;
}

static int add(mr_kinds *kinds, const mr_result_kind *kind) {
    const uint32_t id = mr_result_kind_id(kind);
    for (size_t i = 0; i < kinds->count; i++) {
        if (kinds->id[i] == id)
            return MR_OK;
        if (has_name(kinds->kind[i], kind))
            return wrong(kind, NULL, "another kind of this name has other fields: rename it, or declare both alike");
    }
    if (kinds->count == MR_MOST_KINDS)
        return wrong(kind, NULL, "there are too many kinds of results");
    kinds->kind[kinds->count] = kind;
    kinds->id[kinds->count++] = id;
    return MR_OK;
}

mr_kinds mr_kinds_built_in(void) {
    mr_kinds kinds = {0};
    for (size_t i = 0; i < sizeof built_in / sizeof *built_in; i++)
        add(&kinds, built_in[i]());
    return kinds;
}

int mr_kinds_add(mr_kinds *kinds, const mr_result_kind *const *more) {
    int status = MR_OK;
    for (; more && *more && !status; more++)
        status = add(kinds, *more);
    return status;
}

const mr_result_kind *mr_kinds_find(const mr_kinds *kinds, uint32_t id) {
    for (size_t i = 0; i < kinds->count; i++)
        if (kinds->id[i] == id)
            return kinds->kind[i];
    return NULL;
}

uint32_t mr_kinds_id(const mr_kinds *kinds, const mr_result_kind *kind) {
    for (size_t i = 0; i < kinds->count; i++)
        if (has_name(kinds->kind[i], kind))
            return kinds->id[i];
    return 0;
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

size_t mr_result_bytes(const mr_result *result) {
    return result->kind->fields ? result->count * result->kind->element_bytes : mr_tensor_bytes(&result->format);
}

const mr_result *mr_result_find(const mr_result *list, const mr_result_kind *kind, const char *stage) {
    while (list && (!has_name(list->kind, kind) || (stage && strcmp(stage, list->stage) != 0)))
        list = list->next;
    return list;
}
