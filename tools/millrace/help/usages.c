#include <stdlib.h>
#include <string.h>

#include "engine/base/print.h"
#include "tools/millrace/help/help.h"

/* A help text's layout: a continuation line is far in; an entry is two columns in, its text two blanks after it. */
enum { INDENT = 2, HANGING = 8 };

static size_t blanks(const char *line) {
    return strspn(line, " ");
}

/* A part's text and the lines that continue it, in one line. */
static char *gather(const char **at, size_t least) {
    char *text = NULL;
    size_t bytes;
    FILE *into = open_memstream(&text, &bytes);
    if (!into)
        return NULL;
    const char *line = *at;
    for (const char *with = ""; *line && *line != '\n' && (!*with || blanks(line) >= least); with = " ") {
        const char *end = strchrnul(line, '\n');
        if (*with && !least && blanks(line) == INDENT)
            break;
        line += blanks(line);
        fprintf(into, "%s%.*s", with, (int)(end - line), line);
        line = *end ? end + 1 : end;
    }
    *at = line;
    return fclose(into) ? free(text), NULL : text;
}

static void put_entry(const char **at, mr_help_part *part, void *to) {
    const char *line = *at + INDENT, *gap = strstr(line, "  ");
    const char *end = strchrnul(line, '\n');
    size_t length = gap && gap < end ? (size_t)(gap - line) : (size_t)(end - line);
    char *name = strndup(line, length);
    *at = line + length;
    char *text = gather(at, HANGING);
    if (name && text)
        part(to, name, text);
    free(name);
    free(text);
}

void mr_help_parts(const char *help, mr_help_part *part, void *to) {
    for (const char *at = help; *at;) {
        if (*at == '\n') {
            at++;
        } else if (blanks(at) == INDENT) {
            put_entry(&at, part, to);
        } else {
            char *text = gather(&at, 0);
            if (text)
                part(to, NULL, text);
            free(text);
        }
    }
}

typedef struct wanted {
    const char *option;
    char *argument, *text;
    size_t argument_room, room;
} wanted;

static void take_option(void *context, const char *name, const char *text) {
    const wanted *want = context;
    size_t length = strlen(want->option);
    if (!name || strncmp(name, "--", 2) != 0 || strncmp(name + 2, want->option, length) != 0 ||
        (name[2 + length] && name[2 + length] != ' '))
        return;
    mr_print_into(want->argument, want->argument_room, "%s", name[2 + length] ? name + 3 + length : "");
    mr_print_into(want->text, want->room, "%s", text);
}

void mr_help_option(const mr_usage *usage, const char *option, char *argument, size_t argument_room, char *text,
                    size_t room) {
    wanted want = {option, argument, text, argument_room, room};
    *argument = *text = '\0';
    mr_help_parts(usage->help, take_option, &want);
}
