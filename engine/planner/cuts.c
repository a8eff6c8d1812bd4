/* Cuts: if a link goes from one node to another, the planner inserts the two ends of a cut. There is one for each
 * output port and node that reads it. */
#include "engine/planner/cuts.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "engine/plan/cut.h"
#include "engine/planner/graph/builder.h"
#include "engine/planner/plan_devices.h"
#include "engine/planner/endpoints.h"
#include "engine/planner/graph/links.h"
#include "engine/planner/plan_memory.h"
#include "engine/text/value.h"
#include "millrace/status.h"

/* How many frames stages after a cut can hold before they release any. */
typedef struct hold_table {
    int *behind;  /* by vertex: held by it and by later stages on one way */
    int *before;  /* likewise what comes before it */
    bool *reached, *leads; /* for the last cut asked about: vertices that frames reach; vertices that lead to a join */
    int *wanted;           /* by vertex: the least queue length */
    int *kept;             /* by vertex that gives frames of objects: see kept_before; -1: it gives whole frames */
    int *maker;            /* by such a vertex: the node on which a stage made the frames from objects */
} hold_table;
typedef struct window_need {
    int window;  /* the least number that may have to be under way; 0: any */
    int share;   /* per source; 0: sources need no share */
    int sources;
    int join;    /* the first vertex that joins the cut's frames with frames from another way; -1: none */
    bool objects; /* frames are of objects, which a later stage gathers */
    int kept;    /* set with the window: how many objects of a source wait in it for their frames' outcome */
} window_need;

enum {
    FEW_FRAMES = 16,    /* the window for frames with SMALL_BYTES or more, or unknown size */
    MANY_FRAMES = 256,  /* for smaller ones */
    MOST_FRAMES = 512,  /* for those with at most TINY_BYTES, which cost less if more go at once */
    SMALL_BYTES = 65536,
    TINY_BYTES = 4096,
    CUT_QUEUE = 4,
    TINY_QUEUE = 128,   /* a message's worth, which the entry passes on in one run */
    MORE_PEERS = 8,     /* connections that may overlap while peers come back */
    UNKNOWN_BYTES = 1 << 28 /* largest message if the frame size is not known */
};
static const int64_t handshake_ns = 5000000000, retry_ns = 200000000;

static bool crosses(const mr_plan_builder *b, const mr_plan_link *link) {
    return b->plan->vertices[link->from].node != b->plan->vertices[link->to].node;
}

static bool same_node(const mr_plan_vertex *reader, const mr_plan_vertex *other) {
    return reader->node == other->node;
}

/* ---- one cut --------------------------------------------------------------------------------------------------- */

static void fill_end(mr_plan_builder *b, mr_plan_vertex *end, const char *id, mr_plan_role role, int node,
                     const mr_plan_vertex *from, const mr_plan_vertex *reader) {
    static const int processors[] = {0};
    *end = (mr_plan_vertex){
        .id = id,
        .type = role == MR_ROLE_CUT_OUT ? b->params.inserted->cut_out : b->params.inserted->cut_in,
        .role = role,
        .place = reader->place,
        .mark = reader->mark,
        .devices.count = 1,
        .devices.at = processors,
        .node = node,
        .calls.instances = 1,
        .calls.entry = MR_ENTRY_SHARED,
        .calls.entries = 1,
        .calls.in_flight = 1,
        .calls.batch = 1,
        .handling.queue = CUT_QUEUE,
        .devices.turn = 1,
        .source_count = from->source_count,
        .sources = from->sources,
    };
    mr_plan_name_device(b, end);
}

static mr_cut describe(const mr_plan_builder *b, const char *name, const mr_plan_vertex *from,
                       const mr_plan_vertex *reader, const mr_spec_cut *said) {
    return (mr_cut){.name = name,
                    .pipeline = b->plan->name,
                    .from_node = b->plan->nodes[from->node].id,
                    .to_node = b->plan->nodes[reader->node].id,
                    .mode = (mr_cut_mode)said->mode,
                    .compression = (mr_cut_compression)said->compress,
                    .checksum_payload = said->checksum != 0,
                    .shared_memory = !said->in_line,
                    .window = (int)said->window,
                    .window_bytes = (uint64_t)said->memory_bytes,
                    .max_peers = b->plan->nodes[reader->node].replicas + MORE_PEERS,
                    .consumers = b->plan->nodes[reader->node].replicas,
                    .lease_ns = said->lease_ns,
                    .heartbeat_ns = said->heartbeat_ns,
                    .handshake_ns = handshake_ns,
                    .retry_ns = retry_ns,
                    .stop_ns = b->plan->grace_ns / 2,
                    .dead_letters = said->dead_letters};
}

