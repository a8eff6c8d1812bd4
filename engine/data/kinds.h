/* The kinds of results that a process knows: the built-in ones (one file each, and one line in kinds.c), and those of
 * its stage types. Two kinds of one name and the same fields are one kind. */
#ifndef MILLRACE_DATA_KINDS_H
#define MILLRACE_DATA_KINDS_H

#include "millrace/result.h"

enum { MR_MOST_KINDS = 32 };

typedef struct mr_kinds {
    size_t count;
    const mr_result_kind *kind[MR_MOST_KINDS];
    uint32_t id[MR_MOST_KINDS]; /* on the wire */
} mr_kinds;

/* The number of a kind on the wire: FNV-1a (32 bits) of mr_result_kind_print. */
uint32_t mr_result_kind_id(const mr_result_kind *kind);
/* The name, and of elements the names and types of the fields: "classes index:i32 label:text score:f32". */
enum { MR_KIND_TEXT = 1024 };
const char *mr_result_kind_print(const mr_result_kind *kind, char text[MR_KIND_TEXT]);
/* Whether it is well formed: MR_OK, or MR_ERROR_DATA with a message that begins with the kind's name. */
int mr_result_kind_check(const mr_result_kind *kind);

/* The built-in kinds. */
mr_kinds mr_kinds_built_in(void);
/* Adds those of a list that ends with NULL (NULL: none). MR_ERROR_DATA if one has the name of another kind and other
 * fields, or if there are more than MR_MOST_KINDS. */
int mr_kinds_add(mr_kinds *kinds, const mr_result_kind *const *more);
/* The kind of that number; NULL: it is not known. */
const mr_result_kind *mr_kinds_find(const mr_kinds *kinds, uint32_t id);
/* The number of a kind; 0: it is not among them. */
uint32_t mr_kinds_id(const mr_kinds *kinds, const mr_result_kind *kind);

/* Bytes of a value of that type in messages, where a text is the number of a name. */
size_t mr_field_packed_bytes(mr_field_type type);
/* Bytes of an element in messages. */
size_t mr_result_kind_packed_bytes(const mr_result_kind *kind);

#endif
