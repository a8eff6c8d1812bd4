/* Votes of an object's pictures. */
#include <string.h>

#include "millrace/status.h"
#include "stages/objects/cascade/ballot.h"
#include "tests/support/suite.h"

static const int64_t SECOND = 1000000000;

static void add(mr_ballot *votes, int64_t track, const char *stage, int32_t index, float score) {
    const mr_ballot_vote vote = {.stage = stage, .index = index, .score = score};
    assert_int_equal(mr_ballot_add(votes, track, &vote), MR_OK);
}

static void add_text(mr_ballot *votes, int64_t track, const char *text, float score) {
    const mr_ballot_vote vote = {.stage = "read", .score = score, .text = text, .text_bytes = strlen(text)};
    assert_int_equal(mr_ballot_add(votes, track, &vote), MR_OK);
}

/* The only winner's class; -1: there is none. */
static int32_t winner(const mr_ballot *votes, int64_t track) {
    mr_ballot_vote found[4];
    size_t count = mr_ballot_count(votes, track, found, 4);
    assert_true(count <= 1);
    return count ? found[0].index : -1;
}

static mr_ballot *make(void) {
    mr_ballot *votes = NULL;
    assert_int_equal(mr_ballot_create(&votes, 2 * SECOND), MR_OK);
    mr_ballot_advance(votes, 0, 0);
    return votes;
}

TEST(the_most_votes_win) {
    ENDED_BY(mr_ballot_destroy) mr_ballot *votes = make();
    mr_ballot_vote found[1];
    assert_int_equal(winner(votes, 7), -1);
    add(votes, 7, "kind", 3, 0.9f);
    add(votes, 8, "kind", 5, 0.9f);
    add(votes, 7, "kind", 4, 0.3f);
    assert_int_equal(winner(votes, 7), 3); /* as many, with more score */
    add(votes, 7, "kind", 4, 0.5f);
    assert_int_equal(winner(votes, 7), 4);
    assert_int_equal(winner(votes, 8), 5);
    assert_int_equal(mr_ballot_count(votes, 7, found, 1), 1);
    assert_float_equal(found[0].score, 0.4f, 1e-6);
}

TEST(votes_grow_old_and_end_with_an_epoch) {
    ENDED_BY(mr_ballot_destroy) mr_ballot *votes = make();
    add(votes, 1, "kind", 1, 0.9f);
    add(votes, 1, "kind", 1, 0.9f);
    mr_ballot_advance(votes, 0, SECOND);
    add(votes, 1, "kind", 2, 0.9f);
    mr_ballot_advance(votes, 0, 2 * SECOND);
    assert_int_equal(winner(votes, 1), 1);
    mr_ballot_advance(votes, 0, 2 * SECOND + 1);
    assert_int_equal(winner(votes, 1), 2);
    mr_ballot_advance(votes, 1, 2 * SECOND + 2);
    assert_int_equal(winner(votes, 1), -1);
    add(votes, 1, "kind", 3, 0.9f);
    mr_ballot_advance(votes, 1, SECOND); /* times go back */
    assert_int_equal(winner(votes, 1), -1);
}

TEST(each_stage_has_a_winner) {
    ENDED_BY(mr_ballot_destroy) mr_ballot *votes = make();
    mr_ballot_vote found[4];
    char text[] = "AB 12";
    add_text(votes, 1, text, 0.5f);
    text[0] = 'X'; /* votes have a copy */
    add(votes, 1, "kind", 2, 0.5f);
    add_text(votes, 1, "A8 12", 0.9f);
    add_text(votes, 1, "AB 12", 0.6f);
    assert_int_equal(mr_ballot_count(votes, 1, found, 4), 2);
    assert_string_equal(found[0].stage, "read");
    assert_int_equal(found[0].text_bytes, 5);
    assert_memory_equal(found[0].text, "AB 12", 5);
    assert_string_equal(found[1].stage, "kind");
    assert_null(found[1].text);
    assert_int_equal(mr_ballot_count(votes, 1, found, 1), 1);
}

/* However many votes come at one time, only so many are kept, the latest. */
TEST(memory_is_bounded) {
    ENDED_BY(mr_ballot_destroy) mr_ballot *votes = make();
    add(votes, 1, "kind", 9, 0.9f);
    for (int i = 0; i < 20000; i++)
        add(votes, 2, "kind", i % 1000, 0.5f); /* also more answers than are told apart */
    assert_int_equal(winner(votes, 1), -1);
    assert_true(winner(votes, 2) >= 0);
}

RUN_TESTS(NULL, NULL)
