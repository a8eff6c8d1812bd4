/* What an option is, for people (option.h). */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/config/option.h"
#include "engine/config/value.h"

/* Its kind in words, what to write (with an article), and an example where the option has no default to show. */
static const struct {
    const char *kind, *article, *example;
} words[] = {
    [MR_OPTION_BOOL] = {"true | false", "true or false", NULL},
    [MR_OPTION_INT] = {"whole number", "a whole number", "8"},
    [MR_OPTION_DOUBLE] = {"number", "a number", "0.5"},
    [MR_OPTION_STRING] = {"text", "a text", NULL},
    [MR_OPTION_PATH] = {"path", "a path", "results.jsonl"},
    [MR_OPTION_URI] = {"path or URI", "a path or URI", "lobby.mp4"},
    [MR_OPTION_ENUM] = {NULL, NULL, NULL},
    [MR_OPTION_DURATION] = {"duration", "a duration", "20ms"},
    [MR_OPTION_BYTES] = {"bytes", "a number of bytes", "64MiB"},
    [MR_OPTION_RATE] = {"rate", "a rate", "30fps"},
    [MR_OPTION_SIZE] = {"width x height", "a size (width x height)", "224x224"},
    [MR_OPTION_DOUBLES] = {"number, or list of up to 4", "a number or a list of up to four", "[0.5, 0.5, 0.5]"},
    [MR_OPTION_STRINGS] = {"text, or list of texts", "a text or a list of texts", NULL},
    [MR_OPTION_PAIRS] = {"map of texts", "a map of texts", "{a: b}"},
    [MR_OPTION_FORMAT] = {"format", "a format", "\"I420 1280x720\" or \"f32 3x224x224\""},
    [MR_OPTION_MAP] = {"map", "a map", NULL},
    [MR_OPTION_MAPS] = {"map of maps", "a map of maps", NULL},
};

/* Appends to what is in `text` already; too long is cut. */
static void add(char *text, size_t bytes, const char *more) {
    size_t length = strlen(text);
    snprintf(text + length, bytes - length, "%s", more);
}

static void add_choices(const char *const *choices, const char *between, char *text, size_t bytes) {
    for (const char *const *choice = choices; *choice; choice++) {
        add(text, bytes, choice == choices ? "" : between);
        add(text, bytes, *choice);
    }
}

const char *mr_option_type_text(const mr_option *option, char *text, size_t bytes) {
    text[0] = 0;
    if (option->kind == MR_OPTION_ENUM)
        add_choices(option->choices, " | ", text, bytes);
    else
        add(text, bytes, words[option->kind].kind);
    return text;
}

static void add_number(const mr_option *option, double value, char *text, size_t bytes) {
    char number[64];
    if (option->kind == MR_OPTION_DURATION)
        mr_value_print_duration(value, number, sizeof number);
    else if (option->kind == MR_OPTION_BYTES)
        mr_value_print_bytes(value, number, sizeof number);
    else if (fabs(value) < 1e15 && value == floor(value))
        snprintf(number, sizeof number, "%.0f", value);
    else
        snprintf(number, sizeof number, "%g", value);
    add(text, bytes, number);
}

const char *mr_option_range_text(const mr_option *option, char *text, size_t bytes) {
    /* A limit beyond what the field can hold is none: tables write INT64_MAX or infinity for it. */
    bool low = option->min > -9.2e18, high = option->max < 9.2e18;
    text[0] = 0;
    if ((option->min == 0 && option->max == 0) || (!low && !high))
        return text;
    if (!low)
        add(text, bytes, "at most ");
    if (!high)
        add(text, bytes, "at least ");
    if (low)
        add_number(option, option->min, text, bytes);
    if (low && high && option->min < option->max)
        add(text, bytes, " to ");
    if (high && option->min < option->max)
        add_number(option, option->max, text, bytes);
    if (option->unit) {
        add(text, bytes, " ");
        add(text, bytes, option->unit);
    }
    return text;
}

const char *mr_option_default_text(const mr_option *option, char *text, size_t bytes) {
    snprintf(text, bytes, "%s", option->required ? "required" : option->fallback ? option->fallback : "none");
    return text;
}

/* "a map of x, y, width, height" */
static void add_fields(const mr_option *fields, char *text, size_t bytes) {
    for (const mr_option *field = fields; field->name; field++) {
        add(text, bytes, field == fields ? " of " : ", ");
        add(text, bytes, field->name);
    }
}

const char *mr_option_expected_text(const mr_option *option, char *text, size_t bytes) {
    text[0] = 0;
    if (option->kind == MR_OPTION_ENUM) {
        add(text, bytes, "one of ");
        add_choices(option->choices, ", ", text, bytes);
        return text;
    }
    add(text, bytes, words[option->kind].article);
    if (option->kind == MR_OPTION_MAP)
        add_fields(option->fields, text, bytes);
    /* The option's own default is the better example, where it shows what is meant. */
    const char *example = words[option->kind].example;
    const char *fallback = option->fallback ? option->fallback : "";
    bool telling = strpbrk(fallback, "123456789") != NULL;
    if (example && telling)
        example = fallback;
    if (example) {
        add(text, bytes, " such as ");
        add(text, bytes, example);
    }
    return text;
}
