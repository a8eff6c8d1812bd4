/* A graph in the terminal: the widest layout that fits. If none does, lines are replaced by names, the longest first: a
 * box then lists its producers itself. */
#include <string.h>

#include "engine/base/print.h"
#include "millrace/status.h"
#include "tools/millrace/graph/graph.h"
#include "tools/millrace/graph/graph_canvas.h"
#include "tools/millrace/graph/layout.h"

enum { BOX_TEXT = 44, LABEL = 48, BORDERS = 4 };

/* The text of a box, wrapped. */
typedef struct lines {
    char *text; /* one after the other, each with its zero */
    int count, widest;
} lines;

typedef struct drawing {
    const mr_chart *graph;
    const mr_chart_view *view;
    mr_arena arena;
    bool grouped;
    mr_graph_layout layout;
    mr_layout_arrow *arrow; /* one for each edge */
    lines *lines;          /* one for each node */
    int *group_least;      /* room for each device's name in the frame */
} drawing;

static const mr_layout_style cells = {.cell = 1,
                                     .box_gap = 2,
                                     .rail_gap = 1,
                                     .inset = 2,
                                     .end_gap = 4,
                                     .label_gap = 2,
                                     .label_space = 2,
                                     .label_height = 1,
                                     .track = 1,
                                     .channel = 1,
                                     .group_pad = 2,
                                     .group_gap = 1};

/* ---- texts ----------------------------------------------------------------------------------------------------- */

static int label_width(const drawing *d, const char *text) {
    int most = d->view->width - cells.inset - cells.label_gap - cells.label_space,
        length = (int)mr_columns(text, strlen(text));
    most = most > LABEL ? LABEL : most;
    return length < most ? length : most;
}

/* Breaks at blanks, and within words that are longer than a line. */
static int wrap(drawing *d, const char *text, lines *into) {
    int room = d->view->width - BORDERS < BOX_TEXT ? d->view->width - BORDERS : BOX_TEXT;
    size_t length = strlen(text);
    char *at = into->text = mr_arena_alloc(&d->arena, 2 * length + 2);
    if (!at)
        return MR_ERROR_MEMORY;
    while (*text) {
        size_t fits = strcspn(text, "\n"), most = mr_columns_fit(text, fits, (size_t)room);
        if (fits > most) {
            for (fits = most; fits > 0 && text[fits] != ' ';)
                fits--;
            fits = fits ? fits : most;
        }
        int wide = (int)mr_columns(text, fits);
        memcpy(at, text, fits);
        at += fits + 1;
        into->count++;
        into->widest = wide > into->widest ? wide : into->widest;
        text += fits + (text[fits] == ' ' || text[fits] == '\n');
    }
    return MR_OK;
}

/* The producers without a line to this box, a line of text each. */
static const char *taken_by_name(drawing *d, int node) {
    const mr_chart *graph = d->graph;
    const char *text = "";
    for (int e = graph->node[node].first_edge; text && e < graph->node[node + 1].first_edge; e++) {
        const mr_chart_edge *edge = &graph->edge[e];
        if (d->arrow[e].cut)
            text = mr_arena_print(&d->arena, "%s\n<- %s%s%s%s%s: %s", text, graph->node[edge->from].name,
                                  *edge->from_name ? "." : "", edge->from_name, *edge->to_name ? " as " : "",
                                  edge->to_name, edge->format);
    }
    return text;
}

static int write_box(drawing *d, int n) {
    const mr_chart_node *node = &d->graph->node[n];
    bool known = d->grouped || d->graph->group_count == 1 || node->kind == MR_CHART_COPY;
    const char *device = known ? "" : d->graph->group[node->group];
    const char *taken = taken_by_name(d, n);
    if (!taken)
        return MR_ERROR_MEMORY;
    const char *text = mr_arena_print(&d->arena, "%s%s%s%s%s%s", node->name, *node->about || *device ? ": " : "",
                                      node->about, *node->about && *device ? ", " : "", device, taken);
    d->lines[n] = (lines){0};
    if (!text || wrap(d, text, &d->lines[n]))
        return MR_ERROR_MEMORY;
    d->layout.box[n] =
        (mr_layout_box){.least = d->lines[n].widest + BORDERS, .height = d->lines[n].count + 2, .group = node->group};
    return MR_OK;
}

