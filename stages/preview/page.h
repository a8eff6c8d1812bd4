/* The page that shows all sources: whole in one answer, loads nothing but pictures and records from the same server,
 * and keeps itself up to date. */
#pragma once

#include <stddef.h>

/* The page; `title` may hold any text. To be freed with free; NULL without memory. */
char *mr_page_make(const char *title, size_t *bytes);