static int make_cut(mr_plan_builder *b, const mr_plan_link *link, mr_plan_vertex *ends, mr_spec_vertex *specs) {
    const mr_plan_vertex *from = &b->plan->vertices[link->from], *reader = &b->plan->vertices[link->to];
    const char *to = b->plan->nodes[reader->node].id, *dot = link->from_port ? "." : "";
    const char *port = link->from_port ? from->type->outputs[link->from_port].name : "";
    const char *out = mr_arena_print(b->arena, "%s%s%s->%s", from->id, dot, port, to);
    const char *in = mr_arena_print(b->arena, "%s%s%s->%s:in", from->id, dot, port, to);
    mr_cut *cut = mr_arena_alloc(b->arena, sizeof *cut);
    if (!out || !in || !cut)
        return MR_ERROR_MEMORY;
    *cut = describe(b, out, from, reader, &b->vertex[link->to]->common.cut);
    fill_end(b, &ends[0], out, MR_ROLE_CUT_OUT, from->node, from, reader);
    fill_end(b, &ends[1], in, MR_ROLE_CUT_IN, reader->node, from, reader);
    for (int i = 0; i < 2; i++) {
        ends[i].options = cut;
        specs[i] = (mr_spec_vertex){.id = ends[i].id, .place = reader->mark, .place_text = reader->place,
                                    .type = ends[i].type, .options = cut};
        if (mr_plan_repeat(b, &ends[i], i ? &ends[0] : from, i ? 0 : link->from_port))
            return MR_ERROR_MEMORY;
    }
    if (cut->mode == MR_CUT_LIVE)
        ends[0].handling.policy = MR_POLICY_DROP_OLDEST;
    return MR_OK;
}

/* ---- how much is under way ------------------------------------------------------------------------------------- */

static mr_location place_in_cut(const mr_spec_vertex *reader, const char *key) {
    const mr_yaml *cut = mr_yaml_get(reader->node, "cut"), *said = mr_yaml_get(cut, key);
    return said ? said->place : cut ? cut->place : reader->place;
}

static void refuse_memory(mr_plan_builder *b, const mr_spec_vertex *reader, const mr_cut *cut) {
    char text[64];
    mr_plan_error(b, place_in_cut(reader, "memory"), "allow more memory, or remove `memory`",
                  "stages.%s.cut.memory: one frame from \"%s\" may take %s", reader->id, cut->from_node,
                  mr_value_print_about(cut->frame_bytes, text, sizeof text));
}

/* If frames can have any size, that much memory may hold fewer frames than later stages wait for. */
static void refuse_unproven(mr_plan_builder *b, const mr_spec_vertex *reader, const mr_cut *cut,
                            const window_need *hold, bool packets) {
    char hint[96];
    snprintf(hint, sizeof hint, "limit the number of frames instead: `window: %d`, or more", hold->window);
    mr_plan_error(b, place_in_cut(reader, "memory"), hint,
                  "stages.%s.cut.memory: %s from \"%s\" may have any size, and batches, decoders or joins may hold %d "
                  "before they emit any: if fewer fit, the pipeline would deadlock",
                  reader->id, packets ? "packets" : "frames", cut->from_node, hold->window);
}

/* With a smaller window later stages would wait forever, for a batch, a decoder or a join. */
static void refuse_window(mr_plan_builder *b, const mr_spec_vertex *reader, const mr_cut *cut, bool by_memory, int said,
                          const window_need *hold) {
    mr_location place = place_in_cut(reader, by_memory ? "memory" : "window");
    const char *frames = said == 1 ? "frame" : "frames";
    if (hold->share > 0)
        mr_plan_error(b, place, "make it larger",
                      "stages.%s.cut: %d %s may be in flight from \"%s\", but %d are needed, %d for each of %d "
                      "sources: \"%s\" joins these frames with frames that come another way, and would deadlock",
                      reader->id, said, frames, cut->from_node, hold->window, hold->share, hold->sources,
                      b->plan->vertices[hold->join].id);
    else
        mr_plan_error(b, place, "make the window larger or the batch smaller, or give the batch a timeout",
                      "stages.%s.cut: %d %s may be in flight from \"%s\", and batches and decoders may hold %d before "
                      "they emit any: the pipeline would deadlock",
                      reader->id, said, frames, cut->from_node, hold->window);
}

