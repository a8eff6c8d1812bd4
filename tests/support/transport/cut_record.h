/* The common part of tests of cuts between processes: a folder for each, a pipeline whose last stage records the frames
 * that reach it, and checks of that record and of ledgers. */
#pragma once

#include "tests/support/transport/node_process.h"

enum { CUT_TEXT = 4096 };

/* Of the test that runs: its folder, in it the record, and a file that is not there until cut_open_gate: a run that
 * `hold` makes wait for it does not end before. */
extern char cut_folder[64], cut_file[128], cut_gate[128];
void cut_open_gate(void);
int cut_make_folder(void **state);
int cut_remove_folder(void **state);

/* A pipeline whose last stage is `kept`, which records; all but `last` as YAML. In memory that the next call
 * overwrites. */
const char *cut_pipeline(const char *sources, const char *stages, const char *last, const char *nodes);
/* The record must be that of frames 0 to count - 1 of the source; in that order if `ordered`. With a step, of every so
 * manieth; `noted`: the number that a stage `note` behind adds, 0: none. */
void cut_check_record(const char *source, int count, int step, int64_t noted, bool ordered);
void cut_check_ledger(const node_report *report, uint64_t in, uint64_t delivered, uint64_t absorbed, uint64_t dropped);
