/* A graph in Graphviz's language. */
#include "millrace/status.h"
#include "tools/millrace/graph/graph_print.h"

/* Writes a quoted string: escapes quotes and backslashes, and writes line ends for centred text. */
static void put_text(FILE *stream, const char *text) {
    for (; *text; text++)
        if (*text == '\n')
            fputs("\\n", stream);
        else if (*text == '"' || *text == '\\')
            fprintf(stream, "\\%c", *text);
        else
            fputc(*text, stream);
}

static void put_attribute(FILE *stream, const char *name, const char *text) {
    if (!*text)
        return;
    fprintf(stream, ", %s=\"", name);
    put_text(stream, text);
    fputc('"', stream);
}

static void put_node(const mr_chart_node *node, FILE *stream) {
    static const char *const shape[] = {[MR_CHART_SOURCE] = "fillcolor=\"#e3effb\"",
                                        [MR_CHART_STAGE] = "fillcolor=white",
                                        [MR_CHART_SINK] = "fillcolor=\"#e6f4e6\"",
                                        [MR_CHART_COPY] = "style=dashed, fontsize=10, height=0.3"};
    fputs("    \"", stream);
    put_text(stream, node->name);
    fputs("\" [label=\"", stream);
    put_text(stream, node->name);
    if (*node->about) {
        fputs("\\n", stream);
        put_text(stream, node->about);
    }
    fprintf(stream, "\", %s", shape[node->kind]);
    put_attribute(stream, "tooltip", node->facts);
    fputs("];\n", stream);
}

static void put_edge(const mr_chart *graph, const mr_chart_edge *edge, FILE *stream) {
    fputs("  \"", stream);
    put_text(stream, graph->node[edge->from].name);
    fputs("\" -> \"", stream);
    put_text(stream, graph->node[edge->to].name);
    fputs("\" [label=\"", stream);
    put_text(stream, edge->format);
    fputs("\\n", stream);
    put_text(stream, edge->queue);
    fputc('"', stream);
    put_attribute(stream, "taillabel", edge->from_name);
    put_attribute(stream, "headlabel", edge->to_name);
    fputs("];\n", stream);
}

int mr_chart_dot(const mr_chart *graph, FILE *stream) {
    fputs("digraph \"", stream);
    put_text(stream, graph->name);
    fputs("\" {\n"
          "  rankdir=TB;\n"
          "  graph [fontname=\"sans-serif\", fontsize=10, style=\"rounded,dashed\", color=gray];\n"
          "  node [shape=box, style=\"rounded,filled\", fontname=\"sans-serif\"];\n"
          "  edge [fontname=\"sans-serif\", fontsize=10];\n",
          stream);
    for (int g = 0; g < graph->group_count; g++) {
        fprintf(stream, "  subgraph \"cluster_%d\" {\n    label=\"", g);
        put_text(stream, graph->group[g]);
        fputs("\";\n", stream);
        for (int n = 0; n < graph->node_count; n++)
            if (graph->node[n].group == g)
                put_node(&graph->node[n], stream);
        fputs("  }\n", stream);
    }
    for (int e = 0; e < graph->edge_count; e++)
        put_edge(graph, &graph->edge[e], stream);
    fputs("}\n", stream);
    return MR_OK;
}