/* Whether frames are so small that many should go together. False if late ones should be dropped, or if several
 * consumers share them, each of which should get some. */
static bool go_together(const mr_cut *cut, bool packets) {
    bool tiny = cut->frame_bytes ? cut->frame_bytes <= TINY_BYTES : cut->max_message_bytes && !packets;
    return tiny && cut->mode == MR_CUT_RELIABLE && cut->consumers < 2;
}

static int usual_window(const mr_cut *cut, bool packets) {
    bool small = cut->frame_bytes < SMALL_BYTES && (cut->frame_bytes || cut->max_message_bytes);
    return go_together(cut, packets) ? MOST_FRAMES : small ? MANY_FRAMES : FEW_FRAMES;
}

static bool gives_packets(const mr_plan_builder *b, const mr_plan_cut *entry) {
    return b->plan->vertices[entry->out].inputs[0].set.payload == MR_PAYLOAD_PACKET;
}

/* Objects that were gathered must stay with their producers until their frame is settled. So the window has room for
 * others beside them, and as many again for these. An author's window is divided. */
static void keep_objects(mr_cut *cut, window_need *hold, int usual, bool said) {
    if (!hold->objects || cut->mode != MR_CUT_RELIABLE)
        return;
    const int spare = said ? (cut->window - hold->window) / 2 : usual;
    hold->kept = spare > 0 ? spare / hold->sources : 0;
    cut->share += cut->share && !said ? hold->kept : 0;
    cut->window += said ? 0 : hold->kept * hold->sources;
}

static void set_window(mr_plan_builder *b, const mr_plan_cut *entry, const mr_spec_vertex *reader, mr_cut *cut,
                       window_need *hold, bool reported) {
    uint64_t room = cut->window_bytes && cut->frame_bytes ? cut->window_bytes / cut->frame_bytes : 0;
    bool by_memory = room > 0 && (cut->window == 0 || room < (uint64_t)cut->window);
    int said = by_memory ? (room < 65536 ? (int)room : 65536) : cut->window;
    if (cut->window_bytes && cut->frame_bytes > cut->window_bytes) {
        refuse_memory(b, reader, cut);
        return;
    }
    bool packets = gives_packets(b, entry);
    bool open = !cut->frame_bytes && (packets || (!cut->max_message_bytes && !b->params.offline));
    if (cut->window_bytes && open && hold->window > 0 && !reported)
        refuse_unproven(b, reader, cut, hold, packets);
    if (said && said < hold->window && !reported)
        refuse_window(b, reader, cut, by_memory, said, hold);
    int usual = usual_window(cut, packets);
    cut->window = said ? said : usual > hold->window ? usual : hold->window;
    cut->share = hold->share > 0 && said ? said / hold->sources : hold->share;
    keep_objects(cut, hold, usual, said);
    if (cut->window_bytes == 0)
        cut->window_bytes = cut->frame_bytes * (uint64_t)cut->window;
}

/* A frame's size on the wire. Packets and results alone are small, whatever the exact size. */
static void set_bytes(const mr_plan_vertex *out, mr_cut *cut) {
    const mr_planned_input *input = &out->inputs[0];
    bool known = mr_plan_frame_bytes(&input->set, input->results, input->more_results, &cut->frame_bytes);
    bool bounded = known && cut->frame_bytes > 0;
    /* 0 until the window is set: the frame size is not known. */
    cut->max_message_bytes = known ? cut->frame_bytes + MR_CUT_MOST_ENVELOPE : 0;
    if (!bounded)
        cut->frame_bytes = 0;
}

static const mr_spec_vertex *reader_of(const mr_plan_builder *b, const mr_plan_cut *entry) {
    return b->vertex[b->link[b->out.item[b->out.start[entry->in]]].to];
}

