/* The producer's end of a cut: see session.h. */
#pragma once

#include "engine/transport/session/session.h"

typedef struct mr_sender mr_sender;

typedef struct mr_sender_params {
    mr_session_self self;
    uint64_t run;          /* proto: Welcome.run; 0: not known here, whichever it is */
    bool live;
    bool reports_lost;       /* a later join waits for frames that can be lost unseen: see mr_sender_miss */
    bool renewed;            /* the items come from the only consumer itself: see mr_sender_renew */
    bool passes;             /* they come from another node, and go back to it further on: likewise */
    const char *consumer;     /* the consuming node: only processes named NODE, or NODE.0 to one below NODE.`receivers`,
                                 are admitted; NULL: any name */
    uint32_t receivers;    /* planned receivers: the sender has finished when this many have seen every END */
    uint32_t most_peers;   /* admitted at once; at most MR_CUT_MOST_PEERS */
    uint32_t window_frames; /* not settled; at least 1 */
    uint64_t window_bytes;  /* UINT64_MAX: no bound */
    uint32_t batch_frames; /* most frames in one message */
    uint64_t batch_bytes;  /* a message takes no further frame once it has this many bytes, nor one with
                            which the results in its envelope would have more */
    uint32_t deaths;       /* a frame is set aside if this many processes died while they had it; 0: never */
    uint32_t refusals;     /* a frame whose message was refused so often is set aside; 0: never */
    const char *stage;     /* stage to which drops are attributed */
} mr_sender_params;

int mr_sender_create(mr_sender **sender, const mr_sender_params *params);
/* Unsettled items are not returned any more: call mr_sender_abandon before. */
void mr_sender_destroy(mr_sender **sender);

/* Whether a frame with this many bytes finds room now. */
bool mr_sender_has_room(const mr_sender *sender, uint64_t bytes);
/* Offers an item. On MR_OK the sender owns the frame's reference. MR_ERROR_AGAIN: no room; the caller keeps it and can
 * try again after a settlement or (live) after credit. MR_ERROR_DATA: larger than the whole window. A live cut without
 * peers discards marks other than END. */
int mr_sender_offer(mr_sender *sender, const mr_cut_item *item, int64_t now_ns);
/* A frame with that identity will not be offered. With `reports_lost`, one mark reports everything that was dropped
 * unseen, up to the last one (engine/data/gap.h): at once, or when a session begins or resumes. */
void mr_sender_miss(mr_sender *sender, const mr_identity *gone);
/* With `renewed`: what follows of the source was made by that process of the consumer, and what came before by a former
 * one. A consumer gets nothing that a former one made: that is absorbed ("made again"). With `passes`: by that process
 * of the other node. Items say so (proto: Items.made_by). */
void mr_sender_renew(mr_sender *sender, uint32_t source, uint64_t incarnation, int64_t now_ns);
/* Whether a former process made what comes of the source now: it must not be offered. */
bool mr_sender_is_former(const mr_sender *sender, uint32_t source);
/* A message was received; `route` is the transport's number for where it came from. */
int mr_sender_receive(mr_sender *sender, uint32_t route, const mr_cut_message *message, int64_t now_ns);
/* As mr_receiver_may_receive; if true, *route is the route of that peer. Also false if there is no such session. */
bool mr_sender_may_receive(const mr_sender *sender, uint64_t session, uint64_t number, uint32_t *route);
/* Which receiver (below `most_peers`) has that session. False: none. */
bool mr_sender_knows(const mr_sender *sender, uint64_t session, uint32_t *peer);
/* The received bytes are not a message: counts and answers it. */
void mr_sender_malformed(mr_sender *sender, uint32_t route);
/* A message for that session could not be written: its frames count as refused. */
void mr_sender_unwritten(mr_sender *sender, uint64_t session);
/* That planned receiver (its number in its node) will not come back: it has failed, and is not started again. Others
 * get its items, and its confirmation of ends is not needed. Frames are dropped as "no consumer" if all other receivers
 * have had the end of their source. */
void mr_sender_give_up(mr_sender *sender, uint32_t receiver, int64_t now_ns);
/* Whether a planned receiver is not connected and was not given up. */
bool mr_sender_lacks(const mr_sender *sender);
/* Whether all planned receivers were given up. */
bool mr_sender_is_forsaken(const mr_sender *sender);
/* The transport saw this connection close. */
void mr_sender_lost(mr_sender *sender, uint32_t route, int64_t now_ns);
/* Sets whether the run begins or continues for this process's producers. This and what receivers have delivered decide
 * what the sender reports to them. */
void mr_sender_set_run_state(mr_sender *sender, mr_run_state before);
/* The next thing to be done; false: nothing now. */
bool mr_sender_next(mr_sender *sender, int64_t now_ns, mr_action *action);
/* When mr_sender_next should be called at the latest, if nothing happens before; INT64_MAX: never. */
int64_t mr_sender_wake_ns(const mr_sender *sender);

/* Whether any receiver is there. */
bool mr_sender_has_peer(const mr_sender *sender);
/* Whether no peer is connected although there are items or reports to send. */
bool mr_sender_waits(const mr_sender *sender);
/* Frames that are not settled. */
uint32_t mr_sender_unsettled(const mr_sender *sender);
/* Every source has ended, everything is settled, `receivers` receivers know it, and all connected ones got BYE and have
 * answered. The sender does not wait for a peer that is silent for long. */
bool mr_sender_finished(const mr_sender *sender);
/* Sends BYE to all. Only these actions follow; receivers that connect later are rejected. */
void mr_sender_close(mr_sender *sender, const char *text);
/* Settles all that is not settled as dropped for `reason`; actions follow. Nothing more is offered: no receiver counts
 * as absent. */
void mr_sender_abandon(mr_sender *sender, const char *reason);
mr_session_counts mr_sender_counts(const mr_sender *sender);
