/* Common parts for tests with cuts between processes: a folder for each, a pipeline whose last stage records the frames
 * that reach it, and checks on the record and on ledgers. */
#pragma once

#include "tests/support/temporary.h"
#include "tests/support/transport/node_process.h"

enum { CUT_TEXT = 4096 };

/* The record and a gate file in the test's temporary folder; remove_temporary_folder removes them. `hold` makes a run
 * wait until cut_open_gate creates the gate file, so that it cannot end earlier. */
extern char cut_file[128], cut_gate[128];
void cut_open_gate(void);
int cut_make_folder(void **state);

/* A pipeline whose last stage, `kept`, records; all parameters except `last` are YAML. The next call overwrites the
 * result. */
const char *cut_pipeline(const char *sources, const char *stages, const char *last, const char *nodes);
/* Checks that the record has the source's frames 0 to count - 1, in that order if `ordered`. `step`: only every step-th
 * frame. `noted`: what a following `note` stage adds; 0: nothing. */
void cut_check_record(const char *source, int count, int step, int64_t noted, bool ordered);
void cut_check_ledger(const node_report *report, uint64_t in, uint64_t delivered, uint64_t absorbed, uint64_t dropped);

/* Runs nodes `a` and `b`; `b` has the sink. */
void cut_run_two(const char *text, node_report *a, node_report *b);
/* Both nodes must deliver that many frames, and the record must have as many lines. */
void cut_pass_all(const char *text, uint64_t frames);
