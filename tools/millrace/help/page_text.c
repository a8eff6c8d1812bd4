/* Prints pages on a terminal: paragraphs use its width, up to a readable limit. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/print.h"
#include "tools/millrace/cli/table.h"
#include "tools/millrace/help/help_page.h"

enum { WIDEST = 100, MOST_COLUMNS = 8 };

static int width_of(FILE *to) {
    int width = mr_terminal_width(to);
    return width < WIDEST ? width : WIDEST;
}

typedef struct plain {
    FILE *to;
    bool bare; /* code without backticks */
} plain;

static void put_plain(void *context, mr_inline_kind kind, const char *piece, size_t bytes) {
    const plain *into = context;
    const char *quote = kind == MR_INLINE_CODE && !into->bare ? "`" : "";
    fprintf(into->to, "%s%.*s%s", quote, (int)bytes, piece, quote);
}

/* NULL: no memory. */
static char *plain_text(const char *text, bool bare) {
    char *made = NULL;
    size_t bytes;
    FILE *into = open_memstream(&made, &bytes);
    if (!into)
        return NULL;
    mr_inline(text, put_plain, &(plain){into, bare});
    return fclose(into) ? free(made), NULL : made;
}

static void put_heading(FILE *to, int level, const char *text) {
    char *shown = plain_text(text, true);
    fprintf(to, "%s%s\n\n", level > 2 ? "  " : "", shown ? shown : text);
    free(shown);
}

static void put_wrapped(FILE *to, const char *first, const char *text) {
    char *shown = plain_text(text, false);
    if (shown)
        mr_print_filled(width_of(to), to, first, shown);
    free(shown);
}

static void put_paragraph(FILE *to, const char *text) {
    put_wrapped(to, "  ", text);
    fputc('\n', to);
}

static void put_item(FILE *to, const char *text) {
    put_wrapped(to, "  - ", text);
    fputc('\n', to);
}

static void put_block(FILE *to, const char *const *lines, size_t count, size_t indent) {
    for (size_t i = 0; i < count; i++)
        fprintf(to, "%s%s\n", *lines[i] ? "      " : "", *lines[i] ? lines[i] + indent : "");
    fputc('\n', to);
}

static void put_table(FILE *to, char *const *cells, size_t columns, size_t rows) {
    mr_column column[MOST_COLUMNS + 1] = {0};
    char *titles[MOST_COLUMNS] = {0};
    for (size_t c = 0; c < columns; c++) {
        titles[c] = plain_text(cells[c], true);
        column[c] = (mr_column){titles[c] ? titles[c] : "", .cut = MR_CUT_LINES};
    }
    mr_table table = {.columns = column};
    for (size_t i = columns; i < rows * columns; i++) {
        char *shown = plain_text(cells[i], i % columns == 0);
        mr_table_add(&table, "%s", shown ? shown : "");
        free(shown);
    }
    mr_table_print(&table, width_of(to), to);
    fputc('\n', to);
    for (size_t c = 0; c < columns; c++)
        free(titles[c]);
}

const mr_page_style mr_page_text = {put_heading, put_paragraph, put_item, put_block, put_table};
