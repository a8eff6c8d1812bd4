/* The consumer's side of a cut. The I/O thread pushes frames into the inlet (cut_lanes.h); they continue to the stages
 * here, and outcomes go back. */
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "engine/data/gap.h"
#include "engine/flow/instance/hooks.h"
#include "engine/flow/instance/instance.h"
#include "engine/flow/link/link.h"
#include "engine/flow/run/control.h"
#include "engine/flow/run/ending.h"
#include "engine/flow/run/resume.h"
#include "engine/flow/run/run_states.h"
#include "engine/plan/renewal.h"
#include "engine/transport/cut/arrivals.h"
#include "engine/transport/cut/cut_end.h"
#include "engine/transport/cut/cut_lanes.h"
#include "engine/transport/cut/cut_stages.h"
#include "millrace/log.h"

enum { LINGER_MS = 1000 };
/* How long a producer that may reconnect is waited for at the end. */
enum { FAREWELL_SILENCES = 10 };
/* Identities that are remembered beyond those under way: a producer that reconnects repeats them. */
enum { REMEMBERED_WINDOWS = 4, REMEMBERED = 4096 };

typedef struct cut_in {
    mr_stage *self;
    const mr_cut *cut;
    mr_instance *instance;
    mr_io_thread *io_thread;
    mr_arrivals *arrivals;
    mr_task room;              /* run by the inlet when there is room again */
    mr_task messages;           /* run by an idle worker when messages arrive in a ring */
    mr_task turn;              /* runs after it, and after the frames that these messages bring */
    atomic_bool more;          /* some messages were left to `turn` */
    bool by_io_thread;           /* no worker can poll the rings: the I/O thread does */
    bool has_tasks;
    atomic_bool stopping, closing;

    mr_receiver *receiver;     /* I/O thread only, from here on */
    mr_wire_writer *writer;
    mr_kinds kinds; /* result kinds */
    mr_wire_reader *reader;
    mr_names_share *shares;    /* names that each producer has added */
    uint32_t layouts;          /* picture layouts that later stages take besides the planned ones */
    uint32_t receiving;          /* the producer that sent the present message */
    mr_cut_importer *importer; /* NULL: nothing is shared */
    mr_cut_reporter reporter;
    bool hopeless;             /* the run has failed, since the producer refuses this node */
    mr_cut_lanes *lanes;
    uint64_t progress;         /* receipts that have closed */
    int64_t stop_ns, due_ns;   /* how long arriving frames are accepted when stopping; until when, 0: not stopping */
    int64_t received_ns;          /* when anything came last */
    int64_t look_ns;           /* when to check next whether the producing node has ended */
    int64_t known_ns;          /* when all connected senders had reported the run state; 0: not yet */
    mr_run_state run_state;
    bool reported_forgetting;
    bool holding;              /* the run's end waits for the producer's report that it needs nothing more */
    bool refusing;             /* arriving frames are not accepted any more */
    bool renews;               /* frames come back to the node that makes them: see renewal.h */
    int returned;              /* as in receipt.h */
} cut_in;

/* Ends all sources, so that later stages end too. */
static void end_sources(mr_instance *instance) {
    for (size_t i = 0; i < instance->vertex->source_count; i++) {
        mr_item end = {.kind = MR_ITEM_END, .source = instance->vertex->sources[i]};
        mr_link_push(mr_inlets_link(&instance->inlets, 0), &end, NULL);
    }
}

/* ---- what has come ----------------------------------------------------------------------------------------------- */

static void refuse(cut_in *in, const mr_cut_item *item, const char *reason, int64_t now_ns) {
    mr_frame *frame = item->frame;
    mr_frame_unref(&frame);
    mr_receiver_take(in->receiver, item->ticket);
    mr_receiver_settle(in->receiver, item->ticket, MR_NOTE_DROPPED, in->self->id, reason, now_ns);
}

static void take_frame(cut_in *in, size_t producer, const mr_cut_item *taken, int64_t now_ns) {
    mr_frame *frame = taken->frame;
    mr_ordered thing = {.item = {.kind = MR_ITEM_FRAME,
                                 .source = taken->identity.source,
                                 .frame = frame},
                        .ticket = taken->ticket,
                        .counted = true};
    if (mr_arrivals_open(in->arrivals, in->instance->run->ledger, &taken->identity, &taken->context, taken->ticket,
                         &frame->receipt)) {
        refuse(in, taken, "out of memory", now_ns);
        return;
    }
    mr_executor_keep_polling();
    mr_cut_lanes_put(in->lanes, producer, &thing, now_ns);
}

