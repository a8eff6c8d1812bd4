#include "engine/flow/run/deliveries.h"

#include "engine/base/memory.h"
#include "engine/flow/run/source_counts.h"

typedef struct subscription {
    mr_frame_function *function;
    void *context;
} subscription;

struct mr_deliveries {
    _Atomic int vertex;             /* the sink whose classes are tallied: the first that delivers any; -1: none yet */
    _Atomic int64_t first_ns;       /* when the first frame was delivered; 0: not yet */
    mr_histogram latency;           /* from source to sink; all threads add */
    subscription subscriptions[];  /* by vertex */
};

int mr_deliveries_create(mr_deliveries **deliveries, const mr_plan *plan) {
    mr_deliveries *made = mr_calloc(1, sizeof *made + plan->vertex_count * sizeof *made->subscriptions);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the graph");
    atomic_init(&made->vertex, -1);
    *deliveries = made;
    return MR_OK;
}

void mr_deliveries_destroy(mr_deliveries **deliveries) {
    mr_free(*deliveries);
    *deliveries = NULL;
}

static bool is_tallied(mr_deliveries *deliveries, int vertex) {
    int first = atomic_load_explicit(&deliveries->vertex, memory_order_relaxed);
    if (first < 0 && atomic_compare_exchange_strong(&deliveries->vertex, &first, vertex))
        return true;
    return first == vertex;
}

void mr_deliver(const mr_run *run, const mr_plan_vertex *stage, const mr_frame *frame, int64_t now_ns) {
    mr_deliveries *deliveries = run->deliveries;
    const mr_result *classes = frame->results ? mr_frame_result(frame, mr_kind_classes(), NULL) : NULL;
    int64_t none = 0;
    mr_receipt_note(frame->receipt, MR_NOTE_DELIVERED, NULL, NULL);
    if (frame->identity.sub) /* an object; frames are counted here */
        return;
    mr_histogram_add_shared(&deliveries->latency, now_ns - frame->born_ns);
    if (!atomic_load_explicit(&deliveries->first_ns, memory_order_relaxed))
        atomic_compare_exchange_strong(&deliveries->first_ns, &none, now_ns);
    if (classes && is_tallied(deliveries, (int)(stage - run->plan->vertices)))
        mr_source_tally(run->counts, frame, classes);
}

void mr_deliveries_subscribe(const mr_run *run, const mr_plan_vertex *stage, mr_frame_function *function,
                             void *context) {
    run->deliveries->subscriptions[stage - run->plan->vertices] = (subscription){function, context};
}

bool mr_deliveries_are_watched(const mr_run *run) {
    for (size_t v = 0; v < run->plan->vertex_count; v++)
        if (run->deliveries->subscriptions[v].function)
            return true;
    return false;
}

void mr_deliveries_show(const mr_run *run, const mr_plan_vertex *stage, const mr_frame *frame) {
    const subscription *to = &run->deliveries->subscriptions[stage - run->plan->vertices];
    if (to->function)
        to->function(to->context, run->plan->vertices[frame->identity.source].id, frame);
}

int64_t mr_deliveries_read(const mr_run *run, mr_histogram_sums *latency) {
    mr_histogram_sum(&run->deliveries->latency, latency);
    return atomic_load(&run->deliveries->first_ns);
}
