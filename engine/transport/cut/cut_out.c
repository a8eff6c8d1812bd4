/* The producer's side of a cut: a sink, for this node's graph.
 *
 * The stage's entry appends frames to a list while the window has room, and parks otherwise. The I/O thread feeds them
 * to the session, sends the session's messages, and notes reported outcomes on the receipts. Waking the I/O thread
 * costs more than that work, so the entry does the work inline when it ends, after one frame or many. The graph ends
 * with the last source's end. The entry therefore lets that end pass only once everything is settled and the other side
 * knows it. */
#include "engine/base/clock.h"
#include "engine/base/grow.h"
#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "engine/data/gap.h"
#include "engine/flow/instance/hooks.h"
#include "engine/flow/instance/instance.h"
#include "engine/flow/io.h"
#include "engine/flow/ledger/ledger.h"
#include "engine/flow/run/control.h"
#include "engine/flow/run/deliveries.h"
#include "engine/flow/run/resume.h"
#include "engine/flow/run/run_states.h"
#include "engine/plan/renewal.h"
#include "engine/transport/cut/cut_end.h"
#include "engine/transport/cut/cut_stages.h"
#include "engine/transport/cut/dead_letter.h"
#include "engine/transport/message.h"
#include "engine/transport/session/sender.h"
#include "millrace/log.h"
#include "millrace/status.h"

/* Empty when zeroed. */
typedef struct cut_items {
    mr_cut_item *item;
    size_t count, room;
} cut_items;

typedef struct cut_out {
    mr_stage *self;
    const mr_cut *cut;
    mr_instance *instance;
    mr_io_thread *io_thread;
    size_t ends_left;        /* the entry's: sources that have not ended */
    bool gathered;           /* the entry's: it has appended items that the I/O thread must process */
    mr_task turn;            /* run by a worker that polls when something comes through shared memory */

    pthread_mutex_t lock;    /* guards what follows, up to the blank line */
    bool locking;            /* it was made */
    cut_items offered;    /* appended by the entry */
    uint64_t frames, bytes;  /* appended and not settled */
    uint32_t *of_source;     /* the same, per source; NULL: sources have no share */
    bool parked;             /* the entry waits for room, or for the end */
    bool no_consumer;           /* live cut: no consumer is connected */
    bool ending;             /* the last end was appended */
    bool finished;           /* everything is settled, and the other side knows of the end, or was given up */
    bool stopping, closing;  /* the run is being stopped; the stage is being closed */

    cut_items taken;      /* I/O thread only, from here on */
    size_t next;             /* index in `taken`: the next to offer to the session */
    mr_sender *sender;
    mr_wire_writer *writer;
    mr_kinds kinds; /* result kinds */
    mr_wire_reader *reader;
    mr_names_share shares[MR_CUT_MOST_PEERS]; /* names that each peer has added */
    mr_cut_exporter *exporter;   /* NULL: nothing is shared */
    mr_cut_reporter reporter;
    int64_t stop_ns, due_ns; /* how long it continues when asked to stop; until when, 0: not asked */
    int64_t look_ns;         /* when to check next whether the consuming node has ended */
    mr_run_state run_state;
    const char *abandoned;   /* why nothing is sent any more; NULL: it is */
    bool closed;
    bool renewed, passes;    /* all that goes over it came from the consumer, or from another node to which it goes
                                back: see renewal.h */
    uint64_t settled_frames, settled_bytes; /* not yet reported to the entry */
} cut_out;

static const char NO_CONSUMER[] = "no consumer", TOO_LARGE[] = "too large";

/* ---- lists of items ---------------------------------------------------------------------------------------------- */

/* Takes the item's frame over; on MR_ERROR_MEMORY it stays the caller's. */
static int append(cut_items *list, const mr_cut_item *item) {
    if (!mr_grow((void **)&list->item, list->count, &list->room, sizeof *list->item))
        return mr_fail(MR_ERROR_MEMORY, "no memory for the items of a cut");
    list->item[list->count++] = *item;
    return MR_OK;
}

