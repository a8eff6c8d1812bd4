/* Elements with items as they stand in messages: there and back, and any bytes in their place. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/data/kinds.h"
#include "engine/data/store.h"
#include "engine/transport/wire/elements.h"
#include "millrace/objects.h"
#include "millrace/status.h"
#include "tests/support/suite.h"

/* ---- names ------------------------------------------------------------------------------------------------------- */

static const char *const names[] = {"door", "read", "plate"};
enum { NAMES = sizeof names / sizeof *names };

static int write_name(void *context, const char *name, uint32_t *number) {
    *number = 0;
    for (uint32_t i = 0; name && i < NAMES; i++)
        if (strcmp(names[i], name) == 0)
            *number = i + 1;
    return MR_OK;
}

static int read_name(void *context, uint32_t number, const char **name) {
    if (number > NAMES)
        return mr_fail(MR_ERROR_PROTOCOL, "no such name");
    *name = number ? names[number - 1] : NULL;
    return MR_OK;
}

static const mr_element_names numbering = {write_name, read_name, NULL};

/* ---- results ----------------------------------------------------------------------------------------------------- */

static mr_store *store;

static int make_store(void **state) {
    return mr_store_create(&store);
}

static int release_store(void **state) {
    mr_store_release(&store);
    return 0;
}

static mr_result *make(size_t count) {
    mr_result *result = NULL;
    assert_int_equal(mr_store_result(store, mr_kind_objects(), count, &result), MR_OK);
    return result;
}

static mr_items add(mr_result *result, const void *items, size_t count, size_t bytes) {
    mr_items made;
    assert_int_equal(mr_result_add_items(result, items, count, bytes, &made), MR_OK);
    return made;
}

/* Three objects; the second one has items of all types. */
static mr_result *make_objects(void) {
    static const float quad[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const int32_t mask[3] = {-1, 70000, 2};
    const mr_object_zone zone = {"door", 1.5, "watch"};
    mr_object_attribute attributes[] = {{.stage = "read", .score = 0.5F}, {.stage = "read", .label = "plate"}};
    mr_result *result = make(3);
    mr_object *objects = memset(result->data, 0, 3 * sizeof *objects);
    result->count = 3;
    attributes[1].text = add(result, "AB 12", 5, 1);
    objects[1] = (mr_object){.left = 1, .right = 2.5F, .label = "plate", .track = -4, .number = 2};
    objects[1].quad = add(result, quad, 8, sizeof *quad);
    objects[1].mask = add(result, mask, 3, sizeof *mask);
    objects[1].zones = add(result, &zone, 1, sizeof zone);
    objects[1].attributes = add(result, attributes, 2, sizeof *attributes);
    objects[2].points = add(result, quad, 3, sizeof *quad);
    return result;
}

static uint8_t *write(const mr_result *result, size_t *bytes) {
    uint32_t count;
    *bytes = mr_elements_bytes(result);
    uint8_t *packed = malloc(*bytes);
    assert_int_equal(mr_elements_write(result, &numbering, packed, &count), MR_OK);
    assert_int_equal(count, result->count);
    return packed;
}

static int read(const uint8_t *packed, size_t bytes, uint32_t stated, mr_result **result) {
    size_t count;
    int status = mr_elements_count(mr_kind_objects(), bytes, stated, &count);
    if (status)
        return status;
    *result = make(count);
    status = mr_elements_read(*result, packed, bytes, count, &numbering);
    if (status)
        mr_result_unref(result);
    return status;
}

TEST(elements_come_back) {
    size_t bytes, again;
    ENDED_BY(mr_result_unref) mr_result *from = make_objects(), *came;
    FREED uint8_t *packed = write(from, &bytes);
    assert_int_equal(read(packed, bytes, 3, &came), MR_OK);
    const mr_object *object = (const mr_object *)came->data + 1;
    const mr_object_attribute *attributes = mr_result_items(came, object->attributes);
    assert_int_equal(came->count, 3);
    assert_true(object->right == 2.5F && object->track == -4 && object->number == 2 && object->quad.count == 8);
    assert_string_equal(object->label, "plate");
    assert_int_equal(((const int32_t *)mr_result_items(came, object->mask))[1], 70000);
    assert_true(((const mr_object_zone *)mr_result_items(came, object->zones))->dwell == 1.5);
    assert_true(attributes[0].score == 0.5F && !attributes[0].label && !attributes[0].text.count);
    assert_string_equal(mr_result_items(came, attributes[1].text), "AB 12");
    assert_true(((const float *)mr_result_items(came, object[1].points))[2] == 3);
    FREED uint8_t *second = write(came, &again);
    assert_int_equal(again, bytes);
    assert_memory_equal(second, packed, bytes);
}

TEST(nothing_is_allocated_for_more) {
    size_t bytes;
    uint64_t before = 0;
    mr_result *from = make_objects(), *came;
    uint8_t *packed = write(from, &bytes);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(read(packed, bytes, 3, &came), MR_OK);
        mr_result_unref(&came);
        before = i == 5 ? mr_allocation_count() : before;
    }
    assert_int_equal(mr_allocation_count(), before);
    free(packed);
    mr_result_unref(&from);
}

/* The copy ends where the bytes do, so that reading past them is found. */
static int read_part(const uint8_t *packed, size_t bytes, uint32_t stated) {
    uint8_t *copy = malloc(bytes + !bytes);
    mr_result *came;
    memcpy(copy, packed, bytes);
    int status = read(copy, bytes, stated, &came);
    free(copy);
    if (status)
        return status;
    uint8_t *again = write(came, &bytes); /* what was read can be written */
    free(again);
    mr_result_unref(&came);
    return MR_OK;
}

TEST(inconsistent_bytes_are_refused) {
    size_t bytes;
    ENDED_BY(mr_result_unref) mr_result *from = make_objects();
    FREED uint8_t *packed = write(from, &bytes);
    for (size_t length = 0; length < bytes; length++)
        assert_int_equal(read_part(packed, length, 3), MR_ERROR_PROTOCOL);
    assert_int_equal(read_part(packed, bytes, 2), MR_ERROR_PROTOCOL);
    assert_int_equal(read_part(packed, bytes, 4), MR_ERROR_PROTOCOL);
    assert_int_equal(read_part(packed, bytes, UINT32_MAX), MR_ERROR_PROTOCOL);
    for (size_t i = 0; i < bytes; i++)
        for (int bit = 0; bit < 8; bit++) {
            packed[i] ^= (uint8_t)(1 << bit);
            const int status = read_part(packed, bytes, 3);
            assert_true(status == MR_OK || status == MR_ERROR_PROTOCOL);
            packed[i] ^= (uint8_t)(1 << bit);
        }
}

/* A message may state more than a result can hold. */
TEST(too_many_items_are_refused) {
    static const uint32_t many = 16 << 20;
    enum { HEAD = 4 + 4 + 4 + 8 + 16 + 16 }; /* the fields before quad */
    const size_t bytes = HEAD + 4 + (size_t)many + 100;
    FREED uint8_t *packed = calloc(1, bytes);
    const uint32_t count = many / 4;
    mr_result *came;
    memcpy(packed + HEAD, &count, sizeof count);
    assert_int_equal(read(packed, bytes, 1, &came), MR_ERROR_PROTOCOL);
    assert_string_equal(mr_message(), "a result with too many items");
}

RUN_TESTS(make_store, release_store)
