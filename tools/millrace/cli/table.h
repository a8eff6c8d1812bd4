/* Tables for people: columns as wide as the cells, and the whole no wider than the terminal.
 *
 *     static const mr_column columns[] = {{"stage", .cut = MR_CUT_MIDDLE}, {"frames", .right = true}, {0}};
 *     mr_table table = {.columns = columns};
 *     mr_table_add(&table, "%s\t%d", id, frames);
 *     status = mr_table_print(&table, mr_terminal_width(stdout), stdout);
 *
 * Cells are added row by row, from left to right. If rows are too wide, columns that can be shortened are, the widest
 * first: long names are cut, other cells are broken into lines, and only then short names are cut. Cells in other
 * columns stay whole, so that a number is never half a number. If even that is too wide, each row becomes a paragraph
 * with titles and cells. One thread at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef enum mr_shortening {
    MR_CUT_NEVER,
    MR_CUT_LINES,  /* broken into lines, at blanks and after "|" */
    MR_CUT_MIDDLE  /* names: both ends tell them apart */
} mr_shortening;

typedef struct mr_column {
    const char *title;
    bool right; /* numbers */
    mr_shortening cut;
} mr_column;

typedef struct mr_table {
    const mr_column *columns; /* ended by a NULL title */
    size_t count, room;
    char **cells;
    bool out_of_memory;
} mr_table;

/* The next cells, printf style, with tabs between them. If memory runs out, mr_table_print reports it. */
void mr_table_add(mr_table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints a line of titles and the rows, each two columns in, and frees the cells. MR_OK or MR_ERROR_MEMORY. */
int mr_table_print(mr_table *table, int width, FILE *stream);

/* A paragraph, printf style, two columns in, and from the second line on four. */
void mr_print_wrapped(int width, FILE *stream, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* A paragraph that begins with `first` (ASCII). Its other lines are aligned with the text after that. */
void mr_print_filled(int width, FILE *stream, const char *first, const char *text);

/* Columns of the stream's terminal (COLUMNS if that is set); 80 if it is not one. */
int mr_terminal_width(FILE *stream);