/* Drops the frames from `next` on in the name of `stage`, since the run was stopped, and frees the list. */
static void fini_items(cut_items *list, size_t next, const char *stage) {
    for (size_t i = next; i < list->count; i++) {
        mr_frame *frame = list->item[i].frame;
        if (frame)
            mr_receipt_note(frame->receipt, MR_NOTE_DROPPED, stage, MR_REASON_STOPPED);
        mr_frame_unref(&frame);
    }
    mr_free(list->item);
    *list = (cut_items){0};
}

/* ---- the entry --------------------------------------------------------------------------------------------------- */

/* Frames of a live cut that wait for credit outside the queue, which cannot drop them: as few as keep it moving. */
enum { LIVE_FRAMES = 2 };

static bool has_room(const cut_out *out, const mr_cut_item *item) {
    const mr_cut *cut = out->cut;
    if (cut->mode == MR_CUT_LIVE)
        return out->offered.count < LIVE_FRAMES;
    if (out->frames >= (uint64_t)cut->window ||
        (out->of_source && out->of_source[item->identity.source] >= (uint32_t)cut->share))
        return false;
    return !cut->window_bytes || out->frames == 0 || out->bytes + item->bytes <= cut->window_bytes;
}

static bool has_no_consumer(cut_out *out) {
    MR_LOCKED(&out->lock);
    return out->no_consumer;
}

/* Puts the item into the list: MR_OK, MR_ERROR_AGAIN (the entry is woken when there may be room), MR_ERROR_MEMORY. */
static int give(cut_out *out, const mr_cut_item *item) {
    bool frame = item->kind == MR_CUT_FRAME;
    int status = MR_ERROR_AGAIN;
    pthread_mutex_lock(&out->lock);
    if (!frame || has_room(out, item))
        status = append(&out->offered, item);
    if (!status && frame) {
        out->frames++;
        out->bytes += item->bytes;
        if (out->of_source)
            out->of_source[item->identity.source]++;
    }
    out->parked |= status == MR_ERROR_AGAIN;
    out->finished = out->finished && status;
    pthread_mutex_unlock(&out->lock);
    out->gathered |= !status;
    return status;
}

/* If branches meet again in a join, each source in a live cut has a share of the window. It then cannot block other
 * sources that the join may need first. */
static bool exceeds_share(cut_out *out, uint32_t source) {
    if (out->cut->mode != MR_CUT_LIVE || !out->of_source)
        return false;
    MR_LOCKED(&out->lock);
    return out->of_source[source] >= (uint32_t)out->cut->share;
}

/* Frames for which a source has no share left stay in the queue, where they hold up no other source. Those of a live
 * cut are dropped. */
static bool source_has_room(mr_stage *self, uint32_t source, uint32_t coming) {
    cut_out *out = self->state;
    if (!out->of_source || out->cut->mode == MR_CUT_LIVE)
        return true;
    MR_LOCKED(&out->lock);
    bool has_room = out->of_source[source] + coming < (uint32_t)out->cut->share;
    out->parked |= !has_room;
    return has_room;
}

/* Makes a frame that is given up a dead letter; false if there is no folder. */
static bool keep(const cut_out *out, const mr_cut_item *item, const mr_settled *settled) {
    return out->cut->dead_letters && !mr_dead_letter_write(out->cut, item, settled);
}

static int process(mr_stage *self, mr_io *io) {
    cut_out *out = self->state;
    mr_frame *frame = mr_io_input(io);
    bool packet = frame->format.payload == MR_PAYLOAD_PACKET;
    if (mr_stage_cancelled(self)) {
        mr_io_drop(io, frame, MR_REASON_STOPPED);
        return MR_DONE;
    }
    if (exceeds_share(out, frame->identity.source)) {
        mr_io_drop(io, frame, "queue full");
        return MR_DONE;
    }
    mr_cut_item item = {
        .kind = MR_CUT_FRAME,
        .identity = frame->identity,
        .frame = frame,
        .bytes = mr_wire_frame_bytes(frame),
        .envelope_bytes = mr_wire_elements_bytes(frame),
        .packet = packet,
        .key = packet && frame->flags & MR_FRAME_KEY,
    };
    if (frame->receipt)
        item.context = frame->receipt->context;
    if (item.envelope_bytes > MR_CUT_MOST_ENVELOPE) {
        const mr_settled dropped = {.outcome = MR_NOTE_DROPPED, .stage = self->id, .reason = TOO_LARGE};
        mr_cut_report_too_large(out->cut, &item, keep(out, &item, &dropped));
        mr_io_drop(io, frame, TOO_LARGE);
        return MR_DONE;
    }
    int status = give(out, &item);
    if (!status)
        mr_io_take(io, 0); /* The reference belongs to the list now, or is already dropped. */
    if (status != MR_ERROR_AGAIN || !has_no_consumer(out))
        return status;
    mr_io_drop(io, frame, NO_CONSUMER);
    return MR_DONE;
}

