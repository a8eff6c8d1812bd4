/* Declarations shared by the extraction's files. */
#pragma once

#include "engine/base/arena.h"
#include "tools/millrace/cli/settings.h"
#include "tools/millrace/train/extract.h"

/* A run's files by path and range. */
typedef struct mr_file_index {
    mr_arena arena;
    mr_index index; /* number + 1 */
} mr_file_index;

/* extract_list.c: the key for a file, or a range in a video, in the index. */
enum { MR_EXTRACTION_KEY = MR_TEMP_FOLDER_PATH + 64 };
void mr_extraction_key(const char *path, int64_t start_ns, int64_t end_ns, char key[MR_EXTRACTION_KEY]);
/* Indexes a file. MR_ERROR_MEMORY. */
int mr_extraction_note(mr_extraction *extraction, const char *path, int64_t start_ns, int64_t end_ns, size_t number);
/* Writes the source's list and indexes its files; mr_extraction_list is its path, in extraction->folder. MR_ERROR_IO,
 * MR_ERROR_DATA, MR_ERROR_MEMORY. */
int mr_extraction_write_list(mr_extraction *extraction, const mr_extraction_job *job);
void mr_extraction_list(const mr_extraction *extraction, char *path, size_t room);
/* The list for omitted sources. */
void mr_extraction_left_out(const mr_extraction *extraction, char *path, size_t room);

/* extract.c: the pipeline's stage types for this run; they must exist while it is open. */
int mr_extraction_wrap(mr_extraction *extraction, bool tapped);
void mr_extraction_unwrap(mr_extraction *extraction);
/* Settings that make the pipeline read the list. */
int mr_extraction_settings(mr_settings *to, const mr_extraction *extraction);
/* Opens the pipeline; with several nodes, the part that this process runs. *told: errors were printed. */
int mr_extraction_open(mr_extraction *extraction, bool *told);
/* Starts it and waits until it ends. */
int mr_extraction_await(mr_extraction *extraction);

/* extract_nodes.c: finds the nodes, the home node, and this process's role. Returns an exit code; errors are
 * printed. */
int mr_extraction_find_nodes(mr_extraction *extraction);
/* Moves classify and all later stages home, and prevents cuts from dropping frames. */
int mr_extraction_set_nodes(mr_settings *to, const mr_extraction *extraction);
/* Upper limit for mr_extraction_set_nodes' settings. */
size_t mr_extraction_most_settings(const mr_extraction *extraction);
/* mr_extraction_run for home and for the watching process. */
int mr_extraction_run_nodes(mr_extraction *extraction, const mr_extraction_job *job, bool *told);
