/* A graph as SVG: the layout's boxes, lines and texts, a group for each device. Widths of texts are estimated for a
 * monospaced font, with letters at most 0.62 of its size wide. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/print.h"
#include "millrace/status.h"
#include "tools/millrace/graph/graph.h"
#include "tools/millrace/graph/layout.h"

enum { FONT = 13, SMALL = 11, PAD = 10, MARGIN = 12, LINE = 16, CORNER = 2, ROUND = 8, LIMIT = 960 };

typedef struct picture {
    const mr_chart *graph;
    FILE *stream;
    mr_arena arena;
    mr_graph_layout layout;
    mr_layout_arrow *arrow; /* one for each edge */
    int *group_least;      /* widths of devices' names */
} picture;

static const mr_layout_style pixels = {.box_gap = 24,
                                      .rail_gap = 10,
                                      .inset = 20,
                                      .end_gap = 28,
                                      .label_gap = 7,
                                      .label_space = 14,
                                      .label_height = 18,
                                      .track = 10,
                                      .arrow = 12,
                                      .channel = 22,
                                      .head = 30,
                                      .group_pad = 14,
                                      .group_gap = 14,
                                      .grouped = true,
                                      .limit = LIMIT};

static const char look[] =
    "  <style>\n"
    "    svg { background: #ffffff; color: #1b1f24; font-family: ui-monospace, Menlo, Consolas, monospace; }\n"
    "    text { fill: currentColor; }\n"
    "    .page { fill: #ffffff; }\n"
    "    .device { fill: #f3f5f8; stroke: #b6bec9; stroke-dasharray: 4 3; }\n"
    "    .box { fill: #ffffff; stroke: currentColor; }\n"
    "    .source .box { fill: #e3effb; }\n"
    "    .sink .box { fill: #e6f4e6; }\n"
    "    .copy .box { stroke-dasharray: 3 2; }\n"
    "    .net { fill: none; stroke: #5a6675; stroke-width: 1.4; }\n"
    "    .head, .joint { fill: #5a6675; }\n"
    "    .small { opacity: 0.75; }\n"
    "    @media (prefers-color-scheme: dark) {\n"
    "      svg { background: #15191e; color: #e4e8ed; }\n"
    "      .page { fill: #15191e; }\n"
    "      .device { fill: #1d232b; stroke: #4b5666; }\n"
    "      .box { fill: #262e38; }\n"
    "      .source .box { fill: #1c3650; }\n"
    "      .sink .box { fill: #1e3b25; }\n"
    "      .net { stroke: #9aa7b8; }\n"
    "      .head, .joint { fill: #9aa7b8; }\n"
    "    }\n"
    "  </style>\n";

/* ---- texts ----------------------------------------------------------------------------------------------------- */

static int text_width(const char *text, int size) {
    return (int)((mr_columns(text, strlen(text)) * (size_t)size * 62 + 99) / 100);
}

static void put_escaped(FILE *stream, const char *text) {
    for (; *text; text++)
        switch (*text) {
        case '&':
            fputs("&amp;", stream);
            break;
        case '<':
            fputs("&lt;", stream);
            break;
        case '>':
            fputs("&gt;", stream);
            break;
        case '"':
            fputs("&quot;", stream);
            break;
        default:
            fputc(*text, stream);
        }
}

static void put_text(FILE *stream, int x, int y, int size, const char *class, const char *text) {
    fprintf(stream, "<text x=\"%d\" y=\"%d\" font-size=\"%d\"%s>", x, y, size, class);
    put_escaped(stream, text);
    fputs("</text>\n", stream);
}

static void put_rectangle(FILE *stream, const char *class, int x, int y, int width, int height, int round) {
    fprintf(stream, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"%d\"/>\n", class, x, y,
            width, height, round);
}

/* ---- parts ----------------------------------------------------------------------------------------------------- */