/* Compression is left to the I/O thread, where it delays no worker. */
static void send_gathered(mr_stage *self) {
    cut_out *out = self->state;
    if (!out->gathered)
        return;
    out->gathered = false;
    if (out->cut->compression != MR_CUT_PLAIN)
        mr_io_thread_wake(out->io_thread);
    else
        mr_io_thread_work_inline(out->io_thread);
}

/* Whether the other side knows all; else the entry is woken once it does. */
static bool has_finished(cut_out *out) {
    MR_LOCKED(&out->lock);
    bool finished = out->finished;
    out->ending = true;
    out->parked |= !finished;
    return finished;
}

/* The last source's end passes once the other side knows everything. */
static int pass_mark(mr_stage *self, const mr_item *mark) {
    cut_out *out = self->state;
    if (!out->io_thread)
        return MR_DONE;
    const mr_cut_item item = {.kind = mark->kind == MR_ITEM_END ? MR_CUT_END : MR_CUT_GAP,
                              .identity = {.source = mark->source},
                              .reason = mark->kind == MR_ITEM_END && mark->cut_short ? MR_REASON_STOPPED : NULL};
    if (mark->kind == MR_ITEM_GAP && mr_identity_is_renewed(&mark->identity) && !out->renewed &&
        !out->passes)
        return MR_DONE;
    if (mark->kind == MR_ITEM_GAP) {
        mr_cut_item gone = item;
        gone.identity = mark->identity;
        give(out, &gone); /* Without memory for it: it is only a hint. */
        return MR_DONE;
    }
    if (out->ends_left) {
        int status = give(out, &item);
        if (status)
            return status;
        out->ends_left--;
    }
    return out->ends_left || has_finished(out) ? MR_DONE : MR_ERROR_AGAIN;
}

static void stop(mr_stage *self) {
    cut_out *out = self->state;
    if (!out->io_thread)
        return;
    pthread_mutex_lock(&out->lock);
    out->stopping = true;
    pthread_mutex_unlock(&out->lock);
    mr_io_thread_wake(out->io_thread);
}

/* Limits for one message: enough to hide the message's cost, and little compared to the data on the connection. */
enum { BATCH_FRAMES = 128, BATCH_BYTES = 256 << 10 };
/* A frame that was under way to this many consumers when they died is set aside, if there is a folder for it; an
 * innocent frame must not be lost that way. */
enum { DEATHS = 2 };
/* A frame whose message was refused so often is set aside, with or without a folder: nothing else would end that. */
enum { REFUSALS = 3 };
enum { LINGER_MS = 1000 };

static const char STOPPED[] = MR_REASON_STOPPED, DONE_BEFORE[] = MR_REASON_DONE_BEFORE;

_Static_assert((int)MR_CUT_MOST_PEERS <= (int)MR_ZMQ_MOST_KNOWN, "each consumer's connection can be known");

/* ---- on the I/O thread: what the session asks for ------------------------------------------------------------ */

/* The consuming node has ended, and reported this frame's outcome to a former process here, if it is the same frame. */
static void note_done_before(const cut_out *out, const mr_frame *frame) {
    const mr_plan *plan = out->instance->run->plan;
    const mr_plan_vertex *source = &plan->vertices[frame->identity.source];
    bool same = source->offer.repeats || !mr_plan_is_here(plan, source);
    mr_receipt_note(frame->receipt, same ? MR_NOTE_ABSORBED : MR_NOTE_DROPPED, out->self->id,
                    same ? DONE_BEFORE : NO_CONSUMER);
}

