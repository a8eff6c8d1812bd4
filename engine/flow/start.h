/* Starts a running graph (graph.h). */
#pragma once

#include "engine/flow/graph.h"

/* On failure everything has ended: nothing was delivered, and frames that came in were dropped. For checkpoint errors
 * see mr_resume_create. */
int mr_graph_start(mr_graph *graph);
