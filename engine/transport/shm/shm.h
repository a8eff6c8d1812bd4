/* Payload in shared memory between nodes on one host: a frame crosses as a reference to its place.
 *
 * The producer's pools of kind MR_MEMORY_SHARED are in memfds (engine/data/slab.h). An **export** is the producer's end
 * of one cut: it listens on a unix socket in a folder that only its user may enter. The two ends exchange its address,
 * and a token of the consumer, over ZeroMQ. The consumer then opens an **import**, and pools are passed when they are
 * first needed: as memfds, sealed against shrinking, growing and new writers, which the consumer checks and maps
 * read-only. So the producer cannot make the consumer's reads fail (SIGBUS), and the consumer cannot change a frame.
 *
 * Leases. mr_shm_export_lend fills a reference to (a part of) a buffer and keeps the buffer in use for that peer; the
 * reference travels in the envelope; mr_shm_import_take makes a buffer of it. When the last reference to that buffer is
 * dropped the lease returns through a ring in memory that both map, without a system call and without a message.
 * Acknowledgements would not do: they report the outcome of a frame, and a stage may keep a picture longer than that.
 * The producer checks the ring against its own leases.
 *
 * Records. Small messages go through byte rings in the same memory, one each way (shm_records.h), whole and in order. A
 * posted record has arrived, even if its writer dies.
 *
 * Doorbells. Each end has one eventfd for all its peers, and passes it to them. An end that is going to sleep says so
 * in the memory; only then the next lease or record rings its doorbell, once. No other thread is involved. While an end
 * polls the memory nothing rings. A hostile peer can ring needlessly, or suppress the doorbell until something else
 * wakes the other end.
 *
 * Death. The unix socket closes when either process ends, however it ended. The producer then takes back all leases of
 * the peer; the consumer's buffers stay readable as long as they are held. A slot's generation rises each time it is
 * refilled: stale references are refused.
 *
 * Fall-back. If anything is missing (no memfd, another host, another user, no file descriptors) frames travel inline;
 * create, open and attaching report the reason, and the caller logs it once.
 *
 * Threads: any, each object has a lock; the last reference of a buffer may be dropped by any thread. Nothing blocks.
 * Errors: MR_ERROR_MEMORY; MR_ERROR_UNAVAILABLE, MR_ERROR_PERMISSION: stay inline; MR_ERROR_PROTOCOL: the peer is
 * hostile or broken; MR_ERROR_AGAIN: not now. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/transport/shm/shm_limits.h"
#include "millrace/frame.h"

/* The place of (a part of) a buffer. Valid on one link and once. */
typedef struct mr_shm_reference {
    uint32_t pool;       /* number of the pool on this link, below MR_SHM_POOLS */
    uint32_t slot;       /* in the pool */
    uint64_t generation; /* of the slot's contents */
    uint32_t lease;      /* number of the lease on this link, below MR_SHM_LEASES */
    uint64_t offset;     /* in the slot, bytes */
    uint64_t bytes;
} mr_shm_reference;

/* The address of an export: the producer sends it to all possible peers. */
typedef struct mr_shm_offer {
    char host[40];  /* which start of which machine: a path means nothing elsewhere */
    char path[108]; /* of the unix socket */
} mr_shm_offer;

/* The identity of a consumer: it chooses a random token and sends it to the producer over their ordinary connection, so
 * that the producer can tell which of its peers connects. */
typedef struct mr_shm_guest {
    char host[40];
    uint8_t token[16];
} mr_shm_guest;

/* Each as one line, and back. MR_ERROR_PROTOCOL: it is none. */
enum { MR_SHM_TEXT = 160 };
const char *mr_shm_offer_print(const mr_shm_offer *offer, char text[MR_SHM_TEXT]);
int mr_shm_offer_parse(const char *text, mr_shm_offer *offer);
const char *mr_shm_guest_print(const mr_shm_guest *guest, char text[MR_SHM_TEXT]);
int mr_shm_guest_parse(const char *text, mr_shm_guest *guest);
/* A guest of this host with a new token. MR_ERROR_UNAVAILABLE. */
int mr_shm_guest_make(mr_shm_guest *guest);
/* Which start of which machine this is. */
void mr_shm_host(char host[40]);

/* ---- the producer ------------------------------------------------------------------------------------------------ */

typedef struct mr_shm_export mr_shm_export;
typedef struct mr_shm_peer mr_shm_peer; /* the export's; from invite to drop */

/* `folder`: the parent of the socket's folder; NULL: $XDG_RUNTIME_DIR, else /tmp. */
int mr_shm_export_create(mr_shm_export **export, const char *folder);
/* Drops all peers. Their buffers are in use no longer. */
void mr_shm_export_destroy(mr_shm_export **export);

/* Readable when mr_shm_export_drive has something to do, which looks at the doorbell, or notes are to be fetched. */
int mr_shm_export_fd(const mr_shm_export *export);
/* Accepts peers, and takes back the memory that they released or that dead ones held. Called in each turn of the
 * caller's loop. `sleeps`: the caller is about to wait for the descriptor, which becomes readable if something is
 * released or a record arrives. Failures concern single peers and are logged. */
