/* Turns pages into terminal text or manual pages. Pages are in the subset of Markdown that the documents use.
 *
 * The subset has headings, paragraphs, lists, tables, indented and fenced blocks; within a line code, links and
 * escapes. Pictures are left out. One thread. */
#pragma once

#include <stddef.h>
#include <stdio.h>

/* Writers for a page's parts. Each text is one line, and may still contain code and links (mr_inline). */
typedef struct mr_page_style {
    void (*heading)(FILE *to, int level, const char *text);
    void (*paragraph)(FILE *to, const char *text);
    void (*item)(FILE *to, const char *text);
    void (*block)(FILE *to, const char *const *lines, size_t count, size_t indent); /* unchanged but for the indent */
    /* cells row by row; titles come first */
    void (*table)(FILE *to, char *const *cells, size_t columns, size_t rows);
} mr_page_style;

extern const mr_page_style mr_page_text, mr_page_manual;

/* MR_OK or MR_ERROR_MEMORY. */
int mr_page_write(FILE *to, const char *const *lines, const mr_page_style *style);

typedef enum mr_inline_kind { MR_INLINE_PLAIN, MR_INLINE_CODE } mr_inline_kind;
/* Calls `put` with each piece of a line: a link's words, or the code between backticks. */
void mr_inline(const char *text, void (*put)(void *to, mr_inline_kind kind, const char *piece, size_t bytes), void *to);

/* Writes manual page text with groff commands escaped. */
void mr_roff_put(FILE *to, const char *text, size_t bytes);
