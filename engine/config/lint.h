/* Lint: what is known to go wrong in a pipeline of which every key and every link is right by itself.
 *
 * What can never work is refused; what works, but not as its author must have meant it, is warned of. Each message has its
 * place, what was found, what was expected, and a hint at what to write. Nothing is opened: files are at most looked up, to
 * tell whether two paths are one file. One thread at a time. */
#ifndef MILLRACE_CONFIG_LINT_H
#define MILLRACE_CONFIG_LINT_H

#include "engine/config/plan.h"

struct mr_plan_builder;

/* While the text is read: diagnoses a queue that is to have no bound (`queue: 0`, `unbounded`, `{size: .inf}`) and marks
 * that value as broken, so that nothing more is said of it. `queue` may be NULL. */
void mr_lint_queue(mr_yaml *queue, const char *stage, mr_diagnostics *diagnostics);

/* Once formats are known: what nobody takes, and the checks below. `linked`: every input was found. MR_OK or
 * MR_ERROR_MEMORY. */
int mr_lint_plan(struct mr_plan_builder *builder, bool linked);

/* lint_files.c: stages that write one file, or over a file that is read. */
int mr_lint_files(struct mr_plan_builder *builder);
/* lint_joins.c: joins whose inputs can never carry the same frame, or not in one order. */
int mr_lint_joins(struct mr_plan_builder *builder);

#endif
