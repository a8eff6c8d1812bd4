/* Pages: the part of Markdown that the documents use, as text for a terminal or as a manual page.
 *
 * Headings, paragraphs, lists, tables, indented and fenced blocks; within a line code, links and escapes. Pictures are
 * left out. One thread. */
#pragma once

#include <stddef.h>
#include <stdio.h>

/* How a page's parts are written. Texts are one line each, and still have code and links (mr_inline). */
typedef struct mr_page_style {
    void (*heading)(FILE *to, int level, const char *text);
    void (*paragraph)(FILE *to, const char *text);
    void (*item)(FILE *to, const char *text);
    void (*block)(FILE *to, const char *const *lines, size_t count, size_t indent); /* unchanged but for the indent */
    /* Cells row by row; the first row are the titles. */
    void (*table)(FILE *to, char *const *cells, size_t columns, size_t rows);
} mr_page_style;

extern const mr_page_style mr_page_text, mr_page_manual;

/* MR_OK or MR_ERROR_MEMORY. */
int mr_page_write(FILE *to, const char *const *lines, const mr_page_style *style);

typedef enum mr_inline_kind { MR_INLINE_PLAIN, MR_INLINE_CODE } mr_inline_kind;
/* Calls `put` with each piece in a line: for a link its words, for code the text between the backticks. */
void mr_inline(const char *text, void (*put)(void *to, mr_inline_kind kind, const char *piece, size_t bytes), void *to);

/* Text in a manual page, with groff commands escaped. */
void mr_roff_put(FILE *to, const char *text, size_t bytes);
