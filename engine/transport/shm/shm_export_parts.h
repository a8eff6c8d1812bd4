/* What the files of the producer's end share: shm_export.c, where peers come and go, and shm_export_peer.c, what each
 * of them is lent and told. All with the export's lock. */
#ifndef MILLRACE_TRANSPORT_SHM_EXPORT_PARTS_H
#define MILLRACE_TRANSPORT_SHM_EXPORT_PARTS_H

#include <pthread.h>

#include "engine/data/slab.h"
#include "engine/transport/shm/shm.h"
#include "engine/transport/shm/shm_area.h"
#include "engine/transport/shm/shm_socket.h"

enum { MR_SHM_STRANGERS = 16 };

/* A pool as one peer knows it. Its number is its place, and above that a count that tells it from what was there
 * before. */
typedef struct passed_pool {
    mr_slab *slab; /* NULL: the place is free */
    uint32_t number;
} passed_pool;

/* Invited, then attached, then gone; the caller holds it until it is dropped. */
struct mr_shm_peer {
    mr_shm_peer *next;
    uint8_t token[MR_SHM_TOKEN_BYTES];
    int fd, bell; /* -1: not attached */
    bool gone;
    bool heeded;       /* the export's bell is to be rung for its notes */
    bool armed;        /* and for leases */
    bool told;         /* mr_shm_export_look has said since then that leases have come back */
    mr_shm_area *area; /* stays for the last notes of one that is gone */
    uint64_t taken;    /* leases, from their ring */
    uint32_t free_count;
    uint32_t free[MR_SHM_LEASES]; /* numbers of leases that are not out */
    mr_buffer *lent[MR_SHM_LEASES];
    uint32_t passed_count; /* pools so far */
    passed_pool pools[MR_SHM_POOLS];
};

struct mr_shm_export {
    pthread_mutex_t lock; /* guards all below */
    mr_shm_listener listener;
    int poll, bell;
    mr_shm_offer offer;
    mr_shm_peer *peers;
    int strangers[MR_SHM_STRANGERS]; /* connected, and have not shown a token; -1: free */
    size_t next_stranger;     /* whose place the next one takes */
    uint64_t closings;        /* of slabs, when last looked */
};

/* Nothing that it was told or holds counts any more; what it has said may still be fetched. */
void mr_shm_peer_detach(mr_shm_export *self, mr_shm_peer *peer);
/* The same of one that breaks the rules, with the message of mr_fail; it is not heard any more, either. */
void mr_shm_peer_banish(mr_shm_export *self, mr_shm_peer *peer);
/* Takes back what it has let go of. */
void mr_shm_peer_collect(mr_shm_export *self, mr_shm_peer *peer);
/* Has the export's bell rung for what comes from now on; what has come already is rung for here. */
void mr_shm_peer_arm(mr_shm_export *self, mr_shm_peer *peer);
/* Tells it of pools that are no more. False: of some not yet, for want of room. */
bool mr_shm_peer_withdraw(mr_shm_export *self, mr_shm_peer *peer);

#endif
