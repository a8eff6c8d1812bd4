/* All result kinds that a process knows: the built-in ones (each has a file, and a line in kinds.c) and those that
 * stage types define. Kinds with the same name and the same fields are one kind. */
#pragma once

#include "millrace/result.h"

enum { MR_MOST_KINDS = 32, MR_MOST_FIELDS = 64 };

typedef struct mr_kinds {
    size_t count;
    const mr_result_kind *kind[MR_MOST_KINDS];
    uint32_t id[MR_MOST_KINDS]; /* on the wire */
} mr_kinds;

/* The kind's number on the wire: 32-bit FNV-1a over what mr_result_kind_print writes. */
uint32_t mr_result_kind_id(const mr_result_kind *kind);
/* Prints the name and, for elements, each field's name and type: "classes index:i32 label:text score:f32". A list has
 * its fields in place of a type: "zones:[zone:text dwell:f64]". */
enum { MR_KIND_TEXT = 1024 };
const char *mr_result_kind_print(const mr_result_kind *kind, char text[MR_KIND_TEXT]);
/* Checks that the kind is well formed. MR_ERROR_DATA: the message begins with the kind's name. */
int mr_result_kind_check(const mr_result_kind *kind);

/* The built-in kinds. */
mr_kinds mr_kinds_built_in(void);
/* Adds the kinds in a list, which must end with NULL (NULL: none). MR_ERROR_DATA: a known kind has the same name and
 * other fields, or there are more than MR_MOST_KINDS. */
int mr_kinds_add(mr_kinds *kinds, const mr_result_kind *const *more);
/* The kind with this number; NULL: unknown. */
const mr_result_kind *mr_kinds_find(const mr_kinds *kinds, uint32_t id);
/* The kind's number; 0: the kind is unknown. */
uint32_t mr_kinds_id(const mr_kinds *kinds, const mr_result_kind *kind);

/* Bytes of one item; 0: fields of this type have one value. */
size_t mr_field_item_bytes(const mr_field *field);
/* Whether elements of the kind can have items. */
bool mr_result_kind_has_items(const mr_result_kind *kind);
/* Whether the items of all elements lie within those of the result. */
bool mr_result_items_fit(const mr_result *result);
/* How much memory a result takes for so many bytes of items, with room for more. */
static inline uint64_t mr_items_room(uint64_t bytes) {
    const uint64_t room = bytes + bytes / 2 + 256;
    return room < MR_MOST_ITEMS_BYTES ? room : MR_MOST_ITEMS_BYTES;
}
