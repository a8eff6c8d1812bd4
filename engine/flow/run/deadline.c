/* Deadlines: drops frames that are late or will be.
 *
 * Pictures and what derives from them are dropped if they are late, or will be late at a later stage: processing them
 * would also delay the frames after them. Packets are dropped only if no other packet needs them. Other packets must be
 * decoded, since later pictures need them; their own pictures are dropped afterwards. If such a packet is late by
 * another whole deadline, all packets up to a key frame in time are dropped. */
#include "engine/flow/run/deadline.h"

#include "engine/base/memory.h"

/* How long a frame needs from this vertex's start to the start at the last shedding stage, counting each vertex's
 * shorter of the last two calls. */
typedef struct need {
    _Atomic int64_t ns; /* 0: not known */
    size_t count;
    int *behind;        /* following vertices that drop late frames */
} need;

struct mr_deadlines {
    need *needs;        /* by vertex */
    bool *sheds;        /* by vertex */
};

static need *need_of(const mr_shedder *shedder) {
    return &shedder->run->deadlines->needs[shedder->vertex - shedder->run->plan->vertices];
}

/* After this many frames were dropped on an estimate, one is tried: the stages may have become faster. */
enum { UNTRIED = 8 };

bool mr_deadline_passed(const mr_frame *frame, int64_t now_ns) {
    return frame->deadline_ns && frame->format.payload != MR_PAYLOAD_PACKET &&
           now_ns > frame->deadline_ns;
}

static bool will_be_late(mr_shedder *shedder, const mr_frame *frame, int64_t now_ns) {
    if (now_ns + atomic_load_explicit(&need_of(shedder)->ns, memory_order_relaxed) <= frame->deadline_ns)
        return false;
    shedder->untried = (shedder->untried + 1) % (UNTRIED + 1);
    return shedder->untried != 0;
}

/* Whether this source's packets are being skipped. */
static bool *skipping(mr_shedder *shedder, uint32_t source) {
    const uint32_t *sources = shedder->vertex->sources;
    size_t low = 0, high = shedder->source == MR_SOURCE_NONE ? shedder->vertex->source_count : 1;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (sources[middle] <= source)
            low = middle;
        else
            high = middle;
    }
    return &shedder->skipping[low];
}

static const char *late_packet(mr_shedder *shedder, const mr_frame *packet, int64_t now_ns) {
    bool *skips = skipping(shedder, packet->identity.source);
    int64_t late_ns = now_ns - packet->deadline_ns;
    if (*skips && packet->flags & MR_FRAME_KEY && late_ns <= 0)
        *skips = false;
    if (*skips)
        return "gop";
    if (late_ns <= 0)
        return NULL;
    if (packet->flags & MR_FRAME_DISPOSABLE || (packet->media && packet->media->still))
        return "late";
    *skips = late_ns > shedder->run->plan->vertices[packet->identity.source].offer.deadline_ns;
    return *skips ? "late" : NULL;
}

const char *mr_shedder_refusal(mr_shedder *shedder, const mr_frame *frame) {
    if (!frame->deadline_ns)
        return NULL;
    int64_t now = mr_executor_now_ns(shedder->run->executor);
    if (frame->format.payload == MR_PAYLOAD_PACKET)
        return late_packet(shedder, frame, now);
    return mr_deadline_passed(frame, now) || will_be_late(shedder, frame, now) ? "late" : NULL;
}

/* ---- remaining time -------------------------------------------------------------------------------------------- */

/* A stage drops late frames if a stage other than a copy follows. Otherwise the work is done, and the frame is
 * delivered even if late. Vertices are in topological order. */
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
        return true; /* A source that comes later may have one. */
    for (size_t s = 0; s < plan->source_count; s++)
        if (plan->vertices[s].offer.deadline_ns)
            return true;
    return false;
}

/* Lists, for each vertex, the next vertices that drop late frames. */
static int list_behind(mr_deadlines *deadlines, const mr_plan *plan) {
    for (size_t e = 0; e < plan->edge_count; e++)
        deadlines->needs[plan->edges[e].from].count += deadlines->sheds[plan->edges[e].to];
    for (size_t v = 0; v < plan->vertex_count; v++) {
        need *one = &deadlines->needs[v];
        if (!(one->behind = mr_calloc(one->count + 1, sizeof *one->behind)))
            return MR_ERROR_MEMORY;
        one->count = 0;
    }
    for (size_t e = 0; e < plan->edge_count; e++) {
        need *one = &deadlines->needs[plan->edges[e].from];
        if (deadlines->sheds[plan->edges[e].to])
            one->behind[one->count++] = plan->edges[e].to;
    }
    return MR_OK;
}

int mr_deadlines_create(mr_run *run) {
    if (!has_deadlines(run->plan))
        return MR_OK;
    mr_deadlines *made = run->deadlines = mr_calloc(1, sizeof *made);
    if (made) {
        made->sheds = find_shedders(run->plan);
        made->needs = mr_calloc(run->plan->vertex_count, sizeof *made->needs);
    }
    return made && made->sheds && made->needs && !list_behind(made, run->plan)
               ? MR_OK
               : mr_fail(MR_ERROR_MEMORY, "no memory for deadlines");
}

void mr_deadlines_destroy(mr_run *run) {
    mr_deadlines *gone = run->deadlines;
    if (!gone)
        return;
    for (size_t v = 0; gone->needs && v < run->plan->vertex_count; v++)
        mr_free(gone->needs[v].behind);
    mr_free(gone->needs);
    mr_free(gone->sheds);
    mr_free(gone);
    run->deadlines = NULL;
}

void mr_shedder_note_call(mr_shedder *shedder, int64_t spent_ns) {
    need *own = need_of(shedder);
    int64_t behind_ns = 0;
    if (!own->count)
        return;
    int64_t last = atomic_exchange_explicit(&shedder->last_ns, spent_ns, memory_order_relaxed);
    for (size_t i = 0; i < own->count; i++) {
        const need *other = &shedder->run->deadlines->needs[own->behind[i]];
        int64_t ns = atomic_load_explicit(&other->ns, memory_order_relaxed);
        behind_ns = ns > behind_ns ? ns : behind_ns;
    }
    atomic_store_explicit(&own->ns, (last < spent_ns ? last : spent_ns) + behind_ns, memory_order_relaxed);
}

/* ---- of an instance ---------------------------------------------------------------------------------------------- */

static size_t sources_here(const mr_shedder *shedder) {
    return shedder->source == MR_SOURCE_NONE ? shedder->vertex->source_count : 1;
}

int mr_shedder_init(mr_shedder *shedder, const mr_run *run, const mr_plan_vertex *vertex, uint32_t source) {
    *shedder = (mr_shedder){.run = run, .vertex = vertex, .source = source};
    shedder->sheds = run->deadlines && run->deadlines->sheds[vertex - run->plan->vertices];
    shedder->skipping = mr_calloc(sources_here(shedder) + 1, sizeof *shedder->skipping);
    return shedder->skipping ? MR_OK : MR_ERROR_MEMORY;
}

void mr_shedder_fini(mr_shedder *shedder) {
    mr_free(shedder->skipping);
}

void mr_shedder_renew(mr_shedder *shedder) {
    shedder->skipping[0] = false;
    shedder->untried = 0;
}