static void take_mark(cut_in *in, size_t producer, const mr_cut_item *taken, int64_t now_ns) {
    mr_ordered gone = {
        .item = {.kind = MR_ITEM_GAP, .source = taken->identity.source, .identity = taken->identity}};
    if (taken->kind == MR_CUT_GAP && mr_cut_lanes_open(in->lanes, taken->identity.source))
        mr_cut_lanes_put(in->lanes, producer, &gone, now_ns);
    if (taken->kind == MR_CUT_END)
        mr_cut_lanes_end(in->lanes, taken->identity.source,
                         taken->reason && strcmp(taken->reason, MR_REASON_STOPPED) == 0, now_ns);
}

/* How many cuts into this process frames pass at most before they reach a vertex; -1: no memory. Edges are in the order
 * of the vertices to which they lead. */
static int returns_before(const mr_plan *plan, const mr_plan_vertex *to) {
    int *passed = mr_calloc(plan->vertex_count + 1, sizeof *passed);
    for (size_t e = 0; passed && e < plan->edge_count; e++) {
        const mr_view_link *edge = &plan->edges[e];
        const mr_plan_vertex *from = &plan->vertices[edge->from];
        const int sum = passed[edge->from] + (from->role == MR_ROLE_CUT_IN && mr_plan_is_here(plan, from));
        passed[edge->to] = sum > passed[edge->to] ? sum : passed[edge->to];
    }
    const int found = passed ? passed[to - plan->vertices] : -1;
    mr_free(passed);
    return found;
}

static int number_return(cut_in *in) {
    const int returned = returns_before(in->instance->run->plan, in->instance->vertex);
    if (returned < 0)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a cut");
    mr_arrivals_set_returned(in->arrivals, in->returned = returned);
    return MR_OK;
}

/* Picture layouts that all stages after a vertex take, whether planned or not. */
static uint32_t layouts_taken(const mr_plan *plan, int from) {
    uint32_t taken = UINT32_MAX;
    for (size_t e = 0; e < plan->edge_count; e++) {
        const mr_view_link *edge = &plan->edges[e];
        const mr_plan_vertex *to = &plan->vertices[edge->to];
        if (edge->from != from)
            continue;
        const mr_format_set *takes = to->takes ? &to->takes[edge->to_port] : NULL;
        if (!takes)
            taken &= layouts_taken(plan, edge->to);
        else if (takes->payload != MR_PAYLOAD_ANY && takes->pixels)
            taken &= takes->pixels;
    }
    return taken;
}

/* Whether stages after the cut can work with it. Picture sizes and layouts may change while a pipeline runs, as they
 * may where nothing is cut. But all stages must take a layout that was not planned. */
static bool fits(const cut_in *in, const mr_frame *frame) {
    const mr_format_set *planned = &in->instance->vertex->outputs[0].set;
    const mr_format *format = &frame->format;
    if (planned->payload == MR_PAYLOAD_TENSOR)
        return mr_format_set_has(planned, format);
    if (planned->payload == MR_PAYLOAD_ANY || format->payload != planned->payload)
        return planned->payload == MR_PAYLOAD_ANY;
    return format->payload != MR_PAYLOAD_PICTURE || !planned->pixels ||
           ((planned->pixels | in->layouts) & MR_IN_SET(format->pixel));
}

/* A frame that is dropped here gives up its position in the order. */
static void drop_unfit(cut_in *in, size_t producer, const mr_cut_item *taken, int64_t now_ns) {
    mr_cut_item gone = {.kind = MR_CUT_GAP, .identity = taken->identity};
    refuse(in, taken, "not as planned", now_ns);
    take_mark(in, producer, &gone, now_ns);
}

/* One item of a message. Items that are not fresh are already here, or the message was refused as a whole; refused ones
 * will be sent to another process. */
