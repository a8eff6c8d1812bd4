/* From a plan to a running graph (graph.h), and its end. Threads: create, start and destroy from one thread, in this
 * order; all else from any. */
#ifndef MILLRACE_FLOW_START_H
#define MILLRACE_FLOW_START_H

#include "engine/flow/graph.h"

int mr_graph_create(mr_graph **graph, const mr_plan *plan, uint64_t seed);
void mr_graph_destroy(mr_graph **graph);
/* If it fails, all has ended: nothing was delivered, and frames that had come in were dropped. */
int mr_graph_start(mr_graph *graph);
/* MR_ERROR_AGAIN while it runs; else the first failure. */
int mr_graph_wait(mr_graph *graph, int64_t timeout_ns);
/* See mr_pipeline_trigger. */
int mr_graph_trigger(mr_graph *graph, const char *id);
/* See mr_pipeline_enable_device. */
int mr_graph_enable_device(mr_graph *graph, const mr_device *device, bool enabled);
/* A frame of an external source, which has that id (the plan's pointer); takes the frame's reference on success
 * only. */
int mr_graph_push(mr_graph *graph, uint32_t source, const char *id, mr_frame *frame, int64_t timeout_ns);
/* No more will come from that source. */
void mr_graph_end_pushes(mr_graph *graph, uint32_t source, const char *id);

/* Private to start.c and graph.c: instances, links and routes. */
int mr_graph_wire(mr_graph *graph);
void mr_graph_unwire(mr_graph *graph);

#endif
