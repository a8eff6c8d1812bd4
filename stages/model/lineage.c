#include "stages/model/lineage.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { SHOWN = 3, MOST_LINE = 120 };

typedef struct line {
    const char *at;
    int length;
    int name; /* length before " = "; the whole line (a stage's) if it has none */
} line;

static line line_at(const char *at) {
    line found = {.at = at, .length = (int)strcspn(at, "\n")};
    const char *sign = memmem(at, (size_t)found.length, " = ", 3); /* only in this line: a text may have millions */
    found.name = sign ? (int)(sign - at) : found.length;
    return found;
}

static const char *after(const line *of) {
    return of->at + of->length + (of->at[of->length] == '\n');
}

static bool has_line(const char *text, const line *wanted) {
    for (; *text; text += strcspn(text, "\n"), text += *text == '\n') {
        const line one = line_at(text);
        if (one.length == wanted->length && !memcmp(one.at, wanted->at, (size_t)one.length))
            return true;
    }
    return false;
}

/* Finds the line in another text that sets the same option. */
static bool find_option(const char *text, const line *wanted, line *found) {
    for (; *text; text += strcspn(text, "\n"), text += *text == '\n') {
        *found = line_at(text);
        if (found->name < found->length && found->name == wanted->name &&
            !memcmp(found->at, wanted->at, (size_t)found->name))
            return true;
    }
    return false;
}

static int cut(int length) {
    return length < MOST_LINE ? length : MOST_LINE;
}

static size_t put(char *text, size_t used, const line *of, const line *other, const char *which) {
    const char *between = used ? "; " : "";
    const int value = of->name + 3;
    size_t room = MR_LINEAGE_TEXT - used;
    int more;
    if (other)
        more = snprintf(text + used, room, "%s%.*s is %.*s, and was %.*s", between, cut(of->name), of->at,
                        cut(of->length - value), of->at + value, cut(other->length - value), other->at + value);
    else
        more =
            snprintf(text + used, room, "%sonly the pipeline %s has \"%.*s\"", between, which, cut(of->length), of->at);
    return (size_t)more < room ? used + (size_t)more : MR_LINEAGE_TEXT - 1;
}

/* Lists lines in `text` that `other` lacks: options that both have, or options that only this one has. */
static size_t compare(const char *text, const char *other, bool changed, const char *which, char *to, size_t used,
                      int *count) {
    for (line one; *text; text = after(&one)) {
        line same = {0};
        one = line_at(text);
        if (has_line(other, &one) || (one.name < one.length && find_option(other, &one, &same)) != changed)
            continue;
        if (++*count <= SHOWN)
            used = put(to, used, &one, changed ? &same : NULL, which);
    }
    return used;
}

const char *mr_lineage_difference(const char *then, const char *now, char text[MR_LINEAGE_TEXT]) {
    int count = 0;
    text[0] = 0;
    size_t used = compare(now, then, true, "", text, 0, &count);
    used = compare(now, then, false, "here", text, used, &count);
    used = compare(then, now, false, "of the classifier", text, used, &count);
    if (count > SHOWN)
        snprintf(text + used, MR_LINEAGE_TEXT - used, "; and %d more", count - SHOWN);
    if (!count && strcmp(then, now) != 0)
        snprintf(text, MR_LINEAGE_TEXT, "the order of the stages");
    return text;
}