static void take_item(cut_in *in, size_t producer, const mr_cut_item *taken, int64_t now_ns) {
    bool frame = taken->kind == MR_CUT_FRAME, comes = mr_cut_lanes_take(in->lanes, taken->identity.source);
    if (taken->fresh && !in->refusing && comes) {
        if (frame && fits(in, taken->frame))
            take_frame(in, producer, taken, now_ns);
        else if (frame)
            drop_unfit(in, producer, taken, now_ns);
        else
            take_mark(in, producer, taken, now_ns);
    } else if (frame && taken->fresh && !comes) {
        refuse(in, taken, "unknown source", now_ns);
    } else if (frame) {
        mr_frame *gone = taken->frame;
        mr_frame_unref(&gone);
    }
}

/* The producer keeps frames that are dropped because the run ends, unless it was stopped itself and waits for outcomes.
 * If everything stops at once, all receipts that had not closed before keep theirs. */
static bool is_reported(const cut_in *in, const mr_arrival *arrival) {
    const bool stopped = !in->refusing && mr_cut_lanes_cut_short(in->lanes, arrival->source);
    return stopped || mr_note_settles(arrival->record, arrival->reason);
}

static void settle_closed(cut_in *in, bool all, int64_t now_ns, int64_t *wake_ns) {
    mr_arrival *first = mr_arrivals_take(in->arrivals, all || in->due_ns || atomic_load(&in->closing), now_ns, wake_ns);
    bool cancelled = mr_control_is_cancelled(in->instance->run);
    for (const mr_arrival *arrival = first; arrival; arrival = arrival->next) {
        bool known = arrival->record != MR_NOTE_NONE;
        in->progress++;
        if (!cancelled && is_reported(in, arrival))
            mr_receiver_settle(in->receiver, arrival->ticket, known ? arrival->record : MR_NOTE_DROPPED,
                               known ? arrival->stage : in->self->id, known ? arrival->reason : "unaccounted", now_ns);
    }
    if (first)
        mr_arrivals_give_back(in->arrivals, first);
}

static mr_names_share *whose(void *context, uint64_t session) {
    cut_in *in = context;
    return mr_receiver_knows(in->receiver, in->receiving, session) ? &in->shares[in->receiving] : NULL;
}

/* Another process makes the frames. Those of the former one are still in the graph. */
static void renew(cut_in *in, size_t producer, int64_t now_ns) {
    const uint64_t maker = mr_receiver_maker(in->receiver, (uint32_t)producer);
    in->returned += mr_plan_most_passes(in->instance->run->plan);
    mr_arrivals_set_returned(in->arrivals, in->returned);
    for (uint32_t s = 0; s < in->cut->source_count; s++) {
        mr_ordered mark = {.item = {.kind = MR_ITEM_GAP, .source = s, .identity = mr_identity_renewed(s, maker)}};
        if (mr_cut_lanes_take(in->lanes, s) && mr_cut_lanes_open(in->lanes, s))
            mr_cut_lanes_put(in->lanes, producer, &mark, now_ns);
    }
}

static void receive_from(cut_in *in, uint32_t route, const mr_wire_part *parts, size_t count) {
    int64_t now_ns = in->received_ns = mr_now_ns();
    const uint64_t before = mr_receiver_maker(in->receiver, route);
    mr_cut_message message;
    in->receiving = route;
    mr_cut_importer_aim(in->importer, route);
    int status = count ? mr_wire_read(in->reader, parts, count, now_ns, &message)
                       : mr_fail(MR_ERROR_PROTOCOL, "a message has too many parts, or none");
    const bool has_items = !status && message.kind == MR_MESSAGE_ITEMS;
    if (!status && message.kind == MR_MESSAGE_WELCOME)
        settle_closed(in, true, now_ns, &(int64_t){INT64_MAX}); /* A new process must not get the old one's outcomes. */
    if (status)
        mr_receiver_malformed(in->receiver, route);
    else
        status = mr_receiver_receive(in->receiver, route, &message, now_ns);
    if (in->renews && mr_receiver_maker(in->receiver, route) != before)
        renew(in, route, now_ns);
    if (status)
        mr_cut_report_refused(&in->reporter, route, now_ns);
    for (size_t i = 0; has_items && i < message.items.count; i++)
        take_item(in, route, &message.items.item[i], now_ns);
    mr_cut_lanes_report(in->lanes);
}

/* Reads ring messages, up to one that must wait for others still on the way through ZeroMQ. */
static void receive_ring_messages(cut_in *in, uint32_t route, int most) {
    const mr_ring_message *message_in;
    for (int i = 0; i < most; i++) {
        if (!mr_cut_importer_next(in->importer, route, &message_in) ||
            !mr_receiver_may_receive(in->receiver, route, message_in->session, message_in->number))
            return;
        receive_from(in, route, message_in->parts, message_in->count);
        mr_cut_importer_take(in->importer, route);
    }
}

