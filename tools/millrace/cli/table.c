#include "tools/millrace/cli/table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "engine/base/print.h"
#include "millrace/status.h"
#include "tools/millrace/cli/command.h"

enum { INDENT = 2, GAP = 2, LEAST = 8, LONG_NAME = 16, MOST_COLUMNS = 16, PIPE_WIDTH = 80, LEAST_WIDTH = 40,
      MOST_WIDTH = 1000 };
static const char dots[] = "..";

int mr_terminal_width(FILE *stream) {
    struct winsize size;
    const char *said = getenv("COLUMNS");
    long long width = PIPE_WIDTH;
    if (!isatty(fileno(stream)))
        return PIPE_WIDTH;
    if (said && mr_parse_integer(said, LEAST_WIDTH, MOST_WIDTH, &width))
        return (int)width;
    if (ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col >= LEAST_WIDTH)
        return size.ws_col;
    return PIPE_WIDTH;
}

static void add_cell(mr_table *table, const char *text, size_t length) {
    if (table->count == table->room) {
        size_t room = table->room * 2 + 64;
        char **cells = realloc(table->cells, room * sizeof *cells);
        table->out_of_memory |= !cells;
        if (!cells)
            return;
        table->cells = cells;
        table->room = room;
    }
    char *cell = strndup(text, length);
    table->out_of_memory |= !cell;
    if (cell)
        table->cells[table->count++] = cell;
}

/* Tabs in arguments are escaped (print.h), so any remaining tab comes from the format. */
void mr_table_add(mr_table *table, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *cells = mr_vprint_new(format, arguments);
    va_end(arguments);
    table->out_of_memory |= !cells;
    for (const char *cell = cells; cell;) {
        const char *end = strchrnul(cell, '\t');
        add_cell(table, cell, (size_t)(end - cell));
        cell = *end ? end + 1 : NULL;
    }
    free(cells);
}

/* ---- widths ---------------------------------------------------------------------------------------------------- */

static size_t column_count(const mr_table *table) {
    size_t count = 0;
    while (count < MOST_COLUMNS && table->columns[count].title)
        count++;
    return count;
}

static size_t columns_of(const char *text) {
    return mr_columns(text, strlen(text));
}

/* The bytes of a cell's text that fit on one line: all, or up to the last blank or "|" that fits. */
static size_t line_of(const char *cell, mr_shortening cut, size_t width) {
    size_t length = strlen(cell), found = 0;
    if (cut != MR_CUT_LINES || length <= width)
        return length;
    for (size_t i = 0; i < length; i++)
        if (cell[i] == ' ' && (i <= width || !found))
            found = i;
        else if (cell[i] == '|' && (i < width || !found))
            found = i + 1;
    return found ? found : length;
}

/* The longest part of a cell that stays on one line. */
static size_t longest_part(const char *cell) {
    size_t longest = 0;
    for (size_t length; *cell; cell += length + (cell[length] == ' ')) {
        length = line_of(cell, MR_CUT_LINES, 1);
        longest = length > longest ? length : longest;
    }
    return longest;
}

/* Finds each column's width and least width. */
static void measure(const mr_table *table, size_t columns, size_t *widths, size_t *least) {
    for (size_t c = 0; c < columns; c++) {
        widths[c] = least[c] = columns_of(table->columns[c].title);
        least[c] = table->columns[c].cut == MR_CUT_MIDDLE && least[c] < LEAST ? LEAST : least[c];
    }
    for (size_t i = 0; i < table->count; i++) {
        size_t c = i % columns, wide = columns_of(table->cells[i]);
        size_t part = table->columns[c].cut == MR_CUT_LINES ? longest_part(table->cells[i]) : 0;
        widths[c] = wide > widths[c] ? wide : widths[c];
        least[c] = part > least[c] ? part : least[c];
    }
}

static size_t total(const size_t *widths, size_t columns) {
    size_t sum = INDENT + GAP * (columns - 1);
    for (size_t c = 0; c < columns; c++)
        sum += widths[c];
    return sum;
}

/* The widest column that can be shortened in that way and is wider than its least width and `most`. `columns`: none. */
static size_t widest(const mr_table *table, size_t columns, const size_t *widths, const size_t *least,
                     mr_shortening how, size_t most) {
    size_t found = columns;
    for (size_t c = 0; c < columns; c++)
        if (table->columns[c].cut == how && widths[c] > least[c] && widths[c] > most &&
            (found == columns || widths[c] > widths[found]))
            found = c;
    return found;
}

/* Shortens the widest column, one place at a time: first overlong names, then cells that break into lines, which lose
 * nothing. */
static void fit(const mr_table *table, size_t columns, size_t *widths, const size_t *least, size_t most) {
    for (size_t wide = total(widths, columns); wide > most; wide--) {
        size_t c = widest(table, columns, widths, least, MR_CUT_MIDDLE, LONG_NAME);
        if (c == columns)
            c = widest(table, columns, widths, least, MR_CUT_LINES, 0);
        if (c == columns)
            c = widest(table, columns, widths, least, MR_CUT_MIDDLE, 0);
        if (c == columns)
            return;
        widths[c]--;
    }
}

