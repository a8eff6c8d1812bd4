/* Objects in pictures in YOLO's layout: see cutouts.h. Boxes are in 0..1 of the picture. Ownership and errors: as in
 * coco.h. */
#pragma once

#include "tools/millrace/objects/coco.h"

/* The caller must call mr_coco_fini, also on failure. */
int mr_yolo_read(mr_coco *to, const char *folder);
/* One text; `image` is its picture. For tests. */
int mr_yolo_read_text(mr_coco *to, size_t *room, const char *path, size_t image, char *text);
