/* Prints a graph as text: a line for each stage, then one for each input. */
#include <string.h>

#include "engine/base/print.h"
#include "millrace/status.h"
#include "tools/millrace/graph/graph_print.h"

/* Whether two edges into a node differ only in the producer. */
static bool are_alike(const mr_chart_edge *a, const mr_chart_edge *b) {
    return strcmp(a->format, b->format) == 0 && strcmp(a->to_name, b->to_name) == 0;
}

static void print_producer(const mr_chart *graph, const mr_chart_edge *edge, FILE *stream) {
    mr_print(stream, "%s%s%s", graph->node[edge->from].name, *edge->from_name ? "." : "", edge->from_name);
}

static void print_inputs(const mr_chart *graph, const mr_chart_node *node, FILE *stream) {
    const mr_chart_edge *edge = &graph->edge[node->first_edge], *end = &graph->edge[node[1].first_edge];
    while (edge < end) {
        const mr_chart_edge *first = edge;
        fputs("  <- ", stream);
        print_producer(graph, edge, stream);
        while (++edge < end && are_alike(first, edge)) {
            fputs(", ", stream);
            print_producer(graph, edge, stream);
        }
        mr_print(stream, "%s%s: %s\n", *first->to_name ? " as " : "", first->to_name, first->format);
    }
}

int mr_chart_text(const mr_chart *graph, FILE *stream) {
    const bool grouped = graph->group_count > 1;
    mr_print(stream, "%s", graph->name);
    if (!grouped)
        mr_print(stream, " (%s)", graph->group[0]);
    fputs("\n\n", stream);
    for (int n = 0; n < graph->node_count; n++) {
        const mr_chart_node *node = &graph->node[n];
        const char *group = grouped ? graph->group[node->group] : "";
        const char *colon = *node->about || *group ? ": " : "", *comma = *node->about && *group ? ", " : "";
        mr_print(stream, "%s%s%s%s%s\n", node->name, colon, node->about, comma, group);
        print_inputs(graph, node, stream);
    }
    return MR_OK;
}
