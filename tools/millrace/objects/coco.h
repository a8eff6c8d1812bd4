/* Objects in pictures, as COCO's JSON lists them: images, categories and annotations with boxes.
 *
 * Pictures and classes are in the order of their ids, and objects refer to them by position. One thread at a time.
 * Errors: MR_ERROR_NO_INPUT, MR_ERROR_PERMISSION, MR_ERROR_MEMORY; MR_ERROR_DATA with the file and what is wrong. */
#pragma once

#include "engine/base/arena.h"
#include "millrace/figures.h"

typedef struct mr_coco {
    size_t picture_count, class_count, object_count;
    const char **pictures; /* paths; relative ones in the file begin in its folder */
    const char **classes;  /* names */
    mr_boxed *objects;
    mr_arena arena;
} mr_coco;

/* The caller must call mr_coco_fini, also on failure. */
int mr_coco_read(mr_coco *coco, const char *path);
void mr_coco_fini(mr_coco *coco);
