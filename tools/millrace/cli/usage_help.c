/* Prints a verb's help from the tables that parsing reads. */
#include <stdlib.h>
#include <string.h>

#include "tools/millrace/cli/command.h"
#include "tools/millrace/cli/table.h"

enum { WIDEST = 100, NAMES = 21 };

typedef struct page {
    FILE *stream;
    int width;
} page;

int mr_usage_name(const mr_usage_option *one, const char *before, char *text, size_t room) {
    const bool named = one->argument && strcmp(one->argument, "[]") != 0;
    return snprintf(text, room, "%s%s%s%s", before, one->name, named ? " " : "", named ? one->argument : "");
}

void mr_usage_synopsis(const mr_usage *usage, int width, FILE *to) {
    const int indent = fprintf(to, "millrace %s", usage->verb) + (int)strlen("usage: ");
    int column = indent + fprintf(to, "%s%s", *usage->synopsis ? " " : "", usage->synopsis);
    for (const mr_usage_option *one = usage->options; one->name; one++) {
        char text[160];
        if (one->kind == MR_USAGE_HELP || one->kind == MR_USAGE_VERSION)
            continue;
        const char *after = one->needed ? "" : one->several ? "]..." : "]";
        const int length = mr_usage_name(one, one->needed ? "--" : "[--", text, sizeof text) + (int)strlen(after);
        const bool full = column + 1 + length > width;
        fprintf(to, full ? "\n%*s %s%s" : "%*s %s%s", full ? indent : 0, "", text, after);
        column = (full ? indent : column) + 1 + length;
    }
    fputc('\n', to);
}

void mr_usage_paragraphs(const char *text, void (*put)(void *to, const char *paragraph), void *to) {
    while (text && *text) {
        char *paragraph = strndup(text, strcspn(text, "\n"));
        if (paragraph)
            put(to, paragraph);
        free(paragraph);
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
}

static void print_paragraph(void *to, const char *text) {
    const page *of = to;
    if (!*text || *text == ' ')
        fprintf(of->stream, "%s\n", text);
    else
        mr_print_filled(of->width, of->stream, "", text);
}

static void print_rows(const mr_usage_option *rows, const char *before, const page *to) {
    for (const mr_usage_option *one = rows; one && one->name; one++) {
        char name[160], first[sizeof name + NAMES];
        const bool alone = mr_usage_name(one, before, name, sizeof name) > NAMES - 2;
        if (alone)
            fprintf(to->stream, "%s\n", name);
        snprintf(first, sizeof first, "%-*s", NAMES, alone ? "" : name);
        mr_print_filled(to->width, to->stream, first, one->help);
    }
    if (rows)
        fputc('\n', to->stream);
}

void mr_usage_print(const mr_usage *usage, FILE *stream) {
    const int terminal = mr_terminal_width(stream);
    page to = {.stream = stream, .width = terminal < WIDEST ? terminal : WIDEST};
    fputs("usage: ", stream);
    mr_usage_synopsis(usage, to.width, stream);
    fputc('\n', stream);
    mr_usage_paragraphs(usage->help, print_paragraph, &to);
    fputc('\n', stream);
    print_rows(usage->words, "  ", &to);
    print_rows(usage->options, "  --", &to);
    mr_usage_paragraphs(usage->notes, print_paragraph, &to);
    fputs(usage->notes ? "\nExamples:\n\n" : "Examples:\n\n", stream);
    for (const char *const *words = usage->examples; *words; words++)
        fprintf(stream, "  millrace %s%s%s\n", usage->verb, **words ? " " : "", *words);
    fputs("\n\"millrace --help\" lists the exit codes.\n", stream);
}
