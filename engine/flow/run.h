/* Reports to a running graph from instances, the ends of cuts and programs. Any thread. */
#ifndef MILLRACE_FLOW_RUN_H
#define MILLRACE_FLOW_RUN_H

#include "engine/flow/graph.h"

/* Asks sources to end (frames in flight are delivered), or, at once, drops the frames in flight. */
void mr_graph_stop(mr_graph *graph, bool at_once);
/* An instance that its own thread opens has been opened, or has failed to, with the message of mr_fail. */
void mr_graph_instance_opened(mr_graph *graph, const mr_instance *instance, int status);
void mr_graph_instance_ended(mr_graph *graph, mr_instance *instance);
/* Keeps the graph from ending until it is released: for a cut whose other end may not know yet how its frames were
 * settled. */
void mr_graph_hold(mr_graph *graph);
void mr_graph_release(mr_graph *graph);
void mr_graph_fail(mr_graph *graph, int status, const char *message);
void mr_graph_fail_source(mr_graph *graph, uint32_t source, int status, const char *message);
/* Frames of a source: announced but not read; announced by the container. */
void mr_graph_miss_frames(mr_graph *graph, uint32_t source, uint64_t frames);
void mr_graph_expect_frames(mr_graph *graph, uint32_t source, int64_t frames);
/* Counts an interruption of the source's stream. Any thread. */
void mr_graph_count_seam(mr_graph *graph, uint32_t source);
/* Counts a delivered frame: latency, classes. */
void mr_graph_deliver(mr_graph *graph, const mr_instance *sink, const mr_frame *frame, int64_t now_ns);

/* External sources: their inlet, the end of one, and the function that wakes a program that waits to push. */
mr_link *mr_graph_external_inlet(mr_graph *graph, uint32_t source);
int mr_graph_end_source(mr_graph *graph, uint32_t source);
/* The same with the graph's lock. */
void mr_graph_push_end(mr_graph *graph, uint32_t source);
void mr_graph_tell_room(void *graph);

/* When a wait of so long for graph->changed is over, which begins now; negative: at once. */
struct timespec mr_graph_deadline(int64_t timeout_ns);
/* Whether a source that ends now only leaves its place. */
bool mr_graph_leaves_place(const mr_graph *graph);
/* The epoch of a frame that its source gives that one. By the source's instance. */
uint32_t mr_graph_epoch(mr_graph *graph, uint32_t source, uint32_t own);

#endif
