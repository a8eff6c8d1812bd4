/* The fit on the nodes of a pipeline (millrace/fit_helpers.h): those that listen help it, when they have made their
 * vectors.
 *
 * They find the rows of the fit in the folder that all nodes share (extract.h), as "fit"; once that is empty they end.
 * Each listens where it gave its frames, with its key, and lets in the node that is home. Where others start the nodes
 * they help if there is work enough; where one process watches over all of them they have its machine's cores, which
 * that process has as well, so they are started for it only if they are asked for.
 *
 * Main thread. */
#ifndef MILLRACE_TOOLS_TRAIN_HELPING_H
#define MILLRACE_TOOLS_TRAIN_HELPING_H

#include <sys/types.h>

#include "millrace/classifier.h"
#include "millrace/fit_helpers.h"
#include "tools/millrace/train/extract.h"

typedef enum mr_fit_place { MR_FIT_BY_SIZE, MR_FIT_AT_HOME, MR_FIT_ON_NODES } mr_fit_place;

/* What the fit is given; zeroed, with `extraction` and `place`, at the begin. */
typedef struct mr_helping {
    mr_extraction *extraction;
    mr_fit_place place;
    mr_fit_helpers helpers;
    char why[160];      /* the fit is at home; "": nodes help */
    /* private */
    char rows[MR_ASIDE + 32];
    mr_aside folder, sockets; /* of the process that watches */
    pid_t supervisor;
} mr_helping;

/* Chooses where the fit is made: fit->helpers is set if nodes help. The nodes are started if that is for this process
 * to do. MR_ERROR_USAGE: nodes were asked for, and none can help. */
int mr_helping_begin(mr_helping *helping, mr_fit_params *fit, const mr_labelled_rows *rows);
/* After the fit, or a failure of before: lets the nodes go, unless another try may need them. */
void mr_helping_end(mr_helping *helping, int status);

/* Of a node: helps the fit until it is over; *again: there are vectors to be made once more. */
int mr_helping_serve(const mr_extraction *extraction, bool *again);

#endif
