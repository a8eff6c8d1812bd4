/* The data set of `train` and `evaluate`: labelled files, known by their content, in parts.
 *
 * A file counts once: copies of it, of the same class, are left out, and of contents that stand under several classes
 * all files are, since none of them is known to be right. The same goes for ranges of a video: one that overlaps one of
 * another class is left out with it, and one that overlaps one of its own class, behind it. Rows of one video that name
 * no group are one group. Rows that are left out are counted and listed with their reason; they stay in the set, so
 * that a row's index is that of the list.
 *
 * A row may be for a vector that is kept in a file, too: its content is then its vector.
 *
 * One thread at a time. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "engine/base/json.h"
#include "millrace/classifier.h"
#include "millrace/dataset.h"

/* What is said of an option that `run` has for several. */
#define MR_SET_ONE_DATA "--data can be given once: a list can name the files of several folders"

typedef enum mr_row_fate {
    MR_FATE_TAKEN,
    MR_FATE_COPY,        /* another row has its content */
    MR_FATE_CONTRADICTS, /* another row has its content, and another class */
    MR_FATE_OVERLAPS,    /* another row, before it, has a part of its range of one video, and its class */
    MR_FATE_NAME,        /* the file's name is not UTF-8, or has a line break or the like */
    MR_FATE_UNREADABLE,  /* the file cannot be read */
    MR_FATE_DAMAGED,     /* the pipeline made no vector of it */
    MR_FATE_NOT_FINITE,  /* a vector of it has a NaN or an infinity in it */
    MR_FATES
} mr_row_fate;

typedef struct mr_set_row {
    mr_content_key key;
    mr_row_fate fate;
    mr_split part;
    size_t group; /* numbered from 0 */
    size_t like;  /* of COPY, CONTRADICTS and OVERLAPS: the other row */
} mr_set_row;

typedef struct mr_set_params {
    const char *path;
    const mr_vector_file *vectors; /* the rows are for these, in their order; NULL: they are for files */
    uint64_t seed;
    mr_split_shares shares;
    bool lonely;           /* one class is enough: it is told apart from others already */
    bool (*stopped)(void); /* asked now and then; then MR_ERROR_CANCELLED */
} mr_set_params;

typedef struct mr_set {
    mr_set_params params;
    mr_file_list *list;
    mr_set_row *row; /* one for each file of the list */
    size_t count, group_count;
    bool named_groups;  /* the list names groups */
    size_t named_parts; /* rows whose part the list names */
} mr_set;

/* Reads the list and all files. MR_ERROR_DATA if it cannot be a data set: fewer than two classes, a row without a
 * class, a class without files, classes that differ by case alone, a group in two parts. Errors of mr_file_list_open.
 */
int mr_set_open(mr_set *set, const mr_set_params *params);
void mr_set_close(mr_set *set);

/* The text of a row for people: its path, behind the list's line if there is one, and before its range. */
size_t mr_set_print_row(const mr_set *set, size_t row, char *text, size_t room);
/* The same for a picture of it: of a video, with its time. */
size_t mr_set_print_picture(const mr_set *set, size_t row, int64_t at_ns, char *text, size_t room);
/* A picture's file as that member of an object; of a video, also its time in seconds. */
void mr_set_put_picture(const mr_set *set, size_t row, int64_t at_ns, const char *file, const char *at, yajl_gen json);
/* Members `start` and `end`, in seconds, of a row that has them. */
void mr_set_put_range(const mr_listed_file *file, yajl_gen json);
size_t mr_set_count(const mr_set *set, mr_row_fate fate);
/* The rows that are left out, the first few of each reason by name; and all of it as an array "left_out". */
void mr_set_tell_left_out(const mr_set *set, FILE *stream);
void mr_set_put_left_out(const mr_set *set, yajl_gen json);
