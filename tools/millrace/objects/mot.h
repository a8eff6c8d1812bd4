/* True tracks in the text layout of MOTChallenge (gt.txt): a line for each object,
 *
 *     frame, id, left, top, width, height, counts, class, ...
 *
 * Frames count from 1. Objects with `counts` 0, and of classes other than 1 (pedestrian), do not count; those of the
 * classes 2, 7, 8 and 12 (person on a vehicle, static person, distractor, reflection) are crowds, as there. Files
 * without classes have -1 there, or end before. */
#pragma once

#include "tools/millrace/objects/coco.h"

/* Reads the file. Pictures are frames of some source, up to the last one with an object; the class is "pedestrian".
 * MR_ERROR_DATA with the line. The caller must call mr_coco_fini, also on failure. */
int mr_mot_read(mr_coco *coco, const char *path);
