/* Cuts: links whose two ends are on different nodes.
 *
 * One cut carries one output port's frames to one other node, for any number of stages there. In the plan it is two
 * vertices with an edge between them (MR_ROLE_CUT_OUT, MR_ROLE_CUT_IN), one on each node, whose options are the same
 * mr_cut:
 *
 *     producer -> cut out   ~~~   cut in -> consumers
 *
 * A cut out is a sink. It passes each frame to the transport, which keeps the frame and the receipt until the other
 * side reports the outcome. The receipt notes that outcome with the stage's name there, so that the source node's
 * ledger is complete. It holds at most `window` frames (vertex.in_flight and queue count the frames that pools must
 * hold); without room it parks.
 *
 * A cut in opens a receipt for each frame that arrives, and reports the outcome when it closes. One source's frames and
 * marks stay in order.
 *
 * Both: host, one instance, one entry, one frame a call, MR_ENTRY_SHARED. Sources have the same numbers on all nodes.
 *
 * As long as the consuming side lives, everything that arrives over reliable cuts is one run: a restarted producer is
 * recognized by the frames that it repeats. After a live cut every process that reads sources starts a new run, unless
 * the environment variable MILLRACE_RUN (16 hexadecimal digits) names the run.
 *
 * A node that is started again after another has ended would wait for it forever; so the supervisor of the nodes
 * records those that have ended in the folder MILLRACE_ENDED, see cut_end.h. All frames sent to such a node were
 * settled: those that are read and sent once more are absorbed ("done before"), or, from sources that cannot repeat
 * them exactly, dropped ("no consumer"). Such a node sends nothing more. It also records each process that has failed
 * and is not started again: others neither wait for its frames, nor for it to take theirs. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum mr_cut_mode {
    MR_CUT_RELIABLE, /* frames are kept until an outcome is reported, and sent again if necessary */
    MR_CUT_LIVE      /* late frames are dropped by the policy of the vertex's queue, and those under way when a peer is
                        lost ("connection lost") */
} mr_cut_mode;

typedef enum mr_cut_compression { MR_CUT_PLAIN, MR_CUT_LZ4, MR_CUT_ZSTD } mr_cut_compression;

/* The window of the producer bounds the frames under way. Credit for exactly one window would run out with it, and
 * would have to be reported before the outcomes that make room: with more than one window both travel in one message.
 */
enum { MR_CUT_CREDIT = 2 };
/* The largest envelope of a message: all but payload. */
enum { MR_CUT_MOST_ENVELOPE = 4 << 20 };

/* Part of the plan; immutable, and the same on both sides except as noted. */
typedef struct mr_cut {
    const char *name;              /* "preprocess->center": producing port and consuming node; unique */
    const char *from_node, *to_node, *pipeline;
    const char *node;              /* this process's node, with the replica's number: "worker.2" */
    const char *digest;            /* the pipeline's as each node reads it: peers with another one are refused */
    mr_cut_mode mode;
    mr_cut_compression compression;
    bool checksum_payload;
    bool shared_memory;            /* on one host payload stays in shared memory */
    int window;                    /* frames that the producer keeps; at least 1 */
    int share;                     /* how many of them one source can have; 0: all */
    uint64_t window_bytes;         /* likewise payload bytes; 0: no bound known */
    uint64_t frame_bytes;          /* largest frame; 0: not known */
    uint64_t max_message_bytes;    /* largest part of a message: a peer that sends more is disconnected */
    int max_peers;                 /* connected consumers at once */
    int consumers;                    /* the consuming node's replicas: all must receive the end; at least 1 */
    const char *listen;            /* producer: the endpoint that it binds, "tcp://127.0.0.1:7001",
                                      "ipc:///run/x/camera.1" */
    size_t connect_count;          /* endpoints that the consumer connects to: one for each replica of the producing
                                      node */
    const char *const *connect;
    const char *key;               /* this process's key file (0600); NULL: no CURVE */
    size_t allow_count;            /* public keys, or files of them. Producer: those that may connect. Consumer: the
                                      producing node's, one for all or one for each in `connect` */
    const char *const *allow;
    size_t source_count;           /* all the pipeline's sources, by number */
    const char *const *source_ids;
    int64_t lease_ns;              /* how long a consumer may keep a frame without progress; 0: unlimited */
    int64_t heartbeat_ns;          /* between signs of life: a peer that is silent for three of these is lost */
    int64_t handshake_ns;          /* time for a connection to identify itself */
    int64_t retry_ns;              /* from a lost connection to the next attempt */
    int64_t stop_ns;               /* when stopping: how long frames that the producer still sends are accepted, and how
                                      long frames under way are waited for */
    const char *dead_letters;      /* folder; NULL: none */
} mr_cut;

/* Whether the consumer restores order: several processes share the producing node's work, and all frames go to one
 * consumer. If there are several consumers, each gets an arbitrary part. */
static inline bool mr_cut_restores_order(const mr_cut *cut) {
    return cut && cut->connect_count > 1 && cut->consumers < 2;
}
