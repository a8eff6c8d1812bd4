/* Names of files that a sink writes one after the other: a pattern such as "{source}-{number}.mp4", or, of pictures,
 * "{source}-{seq}.png". What stands in place of a token is never looked at for tokens again. Pure functions.
 *
 * {source} is the id of the source, {number} counts files from 0 in six digits, {time} is when a file was begun, in
 * UTC: 20261123T081500Z. A name that exists already, or that a second file of a stream would have, gets "-2", "-3", ...
 * before its ending. A name alone does not always tell whose file it is: door-2.mp4 may be the second file of door or
 * the first of door-2 (keep.h). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "millrace/frame.h"

enum { MR_OUTPUT_NAME = 256, MR_OUTPUT_PATH = 4096 };

/* The files of one source. */
typedef struct mr_file_names {
    const char *folder, *pattern, *source;
} mr_file_names;

/* MR_OK, or MR_ERROR_CONFIG: a slash, a brace that is no token, or a {number} whose digits would not end or begin
 * where those of its neighbour do. */
int mr_file_name_check(const char *pattern);
bool mr_file_name_counts(const char *pattern); /* has {number} */
bool mr_file_name_differs(const char *pattern); /* has {number} or {time} */
/* The ending, with its point; "" if there is none. */
const char *mr_file_name_ending(const char *name);

/* The name of a file; `again`: 0, or the number of files that had the name before. MR_ERROR_IO if it is too long. */
int mr_file_name_print(char name[MR_OUTPUT_NAME], const char *pattern, const char *source, uint64_t number,
                       int64_t seconds, int again);

/* Of pictures: {source}, {time}, {epoch}, {seq} in six digits, and {sub}. If the pattern has no {epoch}, {seq} has the
 * epoch before it from the second one on. MR_ERROR_CONFIG: no {seq}, a slash, or a brace that is no token. */
int mr_picture_name_check(const char *pattern);
/* `seconds`: the time, since 1970. MR_ERROR_IO if it has no room. */
int mr_picture_name_print(char *name, size_t room, const char *pattern, const char *source,
                          const mr_identity *identity, int64_t seconds);

/* What a name says. */
typedef struct mr_file_name_parts {
    uint64_t number;
    bool again; /* with "-2" or a higher number before its ending */
} mr_file_name_parts;
/* Whether a file of that source and pattern may have that name; *parts are set if so. */
bool mr_file_name_matches(const char *name, const char *pattern, const char *source, mr_file_name_parts *parts);
/* Whether the name has the id of that source where the pattern has its first {source}, whatever follows. */
bool mr_file_name_has_source(const char *name, const char *pattern, const char *source);
