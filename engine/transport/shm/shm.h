/* Payload in shared memory between nodes on one host: a frame crosses as a reference into that memory.
 *
 * The producer's MR_MEMORY_SHARED pools are in memfds (engine/data/slab.h). An **export** is the producer's end of one
 * cut. It listens on a unix socket in a folder that only its user may enter. The two ends exchange its address and a
 * consumer's token over ZeroMQ. The consumer then opens an **import**. The producer passes a pool when it is first
 * needed: as a memfd, sealed against shrinking, growing and new writers. The consumer checks it and maps it read-only.
 * So the producer cannot make the consumer's reads fail (SIGBUS), and the consumer cannot change a frame.
 *
 * Leases. mr_shm_export_lend fills a reference to (a part of) a buffer and keeps the buffer in use for that peer. The
 * reference travels in the envelope; mr_shm_import_take makes a buffer from it. When the last reference to that buffer
 * is dropped, the lease returns through a ring that both ends map, without a system call or a message. Acknowledgements
 * cannot do this: they report a frame's outcome, and a stage may keep a picture longer. The producer checks the ring
 * against the leases it gave.
 *
 * Records. Small messages go whole and in order through byte rings in the same memory, one each way (shm_records.h). A
 * posted record has arrived, even if the writer dies.
 *
 * Doorbells. Each end has one eventfd for all peers, and passes it to them. An end that is about to sleep writes that
 * into the memory; only then does the next lease or record ring the doorbell, once. No other thread is involved. While
 * an end polls the memory nothing rings. A hostile peer can ring needlessly, or suppress the doorbell until something
 * else wakes the other end.
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
#include "engine/transport/wire/wire.h"
#include "millrace/frame.h"

/* An export's address, which the producer sends to all possible peers. */
typedef struct mr_shm_offer {
    char host[40];  /* this machine and this boot: a path means nothing elsewhere */
    char path[108]; /* the unix socket's */
} mr_shm_offer;

/* A consumer's identity. It chooses a random token and sends it to the producer over the ordinary connection, so that
 * the producer can tell which peer connects. */
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
/* A guest on this host with a new token. MR_ERROR_UNAVAILABLE. */
int mr_shm_guest_make(mr_shm_guest *guest);
/* Identifies this machine and this boot. */
void mr_shm_host(char host[40]);

/* ---- the producer ------------------------------------------------------------------------------------------------ */

typedef struct mr_shm_export mr_shm_export;
typedef struct mr_shm_peer mr_shm_peer; /* the export's; from invite to drop */

/* `folder`: where to make the socket's folder. NULL: $XDG_RUNTIME_DIR, else /tmp. */
int mr_shm_export_create(mr_shm_export **export, const char *folder);
/* Drops all peers and frees the buffers they use. */
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

/* Lends bytes [offset, offset + bytes) from a shared pool's buffer and keeps the buffer in use until they come back.
 * MR_ERROR_AGAIN, without a message: the caller must send it inline (other memory, not attached, no lease free, pool
 * not passed). */
int mr_shm_export_lend(mr_shm_export *export, mr_shm_peer *peer, mr_buffer *buffer, size_t offset, size_t bytes,
                       mr_shm_reference *reference);
/* Leases that the peer holds. */
size_t mr_shm_export_leased(mr_shm_export *export, mr_shm_peer *peer);

/* The place of the next record for a peer, and the most bytes that it may have, up to MR_SHM_RECORD_BYTES. 0: not
 * attached, or no room: send the message over the socket. The consumer sends records likewise (mr_shm_import_room). */
size_t mr_shm_export_room(mr_shm_export *export, mr_shm_peer *peer, uint8_t **place);
/* Sends `bytes` bytes, at least 1, of the record written there, with no call for that peer in between. */
void mr_shm_export_post(mr_shm_export *export, mr_shm_peer *peer, size_t bytes);
/* A peer's next note, at most `room` bytes (MR_SHM_RECORD_BYTES is enough). MR_ERROR_AGAIN, without a message: none
 * now. No more can come after MR_ERROR_UNAVAILABLE (the peer is gone) or MR_ERROR_PROTOCOL. */
int mr_shm_export_fetch(mr_shm_export *export, mr_shm_peer *peer, void *data, size_t room, size_t *bytes);
/* Whether something has come since mr_shm_export_drive reported sleep. Looks only at memory, and reports each peer's
 * notes and leases once, until it is driven again. From now on the doorbell is not rung, unless `last`: then it is
 * again. */
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

/* Makes a read-only buffer (kind MR_MEMORY_SHARED) from a reference. MR_ERROR_PROTOCOL: the reference is outside its
 * pool, from an earlier generation, or held already; nothing was taken. */
int mr_shm_import_take(mr_shm_import *import, const mr_shm_reference *reference, mr_buffer **buffer);

/* Reads the next record, of at most `room` bytes (MR_SHM_RECORD_BYTES is enough); also handles withdrawn pools.
 * MR_ERROR_AGAIN, without a message: none now; MR_ERROR_UNAVAILABLE: the producer was gone before it identified this
 * consumer; MR_ERROR_PROTOCOL. If a producer is gone after records were exchanged, that is not reported here. */
int mr_shm_import_fetch(mr_shm_import *import, void *data, size_t room, size_t *bytes);
/* Whether the producer has closed its end of the socket, or was killed. Nothing else reports a killed producer, and its
 * ring still takes notes. */
bool mr_shm_import_is_closed(const mr_shm_import *import);
/* Asks for the doorbell. False: there are notes, or may be: call mr_shm_import_fetch before you sleep. */
bool mr_shm_import_arm(mr_shm_import *import);
/* As mr_shm_export_poll, since mr_shm_import_arm. */
bool mr_shm_import_poll(mr_shm_import *import, bool last);
/* As mr_shm_export_room and mr_shm_export_post. There is no room either until the producer has reported that it is
 * attached, which mr_shm_import_fetch reads. */
size_t mr_shm_import_room(mr_shm_import *import, uint8_t **place);
void mr_shm_import_post(mr_shm_import *import, size_t bytes);