static void receive_from_producers(cut_in *in, int most) {
    for (uint32_t i = 0; i < in->cut->connect_count; i++)
        receive_ring_messages(in, i, most);
}

/* Ring messages that were sent before this message have arrived. */
static void receive(void *context, uint32_t route, const mr_wire_part *parts, size_t count) {
    cut_in *in = context;
    receive_ring_messages(in, route, MR_CUT_MOST_LETTERS);
    receive_from(in, route, parts, count);
}

static void lost(void *context, uint32_t route) {
    cut_in *in = context;
    mr_receiver_lost(in->receiver, route, mr_now_ns());
}

/* ---- what is to be done ------------------------------------------------------------------------------------------ */

static void act(cut_in *in, int64_t now_ns) {
    mr_action action;
    const mr_wire_part *parts;
    size_t count;
    while (mr_receiver_next(in->receiver, now_ns, &action)) {
        if (action.kind == MR_ACTION_PEER) {
            mr_cut_importer_update(in->importer, &action);
            mr_cut_lanes_disturb(in->lanes, action.peer, action.of.change == MR_PEER_JOINED, now_ns);
            mr_cut_report_peer(&in->reporter, &action, now_ns);
        } else if (action.kind == MR_ACTION_RENEW) {
            mr_io_thread_renew(in->io_thread, action.peer);
        } else if (action.kind == MR_ACTION_SEND &&
                   !mr_wire_write(in->writer, &action.message, now_ns, &parts, &count) &&
                   !mr_cut_importer_post(in->importer, action.peer, &action.message, parts, count) &&
                   !mr_io_thread_send(in->io_thread, action.peer, parts, count))
            mr_receiver_no_line(in->receiver, action.peer);
    }
}

/* No more frames are accepted: the inlet ends. Queued ones still enter before that, unless everything stops at once. */
static void end_all(cut_in *in, int64_t now_ns) {
    in->refusing = true;
    mr_receiver_withdraw(in->receiver);
    mr_cut_lanes_end_all(in->lanes, atomic_load(&in->stopping), now_ns);
}

/* A run that is being stopped still accepts frames for some time, since the producer may be stopping too. */
static void watch_end(cut_in *in, int64_t now_ns) {
    bool stopping = atomic_load(&in->stopping), cancelled = stopping && mr_control_is_cancelled(in->instance->run);
    if (stopping && !in->due_ns)
        in->due_ns = now_ns + in->stop_ns;
    if (cancelled)
        mr_cut_lanes_drop(in->lanes, now_ns);
    if (!in->refusing && (cancelled || (in->due_ns && now_ns >= in->due_ns)))
        end_all(in, now_ns);
}

/* Processes that have failed send nothing more: sources end once all others have sent their end. */
static void give_up_failed(cut_in *in, int64_t now_ns) {
    const size_t processes = in->cut->connect_count;
    for (uint32_t i = 0; i < processes; i++)
        if (mr_cut_process_failed(in->cut->from_node, processes, i) && mr_receiver_give_up(in->receiver, i, now_ns))
            mr_cut_lanes_disturb(in->lanes, i, false, now_ns);
    for (uint32_t s = 0; s < in->cut->source_count; s++)
        if (mr_cut_lanes_take(in->lanes, s) && mr_receiver_is_over(in->receiver, s))
            mr_cut_lanes_end(in->lanes, s, false, now_ns);
    mr_cut_lanes_report(in->lanes);
}

/* A producing node that has ended regularly sends nothing more to a process that was started again. */
static void watch_producer(cut_in *in, int64_t now_ns, int64_t *wake_ns) {
    int64_t silent_ns = in->received_ns + mr_cut_times_of(in->cut).session.silence_ns;
    bool silent = now_ns >= silent_ns, looks = silent || mr_receiver_lacks(in->receiver);
    if (in->refusing || in->look_ns == INT64_MAX)
        return;
    if (looks && now_ns >= in->look_ns) {
        in->look_ns = now_ns + MR_CUT_ENDED_NS;
        if (silent && mr_cut_node_ended(in->cut->from_node))
            end_all(in, now_ns);
        else
            give_up_failed(in, now_ns);
    }
    *wake_ns = mr_earlier_ns(*wake_ns, looks ? in->look_ns : silent_ns);
}

