/* Differences between the pipeline that made a classifier's vectors and the one that uses it.
 *
 * Compares texts from mr_planned_lineage. Any thread. */
#pragma once

#include <stddef.h>

enum { MR_LINEAGE_TEXT = 512 };

/* Writes the first differences: "hog.bins is 12, and was 9". Returns `text`, "" if they are equal. */
const char *mr_lineage_difference(const char *then, const char *now, char text[MR_LINEAGE_TEXT]);
