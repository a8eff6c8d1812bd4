/* Queries on a plan's view (millrace/plan.h) for several verbs, and texts for figures. They only read the view: any
 * thread. */
#pragma once

#include "millrace/plan.h"

/* The number of sources whose frames pass a link. */
size_t mr_plan_link_sources(const mr_plan_view *plan, const mr_view_link *edge);
/* The format on a link. */
const mr_format_set *mr_plan_link_set(const mr_plan_view *plan, const mr_view_link *edge);
/* The most bytes in one frame on the link, including tensors among the results; 0: none, or no known bound. */
uint64_t mr_plan_link_bytes(const mr_plan_view *plan, const mr_view_link *edge);
/* Frames a second that the sources offer a vertex; 0: a source's rate is not known. */
double mr_plan_rate(const mr_plan_view *plan, const mr_view_stage *vertex);
/* The number of nodes to print (1 if there are none, or if the plan is for one), and the i-th of them. */
size_t mr_plan_told_nodes(const mr_plan_view *plan);
int mr_plan_told_node(const mr_plan_view *plan, size_t i);
/* Whether the vertex belongs to one of these nodes, and whether the author wrote it. */
bool mr_plan_is_told(const mr_plan_view *plan, const mr_view_stage *vertex);
static inline bool mr_plan_is_authored(const mr_view_stage *stage) {
    return stage->role == MR_VIEW_STAGE || stage->role == MR_VIEW_SOURCE;
}
static inline bool mr_plan_is_copy(const mr_view_stage *stage) {
    return stage->role == MR_VIEW_UPLOAD || stage->role == MR_VIEW_DOWNLOAD || stage->role == MR_VIEW_PEER;
}
/* A stage's devices; the reserve device comes last. */
static inline size_t mr_view_parts(const mr_view_stage *stage) {
    return stage->devices.count + stage->devices.has_reserve;
}
static inline int mr_view_part(const mr_view_stage *stage, size_t part) {
    return part < stage->devices.count ? stage->devices.at[part] : stage->devices.reserve;
}
/* Whether a link lies within a process. A link between a cut's ends is printed as a cut. */
bool mr_plan_is_inner(const mr_plan_view *plan, const mr_view_link *edge);
/* Whether a stage on the node computes there. */
bool mr_plan_node_uses(const mr_plan_view *plan, int node, int device);
/* Whether a stage on that node names the file. */
static inline bool mr_plan_has_file(const mr_plan_view *plan, int node, const mr_view_file *file) {
    return plan->stages[file->stage].node == node;
}
/* Whether a restarted process on that node can continue from where it was. It must read sources or write something, and
 * must be able to continue all of that (flow/resume.h). If `run` itself restarts it, pipes count too. */
bool mr_plan_resumes(const mr_plan_view *plan, int node);

/* Refuses a source that needs a program to push frames, since a run would wait forever: MR_ERROR_USAGE. */
int mr_plan_refuse_external(const mr_plan_view *plan);

/* 1536 -> "1.5 KiB": three digits or whole bytes. Each function writes into `text` and returns it. */
enum { MR_WORDS = 48 };
const char *mr_words_bytes(uint64_t bytes, char text[MR_WORDS]);
/* 29.97 -> "29.97 fps". */
const char *mr_words_rate(double rate, char text[MR_WORDS]);
/* 2500000 -> "2.5 ms": from nanoseconds to hours. */
const char *mr_words_duration(int64_t ns, char text[MR_WORDS]);