/* The run state is known once all senders have reported it. A sender that was never connected is waited for only as
 * long as a lost one, if others are connected or the cut is live. If all have failed and none had reported it, only a
 * process that was started again belongs to an earlier run. */
static void watch_run(cut_in *in, int64_t now_ns, int64_t *wake_ns) {
    bool absent, live = in->cut->mode == MR_CUT_LIVE;
    if (in->run_state != MR_RUN_UNKNOWN)
        return;
    in->run_state = mr_receiver_run_state(in->receiver, &absent);
    if (in->run_state == MR_RUN_UNKNOWN && mr_receiver_finished(in->receiver))
        in->run_state = mr_stage_first_epoch(in->self) ? MR_RUN_GOES_ON : MR_RUN_BEGINS;
    bool excused = in->run_state == MR_RUN_UNKNOWN && (live || absent);
    if (excused && !in->known_ns)
        in->known_ns = now_ns;
    int64_t until_ns = in->known_ns + mr_cut_times_of(in->cut).session.silence_ns;
    if (excused && now_ns >= until_ns)
        in->run_state = MR_RUN_BEGINS;
    else if (excused)
        *wake_ns = mr_earlier_ns(*wake_ns, until_ns);
    if (in->run_state != MR_RUN_UNKNOWN)
        mr_run_state_tell(in->instance->run, (int)(in->instance->vertex - in->instance->run->plan->vertices),
                          in->run_state);
}

static void report_forgetting(cut_in *in) {
    if (in->reported_forgetting || !mr_receiver_forgets(in->receiver))
        return;
    in->reported_forgetting = true;
    mr_stage_warn(in->self, "more gaps between frames than can be remembered: if node %s is restarted, some frames may "
                            "be taken twice", in->cut->from_node);
}

/* Once everything has ended here, the producer's last message is waited for; not forever, since it may have been lost,
 * and not if the run is being stopped. */
static void watch_farewell(cut_in *in, int64_t now_ns, int64_t *wake_ns) {
    int64_t until_ns = in->received_ns + FAREWELL_SILENCES * mr_cut_times_of(in->cut).session.silence_ns;
    bool ended = mr_cut_lanes_ended(in->lanes) && mr_receiver_held(in->receiver) == 0;
    if (!in->holding)
        return;
    if (atomic_load(&in->stopping) || in->refusing || mr_receiver_finished(in->receiver) ||
        (ended && now_ns >= until_ns)) {
        in->holding = false;
        mr_ending_release(in->instance->run->ending);
    } else if (ended) {
        *wake_ns = mr_earlier_ns(*wake_ns, until_ns);
    }
}

static void report_absence(cut_in *in, int64_t now_ns, int64_t *wake_ns) {
    uint32_t sender;
    bool waits = mr_receiver_waits(in->receiver, &sender) && !mr_cut_lanes_ended(in->lanes);
    const char *address = waits ? in->cut->connect[sender] : NULL;
    *wake_ns = mr_earlier_ns(*wake_ns, mr_cut_report_absence(&in->reporter, waits, address, now_ns));
    if (in->hopeless || !mr_cut_report_is_hopeless(&in->reporter, waits, now_ns, wake_ns))
        return;
    char message[512];
    in->hopeless = true;
    snprintf(message, sizeof message, "%s: %s at %s has refused this node for 30 s: %s", in->cut->name,
             in->cut->from_node, address, in->reporter.refused);
    mr_control_fail(in->instance->run, MR_ERROR_PROTOCOL, message);
}

/* The first read, which is often all there is. */
static void listen(void *context) {
    cut_in *in = context;
    mr_arrivals_expect(in->arrivals);
    receive_from_producers(in, 1);
    in->more = !mr_cut_importer_arm(in->importer);
}

/* Ring messages that arrived after the poll are read in another turn. */
static void read_on(cut_in *in) {
    if (in->by_io_thread)
        mr_io_thread_wake(in->io_thread);
    else
        mr_task_wake(&in->messages);
}

