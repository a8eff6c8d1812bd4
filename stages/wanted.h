/* Classes that a stage waits for: labels, and the lowest score. They may be the classes of a frame, of an object in its
 * newest objects, or of an attribute of such an object. Any thread. */
#pragma once

#include "millrace/stage.h"

typedef struct mr_wanted {
    const mr_strings *classes; /* labels; none: any class */
    double score;              /* the lowest */
} mr_wanted;

/* Whether an input's frames can have classes or objects. False only if planning knows all results. */
bool mr_wanted_may_come(const mr_planned_input *input);
/* Refuses labels and a score that no earlier stage gives, if planning knows them, and warns if that holds only for some
 * labels. `nothing` ends the sentence "..., so nothing would ever be recorded", `none` the sentence "..., which then
 * starts no recording". MR_ERROR_CONFIG, MR_ERROR_MEMORY. */
int mr_wanted_check(mr_negotiation *n, const mr_wanted *wanted, const char *nothing, const char *none);
/* The same for an option `classes` that selects objects by label or number; numbers are not checked. */
int mr_wanted_objects_check(mr_negotiation *n, const mr_strings *classes, const char *nothing, const char *none);
/* Whether such an option selects a class; `label` may be NULL. Without labels and numbers it selects any. */
bool mr_wanted_class(const mr_strings *classes, int32_t index, const char *label);

/* A class that was found. */
typedef struct mr_sighting {
    const char *stage;
    const char *label; /* Optional. */
    float score;
} mr_sighting;
/* Whether a frame has the wanted label with this index; 0 also if any class is wanted, -1: any of the labels. *found:
 * the first. */
bool mr_wanted_find(const mr_wanted *wanted, const mr_frame *frame, int index, mr_sighting *found);
