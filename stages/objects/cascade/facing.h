/* Which lines of text stand on their heads: a vote of all lines in a picture.
 *
 * A classifier sees the picture of each line, made upright, and says how probable it is that the line stands on its
 * head. It is often wrong about short lines, and now and then sure of it. Parallel lines mostly run the same way, so
 * their log odds are added to a line's own. They count for at most `others`, so that a line that is surer may run the
 * other way. A line that is parallel to no other is judged alone.
 *
 * Ownership: the caller owns all memory. One thread at a time. Errors: MR_ERROR_MEMORY. */
#pragma once

#include "millrace/frame.h"
#include "millrace/objects.h"

typedef struct mr_facing_line {
    int64_t number;  /* the object's */
    double along[2]; /* The unit vector in which the line runs if it does not stand on its head, in the shown picture;
                        0, 0: not known */
    double odds;     /* logarithm of the odds that it stands on its head */
    bool turned;     /* the answer */
} mr_facing_line;

/* The lines of one picture; zero: none. */
typedef struct mr_facing {
    mr_facing_line *line;
    size_t count, room;
} mr_facing;

/* Adds the line with this number. `picture`: its upright picture, or what was made from that; `found`: its classes;
 * `class`: the class of lines that stand on their heads, by its label, or without labels its number. */
int mr_facing_add(mr_facing *facing, int64_t number, const mr_frame *picture, const mr_result *found,
                  const char *class);
/* The log odds of a probability. It is limited to a millionth from 0 and 1; NaN counts as a half. */
double mr_facing_odds(double probability);
/* Sets `turned`: the probability that the line stands on its head is above `score`. `others`: from 0.5, where each line
 * is judged alone, to 1. */
void mr_facing_vote(const mr_facing *facing, double score, double others);
/* Makes each line's quadrilateral begin at the upper left of what it shows. Objects without one get one. */
int mr_facing_turn(const mr_facing *facing, mr_result *objects);
void mr_facing_fini(mr_facing *facing);
