/* Options for people: descriptions of an option (option.h), and suggestions for values and keys that are nearly right.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/base/thread.h"
#include "engine/text/options.h"
#include "engine/text/value.h"

/* ---- descriptions ------------------------------------------------------------------------------------------------ */

/* The kind in words, the value to write (with an article), and examples for options without any. */
static const struct {
    const char *kind, *article, *example, *other;
} words[] = {
    [MR_OPTION_BOOL] = {"true | false", "true or false", NULL, NULL},
    [MR_OPTION_INT] = {"whole number", "a whole number", "8", NULL},
    [MR_OPTION_DOUBLE] = {"number", "a number", "0.5", NULL},
    [MR_OPTION_STRING] = {"text", "a text", NULL, NULL},
    [MR_OPTION_PATH] = {"path", "a path", "results.jsonl", NULL},
    [MR_OPTION_URI] = {"path or URI", "a path or URI", "lobby.mp4", NULL},
    [MR_OPTION_ENUM] = {NULL, NULL, NULL, NULL},
    [MR_OPTION_DURATION] = {"duration", "a duration", "20ms", NULL},
    [MR_OPTION_BYTES] = {"bytes", "a number of bytes", "64MiB", NULL},
    [MR_OPTION_RATE] = {"rate", "a rate", "30fps", NULL},
    [MR_OPTION_SIZE] = {"width x height", "a size (width x height)", "224x224", NULL},
    [MR_OPTION_DOUBLES] = {"number, or list of up to 4", "a number or a list of up to four", "[0.5, 0.5, 0.5]",
                           NULL},
    [MR_OPTION_STRINGS] = {"text, or list of texts", "a text or a list of texts", NULL, NULL},
    [MR_OPTION_PAIRS] = {"map of texts", "a map of texts", "{a: b}", NULL},
    [MR_OPTION_POINTS] = {"list of points [x, y]", "a list of points", "[[0, 0.5], [1, 0.5]]", NULL},
    [MR_OPTION_SHAPES] = {"map of lists of points [x, y]", "a map of lists of points", "{gate: [[0, 0.5], [1, 0.5]]}",
                          NULL},
    [MR_OPTION_FORMAT] = {"format", "a format", "I420 1280x720", "f32 3x224x224"},
    [MR_OPTION_MAP] = {"map", "a map", NULL, NULL},
    [MR_OPTION_MAPS] = {"map of maps", "a map of maps", NULL, NULL},
    [MR_OPTION_EVERY] = {"duration | whole number", "a duration or a whole number", "5", "200ms"},
};

/* Appends to `text`; cut if it is too long. */
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
    for (const char *const *word = mr_option_words(option); word && *word; word++) {
        add(text, bytes, " | ");
        add(text, bytes, *word);
    }
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
    MR_PLAIN_NUMBERS;
    /* A limit beyond the range of the field is none: tables write INT64_MAX or infinity for it. */
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

/* "a map of x, y, width, height" */
static void add_fields(const mr_option *fields, char *text, size_t bytes) {
    for (const mr_option *field = fields; field->name; field++) {
        add(text, bytes, field == fields ? " of " : ", ");
        add(text, bytes, field->name);
    }
}

/* Whether a number is one that the option takes; a text is not looked at. */
static bool suits(const mr_option *option, const char *example) {
    double number;
    if ((option->min == 0 && option->max == 0) || !mr_value_double(example, &number))
        return true;
    return number >= option->min && number <= option->max;
}

const char *mr_option_example(const mr_option *option, int index) {
    /* The option's own default is the better example, if it shows the form of the value. */
    const char *fallback = option->fallback ? option->fallback : "";
    if (index == 0 && option->example)
        return option->example;
    bool telling = words[option->kind].example && strpbrk(fallback, "123456789") != NULL;
    if (option->example || (telling && index > 0))
        return NULL;
    const char *example = telling ? fallback : index == 0 ? words[option->kind].example : words[option->kind].other;
    return index < 2 && example && suits(option, example) ? example : NULL;
}

