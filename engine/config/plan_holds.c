/* How much must be able to be under way over a cut, so that what is behind it never waits for what the window holds
 * back.
 *
 * Batches wait for more frames, decoders for more packets. A join waits for what comes another way, and meanwhile holds
 * what has come over the cut: as much as may be held on the other ways. With several sources it may hold frames of one
 * while another way is full of those of another, since the processes on the ways take sources in turns of their own. So
 * that neither stops the other, each source has a share of the window then, and the queues from the cut to the join
 * have room for all of it. */
#include <string.h>

#include "engine/config/plan_builder.h"
#include "millrace/status.h"

enum {
    /* Packets that a decoder may keep for the order of pictures (16 at most in H.264 and HEVC), and in its threads. */
    DECODER_PACKETS = 32,
    /* Frames of each source where ways meet: more than a queue before a cut, and a round of its reader, may put ways
     * out of step with each other. */
    SHARE = 8
};

static int holds_itself(const mr_plan_vertex *vertex) {
    if (!vertex->is_source && vertex->entry == MR_ENTRY_PER_SOURCE && vertex->input_count == 1 &&
        vertex->inputs[0].set.payload == MR_PAYLOAD_PACKET)
        return DECODER_PACKETS;
    /* A batch with a timeout leaves without what the window holds back. */
    return mr_plan_waits_for_batch(vertex) && vertex->batch_timeout_ns == 0 ? vertex->batch : 0;
}

int mr_plan_holds_begin(const mr_plan_builder *b, mr_plan_holds *holds) {
    size_t count = (size_t)b->count;
    *holds = (mr_plan_holds){.behind = mr_arena_array(b->arena, count, sizeof *holds->behind),
                             .before = mr_arena_array(b->arena, count, sizeof *holds->before),
                             .reached = mr_arena_array(b->arena, count, sizeof *holds->reached),
                             .leads = mr_arena_array(b->arena, count, sizeof *holds->leads),
                             .wanted = mr_arena_array(b->arena, count, sizeof *holds->wanted)};
    if (!holds->behind || !holds->before || !holds->reached || !holds->leads || !holds->wanted)
        return MR_ERROR_MEMORY;
    for (int v = b->count - 1; v >= 0; v--) {
        for (int i = b->out.start[v]; i < b->out.start[v + 1]; i++) {
            int behind = holds->behind[b->link[b->out.item[i]].to];
            holds->behind[v] = behind > holds->behind[v] ? behind : holds->behind[v];
        }
        holds->behind[v] += holds_itself(&b->plan->vertices[v]);
    }
    return MR_OK;
}

/* What may be held before each vertex on ways that part from the cut's: what comes before the cut is before all of
 * them. */
static void look_before(const mr_plan_builder *b, mr_plan_holds *holds, int cut_out) {
    memset(holds->leads, 0, (size_t)b->count * sizeof *holds->leads);
    holds->leads[cut_out] = true;
    for (int v = cut_out; v >= 0; v--)
        for (int i = b->out.start[v]; i < b->out.start[v + 1]; i++)
            holds->leads[v] |= b->link[b->out.item[i]].to <= cut_out && holds->leads[b->link[b->out.item[i]].to];
    for (int v = 0; v < b->count; v++) {
        holds->before[v] = 0;
        for (int i = b->in.start[v]; i < b->in.start[v + 1]; i++) {
            int from = b->link[b->in.item[i]].from;
            int before = holds->leads[from] ? 0 : holds->before[from] + holds_itself(&b->plan->vertices[from]);
            holds->before[v] = before > holds->before[v] ? before : holds->before[v];
        }
    }
}

/* Marks what the cut's frames reach. Whether some, but not all, of what a vertex joins is of them. */
static bool meets(const mr_plan_builder *b, mr_plan_holds *holds, int v) {
    int from_it = 0, all = b->in.start[v + 1] - b->in.start[v];
    for (int i = b->in.start[v]; i < b->in.start[v + 1]; i++)
        from_it += holds->reached[b->link[b->in.item[i]].from];
    holds->reached[v] = from_it > 0;
    return from_it > 0 && from_it < all && b->plan->vertices[v].input_count > 1;
}

static void mark_ways(const mr_plan_builder *b, mr_plan_holds *holds, int first) {
    for (int v = b->count - 1; v >= first; v--)
        for (int i = b->out.start[v]; i < b->out.start[v + 1]; i++)
            holds->leads[v] |= holds->reached[v] && holds->leads[b->link[b->out.item[i]].to];
}

mr_plan_hold mr_plan_hold_of(const mr_plan_builder *b, mr_plan_holds *holds, const mr_plan_cut *cut) {
    mr_plan_hold hold = {.join = -1, .sources = (int)b->plan->vertices[cut->in].source_count};
    int each = 0;
    look_before(b, holds, cut->out);
    memset(holds->reached, 0, (size_t)b->count * sizeof *holds->reached);
    memset(holds->leads, 0, (size_t)b->count * sizeof *holds->leads);
    holds->reached[cut->in] = true;
    for (int v = cut->in + 1; v < b->count; v++) {
        if (!meets(b, holds, v))
            continue;
        holds->leads[v] = true;
        hold.join = hold.join < 0 ? v : hold.join;
        each = holds->before[v] > each ? holds->before[v] : each;
    }
    mark_ways(b, holds, cut->in);
    if (hold.join >= 0 && hold.sources > 1)
        hold.share = each > SHARE ? each : SHARE;
    hold.window = hold.share > 0 ? hold.share * hold.sources : each;
    hold.window = holds->behind[cut->in] > hold.window ? holds->behind[cut->in] : hold.window;
    return hold;
}

void mr_plan_note_way(const mr_plan_builder *b, mr_plan_holds *holds, const mr_plan_cut *cut) {
    int all = cut->cut->share * b->plan->nodes[cut->from].replicas;
    for (int v = cut->in + 1; v < b->count; v++)
        if (holds->leads[v] && b->plan->vertices[v].node == cut->to && holds->wanted[v] < all)
            holds->wanted[v] = all;
}

void mr_plan_lengthen_ways(mr_plan_builder *b, const mr_plan_holds *holds) {
    for (int v = 0; v < b->count; v++) {
        mr_plan_vertex *vertex = &b->plan->vertices[v];
        const mr_spec_vertex *spec = b->vertex[v];
        if (vertex->queue >= holds->wanted[v] || vertex->policy != MR_POLICY_BLOCK || vertex->type == &mr_cut_out_stage)
            continue;
        if (spec->common.queue.size > 0)
            mr_plan_error(b, mr_yaml_get(spec->node, "queue")->place, "take `queue` away, and it is as long as need be",
                          "stages.%s.queue: %d frame%s of a source may wait here on the way to a join of what comes over "
                          "cuts. It takes %d: one source would wait for another without end",
                          spec->id, vertex->queue, vertex->queue == 1 ? "" : "s", holds->wanted[v]);
        vertex->queue = holds->wanted[v];
    }
}
