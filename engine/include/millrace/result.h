/* Results that stages add to frames, and the kinds of results.
 *
 * A kind describes what its results contain, once and for everybody: copies between memories, joins, cuts, records in
 * JSON, CSV and protobuf, and `verify` all work from this description. A result contains one of two things:
 *
 *   elements   `count` structs in an array, each with the fields that the kind declares (classes, boxes). They lie in
 *              host memory that belongs to the result.
 *   an array   numbers of one type, as mr_result.format describes (a tensor). They lie in host memory that belongs to
 *              the result, or in a buffer of a pool, which may be a device's memory if the kind allows it.
 *
 * millrace has the kinds `classes` and `tensor`. A stage type declares others in mr_stage_type.kinds:
 *
 *     typedef struct box { float left, top, width, height; const char *label; } box;
 *     static const mr_field fields[] = {
 *         {"left", MR_FIELD_F32, offsetof(box, left), "px", "its left edge"}, ...
 *         {"label", MR_FIELD_TEXT, offsetof(box, label), NULL, "what it shows"}, {0}};
 *     static const mr_result_kind boxes = {.name = "boxes", .help = "what was found, and where", .fields = fields,
 *                                          .element_bytes = sizeof(box)};
 *
 * It promises them with mr_promise_result, adds them with mr_io_add_result, and fills in `data` and `count`. Another
 * stage finds them with mr_frame_result. Plugins that share a kind declare it alike: kinds of one name must have the
 * same fields, which is checked when the types are listed.
 *
 * Ownership: kinds and their fields are constants that live as long as the process. A result belongs to its frame.
 * Texts in elements live as long as the pipeline. Threads: the stage that adds a result writes it until it emits the
 * frame; then it is immutable, and any thread may read it. Units: those of the fields. Errors: a malformed kind is
 * refused with its stage type (mr_stage_type_check); a node that does not know a kind, or has other fields for it, is
 * refused when it connects. */
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
    MR_FIELD_TIME, /* int64_t, nanoseconds, in records as seconds; MR_NO_TIME: none */
    MR_FIELD_DATE, /* int64_t, nanoseconds since 1970 (UTC), in JSON and CSV as RFC 3339 has it; 0: none */
    MR_FIELD_TYPES
} mr_field_type;

/* One field of an element. Tables of fields end with a NULL name. */
typedef struct mr_field {
    const char *name;   /* in records: lower-case letters, digits and _ */
    mr_field_type type;
    size_t offset;      /* in the element */
    const char *unit;   /* "px", "s"; NULL: it has none */
    const char *help;   /* one line */
    const char *column; /* its name in tables (csv); NULL: `name` */
} mr_field;

/* Takes the differences that a kind's comparison finds. */
typedef struct mr_comparison {
    void (*values)(void *context, mr_field_type type, const void *a, const void *b); /* one value of each */
    void (*moved)(void *context); /* an element has another place in the list */
    void *context;
} mr_comparison;

typedef struct mr_result_kind {
    const char *name;       /* in records, messages and on the wire: as a field's name; up to 64 characters */
    const char *help;       /* one line */
    const mr_field *fields; /* of an element; NULL: results contain an array */
    size_t element_bytes;   /* size of one element; 0 of arrays */
    bool on_device;         /* arrays: they may lie in a device's memory, and are copied from and to it */
    /* Compares two results with equally many elements, for `millrace verify`. NULL: value by value, in order. */
    void (*compare)(const mr_result *a, const mr_result *b, const mr_comparison *to);
} mr_result_kind;

/* `classes`: elements are mr_class, best first. */
MR_API const mr_result_kind *mr_kind_classes(void);
/* `tensor`: an array with a name. */
MR_API const mr_result_kind *mr_kind_tensor(void);

typedef struct mr_class {
    int32_t index;
    float score;
    const char *label; /* NULL if the stage has no labels; lives as long as the pipeline */
} mr_class;

/* One result of one stage about one frame. Results form a list, newest first, whose tail may be shared between
 * frames; an element is immutable once its frame was emitted. */
struct mr_result {
    const mr_result_kind *kind;
    const char *stage; /* id of the stage that added it; lives as long as the pipeline */
    const char *name;  /* of an array: its name, such as in the model; lives as long as the pipeline. May be NULL */
    size_t count;      /* elements; 0 of arrays */
    mr_format format;  /* of an array */
    mr_buffer *buffer; /* that holds an array, with a reference; NULL: `data` is host memory of the result itself, or
                          lives as long as the pipeline */
    union {
        void *data;        /* the elements, or the array */
        mr_class *classes; /* the same, of the kind `classes` */
    };
    struct mr_result *next; /* the next older one; NULL at the end */
    /* private */
    int references;
    void *room;
    size_t capacity; /* bytes of it */
    struct mr_store *store; /* the memory of `room` */
};

/* Bytes at `data`. */
MR_API size_t mr_result_bytes(const mr_result *result);
/* The first result of that kind (and, if `stage` is given, of that stage) in a list; NULL if there is none. */
MR_API const mr_result *mr_result_find(const mr_result *list, const mr_result_kind *kind, const char *stage);

#ifdef __cplusplus
}
#endif
#endif
