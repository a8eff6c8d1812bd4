/* Cuts: links whose two ends are on different nodes.
 *
 * One cut carries what one output port gives to one other node, whatever number of stages take it there. In the plan
 * it is two vertices with an edge between them, one on each node, whose options are the same mr_cut:
 *
 *     producer -> cut out   ~~~   cut in -> consumers
 *
 * A cut out is a sink: it hands each frame over to the transport, which keeps it, and with it the receipt, until the
 * other side says what became of it. That outcome, with the name of the stage over there, is noted on the receipt, so
 * that the ledger of the source's node tells the whole truth. It holds `window` frames at most (vertex.in_flight and
 * queue count what pools must hold); without room it parks.
 *
 * A cut in opens a receipt for each frame that arrives, and sends on what becomes of it when it closes. Frames and
 * marks of one source stay in order.
 *
 * Both: host, one instance, one entry, one frame a call, MR_ENTRY_SHARED. Sources have the same numbers on all nodes.
 *
 * As long as the taking side lives, what comes over reliable cuts is one run: a giving side that is started again is known
 * by the frames that it gives once more. Behind a live cut every process that reads sources is a run of its own, unless the
 * environment variable MILLRACE_RUN (16 hexadecimal digits) says which run it belongs to.
 *
 * A node that is started again when another has come to its end already would wait for it without end; so who watches
 * over nodes tells of those that have, in the folder MILLRACE_ENDED, see cut_end.h. Everything that was given to such a
 * node was settled: what is read and given once more is absorbed ("done before"), or, of sources that cannot give the
 * same again, dropped ("no consumer"). Nothing more comes from such a node. */
#ifndef MILLRACE_TRANSPORT_CUT_H
#define MILLRACE_TRANSPORT_CUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "millrace/stage.h"

typedef enum mr_cut_mode {
    MR_CUT_RELIABLE, /* frames are kept until it is said what became of them, and sent again where need be */
    MR_CUT_LIVE      /* what is not taken in time is dropped by the policy of the vertex's queue, and what is under way
                        when a peer is lost ("connection lost") */
} mr_cut_mode;

typedef enum mr_cut_compression { MR_CUT_PLAIN, MR_CUT_LZ4, MR_CUT_ZSTD } mr_cut_compression;

/* The window of the giving side bounds what comes. Credit for as much would run out with it, and would have to be told
 * of before outcomes are, which make room there: with more windows than one, both go back in one message. */
enum { MR_CUT_CREDIT = 2 };

/* The plan's; immutable, and the same on both sides but for what is said to differ. */
typedef struct mr_cut {
    const char *name;              /* "preprocess->center": producing port and consuming node; unique */
    const char *from_node, *to_node, *pipeline;
    const char *node;              /* name of this process's node, with the number of its replica: "worker.2" */
    const char *digest;            /* of the pipeline as each node reads it: peers with another are refused */
    mr_cut_mode mode;
    mr_cut_compression compression;
    bool checksum_payload;
    bool shared_memory;            /* on one host payload stays in shared memory */
    int window;                    /* frames that the giving side keeps at most; at least 1 */
    int share;                     /* of them, that one source may have; 0: as many as there are */
    uint64_t window_bytes;         /* likewise bytes of payload; 0: no bound known */
    uint64_t frame_bytes;          /* most of one frame; 0: not known */
    uint64_t max_message_bytes;    /* of one part of a message: who sends more is cut off */
    int max_peers;                 /* takers at once */
    int consumers;                    /* replicas of the taking node: all of them are to see the end; at least 1 */
    const char *listen;            /* giving side: what it binds, "tcp://127.0.0.1:7001", "ipc:///run/x/camera.1" */
    size_t connect_count;          /* that the taking side connects to: one for each replica of the giving node */
    const char *const *connect;
    const char *key;               /* key file of this process's node (0600); NULL: no CURVE */
    size_t allow_count;            /* public keys, or files of them. Giving side: who may connect. Taking side: the
                                      giving node's, one for all or one for each in `connect` */
    const char *const *allow;
    size_t source_count;           /* all sources of the pipeline, by number */
    const char *const *source_ids;
    int64_t lease_ns;              /* how long a taker may keep a frame without a sign of progress; 0: without end */
    int64_t heartbeat_ns;          /* between signs of life: a peer that is silent for three of them is lost */
    int64_t handshake_ns;          /* until a connection must have said who it is */
    int64_t retry_ns;              /* from a lost connection to the next attempt */
    int64_t stop_ns;               /* asked to stop: how long what the giving side still sends is taken, and how long
                                      what is under way is waited for */
    const char *dead_letters;      /* folder; NULL: none */
} mr_cut;

/* Giving side: a sink. */
extern const mr_stage_type mr_cut_out_stage;
/* Taking side: one input port, to which the edge of the cut leads, and one output port. */
extern const mr_stage_type mr_cut_in_stage;

/* Whether frames are put in order again at the taking side: where several processes share the work of the giving
 * node, and all of it comes to one. Of several takers each gets a part, which nothing can be said of. */
static inline bool mr_cut_restores_order(const mr_cut *cut) {
    return cut && cut->connect_count > 1 && cut->consumers < 2;
}

static inline const mr_cut *mr_cut_of(const mr_stage_type *type, const void *options) {
    return type == &mr_cut_out_stage || type == &mr_cut_in_stage ? options : NULL;
}

#endif
