/* Starts a running graph (graph.h). */
#ifndef MILLRACE_FLOW_START_H
#define MILLRACE_FLOW_START_H

#include "engine/flow/graph.h"

/* On failure everything has ended: nothing was delivered, and frames that came in were dropped. For checkpoint errors
 * see mr_resume_create. */
int mr_graph_start(mr_graph *graph);

#endif
