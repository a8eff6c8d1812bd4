/* The summary of a run, for people and for programs. */
#ifndef MILLRACE_TOOLS_RUN_SUMMARY_H
#define MILLRACE_TOOLS_RUN_SUMMARY_H

#include <stdio.h>
#include <yajl/yajl_gen.h>

#include "millrace/millrace.h"

/* "works", "in reserve", "disabled", "failed". */
const char *mr_device_state_name(mr_device_state state);

/* Tables: stages, ledger, classes. Sources beyond the first 20 are only counted, unless they failed. */
void mr_summary_print(const mr_summary *summary, FILE *stream);

/* The row of a source: frames, faults, connection, most frequent classes. `stay` may be NULL. */
void mr_source_print(const mr_source_summary *source, const mr_source_stay *stay, FILE *stream);

/* One line: the number of labelled frames, of a source or of all, that are right, and among the `longest` best. */
void mr_accuracy_print(const char *of, uint64_t labelled, uint64_t right, uint64_t listed, size_t longest,
                       FILE *stream);
/* "accuracy": an object {frames, top_1, top_k, k} that is left open for more; null, and false is returned, if no frame
 * is labelled. */
bool mr_accuracy_open_json(yajl_gen json, uint64_t labelled, uint64_t right, uint64_t listed, size_t longest);

/* One JSON object on one line: pipeline, status, ledger {in, delivered, dropped: [{stage, reason, frames}], absorbed:
 * [...], in_flight, balanced}, sources, stages, wall_s, cpu_s and more; times in seconds and milliseconds as their
 * names say. If `finished` it has `exit_code` and `error` (the status' words, unless there are better ones). MR_OK,
 * MR_ERROR_IO or MR_ERROR_MEMORY. */
int mr_summary_print_json(const mr_summary *summary, bool finished, int status, const char *error, FILE *stream);
/* The members of such an object for a run that has not ended. */
void mr_summary_put_json(yajl_gen json, const mr_summary *summary);

/* The state, times and counts of a source that connects to a camera or server, for one line. `since` and `next_try`
 * are dates; "" or NULL: none. */
typedef struct mr_connection_words {
    const char *state, *since, *why, *next_try;
    int64_t tries, connections, packets, bytes, lost, stills;
    double jitter_ms;
} mr_connection_words;
void mr_connection_print(const mr_connection_words *words, FILE *stream);

#endif
