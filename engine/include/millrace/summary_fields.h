/* The fields of mr_summary as tables. The summary in JSON (`run --json`, `ctl status`), the reports of nodes, the
 * reference and `/metrics` are made from them. A new field is one row in engine/pipeline/summary_fields.c.
 *
 * Ownership: the tables are constants that live as long as the process. Threads: any. */
#ifndef MILLRACE_SUMMARY_FIELDS_H
#define MILLRACE_SUMMARY_FIELDS_H

#include <stdbool.h>
#include <stddef.h>

#include "millrace/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The C type of a field, and its value in JSON. */
typedef enum mr_summary_type {
    MR_SUMMARY_BOOL,    /* bool */
    MR_SUMMARY_NONE,    /* uint64_t: true if it is 0 */
    MR_SUMMARY_INT,     /* int */
    MR_SUMMARY_U32,     /* uint32_t */
    MR_SUMMARY_U64,     /* uint64_t; also int64_t and size_t, which are never negative here */
    MR_SUMMARY_F64,     /* double */
    MR_SUMMARY_NS,      /* int64_t or uint64_t, nanoseconds: a number in `unit`, "s" or "ms" */
    MR_SUMMARY_NS_F64,  /* double, nanoseconds: likewise */
    MR_SUMMARY_DATE,    /* int64_t, nanoseconds since 1970: a text as in RFC 3339; 0: null */
    MR_SUMMARY_TEXT,    /* const char *; NULL: null */
    MR_SUMMARY_CHARS,   /* char[]; "": null */
    MR_SUMMARY_NAME,    /* enum: the text that name_of gives */
    MR_SUMMARY_STATUS,  /* int, a status: its exit code */
    MR_SUMMARY_RATIO,   /* two uint64_t: the one at `offset` divided by the one at `count` */
    MR_SUMMARY_BUCKETS, /* uint64_t[MR_DURATION_BUCKETS]: numbers in a list */
    MR_SUMMARY_PART,    /* a struct: an object */
    MR_SUMMARY_INLINE,  /* a struct: its fields, in the object around it */
    MR_SUMMARY_LIST,    /* a pointer to structs, with their number (size_t) at `count`: a list of objects */
    MR_SUMMARY_ARRAY    /* structs, with their number at `count`: likewise */
} mr_summary_type;

typedef struct mr_summary_part mr_summary_part;
typedef struct mr_summary_field {
    const char *name;            /* key in JSON */
    mr_summary_type type;
    size_t offset;               /* bytes from the start of the part's struct */
    const char *unit;            /* Optional. "s", "ms", "bytes". */
    const char *help;            /* one line */
    bool rises;                  /* a count that only rises while the pipeline runs */
    size_t count;                /* RATIO, LIST, ARRAY: the second offset */
    size_t most;                 /* CHARS: bytes; ARRAY: elements that there is room for */
    const mr_summary_part *part; /* PART, INLINE, LIST, ARRAY */
    const char *(*name_of)(int value); /* NAME: NULL past the last */
    /* Optional. Whether a value, or an element of a list, is present. */
    bool (*has)(const void *base);
    bool omitted;                /* an absent value, or an empty list, has no key; else null or an empty list */
    /* INLINE and lists with `has`: makes it true for a struct or an element that is read from JSON. */
    void (*set)(void *base);
    /* Optional. The name in /metrics, without "millrace_" and "_total". A PART of durations is a histogram. */
    const char *metric;
    const char *label;           /* LIST: the name of the label with an element's first text, for metrics in it */
} mr_summary_field;

/* A struct. Its table ends with a NULL name. */
struct mr_summary_part {
    const mr_summary_field *fields;
    size_t bytes; /* size of the struct */
};

/* mr_summary itself. */
MR_API const mr_summary_part *mr_summary_fields(void);
/* NULL: the part has no field with that name. */
MR_API const mr_summary_field *mr_summary_field_find(const mr_summary_part *part, const char *name);
/* LIST, ARRAY: a list's elements and their number. `base`: the struct of the part. */
MR_API const void *mr_summary_list(const mr_summary_field *field, const void *base);
MR_API size_t mr_summary_count(const mr_summary_field *field, const void *base);
/* NS, NS_F64: the factor for nanoseconds. */
MR_API double mr_summary_scale(const mr_summary_field *field);

static inline bool mr_summary_is_list(const mr_summary_field *field) {
    return field->type == MR_SUMMARY_LIST || field->type == MR_SUMMARY_ARRAY;
}

#ifdef __cplusplus
}
#endif
#endif