static bool work(void *context, int64_t *wake_ns) {
    cut_in *in = context;
    bool closing = atomic_load(&in->closing);
    receive_from_producers(in, MR_CUT_MOST_LETTERS);
    int64_t now_ns = mr_now_ns();
    *wake_ns = INT64_MAX;
    watch_end(in, now_ns);
    mr_cut_lanes_work(in->lanes, now_ns, wake_ns);
    settle_closed(in, false, now_ns, wake_ns);
    mr_receiver_progress(in->receiver, in->progress + mr_cut_lanes_progress(in->lanes));
    if (closing)
        mr_receiver_close(in->receiver, "the run has ended");
    act(in, now_ns);
    mr_cut_report_counts(in->instance, mr_receiver_counts(in->receiver), in->io_thread);
    *wake_ns = mr_earlier_ns(*wake_ns, mr_receiver_wake_ns(in->receiver));
    if (in->due_ns && !in->refusing)
        *wake_ns = mr_earlier_ns(*wake_ns, in->due_ns);
    report_absence(in, now_ns, wake_ns);
    watch_producer(in, now_ns, wake_ns);
    watch_run(in, now_ns, wake_ns);
    report_forgetting(in);
    watch_farewell(in, now_ns, wake_ns);
    if (in->by_io_thread)
        mr_cut_importer_clear_doorbell(in->importer);
    if (!mr_cut_importer_arm(in->importer))
        read_on(in);
    return !closing;
}

/* ---- the stage --------------------------------------------------------------------------------------------------- */

static void report_room(void *context) {
    cut_in *in = context;
    mr_io_thread_wake(in->io_thread);
}

/* The worker that polled the rings reads the messages and runs their frames. Only then does it do the rest of the
 * sleeping I/O thread's work. Other workers can read messages that arrive meanwhile. */
static void read_ring_messages(void *context) {
    cut_in *in = context;
    if (mr_io_thread_receive_inline(in->io_thread))
        mr_task_wake_behind(&in->turn, !in->more);
}

static void take_turn(void *context) {
    cut_in *in = context;
    mr_io_thread_work_inline(in->io_thread);
}

static bool poll_rings(void *context, bool last) {
    cut_in *in = context;
    return mr_cut_importer_poll(in->importer, last);
}

/* If no worker can poll the rings the I/O thread does. */
static void watch_rings(cut_in *in) {
    int fd = mr_cut_importer_fd(in->importer);
    if (fd < 0)
        return;
    in->by_io_thread = mr_task_watch(&in->messages, fd);
    if (in->by_io_thread)
        mr_io_thread_watch(in->io_thread, fd);
    /* A sleeping reader is rung for anyway. */
    if (mr_task_poll(&in->messages, poll_rings))
        mr_log(MR_LOG_DEBUG, "%s: %s", in->cut->name, mr_message());
}

static void stop(mr_stage *self) {
    cut_in *in = self->state;
    atomic_store(&in->stopping, true);
    if (in->io_thread)
        mr_io_thread_wake(in->io_thread);
}

static uint32_t half_window(const mr_cut *cut) {
    return cut->window > 1 ? (uint32_t)cut->window / 2 : 1;
}

static uint32_t remembered(const mr_cut *cut) {
    return REMEMBERED_WINDOWS * (uint32_t)cut->connect_count * (uint32_t)cut->window + REMEMBERED;
}

static int create_session(cut_in *in) {
    const mr_cut *cut = in->cut;
    uint32_t senders = (uint32_t)cut->connect_count, window = (uint32_t)cut->window;
    mr_session_self self = mr_cut_self(in->instance->run, cut, in->instance->vertex);
    self.memory = mr_cut_importer_text(in->importer);
    self.kinds = &in->kinds;
    const mr_receiver_params params = {
        .self = self,
        .senders = senders,
        .credit_frames = MR_CUT_CREDIT * window,
        .credit_bytes = cut->window_bytes ? MR_CUT_CREDIT * cut->window_bytes : UINT64_MAX,
        .remembers_all = mr_cut_is_exact(in->instance->run->plan, in->instance->vertex),
        .returns = mr_cut_comes_back(in->instance->run->plan, in->instance->vertex),
        .renews = in->renews,
        .report_items = half_window(cut),
        .memory = remembered(cut),
    };
    return mr_receiver_create(&in->receiver, &params);
}

