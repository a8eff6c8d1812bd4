#include "tools/millrace/table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "millrace/status.h"
#include "tools/millrace/command.h"

enum { INDENT = 2, GAP = 2, LEAST = 10, MOST_COLUMNS = 16, PIPE_WIDTH = 80, LEAST_WIDTH = 40, MOST_WIDTH = 1000 };
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

void mr_table_add(mr_table *table, const char *format, ...) {
    if (table->count == table->room) {
        size_t room = table->room * 2 + 64;
        char **cells = realloc(table->cells, room * sizeof *cells);
        table->out_of_memory |= !cells;
        if (!cells)
            return;
        table->cells = cells;
        table->room = room;
    }
    va_list arguments;
    va_start(arguments, format);
    char *cell = NULL;
    if (vasprintf(&cell, format, arguments) < 0)
        table->out_of_memory = true;
    else
        table->cells[table->count++] = cell;
    va_end(arguments);
}

/* ---- widths ----------------------------------------------------------------------------------------------------- */

static size_t column_count(const mr_table *table) {
    size_t count = 0;
    while (count < MOST_COLUMNS && table->columns[count].title)
        count++;
    return count;
}

/* Bytes of UTF-8 that begin a character. */
static size_t columns_of(const char *text) {
    size_t count = 0;
    for (; *text; text++)
        count += (*text & 0xc0) != 0x80;
    return count;
}

static void measure(const mr_table *table, size_t columns, size_t *widths) {
    for (size_t c = 0; c < columns; c++)
        widths[c] = columns_of(table->columns[c].title);
    for (size_t i = 0; i < table->count; i++) {
        size_t wide = columns_of(table->cells[i]);
        widths[i % columns] = wide > widths[i % columns] ? wide : widths[i % columns];
    }
}

static size_t total(const size_t *widths, size_t columns) {
    size_t sum = INDENT + GAP * (columns - 1);
    for (size_t c = 0; c < columns; c++)
        sum += widths[c];
    return sum;
}

/* The widest column that is cut that way and can give one more; `columns` where there is none. */
static size_t widest(const mr_table *table, size_t columns, const size_t *widths, mr_cut how) {
    size_t found = columns;
    for (size_t c = 0; c < columns; c++)
        if (table->columns[c].cut == how && widths[c] > LEAST && (found == columns || widths[c] > widths[found]))
            found = c;
    return found;
}

/* Takes one column of the terminal after another from the widest, names first. */
static void fit(const mr_table *table, size_t columns, size_t *widths, size_t most) {
    for (size_t wide = total(widths, columns); wide > most; wide--) {
        size_t c = widest(table, columns, widths, MR_CUT_MIDDLE);
        if (c == columns)
            c = widest(table, columns, widths, MR_CUT_WORDS);
        if (c == columns)
            return;
        widths[c]--;
    }
}

/* ---- cutting ---------------------------------------------------------------------------------------------------- */

/* The middle goes: "entrance-north..decode". What is cut is ASCII: ids and formats. */
static void cut_middle(char *cell, size_t width) {
    size_t length = strlen(cell), head = (width - 1) / 2, tail = width - 2 - head;
    memmove(cell + head + 2, cell + length - tail, tail + 1);
    memcpy(cell + head, dots, 2);
}

/* Leaves the last member out of "a|b|c", which makes "a|b|..". False where only one would be left to leave out. */
static bool drop_member(char *cell) {
    char *mark = strstr(cell, "|.."), *at = mark ? mark : strrchr(cell, '|');
    if (!at)
        return false;
    const char *rest = mark ? mark + 3 : at + 1 + strcspn(at + 1, " ");
    do
        at -= mark != NULL;
    while (mark && at > cell && *at != '|' && *at != ' ');
    if (*at != '|')
        return false;
    memcpy(at, "|..", 3);
    memmove(at + 3, rest, strlen(rest) + 1);
    return true;
}

static void cut_words(char *cell, size_t width) {
    while (columns_of(cell) > width && drop_member(cell))
        ;
    if (columns_of(cell) <= width)
        return;
    char *end = NULL;
    for (char *space = strchr(cell, ' '); space && (size_t)(space - cell) + 3 <= width; space = strchr(space + 1, ' '))
        end = space;
    if (end)
        memcpy(end, " ..", sizeof " ..");
    else
        cut_middle(cell, width);
}

static void cut(char *cell, mr_cut how, size_t width) {
    if (columns_of(cell) <= width)
        return;
    if (how == MR_CUT_WORDS)
        cut_words(cell, width);
    else if (how == MR_CUT_MIDDLE)
        cut_middle(cell, width);
}

/* ---- printing --------------------------------------------------------------------------------------------------- */

static void print_cell(const char *cell, bool right, size_t width, bool last, FILE *stream) {
    size_t wide = columns_of(cell);
    int padding = wide < width ? (int)(width - wide) : 0;
    if (right)
        fprintf(stream, "%*s%s", padding, "", cell);
    else
        fprintf(stream, "%s%*s", cell, last ? 0 : padding, "");
    fputs(last ? "\n" : "  ", stream);
}

int mr_table_print(mr_table *table, int width, FILE *stream) {
    size_t columns = column_count(table), widths[MOST_COLUMNS];
    measure(table, columns, widths);
    fit(table, columns, widths, (size_t)width);
    for (size_t c = 0; !table->out_of_memory && c < columns; c++) {
        fprintf(stream, "%*s", c ? 0 : INDENT, "");
        print_cell(table->columns[c].title, table->columns[c].right, widths[c], c + 1 == columns, stream);
    }
    for (size_t i = 0; i < table->count; i++) {
        const mr_column *column = &table->columns[i % columns];
        cut(table->cells[i], column->cut, widths[i % columns]);
        if (!table->out_of_memory) {
            fprintf(stream, "%*s", i % columns ? 0 : INDENT, "");
            print_cell(table->cells[i], column->right, widths[i % columns], (i + 1) % columns == 0, stream);
        }
        free(table->cells[i]);
    }
    free(table->cells);
    bool failed = table->out_of_memory;
    *table = (mr_table){.columns = table->columns};
    return failed ? mr_fail(MR_ERROR_MEMORY, "no memory for a table") : MR_OK;
}
