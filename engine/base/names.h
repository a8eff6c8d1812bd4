/* Strings that are kept once and for as long as the table is: ids of stages, labels and reasons that came from another
 * process. The table is bounded, since who sends them may be hostile. Any thread. */
#ifndef MILLRACE_BASE_NAMES_H
#define MILLRACE_BASE_NAMES_H

#include <stddef.h>

typedef struct mr_names mr_names;

/* A table of at most `most` strings with at most `most_bytes` in all. */
int mr_names_create(mr_names **names, size_t most, size_t most_bytes);
void mr_names_destroy(mr_names **names);

/* The string of these bytes, which hold no zero; the same pointer for the same bytes. MR_ERROR_MEMORY;
 * MR_ERROR_PROTOCOL where the table is full. */
int mr_names_keep(mr_names *names, const char *text, size_t bytes, const char **kept);

#endif