static void settle(cut_out *out, const mr_cut_item *item, const mr_settled *settled, int64_t now_ns) {
    mr_frame *frame = item->frame;
    if (item->kind != MR_CUT_FRAME)
        return;
    if (settled->reason == DONE_BEFORE)
        note_done_before(out, frame);
    else
        mr_receipt_note(frame->receipt, settled->outcome, settled->stage, settled->reason);
    if (settled->outcome == MR_NOTE_DELIVERED)
        mr_deliver(out->instance->run, out->instance->vertex, frame, now_ns);
    mr_frame_unref(&frame);
    out->settled_frames++;
    out->settled_bytes += item->bytes;
    if (out->of_source) {
        pthread_mutex_lock(&out->lock);
        out->of_source[item->identity.source]--;
        pthread_mutex_unlock(&out->lock);
    }
}

/* Items that the session has not accepted; TOO_LARGE: with mr_message(). */
static void drop(cut_out *out, const mr_cut_item *item, const char *reason, int64_t now_ns) {
    const mr_settled dropped = {.outcome = MR_NOTE_DROPPED, .stage = out->self->id, .reason = reason};
    if (reason == TOO_LARGE) {
        mr_log_repeating(MR_LOG_ERROR, out->self->id, "%s: %s", out->self->id, mr_message());
        keep(out, item, &dropped);
    }
    settle(out, item, &dropped, now_ns);
    if (item->kind != MR_CUT_END)
        mr_sender_miss(out->sender, &item->identity);
}

static void set_aside(cut_out *out, const mr_action *action, int64_t now_ns) {
    mr_cut_report_set_aside(&out->reporter, action, keep(out, &action->item, &action->settled), now_ns);
    settle(out, &action->item, &action->settled, now_ns);
}

static void send(cut_out *out, const mr_action *action, int64_t now_ns) {
    const mr_wire_part *parts;
    size_t count;
    mr_cut_exporter_aim(out->exporter, action->message.session);
    if (mr_wire_write(out->writer, &action->message, now_ns, &parts, &count)) {
        mr_cut_report_refused(&out->reporter, action->peer, now_ns);
        mr_sender_unwritten(out->sender, action->message.session);
    } else if (!mr_cut_exporter_post(out->exporter, &action->message, parts, count))
        mr_io_thread_send(out->io_thread, action->peer, parts, count);
}

static void act(cut_out *out, int64_t now_ns) {
    mr_action action;
    while (mr_sender_next(out->sender, now_ns, &action)) {
        if (action.kind == MR_ACTION_SEND)
            send(out, &action, now_ns);
        else if (action.kind == MR_ACTION_SETTLE)
            settle(out, &action.item, &action.settled, now_ns);
        else if (action.kind == MR_ACTION_SET_ASIDE)
            set_aside(out, &action, now_ns);
        else if (action.kind == MR_ACTION_SUSPECT)
            mr_cut_report_suspect(&out->reporter, &action, now_ns);
        else if (action.kind == MR_ACTION_ROUTE)
            mr_io_thread_identify(out->io_thread, action.peer, action.of.index);
        else if (action.kind == MR_ACTION_PEER) {
            mr_cut_exporter_update(out->exporter, &action);
            mr_cut_report_peer(&out->reporter, &action, now_ns);
        }
    }
}

/* ---- on the I/O thread: what the entry has given over -------------------------------------------------------- */

/* Swaps the lists, once all taken items are in the session. Whether the entry may go on. */
static void take(cut_out *out) {
    pthread_mutex_lock(&out->lock);
    cut_items empty = out->taken;
    out->taken = out->offered;
    out->offered = empty;
    out->offered.count = 0;
    bool wake = out->cut->mode == MR_CUT_LIVE && out->parked;
    out->parked &= !wake;
    pthread_mutex_unlock(&out->lock);
    out->next = 0;
    if (wake)
        mr_task_wake(&out->instance->entries[0].task);
}

