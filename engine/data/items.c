/* Items of results: data of any length that belongs to elements (mr_items).
 *
 * They lie in plain memory, also if elements are pinned: a device never reads them, and the host function after a
 * device's work must not allocate from the device. A result in the store's free list keeps its memory. */
#include <stdint.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/data/kinds.h"
#include "millrace/status.h"

enum { ALIGNMENT = 8 };

/* Makes room for `bytes` bytes in all. */
static int grow(mr_result *result, size_t bytes) {
    if (bytes > MR_MOST_ITEMS_BYTES)
        return mr_fail(MR_ERROR_MEMORY, "a result has more than %d MiB of items", MR_MOST_ITEMS_BYTES >> 20);
    if (bytes <= result->items_room)
        return MR_OK;
    const size_t room = mr_items_room(bytes);
    void *grown = mr_realloc(result->items, room);
    if (!grown)
        return mr_fail(MR_ERROR_MEMORY, "no memory for %zu bytes of items", bytes);
    result->items = grown;
    result->items_room = room;
    return MR_OK;
}

/* Whether `data` lies in the result's items, which may move; *at: where. */
static bool is_inside(const mr_result *result, const void *data, size_t *at) {
    const uintptr_t begin = (uintptr_t)result->items, place = (uintptr_t)data;
    *at = place - begin;
    return result->items && place >= begin && *at < result->items_bytes;
}

int mr_result_add_items(mr_result *result, const void *items, size_t count, size_t item_bytes, mr_items *to) {
    const size_t begin = result->items_bytes, most = MR_MOST_ITEMS_BYTES;
    size_t from;
    *to = (mr_items){0, 0};
    if (!count)
        return MR_OK;
    /* Too many to multiply are too many. */
    const size_t bytes = count > most / item_bytes ? most : count * item_bytes;
    const size_t end = (begin + bytes + 1 + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    const bool inside = is_inside(result, items, &from);
    int status = grow(result, end);
    if (status)
        return status;
    uint8_t *place = (uint8_t *)result->items + begin;
    if (items)
        memcpy(place, inside ? (const uint8_t *)result->items + from : items, bytes);
    memset(place + (items ? bytes : 0), 0, end - begin - (items ? bytes : 0));
    result->items_bytes = end;
    *to = (mr_items){(uint32_t)begin, (uint32_t)count};
    return MR_OK;
}

const void *mr_result_items(const mr_result *result, mr_items items) {
    return items.count ? (const uint8_t *)result->items + items.at : NULL;
}

int mr_result_copy(mr_result *to, const mr_result *from) {
    const size_t bytes = mr_result_bytes(from);
    int status = grow(to, from->items_bytes);
    if (status)
        return status;
    to->count = from->count;
    to->cut = from->cut;
    if (bytes && to->data != from->data)
        memcpy(to->data, from->data, bytes);
    if (from->items_bytes)
        memcpy(to->items, from->items, from->items_bytes);
    to->items_bytes = from->items_bytes;
    return MR_OK;
}

/* ---- comparison -------------------------------------------------------------------------------------------------- */

static mr_items items_of(const mr_field *field, const void *element) {
    mr_items items;
    memcpy(&items, (const uint8_t *)element + field->offset, sizeof items);
    return items;
}

static bool fields_fit(const mr_result *result, const mr_field *fields, const uint8_t *element);

/* Something follows the last item, at least a zero. */
static bool field_fits(const mr_result *result, const mr_field *field, const uint8_t *element) {
    const mr_items items = items_of(field, element);
    const size_t bytes = mr_field_item_bytes(field), left = result->items_bytes - items.at;
    if (!items.count)
        return true;
    if (items.at >= result->items_bytes || items.count > (left - 1) / bytes)
        return false;
    for (size_t i = 0; field->type == MR_FIELD_LIST && i < items.count; i++)
        if (!fields_fit(result, field->fields, (const uint8_t *)result->items + items.at + i * bytes))
            return false;
    return true;
}

static bool fields_fit(const mr_result *result, const mr_field *fields, const uint8_t *element) {
    for (const mr_field *field = fields; field->name; field++)
        if (mr_field_item_bytes(field) && !field_fits(result, field, element))
            return false;
    return true;
}

bool mr_result_items_fit(const mr_result *result) {
    if (!mr_result_kind_has_items(result->kind))
        return true;
    for (size_t i = 0; i < result->count; i++)
        if (!fields_fit(result, result->kind->fields, (const uint8_t *)result->data + i * result->kind->element_bytes))
            return false;
    return true;
}

/* Items of strings are followed by a zero. */
static const char *text_of(const mr_result *result, mr_items items) {
    const char *text = mr_result_items(result, items);
    return text ? text : "";
}

static void compare_items(const mr_field *field, const mr_result *a, const void *one, const mr_result *b,
                          const void *other, const mr_comparison *to) {
    const mr_items x = items_of(field, one), y = items_of(field, other);
    const size_t bytes = mr_field_item_bytes(field);
    const uint8_t *left = mr_result_items(a, x), *right = mr_result_items(b, y);
    const int64_t counts[] = {x.count, y.count};
    if (field->type == MR_FIELD_STRING) {
        const char *const texts[] = {text_of(a, x), text_of(b, y)};
        to->values(to->context, MR_FIELD_TEXT, &texts[0], &texts[1]);
        return;
    }
    if (x.count != y.count)
        to->values(to->context, MR_FIELD_I64, &counts[0], &counts[1]);
    for (uint32_t i = 0; i < x.count && x.count == y.count; i++, left += bytes, right += bytes) {
        if (field->type != MR_FIELD_LIST)
            to->values(to->context, field->type == MR_FIELD_F32S ? MR_FIELD_F32 : MR_FIELD_I32, left, right);
        for (const mr_field *inner = field->fields; inner && inner->name; inner++)
            mr_result_compare_field(inner, a, left, b, right, to);
    }
}

void mr_result_compare_field(const mr_field *field, const mr_result *a, const void *one, const mr_result *b,
                             const void *other, const mr_comparison *to) {
    if (mr_field_item_bytes(field))
        compare_items(field, a, one, b, other, to);
    else
        to->values(to->context, field->type, (const uint8_t *)one + field->offset,
                   (const uint8_t *)other + field->offset);
}
