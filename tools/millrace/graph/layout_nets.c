/* From arrows to nets: all output ports that have the same consumers are one net. */
#include <stdlib.h>

#include "millrace/status.h"
#include "tools/millrace/graph/layout_parts.h"

typedef const mr_layout_arrow *arrow_ref;

/* An output port with its arrows, which are sorted by consumer. */
typedef struct port {
    const arrow_ref *arrow;
    int count;
} port;

#define COMPARE(a, b) (((a) > (b)) - ((a) < (b)))

static int by_consumer(const mr_layout_arrow *a, const mr_layout_arrow *b) {
    return a->to != b->to ? COMPARE(a->to, b->to) : COMPARE(a->to_port, b->to_port);
}

static int by_producer(const void *left, const void *right) {
    arrow_ref a = *(const arrow_ref *)left, b = *(const arrow_ref *)right;
    if (a->from != b->from)
        return COMPARE(a->from, b->from);
    return a->from_port != b->from_port ? COMPARE(a->from_port, b->from_port) : by_consumer(a, b);
}

static int by_consumers(const port *a, const port *b) {
    for (int i = 0; i < a->count && i < b->count; i++) {
        int order = by_consumer(a->arrow[i], b->arrow[i]);
        if (order)
            return order;
    }
    return COMPARE(a->count, b->count);
}

static int by_net(const void *left, const void *right) {
    const port *a = left, *b = right;
    int order = by_consumers(a, b);
    return order ? order : by_producer(a->arrow, b->arrow);
}

/* The arrows that are drawn, sorted, each once. */
static int drawn(mr_layout_work *w, arrow_ref **arrows) {
    const mr_graph_layout *layout = w->layout;
    int count = 0, kept = 0;
    arrow_ref *list = mr_arena_array(w->arena, (size_t)layout->arrow_count, sizeof *list);
    if (!list)
        return MR_ERROR_MEMORY;
    for (int i = 0; i < layout->arrow_count; i++)
        if (!layout->arrow[i].cut)
            list[count++] = &layout->arrow[i];
    qsort(list, (size_t)count, sizeof *list, by_producer);
    for (int i = 0; i < count; i++)
        if (i == 0 || by_producer(&list[i], &list[kept - 1]) != 0)
            list[kept++] = list[i];
    *arrows = list;
    return kept;
}

static int list_ports(mr_layout_work *w, const arrow_ref *arrow, int count, port **ports) {
    port *list = mr_arena_array(w->arena, (size_t)count, sizeof *list);
    int found = 0;
    if (!list)
        return MR_ERROR_MEMORY;
    for (int i = 0; i < count; i++) {
        arrow_ref before = i ? arrow[i - 1] : NULL;
        if (!before || before->from != arrow[i]->from || before->from_port != arrow[i]->from_port)
            list[found++].arrow = &arrow[i];
        list[found - 1].count++;
    }
    qsort(list, (size_t)found, sizeof *list, by_net);
    *ports = list;
    return found;
}

static void add_end(mr_graph_layout *layout, arrow_ref arrow, int net, bool arrives) {
    layout->end[layout->end_count++] = (mr_layout_end){.box = arrives ? arrow->to : arrow->from,
                                                    .port = arrives ? arrow->to_port : arrow->from_port,
                                                    .net = net,
                                                    .arrow = (int)(arrow - layout->arrow),
                                                    .label = arrives ? arrow->to_label : arrow->from_label,
                                                    .arrives = arrives};
}

int mr_layout_find_nets(mr_layout_work *w) {
    mr_graph_layout *layout = w->layout;
    arrow_ref *arrows = NULL;
    port *ports = NULL;
    int arrow_count = drawn(w, &arrows);
    int port_count = arrow_count < 0 ? arrow_count : list_ports(w, arrows, arrow_count, &ports);
    if (port_count < 0)
        return port_count;
    layout->end = mr_arena_array(w->arena, (size_t)(port_count + arrow_count), sizeof *layout->end);
    layout->net_of = mr_arena_array(w->arena, (size_t)layout->arrow_count, sizeof *layout->net_of);
    w->net = mr_arena_array(w->arena, (size_t)port_count, sizeof *w->net);
    if (!layout->end || !layout->net_of || !w->net)
        return MR_ERROR_MEMORY;
    for (int i = 0; i < layout->arrow_count; i++)
        layout->net_of[i] = -1;
    for (int i = 0; i < port_count; i++) {
        bool first = i == 0 || by_consumers(&ports[i], &ports[i - 1]) != 0;
        layout->net_count += first;
        for (int c = 0; first && c < ports[i].count; c++)
            add_end(layout, ports[i].arrow[c], layout->net_count - 1, true);
        add_end(layout, ports[i].arrow[0], layout->net_count - 1, false);
        for (int c = 0; c < ports[i].count; c++)
            layout->net_of[ports[i].arrow[c] - layout->arrow] = layout->net_count - 1;
    }
    return MR_OK;
}
