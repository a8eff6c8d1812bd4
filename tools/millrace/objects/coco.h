/* Objects in pictures, as COCO's JSON lists them: images, categories and annotations with boxes.
 *
 * Annotations with `track_id`, or `instance_id`, are objects of tracks. `video_id` of their images says in which
 * sequence, and `frame_id` or `frame_index` when; `videos` may have `fps`. Pictures are in the order of sequences, then
 * times, then ids, classes in that of their ids, and objects refer to them by position. One thread at a time. Errors:
 * MR_ERROR_NO_INPUT, MR_ERROR_PERMISSION, MR_ERROR_MEMORY; MR_ERROR_DATA with the file and the mistake. */
#pragma once

#include <stdatomic.h>

#include "engine/base/arena.h"
#include "millrace/figures.h"

typedef struct mr_coco {
    size_t picture_count, class_count, object_count, sequence_count;
    const char **pictures; /* paths; relative ones in the file begin in `folder`. NULL: frames of some source */
    const char *folder;    /* NULL: the paths are whole */
    size_t *sequence;      /* of each picture; NULL: there is one */
    double *rate;          /* of each sequence, in pictures a second; 0: not known. NULL: none is */
    const char **classes;  /* names */
    mr_boxed *objects;
    bool tracks; /* some object has one */
    int64_t (*sizes)[2]; /* the width and height that each picture should have; 0: not known. NULL: none are */
    atomic_size_t other_sizes; /* pictures of which that is not true */
    mr_arena arena;
} mr_coco;

/* Whether the path's name says so: it ends in .json. */
bool mr_coco_is_at(const char *path);
/* What is wrong with --pictures beside --data, in words for the user; NULL: nothing. `folder` may be NULL. */
const char *mr_coco_refuse_folder(const char *path, const char *folder);
/* `folder`: of the pictures; NULL: that of the file. The caller must call mr_coco_fini, also on failure. */
int mr_coco_read(mr_coco *coco, const char *path, const char *folder);
void mr_coco_fini(mr_coco *coco);
/* Compares a picture's size, as it is shown, with the one in the annotations. Warns if it is another: boxes are in
 * pixels. Any thread. */
void mr_coco_check_size(mr_coco *coco, size_t picture, int64_t width, int64_t height);
/* Warns again in the end, of how many pictures that is true. */
void mr_coco_report_sizes(const mr_coco *coco);
/* A picture's path without links and detours, which must exist. */
int mr_coco_locate(mr_coco *coco, size_t picture, const char **path);
/* MR_ERROR_DATA if a picture has two objects with one class and track; `path` is for the message. */
int mr_coco_check_tracks(const mr_coco *coco, const char *path);
