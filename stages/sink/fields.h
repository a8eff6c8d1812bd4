/* A frame record's fields as a table, and the walk over them that jsonl, csv, zmq.pub and zmq.push share.
 *
 * A new field needs one row in fields.c: JSON, CSV, protobuf and the documents follow. Lists (classes, tensors, other
 * results) are rows with a function. Pure functions: any thread. */
#pragma once

#include "millrace/describe.h"
#include "millrace/stage.h"

/* ---- encoders ---------------------------------------------------------------------------------------------------- */

typedef enum mr_record_opening {
    MR_OPEN_LIST,   /* a list; its items use its number */
    MR_OPEN_ITEM,   /* a list item, with values */
    MR_OPEN_GROUPS, /* lists, each with a name */
    MR_OPEN_GROUP   /* one such list, with `name` */
} mr_record_opening;

/* Receives what the walk finds. `number`: the field number in messages. */
typedef struct mr_encoder mr_encoder;
struct mr_encoder {
    void (*value)(mr_encoder *to, const mr_field *field, uint32_t number, const void *base);
    /* F32S, I32S: `count` numbers. */
    void (*numbers)(mr_encoder *to, const mr_field *field, uint32_t number, const void *data, size_t count);
    /* `likely`: expected size in bytes. */
    void (*open)(mr_encoder *to, mr_record_opening what, const char *name, uint32_t number, size_t likely);
    void (*close)(mr_encoder *to, mr_record_opening what);
    /* An array's type, shape and numbers: inside an item, or as a separate item if it has a name (JSON: only
     * numbers). */
    void (*array)(mr_encoder *to, const char *name, uint32_t number, const mr_format *format, const void *data);
    bool by_result; /* other kinds form one list of messages, which name their kind */
};

/* ---- records ----------------------------------------------------------------------------------------------------- */

/* What a record is made from. */
typedef struct mr_recorded {
    const mr_frame *frame;  /* NULL: a record about the source's end */
    const char *source;
    const char *format;     /* payload format; NULL: none */
    bool features, tensors; /* also write the payload tensor, and named ones */
    bool newest;            /* leave out the results of stages before the last one that gave the kind */
} mr_recorded;

void mr_record_walk(const mr_recorded *recorded, mr_encoder *to);
/* A record for one element of a result: the frame's values, then the element's fields. A value whose name is also that
 * of a field is left out. */
void mr_record_walk_element(const mr_recorded *recorded, const mr_result *result, size_t index, mr_encoder *to);
/* The part of the walk for one field of an element in `result`, or of an item in a list. */
void mr_record_walk_field(const mr_result *result, const void *element, const mr_field *field, uint32_t number,
                          mr_encoder *to);

/* Base addresses for the fields that are not lists. */
typedef struct mr_record_values {
    const char *source, *id, *file, *label, *format;
    int64_t epoch, seq, sub, pts_ns, captured_ns;
    bool damaged, away, end;
} mr_record_values;
mr_record_values mr_record_values_of(const mr_recorded *recorded);

/* Prints a value: numbers as mr_float_text, times in seconds, dates as in RFC 3339. Returns the length; 0: there is
 * none. Not for texts and items. */
enum { MR_VALUE_TEXT = 48 };
size_t mr_value_text(char text[MR_VALUE_TEXT], const mr_field *field, const void *base);
/* False for NULL, 0, false, an unknown time and no items. */
bool mr_value_is_set(const mr_field *field, const void *base);