void mr_shm_export_drive(mr_shm_export *export, bool sleeps);

void mr_shm_export_offer(const mr_shm_export *export, mr_shm_offer *offer);
/* A new peer, which may come from now on. MR_ERROR_UNAVAILABLE: it is of another host. */
int mr_shm_export_invite(mr_shm_export *export, const mr_shm_guest *guest, mr_shm_peer **peer);
/* Whether it has come and has not gone: only then references mean anything to it. */
bool mr_shm_export_attached(mr_shm_export *export, mr_shm_peer *peer);
/* The peer is gone, or no longer believed in: takes back all it holds and sets *peer to NULL; NULL is allowed. */
void mr_shm_export_drop(mr_shm_export *export, mr_shm_peer **peer);

/* Lends bytes [offset, offset + bytes) of a buffer of a shared pool and keeps the buffer in use until they come back.
 * MR_ERROR_AGAIN, without a message: send it inline (other memory, not attached, no lease free, pool not passed). */
int mr_shm_export_lend(mr_shm_export *export, mr_shm_peer *peer, mr_buffer *buffer, size_t offset, size_t bytes,
                       mr_shm_reference *reference);
/* Leases that the peer holds. */
size_t mr_shm_export_leased(mr_shm_export *export, mr_shm_peer *peer);

/* The place of the next record for a peer, and the most bytes that it may have, up to MR_SHM_RECORD_BYTES. 0: not
 * attached, or no room: send the message over the socket. The consumer sends records likewise (mr_shm_import_room). */
size_t mr_shm_export_room(mr_shm_export *export, mr_shm_peer *peer, uint8_t **place);
/* Sends `bytes` bytes, at least 1, of the record written there, with no call for that peer in between. */
void mr_shm_export_post(mr_shm_export *export, mr_shm_peer *peer, size_t bytes);
/* The next note of a peer, of at most `room` bytes (MR_SHM_RECORD_BYTES is enough). MR_ERROR_AGAIN, without a message:
 * none now; else there will be none: MR_ERROR_UNAVAILABLE: it is gone, MR_ERROR_PROTOCOL. */
int mr_shm_export_fetch(mr_shm_export *export, mr_shm_peer *peer, void *data, size_t room, size_t *bytes);
/* Since mr_shm_export_drive said that it sleeps: whether something has come, told from memory alone and once for each
 * peer's notes and leases, until it is driven again. The doorbell is not rung from now on, unless this is the last:
 * then it is again. */
bool mr_shm_export_poll(mr_shm_export *export, bool last);
/* Whether the export's descriptor is to become readable for notes of this peer: true to begin with. */
void mr_shm_export_watch(mr_shm_export *export, mr_shm_peer *peer, bool watch);

/* ---- the consumer ------------------------------------------------------------------------------------------------ */

typedef struct mr_shm_import mr_shm_import;

/* A doorbell for any number of imports: an eventfd that does not block, which the caller waits for, reads and closes.
 * MR_ERROR_UNAVAILABLE. */
int mr_shm_doorbell(int *fd);

/* `doorbell`, which is borrowed, is written to when there are notes and mr_shm_import_arm was called before.
 * MR_ERROR_UNAVAILABLE: another host, or no such socket; MR_ERROR_PERMISSION: another user. */
int mr_shm_import_open(mr_shm_import **import, const mr_shm_offer *offer, const mr_shm_guest *guest, int doorbell);
/* Buffers that were taken live on. */
void mr_shm_import_close(mr_shm_import **import);

/* Makes a buffer (kind MR_MEMORY_SHARED, to be read only) of a reference. MR_ERROR_PROTOCOL: the reference is
 * refused: not within its pool, of a former generation, or held already; nothing was taken. */
int mr_shm_import_take(mr_shm_import *import, const mr_shm_reference *reference, mr_buffer **buffer);

/* Reads the next record, of at most `room` bytes (MR_SHM_RECORD_BYTES is enough); also handles withdrawn pools.
 * MR_ERROR_AGAIN, without a message: none now; MR_ERROR_UNAVAILABLE: the producer was gone before it identified this
 * consumer; MR_ERROR_PROTOCOL. If a producer is gone after records were exchanged, that is not reported here. */
int mr_shm_import_fetch(mr_shm_import *import, void *data, size_t room, size_t *bytes);
/* Whether the producer has closed its end of the socket, or was killed. One that was is not heard of otherwise, and its
 * ring still takes notes. */
bool mr_shm_import_is_closed(const mr_shm_import *import);
/* Asks for the doorbell. False: there are notes, or may be: call mr_shm_import_fetch before you sleep. */
bool mr_shm_import_arm(mr_shm_import *import);
/* As mr_shm_export_poll, since mr_shm_import_arm. */
bool mr_shm_import_poll(mr_shm_import *import, bool last);
/* As mr_shm_export_room and mr_shm_export_post. No room, either, as long as the producer has not said that it is
 * attached, which is heard in mr_shm_import_fetch. */
size_t mr_shm_import_room(mr_shm_import *import, uint8_t **place);
void mr_shm_import_post(mr_shm_import *import, size_t bytes);
