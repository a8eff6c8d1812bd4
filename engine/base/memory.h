/* Memory of millrace's own, counted: how many blocks were allocated tells whether anything is allocated per frame.
 * The functions are malloc and its kin otherwise; NULL where there is no memory. Any thread. */
#ifndef MILLRACE_BASE_MEMORY_H
#define MILLRACE_BASE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

void *mr_alloc(size_t bytes);
void *mr_calloc(size_t count, size_t bytes);
void *mr_realloc(void *block, size_t bytes);
/* `alignment`: a power of two, at least sizeof(void *). */
void *mr_alloc_aligned(size_t alignment, size_t bytes);
char *mr_strdup(const char *text);
/* Frees what any of these gave; NULL is allowed. */
void mr_free(void *block);

/* Blocks allocated (or grown) since the process began. */
uint64_t mr_allocation_count(void);

#endif
