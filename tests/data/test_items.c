/* Items of results: their memory, copies, comparison, and what kinds may declare. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/data/kinds.h"
#include "engine/data/store.h"
#include "millrace/objects.h"
#include "millrace/status.h"
#include "millrace/text.h"
#include "tests/support/suite.h"

static mr_result *make(mr_store *store, size_t count) {
    mr_result *result = NULL;
    assert_int_equal(mr_store_result(store, mr_kind_objects(), count, &result), MR_OK);
    memset(result->data, 0, count * sizeof(mr_object));
    result->count = count;
    return result;
}

static mr_items add(mr_result *result, const void *items, size_t count, size_t bytes) {
    mr_items made;
    assert_int_equal(mr_result_add_items(result, items, count, bytes, &made), MR_OK);
    return made;
}

/* An object with one of everything. */
static void fill(mr_result *result, mr_object *object) {
    static const float quad[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const int32_t mask[4] = {1, 2, 1, 12};
    const mr_object_zone zones[] = {{"door", 1.5, "watch"}, {"hall", 0, "watch"}};
    mr_object_attribute attribute = {.stage = "read", .index = 3, .score = 0.5F, .label = "plate"};
    attribute.text = add(result, "M\xc3\xbc 1", 5, 1);
    object->quad = add(result, quad, 8, sizeof(float));
    object->mask = add(result, mask, 4, sizeof(int32_t));
    object->mask_width = object->mask_height = 4;
    object->zones = add(result, zones, 2, sizeof *zones);
    object->attributes = add(result, &attribute, 1, sizeof attribute);
}

static void check_filled(const mr_result *result, const mr_object *object) {
    const float *quad = mr_result_items(result, object->quad);
    const mr_object_zone *zones = mr_result_items(result, object->zones);
    const mr_object_attribute *attribute = mr_result_items(result, object->attributes);
    assert_true(quad[0] == 1 && quad[7] == 8);
    assert_int_equal(((const int32_t *)mr_result_items(result, object->mask))[3], 12);
    assert_string_equal(zones[1].zone, "hall");
    assert_string_equal(attribute->label, "plate");
    assert_string_equal(mr_result_items(result, attribute->text), "M\xc3\xbc 1");
    assert_null(mr_result_items(result, object->points));
}

TEST(items_elsewhere_are_noticed) {
    ENDED_BY(mr_store_release) mr_store *store = NULL;
    assert_int_equal(mr_store_create(&store), MR_OK);
    mr_result *one = make(store, 2);
    mr_object *object = (mr_object *)one->data + 1;
    assert_true(mr_result_items_fit(one));
    fill(one, object);
    assert_true(mr_result_items_fit(one));
    const uint32_t end = (uint32_t)one->items_bytes;
    const mr_items quad = object->quad, wrong[] = {{end, 1}, {end - 4, 1}, {0, end / 4}, {0, UINT32_MAX},
                                                   {UINT32_MAX, 1}, {UINT32_MAX, UINT32_MAX}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        object->quad = wrong[i];
        assert_false(mr_result_items_fit(one));
        object->quad = quad;
        /* In an item of a list. */
        mr_object_attribute *attribute = (mr_object_attribute *)(uintptr_t)mr_result_items(one, object->attributes);
        const mr_items text = attribute->text;
        attribute->text = (mr_items){wrong[i].at, wrong[i].at ? end : UINT32_MAX};
        assert_false(mr_result_items_fit(one));
        attribute->text = text;
    }
    assert_true(mr_result_items_fit(one));
    one->items_bytes = 0; /* as in a result without any */
    assert_false(mr_result_items_fit(one));
    one->items_bytes = end;
    mr_result_unref(&one);
}

TEST(items_move_with_their_result) {
    ENDED_BY(mr_store_release) mr_store *store = NULL;
    assert_int_equal(mr_store_create(&store), MR_OK);
    mr_result *one = make(store, 2), *copy = make(store, 2);
    fill(one, (mr_object *)one->data + 1);
    for (int i = 0; i < 1000; i++) /* the memory grows and moves */
        assert_int_equal(add(one, NULL, 3, 5).at % 8, 0);
    check_filled(one, (mr_object *)one->data + 1);
    assert_int_equal(mr_result_copy(copy, one), MR_OK);
    memset(one->items, 7, one->items_bytes);
    mr_result_unref(&one);
    check_filled(copy, (mr_object *)copy->data + 1);
    mr_result_unref(&copy);
}

TEST(items_are_bounded) {
    ENDED_BY(mr_store_release) mr_store *store = NULL;
    mr_items items = {1, 1};
    assert_int_equal(mr_store_create(&store), MR_OK);
    ENDED_BY(mr_result_unref) mr_result *one = make(store, 1);
    assert_int_equal(mr_result_add_items(one, NULL, SIZE_MAX / 2, 8, &items), MR_ERROR_MEMORY);
    assert_true(items.at == 0 && items.count == 0);
    assert_int_equal(mr_result_add_items(one, NULL, MR_MOST_ITEMS_BYTES, 1, &items), MR_ERROR_MEMORY);
    assert_string_equal(mr_message(), "a result has more than 16 MiB of items");
    items = add(one, NULL, MR_MOST_ITEMS_BYTES - 8, 1);
    assert_int_equal(((const char *)mr_result_items(one, items))[MR_MOST_ITEMS_BYTES - 8], 0);
    assert_int_equal(mr_result_add_items(one, "a", 1, 1, &items), MR_ERROR_MEMORY);
    assert_int_equal(mr_result_add_items(one, "", 0, 1, &items), MR_OK);
    assert_null(mr_result_items(one, items));
    mr_result_unref(&one);
    one = make(store, 1);
    assert_int_equal(one->items_room, 0); /* so much is not kept */
}

/* Items may be copies of items of the same result, which move while they are copied. */
TEST(items_of_items) {
    ENDED_BY(mr_store_release) mr_store *store = NULL;
    assert_int_equal(mr_store_create(&store), MR_OK);
    ENDED_BY(mr_result_unref) mr_result *one = make(store, 1);
    mr_items items = add(one, "0123456", 7, 1);
    for (int i = 0; i < 200; i++)
        items = add(one, mr_result_items(one, items), 7, 1);
    assert_string_equal(mr_result_items(one, items), "0123456");
}

TEST(a_warm_store_allocates_nothing) {
    ENDED_BY(mr_store_release) mr_store *store = NULL;
    uint64_t before = 0;
    assert_int_equal(mr_store_create(&store), MR_OK);
    for (int i = 0; i < 20; i++) {
        mr_result *one = make(store, 3), *copy = make(store, 3);
        assert_int_equal(one->items_bytes, 0);
        for (int k = 0; k < 3; k++)
            fill(one, (mr_object *)one->data + k);
        assert_int_equal(mr_result_copy(copy, one), MR_OK);
        mr_result_unref(&one);
        mr_result_unref(&copy);
        before = i == 5 ? mr_allocation_count() : before;
    }
    assert_int_equal(mr_allocation_count(), before);
}

/* ---- comparison -------------------------------------------------------------------------------------------------- */

typedef struct seen {
    size_t values, differing;
    double most;
} seen;

static void note(void *context, mr_field_type type, const void *a, const void *b) {
    seen *to = context;
    to->values++;
    if (type == MR_FIELD_TEXT)
        to->differing += strcmp(*(const char *const *)a, *(const char *const *)b) != 0;
    else if (type == MR_FIELD_F32 && *(const float *)a != *(const float *)b)
        to->differing++, to->most = (double)(*(const float *)b - *(const float *)a);
    else if (type == MR_FIELD_I64 && *(const int64_t *)a != *(const int64_t *)b)
        to->differing++;
}

static void ignore_move(void *context) {
}

static seen compare(const mr_result *a, const mr_result *b) {
    seen found = {0};
    const mr_comparison to = {note, ignore_move, &found};
    a->kind->compare(a, b, &to);
    return found;
}

TEST(objects_are_compared_with_their_items) {
    static const int32_t other_mask[] = {2, 1, 1, 12}, short_mask[] = {16};
    ENDED_BY(mr_store_release) mr_store *store = NULL;
    assert_int_equal(mr_store_create(&store), MR_OK);
    ENDED_BY(mr_result_unref) mr_result *one = make(store, 1), *other = make(store, 1);
    mr_object *a = one->data, *b = other->data;
    fill(one, a);
    fill(other, b);
    seen found = compare(one, other);
    assert_int_equal(found.differing, 0);
    assert_int_equal(found.values, 6 + 8 + 2 * 3 + 5 + 1);
    b->mask = add(other, other_mask, 4, sizeof(int32_t));
    found = compare(one, other);
    assert_true(found.differing == 1 && found.most == 1.0 / 16);
    b->mask = add(other, short_mask, 1, sizeof(int32_t));
    found = compare(one, other);
    assert_true(found.differing == 1 && found.most == 14.0 / 16);
    b->mask = (mr_items){0};
    found = compare(one, other);
    assert_true(found.differing == 1 && found.most == 1);
    fill(other, b);
    b->zones.count = 1;
    ((float *)(uintptr_t)mr_result_items(other, b->quad))[2] = 3.5F;
    ((mr_object_attribute *)(uintptr_t)mr_result_items(other, b->attributes))->text.at = b->quad.at;
    assert_int_equal(compare(one, other).differing, 3);
}

/* ---- kinds ------------------------------------------------------------------------------------------------------- */

TEST(lists_in_the_text_of_a_kind) {
    char text[MR_KIND_TEXT];
    assert_string_equal(mr_result_kind_print(mr_kind_text(), text), "text text:string score:f32");
    assert_non_null(strstr(mr_result_kind_print(mr_kind_objects(), text), " quad:f32s points:f32s mask:i32s "));
    assert_non_null(strstr(text, " zones:[zone:text dwell:f64 stage:text] "
                           "attributes:[stage:text index:i32 label:text "));
    assert_true(mr_result_kind_has_items(mr_kind_text()) && !mr_result_kind_has_items(mr_kind_classes()) &&
                !mr_result_kind_has_items(mr_kind_tensor()));
    for (size_t i = 0; i < mr_kinds_built_in().count; i++)
        assert_int_equal(mr_result_kind_check(mr_kinds_built_in().kind[i]), MR_OK);
}

typedef struct spot {
    mr_items list;
    int32_t x;
} spot;

static void refused(const mr_field *field, const char *told) {
    const mr_field fields[] = {*field, {0}};
    const mr_result_kind kind = {.name = "spots", .help = "spots", .fields = fields, .element_bytes = sizeof(spot)};
    char message[200];
    snprintf(message, sizeof message, "the result kind \"spots\", field %s", told);
    assert_int_equal(mr_result_kind_check(&kind), MR_ERROR_DATA);
    assert_string_equal(mr_message(), message);
}

TEST(malformed_lists_are_refused) {
    const mr_field x[] = {{.name = "x", .type = MR_FIELD_I32, .offset = offsetof(spot, x)}, {0}};
    const mr_field twice[] = {x[0], x[0], {0}};
    const mr_field inner[] = {{.name = "list", .type = MR_FIELD_LIST, .fields = x, .item_bytes = 12}, {0}};
    const mr_field far[] = {{.name = "y", .type = MR_FIELD_F32S, .offset = 6}, {0}}, none[] = {{0}};
    mr_field list = {.name = "list", .type = MR_FIELD_LIST, .fields = x, .item_bytes = 12};
    const mr_result_kind kind = {.name = "spots", .help = "spots", .fields = (const mr_field[]){list, {0}},
                                 .element_bytes = sizeof(spot)};
    assert_int_equal(mr_result_kind_check(&kind), MR_OK);
    list.fields = NULL;
    refused(&list, "list: a list needs fields and item_bytes");
    list.fields = none;
    refused(&list, "list: a list needs fields and item_bytes");
    list.fields = inner;
    refused(&list, "list: the items of a list cannot have lists");
    list.fields = twice;
    refused(&list, "x: two fields have this name");
    list.fields = far;
    refused(&list, "y: its offset is not within item_bytes, or not aligned for its type");
    list.fields = x;
    list.item_bytes = 11;
    refused(&list, "x: its offset is not within item_bytes, or not aligned for its type");
    list.item_bytes = 0;
    refused(&list, "list: a list needs fields and item_bytes");
    refused(&(mr_field){.name = "x", .type = MR_FIELD_I32, .item_bytes = 4},
            "x: only a list has fields and item_bytes");
    refused(&(mr_field){.name = "x", .type = MR_FIELD_F32S, .fields = x}, "x: only a list has fields and item_bytes");
    refused(&(mr_field){.name = "x", .type = MR_FIELD_F32S, .offset = 8},
            "x: its offset is not within element_bytes, or not aligned for its type");
}

RUN_TESTS(NULL, NULL)
