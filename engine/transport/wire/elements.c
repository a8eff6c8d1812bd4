#include "engine/transport/wire/elements.h"

#include <string.h>

#include "engine/data/kinds.h"
#include "millrace/status.h"

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

static size_t value_bytes(mr_field_type type) {
    static const size_t bytes[MR_FIELD_TYPES] = {[MR_FIELD_BOOL] = 1, [MR_FIELD_I64] = 8,  [MR_FIELD_F64] = 8,
                                                 [MR_FIELD_TIME] = 8, [MR_FIELD_DATE] = 8, [MR_FIELD_ID] = 8};
    return bytes[type] ? bytes[type] : 4;
}

/* A struct with these fields, and no items. */
static size_t least_bytes(const mr_field *fields) {
    size_t bytes = 0;
    for (const mr_field *field = fields; field->name; field++)
        bytes += value_bytes(field->type);
    return bytes;
}

static size_t item_bytes(const mr_field *field) {
    return field->fields ? least_bytes(field->fields) : mr_field_item_bytes(field);
}

static mr_items items_of(const mr_field *field, const uint8_t *base) {
    mr_items items;
    memcpy(&items, base + field->offset, sizeof items);
    return items;
}

static size_t all_items_bytes(const mr_result *result, const mr_field *fields, const uint8_t *base) {
    size_t bytes = 0;
    for (const mr_field *field = fields; field->name; field++) {
        const size_t each = mr_field_item_bytes(field);
        const mr_items items = each ? items_of(field, base) : (mr_items){0};
        const uint8_t *item = mr_result_items(result, items);
        bytes += items.count ? items.count * item_bytes(field) : 0;
        for (uint32_t i = 0; i < items.count && field->fields; i++, item += each)
            bytes += all_items_bytes(result, field->fields, item);
    }
    return bytes;
}

static size_t elements_items_bytes(const mr_result *result) {
    const uint8_t *element = result->data;
    size_t bytes = 0;
    for (size_t i = 0; i < result->count && result->items_bytes; i++, element += result->kind->element_bytes)
        bytes += all_items_bytes(result, result->kind->fields, element);
    return bytes;
}