/* ---- printing -------------------------------------------------------------------------------------------------- */

/* Cuts out the middle: "entrance-north..decode". */
static void cut_middle(char *cell, size_t width) {
    size_t length = strlen(cell), all = mr_columns(cell, length), half = (width - 1) / 2;
    size_t head = mr_columns_fit(cell, length, half), from = mr_columns_fit(cell, length, all - (width - 2 - half));
    if (mr_columns(cell + from, length - from) > width - 2 - half)
        from += mr_columns_fit(cell + from, length - from, 2);
    if (head + 2 > from)
        return;
    memmove(cell + head + 2, cell + from, length - from + 1);
    memcpy(cell + head, dots, 2);
}

/* Prints each cell's part for this line and advances past it. False if nothing is left. */
static bool print_line(const mr_column *columns, size_t count, const char **cells, const size_t *widths,
                       FILE *stream) {
    size_t blanks = INDENT;
    bool more = false;
    for (size_t c = 0; c < count; c++) {
        size_t length = line_of(cells[c], columns[c].cut, widths[c]);
        char *text = strndup(cells[c], length);
        size_t wide = text ? columns_of(text) : 0, padding = wide < widths[c] ? widths[c] - wide : 0;
        blanks += columns[c].right ? padding : 0;
        if (wide) {
            fprintf(stream, "%*s%s", (int)blanks, "", text);
            blanks = 0;
        }
        free(text);
        blanks += (columns[c].right ? 0 : padding) + GAP;
        cells[c] += length + (cells[c][length] == ' ');
        more = more || *cells[c];
    }
    fputc('\n', stream);
    return more;
}

static void print_row(const mr_table *table, size_t columns, char **row, const size_t *widths, FILE *stream) {
    const char *cells[MOST_COLUMNS];
    for (size_t c = 0; c < columns; c++) {
        if (table->columns[c].cut == MR_CUT_MIDDLE && columns_of(row[c]) > widths[c])
            cut_middle(row[c], widths[c]);
        cells[c] = row[c];
    }
    while (print_line(table->columns, columns, cells, widths, stream))
        ;
}

static void print_rows(const mr_table *table, size_t columns, const size_t *widths, FILE *stream) {
    const char *titles[MOST_COLUMNS];
    for (size_t c = 0; c < columns; c++)
        titles[c] = table->columns[c].title;
    print_line(table->columns, columns, titles, widths, stream);
    for (size_t i = 0; i + columns <= table->count; i += columns)
        print_row(table, columns, &table->cells[i], widths, stream);
}

/* If columns do not fit, each row becomes a paragraph: "from decode, to preprocess, carries I420 640x480". Only names
 * that are longer than a line are cut. */
static void print_paragraph(mr_table *table, size_t columns, char **row, int width, FILE *stream) {
    char *text = NULL;
    size_t bytes, line = (size_t)width - 2 * INDENT;
    FILE *into = open_memstream(&text, &bytes);
    if (!into) {
        table->out_of_memory = true;
        return;
    }
    for (size_t c = 0; c < columns; c++) {
        if (table->columns[c].cut == MR_CUT_MIDDLE && columns_of(row[c]) >= line)
            cut_middle(row[c], line - 1);
        fprintf(into, "%s%s %s", c ? ", " : "", table->columns[c].title, row[c]);
    }
    fclose(into);
    mr_print_wrapped(width, stream, "%s", text);
    free(text);
}

int mr_table_print(mr_table *table, int width, FILE *stream) {
    size_t columns = column_count(table), widths[MOST_COLUMNS], least[MOST_COLUMNS];
    measure(table, columns, widths, least);
    fit(table, columns, widths, least, (size_t)width);
    bool narrow = total(widths, columns) > (size_t)width;
    if (!table->out_of_memory && !narrow)
        print_rows(table, columns, widths, stream);
    for (size_t i = 0; !table->out_of_memory && narrow && i + columns <= table->count; i += columns)
        print_paragraph(table, columns, &table->cells[i], width, stream);
    for (size_t i = 0; i < table->count; i++)
        free(table->cells[i]);
    free(table->cells);
    bool failed = table->out_of_memory;
    *table = (mr_table){.columns = table->columns};
    return failed ? mr_fail(MR_ERROR_MEMORY, "no memory for a table") : MR_OK;
}

/* Prints lines of text: the first after `first`, the others indented by its width. */
static void print_lines(int width, FILE *stream, const char *first, int indent, const char *text) {
    for (const char *rest = text; *rest;) {
        size_t line = line_of(rest, MR_CUT_LINES, (size_t)(width - (rest == text ? (int)strlen(first) : indent)));
        fprintf(stream, "%*s%.*s\n", rest == text ? 0 : indent, rest == text ? first : "", (int)line, rest);
        rest += line + (rest[line] == ' ');
    }
}

void mr_print_wrapped(int width, FILE *stream, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text = mr_vprint_new(format, arguments);
    va_end(arguments);
    if (text)
        print_lines(width, stream, "  ", 2 * INDENT, text);
    free(text);
}

void mr_print_filled(int width, FILE *stream, const char *first, const char *text) {
    print_lines(width, stream, first, (int)strlen(first), text);
}
