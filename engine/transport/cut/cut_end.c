#include "engine/transport/cut/cut_end.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "engine/plan/renewal.h"
#include "millrace/log.h"

/* ---- times ------------------------------------------------------------------------------------------------------- */

static const int64_t HEARTBEAT_NS = 1000000000, RETRY_NS = 200000000, STOP_NS = 8000000000,
                     HANDSHAKE_NS = 5000000000;
/* Reports wait this long, or until outcomes fill a good part of the window: each report wakes six threads. */
static const int64_t REPORT_NS = 5000000;
/* Longest time that a frame suspected of killing a consumer is under way alone. */
static const int64_t ALONE_NS = 2000000000;
enum { SILENT_BEATS = 3 };

static int64_t or_else(int64_t given, int64_t otherwise) {
    return given > 0 ? given : otherwise;
}

mr_cut_times mr_cut_times_of(const mr_cut *cut) {
    int64_t beat_ns = or_else(cut->heartbeat_ns, HEARTBEAT_NS);
    return (mr_cut_times){
        .session = {.hello_ns = or_else(cut->retry_ns, RETRY_NS),
                    .beat_ns = beat_ns,
                    .silence_ns = SILENT_BEATS * beat_ns,
                    .stall_ns = cut->lease_ns,
                    .report_ns = REPORT_NS,
                    .alone_ns = cut->lease_ns ? 2 * cut->lease_ns : ALONE_NS},
        .stop_ns = or_else(cut->stop_ns, STOP_NS),
        .handshake_ns = or_else(cut->handshake_ns, HANDSHAKE_NS),
    };
}

/* ---- who it is --------------------------------------------------------------------------------------------------- */

static int digit(char character) {
    static const char digits[] = "0123456789abcdef";
    const char *found = character ? strchr(digits, character | ('a' - 'A')) : NULL;
    return found ? (int)(found - digits) : -1;
}

/* 64 hexadecimal digits; all zero where it is not that. */
static void read_digest(const char *text, uint8_t digest[MR_DIGEST_BYTES]) {
    memset(digest, 0, MR_DIGEST_BYTES);
    if (!text || strlen(text) != 2 * MR_DIGEST_BYTES)
        return;
    for (size_t i = 0; i < MR_DIGEST_BYTES; i++)
        digest[i] = (uint8_t)(digit(text[2 * i]) << 4 | digit(text[2 * i + 1]));
}

mr_session_self mr_cut_self(const mr_run *run, const mr_cut *cut, const mr_plan_vertex *vertex) {
    mr_session_self self = {
        .name = cut->node,
        .incarnation = run->incarnation,
        .cut = cut->name,
        .formats = mr_payload_name(vertex->inputs[0].set.payload),
        .memory = "",
        .source_count = cut->source_count,
        .lane_count = vertex->source_count,
        .timing = mr_cut_times_of(cut).session,
    };
    read_digest(cut->digest, self.digest);
    return self;
}

static bool reads_any(const mr_plan *plan, const mr_plan_vertex *vertex) {
    for (size_t i = 0; i < vertex->source_count; i++)
        if (plan->vertices[vertex->sources[i]].node == vertex->node)
            return true;
    return false;
}

mr_order_cuts mr_cut_live_ones(const mr_plan *plan) {
    size_t live = 0;
    for (size_t i = 0; i < plan->cut_count; i++)
        live += plan->cuts[i].cut->mode == MR_CUT_LIVE;
    return live == 0 ? MR_ORDER_NONE_LIVE : live < plan->cut_count ? MR_ORDER_SOME_LIVE : MR_ORDER_ALL_LIVE;
}

uint64_t mr_cut_run(const mr_run *run, const mr_plan_vertex *vertex, uint64_t own) {
    const bool begins = !mr_cut_is_exact(run->plan, vertex) && reads_any(run->plan, vertex);
    return run->id.given ? run->id.number : begins ? own : 0;
}

/* Whether the supervisor has left that file, such as "worker.ended" or "worker.1.failed". */
static bool is_published(const char *node, const char *rest) {
    const char *folder = getenv("MILLRACE_ENDED");
    char path[PATH_MAX];
    return folder && snprintf(path, sizeof path, "%s/%s.%s", folder, node, rest) < (int)sizeof path &&
           access(path, F_OK) == 0;
}