static void put_node(const picture *p, int n) {
    static const char *const kind[] = {
        [MR_CHART_SOURCE] = "source", [MR_CHART_STAGE] = "stage", [MR_CHART_SINK] = "sink", [MR_CHART_COPY] = "copy"};
    const mr_chart_node *node = &p->graph->node[n];
    const mr_layout_box *box = &p->layout.box[n];
    fprintf(p->stream, "    <g class=\"node %s\">\n      <title>", kind[node->kind]);
    put_escaped(p->stream, node->name);
    fputc('\n', p->stream);
    put_escaped(p->stream, node->facts);
    fputs("</title>\n      ", p->stream);
    put_rectangle(p->stream, "box", box->x, box->y, box->width, box->height,
                  node->kind == MR_CHART_STAGE ? CORNER : ROUND);
    fputs("      ", p->stream);
    /* The name of a copy is left out: its arrows tell the same. */
    bool named = node->kind != MR_CHART_COPY;
    if (named)
        put_text(p->stream, box->x + PAD, box->y + PAD + FONT - 2, FONT, "", node->name);
    if (*node->about) {
        fputs(named ? "      " : "", p->stream);
        put_text(p->stream, box->x + PAD, box->y + box->height - PAD, SMALL, " class=\"small\"", node->about);
    }
    fputs("    </g>\n", p->stream);
}

static void put_device(const picture *p, int g) {
    const mr_layout_range *range = &p->layout.group[g];
    fputs("  <g class=\"cluster\">\n    <title>", p->stream);
    put_escaped(p->stream, p->graph->group[g]);
    fputs("</title>\n    ", p->stream);
    put_rectangle(p->stream, "device", range->x, 0, range->width, p->layout.height + pixels.group_pad, ROUND);
    fputs("    ", p->stream);
    put_text(p->stream, range->x + PAD, 20, SMALL, " class=\"small\"", p->graph->group[g]);
    fputs("  </g>\n", p->stream);
}

static void put_edge_title(const picture *p, const mr_chart_edge *edge) {
    const mr_chart_node *node = p->graph->node;
    put_escaped(p->stream, node[edge->from].name);
    fprintf(p->stream, "%s%s -&gt; ", *edge->from_name ? "." : "", edge->from_name);
    put_escaped(p->stream, node[edge->to].name);
    fprintf(p->stream, "%s%s: ", *edge->to_name ? "." : "", edge->to_name);
    put_escaped(p->stream, edge->format);
    fprintf(p->stream, "; %s\n", edge->queue);
}

/* One net as a path, with its edges in the title. Edges and lines are sorted by net: these ranges are
 * the net's. */
static void put_net(const picture *p, const int *edge, const int *edges_end, const mr_layout_line *line,
                    const mr_layout_line *lines_end) {
    fputs("  <g class=\"link\">\n    <title>", p->stream);
    for (; edge < edges_end; edge++)
        put_edge_title(p, &p->graph->edge[*edge]);
    fputs("</title>\n    <path class=\"net\" d=\"", p->stream);
    for (; line < lines_end; line++)
        fprintf(p->stream, "M%d %dL%d %d", line->x0, line->y0, line->x1, line->y1);
    fputs("\"/>\n  </g>\n", p->stream);
}

static int by_net(const void *left, const void *right) {
    const mr_layout_line *a = left, *b = right;
    if (a->net != b->net)
        return a->net < b->net ? -1 : 1;
    if (a->y0 != b->y0)
        return a->y0 < b->y0 ? -1 : 1;
    return a->x0 != b->x0 ? (a->x0 < b->x0 ? -1 : 1) : (a->x1 > b->x1) - (a->x1 < b->x1);
}

/* Sorts the edges by net: those of net n stand from start[n] on. */
static int sort_edges(picture *p, int **start, int **sorted) {
    const mr_graph_layout *layout = &p->layout;
    *start = mr_arena_array(&p->arena, (size_t)layout->net_count + 2, sizeof **start);
    *sorted = mr_arena_array(&p->arena, (size_t)layout->arrow_count, sizeof **sorted);
    if (!*start || !*sorted)
        return MR_ERROR_MEMORY;
    for (int e = 0; e < layout->arrow_count; e++)
        if (layout->net_of[e] >= 0)
            (*start)[layout->net_of[e] + 2]++;
    for (int n = 0; n < layout->net_count; n++)
        (*start)[n + 2] += (*start)[n + 1];
    for (int e = 0; e < layout->arrow_count; e++)
        if (layout->net_of[e] >= 0)
            (*sorted)[(*start)[layout->net_of[e] + 1]++] = e;
    return MR_OK;
}

