/* What to write in the place of what is nearly right. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/text/options.h"
#include "engine/text/value.h"

/* Two whole numbers with anything but digits between and behind them: "224 x 224", "224,224", "224x224px". */
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
        snprintf(text, bytes, "write %g: a part of 1, not of 100", value / 100);
    else if (mr_value_double(slash + 1, &below) && below != 0)
        snprintf(text, bytes, "write %.9g", value / below);
    else
        return NULL;
    return text;
}

static const char *hint_unit(const mr_yaml *found, char *text, size_t bytes) {
    double value;
    if (found->kind != MR_YAML_SCALAR || !mr_value_double(found->text, &value) || value < 0)
        return NULL; /* No duration is less than nothing, with whatever unit. */
    snprintf(text, bytes, "write the unit too, as in %sms or %ss", found->text, found->text);
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
        snprintf(text, bytes, "a blank is missing behind the colon: write %.*s: %.100s", (int)(colon - key), key,
                 colon + 1);
        return text;
    }
    if (hint_nested(table, entry, text, bytes) || hint_nested(known, entry, text, bytes))
        return text;
    return hint_owner(reader, key, text, bytes);
}
