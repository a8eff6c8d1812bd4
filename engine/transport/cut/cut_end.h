/* What both ends of a cut have in common: who they say they are, their sockets, what they tell the log. Internal to
 * engine/transport. */
#ifndef MILLRACE_TRANSPORT_CUT_END_H
#define MILLRACE_TRANSPORT_CUT_END_H

#include "engine/flow/graph.h"
#include "engine/observe/audit.h"
#include "engine/transport/zmq/io_thread.h"
#include "engine/transport/cut/cut.h"
#include "engine/transport/cut/cut_share.h"
#include "engine/transport/session/session.h"

/* Of mr_cut, with what stands for fields that are zero. */
typedef struct mr_cut_times {
    mr_session_timing session;
    int64_t stop_ns;
    int64_t handshake_ns;
} mr_cut_times;
mr_cut_times mr_cut_times_of(const mr_cut *cut);

/* What this process's end says of itself. Of formats only what is the same in all nodes: the one that opens a source
 * knows more of it than the others, and frames carry their own. */
mr_session_self mr_cut_self(const mr_cut *cut, const mr_plan_vertex *vertex);
/* Whether all cuts on the way to this vertex are reliable, so that frames of the same identity are the same frame and none
 * is to pass twice. Behind a live cut a process that begins anew is a new run, whose frames are to pass. */
bool mr_cut_is_exact(const mr_plan *plan, const mr_plan_vertex *vertex);
/* The run's number: that of MILLRACE_RUN. Else 0, whichever it is: what comes to a receiver that lives is one run, also
 * where the sender was started again. Only behind live cuts a process that reads sources is a run of its own. */
uint64_t mr_cut_run(const mr_plan *plan, const mr_plan_vertex *vertex, uint64_t own);
/* Whether any cut of the pipeline is live, so that frames may be lost unseen. */
bool mr_cut_any_is_live(const mr_plan *plan);

/* Whether all processes of that node have come to their end in order, so that whatever was given to it, or by it, is
 * settled: whoever watches over the nodes of this machine says so with a file NODE.ended in the folder $MILLRACE_ENDED. */
bool mr_cut_node_ended(const char *node);
/* Whether there is such a folder. */
bool mr_cut_ends_are_published(void);
/* How often that is asked, while nobody is there. */
#define MR_CUT_ENDED_NS INT64_C(200000000)

/* How codecs pass between processes, as some source of the pipeline knows; NULL where none does. */
const mr_media_codec *mr_cut_codec(const mr_plan *plan);

/* One wire reader for what comes; words are kept by the graph. `borrower`: where payloads in shared memory are found;
 * NULL: there are none. */
typedef struct mr_cut_reading {
    mr_names_share *(*whose)(void *context, uint64_t session); /* as in wire.h */
    void *context;
    size_t most_items;
} mr_cut_reading;
int mr_cut_reader(mr_wire_reader **reader, mr_graph *graph, const mr_cut *cut, mr_cut_importer *importer,
                  const mr_cut_reading *reading);

/* Opens the carrier: with a ROUTER where the cut goes out, else with a DEALER for each giving node. `params` without
 * id and sockets. */
int mr_cut_io_thread(mr_io_thread **io_thread, const mr_cut *cut, bool out, const mr_io_thread_params *params);

/* Tells the log and the audit log; since anybody may connect, not of everything where much comes at once. What
 * strangers do is counted apart, so that it keeps nobody from being told of peers. */
typedef struct mr_cut_reporter {
    const mr_cut *cut;
    mr_audit_allowance peers, strangers;
    int64_t absent_ns; /* when it is told that this end waits; 0: it does not; INT64_MAX: it is told */
    bool came;         /* the other end has been there */
    char gone[192];    /* how it went, and in what words; "": not yet */
    char refused[192]; /* why one of them, or a stranger, was refused last; "": none was */
} mr_cut_reporter;
mr_cut_reporter mr_cut_reporter_of(const mr_cut *cut);
/* Where this end has waited for some time for one that is not there, says so once, with the address at which that is
 * expected (NULL: others come here) and what ends the waiting. When it is to be called again. */
int64_t mr_cut_report_absence(mr_cut_reporter *reporter, bool waits, const char *address, int64_t now_ns);
/* A peer came, went or was refused. */
void mr_cut_report_peer(mr_cut_reporter *reporter, const mr_action *action, int64_t now_ns);
/* A frame may be what processes of the taking node die of, one after the other. */
void mr_cut_report_suspect(mr_cut_reporter *reporter, const mr_action *action, int64_t now_ns);
/* A message was refused, with the message of mr_fail. */
void mr_cut_report_refused(mr_cut_reporter *reporter, uint32_t route, int64_t now_ns);
/* At the end: enters how much was not told. */
void mr_cut_report_end(mr_cut_reporter *reporter);
/* For the summary: what the session and the carrier of one end have counted. By whoever has the carrier's duty. */
void mr_cut_report_counts(mr_instance *instance, mr_session_counts counts, const mr_io_thread *io_thread);

static inline int64_t mr_earlier_ns(int64_t a, int64_t b) {
    return a < b ? a : b;
}

#endif
