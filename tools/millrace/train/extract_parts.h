/* Inside the extraction: declarations that its files share. */
#pragma once

#include "engine/base/arena.h"
#include "tools/millrace/cli/settings.h"
#include "tools/millrace/train/extract.h"

/* The files of a run by their path and range. */
typedef struct mr_file_index {
    mr_arena arena;
    mr_index index; /* number + 1 */
} mr_file_index;

/* extract_list.c: by what a file, or a range of a video, stands in the index. */
enum { MR_EXTRACTION_KEY = MR_TEMP_FOLDER_PATH + 64 };
void mr_extraction_key(const char *path, int64_t start_ns, int64_t end_ns, char key[MR_EXTRACTION_KEY]);
/* Puts a file into the index. MR_ERROR_MEMORY. */
int mr_extraction_note(mr_extraction *extraction, const char *path, int64_t start_ns, int64_t end_ns, size_t number);
/* Writes the list that the source reads, and puts its files into the index; mr_extraction_list is its path, in
 * extraction->folder. MR_ERROR_IO, MR_ERROR_DATA, MR_ERROR_MEMORY. */
int mr_extraction_write_list(mr_extraction *extraction, const mr_extraction_job *job);
void mr_extraction_list(const mr_extraction *extraction, char *path, size_t room);
/* The list that sources which are left out read. */
void mr_extraction_left_out(const mr_extraction *extraction, char *path, size_t room);
/* One line of such a list. */
int mr_extraction_write_row(const mr_listed_file *row, FILE *list);

/* extract.c: stage types of the pipeline as it runs here; they are needed for as long as it is open. */
int mr_extraction_wrap(mr_extraction *extraction, bool tapped);
void mr_extraction_unwrap(mr_extraction *extraction);
/* The settings that make the pipeline read the list. */
int mr_extraction_settings(mr_settings *to, const mr_extraction *extraction);
/* Opens the pipeline, or of several nodes the one that this process runs. *told: errors were printed. */
int mr_extraction_open(mr_extraction *extraction, bool *told);
/* Starts it, and awaits its end. */
int mr_extraction_await(mr_extraction *extraction);

/* extract_nodes.c: finds the nodes, the one that is home, and this process's role. Returns an exit code; errors are
 * printed. */
int mr_extraction_find_nodes(mr_extraction *extraction);
/* Moves classify, and all behind it, home; and lets no cut drop frames. */
int mr_extraction_set_nodes(mr_settings *to, const mr_extraction *extraction);
/* The most settings of mr_extraction_set_nodes. */
size_t mr_extraction_most_settings(const mr_extraction *extraction);
/* mr_extraction_run, of home and of the process that watches. */
int mr_extraction_run_nodes(mr_extraction *extraction, const mr_extraction_job *job, bool *told);