static int create_parts(cut_in *in) {
    const mr_io_thread_params carrying = {
        .receive = receive, .lost = lost, .work = work, .listen = listen, .context = in};
    const mr_cut_reading reading = {.whose = whose, .context = in, .most_items = remembered(in->cut),
                                    .kinds = &in->kinds};
    in->shares = mr_calloc(in->cut->connect_count, sizeof *in->shares);
    if (!in->shares)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a cut");
    mr_memory_keep(in->cut->window_bytes); /* libzmq allocates each message and frees it with the frames. */
    int status = mr_cut_kinds(in->instance->run->plan, &in->kinds);
    if (!status)
        status = mr_cut_importer_create(&in->importer, in->cut);
    if (!status)
        status = mr_arrivals_create(&in->arrivals, half_window(in->cut),
                                    mr_cut_times_of(in->cut).session.report_ns);
    if (!status)
        status = number_return(in);
    if (!status)
        status = create_session(in);
    if (!status)
        status = mr_cut_lanes_create(&in->lanes, in->instance, in->cut, in->receiver, &in->room);
    if (!status)
        status = mr_wire_writer_create(&in->writer, &(mr_wire_writer_params){0});
    if (!status)
        status = mr_cut_reader(&in->reader, in->instance->run, in->cut, in->importer, &reading);
    return status ? status : mr_cut_io_thread(&in->io_thread, in->cut, false, &carrying);
}

static int open(mr_stage *self) {
    cut_in *in = self->state;
    in->self = self;
    in->cut = self->options;
    in->instance = self->flow;
    in->layouts = layouts_taken(in->instance->run->plan,
                                (int)(in->instance->vertex - in->instance->run->plan->vertices));
    in->renews = mr_outlets_mark_gaps(&in->instance->outlets) &&
                 mr_cut_maker(in->instance->run->plan, in->instance->vertex) >= 0;
    in->reporter = mr_cut_report_begin(in->instance, in->cut);
    in->stop_ns = mr_cut_times_of(in->cut).stop_ns;
    in->look_ns = mr_cut_ends_are_published() ? 0 : INT64_MAX;
    mr_task_init(&in->room, in->instance->run->executor, report_room, in);
    mr_task_init(&in->messages, in->instance->run->executor, read_ring_messages, in);
    mr_task_init(&in->turn, in->instance->run->executor, take_turn, in);
    mr_task_for_upkeep(&in->messages);
    mr_task_for_upkeep(&in->turn);
    in->has_tasks = true;
    int status = create_parts(in);
    if (!status) {
        watch_rings(in);
        mr_arrivals_attach(in->arrivals, in->io_thread);
        mr_ending_hold(in->instance->run->ending, 1);
        in->holding = true;
        if ((status = mr_io_thread_start(in->io_thread)))
            mr_ending_release(in->instance->run->ending);
    }
    if (status)
        end_sources(in->instance);
    return status;
}

static void close_stage(mr_stage *self) {
    cut_in *in = self->state;
    if (!in->has_tasks)
        return;
    mr_task_unwatch(&in->messages);
    mr_task_unpoll(&in->messages);
    atomic_store(&in->closing, true);
    if (in->io_thread)
        mr_io_thread_wake(in->io_thread);
    mr_io_thread_close(&in->io_thread, LINGER_MS);
    mr_cut_report_end(&in->reporter);
    mr_task_fini(&in->room);
    mr_task_fini(&in->messages);
    mr_task_fini(&in->turn);
    mr_cut_lanes_destroy(&in->lanes);
    mr_receiver_destroy(&in->receiver);
    mr_wire_writer_destroy(&in->writer);
    mr_wire_reader_destroy(&in->reader);
    mr_free(in->shares);
    mr_cut_importer_destroy(&in->importer);
    mr_arrivals_close(&in->arrivals);
}

static int process(mr_stage *self, mr_io *io) {
    return mr_io_forward(io, 0);
}

static const mr_port inputs[] = {{.name = "in", .help = "frames that another node has sent"}, {0}};
static const mr_port outputs[] = {{.name = "out", .help = "the same frames"}, {0}};

static const mr_stage_hooks hooks = {.never_opened = end_sources};

const mr_stage_type mr_cut_in_stage = {
    .name = "cut in",
    .summary = "receives frames from another node; inserted by the planner",
    .inputs = inputs,
    .outputs = outputs,
    .options_bytes = sizeof(mr_cut),
    .state_bytes = sizeof(cut_in),
    .entry = MR_ENTRY_SHARED,
    .hooks = &hooks,
    .open = open,
    .process = process,
    .close = close_stage,
    .stop = stop,
};