/* " such as 8", " such as "I420 1280x720" or "f32 3x224x224"" */
static void add_example(const char *example, int index, char *text, size_t bytes) {
    const char *quote = strchr(example, ' ') && !strchr("[{", *example) ? "\"" : "";
    add(text, bytes, index == 0 ? " such as " : " or ");
    add(text, bytes, quote);
    add(text, bytes, example);
    add(text, bytes, quote);
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
    for (int i = 0; mr_option_example(option, i); i++)
        add_example(mr_option_example(option, i), i, text, bytes);
    for (const char *const *word = mr_option_words(option); word && *word; word++) {
        add(text, bytes, ", or ");
        add(text, bytes, *word);
    }
    return text;
}

const char *mr_option_describe(const mr_option *option, char *text, size_t bytes) {
    MR_PLAIN_NUMBERS;
    char range[MR_OPTION_TEXT];
    mr_option_type_text(option, text, bytes);
    mr_option_range_text(option, range, sizeof range);
    add(text, bytes, option->brief ? ", or its " : "");
    add(text, bytes, option->brief ? option->brief : "");
    add(text, bytes, option->brief ? " alone" : "");
    if (*range || option->unit)
        add(text, bytes, *range ? ", " : ", in ");
    add(text, bytes, *range ? range : option->unit ? option->unit : "");
    if (option->required)
        add(text, bytes, "; required");
    else if (option->fallback)
        add(text, bytes, "; default ");
    else
        add(text, bytes, "; optional");
    if (option->required && option->unless) {
        add(text, bytes, " unless there is ");
        add(text, bytes, option->unless);
    }
    if (!option->required && option->fallback)
        add(text, bytes, *option->fallback ? option->fallback : "empty");
    return text;
}

/* ---- suggestions ------------------------------------------------------------------------------------------------- */

/* Two whole numbers with anything but digits between and after them: "224 x 224", "224,224", "224x224px". */
static bool two_numbers(const char *text, long number[2]) {
    for (int i = 0; i < 2; i++) {
        char *end;
        text += strcspn(text, "0123456789");
        if (!*text)
            return false;
        number[i] = strtol(text, &end, 10);
        text = end;
    }
    return !text[strcspn(text, "0123456789")];
}

static const char *hint_size(const mr_yaml *found, char *text, size_t bytes) {
    char said[64] = "";
    long number[2];
    if (found->kind == MR_YAML_LIST && found->count == 2 && found->first->kind == MR_YAML_SCALAR &&
        found->last->kind == MR_YAML_SCALAR)
        snprintf(said, sizeof said, "%s %s", found->first->text, found->last->text);
    else if (found->kind == MR_YAML_SCALAR)
        snprintf(said, sizeof said, "%s", found->text);
    if (!two_numbers(said, number))
        return NULL;
    snprintf(text, bytes, "write %ldx%ld, which is width x height", number[0], number[1]);
    return text;
}

/* "87.5%" and "1/255": a number, but not as YAML has it. */
static const char *hint_part(const mr_yaml *found, char *text, size_t bytes) {
    char number[64];
    double value, below = 0;
    size_t length = found->kind == MR_YAML_SCALAR ? strlen(found->text) : 0;
    if (length < 2 || length >= sizeof number)
        return NULL;
    const char *slash = strchr(found->text, '/');
    bool percent = found->text[length - 1] == '%';
    snprintf(number, sizeof number, "%.*s", slash ? (int)(slash - found->text) : (int)length - 1, found->text);
    if ((!slash && !percent) || !mr_value_double(number, &value))
        return NULL;
    if (percent)
        snprintf(text, bytes, "write %g: a fraction, not a percentage", value / 100);
    else if (mr_value_double(slash + 1, &below) && below != 0)
        snprintf(text, bytes, "write %.9g", value / below);
    else
        return NULL;
    return text;
}

