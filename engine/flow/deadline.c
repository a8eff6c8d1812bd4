/* Deadlines: drops frames that are late, or will be.
 *
 * Pictures and their derivatives are dropped if they are late, or will be at a later stage: to begin them would take
 * the time of those behind, which would be late in turn. Of packets only those are dropped that no other refers to. The
 * others are still decoded, since later pictures need them, and their own pictures are dropped after that; but if such
 * a packet is late by the whole deadline again, all are dropped up to a key frame in time. */
#include "engine/flow/deadline.h"

#include "engine/base/memory.h"
#include "engine/flow/graph.h"

/* The time from the begin of a frame at this stage to its last begin; 0 if not known. */
static int64_t need_ns(const mr_graph *graph, const mr_plan_vertex *vertex) {
    return atomic_load_explicit(&graph->needs[vertex - graph->plan->vertices].ns, memory_order_relaxed);
}

/* Frames dropped on an estimate alone before one is tried: things may have become faster. */
enum { UNTRIED = 8 };

bool mr_deadline_passed(const mr_frame *frame, int64_t now_ns) {
    return frame->deadline_ns && frame->format.payload != MR_PAYLOAD_PACKET &&
           now_ns > frame->deadline_ns;
}

static bool will_be_late(mr_instance *instance, const mr_frame *frame, int64_t now_ns) {
    if (now_ns + need_ns(instance->graph, instance->vertex) <= frame->deadline_ns)
        return false;
    instance->intake.untried = (instance->intake.untried + 1) % (UNTRIED + 1);
    return instance->intake.untried != 0;
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
    return &instance->intake.skipping[low];
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
    if (!frame->deadline_ns)
        return NULL;
    int64_t now = mr_executor_now_ns(task->executor);
    if (frame->format.payload == MR_PAYLOAD_PACKET)
        return late_packet(instance, frame, now);
    return mr_deadline_passed(frame, now) || will_be_late(instance, frame, now) ? "late" : NULL;
}

/* ---- remaining time -------------------------------------------------------------------------------------------- */

/* A stage drops late frames if a stage other than a copy comes behind it: else the work is done, and the frame is
 * delivered, late or not. Vertices are in topological order. */
static bool *find_shedders(const mr_plan *plan) {
    bool *sheds = mr_calloc(plan->vertex_count + 1, sizeof *sheds);
    for (size_t e = plan->edge_count; sheds && e-- > 0;) {
        const mr_view_link *edge = &plan->edges[e];
        sheds[edge->from] |= !plan->vertices[edge->from].copy || sheds[edge->to];
    }
    return sheds;
}

static bool has_deadlines(const mr_plan *plan) {
    if (mr_plan_changes(plan))
        return true; /* One that comes may have one. */
    for (size_t s = 0; s < plan->source_count; s++)
        if (plan->vertices[s].deadline_ns)
            return true;
    return false;
}

/* Lists, for each vertex, the vertices behind it that drop late frames. */
static int list_behind(mr_graph *graph, const bool *sheds) {
    const mr_plan *plan = graph->plan;
    for (size_t e = 0; e < plan->edge_count; e++)
        graph->needs[plan->edges[e].from].count += sheds[plan->edges[e].to];
    for (size_t v = 0; v < plan->vertex_count; v++) {
        mr_need *need = &graph->needs[v];
        if (!(need->behind = mr_calloc(need->count + 1, sizeof *need->behind)))
            return MR_ERROR_MEMORY;
        need->count = 0;
    }
    for (size_t e = 0; e < plan->edge_count; e++) {
        mr_need *need = &graph->needs[plan->edges[e].from];
        if (sheds[plan->edges[e].to])
            need->behind[need->count++] = plan->edges[e].to;
    }
    return MR_OK;
}

int mr_graph_create_needs(mr_graph *graph) {
    const mr_plan *plan = graph->plan;
    if (!has_deadlines(plan))
        return MR_OK;
    bool *sheds = find_shedders(plan);
    graph->needs = mr_calloc(plan->vertex_count, sizeof *graph->needs);
    int status = sheds && graph->needs ? list_behind(graph, sheds) : MR_ERROR_MEMORY;
    for (size_t i = 0; !status && i < graph->instance_count; i++)
        graph->instances[i]->intake.sheds = sheds[graph->instances[i]->vertex - plan->vertices];
    mr_free(sheds);
    return status ? mr_fail(status, "no memory for deadlines") : MR_OK;
}

void mr_graph_note_call(mr_graph *graph, mr_instance *instance, int64_t spent_ns) {
    mr_need *need = &graph->needs[instance->vertex - graph->plan->vertices];
    int64_t behind_ns = 0;
    if (!need->count)
        return;
    int64_t last = atomic_exchange_explicit(&instance->intake.last_ns, spent_ns, memory_order_relaxed);
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
