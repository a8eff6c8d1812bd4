/* Pages as manual pages: man(7) macros, which groff and mandoc know. */
#include <ctype.h>
#include <string.h>

#include "tools/millrace/help/help_page.h"

void mr_roff_put(FILE *to, const char *text, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        if (text[i] == '\\')
            fputs("\\e", to);
        else if (text[i] == '-')
            fputs("\\-", to);
        else if (text[i] == '\'')
            fputs("\\(aq", to);
        else if (text[i] == '`')
            fputs("\\(ga", to);
        else if (text[i] == '^')
            fputs("\\(ha", to);
        else if (text[i] == '~')
            fputs("\\(ti", to);
        else
            fputc(text[i], to);
}

static void put_inline(void *context, mr_inline_kind kind, const char *piece, size_t bytes) {
    FILE *to = context;
    fputs(kind == MR_INLINE_CODE ? "\\fB" : "", to);
    mr_roff_put(to, piece, bytes);
    fputs(kind == MR_INLINE_CODE ? "\\fR" : "", to);
}

/* Writes a text line that groff cannot mistake for a request. */
static void put_line(FILE *to, const char *text) {
    fputs(*text == '.' ? "\\&" : "", to);
    mr_inline(text, put_inline, to);
    fputc('\n', to);
}

static void put_heading(FILE *to, int level, const char *text) {
    fputs(level > 2 ? ".SS " : ".SH ", to);
    for (; *text; text++)
        fputc(*text == '"' ? '\'' : level > 2 ? *text : toupper((unsigned char)*text), to);
    fputc('\n', to);
}

static void put_paragraph(FILE *to, const char *text) {
    fputs(".PP\n", to);
    put_line(to, text);
}

static void put_item(FILE *to, const char *text) {
    fputs(".IP \\(bu 2\n", to);
    put_line(to, text);
}

static void put_block(FILE *to, const char *const *lines, size_t count, size_t indent) {
    fputs(".PP\n.RS 4\n.nf\n", to);
    for (size_t i = 0; i < count; i++) {
        const char *text = *lines[i] ? lines[i] + indent : "";
        fputs(*text == '.' ? "\\&" : "", to);
        mr_roff_put(to, text, strlen(text));
        fputc('\n', to);
    }
    fputs(".fi\n.RE\n", to);
}

/* Writes a row as a paragraph that hangs from the first cell. With several other cells, each gets a title. */
static void put_table(FILE *to, char *const *cells, size_t columns, size_t rows) {
    for (size_t row = 1; row < rows; row++) {
        char *const *cell = cells + row * columns;
        fputs(".TP\n", to);
        put_line(to, *cell[0] ? cell[0] : "\\ ");
        for (size_t c = 1; c < columns; c++) {
            fputs(c > 1 ? ".br\n" : "", to);
            if (columns > 2) {
                mr_inline(cells[c], put_inline, to);
                fputs(": ", to);
            }
            put_line(to, cell[c]);
        }
    }
}

const mr_page_style mr_page_manual = {put_heading, put_paragraph, put_item, put_block, put_table};
