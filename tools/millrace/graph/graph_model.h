/* A plan as a chart: boxes and arrows with texts. graph_print.h writes it.
 *
 * Similar sources (same type, formats, consumers) share one box. All texts are ASCII except the pipeline's name, which
 * is UTF-8 without control characters. A chart owns the texts and does not refer to the plan. */
#pragma once

#include "engine/base/arena.h"
#include "millrace/plan.h"

typedef enum mr_chart_kind { MR_CHART_SOURCE, MR_CHART_STAGE, MR_CHART_SINK, MR_CHART_COPY } mr_chart_kind;

typedef struct mr_chart_node {
    const char *name;  /* the id, or "camera-* (1000 sources)" */
    const char *about; /* a short description in the box: "jsonl, batch 8"; can be empty */
    const char *facts; /* one line each: type, device, threads, batch, ... */
    mr_chart_kind kind;
    int group;      /* the device; with nodes, the node and its device */
    int first_edge; /* the first edge into it; the next node's follow */
} mr_chart_node;

typedef struct mr_chart_edge {
    int from, from_port, to, to_port; /* from < to */
    const char *format;
    const char *from_name, *to_name; /* port names, if a type has several; else empty */
    const char *queue;               /* "queue 4, block"; within a cut "window 16, live" */
} mr_chart_edge;

typedef struct mr_chart {
    const char *name; /* the pipeline's */
    int node_count, edge_count, group_count;
    mr_chart_node *node; /* in topological order; an extra one ends the last one's edges */
    mr_chart_edge *edge; /* by `to` */
    const char **group;  /* group names */
    mr_arena arena;      /* private */
} mr_chart;

/* MR_OK or MR_ERROR_MEMORY. */
int mr_chart_make(mr_chart *graph, const mr_plan_view *plan);
void mr_chart_fini(mr_chart *graph);
