/* Votes for what the objects of a source are: each answer for a track is a vote until it is too old. For each stage that
 * gives answers, the one with the most votes wins; of several, the one with the higher sum of scores.
 *
 * Times are presentation times. Memory is bounded: the oldest of 20,000 votes give way. One thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mr_votes mr_votes;

/* An answer: a class, or a text. `stage` and `label` must live as long as the votes. */
typedef struct mr_vote {
    const char *stage;
    int32_t index;
    float score; /* of a winner: the mean of its votes */
    const char *label;
    const char *text; /* without a zero; copied; NULL: a class */
    size_t text_bytes;
} mr_vote;

/* MR_ERROR_MEMORY. */
int mr_votes_create(mr_votes **votes, int64_t over_ns);
void mr_votes_destroy(mr_votes **votes);
/* Forgets votes older than `over_ns`. With another epoch, or an earlier time, forgets all. */
void mr_votes_advance(mr_votes *votes, uint32_t epoch, int64_t now_ns);
/* Adds a vote now. MR_ERROR_MEMORY. */
int mr_votes_add(mr_votes *votes, int64_t track, const mr_vote *vote);
/* The winners for a track, up to `room`, in the order in which their stages gave the first vote. Their texts are valid
 * until the next call. */
size_t mr_votes_count(const mr_votes *votes, int64_t track, mr_vote *winners, size_t room);
