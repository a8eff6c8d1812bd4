/* Lists of image files: of a folder, of labelled folders, of a glob, of a numbered pattern, or as a file lists them
 * (manifest.h).
 *
 * Files come in natural order: runs of digits compare as numbers ("2.png" before "10.png"), other characters as bytes.
 * Classes of labelled folders are numbered in byte order of their names, as other tools number them; their files come
 * class by class. Of a folder only regular files that are not hidden and have an image's extension are listed; of a
 * glob all regular files that match, without videos if there are pictures among them. A part "**" of a glob stands for
 * any number of folders. A numbered pattern lists the files that ffmpeg's image2 reads: it begins at the
 * first of five numbers that has a file, and ends before the first that has none. The files of a manifest come in its
 * order, and its classes are numbered in byte order of their names.
 *
 * A list is made and destroyed by one thread; once made it may be read by all. */
#pragma once

#include <libavcodec/codec_id.h>
#include <stddef.h>

#include "millrace/dataset.h"
#include "stages/media/skipped_files.h"
#include "stages/media/media_input.h"

typedef struct mr_image_file {
    char *path;
    int label;          /* index into labels; -1: none */
    char *group;        /* of a manifest, as are all that follow; NULL: none */
    mr_split split;
    size_t line;
    bool video;         /* not a picture: by its name, or because a range is given */
    int64_t start_ns, end_ns; /* of a video; end 0: to its end */
} mr_image_file;

typedef struct mr_image_list {
    mr_image_file *file;
    size_t count;
    char **label;
    size_t label_count;
    mr_skipped_files left;   /* entries of folders, and matches of a glob, that are neither hidden nor read */
    bool nested;        /* its glob has a "**" */
    char *unused_column; /* of manifests: the first that is not known; NULL: all are */
    char *missing;      /* the file before which a numbered pattern ended although others come behind it; or NULL */
} mr_image_list;

/* `start_number` is for numbered patterns. MR_ERROR_NO_INPUT (nothing matches), MR_ERROR_DATA (no images),
 * MR_ERROR_PERMISSION, MR_ERROR_MEMORY. */
int mr_image_list_make(mr_image_list *list, const char *path, mr_input_kind kind, bool labels, int start_number);
/* Of a manifest whose rows are for vectors (manifest.h). */
int mr_image_list_make_rows(mr_image_list *list, const char *path);
void mr_image_list_fini(mr_image_list *list);
/* "reads 2 pictures and leaves out 1 video and 3 files of other kinds (.txt)", if it leaves something out; else
 * false. */
enum { MR_IMAGE_LIST_TEXT = MR_SKIPPED_FILES_TEXT + 64 };
bool mr_image_list_says(const mr_image_list *list, char text[MR_IMAGE_LIST_TEXT]);
/* Whether one of the files has a picture's ending. */
bool mr_image_list_names_images(const mr_image_list *list);
/* The videos of a folder that has no images; or the matches of a glob, which need not be videos, unless their names are
 * those of images. Empty if there are none. */
int mr_video_list_make(mr_image_list *list, const char *path, mr_input_kind kind);

/* < 0, 0, > 0 as `a` comes before, equals or comes after `b` in natural order. */
int mr_compare_natural(const char *a, const char *b);
