/* A page with all sources, sent in one answer. It loads only pictures and records, from the same server, and updates
 * itself. */
#pragma once

#include <stddef.h>

/* Makes the page; `title` may be any text. The caller must free it with free; NULL: no memory. */
char *mr_page_make(const char *title, size_t *bytes);