/* "7d", "2 weeks", "5 seconds", "1h 30m": as people write it, in seconds. False: it is no such text. */
static bool in_words(const char *said, double *seconds) {
    static const struct {
        const char *units; /* a space around each */
        double seconds;
    } known[] = {{" ms msec msecs millisecond milliseconds ", 1e-3}, {" s sec secs second seconds ", 1},
                 {" m min mins minute minutes ", 60},                {" h hr hrs hour hours ", 3600},
                 {" d day days ", 86400},                            {" w week weeks ", 604800}};
    char number[32], unit[20];
    double value;
    *seconds = 0;
    do {
        size_t digits = strspn(said, "0123456789."), gap = strspn(said + digits, " ");
        size_t letters = strcspn(said + digits + gap, " 0123456789."), i = 0;
        if (!digits || digits >= sizeof number || !letters || letters + 3 > sizeof unit)
            return false;
        snprintf(number, sizeof number, "%.*s", (int)digits, said);
        snprintf(unit, sizeof unit, " %.*s ", (int)letters, said + digits + gap);
        while (i < sizeof known / sizeof *known && !strcasestr(known[i].units, unit))
            i++;
        if (i == sizeof known / sizeof *known || !mr_value_double(number, &value))
            return false;
        *seconds += value * known[i].seconds;
        said += digits + gap + letters;
        said += strspn(said, " ");
    } while (*said);
    return true;
}

/* "00:01:30", "1:30": hours, minutes and seconds. */
static bool on_clock(const char *said, double *seconds) {
    char part[32];
    double value;
    int colons = 0;
    *seconds = 0;
    for (;; colons++) {
        size_t length = strcspn(said, ":");
        if (!length || length >= sizeof part)
            return false;
        snprintf(part, sizeof part, "%.*s", (int)length, said);
        if (!mr_value_double(part, &value) || value < 0 || colons > 2)
            return false;
        *seconds = *seconds * 60 + value;
        if (!said[length])
            return colons > 0;
        said += length + 1;
    }
}

/* In the largest unit of which it is a whole number, or in seconds. */
static const char *hint_unit(const mr_yaml *found, char *text, size_t bytes) {
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"h", 3600}, {"min", 60}, {"s", 1}, {"ms", 1e-3}};
    double value;
    size_t i = 0;
    if (found->kind != MR_YAML_SCALAR)
        return NULL;
    if (in_words(found->text, &value) || on_clock(found->text, &value)) {
        while (i < 3 && fmod(value, units[i].seconds) != 0 && !(i == 2 && value > 1))
            i++;
        snprintf(text, bytes, "write %.9g%s", value / units[i].seconds, units[i].unit);
        return text;
    }
    if (!mr_value_double(found->text, &value) || value < 0)
        return NULL; /* No duration can be negative, in any unit. */
    snprintf(text, bytes, "write the unit too, as in %sms or %ss", found->text, found->text);
    return text;
}

/* "every: 500ms" counts time where frames are counted. */
static const char *hint_every(const mr_option *option, const mr_yaml *found, char *text, size_t bytes) {
    int64_t duration;
    if (strcmp(option->name, "every") != 0 || found->kind != MR_YAML_SCALAR ||
        !mr_value_duration(found->text, &duration) || duration <= 0)
        return NULL;
    snprintf(text, bytes, "write fps: %.6g in its place; every counts frames", 1e9 / (double)duration);
    return text;
}

/* A list, or nothing, where one path belongs. */
static const char *hint_one(const mr_option *option, const mr_yaml *found) {
    if (found->kind == MR_YAML_SCALAR && !*found->text && found->quoted)
        return "it is empty: is a variable of the shell not set?";
    if (found->kind != MR_YAML_LIST)
        return NULL;
    if (option->kind == MR_OPTION_URI)
        return "add a source for each, or write a glob, such as \"videos/*.mp4\"";
    return strcmp(option->name, "labels") == 0 ? "write them into a file, one on each line, and its path here" : NULL;
}

/* "{source}" where a text belongs: to YAML it is a map. */
static const char *hint_braces(const mr_yaml *found, char *text, size_t bytes) {
    if (found->kind != MR_YAML_MAP || found->count != 1 || !mr_yaml_is_null(found->first))
        return NULL;
    snprintf(text, bytes, "put it in quotes: \"{%.60s}\"", found->first->key);
    return text;
}

