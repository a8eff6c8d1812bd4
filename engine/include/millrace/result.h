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
 * millrace has the kinds `classes`, `objects` (objects.h) and `tensor`. A stage type declares others in
 * mr_stage_type.kinds:
 *
 *     typedef struct box { float left, top, width, height; const char *label; } box;
 *     static const mr_field fields[] = {
 *         {"left", MR_FIELD_F32, offsetof(box, left), "px", "its left edge"}, ...
 *         {"label", MR_FIELD_TEXT, offsetof(box, label), NULL, "what it shows"}, {0}};
 *     static const mr_result_kind boxes = {.name = "boxes", .help = "what was found, and where", .fields = fields,
 *                                          .element_bytes = sizeof(box)};
 *
 * The stage promises them with mr_promise_result, adds them with mr_io_add_result, and fills in `data` and `count`.
 * Another stage finds them with mr_frame_result. Plugins that share a kind must declare it alike: kinds with the same
 * name must have the same fields. The library checks this when it lists the types.
 *
 * Ownership: kinds and fields are constants that live as long as the process. A result belongs to the frame. Texts in
 * elements must live as long as the pipeline.
 *
 * Threads: the stage that adds a result may write it until it emits the frame. Then the result is immutable, and any
 * thread may read it.
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
    MR_FIELD_TYPES
} mr_field_type;

/* A field in an element. Tables of fields end with a NULL name. */
typedef struct mr_field {
    const char *name;   /* name in records: lower-case letters, digits and _ */
    mr_field_type type;
    size_t offset;      /* bytes from the element's start */
    const char *unit;   /* Optional. "px", "s". */
    const char *help;   /* one line */
    const char *column; /* Optional. The column's name in tables (csv); NULL: `name`. */
} mr_field;

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
    bool sparse;            /* Most frames have no element. Sinks that write this kind alone write nothing for them. */
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
    struct mr_store *store; /* owner of `room` */
};

/* The number of bytes at `data`. */
MR_API size_t mr_result_bytes(const mr_result *result);
/* The first result in a list with that kind and, if `stage` is not NULL, from that stage. NULL: there is none. */
MR_API const mr_result *mr_result_find(const mr_result *list, const mr_result_kind *kind, const char *stage);

#ifdef __cplusplus
}
#endif
#endif