/* If a reader has several cuts, with the same settings for all, one complaint is enough. */
static void settle(mr_plan_builder *b, mr_plan_cut *entry, mr_cut *cut, window_need *hold) {
    mr_plan_vertex *out = &b->plan->vertices[entry->out], *in = &b->plan->vertices[entry->in];
    const mr_spec_vertex *reader = reader_of(b, entry);
    bool reported = entry > b->plan->cuts && reader_of(b, entry - 1) == reader;
    set_bytes(out, cut);
    set_window(b, entry, reader, cut, hold, reported);
    if (go_together(cut, gives_packets(b, entry)) && cut->window > TINY_QUEUE)
        out->handling.queue = TINY_QUEUE;
    if (cut->frame_bytes == 0)
        cut->max_message_bytes = UNKNOWN_BYTES;
    out->calls.in_flight = cut->window;
    /* Every arriving frame had credit: it must not find the queue full. */
    in->handling.queue = mr_plan_cap((int64_t)cut->window * b->plan->nodes[entry->from].replicas);
    in->needs.retained = in->handling.queue;
}

/* ---- errors ---------------------------------------------------------------------------------------------------- */

static bool same_wish(const mr_spec_cut *a, const mr_spec_cut *b) {
    bool letters = a->dead_letters && b->dead_letters ? strcmp(a->dead_letters, b->dead_letters) == 0
                                                      : a->dead_letters == b->dead_letters;
    return a->mode == b->mode && a->window == b->window && a->memory_bytes == b->memory_bytes &&
           a->compress == b->compress && a->checksum == b->checksum && a->in_line == b->in_line &&
           a->lease_ns == b->lease_ns && a->heartbeat_ns == b->heartbeat_ns && letters;
}

/* Readers of one port in one node share a cut, so they cannot want different ones. */
static void check_wishes(mr_plan_builder *b, int v) {
    for (int i = b->out.start[v]; i < b->out.start[v + 1]; i++) {
        const mr_plan_link *one = &b->link[b->out.item[i]];
        for (int k = b->out.start[v]; k < i && crosses(b, one); k++) {
            const mr_plan_link *other = &b->link[b->out.item[k]];
            if (one->from_port != other->from_port || one->to == other->to ||
                b->plan->vertices[one->to].node != b->plan->vertices[other->to].node ||
                same_wish(&b->vertex[one->to]->common.cut, &b->vertex[other->to]->common.cut))
                continue;
            mr_plan_error(b, place_in_cut(b->vertex[one->to], "mode"), "write the same `cut` for both",
                          "stages.%s.cut: \"%s\" in the same node takes the same frames of \"%s\", but has a different "
                          "`cut`",
                          b->vertex[one->to]->id, b->vertex[other->to]->id, b->vertex[v]->id);
            return;
        }
    }
}

static void warn_of_wish(mr_plan_builder *b, int v) {
    const mr_spec_vertex *spec = b->vertex[v];
    for (int i = b->in.start[v]; i < b->in.start[v + 1]; i++)
        if (crosses(b, &b->link[b->in.item[i]]))
            return;
    mr_diagnose(b->diagnostics, MR_SEVERITY_WARNING, MR_OK, place_in_cut(spec, "mode"), "remove `cut`",
                "stages.%s.cut: all its inputs are in its own node, so that nothing is cut", spec->id);
}

/* Processes that share work each see only part of it. */
static void check_shared_work(mr_plan_builder *b, int v) {
    const mr_plan_vertex *vertex = &b->plan->vertices[v];
    const mr_plan_node *node = &b->plan->nodes[vertex->node];
    if (node->replicas < 2 || vertex->role == MR_ROLE_SOURCE || vertex->calls.entry == MR_ENTRY_STATELESS)
        return;
    mr_plan_error(b, vertex->mark, "move it to a node of one process",
                  "stages.%s: %s, so the %d processes of the node \"%s\" cannot share its work", vertex->id,
                  vertex->calls.entry == MR_ENTRY_PER_SOURCE ? "it remembers earlier frames of each source"
                                                       : "it remembers earlier frames",
                  node->replicas, node->id);
}

