/* Data sets for training and evaluation: files with classes, split into parts.
 *
 *     mr_file_list *list;
 *     if (mr_file_list_open(&list, "photos")) ...
 *     for (size_t i = 0; i < list->count; i++)
 *         printf("%s is a %s\n", list->files[i].path, list->labels[list->files[i].label]);
 *     mr_file_list_close(&list);
 *
 * The source `media` reads the same lists. Any thread; only one at a time may use an object.
 *
 * Unstable: made for the command; it may change with any version (version.h). */
#ifndef MILLRACE_DATASET_H
#define MILLRACE_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "millrace/export.h"
#include "millrace/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mr_split { MR_SPLIT_NONE, MR_SPLIT_TRAIN, MR_SPLIT_VALIDATION, MR_SPLIT_TEST } mr_split;
enum { MR_SPLITS = 4 };
/* "train", "validation", "test"; "" for MR_SPLIT_NONE. */
MR_API const char *mr_split_name(mr_split split);
/* MR_SPLIT_NONE: the text is none of these names. */
MR_API mr_split mr_split_parse(const char *text);

/* Shares of the parts. The rest is for training. */
typedef struct mr_split_shares {
    double validation, test;
} mr_split_shares;
/* The part for all rows in one group (a person, a camera, a day). XXH3 with 64 bits maps the seed and the group's bytes
 * to a number in [0, 1). Below `test` the rows are for test; below `test` + `validation`, for validation. Adding rows
 * therefore moves no others. */
MR_API mr_split mr_split_of(uint64_t seed, const void *group, size_t bytes, mr_split_shares shares);

/* Identifies a file's content, independent of the name: XXH3 with 128 bits. */
typedef struct mr_content_key {
    uint64_t low, high;
} mr_content_key;
/* Computes a file's key. MR_ERROR_NO_INPUT, MR_ERROR_PERMISSION, MR_ERROR_IO. MR_ERROR_DATA: it is not a regular
 * file. */
MR_API int mr_content_key_of(const char *path, mr_content_key *key);
/* The key of a part of the content, which the bytes at `part` identify: XXH3 with 128 bits over the key and these
 * bytes. */
MR_API mr_content_key mr_content_key_join(const mr_content_key *key, const void *part, size_t bytes);

typedef struct mr_listed_file {
    const char *path;  /* usable from here: relative paths in a list start in the list's folder */
    const char *group; /* Optional. NULL: not named. */
    int32_t label;     /* index into labels; -1: none */
    mr_split split;    /* from the list */
    size_t line;       /* line in the list; 0 for a folder */
    bool video;        /* from the file's name, or because the row has a range */
    int64_t start_ns, end_ns; /* video: pictures in [start, end), by presentation time; end 0: to the end */
} mr_listed_file;

typedef struct mr_file_list {
    size_t count;
    const mr_listed_file
        *files; /* from a folder: class by class, sorted naturally by name; from a list: in list order */
    size_t label_count;
    const char *const *labels; /* sorted by bytes */
} mr_file_list;

/* Lists a folder that has a folder of pictures per class, or reads a list. A list is *.csv or *.jsonl. In *.csv the
 * first row names the columns: path, and any of label, group and split; for videos also start and end, in seconds. In
 * *.jsonl each line is an object with those keys. Nothing but the list is opened. MR_ERROR_NO_INPUT,
 * MR_ERROR_PERMISSION, MR_ERROR_IO, MR_ERROR_MEMORY. MR_ERROR_DATA: a row is wrong (with file and line), or there are
 * no files. */
MR_API int mr_file_list_open(mr_file_list **list, const char *path);
/* The same for a list whose rows correspond, in order, to the rows of a vector file. A row needs no path; it is then
 * "". */
MR_API int mr_file_list_open_rows(mr_file_list **list, const char *path);
/* Frees a list and sets *list to NULL; NULL is allowed. */
MR_API void mr_file_list_close(mr_file_list **list);

/* Vectors in a NumPy file (.npy): a little-endian f4 matrix in C order with one vector per row. The file is mapped, so
 * it can be larger than memory. It must not be truncated while it is open. */
typedef struct mr_vector_file {
    size_t rows, width;
    const float *data;
} mr_vector_file;
/* Opens such a file and reads each number once. MR_ERROR_DATA: a number is not finite (with row and column), or the
 * file has another format (with the remedy). MR_ERROR_NO_INPUT, MR_ERROR_PERMISSION, MR_ERROR_IO, MR_ERROR_MEMORY. */
MR_API int mr_vector_file_open(mr_vector_file **file, const char *path);
/* Closes a file and sets *file to NULL; NULL is allowed. */
MR_API void mr_vector_file_close(mr_vector_file **file);

#ifdef __cplusplus
}
#endif
#endif
