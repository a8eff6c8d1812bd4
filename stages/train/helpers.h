/* The side of a fit that has helpers (millrace/fit_helpers.h): shares out each sum, and joins what comes back.
 *
 * A helper is given work once it has answered. One whose sums have not come when the own share has long been made is
 * given none until it answers again; what it owes is made here. Shares follow how fast each process was last time.
 *
 * Ownership: the helpers own their sockets; the file of rows stays. The thread of the fit. */
#ifndef MILLRACE_STAGES_TRAIN_HELPERS_H
#define MILLRACE_STAGES_TRAIN_HELPERS_H

#include "kernels/fit/fit_linear.h"
#include "millrace/fit_helpers.h"

typedef struct mr_helpers mr_helpers;

/* Writes the rows, connects to the helpers, and awaits them for given->patience_ns at most. Errors of helper_rows.h and
 * of sockets; MR_ERROR_MEMORY. */
int mr_helpers_create(mr_helpers **helpers, mr_fit_helpers *given, const mr_fit_linear *linear);
void mr_helpers_destroy(mr_helpers **helpers);
/* As mr_fit_crew_sum, of the task of that point. */
void mr_helpers_sum(mr_helpers *helpers, mr_fit_crew *crew, const mr_fit_point *point, const mr_fit_task *task,
                    double *nodes);

#endif