/* Takes a `renewed` mark, and what a former process made. False: the item must be offered. */
static bool take_renewed(cut_out *out, const mr_cut_item *item, int64_t now_ns) {
    static const mr_settled again = {.outcome = MR_NOTE_ABSORBED, .reason = MR_REASON_MADE_AGAIN};
    const bool mark = item->kind == MR_CUT_GAP && mr_identity_is_renewed(&item->identity);
    if (mark)
        mr_sender_renew(out->sender, item->identity.source, item->identity.seq, now_ns);
    if (!mark && (item->kind == MR_CUT_END || !mr_sender_is_former(out->sender, item->identity.source)))
        return false;
    mr_settled settled = again;
    settled.stage = out->self->id;
    settle(out, item, &settled, now_ns);
    out->next++;
    return true;
}

static void offer(cut_out *out, int64_t now_ns) {
    for (;;) {
        if (out->next == out->taken.count)
            take(out);
        if (out->next == out->taken.count)
            return;
        const mr_cut_item *item = &out->taken.item[out->next];
        if (take_renewed(out, item, now_ns))
            continue;
        int status = out->abandoned ? MR_ERROR_CANCELLED : mr_sender_offer(out->sender, item, now_ns);
        bool no_consumer =
            status == MR_ERROR_AGAIN && out->cut->mode == MR_CUT_LIVE && !mr_sender_has_peer(out->sender);
        if (status == MR_ERROR_AGAIN && !no_consumer)
            return;
        if (status)
            drop(out, item, out->abandoned ? out->abandoned : no_consumer ? NO_CONSUMER : TOO_LARGE, now_ns);
        out->next++;
    }
}

/* Reports settled frames to the entry, and wakes it if it waits for room. Items appended meanwhile are not settled. */
static void report(cut_out *out, bool finished) {
    pthread_mutex_lock(&out->lock);
    finished = finished && out->offered.count == 0;
    out->frames -= out->settled_frames;
    out->bytes -= out->settled_bytes;
    bool news = out->settled_frames || (finished && !out->finished);
    out->finished |= finished;
    bool no_consumer = out->cut->mode == MR_CUT_LIVE && !mr_sender_has_peer(out->sender);
    news |= no_consumer && !out->no_consumer;
    out->no_consumer = no_consumer;
    bool wake = out->parked && news;
    out->parked &= !wake;
    pthread_mutex_unlock(&out->lock);
    out->settled_frames = out->settled_bytes = 0;
    if (wake)
        mr_task_wake(&out->instance->entries[0].task);
}

/* ---- on the I/O thread: the end ------------------------------------------------------------------------------ */

static void abandon(cut_out *out, const char *reason) {
    if (!out->abandoned)
        mr_sender_abandon(out->sender, reason);
    out->abandoned = out->abandoned ? out->abandoned : reason;
}

/* A node that has ended regularly sends nothing more to a process that was started again, or stopped meanwhile. A
 * process that has failed takes nothing more. */
static void watch_consumer(cut_out *out, int64_t now_ns) {
    const size_t processes = out->cut->consumers > 0 ? (size_t)out->cut->consumers : 1;
    if (out->abandoned || now_ns < out->look_ns || !mr_sender_lacks(out->sender))
        return;
    out->look_ns = now_ns + MR_CUT_ENDED_NS;
    for (uint32_t i = 0; i < processes; i++)
        if (mr_cut_process_failed(out->cut->to_node, processes, i))
            mr_sender_give_up(out->sender, i, now_ns);
    if (!mr_sender_has_peer(out->sender) && mr_cut_node_ended(out->cut->to_node))
        abandon(out, DONE_BEFORE);
}

