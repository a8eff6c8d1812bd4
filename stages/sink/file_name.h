/* Names for files that a sink writes one after another. The pattern is "{source}-{number}.mp4" or, for pictures,
 * "{source}-{seq}.png". Token values are never searched for tokens. Pure functions.
 *
 * {source} is the source's id, {number} counts files from 000000, {time} is when a file was begun in UTC:
 * 20261123T081500Z. If a name exists, or a stream would use it twice, "-2", "-3", ... goes before the extension. A name
 * alone cannot always show whose file it is: door-2.mp4 may be door's second file or door-2's first (keep.h). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "millrace/frame.h"
#include "millrace/objects.h"

enum { MR_OUTPUT_NAME = 256, MR_OUTPUT_PATH = 4096 };

/* One source's files. */
typedef struct mr_file_names {
    const char *folder, *pattern, *source;
} mr_file_names;

/* MR_OK, or MR_ERROR_CONFIG: a slash, a brace that is no token, or a {number} next to another value's digits. */
int mr_file_name_check(const char *pattern);
bool mr_file_name_counts(const char *pattern); /* has {number} */
bool mr_file_name_differs(const char *pattern); /* has {number} or {time} */
/* The extension, with the dot; "" if there is none. */
const char *mr_file_name_ending(const char *name);

/* Prints a file name. `again`: how many files had the name before. MR_ERROR_IO: too long. */
int mr_file_name_print(char name[MR_OUTPUT_NAME], const char *pattern, const char *source, uint64_t number,
                       int64_t seconds, int again);

/* For pictures: {source}, {stem} (the name of the file that was read, without the ending; 100 bytes of it at most),
 * {time}, {epoch}, {seq} in six digits, {sub}, and an object's {label} (likewise) and {track}. Without {epoch}, {seq}
 * is prefixed with the epoch from the second epoch on; without {sub}, ".SUB" follows it if that is above 0. Slashes
 * make folders. MR_ERROR_CONFIG: no {seq}, a brace that is no token, or a folder without a name. */
int mr_picture_name_check(const char *pattern);
/* Whether the name has an object's number, and a label. */
bool mr_picture_name_has_track(const char *pattern);
bool mr_picture_name_has_label(const char *pattern);
/* What a picture's name says. */
typedef struct mr_picture_name {
    const char *source, *file; /* file NULL: {stem} is {source} */
    mr_identity identity;
    const mr_object *object;   /* NULL: the label is "none" and the track 0 */
    int64_t seconds;           /* since 1970 */
} mr_picture_name;
/* MR_ERROR_IO if it does not fit. */
int mr_picture_name_print(char *name, size_t room, const char *pattern, const mr_picture_name *of);

/* What a name contains. */
typedef struct mr_file_name_parts {
    uint64_t number;
    bool again; /* with "-2" or higher before the extension */
} mr_file_name_parts;
/* Whether a file from that source with that pattern can have this name; sets *parts if so. */
bool mr_file_name_matches(const char *name, const char *pattern, const char *source, mr_file_name_parts *parts);
/* Whether the name has this source's id where the pattern has its first {source}, whatever follows. */
bool mr_file_name_has_source(const char *name, const char *pattern, const char *source);
