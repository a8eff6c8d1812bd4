/* Shared memory under a cut: the giving side lends slots to takers of this host, the taking side borrows them. Used
 * with the carrier's duty. What cannot be shared crosses inline; why is told once. Internal to engine.
 *
 * Numbered messages between both ends go through shared memory, too, as letters (shm_letter.h): one wake-up of the
 * other process, where ZeroMQ has three, and none while that is awake. Those that find no room there, or are too long
 * for it, go through ZeroMQ. So a session has two ways, each of which keeps its messages whole and in order; their
 * numbers put both in one. A letter whose turn has not come waits for what is on its way through ZeroMQ; and since a
 * letter has arrived when it was sent, whoever has read all letters before a message of ZeroMQ's misses none that was
 * sent before it. */
#ifndef MILLRACE_TRANSPORT_CUT_SHARE_H
#define MILLRACE_TRANSPORT_CUT_SHARE_H

#include "engine/transport/cut/cut.h"
#include "engine/transport/session/session.h"
#include "engine/transport/shm/shm_message.h"

/* Letters of one other end that are read in a row: more than a ring has room for, so that all are read that were sent
 * before a certain moment. */
enum { MR_CUT_MOST_LETTERS = 32768 };

/* ---- the giving side --------------------------------------------------------------------------------------------- */

typedef struct mr_cut_exporter mr_cut_exporter;

/* *lender stays NULL where nothing is to be shared, or can be; all functions accept that. MR_ERROR_MEMORY. */
int mr_cut_exporter_create(mr_cut_exporter **exporter, const mr_cut *cut);
void mr_cut_exporter_destroy(mr_cut_exporter **exporter);
/* For mr_session_self.memory; lives as long as the lender. */
const char *mr_cut_exporter_text(const mr_cut_exporter *exporter);
/* Readable when mr_cut_exporter_work has something to do, or when there are letters, but for takers whose next one waits
 * for its turn; -1 without. */
int mr_cut_exporter_fd(const mr_cut_exporter *exporter);
/* Takes back what has come back, before the descriptor is waited for. */
void mr_cut_exporter_work(mr_cut_exporter *exporter);
/* Any thread: whether the descriptor would be readable by now, had this not kept it from that, as it does until the
 * `last` look. It takes no system call. */
bool mr_cut_exporter_poll(mr_cut_exporter *exporter, bool last);
/* A peer came or went. */
void mr_cut_exporter_update(mr_cut_exporter *exporter, const mr_action *action);
/* Of which session the message is that is written next. */
void mr_cut_exporter_aim(mr_cut_exporter *exporter, uint64_t session);
/* mr_wire_writer_params.share, with the lender as context. */
bool mr_cut_export_buffer(void *exporter, mr_buffer *buffer, size_t offset, size_t bytes, mr_shared_slot *slot);
/* Sends a message to whom mr_cut_exporter_aim has said as a letter. False: it must go through ZeroMQ. */
bool mr_cut_exporter_post(mr_cut_exporter *exporter, const mr_cut_message *message, const mr_wire_part *parts, size_t count);
/* Takers have places below this. */
size_t mr_cut_exporter_places(const mr_cut_exporter *exporter);
/* The next letter of the taker at that place, which is of the taker's session, until mr_cut_exporter_take: the same each
 * time. False: none is there. */
bool mr_cut_exporter_next(mr_cut_exporter *exporter, size_t place, const mr_ring_message **message_in);
void mr_cut_exporter_take(mr_cut_exporter *exporter, size_t place);

/* ---- the taking side --------------------------------------------------------------------------------------------- */

typedef struct mr_cut_importer mr_cut_importer;

/* As mr_cut_exporter_create. */
int mr_cut_importer_create(mr_cut_importer **importer, const mr_cut *cut);
/* Buffers that were borrowed live on. */
void mr_cut_importer_destroy(mr_cut_importer **importer);
const char *mr_cut_importer_text(const mr_cut_importer *importer);
/* Readable when letters have come since mr_cut_importer_arm, but of giving sides whose next one waited for its turn;
 * -1 without. */
int mr_cut_importer_fd(const mr_cut_importer *importer);
/* The next letter of that giving side, until mr_cut_importer_take: the same each time. False: none is there. */
bool mr_cut_importer_next(mr_cut_importer *importer, uint32_t route, const mr_ring_message **message_in);
void mr_cut_importer_take(mr_cut_importer *importer, uint32_t route);
/* Sends a message to that giving side as a letter. False: it must go through ZeroMQ. */
bool mr_cut_importer_post(mr_cut_importer *importer, uint32_t route, const mr_cut_message *message,
                          const mr_wire_part *parts, size_t count);
/* To be called before the descriptor is waited for. False: letters have come meanwhile, so do not wait. */
bool mr_cut_importer_arm(mr_cut_importer *importer);
/* Makes the descriptor unreadable, for who would not wait otherwise. Before mr_cut_importer_arm. */
void mr_cut_importer_clear_doorbell(mr_cut_importer *importer);
/* As mr_cut_exporter_poll. */
bool mr_cut_importer_poll(mr_cut_importer *importer, bool last);
void mr_cut_importer_update(mr_cut_importer *importer, const mr_action *action);
/* Whom the message came from that is read next. */
void mr_cut_importer_aim(mr_cut_importer *importer, uint32_t route);
/* mr_wire_reader_params.map, with the borrower as context. */
int mr_cut_import_buffer(void *importer, const mr_shared_slot *slot, uint64_t bytes, mr_buffer **buffer);

#endif