/* A stopped run gives the other side some time. A live cut does so at its end, because its frames are useless later. */
static void watch_end(cut_out *out, bool stopping, bool ending, bool closing, int64_t now_ns) {
    bool cancelled = mr_control_is_cancelled(out->instance->run);
    if ((cancelled && stopping) || closing)
        abandon(out, STOPPED);
    if ((stopping || (ending && out->cut->mode == MR_CUT_LIVE)) && !out->due_ns)
        out->due_ns = now_ns + out->stop_ns;
    bool useless = ending && out->cut->mode == MR_CUT_LIVE && mr_sender_is_forsaken(out->sender);
    if ((out->due_ns && now_ns >= out->due_ns) || useless)
        abandon(out, stopping ? STOPPED : NO_CONSUMER);
    if (closing && !out->closed) {
        mr_sender_close(out->sender, "the run has ended");
        out->closed = true;
    }
}

/* ---- on the I/O thread: what has come ------------------------------------------------------------------------ */

static mr_names_share *whose(void *context, uint64_t session) {
    cut_out *out = context;
    uint32_t peer;
    return mr_sender_knows(out->sender, session, &peer) ? &out->shares[peer] : NULL;
}

static void receive_from(cut_out *out, uint32_t route, const mr_wire_part *parts, size_t count) {
    int64_t now_ns = mr_now_ns();
    mr_cut_message message;
    int status = count ? mr_wire_read(out->reader, parts, count, now_ns, &message)
                       : mr_fail(MR_ERROR_PROTOCOL, "a message has too many parts, or none");
    if (status)
        mr_sender_malformed(out->sender, route);
    else
        status = mr_sender_receive(out->sender, route, &message, now_ns);
    if (status)
        mr_cut_report_refused(&out->reporter, route, now_ns);
}

/* Reads ring messages. For each consumer it stops at one that must wait for others still on the way through ZeroMQ. */
static void listen(cut_out *out) {
    for (size_t place = 0; place < mr_cut_exporter_places(out->exporter); place++) {
        const mr_ring_message *message_in;
        uint32_t route;
        for (int i = 0; i < MR_CUT_MOST_LETTERS; i++) {
            if (!mr_cut_exporter_next(out->exporter, place, &message_in) ||
                !mr_sender_may_receive(out->sender, message_in->session, message_in->number, &route))
                break;
            receive_from(out, route, message_in->parts, message_in->count);
            mr_cut_exporter_take(out->exporter, place);
        }
    }
}

/* Ring messages that were sent before this message have arrived. */
static void receive(void *context, uint32_t route, const mr_wire_part *parts, size_t count) {
    cut_out *out = context;
    listen(out);
    receive_from(out, route, parts, count);
}

static void lost(void *context, uint32_t route) {
    cut_out *out = context;
    mr_sender_lost(out->sender, route, mr_now_ns());
}

/* Interval between run state checks, until earlier nodes have reported it. */
static const int64_t ASK_NS = 50000000;

static void report_run(cut_out *out, int64_t now_ns, int64_t *wake_ns) {
    const mr_run *run = out->instance->run;
    if (out->run_state == MR_RUN_UNKNOWN) {
        out->run_state = mr_run_state_of(run, (int)(out->instance->vertex - run->plan->vertices));
        mr_sender_set_run_state(out->sender, out->run_state);
    }
    if (out->run_state == MR_RUN_UNKNOWN)
        *wake_ns = mr_earlier_ns(*wake_ns, now_ns + ASK_NS);
}

/* Frames that wait go first: nothing that has come is more urgent. */
static bool work(void *context, int64_t *wake_ns) {
    cut_out *out = context;
    int64_t now_ns = mr_now_ns(), asked_ns = INT64_MAX;
    pthread_mutex_lock(&out->lock);
    bool stopping = out->stopping, ending = out->ending, closing = out->closing;
    pthread_mutex_unlock(&out->lock);
    report_run(out, now_ns, &asked_ns);
    offer(out, now_ns);
    act(out, now_ns);
    listen(out);
    now_ns = mr_now_ns();
    watch_end(out, stopping, ending, closing, now_ns);
    watch_consumer(out, now_ns);
    act(out, now_ns);
    offer(out, now_ns);
    act(out, now_ns);
    bool empty = out->next == out->taken.count && mr_sender_unsettled(out->sender) == 0;
    mr_cut_exporter_work(out->exporter);
    mr_cut_report_counts(out->instance, mr_sender_counts(out->sender), out->io_thread);
    report(out, (out->abandoned && empty) || mr_sender_finished(out->sender));
    *wake_ns = mr_earlier_ns(asked_ns, mr_sender_wake_ns(out->sender));
    if (!out->abandoned && mr_sender_lacks(out->sender))
        *wake_ns = mr_earlier_ns(*wake_ns, out->look_ns);
    if (out->due_ns && !out->abandoned)
        *wake_ns = mr_earlier_ns(*wake_ns, out->due_ns);
    bool waits = !out->abandoned && mr_sender_waits(out->sender);
    *wake_ns = mr_earlier_ns(*wake_ns, mr_cut_report_absence(&out->reporter, waits, NULL, now_ns));
    return !out->closed;
}