/* If several processes share each cut's frames separately, one frame's parts go to different processes. */
static void refuse_apart(mr_plan_builder *b, const mr_plan_cut *cut, int join) {
    const mr_plan_node *node = &b->plan->nodes[cut->to];
    mr_plan_error(b, b->plan->vertices[join].mark, "put the join into a node of one process",
                  "stages.%s: %d processes of the node \"%s\" share its work, and its inputs come over several cuts: "
                  "the inputs of one frame may reach different processes",
                  b->plan->vertices[join].id, node->replicas, node->id);
}

static bool is_apart(const mr_plan_builder *b, const mr_plan_cut *cut, int join) {
    return join >= 0 && b->plan->nodes[cut->to].replicas > 1 && b->plan->vertices[join].node == cut->to;
}

/* Pictures are numbered as they leave a decoder. A decoder that gets fewer packets numbers differently from the decoder
 * on another way. */
static void refuse_live(mr_plan_builder *b, const mr_plan_cut *cut, int join) {
    const mr_spec_vertex *reader = reader_of(b, cut);
    mr_plan_error(b, place_in_cut(reader, "mode"), "write cut: reliable, or decode before the live cut",
                  "stages.%s.cut: this live cut drops packets, so that pictures decoded after it are numbered "
                  "differently from those that reach \"%s\" another way, and it would join frames that do not belong "
                  "together",
                  reader->id, b->plan->vertices[join].id);
}

/* ---- frames that a cut must hold --------------------------------------------------------------------------------- */

/* How many frames must be able to be under way over a cut, so that later stages never wait for frames that the window
 * holds back.
 *
 * Batches wait for more frames, decoders for more packets. A join waits for frames from another way. Meanwhile it holds
 * the cut's frames: as many as the other ways can hold. With several sources it can hold one source's frames while
 * another source's frames fill another way, because the processes on the ways take sources in different turns. So that
 * neither stops the other, each source then has a share of the window, and the queues from the cut to the join must
 * have room for all of it. */

enum {
    /* Packets that a decoder can keep to reorder pictures (at most 16 in H.264 and HEVC), and in threads. */
    DECODER_PACKETS = 32,
    /* Frames per source at a join. Ways can be out of step by more than a queue before a cut and a round of the
     * reader. */
    SHARE = 8
};

static int holds_itself(const mr_plan_vertex *vertex) {
    if (vertex->role != MR_ROLE_SOURCE && vertex->calls.entry == MR_ENTRY_PER_SOURCE && vertex->input_count == 1 &&
        vertex->inputs[0].set.payload == MR_PAYLOAD_PACKET)
        return DECODER_PACKETS;
    /* A batch with a timeout leaves without the frames that the window holds back. */
    return mr_plan_waits_for_batch(vertex) && vertex->calls.batch_timeout_ns == 0 ? mr_plan_call_frames(vertex) : 0;
}

static int begin_holds(const mr_plan_builder *b, hold_table *holds) {
    size_t count = (size_t)b->count;
    *holds = (hold_table){.behind = mr_arena_array(b->arena, count, sizeof *holds->behind),
                             .before = mr_arena_array(b->arena, count, sizeof *holds->before),
                             .reached = mr_arena_array(b->arena, count, sizeof *holds->reached),
                             .leads = mr_arena_array(b->arena, count, sizeof *holds->leads),
                             .wanted = mr_arena_array(b->arena, count, sizeof *holds->wanted),
                             .kept = mr_arena_array(b->arena, count, sizeof *holds->kept),
                             .maker = mr_arena_array(b->arena, count, sizeof *holds->maker)};
    if (!holds->behind || !holds->before || !holds->reached || !holds->leads || !holds->wanted || !holds->kept ||
        !holds->maker)
        return MR_ERROR_MEMORY;
    for (int v = b->count - 1; v >= 0; v--) {
        for (int i = b->out.start[v]; i < b->out.start[v + 1]; i++) {
            int behind = holds->behind[b->link[b->out.item[i]].to];
            holds->behind[v] = behind > holds->behind[v] ? behind : holds->behind[v];
        }
        holds->behind[v] = mr_plan_cap((int64_t)holds->behind[v] + holds_itself(&b->plan->vertices[v]));
    }
    return MR_OK;
}

/* The number that may be held before each vertex on ways that part from the cut's: stages before the cut are before all
 * of them. */
