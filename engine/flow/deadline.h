/* Deadlines: drops frames that are late, or will be. Internal to engine/flow. */
#ifndef MILLRACE_FLOW_DEADLINE_H
#define MILLRACE_FLOW_DEADLINE_H

#include "engine/flow/graph.h"

/* For instances that shed: the reason not to begin work on the next frame, "late" or "gop"; NULL if it is in time. */
const char *mr_deadline_refusal(mr_instance *instance, const mr_frame *frame, const mr_task *task);
/* Whether a frame that was in time when it was taken is late now. Never true of packets. */
bool mr_deadline_passed(const mr_frame *frame, int64_t now_ns);

/* Finds the stages that drop late frames, and allocates the needs. Routes must exist. */
int mr_graph_create_needs(mr_graph *graph);
void mr_graph_destroy_needs(mr_graph *graph);
/* Notes the duration of a call of an instance that sheds. */
void mr_graph_note_call(mr_graph *graph, mr_instance *instance, int64_t spent_ns);

#endif
