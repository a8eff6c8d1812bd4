/* Shared memory under a cut: the producer exports slots to consumers of this host, and the consumer imports them. I/O
 * thread only. Payloads that cannot be shared travel inline; the reason is logged once. Internal to engine.
 *
 * Numbered messages between both ends go through shared memory too (shm_message.h). That needs one wake-up in the other
 * process, where ZeroMQ needs three, and none while it is awake. A message that is too long or finds no room there goes
 * through ZeroMQ. So a session has two ways; each keeps messages whole and in order, and message numbers restore the
 * common order. A ring message whose turn has not come must wait for those still on the way through ZeroMQ. A posted
 * record has arrived. So a reader that has read the ring up to a ZeroMQ message cannot have missed an earlier one. */
#pragma once

#include "engine/plan/cut.h"
#include "engine/transport/session/session.h"
#include "engine/transport/shm/shm_message.h"

/* Ring messages of one peer that are read in a row: more than a ring has room for, so that all that were sent before a
 * certain moment are read. */
enum { MR_CUT_MOST_LETTERS = 32768 };

/* ---- the producing side ------------------------------------------------------------------------------------------ */

typedef struct mr_cut_exporter mr_cut_exporter;

/* *exporter stays NULL where nothing is to be shared, or can be; all functions accept that. MR_ERROR_MEMORY. */
int mr_cut_exporter_create(mr_cut_exporter **exporter, const mr_cut *cut);
void mr_cut_exporter_destroy(mr_cut_exporter **exporter);
/* For mr_session_self.memory; lives as long as the exporter. */
const char *mr_cut_exporter_text(const mr_cut_exporter *exporter);
/* Readable when mr_cut_exporter_work has something to do, or when messages arrived, except from consumers whose next
 * one must wait. -1 without. */
int mr_cut_exporter_fd(const mr_cut_exporter *exporter);
/* Takes returned leases back, before waiting for the descriptor. */
void mr_cut_exporter_work(mr_cut_exporter *exporter);
/* Any thread: whether the descriptor would be readable by now, had this not suppressed it, as it does until the `last`
 * poll. It makes no system call. */
bool mr_cut_exporter_poll(mr_cut_exporter *exporter, bool last);
/* A peer came or went. */
void mr_cut_exporter_update(mr_cut_exporter *exporter, const mr_action *action);
/* Sets the session that the next written message belongs to. */
void mr_cut_exporter_aim(mr_cut_exporter *exporter, uint64_t session);
/* mr_wire_writer_params.share, with the exporter as context. */
bool mr_cut_export_buffer(void *exporter, mr_buffer *buffer, size_t offset, size_t bytes, mr_shm_reference *reference);
/* Posts a message to the peer that mr_cut_exporter_aim has selected. False: it must go through ZeroMQ. */
bool mr_cut_exporter_post(mr_cut_exporter *exporter, const mr_cut_message *message, const mr_wire_part *parts,
                          size_t count);
/* Consumers have indices below this. */
size_t mr_cut_exporter_places(const mr_cut_exporter *exporter);
/* That consumer's next ring message, if it belongs to the consumer's session. Returns the same message until
 * mr_cut_exporter_take. False: none. */
bool mr_cut_exporter_next(mr_cut_exporter *exporter, size_t place, const mr_ring_message **message_in);
void mr_cut_exporter_take(mr_cut_exporter *exporter, size_t place);

/* ---- the consuming side ------------------------------------------------------------------------------------------ */

typedef struct mr_cut_importer mr_cut_importer;

/* As mr_cut_exporter_create. */
int mr_cut_importer_create(mr_cut_importer **importer, const mr_cut *cut);
/* Imported buffers stay valid. */
void mr_cut_importer_destroy(mr_cut_importer **importer);
const char *mr_cut_importer_text(const mr_cut_importer *importer);
/* Readable when messages arrived since mr_cut_importer_arm, except from producers whose next one must wait. -1
 * without. */
int mr_cut_importer_fd(const mr_cut_importer *importer);
/* The next ring message of that producer, until mr_cut_importer_take: the same each time. False: none. */
bool mr_cut_importer_next(mr_cut_importer *importer, uint32_t route, const mr_ring_message **message_in);
void mr_cut_importer_take(mr_cut_importer *importer, uint32_t route);
/* Posts a message to that producer. False: it must go through ZeroMQ. */
bool mr_cut_importer_post(mr_cut_importer *importer, uint32_t route, const mr_cut_message *message,
                          const mr_wire_part *parts, size_t count);
/* Call before waiting for the descriptor. False: messages arrived meanwhile, so do not wait. */
bool mr_cut_importer_arm(mr_cut_importer *importer);
/* Resets the descriptor. Before mr_cut_importer_arm. */
void mr_cut_importer_clear_doorbell(mr_cut_importer *importer);
/* As mr_cut_exporter_poll. */
bool mr_cut_importer_poll(mr_cut_importer *importer, bool last);
void mr_cut_importer_update(mr_cut_importer *importer, const mr_action *action);
/* Sets the producer that sent the next message. */
void mr_cut_importer_aim(mr_cut_importer *importer, uint32_t route);
/* mr_wire_reader_params.map, with the importer as context. */
int mr_cut_import_buffer(void *importer, const mr_shm_reference *reference, mr_buffer **buffer);