/* ---- opening and closing ----------------------------------------------------------------------------------------- */

static int create_shares(cut_out *out) {
    if (out->cut->share == 0)
        return MR_OK;
    out->of_source = mr_calloc(out->cut->source_count, sizeof *out->of_source);
    return out->of_source ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for %s", out->self->id);
}

/* If any cut is live, a process that dies can take knowledge about losses with it, whichever cuts it has. Packets are
 * numbered differently from pictures, so nothing later can wait for packet numbers. */
static bool reports_lost(const cut_out *out) {
    return mr_cut_live_ones(out->instance->run->plan) != MR_ORDER_NONE_LIVE &&
           mr_outlets_mark_gaps(&out->instance->outlets) &&
           out->instance->vertex->inputs[0].set.payload != MR_PAYLOAD_PACKET;
}

static int create_session(cut_out *out) {
    const mr_cut *cut = out->cut;
    /* Where no join follows, marks do not pass, and the order of what comes back does not matter. */
    const mr_plan *plan = out->instance->run->plan;
    const int maker = mr_outlets_mark_gaps(&out->instance->outlets) ? mr_cut_maker(plan, out->instance->vertex) : -1;
    out->renewed = maker >= 0 && strcmp(plan->nodes[maker].id, cut->to_node) == 0;
    out->passes = maker >= 0 && !out->renewed;
    mr_session_self self = mr_cut_self(out->instance->run, cut, out->instance->vertex);
    self.memory = mr_cut_exporter_text(out->exporter);
    self.kinds = &out->kinds;
    uint32_t consumers = cut->consumers > 0 ? (uint32_t)cut->consumers : 1;
    uint32_t peers = cut->max_peers > 0 ? (uint32_t)cut->max_peers : consumers;
    const mr_sender_params params = {
        .self = self,
        .run = mr_cut_run(out->instance->run, out->instance->vertex, self.incarnation),
        .live = cut->mode == MR_CUT_LIVE,
        .reports_lost = reports_lost(out),
        .renewed = out->renewed,
        .passes = out->passes,
        .consumer = cut->to_node,
        .receivers = consumers,
        .most_peers = peers < MR_CUT_MOST_PEERS ? peers : MR_CUT_MOST_PEERS,
        .window_frames = (uint32_t)cut->window,
        .window_bytes = cut->window_bytes ? cut->window_bytes : UINT64_MAX,
        .batch_frames = BATCH_FRAMES,
        .batch_bytes = BATCH_BYTES,
        .deaths = cut->dead_letters ? DEATHS : 0,
        .refusals = REFUSALS,
        .stage = out->self->id,
    };
    return mr_sender_create(&out->sender, &params);
}

static void take_turn(void *context) {
    cut_out *out = context;
    mr_io_thread_work_inline(out->io_thread);
}

static bool look_for_reports(void *context, bool last) {
    cut_out *out = context;
    return mr_cut_exporter_poll(out->exporter, last);
}

/* The I/O thread waits for messages in shared memory, unless a polling worker finds them first: not if a turn may
 * compress waiting frames. */
