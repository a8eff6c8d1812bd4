/* Data sets for training and evaluation: files with their classes, and the parts that they are split into.
 *
 *     mr_file_list *list;
 *     if (mr_file_list_open(&list, "photos")) ...
 *     for (size_t i = 0; i < list->count; i++)
 *         printf("%s is a %s\n", list->files[i].path, list->labels[list->files[i].label]);
 *     mr_file_list_close(&list);
 *
 * The source `media` reads the same lists. Any thread; one at a time for each object.
 *
 * Unstable: it is made for the command, and may change with any version (version.h). */
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
/* "train", "validation", "test", and "" of MR_SPLIT_NONE. */
MR_API const char *mr_split_name(mr_split split);
/* MR_SPLIT_NONE if the text is none of these names. */
MR_API mr_split mr_split_parse(const char *text);

/* Shares of the parts; what is left is for training. */
typedef struct mr_split_shares {
    double validation, test;
} mr_split_shares;
/* The part of all rows of one group (a person, a camera, a day): a number in [0, 1) is made of the seed and the group's
 * bytes, by XXH3 with 64 bits; below `test` it is for test, below `test` + `validation` for validation. So rows that
 * are added move no others. */
MR_API mr_split mr_split_of(uint64_t seed, const void *group, size_t bytes, mr_split_shares shares);

/* The content of a file, by which it is known again under other names: XXH3 with 128 bits. */
typedef struct mr_content_key {
    uint64_t low, high;
} mr_content_key;
/* MR_ERROR_NO_INPUT, MR_ERROR_PERMISSION, MR_ERROR_IO; MR_ERROR_DATA if it is not a regular file. */
MR_API int mr_content_key_of(const char *path, mr_content_key *key);
/* The key of a part of a content, which `part` tells: XXH3 with 128 bits of the key and these bytes. */
MR_API mr_content_key mr_content_key_join(const mr_content_key *key, const void *part, size_t bytes);

typedef struct mr_listed_file {
    const char *path;  /* as it can be opened from here: relative paths of a list begin with its folder */
    const char *group; /* NULL: none is named */
    int32_t label;     /* index into labels; -1: none */
    mr_split split;    /* as the list says */
    size_t line;       /* of the list; 0: of a folder */
    bool video;        /* by its name, or because the row has a range */
    int64_t start_ns, end_ns; /* of a video: pictures of [start, end), by presentation time; end 0: to its end */
} mr_listed_file;

typedef struct mr_file_list {
    size_t count;
    const mr_listed_file
        *files; /* of a folder: class by class, in natural order of their names; of a list: its order */
    size_t label_count;
    const char *const *labels; /* in byte order */
} mr_file_list;

/* Lists a folder that holds a folder of pictures for each class, or reads a list: *.csv (the first row names the
 * columns: path, and any of label, group, split, and of videos start and end, in seconds) or *.jsonl (an object a line
 * with those keys). Nothing but the list
 * is opened. MR_ERROR_NO_INPUT, MR_ERROR_PERMISSION, MR_ERROR_IO, MR_ERROR_MEMORY; MR_ERROR_DATA, with file and line,
 * if a row is wrong, and if there are no files. */
MR_API int mr_file_list_open(mr_file_list **list, const char *path);
/* The same of a list whose rows are, in their order, for those of a file of vectors: a row needs no path, which is then
 * "". */
MR_API int mr_file_list_open_rows(mr_file_list **list, const char *path);
/* Sets *list to NULL; NULL is allowed. */
MR_API void mr_file_list_close(mr_file_list **list);

/* Vectors that are kept in a NumPy file (.npy): a matrix of f4 in C order, little-endian, with a vector in each row.
 * The file is mapped, so that there may be more of them than fit into memory; it must not be cut off meanwhile. */
typedef struct mr_vector_file {
    size_t rows, width;
    const float *data;
} mr_vector_file;
/* Looks at each number once: MR_ERROR_DATA, with row and column, for one that is not finite, and for any other kind of
 * file, with what to do. MR_ERROR_NO_INPUT, MR_ERROR_PERMISSION, MR_ERROR_IO, MR_ERROR_MEMORY. */
MR_API int mr_vector_file_open(mr_vector_file **file, const char *path);
/* Sets *file to NULL; NULL is allowed. */
MR_API void mr_vector_file_close(mr_vector_file **file);

#ifdef __cplusplus
}
#endif
#endif
