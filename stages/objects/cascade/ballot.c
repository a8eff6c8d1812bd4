#include "stages/objects/cascade/ballot.h"

#include <string.h>

#include "engine/base/memory.h"
#include "millrace/status.h"

enum { MOST_VOTES = 20000, MOST_ANSWERS = 128 };

typedef struct cast {
    int64_t track, at_ns;
    mr_ballot_vote vote;
} cast;

struct mr_ballot {
    int64_t over_ns, now_ns;
    uint32_t epoch;
    cast *ring;
    size_t room, first, count;
};

/* The votes for one answer. */
typedef struct answer {
    const mr_ballot_vote *vote;
    size_t votes;
    double scores;
} answer;

int mr_ballot_create(mr_ballot **votes, int64_t over_ns) {
    mr_ballot *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for votes");
    made->over_ns = over_ns;
    made->now_ns = INT64_MIN;
    *votes = made;
    return MR_OK;
}

static cast *at(const mr_ballot *votes, size_t index) {
    return &votes->ring[(votes->first + index) % votes->room];
}

static void forget_first(mr_ballot *votes) {
    mr_free((char *)(uintptr_t)at(votes, 0)->vote.text);
    votes->first = (votes->first + 1) % votes->room;
    votes->count--;
}

void mr_ballot_destroy(mr_ballot **votes) {
    if (!*votes)
        return;
    while ((*votes)->count)
        forget_first(*votes);
    mr_free((*votes)->ring);
    mr_free(*votes);
    *votes = NULL;
}

void mr_ballot_advance(mr_ballot *votes, uint32_t epoch, int64_t now_ns) {
    const bool anew = epoch != votes->epoch || now_ns < votes->now_ns;
    while (votes->count && (anew || now_ns - at(votes, 0)->at_ns > votes->over_ns))
        forget_first(votes);
    votes->epoch = epoch;
    votes->now_ns = now_ns;
}

static int make_room(mr_ballot *votes) {
    const size_t room = votes->room ? 2 * votes->room : 64;
    if (votes->count == MOST_VOTES)
        forget_first(votes);
    if (votes->count < votes->room)
        return MR_OK;
    cast *wider = mr_alloc(room * sizeof *wider);
    if (!wider)
        return mr_fail(MR_ERROR_MEMORY, "no memory for votes");
    for (size_t i = 0; i < votes->count; i++)
        wider[i] = *at(votes, i);
    mr_free(votes->ring);
    votes->ring = wider;
    votes->room = room;
    votes->first = 0;
    return MR_OK;
}

int mr_ballot_add(mr_ballot *votes, int64_t track, const mr_ballot_vote *vote) {
    if (vote->text_bytes > MR_BALLOT_MOST_BYTES)
        return MR_OK;
    char *text = vote->text ? mr_alloc(vote->text_bytes + 1) : NULL;
    int status = vote->text && !text ? mr_fail(MR_ERROR_MEMORY, "no memory for votes") : make_room(votes);
    if (status) {
        mr_free(text);
        return status;
    }
    if (text)
        memcpy(text, vote->text, vote->text_bytes);
    cast *new = at(votes, votes->count++);
    *new = (cast){track, votes->now_ns, *vote};
    new->vote.text = text;
    return MR_OK;
}

static bool is_same(const mr_ballot_vote *a, const mr_ballot_vote *b) {
    if (strcmp(a->stage, b->stage) != 0 || a->index != b->index || !a->text != !b->text)
        return false;
    return !a->text || (a->text_bytes == b->text_bytes && memcmp(a->text, b->text, a->text_bytes) == 0);
}

/* Sums the votes for a track by answer, up to MOST_ANSWERS different ones. */
static size_t sum_up(const mr_ballot *votes, int64_t track, answer *answers) {
    size_t count = 0;
    for (size_t i = 0; i < votes->count; i++) {
        const cast *one = at(votes, i);
        size_t a = 0;
        if (one->track != track)
            continue;
        while (a < count && !is_same(answers[a].vote, &one->vote))
            a++;
        if (a == MOST_ANSWERS)
            continue;
        if (a == count)
            answers[count++] = (answer){.vote = &one->vote};
        answers[a].votes++;
        answers[a].scores += (double)one->vote.score;
    }
    return count;
}

static bool is_better(const answer *a, const answer *b) {
    return a->votes != b->votes ? a->votes > b->votes : a->scores > b->scores;
}

size_t mr_ballot_count(const mr_ballot *votes, int64_t track, mr_ballot_vote *winners, size_t room) {
    answer answers[MOST_ANSWERS];
    const size_t answer_count = sum_up(votes, track, answers);
    size_t count = 0;
    for (size_t a = 0; a < answer_count && count < room; a++) {
        const answer *best = &answers[a];
        bool first = true;
        for (size_t b = 0; b < answer_count; b++) {
            if (strcmp(answers[b].vote->stage, best->vote->stage) != 0)
                continue;
            first = first && b >= a;
            best = is_better(&answers[b], best) ? &answers[b] : best;
        }
        if (!first)
            continue;
        winners[count] = *best->vote;
        winners[count++].score = (float)(best->scores / (double)best->votes);
    }
    return count;
}