bool mr_cut_node_ended(const char *node) {
    return is_published(node, "ended");
}

bool mr_cut_process_failed(const char *node, size_t processes, size_t replica) {
    char rest[32];
    snprintf(rest, sizeof rest, processes > 1 ? "%zu.failed" : "failed", replica);
    return is_published(node, rest);
}

bool mr_cut_ends_are_published(void) {
    return getenv("MILLRACE_ENDED") != NULL;
}

const mr_media_codec *mr_cut_codec(const mr_plan *plan) {
    for (size_t s = 0; s < plan->source_count; s++)
        if (plan->vertices[s].type->media_codec)
            return plan->vertices[s].type->media_codec;
    return NULL;
}

int mr_cut_kinds(const mr_plan *plan, mr_kinds *kinds) {
    const mr_spec *spec = plan->spec;
    int status = MR_OK;
    *kinds = mr_kinds_built_in();
    for (size_t i = 0; i < spec->source_count && !status; i++)
        status = mr_kinds_add(kinds, spec->sources[i].type->kinds);
    for (size_t i = 0; i < spec->stage_count && !status; i++)
        status = mr_kinds_add(kinds, spec->stages[i].type->kinds);
    return status;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

int mr_cut_reader(mr_wire_reader **reader, const mr_run *run, const mr_cut *cut, mr_cut_importer *importer,
                  const mr_cut_reading *reading) {
    const mr_wire_reader_params params = {
        .most_bytes = cut->max_message_bytes,
        .source_count = cut->source_count,
        .names = run->names,
        .whose = reading->whose,
        .whose_context = reading->context,
        .most_items = reading->most_items,
        .store = run->store,
        .map = importer ? mr_cut_import_buffer : NULL,
        .context = importer,
        .codec = mr_cut_codec(run->plan),
        .kinds = reading->kinds,
    };
    return mr_wire_reader_create(reader, &params);
}

/* ---- sockets ----------------------------------------------------------------------------------------------------- */

/* For a part that does not say how large frames are. */
static const uint64_t MOST_MESSAGE_BYTES = UINT64_C(256) << 20;
_Static_assert((int)MR_CUT_MOST_ENVELOPE == (int)MR_WIRE_MOST_ENVELOPE, "connections carry what writers write");
/* Connections per admitted consumer: some before HELLO, and closed ones not forgotten yet. Beyond this limit strangers
 * are closed and must retry. It is high enough that a consumer can send HELLO even if hundreds connect in a second. */
enum { ROUTES_PER_PEER = 4, SPARE_ROUTES = 128 };
/* A connection may be open without a session for this many handshake times: longer than libzmq's own limit, which is
 * reported with its reason. */
enum { HANDSHAKES = 2 };
/* Queued messages of one peer, beyond which TCP holds it back: a correct peer has credit for no more. Sent messages
 * have credit, and need no limit. */
enum { RECEIVED_MESSAGES = 1000 };

static size_t most_routes(const mr_cut *cut) {
    return ROUTES_PER_PEER * (size_t)(cut->max_peers > 0 ? cut->max_peers : 1) + SPARE_ROUTES;
}

static mr_zmq_params socket_params(const mr_cut *cut, bool out, size_t index) {
    mr_zmq_params params = {
        .id = cut->name,
        .type = out ? ZMQ_ROUTER : ZMQ_DEALER,
        .endpoint = out ? cut->listen : cut->connect[index],
        .bind = out,
        .key = cut->key,
        .max_message_bytes = (int64_t)(cut->max_message_bytes ? cut->max_message_bytes : MOST_MESSAGE_BYTES),
        .handshake_ns = mr_cut_times_of(cut).handshake_ns,
        .receive_hwm = RECEIVED_MESSAGES,
    };
    if (out) {
        params.max_peers = (int)most_routes(cut);
        params.unknown_ns = HANDSHAKES * params.handshake_ns;
        params.allow_count = cut->allow_count;
        params.allow = cut->allow;
    } else if (cut->allow_count) {
        params.server = cut->allow[index < cut->allow_count ? index : 0];
    }
    return params;
}

int mr_cut_io_thread(mr_io_thread **io_thread, const mr_cut *cut, bool out, const mr_io_thread_params *params) {
    mr_io_thread_params filled = *params;
    filled.id = cut->name;
    filled.socket_count = out ? 1 : cut->connect_count;
    filled.most_routes = most_routes(cut);
    mr_zmq_params *sockets = mr_calloc(filled.socket_count + 1, sizeof *sockets);
    if (!sockets)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the sockets of %s", cut->name);
    for (size_t i = 0; i < filled.socket_count; i++)
        sockets[i] = socket_params(cut, out, i);
    filled.sockets = sockets;
    int status = mr_io_thread_open(io_thread, &filled);
    mr_free(sockets);
    return status;
}

/* ---- telling ----------------------------------------------------------------------------------------------------- */

static const char *const changes[] = {
    [MR_PEER_JOINED] = "joined",   [MR_PEER_BROKEN] = "connection lost", [MR_PEER_RESTARTED] = "restarted",
    [MR_PEER_SILENT] = "silent",   [MR_PEER_STALLED] = "stalled",        [MR_PEER_LEFT] = "left",
    [MR_PEER_REJECTED] = "refused",
};

/* A service manager that starts nodes one after the other with a new version takes less than the second. */
static const int64_t ABSENCE_NS = 5000000000, REFUSAL_NS = 30000000000;

mr_cut_reporter mr_cut_report_begin(mr_instance *instance, const mr_cut *cut) {
    const mr_audit_allowance full = mr_audit_allowance_at(mr_now_ns());
    atomic_store(&instance->cut.absent, 1);
    return (mr_cut_reporter){.cut = cut, .peers = full, .strangers = full};
}

static void report_never(const mr_cut_reporter *reporter, const char *address) {
    const mr_cut *cut = reporter->cut;
    if (reporter->refused_ns && address)
        mr_log(MR_LOG_WARNING,
               "%s: %s and %s do not work together (%s): this node fails in %d s, unless %s is started again with the "
               "same pipeline and version",
               cut->name, cut->from_node, cut->to_node, reporter->refused,
               (int)((REFUSAL_NS - ABSENCE_NS) / 1000000000), cut->from_node);
    else if (*reporter->refused)
        mr_log(MR_LOG_WARNING,
               "%s: %s and %s do not work together (%s): this node waits until that is fixed and the other node is "
               "restarted, or until this node is stopped (SIGTERM)",
               cut->name, cut->from_node, cut->to_node, reporter->refused);
    else if (address)
        mr_log(MR_LOG_WARNING, "%s: %s does not answer at %s: it is not running%s", cut->name, cut->from_node, address,
               cut->key ? ", or does not know this node's key, or has a different key than expected" : "");
    else
        mr_log(MR_LOG_WARNING, "%s: %s has not connected to take frames: it is not running%s", cut->name, cut->to_node,
               cut->key ? ", or its key is not allowed to connect" : "");
}

/* Whether it will reconnect is not known: a restart and a final stop look the same from here. */
static void report_gap(const mr_cut_reporter *reporter, const char *address) {
    const mr_cut *cut = reporter->cut;
    if (address)
        mr_log(MR_LOG_WARNING,
               "%s: %s at %s is down (%s); this node waits for the frames that it has not sent yet, "
               "until that node is restarted or this node is stopped (SIGTERM)",
               cut->name, cut->from_node, address, reporter->gone);
    else
        mr_log(MR_LOG_WARNING, "%s: %s is down (%s); %s until it is restarted or this node is stopped (SIGTERM)",
               cut->name, cut->to_node, reporter->gone,
               cut->mode == MR_CUT_LIVE ? "its frames are dropped" : "its frames wait here");
}

int64_t mr_cut_report_absence(mr_cut_reporter *reporter, bool waits, const char *address, int64_t now_ns) {
    if (!waits)
        reporter->absent_ns = 0;
    else if (!reporter->absent_ns)
        reporter->absent_ns = now_ns + ABSENCE_NS;
    if (!waits || now_ns < reporter->absent_ns)
        return waits ? reporter->absent_ns : INT64_MAX;
    reporter->absent_ns = INT64_MAX;
    if (reporter->came)
        report_gap(reporter, address);
    else
        report_never(reporter, address);
    return INT64_MAX;
}

bool mr_cut_report_is_hopeless(const mr_cut_reporter *reporter, bool waits, int64_t now_ns, int64_t *wake_ns) {
    if (!waits || !reporter->refused_ns)
        return false;
    *wake_ns = mr_earlier_ns(*wake_ns, reporter->refused_ns + REFUSAL_NS);
    return now_ns >= reporter->refused_ns + REFUSAL_NS;
}

/* A peer that was reported as lost is reported as back. */
static bool note_change(mr_cut_reporter *reporter, const mr_action *action, int64_t now_ns) {
    bool missed = reporter->absent_ns == INT64_MAX;
    const char *text = action->of.text ? action->of.text : "";
    if (action->of.change == MR_PEER_JOINED) {
        reporter->came = true;
        reporter->refused_ns = 0;
    } else if (action->of.change == MR_PEER_REJECTED) {
        snprintf(reporter->refused, sizeof reporter->refused, "%s", text);
        bool lasts = action->of.reason == MR_REJECT_VERSION || action->of.reason == MR_REJECT_DIGEST ||
                     action->of.reason == MR_REJECT_CUT || action->of.reason == MR_REJECT_FORMATS;
        reporter->refused_ns = !lasts ? 0 : reporter->refused_ns ? reporter->refused_ns : now_ns;
    } else {
        snprintf(reporter->gone, sizeof reporter->gone, "%s%s%s", changes[action->of.change], *text ? ": " : "", text);
    }
    return missed;
}

/* A peer that has not identified itself. The consuming side knows producers by endpoint. */
static const char *unnamed(const mr_cut *cut) {
    size_t length = strlen(cut->from_node);
    bool gives = cut->node && strncmp(cut->node, cut->from_node, length) == 0 && strchr(".", cut->node[length]);
    return gives ? "an unknown node" : cut->from_node;
}

void mr_cut_report_peer(mr_cut_reporter *reporter, const mr_action *action, int64_t now_ns) {
    bool missed = note_change(reporter, action, now_ns), stranger = action->of.change == MR_PEER_REJECTED;
    mr_audit_allowance *allowance = stranger ? &reporter->strangers : &reporter->peers;
    const char *what = changes[action->of.change], *cut = reporter->cut->name;
    bool good = action->of.change == MR_PEER_JOINED || action->of.change == MR_PEER_LEFT;
    const char *name = action->of.name && *action->of.name ? action->of.name : unnamed(reporter->cut);
    const char *text = action->of.text ? action->of.text : "";
    mr_log_repeating(good && !missed ? MR_LOG_INFO : MR_LOG_WARNING, what, "%s: %s: %s%s%s", cut, name, what,
                     *text ? ": " : "", text);
    if (mr_audit_may(allowance, now_ns))
        mr_audit("cut peer", mr_audit_text("cut", cut), mr_audit_text("peer", name), mr_audit_text("what", what),
             mr_audit_text("why", text), mr_audit_number("left_out", mr_audit_left_out(allowance)));
}

enum { FRAME_TEXT = 160 };

static const char *name_frame(const mr_cut *cut, const mr_identity *frame, char text[FRAME_TEXT]) {
    snprintf(text, FRAME_TEXT, "frame %" PRIu64 " of %s (epoch %" PRIu32 ", sub %" PRIu32 ")", frame->seq,
             cut->source_ids[frame->source], frame->epoch, frame->sub);
    return text;
}

void mr_cut_report_suspect(mr_cut_reporter *reporter, const mr_action *action, int64_t now_ns) {
    char why[512], frame[FRAME_TEXT];
    snprintf(why, sizeof why,
             "like one before it, it had %s first in hand, which may be what they die of: `dead_letters: FOLDER` under "
             "`cut` sets such frames aside", name_frame(reporter->cut, &action->item.identity, frame));
    mr_log_repeating(MR_LOG_WARNING, reporter->cut->name, "%s: %s: died again: %s", reporter->cut->name,
                     action->of.name, why);
    if (mr_audit_may(&reporter->peers, now_ns))
        mr_audit("cut peer", mr_audit_text("cut", reporter->cut->name), mr_audit_text("peer", action->of.name),
             mr_audit_text("what", "died again"), mr_audit_text("why", why),
             mr_audit_number("left_out", mr_audit_left_out(&reporter->peers)));
}

static const char kept_in[] = "it is kept in ";
static const char not_kept[] = "`dead_letters: FOLDER` under `cut` keeps such frames";

void mr_cut_report_set_aside(mr_cut_reporter *reporter, const mr_action *action, bool kept, int64_t now_ns) {
    const mr_cut *cut = reporter->cut;
    char frame[FRAME_TEXT], why[512];
    bool refused = strcmp(action->settled.reason, "refused") == 0;
    snprintf(why, sizeof why, "%s is a dead letter and is dropped, since %s; %s%s",
             name_frame(cut, &action->item.identity, frame),
             refused ? "its message was refused several times" : "several processes died of it",
             kept ? kept_in : not_kept,
             kept ? cut->dead_letters : "");
    mr_log_repeating(MR_LOG_ERROR, cut->name, "%s: %s", cut->name, why);
    if (mr_audit_may(&reporter->peers, now_ns))
        mr_audit("cut frame", mr_audit_text("cut", cut->name), mr_audit_text("what", "set aside"),
                 mr_audit_text("why", why), mr_audit_number("left_out", mr_audit_left_out(&reporter->peers)));
}

void mr_cut_report_too_large(const mr_cut *cut, const mr_cut_item *item, bool kept) {
    char frame[FRAME_TEXT];
    mr_log_repeating(MR_LOG_ERROR, cut->name,
                     "%s: %s is dropped: its results take %" PRIu64 " bytes, and a message may have %d without its "
                     "payload; let the stages before the cut find fewer objects, or leave out their masks; %s%s",
                     cut->name, name_frame(cut, &item->identity, frame), (uint64_t)item->envelope_bytes,
                     MR_CUT_MOST_ENVELOPE, kept ? kept_in : not_kept, kept ? cut->dead_letters : "");
}

void mr_cut_report_refused(mr_cut_reporter *reporter, uint32_t route, int64_t now_ns) {
    mr_log_repeating(MR_LOG_WARNING, reporter->cut->name, "%s: a message of connection %" PRIu32 " is refused: %s",
                     reporter->cut->name, route, mr_message());
    if (mr_audit_may(&reporter->strangers, now_ns))
        mr_audit("cut message refused", mr_audit_text("cut", reporter->cut->name), mr_audit_number("connection", route),
             mr_audit_text("why", mr_message()), mr_audit_number("left_out", mr_audit_left_out(&reporter->strangers)));
}

void mr_cut_report_end(mr_cut_reporter *reporter) {
    if (!reporter->cut)
        return; /* it was never opened */
    mr_audit_settle(&reporter->peers, "cut peer", "cut", reporter->cut->name);
    mr_audit_settle(&reporter->strangers, "cut message refused", "cut", reporter->cut->name);
}

/* ---- counts ------------------------------------------------------------------------------------------------------ */

static void put(_Atomic uint64_t *where, uint64_t count) {
    atomic_store_explicit(where, count, memory_order_relaxed);
}

void mr_cut_report_counts(mr_instance *instance, mr_session_counts counts, const mr_io_thread *io_thread) {
    mr_cut_tally *tally = &instance->cut;
    put(&tally->frames, counts.frames);
    put(&tally->again, counts.again);
    put(&tally->set_aside, counts.set_aside);
    put(&tally->sessions, counts.sessions);
    put(&tally->peers, counts.peers);
    put(&tally->absent, counts.absent);
    put(&tally->stale, counts.stale);
    put(&tally->malformed, counts.malformed);
    put(&tally->rejected, counts.rejected);
    put(&tally->refused, mr_io_thread_refused(io_thread));
}
