/* Votes for the tracks of a source: each answer that a stage gave for a track is a vote until it is too old. For each
 * stage the answer with the most votes wins; of several, the one with the higher sum of scores.
 *
 * Times are presentation times. Memory is bounded: the oldest of 20,000 votes give way, and a text of more than
 * MR_BALLOT_MOST_BYTES is no vote. One thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MR_BALLOT_MOST_BYTES = 4096 };

typedef struct mr_ballot mr_ballot;

/* An answer: a class, or a text. `stage` and `label` must live as long as the votes. */
typedef struct mr_ballot_vote {
    const char *stage;
    int32_t index;
    float score; /* of a winner: the mean of its votes */
    const char *label;
    const char *text; /* without a zero; copied; NULL: a class */
    size_t text_bytes;
} mr_ballot_vote;

/* MR_ERROR_MEMORY. */
int mr_ballot_create(mr_ballot **votes, int64_t over_ns);
void mr_ballot_destroy(mr_ballot **votes);
/* Forgets votes older than `over_ns`. With another epoch, or an earlier time, forgets all. */
void mr_ballot_advance(mr_ballot *votes, uint32_t epoch, int64_t now_ns);
/* Adds a vote now. MR_ERROR_MEMORY. */
int mr_ballot_add(mr_ballot *votes, int64_t track, const mr_ballot_vote *vote);
/* The winners for a track, up to `room`, in the order in which their stages gave the first vote. Their texts are valid
 * until the next call. */
size_t mr_ballot_count(const mr_ballot *votes, int64_t track, mr_ballot_vote *winners, size_t room);
