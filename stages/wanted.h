/* Classes that a stage waits for: labels, and the lowest score. Any thread. */
#pragma once

#include "millrace/stage.h"

typedef struct mr_wanted {
    const mr_strings *classes; /* labels; none: any class */
    double score;              /* the lowest */
} mr_wanted;

/* Whether an input's frames can have classes. False only if planning knows all results. */
bool mr_wanted_may_come(const mr_planned_input *input);
/* Refuses labels and a score that no earlier classifier gives, if planning knows them, and warns if that holds only for
 * some labels. `nothing` ends the sentence "..., so nothing would ever be recorded", `none` the sentence "..., which
 * then starts no recording". MR_ERROR_CONFIG, MR_ERROR_MEMORY. */
int mr_wanted_check(mr_negotiation *n, const mr_wanted *wanted, const char *nothing, const char *none);

/* A class's index among the wanted labels, 0 if any is wanted; -1: not wanted, or the score is too low. */
int mr_wanted_index(const mr_wanted *wanted, const mr_class *class);
/* A frame's first wanted class, and the result that has it; NULL: none. */
const mr_class *mr_wanted_find(const mr_wanted *wanted, const mr_frame *frame, const mr_result **result);