static int put_nets(picture *p) {
    const mr_graph_layout *layout = &p->layout;
    int *start, *sorted, line = 0;
    if (sort_edges(p, &start, &sorted))
        return MR_ERROR_MEMORY;
    qsort(layout->line, (size_t)layout->line_count, sizeof *layout->line, by_net);
    for (int n = 0; n < layout->net_count; n++) {
        int first = line;
        while (line < layout->line_count && layout->line[line].net == n)
            line++;
        put_net(p, &sorted[start[n]], &sorted[start[n + 1]], &layout->line[first], &layout->line[line]);
    }
    for (int i = 0; i < layout->joint_count; i++)
        fprintf(p->stream, "  <circle class=\"joint\" cx=\"%d\" cy=\"%d\" r=\"2.5\"/>\n", layout->joint[i].x,
                layout->joint[i].y);
    return MR_OK;
}

static void put_ends(const picture *p) {
    for (int i = 0; i < p->layout.end_count; i++) {
        const mr_layout_end *end = &p->layout.end[i];
        const mr_chart_edge *edge = &p->graph->edge[end->arrow];
        const char *text = end->arrives ? edge->to_name : edge->label;
        if (end->arrives)
            fprintf(p->stream, "  <path class=\"head\" d=\"M%d %dl-4 -8h8z\"/>\n", end->x, end->y);
        if (*text) {
            fputs("  ", p->stream);
            put_text(p->stream, end->x + pixels.label_gap, end->label_y + 13, SMALL, "", text);
        }
    }
}

/* ---- together -------------------------------------------------------------------------------------------------- */

static int prepare(picture *p) {
    const mr_chart *graph = p->graph;
    p->layout.box_count = graph->node_count;
    p->layout.arrow_count = graph->edge_count;
    p->layout.group_count = graph->group_count;
    p->layout.box = mr_arena_array(&p->arena, (size_t)graph->node_count, sizeof *p->layout.box);
    p->layout.arrow = p->arrow = mr_arena_array(&p->arena, (size_t)graph->edge_count, sizeof *p->arrow);
    p->group_least = mr_arena_array(&p->arena, (size_t)graph->group_count, sizeof *p->group_least);
    if (!p->layout.box || !p->arrow || !p->group_least)
        return MR_ERROR_MEMORY;
    for (int g = 0; g < graph->group_count; g++)
        p->group_least[g] = text_width(graph->group[g], SMALL);
    for (int n = 0; n < graph->node_count; n++) {
        const mr_chart_node *node = &graph->node[n];
        bool named = node->kind != MR_CHART_COPY;
        int name = named ? text_width(node->name, FONT) : 0, about = text_width(node->about, SMALL);
        int lines = (named ? LINE : 0) + (*node->about ? LINE : 0);
        p->layout.box[n] = (mr_layout_box){
            .least = (name > about ? name : about) + 2 * PAD, .height = 2 * PAD + lines - 2, .group = node->group};
    }
    for (int e = 0; e < graph->edge_count; e++) {
        const mr_chart_edge *edge = &graph->edge[e];
        p->arrow[e] = (mr_layout_arrow){.from = edge->from,
                                       .from_port = edge->from_port,
                                       .to = edge->to,
                                       .to_port = edge->to_port,
                                       .from_label = text_width(edge->label, SMALL),
                                       .to_label = text_width(edge->to_name, SMALL)};
    }
    return MR_OK;
}

static int put_picture(picture *p) {
    int width = p->layout.width + 2 * MARGIN, height = p->layout.height + pixels.group_pad + 2 * MARGIN;
    fprintf(p->stream,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"%d %d %d %d\" "
            "role=\"img\">\n  <title>",
            width, height, -MARGIN, -MARGIN, width, height);
    put_escaped(p->stream, p->graph->name);
    fprintf(p->stream, "</title>\n%s  ", look);
    put_rectangle(p->stream, "page", -MARGIN, -MARGIN, width, height, 0);
    for (int g = 0; g < p->graph->group_count; g++)
        put_device(p, g);
    int status = put_nets(p);
    put_ends(p);
    fputs("  <g>\n", p->stream);
    for (int n = 0; n < p->graph->node_count; n++)
        put_node(p, n);
    fputs("  </g>\n</svg>\n", p->stream);
    return status;
}

int mr_chart_svg(const mr_chart *graph, FILE *stream) {
    picture p = {.graph = graph, .stream = stream};
    mr_layout_style style = pixels;
    int status = prepare(&p);
    style.group_least = p.group_least;
    if (!status)
        status = mr_layout_make(&p.layout, &style);
    if (!status)
        status = put_picture(&p);
    mr_layout_fini(&p.layout);
    mr_arena_fini(&p.arena);
    return status;
}
