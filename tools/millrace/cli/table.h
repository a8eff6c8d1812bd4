/* Tables for people: columns are as wide as the cells, and a table is no wider than the terminal.
 *
 *     static const mr_column columns[] = {{"stage", .cut = MR_CUT_MIDDLE}, {"frames", .right = true}, {0}};
 *     mr_table table = {.columns = columns};
 *     mr_table_add(&table, "%s\t%d", id, frames);
 *     status = mr_table_print(&table, mr_terminal_width(stdout), stdout);
 *
 * Add cells row by row, from left to right. If rows are too wide, the table shortens columns that allow it, the widest
 * first: it cuts long names, then breaks other cells into lines, and only then cuts short names. Cells in other columns
 * stay whole, so a number is never cut. If rows are still too wide, each becomes a paragraph with titles and cells. One
 * thread at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef enum mr_shortening {
    MR_CUT_NEVER,
    MR_CUT_LINES,  /* broken into lines, at blanks and after "|" */
    MR_CUT_MIDDLE  /* names: cut in the middle, since both ends distinguish them */
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

/* Adds the next cells, printf style, separated by tabs. If memory runs out, mr_table_print reports it. */
void mr_table_add(mr_table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints a title line and the rows, indented by two columns, and frees the cells. MR_OK or MR_ERROR_MEMORY. */
int mr_table_print(mr_table *table, int width, FILE *stream);

/* Prints a paragraph, printf style, indented by two columns, and by four from the second line on. */
void mr_print_wrapped(int width, FILE *stream, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Prints a paragraph that begins with `first` (ASCII). The other lines align with the text after it. */
void mr_print_filled(int width, FILE *stream, const char *first, const char *text);

/* The columns of the stream's terminal (COLUMNS if set); 80 if it is not a terminal. */
int mr_terminal_width(FILE *stream);
