/* Results that stages add to frames, and result kinds.
 *
 * A kind describes the contents of results once for all users: copies between memories, joins, cuts, records in JSON,
 * CSV and protobuf, and `verify`. A result contains one of two things:
 *
 *   elements   `count` structs in an array, with the fields that the kind declares (classes, boxes). They lie in host
 *              memory that belongs to the result.
 *   an array   numbers with one type, as mr_result.format describes (a tensor). They lie in host memory that belongs to
 *              the result, or in a pool's buffer. That may be device memory if the kind allows it.
 *
 * millrace has the kinds `classes`, `objects` (objects.h), `events` (events.h), `text` (text.h) and `tensor`. A stage
 * type declares others in mr_stage_type.kinds:
 *
 *     typedef struct box { float left, top, width, height; const char *label; mr_items outline; } box;
 *     static const mr_field fields[] = {
 *         {.name = "left", .type = MR_FIELD_F32, .offset = offsetof(box, left), .unit = "px", .help = "left edge"}, ...
 *         {.name = "label", .type = MR_FIELD_TEXT, .offset = offsetof(box, label), .help = "what it shows"},
 *         {.name = "outline", .type = MR_FIELD_F32S, .offset = offsetof(box, outline), .help = "x and y of corners"},
 *         {0}};
 *     static const mr_result_kind boxes = {.name = "boxes", .help = "what was found, and where", .fields = fields,
 *                                          .element_bytes = sizeof(box)};
 *
 * The stage promises them with mr_promise_result, adds them with mr_io_add_result, and fills in `data` and `count`.
 * What has another length in each element, such as an outline, is items: the element has their place (mr_items), and
 * mr_result_add_items adds them to the result.
 * Another stage finds them with mr_frame_result. Plugins that share a kind must declare it alike: kinds with the same
 * name must have the same fields. The library checks this when it lists the types.
 *
 * Ownership: kinds and fields are constants that live as long as the process. A result belongs to the frame. Texts in
 * elements must live as long as the pipeline.
 *
 * Threads: the stage that adds a result may write it, and add items, until it emits the frame. On a device, the host
 * function that the call submitted after its work may do so later (stages/download.h: `finish`). Then the result is
 * immutable, and any thread may read it.
 *
 * Units: as the fields state.
 *
 * Errors: a malformed kind is refused together with the stage type (mr_stage_type_check). A node that does not know a
 * kind, or has other fields for it, is refused when it connects. */
#ifndef MILLRACE_RESULT_H
#define MILLRACE_RESULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "millrace/export.h"
#include "millrace/format.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_buffer mr_buffer;
typedef struct mr_result mr_result;

/* The C type of a field. */
typedef enum mr_field_type {
    MR_FIELD_BOOL, /* bool */
    MR_FIELD_I32,  /* int32_t */
    MR_FIELD_I64,  /* int64_t */
    MR_FIELD_F32,  /* float */
    MR_FIELD_F64,  /* double */
    MR_FIELD_TEXT, /* const char *, UTF-8; NULL: none */
    MR_FIELD_TIME, /* int64_t, nanoseconds; records have seconds. MR_NO_TIME: none */
    MR_FIELD_DATE, /* int64_t, nanoseconds since 1970 (UTC); JSON and CSV have RFC 3339. 0: none */
    MR_FIELD_ID,   /* int64_t above 0; 0: none */
    MR_FIELD_F32S, /* mr_items of float */
    MR_FIELD_I32S, /* mr_items of int32_t */
    MR_FIELD_STRING, /* mr_items of char: UTF-8 without a zero, made while running; records end it at a zero */
    MR_FIELD_LIST, /* mr_items of structs (mr_field.fields); these may have items, but no lists */
    MR_FIELD_TYPES
} mr_field_type;

/* Items that belong to an element: `count` of them, `at` bytes into the result's items. {0, 0}: none. The place does
 * not depend on where the result lies: an element may be copied within its result, and contents with mr_result_copy. */
typedef struct mr_items {
    uint32_t at, count;
} mr_items;

/* A field in an element. Tables of fields end with a NULL name. */
typedef struct mr_field mr_field;
struct mr_field {
    const char *name;   /* name in records: lower-case letters, digits and _ */
    mr_field_type type;
    size_t offset;      /* bytes from the element's start */
    const char *unit;   /* Optional. "px", "s". */
    const char *help;   /* one line */
    const char *column; /* Optional. The column's name in tables (csv); NULL: `name`. */
    bool sparse;        /* Records leave it out if it is 0 or has no value. They always leave out empty F32S, I32S and
                           LIST. */
    const mr_field *fields; /* LIST: the fields in an item, ended by a NULL name */
    size_t item_bytes;      /* LIST: size of an item */
};

