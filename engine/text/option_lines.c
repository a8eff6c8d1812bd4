#include "engine/text/option_lines.h"

#include "engine/base/sha256.h"
#include "engine/text/value.h"
#include "millrace/format.h"
#include "millrace/status.h"

static bool counts(const mr_option *option) {
    const bool path = option->kind == MR_OPTION_PATH || option->kind == MR_OPTION_URI;
    return !option->neutral && !option->elsewhere && !option->searched && option->kind != MR_OPTION_MAPS &&
           (!path || option->file == MR_FILE_READ);
}

/* A file that is not given. It has no line, so that an option which is new changes nothing that is known. */
static bool is_absent(const mr_option *option, const void *at) {
    return (option->kind == MR_OPTION_PATH || option->kind == MR_OPTION_URI) && !*(const char *const *)at;
}

/* A text in quotes, so that a value cannot look like two. */
static void put_text(FILE *to, const char *text) {
    fputc('"', to);
    for (; text && *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', to);
        fputc(*text == '\n' ? ' ' : *text, to);
    }
    fputc('"', to);
}

static int put_file(FILE *to, const char *path) {
    char digest[MR_SHA256_TEXT];
    int status = mr_sha256_file(path, digest);
    if (!status)
        fputs(digest, to);
    return status;
}

static void put_points(FILE *to, const mr_points *points) {
    for (size_t i = 0; i < points->count; i++)
        fprintf(to, "[%.17g, %.17g]", points->at[i][0], points->at[i][1]);
}

static void put_shapes(FILE *to, const mr_shapes *shapes) {
    for (size_t i = 0; i < shapes->count; i++) {
        put_text(to, shapes->name[i]);
        put_points(to, &shapes->points[i]);
    }
}

static void put_list(FILE *to, const mr_option *option, const void *at) {
    const mr_doubles *numbers = at;
    const mr_strings *texts = at;
    const mr_pairs *pairs = at;
    if (option->kind == MR_OPTION_DOUBLES)
        for (size_t i = 0; i < numbers->count; i++)
            fprintf(to, "%s%.17g", i ? ", " : "", numbers->value[i]);
    else if (option->kind == MR_OPTION_STRINGS)
        for (size_t i = 0; i < texts->count; i++)
            put_text(to, texts->item[i]);
    else
        for (size_t i = 0; i < pairs->count; i++) {
            put_text(to, pairs->key[i]);
            put_text(to, pairs->value[i]);
        }
}

static void put_number(FILE *to, const mr_option *option, const void *at) {
    const mr_size *size = at;
    const mr_every *every = at;
    char text[MR_FORMAT_TEXT];
    switch (option->kind) {
    case MR_OPTION_BOOL:
        fputs(*(const bool *)at ? "true" : "false", to);
        return;
    case MR_OPTION_DOUBLE:
    case MR_OPTION_RATE:
        fprintf(to, "%.15g", *(const double *)at);
        return;
    case MR_OPTION_ENUM:
        fputs(option->choices[*(const int *)at], to);
        return;
    case MR_OPTION_SIZE:
        fprintf(to, size->width ? "%dx%d" : "auto", (int)size->width, (int)size->height);
        return;
    case MR_OPTION_FORMAT:
        fputs(mr_format_print(at, text, sizeof text), to);
        return;
    case MR_OPTION_EVERY:
        if (every->frames)
            fprintf(to, "%lld", (long long)every->frames);
        else
            fputs(mr_value_print_duration((double)every->time_ns, text, sizeof text), to);
        return;
    default:
        fprintf(to, "%lld", (long long)*(const int64_t *)at);
    }
}

static int put_value(FILE *to, const mr_option *option, const void *at) {
    switch (option->kind) {
    case MR_OPTION_PATH:
    case MR_OPTION_URI:
        return put_file(to, *(const char *const *)at);
    case MR_OPTION_STRING:
        put_text(to, *(const char *const *)at);
        return MR_OK;
    case MR_OPTION_DOUBLES:
    case MR_OPTION_STRINGS:
    case MR_OPTION_PAIRS:
        put_list(to, option, at);
        return MR_OK;
    case MR_OPTION_POINTS:
        put_points(to, at);
        return MR_OK;
    case MR_OPTION_SHAPES:
        put_shapes(to, at);
        return MR_OK;
    default:
        put_number(to, option, at);
        return MR_OK;
    }
}

int mr_option_lines(FILE *to, const char *owner, const mr_option *table, const void *options) {
    char name[256];
    int status = MR_OK;
    for (const mr_option *option = table; option && option->name && !status; option++) {
        const void *at = (const char *)options + option->offset;
        if (!counts(option) || is_absent(option, at))
            continue;
        snprintf(name, sizeof name, "%s.%s", owner, option->name);
        if (option->kind == MR_OPTION_MAP) {
            if (*(const bool *)at) /* the first member: whether it was given */
                status = mr_option_lines(to, name, option->fields, at);
            continue;
        }
        fprintf(to, "%s = ", name);
        status = put_value(to, option, at);
        fputc('\n', to);
    }
    return status;
}
