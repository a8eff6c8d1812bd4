#include "engine/data/kinds.h"

#include <stdio.h>
#include <string.h>

#include "millrace/events.h"
#include "millrace/objects.h"
#include "millrace/status.h"

/* In the order in which records must list them. */
static const mr_result_kind *(*const built_in[])(void) = {mr_kind_classes, mr_kind_objects, mr_kind_events, mr_kind_tensor};

/* ---- fields ------------------------------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    size_t bytes, packed;
} types[MR_FIELD_TYPES] = {
    [MR_FIELD_BOOL] = {"bool", sizeof(bool), 1},    [MR_FIELD_I32] = {"i32", sizeof(int32_t), 4},
    [MR_FIELD_I64] = {"i64", sizeof(int64_t), 8},   [MR_FIELD_F32] = {"f32", sizeof(float), 4},
    [MR_FIELD_F64] = {"f64", sizeof(double), 8},    [MR_FIELD_TEXT] = {"text", sizeof(const char *), 4},
    [MR_FIELD_TIME] = {"time", sizeof(int64_t), 8}, [MR_FIELD_DATE] = {"date", sizeof(int64_t), 8},
    [MR_FIELD_ID] = {"id", sizeof(int64_t), 8},
};

size_t mr_field_packed_bytes(mr_field_type type) {
    return types[type].packed;
}

size_t mr_result_kind_packed_bytes(const mr_result_kind *kind) {
    size_t bytes = 0;
    for (const mr_field *field = kind->fields; field->name; field++)
        bytes += types[field->type].packed;
    return bytes;
}

/* ---- kinds ------------------------------------------------------------------------------------------------------- */

const char *mr_result_kind_print(const mr_result_kind *kind, char text[MR_KIND_TEXT]) {
    size_t used = (size_t)snprintf(text, MR_KIND_TEXT, "%s", kind->name);
    for (const mr_field *field = kind->fields; field && field->name && used < MR_KIND_TEXT; field++)
        used += (size_t)snprintf(text + used, MR_KIND_TEXT - used, " %s:%s", field->name, types[field->type].name);
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

static int check_field(const mr_result_kind *kind, const mr_field *field) {
    if (!is_word(field->name))
        return wrong(kind, field->name, "its name must be of up to 64 lower-case letters, digits and _");
    if ((unsigned)field->type >= MR_FIELD_TYPES)
        return wrong(kind, field->name, "its type is not a value of mr_field_type");
    const size_t bytes = types[field->type].bytes;
    if (field->offset % bytes || bytes > kind->element_bytes || field->offset > kind->element_bytes - bytes)
        return wrong(kind, field->name, "its offset is not within element_bytes, or not aligned for its type");
    for (const mr_field *other = kind->fields; other < field; other++)
        if (strcmp(other->name, field->name) == 0)
            return wrong(kind, field->name, "two fields have this name");
    return MR_OK;
}

int mr_result_kind_check(const mr_result_kind *kind) {
    char text[MR_KIND_TEXT];
    size_t count = 0;
    if (!is_word(kind->name))
        return mr_fail(MR_ERROR_DATA, "\"%.64s\" cannot be the name of a result kind: up to 64 lower-case letters, "
                       "digits and _", kind->name ? kind->name : "");
    if (!kind->help || !*kind->help || strchr(kind->help, '\n'))
        return wrong(kind, NULL, "it needs a help of one line");
    if (!kind->fields)
        return kind->element_bytes ? wrong(kind, NULL, "it has element_bytes, but no fields") : MR_OK;
    if (kind->on_device || kind->element_bytes == 0)
        return wrong(kind, NULL, "elements need element_bytes, and cannot lie in a device's memory");
    for (const mr_field *field = kind->fields; field->name; field++, count++) {
        int status = check_field(kind, field);
        if (status)
            return status;
    }
    if (count == 0 || strlen(mr_result_kind_print(kind, text)) + 1 == MR_KIND_TEXT)
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