static void watch_reports(cut_out *out) {
    if (!out->exporter)
        return;
    mr_io_thread_watch(out->io_thread, mr_cut_exporter_fd(out->exporter));
    /* If no worker polls, the I/O thread is rung for anyway. */
    if (out->cut->compression == MR_CUT_PLAIN && mr_task_poll(&out->turn, look_for_reports))
        mr_log(MR_LOG_DEBUG, "%s: %s", out->cut->name, mr_message());
}

static int open(mr_stage *self) {
    static const mr_compression compressions[] = {
        [MR_CUT_PLAIN] = MR_COMPRESSION_NONE, [MR_CUT_LZ4] = MR_COMPRESSION_LZ4, [MR_CUT_ZSTD] = MR_COMPRESSION_ZSTD};
    cut_out *out = self->state;
    out->self = self;
    out->cut = self->options;
    out->instance = self->flow;
    out->ends_left = out->instance->vertex->source_count;
    out->reporter = mr_cut_report_begin(out->instance, out->cut);
    out->stop_ns = mr_cut_times_of(out->cut).stop_ns;
    out->look_ns = mr_cut_ends_are_published() ? 0 : INT64_MAX;
    mr_lock_init(&out->lock);
    mr_task_init(&out->turn, out->instance->run->executor, take_turn, out);
    mr_task_for_upkeep(&out->turn);
    out->locking = true;
    int status = mr_dead_letter_prepare(out->cut);
    if (!status)
        status = mr_cut_kinds(out->instance->run->plan, &out->kinds);
    if (!status)
        status = mr_cut_exporter_create(&out->exporter, out->cut);
    const mr_wire_writer_params writing = {.compression = compressions[out->cut->compression],
                                           .checksum = out->cut->checksum_payload,
                                           .share = out->exporter ? mr_cut_export_buffer : NULL,
                                           .context = out->exporter,
                                           .codec = mr_cut_codec(out->instance->run->plan),
                                           .kinds = &out->kinds};
    const mr_io_thread_params carrying = {.receive = receive, .lost = lost, .work = work, .context = out};
    if (!status)
        status = create_shares(out);
    if (!status)
        status = create_session(out);
    if (!status)
        status = mr_wire_writer_create(&out->writer, &writing);
    if (!status)
        status = mr_cut_reader(&out->reader, out->instance->run, out->cut, NULL,
                               &(mr_cut_reading){.whose = whose, .context = out, .kinds = &out->kinds});
    if (!status)
        status = mr_cut_io_thread(&out->io_thread, out->cut, true, &carrying);
    if (!status)
        watch_reports(out);
    if (!status && (status = mr_io_thread_start(out->io_thread)))
        mr_io_thread_close(&out->io_thread, 0);
    return status;
}

static void close_stage(mr_stage *self) {
    cut_out *out = self->state;
    if (!out->locking)
        return;
    mr_task_unpoll(&out->turn);
    pthread_mutex_lock(&out->lock);
    out->closing = true;
    pthread_mutex_unlock(&out->lock);
    if (out->io_thread)
        mr_io_thread_wake(out->io_thread);
    mr_io_thread_close(&out->io_thread, LINGER_MS);
    mr_cut_report_end(&out->reporter);
    mr_task_fini(&out->turn);
    fini_items(&out->taken, out->next, self->id);
    fini_items(&out->offered, 0, self->id);
    mr_sender_destroy(&out->sender);
    mr_wire_writer_destroy(&out->writer);
    mr_wire_reader_destroy(&out->reader);
    mr_cut_exporter_destroy(&out->exporter);
    mr_free(out->of_source);
    pthread_mutex_destroy(&out->lock);
}

static const mr_port inputs[] = {{.name = "in", .help = "frames for another node"}, {0}};

static const mr_stage_hooks hooks = {.mark = pass_mark, .has_room = source_has_room, .idle = send_gathered};

const mr_stage_type mr_cut_out_stage = {
    .name = "cut out",
    .summary = "sends frames to another node; inserted by the planner",
    .inputs = inputs,
    .options_bytes = sizeof(mr_cut),
    .state_bytes = sizeof(cut_out),
    .entry = MR_ENTRY_SHARED,
    .hooks = &hooks,
    .open = open,
    .process = process,
    .close = close_stage,
    .stop = stop,
};