size_t mr_elements_bytes(const mr_result *result) {
    return result->count * least_bytes(result->kind->fields) + elements_items_bytes(result);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

typedef struct writer {
    const mr_result *from;
    const mr_element_names *names;
    uint8_t *to;
} writer;

static int write_fields(writer *w, const mr_field *fields, const uint8_t *base);

static int write_items(writer *w, const mr_field *field, const uint8_t *base) {
    const size_t each = mr_field_item_bytes(field);
    const mr_items items = items_of(field, base);
    const uint8_t *item = mr_result_items(w->from, items);
    int status = MR_OK;
    memcpy(w->to, &items.count, sizeof items.count);
    w->to += sizeof items.count;
    if (items.count && !field->fields) {
        memcpy(w->to, item, items.count * each);
        w->to += items.count * each;
    }
    for (uint32_t i = 0; i < items.count && field->fields && !status; i++)
        status = write_fields(w, field->fields, item + i * each);
    return status;
}

/* Little-endian. */
static int write_value(writer *w, mr_field_type type, const uint8_t *value) {
    const char *text;
    uint32_t number;
    int status = MR_OK;
    if (type == MR_FIELD_TEXT) {
        memcpy(&text, value, sizeof text);
        status = w->names->write(w->names->context, text, &number);
        value = (const uint8_t *)&number;
    }
    if (!status)
        memcpy(w->to, value, value_bytes(type));
    w->to += value_bytes(type);
    return status;
}

static int write_fields(writer *w, const mr_field *fields, const uint8_t *base) {
    int status = MR_OK;
    for (const mr_field *field = fields; field->name && !status; field++)
        status = mr_field_item_bytes(field) ? write_items(w, field, base)
                                            : write_value(w, field->type, base + field->offset);
    return status;
}

int mr_elements_write(const mr_result *from, const mr_element_names *names, uint8_t *to, uint32_t *count) {
    writer w = {from, names, to};
    const uint8_t *element = from->data;
    int status = MR_OK;
    *count = mr_result_kind_has_items(from->kind) ? (uint32_t)from->count : 0;
    for (size_t i = 0; i < from->count && !status; i++, element += from->kind->element_bytes)
        status = write_fields(&w, from->kind->fields, element);
    return status;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

typedef struct reader {
    mr_result *to;
    const mr_element_names *names;
    const uint8_t *from;
    size_t left;
} reader;

/* A struct that is being filled. */
typedef struct target {
    uint8_t *element; /* NULL: it lies in the result's items, which move */
    size_t at;        /* bytes into the items */
} target;

static uint8_t *place(const reader *r, target to) {
    return to.element ? to.element : (uint8_t *)r->to->items + to.at;
}

static const uint8_t *take(reader *r, size_t bytes) {
    const uint8_t *taken = r->from;
    r->from += bytes;
    r->left -= bytes;
    return taken;
}

static int refuse(const char *what) {
    return mr_fail(MR_ERROR_PROTOCOL, "%s", what);
}

static int read_fields(reader *r, const mr_field *fields, target to);

static int read_items(reader *r, const mr_field *field, target to) {
    enum { SLACK = 16 };
    const size_t each = mr_field_item_bytes(field), packed = item_bytes(field);
    mr_items items;
    uint32_t count;
    memcpy(&count, take(r, sizeof count), sizeof count);
    if (count > r->left / packed)
        return refuse("a result with fewer items than it states");
    if (count * each + SLACK > MR_MOST_ITEMS_BYTES - r->to->items_bytes)
        return refuse("a result with too many items");
    int status = mr_result_add_items(r->to, field->fields ? NULL : r->from, count, each, &items);
    memcpy(place(r, to) + field->offset, &items, sizeof items);
    if (!field->fields)
        take(r, count * each);
    for (size_t i = 0; i < count && field->fields && !status; i++)
        status = read_fields(r, field->fields, (target){.at = items.at + i * each});
    return status;
}

static int read_value(reader *r, mr_field_type type, uint8_t *value) {
    const uint8_t *from = take(r, value_bytes(type));
    const char *text = NULL;
    uint32_t number;
    int status = MR_OK;
    if (type == MR_FIELD_TEXT) {
        memcpy(&number, from, sizeof number);
        status = r->names->read(r->names->context, number, &text);
        memcpy(value, &text, sizeof text);
    } else if (type == MR_FIELD_BOOL) {
        *value = *from != 0;
    } else {
        memcpy(value, from, value_bytes(type));
    }
    return status;
}

static int read_fields(reader *r, const mr_field *fields, target to) {
    int status = MR_OK;
    for (const mr_field *field = fields; field->name && !status; field++) {
        if (value_bytes(field->type) > r->left)
            return refuse("a result whose elements are not those of its kind");
        status = mr_field_item_bytes(field) ? read_items(r, field, to)
                                            : read_value(r, field->type, place(r, to) + field->offset);
    }
    return status;
}

int mr_elements_count(const mr_result_kind *kind, size_t bytes, uint32_t stated, size_t *count) {
    const size_t most = bytes / least_bytes(kind->fields);
    *count = mr_result_kind_has_items(kind) ? stated : most;
    return *count > most ? refuse("a result whose elements are not those of its kind") : MR_OK;
}

int mr_elements_read(mr_result *to, const uint8_t *data, size_t bytes, size_t count, const mr_element_names *names) {
    reader r = {to, names, data, bytes};
    int status = MR_OK;
    for (to->count = 0; to->count < count && !status; to->count++) {
        uint8_t *element = (uint8_t *)to->data + to->count * to->kind->element_bytes;
        memset(element, 0, to->kind->element_bytes);
        status = read_fields(&r, to->kind->fields, (target){.element = element});
    }
    return status || !r.left ? status : refuse("a result whose elements are not those of its kind");
}