static void look_before(const mr_plan_builder *b, hold_table *holds, int cut_out) {
    memset(holds->leads, 0, (size_t)b->count * sizeof *holds->leads);
    holds->leads[cut_out] = true;
    for (int v = cut_out; v >= 0; v--)
        for (int i = b->out.start[v]; i < b->out.start[v + 1]; i++)
            holds->leads[v] |= b->link[b->out.item[i]].to <= cut_out && holds->leads[b->link[b->out.item[i]].to];
    for (int v = 0; v < b->count; v++) {
        holds->before[v] = 0;
        for (int i = b->in.start[v]; i < b->in.start[v + 1]; i++) {
            int from = b->link[b->in.item[i]].from;
            int64_t held = (int64_t)holds->before[from] + holds_itself(&b->plan->vertices[from]);
            int before = holds->leads[from] ? 0 : mr_plan_cap(held);
            holds->before[v] = before > holds->before[v] ? before : holds->before[v];
        }
    }
}

/* Marks the vertices that the cut's frames reach. Whether some, but not all, inputs of a join are among them. */
static bool meets(const mr_plan_builder *b, hold_table *holds, int v) {
    int from_it = 0, all = b->in.start[v + 1] - b->in.start[v];
    for (int i = b->in.start[v]; i < b->in.start[v + 1]; i++)
        from_it += holds->reached[b->link[b->in.item[i]].from];
    holds->reached[v] = from_it > 0;
    return from_it > 0 && from_it < all && b->plan->vertices[v].input_count > 1;
}

static void mark_ways(const mr_plan_builder *b, hold_table *holds, int first) {
    for (int v = b->count - 1; v >= first; v--)
        for (int i = b->out.start[v]; i < b->out.start[v + 1]; i++)
            holds->leads[v] |= holds->reached[v] && holds->leads[b->link[b->out.item[i]].to];
}

static window_need hold_of(const mr_plan_builder *b, hold_table *holds, const mr_plan_cut *cut) {
    window_need hold = {.join = -1, .sources = (int)b->plan->vertices[cut->in].source_count};
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
    hold.window = hold.share > 0 ? mr_plan_cap((int64_t)hold.share * hold.sources) : each;
    hold.window = holds->behind[cut->in] > hold.window ? holds->behind[cut->in] : hold.window;
    return hold;
}

static void note_way(const mr_plan_builder *b, hold_table *holds, const mr_plan_cut *cut) {
    int all = mr_plan_cap((int64_t)cut->cut->share * b->plan->nodes[cut->from].replicas);
    for (int v = cut->in + 1; v < b->count; v++)
        if (holds->leads[v] && b->plan->vertices[v].node == cut->to && holds->wanted[v] < all)
            holds->wanted[v] = all;
}

static void lengthen_ways(mr_plan_builder *b, const hold_table *holds) {
    for (int v = 0; v < b->count; v++) {
        mr_plan_vertex *vertex = &b->plan->vertices[v];
        const mr_spec_vertex *spec = b->vertex[v];
        if (vertex->handling.queue >= holds->wanted[v] || vertex->handling.policy != MR_POLICY_BLOCK ||
            vertex->role == MR_ROLE_CUT_OUT)
            continue;
        if (spec->common.queue.size > 0)
            mr_plan_error(b, mr_yaml_get(spec->node, "queue")->place, "remove `queue`: the plan then makes it long "
                                                                      "enough",
                          "stages.%s.queue: %d frame%s of a source may wait here before a join after cuts, but %d are "
                          "needed: the sources would deadlock",
                          spec->id, vertex->handling.queue, vertex->handling.queue == 1 ? "" : "s", holds->wanted[v]);
        vertex->handling.queue = holds->wanted[v];
    }
}

/* ---- all of them ----------------------------------------------------------------------------------------------- */

static int list_cuts(mr_plan_builder *b) {
    mr_plan *plan = b->plan;
    size_t most = plan->vertex_count;
    plan->cuts = mr_arena_array(b->arena, most, sizeof *plan->cuts);
    if (!plan->cuts)
        return MR_ERROR_MEMORY;
    for (int v = 0; v + 1 < b->count; v++)
        if (plan->vertices[v].role == MR_ROLE_CUT_OUT)
            plan->cuts[plan->cut_count++] = (mr_plan_cut){.cut = plan->vertices[v].options,
                                                          .from = plan->vertices[v].node,
                                                          .to = plan->vertices[v + 1].node,
                                                          .out = v,
                                                          .in = v + 1};
    return MR_OK;
}

