#include "tools/millrace/help/help_page.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "millrace/status.h"

enum { MOST_COLUMNS = 8 };

/* ---- within a line --------------------------------------------------------------------------------------------- */

/* The length of "[words](target)"; 0 if there is no link. */
static size_t link_at(const char *at, size_t *words) {
    const char *close = *at == '[' ? strstr(at, "](") : NULL;
    const char *end = close ? strchr(close, ')') : NULL;
    if (!end || memchr(at + 1, '[', (size_t)(close - at - 1)))
        return 0;
    *words = (size_t)(close - at - 1);
    return (size_t)(end + 1 - at);
}

void mr_inline(const char *text, void (*put)(void *to, mr_inline_kind kind, const char *piece, size_t bytes),
               void *to) {
    const char *plain = text, *at = text;
    while (*at) {
        const char *close = *at == '`' ? strchr(at + 1, '`') : NULL;
        size_t words = 0, link = link_at(at, &words);
        bool escaped = *at == '\\' && at[1] && strchr("\\`*_{}[]<>()#+-.!|", at[1]);
        if (!close && !link && !escaped) {
            at++;
            continue;
        }
        if (at > plain)
            put(to, MR_INLINE_PLAIN, plain, (size_t)(at - plain));
        if (close)
            put(to, MR_INLINE_CODE, at + 1, (size_t)(close - at - 1));
        else if (link) {
            char *inner = strndup(at + 1, words);
            if (inner)
                mr_inline(inner, put, to);
            free(inner);
        } else
            put(to, MR_INLINE_PLAIN, at + 1, 1);
        at = plain = close ? close + 1 : at + (link ? link : 2);
    }
    if (at > plain)
        put(to, MR_INLINE_PLAIN, plain, (size_t)(at - plain));
}

/* ---- lines ----------------------------------------------------------------------------------------------------- */

static bool begins(const char *line, const char *with) {
    return strncmp(line, with, strlen(with)) == 0;
}

/* True if a line begins a new part instead of continuing the paragraph. */
static bool begins_part(const char *line) {
    return !*line || begins(line, "```") || begins(line, "#") || begins(line, "| ") || begins(line, "- ") ||
           begins(line, "![") || begins(line, "    ");
}

/* Adds a line to a part's text, after a blank. */
static bool join(char **text, const char *line) {
    size_t had = *text ? strlen(*text) + 1 : 0;
    char *grown = realloc(*text, had + strlen(line) + 1);
    if (!grown)
        return false;
    if (had)
        grown[had - 1] = ' ';
    strcpy(grown + had, line);
    *text = grown;
    return true;
}

/* Reads a paragraph or an item: all lines up to the next part. NULL: no memory. */
static const char *const *write_text(FILE *to, const char *const *line, const mr_page_style *style) {
    bool item = begins(*line, "- ");
    char *text = NULL;
    bool good = join(&text, *line + (item ? 2 : 0));
    for (line++; good && *line && (item ? begins(*line, "  ") : !begins_part(*line)); line++)
        good = join(&text, *line + strspn(*line, " "));
    if (good)
        (item ? style->item : style->paragraph)(to, text);
    free(text);
    return good ? line : NULL;
}

static const char *const *write_fence(FILE *to, const char *const *line, const mr_page_style *style) {
    const char *const *first = ++line;
    while (*line && !begins(*line, "```"))
        line++;
    style->block(to, first, (size_t)(line - first), 0);
    return *line ? line + 1 : line;
}

static const char *const *write_indented(FILE *to, const char *const *line, const mr_page_style *style) {
    const char *const *first = line;
    while (*line && begins(*line, "    "))
        line++;
    style->block(to, first, (size_t)(line - first), 4);
    return line;
}

static const char *const *write_heading(FILE *to, const char *const *line, const mr_page_style *style) {
    size_t level = strspn(*line, "#");
    style->heading(to, (int)level, *line + level + strspn(*line + level, " "));
    return line + 1;
}

/* ---- tables ---------------------------------------------------------------------------------------------------- */

/* A cell's text, in which "\|" is "|". */
static char *cell_of(const char *first, size_t bytes) {
    char *text = malloc(bytes + 1), *to = text;
    for (size_t i = 0; text && i < bytes; i++)
        if (first[i] != '\\' || i + 1 == bytes || first[i + 1] != '|')
            *to++ = first[i];
    if (text)
        *to = '\0';
    return text;
}

/* Reads the cells of "| a | b |", in which "\|" is not a border. False: no memory. */
static bool take_row(const char *line, char **cells, size_t *count) {
    for (const char *at = line + 1; *at && *count < MOST_COLUMNS; at++) {
        const char *first = at + strspn(at, " ");
        while (*at && (*at != '|' || at[-1] == '\\'))
            at++;
        if (!*at)
            return true;
        size_t bytes = at > first ? (size_t)(at - first) : 0;
        while (bytes && first[bytes - 1] == ' ')
            bytes--;
        if (!(cells[*count] = cell_of(first, bytes)))
            return false;
        ++*count;
    }
    return true;
}

/* Whether it is the line below a table's head: "| --- | --- |", with or without spaces and colons. */
static bool is_rule(const char *line) {
    return strchr(line, '-') && strspn(line, "|-: ") == strlen(line);
}

static const char *const *write_table(FILE *to, const char *const *line, const mr_page_style *style) {
    const char *const *end = line;
    size_t rows = 0, columns = 0, filled = 0;
    while (*end && **end == '|')
        end++;
    char **cells = calloc((size_t)(end - line) * MOST_COLUMNS, sizeof *cells);
    bool good = cells;
    for (const char *const *row = line; good && row < end; row++) {
        if (is_rule(*row))
            continue;
        size_t count = 0;
        good = take_row(*row, cells + filled, &count);
        filled += count;
        columns = rows++ ? columns : count;
        good &= count == columns;
    }
    if (good)
        style->table(to, cells, columns, rows);
    for (size_t i = 0; cells && i < filled; i++)
        free(cells[i]);
    free(cells);
    return good ? end : NULL;
}

int mr_page_write(FILE *to, const char *const *lines, const mr_page_style *style) {
    const char *const *line = lines;
    while (line && *line)
        if (!**line || begins(*line, "!["))
            line++;
        else if (begins(*line, "```"))
            line = write_fence(to, line, style);
        else if (begins(*line, "    "))
            line = write_indented(to, line, style);
        else if (**line == '#')
            line = write_heading(to, line, style);
        else if (**line == '|')
            line = write_table(to, line, style);
        else
            line = write_text(to, line, style);
    return line ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for a page");
}
