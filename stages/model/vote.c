#include "stages/model/vote.h"

#include <stdbool.h>

#include "engine/base/memory.h"
#include "millrace/status.h"

typedef struct tally {
    int32_t index, votes;
} tally;

struct mr_vote {
    size_t window, filled, next;
    int32_t best[MR_VOTE_MAX]; /* a ring */
    tally tallies[MR_VOTE_MAX];
};

int mr_vote_create(mr_vote **vote, size_t window) {
    mr_vote *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a window of %zu frames", window);
    made->window = window;
    *vote = made;
    return MR_OK;
}

void mr_vote_destroy(mr_vote **vote) {
    mr_free(*vote);
    *vote = NULL;
}

static size_t count_votes(mr_vote *vote) {
    size_t classes = 0;
    for (size_t i = 0; i < vote->filled; i++) {
        size_t at = 0;
        while (at < classes && vote->tallies[at].index != vote->best[i])
            at++;
        if (vote->best[i] < 0)
            continue;
        if (at == classes)
            vote->tallies[classes++] = (tally){.index = vote->best[i]};
        vote->tallies[at].votes++;
    }
    return classes;
}

static bool before(const tally *a, const tally *b) {
    return a->votes != b->votes ? a->votes > b->votes : a->index < b->index;
}

void mr_vote_add(mr_vote *vote, int32_t best, int32_t *index, float *score, int32_t most, int32_t *found) {
    vote->best[vote->next] = best;
    vote->next = (vote->next + 1) % vote->window;
    vote->filled += vote->filled < vote->window;
    size_t classes = count_votes(vote);
    for (*found = 0; *found < most && (size_t)*found < classes; (*found)++) {
        size_t first = (size_t)*found;
        for (size_t i = first + 1; i < classes; i++)
            if (before(&vote->tallies[i], &vote->tallies[first]))
                first = i;
        tally winner = vote->tallies[first];
        vote->tallies[first] = vote->tallies[*found];
        vote->tallies[*found] = winner;
        index[*found] = winner.index;
        score[*found] = (float)winner.votes / (float)vote->filled;
    }
}
