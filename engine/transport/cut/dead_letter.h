/* Frames that were set aside because processes died of them, or refused them, or no message can hold them: a folder
 * with two files for each frame,
 *
 *     SOURCE-EPOCH-SEQ-SUB.json     pipeline, digest, cut, source, epoch, seq, sub, pts_ns (null: none), format, stage
 *                                   and reason, and payload: the name of the other file (null: it had none)
 *     SOURCE-EPOCH-SEQ-SUB.payload  its bytes: of pictures all rows of all planes without padding
 *
 * Any thread. */
#pragma once

#include "engine/plan/cut.h"
#include "engine/transport/message.h"

/* At the start: creates the folder if it is missing, so that one that is not writable is found early. MR_ERROR_IO,
 * MR_ERROR_PERMISSION. Nothing to do if the cut names none. */
int mr_dead_letter_prepare(const mr_cut *cut);
/* Writes the files of a frame, whose payload is in host memory. MR_ERROR_IO or MR_ERROR_PERMISSION, which is logged
 * too: the frame is dropped either way. */
int mr_dead_letter_write(const mr_cut *cut, const mr_cut_item *item, const mr_settled *settled);
