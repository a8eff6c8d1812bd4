/* Names of video files: a pattern such as "{source}-{number}.mp4". Pure functions.
 *
 * {source} is the id of the source, {number} counts files from 0 in six digits, {time} is when a file was begun, in
 * UTC: 20261123T081500Z. A name that exists already, or that a second file of a stream would have, gets "-2", "-3", ...
 * before its ending. */
#ifndef MILLRACE_STAGES_VIDEO_VIDEO_NAME_H
#define MILLRACE_STAGES_VIDEO_VIDEO_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MR_VIDEO_NAME = 256, MR_VIDEO_PATH = 4096 };

/* The files of one source. */
typedef struct mr_video_names {
    const char *folder, *pattern, *source;
} mr_video_names;

/* MR_OK, or MR_ERROR_CONFIG: a slash, a brace that is no token, no ending. */
int mr_video_name_check(const char *pattern);
bool mr_video_name_counts(const char *pattern); /* has {number} */
bool mr_video_name_differs(const char *pattern); /* has {number} or {time} */
/* The ending, with its point; "" if there is none. */
const char *mr_video_name_ending(const char *name);

/* The name of a file; `again`: 0, or the number of files that had the name before. MR_ERROR_IO if it is too long. */
int mr_video_name_print(char name[MR_VIDEO_NAME], const char *pattern, const char *source, uint64_t number,
                        int64_t seconds, int again);
/* Whether a file of that source and pattern may have that name; *number (may be NULL) is then its {number}. */
bool mr_video_name_matches(const char *name, const char *pattern, const char *source, uint64_t *number);

#endif
