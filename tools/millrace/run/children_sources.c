/* The sources of all nodes, as rows of the summary of one process. */
#include "tools/millrace/run/children_sources.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/print.h"
#include "tools/millrace/run/summary.h"

enum { MOST_SOURCES = 20, MOST_CLASSES = 5, ROOM = 64 };

/* The best classes that the replicas of one node have counted for a source. Each tells of its most frequent ones only,
 * so a class that is rare in all of them may be counted short. */
typedef struct class_sums {
    uint64_t classified;
    size_t count;
    mr_class_count classes[ROOM];
} class_sums;

static yajl_val source_of(const mr_child *child, const char *id) {
    size_t sources;
    yajl_val *source = mr_report_array(child->report, "sources", &sources);
    for (size_t s = 0; s < sources; s++)
        if (strcmp(mr_report_text(source[s], "id"), id) == 0)
            return source[s];
    return NULL;
}

static void add_class(class_sums *sums, yajl_val class) {
    const int32_t index = (int32_t)mr_report_integer(class, "index");
    const uint64_t frames = (uint64_t)mr_report_integer(class, "frames");
    const double score = mr_report_number(class, "mean_score");
    const char *label = mr_report_text(class, "label");
    size_t at = 0;
    while (at < sums->count && sums->classes[at].index != index)
        at++;
    if (at == ROOM || !frames)
        return;
    mr_class_count *to = &sums->classes[at];
    if (at == sums->count)
        *to = (mr_class_count){.index = index, .label = *label ? label : NULL};
    sums->count += at == sums->count;
    to->mean_score = (to->mean_score * (double)to->frames + score * (double)frames) / (double)(to->frames + frames);
    to->frames += frames;
}

static void add_classes(class_sums *sums, yajl_val source) {
    size_t count;
    yajl_val *class = mr_report_array(source, "classes", &count);
    sums->classified += (uint64_t)mr_report_integer(source, "classified");
    for (size_t i = 0; i < count; i++)
        add_class(sums, class[i]);
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
        yajl_val source = node < 0 || node == children[i].node ? source_of(&children[i], id) : NULL;
        if (source)
            add_classes(sums, source);
        if (sums->classified)
            node = children[i].node;
    }
    qsort(sums->classes, sums->count, sizeof sums->classes[0], by_frames);
}

static void print_row(const mr_child *children, size_t count, const mr_child *child, yajl_val source, FILE *stream) {
    const mr_tally_of_nodes tally = mr_child_tally(child, source);
    class_sums sums;
    mr_source_summary row = {.id = mr_report_text(source, "id"),
                             .in = tally.in,
                             .delivered = tally.delivered};
    sum_classes(children, count, row.id, &sums);
    row.classified = sums.classified;
    row.class_count = sums.count < MOST_CLASSES ? sums.count : MOST_CLASSES;
    memcpy(row.classes, sums.classes, row.class_count * sizeof row.classes[0]);
    mr_source_print(&row, NULL, stream);
}

void mr_children_print_sources(const mr_child *children, size_t count, FILE *stream) {
    size_t shown = 0, more = 0;
    for (size_t i = 0; i < count; i++) {
        size_t sources;
        yajl_val *source = mr_report_array(children[i].report, "sources", &sources);
        for (size_t s = 0; s < sources; s++) {
            if (mr_report_true(source[s], "elsewhere"))
                continue;
            if (shown++ < MOST_SOURCES)
                print_row(children, count, &children[i], source[s], stream);
            else
                more++;
        }
    }
    if (more)
        mr_print(stream, "\n  and %zu more sources\n", more);
}