/* Receives the differences that a kind's comparison finds. */
typedef struct mr_comparison {
    void (*values)(void *context, mr_field_type type, const void *a, const void *b); /* one value each */
    void (*moved)(void *context); /* an element moved in the list */
    void *context;
} mr_comparison;

typedef struct mr_result_kind {
    const char *name;       /* in records, messages and on the wire; a valid field name with up to 64 characters */
    const char *help;       /* one line */
    const mr_field *fields; /* the fields in an element; NULL: results contain an array */
    size_t element_bytes;   /* size of an element; 0 for arrays */
    bool rare;              /* Most frames have no element. Sinks that write this kind alone write nothing for them. */
    bool on_device;         /* arrays: may lie in device memory, and are copied from and to it */
    /* Optional. Compares two results with equal element counts, for `millrace verify`. NULL: compares value by value,
     * in order. */
    void (*compare)(const mr_result *a, const mr_result *b, const mr_comparison *to);
} mr_result_kind;

/* `classes`: elements are mr_class, best first. */
MR_API const mr_result_kind *mr_kind_classes(void);
/* `tensor`: an array with a name. */
MR_API const mr_result_kind *mr_kind_tensor(void);

typedef struct mr_class {
    int32_t index;
    float score;
    const char *label; /* Optional. The stage's label for the class. Lives as long as the pipeline. */
} mr_class;

/* A result that a stage added to a frame. Results form a list, newest first. Frames may share the list's tail. A result
 * is immutable once the frame is emitted. */
struct mr_result {
    const mr_result_kind *kind;
    const char *stage; /* id of the stage that added it; lives as long as the pipeline */
    const char *name;  /* Optional. An array's name, such as in the model. Lives as long as the pipeline. */
    size_t count;      /* number of elements; 0 for arrays */
    bool cut;          /* the stage found, or would have found, more than it gives */
    mr_format format;  /* format of an array */
    mr_buffer *buffer; /* Optional. The buffer that holds an array; the result has a reference. NULL: `data` is host
                          memory that the result owns or that lives as long as the pipeline. */
    union {
        void *data;        /* the elements, or the array */
        mr_class *classes; /* the same pointer, for the kind `classes` */
    };
    struct mr_result *next; /* the next older result; NULL at the end */
    /* private */
    int references;
    void *room;
    size_t capacity; /* bytes in `room` */
    void *items;     /* host memory that the result owns; NULL: none yet */
    size_t items_bytes, items_room; /* used, and allocated */
    struct mr_store *store; /* owner of `room` */
};

/* The number of bytes at `data`. */
MR_API size_t mr_result_bytes(const mr_result *result);
/* The most bytes that the items of a result take. */
enum { MR_MOST_ITEMS_BYTES = 16 << 20 };
/* What an array of items takes of that. */
static inline size_t mr_items_bytes(size_t count, size_t item_bytes) {
    return (count * item_bytes + 1 + 7) / 8 * 8;
}
/* Copies `count` items with `item_bytes` bytes each into the result, aligned to 8; if `items` is NULL they are zeroed.
 * At least one zero byte follows them, so that a STRING can be read as a C text. *to may lie in the result's elements,
 * but not in its items, which move: pointers from mr_result_items are invalid after this call. `items` may lie in the
 * result's items. Only before the result is immutable (see Threads), one thread at a time.
 * MR_ERROR_MEMORY: also beyond MR_MOST_ITEMS_BYTES; *to is then {0, 0}. */
MR_API int mr_result_add_items(mr_result *result, const void *items, size_t count, size_t item_bytes, mr_items *to);
/* The items; NULL if there are none. Not checked here: `items` must come from mr_result_add_items for this result.
 * mr_io_emit refuses results with others, unless a device's work is still to write them. */
MR_API const void *mr_result_items(const mr_result *result, mr_items items);
/* Replaces elements or array, `count` and items of `to` by copies of those of `from`. `data` of `to` must have room for
 * mr_result_bytes(from), or be the same. MR_ERROR_MEMORY. */
MR_API int mr_result_copy(mr_result *to, const mr_result *from);
/* Compares one field of two elements, which may be the elements of lists, and reports the values to `to`. Items are
 * compared in order; different counts are one value. */
MR_API void mr_result_compare_field(const mr_field *field, const mr_result *a, const void *one, const mr_result *b,
                                    const void *other, const mr_comparison *to);
/* The first result in a list with that kind and, if `stage` is not NULL, from that stage. NULL: there is none. */
MR_API const mr_result *mr_result_find(const mr_result *list, const mr_result_kind *kind, const char *stage);

#ifdef __cplusplus
}
#endif
#endif
