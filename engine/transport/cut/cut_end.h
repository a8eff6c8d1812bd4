/* Code that both ends of a cut share: identity, sockets, logging. Internal to engine/transport. */
#pragma once

#include "engine/base/clock.h"
#include "engine/flow/instance/instance.h"
#include "engine/observe/audit_log.h"
#include "engine/plan/cut.h"
#include "engine/transport/cut/cut_share.h"
#include "engine/transport/cut/order.h"
#include "engine/transport/session/session.h"
#include "engine/transport/wire/wire_types.h"
#include "engine/transport/zmq/io_thread.h"

/* mr_cut's times, with defaults for zero fields. */
typedef struct mr_cut_times {
    mr_session_timing session;
    int64_t stop_ns;
    int64_t handshake_ns;
} mr_cut_times;
mr_cut_times mr_cut_times_of(const mr_cut *cut);

/* The identity of this process's end, without result kinds. It includes only the formats that all nodes can know: the
 * node that opens a source knows more, and frames carry formats themselves. */
mr_session_self mr_cut_self(const mr_run *run, const mr_cut *cut, const mr_plan_vertex *vertex);
/* The run's number: MILLRACE_RUN, else 0 (any): everything that arrives while a receiver lives is one run, even if the
 * sender restarts. Only after live cuts does a process that reads sources start a run. */
uint64_t mr_cut_run(const mr_run *run, const mr_plan_vertex *vertex, uint64_t own);
/* Whether any cut of the pipeline is live, so that frames may be lost unseen, or all are. */
mr_order_cuts mr_cut_live_ones(const mr_plan *plan);

/* Whether all processes on that node have ended regularly, so that all frames to and from it are settled. This
 * machine's supervisor records it as a file NODE.ended in the folder $MILLRACE_ENDED. */
bool mr_cut_node_ended(const char *node);
/* Whether that process of a node with so many has failed and is not started again: a file NODE.failed, or
 * NODE.REPLICA.failed if the node has several. */
bool mr_cut_process_failed(const char *node, size_t processes, size_t replica);
/* Whether there is such a folder. */
bool mr_cut_ends_are_published(void);
/* Interval between these checks, while a peer is missing. */
#define MR_CUT_ENDED_NS INT64_C(200000000)

/* Codec descriptions from some source in the pipeline. NULL: no source has any. */
const mr_media_codec *mr_cut_codec(const mr_plan *plan);

/* The result kinds that frames in the pipeline can carry: built-in ones, and those that stage types define. */
int mr_cut_kinds(const mr_plan *plan, mr_kinds *kinds);

/* Creates the wire reader; names are kept by the run. `importer`: maps payloads in shared memory; NULL: refused. */
typedef struct mr_cut_reading {
    mr_names_share *(*whose)(void *context, uint64_t session); /* as in wire.h */
    void *context;
    size_t most_items;
    const mr_kinds *kinds;
} mr_cut_reading;
int mr_cut_reader(mr_wire_reader **reader, const mr_run *run, const mr_cut *cut, mr_cut_importer *importer,
                  const mr_cut_reading *reading);

/* Opens the I/O thread: with a ROUTER at the producer, else with a DEALER for each producing node. `params` without id
 * and sockets. */
int mr_cut_io_thread(mr_io_thread **io_thread, const mr_cut *cut, bool out, const mr_io_thread_params *params);

/* Writes to the log and the audit log; rate-limited, since anybody may connect. Strangers are counted apart, so that
 * they do not suppress reports on peers. */
typedef struct mr_cut_reporter {
    const mr_cut *cut;
    mr_audit_allowance peers, strangers;
    int64_t absent_ns; /* when to report that this end waits; 0: it does not wait; INT64_MAX: reported */
    bool came;         /* the other end has been there */
    char gone[192];    /* how it was lost, as reported; "": not yet */
    char refused[192]; /* why a peer or a stranger was refused last; "": none was */
    int64_t refused_ns; /* since when, without one that joined; 0: none was */
} mr_cut_reporter;
/* The instance's cut counts as without its other end until its first counts. */
mr_cut_reporter mr_cut_report_begin(mr_instance *instance, const mr_cut *cut);
/* Reports once that this end has waited for some time, the address at which the peer is expected (NULL: it connects
 * here), and what ends the waiting. Returns the time of the next call. */
int64_t mr_cut_report_absence(mr_cut_reporter *reporter, bool waits, const char *address, int64_t now_ns);
/* Whether the producer has refused this end for too long to change: another version, or another pipeline. `waits`: as
 * above. *wake_ns: the next call must not be later. For the consuming side only: a producer can refuse anybody. */
bool mr_cut_report_is_hopeless(const mr_cut_reporter *reporter, bool waits, int64_t now_ns, int64_t *wake_ns);
/* A peer came, went or was refused. */
void mr_cut_report_peer(mr_cut_reporter *reporter, const mr_action *action, int64_t now_ns);
/* A frame may have killed processes on the consuming node. */
void mr_cut_report_suspect(mr_cut_reporter *reporter, const mr_action *action, int64_t now_ns);
/* A frame is given up: a dead letter, kept in the folder for those or not. */
void mr_cut_report_set_aside(mr_cut_reporter *reporter, const mr_action *action, bool kept, int64_t now_ns);
/* A frame is dropped, since its results take more bytes than an envelope may have. Any thread. */
void mr_cut_report_too_large(const mr_cut *cut, const mr_cut_item *item, bool kept);
/* A message was refused, with the message of mr_fail. */
void mr_cut_report_refused(mr_cut_reporter *reporter, uint32_t route, int64_t now_ns);
/* At the end: reports how much was left out. */
void mr_cut_report_end(mr_cut_reporter *reporter);
/* For the summary: counters of the session and the I/O thread. I/O thread only. */
void mr_cut_report_counts(mr_instance *instance, mr_session_counts counts, const mr_io_thread *io_thread);