/* "[0, 0, 100, 100]" where a map has as many fields: {x: 0, y: 0, width: 100, height: 100}. */
static const char *hint_fields(const mr_option *option, const mr_yaml *found, char *text, size_t bytes) {
    const mr_option *field = option->fields;
    if (found->kind != MR_YAML_LIST)
        return NULL;
    size_t used = (size_t)snprintf(text, bytes, "write %s: {", option->name);
    for (const mr_yaml *item = found->first; item; item = item->next, field++) {
        if (item->kind != MR_YAML_SCALAR || !field->name || used >= bytes)
            return NULL;
        used += (size_t)snprintf(text + used, bytes - used, "%s%s: %s", item == found->first ? "" : ", ", field->name,
                                 item->text);
    }
    if (field->name || used + 2 > bytes)
        return NULL;
    strcpy(text + used, "}");
    return text;
}

/* A word that asks for what is done without the key. */
static const char *hint_default(const mr_option *option, const mr_yaml *found) {
    static const char *const defaults[] = {"auto", "default", NULL};
    const char *const *word = defaults;
    while (found->kind == MR_YAML_SCALAR && *word && strcasecmp(found->text, *word) != 0)
        word++;
    return found->kind == MR_YAML_SCALAR && *word && !option->required && !option->fallback
               ? "remove the key: its default is used" : NULL;
}

const char *mr_option_only_hint(const mr_option *option, char *text, size_t bytes) {
    if (option->kind != MR_OPTION_INT || option->min != option->max || option->min == 0)
        return NULL;
    snprintf(text, bytes, "write %s: %.0f", option->name, option->min);
    return text;
}

const char *mr_option_value_hint(const mr_option *option, const mr_yaml *found, char *text, size_t bytes) {
    switch (option->kind) {
    case MR_OPTION_SIZE:
        return hint_size(found, text, bytes);
    case MR_OPTION_DOUBLE:
    case MR_OPTION_DOUBLES:
        return hint_part(found, text, bytes);
    case MR_OPTION_DURATION:
        return hint_unit(found, text, bytes);
    case MR_OPTION_PATH:
    case MR_OPTION_URI:
        return hint_braces(found, text, bytes) ? text : hint_one(option, found);
    case MR_OPTION_STRING:
        return hint_braces(found, text, bytes);
    case MR_OPTION_MAP:
        return hint_fields(option, found, text, bytes);
    case MR_OPTION_INT:
        return mr_option_only_hint(option, text, bytes)       ? text
               : hint_every(option, found, text, bytes) ? text
                                                        : hint_default(option, found);
    default:
        return NULL;
    }
}

/* "queue_when_full" for queue: {when_full: ...}. */
static const char *hint_nested(const mr_option *table, const mr_yaml *entry, char *text, size_t bytes) {
    const char *key = entry->key;
    for (; table && table->name; table++) {
        size_t length = strlen(table->name);
        if (table->kind != MR_OPTION_MAP || strncmp(key, table->name, length) != 0 || !key[length] ||
            !strchr("_-.", key[length]) || !mr_option_find(table->fields, key + length + 1))
            continue;
        snprintf(text, bytes, "write %s: {%s: %.80s}", table->name, key + length + 1,
                 entry->kind == MR_YAML_SCALAR ? entry->text : "...");
        return text;
    }
    return NULL;
}

static const char *hint_owner(const mr_option_reader *reader, const char *key, char *text, size_t bytes) {
    char others[128] = "";
    for (const mr_stage_type *const *type = reader->types; type && *type; type++) {
        size_t length = strlen(others), name = strlen((*type)->name);
        if (mr_option_find((*type)->options, key) && length + name + 3 < sizeof others)
            snprintf(others + length, sizeof others - length, "%s%s", length ? ", " : "", (*type)->name);
    }
    if (!*others)
        return NULL;
    snprintf(text, bytes, "it is an option of %s, not of this type", others);
    return text;
}

const char *mr_option_key_hint(const mr_option_reader *reader, const mr_option *table, const mr_option *known,
                               const mr_yaml *entry, char *text, size_t bytes) {
    const char *key = entry->key, *colon = strchr(key, ':');
    if (colon && colon > key && colon[1] && colon - key < 64) {
        snprintf(text, bytes, "a space is missing after the colon: write %.*s: %.100s", (int)(colon - key), key,
                 colon + 1);
        return text;
    }
    if (hint_nested(table, entry, text, bytes) || hint_nested(known, entry, text, bytes))
        return text;
    return hint_owner(reader, key, text, bytes);
}
