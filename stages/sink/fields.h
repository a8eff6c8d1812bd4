/* The fields of a frame's record, as a table, and the walk over them that jsonl, csv, zmq.pub and zmq.push share.
 *
 * A new field is one row in fields.c: JSON, CSV, protobuf and the documents follow. Lists (classes, tensors, results of
 * other kinds) are rows with a function. Pure functions: any thread. */
#pragma once

#include "millrace/describe.h"
#include "millrace/stage.h"

/* ---- encoders ---------------------------------------------------------------------------------------------------- */

typedef enum mr_record_opening {
    MR_OPEN_LIST,   /* a list; its items have its number */
    MR_OPEN_ITEM,   /* one item of a list, with values */
    MR_OPEN_GROUPS, /* lists, each with a name */
    MR_OPEN_GROUP   /* one of these lists, with `name` */
} mr_record_opening;

/* Writes what the walk comes to. `number`: of the field in messages. */
typedef struct mr_encoder mr_encoder;
struct mr_encoder {
    void (*value)(mr_encoder *to, const mr_field *field, uint32_t number, const void *base);
    /* `likely`: the bytes of it, about. */
    void (*open)(mr_encoder *to, mr_record_opening what, const char *name, uint32_t number, size_t likely);
    void (*close)(mr_encoder *to, mr_record_opening what);
    /* Type, shape and numbers of an array: within an item, or, with a name, in one of its own (JSON: its numbers). */
    void (*array)(mr_encoder *to, const char *name, uint32_t number, const mr_format *format, const void *data);
    bool by_result; /* results of other kinds are one list of messages that name their kind */
};

/* ---- records ----------------------------------------------------------------------------------------------------- */

/* What a record is made of. */
typedef struct mr_recorded {
    const mr_frame *frame;  /* NULL: the record says that the source has ended */
    const char *source;
    const char *format;     /* of the payload that goes with it; NULL: none */
    bool features, tensors; /* also the tensor that is the frame's payload, and its named ones */
} mr_recorded;

void mr_record_walk(const mr_recorded *recorded, mr_encoder *to);

/* The values of rows that are no lists: the base of their fields. */
typedef struct mr_record_values {
    const char *source, *id, *file, *label, *format;
    int64_t epoch, seq, sub, pts_ns, captured_ns;
    bool damaged, away, end;
} mr_record_values;
mr_record_values mr_record_values_of(const mr_recorded *recorded);

/* A value as text: numbers as mr_float_text, times in seconds, dates as RFC 3339 has them. Returns the length; 0: there
 * is none. Not of texts. */
enum { MR_VALUE_TEXT = 48 };
size_t mr_value_text(char text[MR_VALUE_TEXT], const mr_field *field, const void *base);
/* False of NULL, 0, false and an unknown time. */
bool mr_value_is_set(const mr_field *field, const void *base);
