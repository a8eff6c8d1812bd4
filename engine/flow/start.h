/* The start of a running graph (graph.h). */
#ifndef MILLRACE_FLOW_START_H
#define MILLRACE_FLOW_START_H

#include "engine/flow/graph.h"

/* If it fails, all has ended: nothing was delivered, and frames that had come in were dropped. Errors of a checkpoint:
 * mr_resume_create. */
int mr_graph_start(mr_graph *graph);

#endif