/* How many of a source's objects all cuts before `v` keep; INT_MAX: there is no cut; -1: it gets whole frames. *maker:
 * the node on which a stage made them. */
static int kept_before(const mr_plan_builder *b, const hold_table *holds, int v, int *maker) {
    int least = -1;
    for (int i = b->in.start[v]; i < b->in.start[v + 1]; i++) {
        const int from = b->link[b->in.item[i]].from, kept = holds->kept[from];
        if (kept >= 0 && (least < 0 || kept < least)) {
            least = kept;
            *maker = holds->maker[from];
        }
    }
    return least;
}

/* In graph order. `most`: how many a cut keeps; INT_MAX: it is none. Objects that come back to the node that made them
 * are not kept: their frame waits there until they are settled. */
static void note_kept(mr_plan_builder *b, hold_table *holds, int v, int most) {
    mr_plan_vertex *vertex = &b->plan->vertices[v];
    int maker = vertex->node;
    const int before = kept_before(b, holds, v, &maker);
    holds->maker[v] = maker;
    holds->kept[v] = before > most ? most : before;
    if (!vertex->type)
        return;
    if (vertex->type->cascade == MR_CASCADE_GATHER)
        vertex->handling.kept = before > 0 && (maker != vertex->node || before == INT_MAX) ? before : 0;
    if (vertex->type->cascade == MR_CASCADE_NONE)
        return;
    holds->kept[v] = vertex->type->cascade == MR_CASCADE_SPLIT ? INT_MAX : -1;
    holds->maker[v] = vertex->node;
}

static int settle_cuts(mr_plan_builder *b) {
    hold_table holds;
    int reported = -1, maker, v = 0;
    if (begin_holds(b, &holds))
        return MR_ERROR_MEMORY;
    for (size_t i = 0; i < b->plan->cut_count; i++) {
        mr_plan_cut *entry = &b->plan->cuts[i];
        window_need hold = hold_of(b, &holds, entry);
        for (; v < entry->out; v++)
            note_kept(b, &holds, v, INT_MAX);
        hold.objects = kept_before(b, &holds, v, &maker) >= 0;
        /* The planner may write the cuts until the plan is done. */
        settle(b, entry, (mr_cut *)(uintptr_t)entry->cut, &hold);
        for (; v <= entry->in; v++)
            note_kept(b, &holds, v, hold.kept);
        if (is_apart(b, entry, hold.join) && hold.join != reported)
            refuse_apart(b, entry, reported = hold.join);
        if (hold.join >= 0 && entry->cut->mode == MR_CUT_LIVE && gives_packets(b, entry))
            refuse_live(b, entry, hold.join);
        else if (entry->cut->share > 0)
            note_way(b, &holds, entry);
    }
    for (; v < b->count; v++)
        note_kept(b, &holds, v, INT_MAX);
    lengthen_ways(b, &holds);
    return MR_OK;
}

/* Without nodes there are no cuts. */
static void warn_of_wishes(mr_plan_builder *b) {
    for (int v = 0; v < b->count && b->spec->node_count == 0 && !b->spec->nodes_broken; v++)
        if (b->vertex[v]->common.cut.given)
            mr_diagnose(b->diagnostics, MR_SEVERITY_WARNING, MR_OK, place_in_cut(b->vertex[v], "mode"),
                        "add `nodes`, or remove `cut`",
                        "stages.%s.cut: one process runs all stages, so that nothing is cut", b->vertex[v]->id);
}

int mr_plan_insert_cuts(mr_plan_builder *b) {
    if (b->plan->node_count == 0) {
        warn_of_wishes(b);
        return MR_OK;
    }
    for (int v = 0; v < b->count; v++) {
        check_wishes(b, v);
        check_shared_work(b, v);
        if (b->vertex[v]->common.cut.given)
            warn_of_wish(b, v);
    }
    const mr_plan_insertion insertion = {.needed = crosses, .shared = same_node, .count = 2, .make = make_cut};
    if (mr_plan_splice(b, &insertion) || list_cuts(b) || settle_cuts(b))
        return MR_ERROR_MEMORY;
    return mr_plan_assign_endpoints(b);
}
