/* Prints a run's summary, for people and as JSON. */
#pragma once

#include <stdio.h>
#include <yajl/yajl_gen.h>
#include <yajl/yajl_tree.h>

#include "millrace/millrace.h"
#include "millrace/summary_fields.h"

/* Prints tables: stages, ledger, classes. Sources beyond the first 20 are only counted, unless they failed. */
void mr_summary_print(const mr_summary *summary, FILE *stream);

/* Print a ledger line, "12 dropped by decode: corrupt", and the sum; `balanced`: whether it holds. */
void mr_ledger_line_print(const mr_ledger_line *line, FILE *stream);
void mr_ledger_print(uint64_t in, uint64_t delivered, uint64_t dropped, uint64_t absorbed, uint64_t in_flight,
                     bool balanced, FILE *stream);
/* Prints the same for objects; nothing if there were none. */
void mr_objects_print(const mr_object_summary *objects, FILE *stream);
/* The sum of the lines with this outcome. */
uint64_t mr_lines_frames(const mr_ledger_line *lines, size_t count, mr_outcome outcome);
/* Prints a source's row: frames, faults, connection, most frequent classes. */
void mr_source_print(const mr_source_summary *source, FILE *stream);
/* Prints a line: the number of labelled frames that are right, and right within the `longest` best. */
void mr_accuracy_print(const mr_source_summary *source, FILE *stream);
/* Prints the state of a sink's service; nothing if it has none. */
void mr_service_print(const mr_stage_summary *stage, FILE *stream);
/* Prints state, times and counts of a source that connects to a camera or server. */
void mr_connection_print(const mr_source_report *report, FILE *stream);

/* Summaries that are printed in one table. */
typedef struct mr_named_summary {
    const char *name; /* the node's; NULL: there are no nodes */
    const mr_summary *summary;
} mr_named_summary;
int mr_stages_print(const mr_named_summary *of, size_t count, int width, FILE *stream);
int mr_cuts_print(const mr_named_summary *of, size_t count, int width, FILE *stream);

/* Writes one JSON object on one line, with the fields in millrace/summary_fields.h. If `finished`, it also has
 * `exit_code` and `error` (the status' words, unless there are better ones). MR_OK, MR_ERROR_IO or MR_ERROR_MEMORY. */
int mr_summary_print_json(const mr_summary *summary, bool finished, int status, const char *error, FILE *stream);
/* Writes the members of such an object for a run that has not ended. */
void mr_summary_put_json(yajl_gen json, const mr_summary *summary);
/* Writes the elements of one of its lists, "sources", "stages", "cuts" or "devices", each with one more text. */
void mr_summary_put_list(yajl_gen json, const mr_summary *summary, const char *name, const char *key,
                         const char *value);
/* Writes a source's "accuracy", or that of several sources together. */
void mr_accuracy_put_json(yajl_gen json, const mr_source_summary *sums);

/* Reads such an object. Missing members are 0. Texts lie in the tree, which must live as long. MR_ERROR_MEMORY: the
 * summary is empty. */
int mr_summary_read(yajl_val tree, mr_summary *summary);
void mr_summary_read_fini(mr_summary *summary);
