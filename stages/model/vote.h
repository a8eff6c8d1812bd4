/* Which classes were best most often among a source's last frames.
 *
 * One thread at a time. A frame without a class (-1) takes a place in the window but casts no vote. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { MR_VOTE_MAX = 256 };

typedef struct mr_vote mr_vote;

/* `window`: 1 to MR_VOTE_MAX frames. */
int mr_vote_create(mr_vote **vote, size_t window);
void mr_vote_destroy(mr_vote **vote);

/* Adds a frame's best class. Writes at most `most` classes with the most votes, in descending order; on a tie, the
 * lower index comes first. A score is the share of frames in the window that voted for the class. */
void mr_vote_add(mr_vote *vote, int32_t best, int32_t *index, float *score, int32_t most, int32_t *found);
