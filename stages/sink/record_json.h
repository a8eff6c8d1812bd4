/* Prints a frame's record as one JSON line: jsonl writes it to a file, zmq.pub and zmq.push send it.
 *
 * A record is built in the generator's buffer, which grows to the longest record and stays: a frame with UTF-8 names
 * needs no allocation. Numbers read back as the same value. One thread at a time. */
#pragma once

#include <yajl/yajl_gen.h>

#include "stages/sink/fields.h"

typedef struct mr_record {
    mr_encoder encoder;
    yajl_gen json;
} mr_record;

int mr_record_open(mr_record *record);
/* The line, including the newline; valid until the next call. */
const char *mr_record_make(mr_record *record, const mr_recorded *recorded, size_t *bytes);
/* The lines of all elements of that kind, one each; *bytes is 0 if the frame has none. Valid until the next call. */
const char *mr_record_make_elements(mr_record *record, const mr_recorded *recorded, const mr_result_kind *kind,
                                    size_t *bytes);
/* One field of an element in `result` that holds items, without its name; "[1,2]". Valid until the next call; NULL: no
 * memory. */
const char *mr_record_make_field(mr_record *record, const mr_result *result, const void *element,
                                 const mr_field *field, size_t *bytes);
/* All zero is closed. */
void mr_record_close(mr_record *record);

/* Call in negotiate if a sink has the options `features` and `tensors`: refuses them if no stage provides such data. */
int mr_record_check(mr_negotiation *negotiation, bool features, bool tensors);