/* ---- fitting --------------------------------------------------------------------------------------------------- */

/* Lays the graph out in `columns` of text a layer (0: any number); 1 if it fits, 0 if not. */
static int try(drawing *d, bool grouped, int columns) {
    mr_layout_style style = cells;
    style.grouped = d->grouped = grouped;
    style.limit = columns;
    style.head = grouped ? 2 : 0;
    style.most = d->view->width;
    style.group_least = d->group_least;
    mr_layout_fini(&d->layout);
    for (int n = 0; n < d->graph->node_count; n++)
        if (write_box(d, n))
            return MR_ERROR_MEMORY;
    int status = mr_layout_make(&d->layout, &style);
    return status ? status : d->layout.width <= d->view->width;
}

static int try_widths(drawing *d) {
    int width = d->view->width, fits = try(d, false, width);
    for (int parts = 2; fits == 0 && parts <= 8; parts *= 2)
        fits = try(d, false, width / parts);
    return fits ? fits : try(d, false, 1);
}

/* Cuts the arrows on those sides of boxes that make the boxes wider than the terminal by themselves. */
static void cut_wide(drawing *d) {
    for (int e = 0; e < d->graph->edge_count; e++)
        if (d->layout.box[d->arrow[e].to].above > d->view->width ||
            d->layout.box[d->arrow[e].from].below > d->view->width)
            d->arrow[e].cut = true;
}

static void cut_long(drawing *d, int most_layers) {
    for (int e = 0; e < d->graph->edge_count; e++) {
        mr_layout_arrow *arrow = &d->arrow[e];
        if (d->layout.box[arrow->to].layer - d->layout.box[arrow->from].layer > most_layers)
            arrow->cut = true;
    }
}

static int fit(drawing *d) {
    int groups = d->graph->group_count, width = d->view->width, fits = 0;
    if (groups > 1) {
        fits = try(d, true, 0);
        int share = (width + cells.group_gap) / groups - cells.group_gap - 2 * cells.group_pad;
        if (fits == 0 && share > 0)
            fits = try(d, true, share);
    }
    fits = fits ? fits : try(d, false, 0);
    fits = fits ? fits : try_widths(d);
    if (fits == 0) {
        cut_wide(d);
        fits = try_widths(d);
    }
    for (int most = 16; fits == 0 && most > 0; most /= 2) {
        cut_long(d, most);
        fits = try_widths(d);
    }
    if (fits == 0) {
        cut_long(d, 0);
        fits = try_widths(d);
    }
    return fits;
}

/* ---- drawing --------------------------------------------------------------------------------------------------- */

static void draw_boxes(const drawing *d, mr_canvas *canvas) {
    for (int n = 0; n < d->graph->node_count; n++) {
        const mr_layout_box *box = &d->layout.box[n];
        const char *text = d->lines[n].text;
        mr_canvas_box(canvas, box->x, box->y, box->width, box->height, d->graph->node[n].kind == MR_CHART_COPY);
        for (int i = 0; i < d->lines[n].count; i++, text += strlen(text) + 1)
            mr_canvas_text(canvas, box->x + 2, box->y + 1 + i, text, box->width - BORDERS);
    }
}

static void draw_ends(const drawing *d, mr_canvas *canvas) {
    for (int i = 0; i < d->layout.end_count; i++) {
        const mr_layout_end *end = &d->layout.end[i];
        const mr_chart_edge *edge = &d->graph->edge[end->arrow];
        mr_canvas_end(canvas, end->x, end->y, end->arrives);
        if (end->label)
            mr_canvas_text(canvas, end->x + cells.label_gap, end->label_y, end->arrives ? edge->to_name : edge->label,
                           end->label);
    }
}

