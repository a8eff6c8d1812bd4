/* Prints all nodes' sources like one process's summary. */
#include "tools/millrace/run/children.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/print.h"
#include "tools/millrace/summary/summary.h"

enum { MOST_SOURCES = 20, MOST_CLASSES = 5, ROOM = 64 };

/* Adds up the best classes from a node's replicas for a source. Each replica reports only the most frequent ones, so
 * the count of a class that is rare in all can be too low. */
typedef struct class_sums {
    uint64_t classified;
    size_t count;
    mr_class_count classes[ROOM];
} class_sums;

static const mr_source_summary *source_of(const mr_child *child, const char *id) {
    for (size_t s = 0; s < child->report.source_count; s++)
        if (strcmp(child->report.sources[s].id, id) == 0)
            return &child->report.sources[s];
    return NULL;
}

static void add_class(class_sums *sums, const mr_class_count *class) {
    size_t at = 0;
    while (at < sums->count && sums->classes[at].index != class->index)
        at++;
    if (at == ROOM || !class->frames)
        return;
    mr_class_count *to = &sums->classes[at];
    if (at == sums->count)
        *to = (mr_class_count){.index = class->index, .label = class->label};
    sums->count += at == sums->count;
    to->mean_score = (to->mean_score * (double)to->frames + class->mean_score * (double)class->frames) /
                     (double)(to->frames + class->frames);
    to->frames += class->frames;
}

static void add_classes(class_sums *sums, const mr_source_summary *source) {
    sums->classified += source->classified;
    for (size_t i = 0; i < source->class_count; i++)
        add_class(sums, &source->classes[i]);
}

static int by_frames(const void *a, const void *b) {
    const mr_class_count *one = a, *other = b;
    return one->frames != other->frames ? (one->frames < other->frames) - (one->frames > other->frames)
                                        : one->index - other->index;
}

/* Sums the replicas of the first node that gets frames with classes: another would count the same frames again. */
static void sum_classes(const mr_child *children, size_t count, const char *id, class_sums *sums) {
    int node = -1;
    *sums = (class_sums){0};
    for (size_t i = 0; i < count; i++) {
        const mr_source_summary *source = node < 0 || node == children[i].node ? source_of(&children[i], id) : NULL;
        if (source)
            add_classes(sums, source);
        if (sums->classified)
            node = children[i].node;
    }
    qsort(sums->classes, sums->count, sizeof sums->classes[0], by_frames);
}

static void print_row(const mr_child *children, size_t count, const mr_source_summary *source, FILE *stream) {
    class_sums sums;
    mr_source_summary row = {.id = source->id, .in = source->in, .delivered = source->delivered};
    sum_classes(children, count, row.id, &sums);
    row.classified = sums.classified;
    row.class_count = sums.count < MOST_CLASSES ? sums.count : MOST_CLASSES;
    memcpy(row.classes, sums.classes, row.class_count * sizeof row.classes[0]);
    mr_source_print(&row, stream);
}

void mr_children_print_sources(const mr_child *children, size_t count, FILE *stream) {
    size_t shown = 0, more = 0;
    for (size_t i = 0; i < count; i++) {
        const mr_summary *report = &children[i].report;
        for (size_t s = 0; s < report->source_count; s++) {
            if (report->sources[s].elsewhere)
                continue;
            if (shown++ < MOST_SOURCES)
                print_row(children, count, &report->sources[s], stream);
            else
                more++;
        }
    }
    if (more)
        mr_print(stream, "\n  and %zu more sources\n", more);
}
