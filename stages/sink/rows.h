/* Sinks with a row for each element of one kind of results: csv, and jsonl with `results`. */
#pragma once

#include "millrace/stage.h"

/* The kind that earlier stages give under that name. NULL: they give none that has elements. Any kind is known by name
 * if results may come that planning does not know (mr_planned_input.more_results): then only `classes`, `objects`,
 * `events` and `text`. */
const mr_result_kind *mr_rows_find_kind(const mr_planned_input *input, const char *name);
/* Refuses the option `results`, and lists the kinds that it may name. */
int mr_rows_refuse(mr_negotiation *negotiation, const char *wanted);
/* The result of that kind whose elements become rows, or the next one. A kind of which most frames have nothing
 * (events) has rows from all stages, another one from the newest. Start with NULL; NULL: there is no other. */
const mr_result *mr_rows_next(const mr_frame *frame, const mr_result_kind *kind, const mr_result *last);
