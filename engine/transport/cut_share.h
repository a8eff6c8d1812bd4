/* Shared memory under a cut: the giving side lends slots to takers of this host, the taking side borrows them. Used on
 * the carrier's thread. What cannot be shared crosses inline; why is told once. Internal to engine. */
#ifndef MILLRACE_TRANSPORT_CUT_SHARE_H
#define MILLRACE_TRANSPORT_CUT_SHARE_H

#include "engine/transport/cut.h"
#include "engine/transport/session.h"
#include "engine/transport/wire.h"

/* ---- the giving side ------------------------------------------------------------------------------------------- */

typedef struct mr_cut_lender mr_cut_lender;

/* *lender stays NULL where nothing is to be shared, or can be; all functions accept that. MR_ERROR_MEMORY. */
int mr_cut_lender_create(mr_cut_lender **lender, const mr_cut *cut);
void mr_cut_lender_destroy(mr_cut_lender **lender);
/* For mr_session_self.memory; lives as long as the lender. */
const char *mr_cut_lender_text(const mr_cut_lender *lender);
/* Readable when mr_cut_lender_work has something to do; -1 without. */
int mr_cut_lender_fd(const mr_cut_lender *lender);
/* Takes back what has come back. `sleeps`: the thread is about to wait for the descriptor. */
void mr_cut_lender_work(mr_cut_lender *lender, bool sleeps);
/* A peer came or went. */
void mr_cut_lender_note(mr_cut_lender *lender, const mr_action *action);
/* Whom the message is for that is written next. */
void mr_cut_lender_aim(mr_cut_lender *lender, uint32_t route);
/* mr_wire_writer_params.share, with the lender as context. */
bool mr_cut_lend(void *lender, mr_buffer *buffer, size_t offset, size_t bytes, mr_shared_slot *slot);

/* ---- the taking side ------------------------------------------------------------------------------------------- */

typedef struct mr_cut_borrower mr_cut_borrower;

/* As mr_cut_lender_create. */
int mr_cut_borrower_create(mr_cut_borrower **borrower, const mr_cut *cut);
/* Buffers that were borrowed live on. */
void mr_cut_borrower_destroy(mr_cut_borrower **borrower);
const char *mr_cut_borrower_text(const mr_cut_borrower *borrower);
/* Hears what the giving sides have said; now and then. */
void mr_cut_borrower_work(mr_cut_borrower *borrower);
void mr_cut_borrower_note(mr_cut_borrower *borrower, const mr_action *action);
/* Whom the message came from that is read next. */
void mr_cut_borrower_aim(mr_cut_borrower *borrower, uint32_t route);
/* mr_wire_reader_params.map, with the borrower as context. */
int mr_cut_borrow(void *borrower, const mr_shared_slot *slot, uint64_t bytes, mr_buffer **buffer);

#endif
