/* Lists image files from a folder, labelled folders, a glob, a numbered pattern or a manifest (manifest.h).
 *
 * Files come in natural order: digit runs compare as numbers ("2.png" before "10.png"), other characters as bytes.
 * Labelled folders number their classes in byte order, as other tools do; files come class by class. A folder
 * contributes regular files that are not hidden and have an image extension. A glob contributes all matching regular
 * files, but no videos if there are pictures; "**" matches any number of folders. A numbered pattern lists what
 * ffmpeg's image2 reads: it begins at the first existing file among five numbers and ends before the first gap. A
 * manifest keeps its order, and its classes are numbered in byte order.
 *
 * One thread may make and destroy a list; afterwards all threads may read it. */
#pragma once

#include <libavcodec/codec_id.h>
#include <stddef.h>

#include "millrace/dataset.h"
#include "stages/media/skipped_files.h"
#include "stages/media/media_input.h"

typedef struct mr_image_file {
    char *path;
    int label;          /* index into labels; -1: none */
    char *group;        /* from a manifest, as are all that follow; NULL: none */
    mr_split split;
    size_t line;
    bool video;         /* not a picture, judged by name or because a range is given */
    int64_t start_ns, end_ns; /* for a video; end 0: to the end */
} mr_image_file;

typedef struct mr_image_list {
    mr_image_file *file;
    size_t count;
    char **label;
    size_t label_count;
    mr_skipped_files left;   /* folder entries and glob matches that are neither hidden nor read */
    bool nested;        /* the glob has a "**" */
    char *unused_column; /* manifests: the first unknown column; NULL: all are known */
    char *missing;      /* file where a numbered pattern ended although later numbers exist; or NULL */
} mr_image_list;

/* `start_number` is for numbered patterns. MR_ERROR_NO_INPUT (nothing matches), MR_ERROR_DATA (no images),
 * MR_ERROR_PERMISSION, MR_ERROR_MEMORY. */
int mr_image_list_make(mr_image_list *list, const char *path, mr_input_kind kind, bool labels, int start_number);
/* For a manifest whose rows describe vectors (manifest.h). */
int mr_image_list_make_rows(mr_image_list *list, const char *path);
void mr_image_list_fini(mr_image_list *list);
/* Prints "reads 2 pictures and leaves out 1 video and 3 files of other kinds (.txt)" if something is left out;
 * otherwise returns false. */
enum { MR_IMAGE_LIST_TEXT = MR_SKIPPED_FILES_TEXT + 64 };
bool mr_image_list_says(const mr_image_list *list, char text[MR_IMAGE_LIST_TEXT]);
/* Whether any file has a picture extension. */
bool mr_image_list_names_images(const mr_image_list *list);
/* Videos in a folder without images, or a glob's matches: those need not be videos, but cannot have image names. Empty
 * if there are none. */
int mr_video_list_make(mr_image_list *list, const char *path, mr_input_kind kind);

/* < 0, 0, > 0 as `a` comes before, equals or comes after `b` in natural order. */
int mr_compare_natural(const char *a, const char *b);
