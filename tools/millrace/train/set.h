/* The data set for `train` and `evaluate`: labelled files, identified by content, in parts.
 *
 * A file counts once. Copies with the same class are excluded. If a content has several classes, all its files are
 * excluded, since nobody knows which class is right. The same holds for ranges in a video: a range that overlaps one
 * with another class is excluded together with it. If it overlaps an earlier range with the same class, only the later
 * one is excluded. Rows for one video that name no group form a group. Excluded rows are counted and listed with the
 * reason. They stay in the set, so that a row's index equals its index in the list.
 *
 * A row can also describe a vector stored in a file: its content is then the vector.
 *
 * One thread at a time. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "engine/base/json.h"
#include "millrace/classifier.h"
#include "millrace/dataset.h"

typedef enum mr_row_fate {
    MR_FATE_TAKEN,
    MR_FATE_COPY,        /* another row has the same content */
    MR_FATE_CONTRADICTS, /* another row has the same content, but another class */
    MR_FATE_OVERLAPS,    /* an earlier row with the same class overlaps its range in the same video */
    MR_FATE_NAME,        /* the file's name is not UTF-8, or has a line break or similar */
    MR_FATE_UNREADABLE,  /* the file cannot be read */
    MR_FATE_DAMAGED,     /* the pipeline made no vector for it */
    MR_FATE_NOT_FINITE,  /* one of its vectors has a NaN or an infinity */
    MR_FATES
} mr_row_fate;

typedef struct mr_set_row {
    mr_content_key key;
    mr_row_fate fate;
    mr_split part;
    size_t group; /* numbered from 0 */
    size_t like;  /* COPY, CONTRADICTS and OVERLAPS: the other row */
} mr_set_row;

typedef struct mr_set_params {
    const char *path;
    const mr_vector_file *vectors; /* rows describe these, in order; NULL: rows describe files */
    uint64_t seed;
    mr_split_shares shares;
    bool lonely;           /* one class is enough: something else distinguishes it from others */
    bool (*stopped)(void); /* called from time to time; true: MR_ERROR_CANCELLED */
} mr_set_params;

typedef struct mr_set {
    mr_set_params params;
    mr_file_list *list;
    mr_set_row *row; /* one per file in the list */
    size_t count, group_count;
    bool named_groups;  /* the list names groups */
    size_t named_parts; /* rows with a part named in the list */
} mr_set;

/* Opens a file of vectors, which another program may make shorter (mapped.h). mr_vector_file_open's errors. */
int mr_set_open_vectors(mr_vector_file **vectors, const char *path);
void mr_set_close_vectors(mr_vector_file **vectors);

/* Reads the list and all files. MR_ERROR_DATA if it cannot be a data set: fewer than two classes, a row without a
 * class, a class without files, classes that differ only in case, a group in two parts. Also mr_file_list_open's
 * errors. */
int mr_set_open(mr_set *set, const mr_set_params *params);
void mr_set_close(mr_set *set);

/* Prints a row for people: the list's line if there is one, then the path, then the range. */
size_t mr_set_print_row(const mr_set *set, size_t row, char *text, size_t room);
/* The same for one picture: in a video, with the time. */
size_t mr_set_print_picture(const mr_set *set, size_t row, int64_t at_ns, char *text, size_t room);
/* Writes a picture's file as this object member; for a video, also the time in seconds. */
void mr_set_put_picture(const mr_set *set, size_t row, int64_t at_ns, const char *file, const char *at, yajl_gen json);
/* Writes members `start` and `end`, in seconds, if the row has them. */
void mr_set_put_range(const mr_listed_file *file, yajl_gen json);
size_t mr_set_count(const mr_set *set, mr_row_fate fate);
/* Numbers the groups of these rows from 0: (*group)[i] for row[i]. The caller must free it. MR_ERROR_MEMORY. */
int mr_set_number_groups(const mr_set *set, const size_t *row, size_t count, int32_t **group, size_t *groups);
/* Prints the excluded rows, naming the first few for each reason; writes all of it as an array "left_out". */
void mr_set_tell_left_out(const mr_set *set, FILE *stream);
void mr_set_put_left_out(const mr_set *set, yajl_gen json);
