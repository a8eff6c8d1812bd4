/* Deadlines: which frames are dropped because they are late, or will be.
 *
 * Pictures and what is made of them go where they are late, or will be at a later stage: begun nevertheless, they
 * would take the time of those behind them, which would be late in turn. Of packets only those go that no other
 * refers to: the others are still decoded, since what follows is made of them, and their pictures go behind that;
 * but where even such a packet is late by the whole deadline again, all go up to a key frame in time. */
#include "engine/base/memory.h"
#include "engine/flow/graph.h"
#include "engine/flow/instance.h"

/* What a frame that is begun at this stage now still needs until its last begin; 0 where that is not known. */
static int64_t need_ns(const mr_graph *graph, const mr_plan_vertex *vertex) {
    if (!graph->needs)
        return 0;
    return atomic_load_explicit(&graph->needs[vertex - graph->plan->vertices].ns, memory_order_relaxed);
}

/* So many frames are dropped on an estimate alone before one is tried: things may have become faster. */
enum { UNTRIED = 8 };

bool mr_deadline_passed(const mr_instance *instance, const mr_frame *frame, int64_t now_ns) {
    return frame->deadline_ns && instance->sheds && frame->format.payload != MR_PAYLOAD_PACKET &&
           now_ns > frame->deadline_ns;
}

static bool will_be_late(mr_instance *instance, const mr_frame *frame, int64_t now_ns) {
    if (now_ns + need_ns(instance->graph, instance->vertex) <= frame->deadline_ns)
        return false;
    instance->untried = (instance->untried + 1) % (UNTRIED + 1);
    return instance->untried != 0;
}

/* Whether packets of that source are passed over. */
static bool *skipping(mr_instance *instance, uint32_t source) {
    const uint32_t *sources = instance->vertex->sources;
    size_t low = 0, high = instance->self.source == MR_SOURCE_NONE ? instance->vertex->source_count : 1;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (sources[middle] <= source)
            low = middle;
        else
            high = middle;
    }
    return &instance->skipping[low];
}

static const char *late_packet(mr_instance *instance, const mr_frame *packet, int64_t now_ns) {
    bool *skips = skipping(instance, packet->identity.source);
    int64_t late_ns = now_ns - packet->deadline_ns;
    if (*skips && packet->flags & MR_FRAME_KEY && late_ns <= 0)
        *skips = false;
    if (*skips)
        return "gop";
    if (late_ns <= 0)
        return NULL;
    if (packet->flags & MR_FRAME_DISPOSABLE || (packet->media && packet->media->still))
        return "late";
    *skips = late_ns > instance->graph->plan->vertices[packet->identity.source].deadline_ns;
    return *skips ? "late" : NULL;
}

const char *mr_deadline_refusal(mr_instance *instance, const mr_frame *frame, const mr_task *task) {
    if (!frame->deadline_ns || !instance->sheds)
        return NULL;
    int64_t now = mr_executor_now_ns(task->executor);
    if (frame->format.payload == MR_PAYLOAD_PACKET)
        return late_packet(instance, frame, now);
    return mr_deadline_passed(instance, frame, now) || will_be_late(instance, frame, now) ? "late" : NULL;
}

/* ---- how long it still takes ----------------------------------------------------------------------------------- */

/* A stage drops what is late if anything comes behind it: else the work is done, and the frame is delivered, late
 * or not. */
static bool sheds(const mr_graph *graph, int v) {
    for (size_t port = 0; port < graph->plan->vertices[v].output_count; port++)
        if (graph->routes[v][port].consumer_count > 0)
            return true;
    return false;
}

static bool has_deadlines(const mr_plan *plan) {
    for (size_t s = 0; s < plan->source_count; s++)
        if (plan->vertices[s].deadline_ns)
            return true;
    return false;
}

int mr_graph_create_needs(mr_graph *graph) {
    const mr_plan *plan = graph->plan;
    for (size_t i = 0; i < graph->instance_count; i++)
        graph->instances[i]->sheds = sheds(graph, (int)(graph->instances[i]->vertex - plan->vertices));
    if (!has_deadlines(plan))
        return MR_OK;
    graph->needs = mr_calloc(plan->vertex_count, sizeof *graph->needs);
    for (size_t e = 0; graph->needs && e < plan->edge_count; e++)
        graph->needs[plan->edges[e].from].count += sheds(graph, plan->edges[e].to);
    for (size_t v = 0; graph->needs && v < plan->vertex_count; v++) {
        mr_need *need = &graph->needs[v];
        if (!(need->behind = mr_calloc(need->count + 1, sizeof *need->behind)))
            return mr_fail(MR_ERROR_MEMORY, "no memory for deadlines");
        need->count = 0;
    }
    for (size_t e = 0; graph->needs && e < plan->edge_count; e++) {
        mr_need *need = &graph->needs[plan->edges[e].from];
        if (sheds(graph, plan->edges[e].to))
            need->behind[need->count++] = plan->edges[e].to;
    }
    return graph->needs ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for deadlines");
}

void mr_graph_note_call(mr_graph *graph, mr_instance *instance, int64_t spent_ns) {
    mr_need *need = graph->needs ? &graph->needs[instance->vertex - graph->plan->vertices] : NULL;
    int64_t behind_ns = 0;
    if (!need || !need->count)
        return;
    int64_t last = atomic_exchange_explicit(&instance->last_ns, spent_ns, memory_order_relaxed);
    for (size_t i = 0; i < need->count; i++) {
        int64_t ns = atomic_load_explicit(&graph->needs[need->behind[i]].ns, memory_order_relaxed);
        behind_ns = ns > behind_ns ? ns : behind_ns;
    }
    atomic_store_explicit(&need->ns, (last < spent_ns ? last : spent_ns) + behind_ns, memory_order_relaxed);
}

void mr_graph_destroy_needs(mr_graph *graph) {
    for (size_t v = 0; graph->needs && v < graph->plan->vertex_count; v++)
        mr_free(graph->needs[v].behind);
    mr_free(graph->needs);
}