static int draw(const drawing *d, FILE *stream) {
    mr_canvas canvas;
    const mr_graph_layout *layout = &d->layout;
    if (mr_canvas_init(&canvas, layout->width, layout->height + d->grouped, d->view->ascii))
        return MR_ERROR_MEMORY;
    for (int g = 0; d->grouped && g < d->graph->group_count; g++)
        mr_canvas_frame(&canvas, layout->group[g].x, 0, layout->group[g].width, layout->height + 1, d->graph->group[g]);
    for (int i = 0; i < layout->line_count; i++) {
        const mr_layout_line *line = &layout->line[i];
        mr_canvas_line(&canvas, line->net, line->x0, line->y0, line->x1, line->y1);
    }
    draw_boxes(d, &canvas);
    draw_ends(d, &canvas);
    mr_canvas_print(&canvas, stream);
    mr_canvas_fini(&canvas);
    return MR_OK;
}

/* As much of the name as fits; characters beyond ASCII may be two columns wide. */
static void print_name(const mr_chart *graph, const mr_chart_view *view, FILE *stream) {
    int column = 0;
    for (const char *at = graph->name; *at;) {
        bool wide = (unsigned char)*at >= 0x80;
        size_t bytes = 1;
        while (((unsigned char)at[bytes] & 0xc0) == 0x80)
            bytes++;
        column += wide ? 2 : 1;
        if (column > view->width)
            break;
        if (wide && view->ascii)
            fputc('?', stream);
        else
            fwrite(at, 1, bytes, stream);
        at += bytes;
    }
    const char *device = graph->group[0];
    if (graph->group_count == 1 && column + (int)mr_columns(device, strlen(device)) + 5 <= view->width)
        mr_print(stream, " (%s)", device);
    fputs("\n\n", stream);
}

static int prepare(drawing *d) {
    const mr_chart *graph = d->graph;
    d->layout.box_count = graph->node_count;
    d->layout.arrow_count = graph->edge_count;
    d->layout.group_count = graph->group_count;
    d->layout.box = mr_arena_array(&d->arena, (size_t)graph->node_count, sizeof *d->layout.box);
    d->lines = mr_arena_array(&d->arena, (size_t)graph->node_count, sizeof *d->lines);
    d->layout.arrow = d->arrow = mr_arena_array(&d->arena, (size_t)graph->edge_count, sizeof *d->arrow);
    d->group_least = mr_arena_array(&d->arena, (size_t)graph->group_count, sizeof *d->group_least);
    if (!d->layout.box || !d->lines || !d->arrow || !d->group_least)
        return MR_ERROR_MEMORY;
    for (int g = 0; g < graph->group_count; g++)
        d->group_least[g] = (int)strlen(graph->group[g]) + 2;
    for (int e = 0; e < graph->edge_count; e++) {
        const mr_chart_edge *edge = &graph->edge[e];
        d->arrow[e] = (mr_layout_arrow){.from = edge->from,
                                       .from_port = edge->from_port,
                                       .to = edge->to,
                                       .to_port = edge->to_port,
                                       .from_label = label_width(d, edge->label),
                                       .to_label = label_width(d, edge->to_name)};
    }
    return MR_OK;
}

int mr_chart_text(const mr_chart *graph, const mr_chart_view *view, FILE *stream) {
    drawing d = {.graph = graph, .view = view};
    int status = prepare(&d);
    if (!status)
        status = fit(&d);
    if (status >= 0) {
        print_name(graph, view, stream);
        status = draw(&d, stream);
    }
    mr_layout_fini(&d.layout);
    mr_arena_fini(&d.arena);
    return status < 0 ? status : MR_OK;
}
