#include "engine/text/synonyms.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "engine/text/options.h"
#include "engine/text/value.h"

const mr_synonym *mr_synonyms_of(const mr_stage_type *const *types) {
    for (; types && *types; types++)
        if ((*types)->synonyms)
            return (*types)->synonyms;
    return NULL;
}

/* ---- comparing ------------------------------------------------------------------------------------------------ */

static bool is_filler(char c) {
    return c == '-' || c == '_' || c == '.';
}

/* Whether `a`'s first `length` bytes are the word `b`. */
static bool same_word(const char *a, size_t length, const char *b) {
    const char *end = a + length;
    for (;;) {
        while (a < end && is_filler(*a))
            a++;
        while (is_filler(*b))
            b++;
        if (a == end || !*b)
            return a == end && !*b;
        if (tolower((unsigned char)*a++) != tolower((unsigned char)*b++))
            return false;
    }
}

/* A row's words one by one; NULL after the last. Begins with *at = row->words. */
static const char *next_word(const char **at, size_t *length) {
    *at += strspn(*at, " ");
    const char *word = *at;
    *length = strcspn(word, " ");
    *at += *length;
    return *length ? word : NULL;
}

static bool has_word(const mr_synonym *row, const char *wanted) {
    const char *at = row->words, *word;
    size_t length;
    while ((word = next_word(&at, &length)))
        if (same_word(word, length, wanted))
            return true;
    return false;
}

/* How many of `text`'s first letters form one of the row's words; 0: none. */
static size_t begins_with(const mr_synonym *row, const char *text) {
    const char *at = row->words, *word;
    size_t length;
    while ((word = next_word(&at, &length)))
        if (strncmp(text, word, length) == 0)
            return length;
    return 0;
}

/* ---- types ---------------------------------------------------------------------------------------------------- */

static bool is_type(const mr_stage_type *const *types, bool is_source, const char *name) {
    for (; types && *types; types++)
        if (((*types)->inputs == NULL) == is_source && strcmp((*types)->name, name) == 0)
            return true;
    return false;
}

const char *mr_synonym_type(const mr_stage_type *const *types, bool is_source, const char *word, char *text,
                            size_t bytes) {
    const mr_synonym *table = mr_synonyms_of(types);
    for (const mr_synonym *row = table; row && row->words; row++) {
        if (row->kind != (is_source ? MR_SYNONYM_SOURCE : MR_SYNONYM_STAGE) || !has_word(row, word))
            continue;
        if (!row->instead)
            snprintf(text, bytes, "remove it: %s", row->note);
        else if (is_type(types, is_source, row->instead))
            snprintf(text, bytes, "write type: %s, as in %s%s%s", row->instead, row->write, row->note ? "; " : "",
                     row->note ? row->note : "");
        else
            continue;
        return text;
    }
    return NULL;
}

const char *mr_synonym_sink(const mr_stage_type *const *types, const char *word) {
    const mr_synonym *table = mr_synonyms_of(types);
    for (const mr_synonym *row = table; row && row->words; row++)
        if (row->kind == MR_SYNONYM_STAGE && row->instead && has_word(row, word) &&
            is_type(types, false, row->instead))
            return row->instead;
    return NULL;
}

/* ---- keys ----------------------------------------------------------------------------------------------------- */

/* The meaning of the given value for the option that was meant; NULL if the option would not accept it. */
static const char *carried(const mr_option *option, const mr_yaml *value) {
    int64_t whole;
    double number;
    if (value->kind != MR_YAML_SCALAR || mr_yaml_is_null(value) || strlen(value->text) > 80 ||
        strpbrk(value->text, "{}[],#&*!|>'\"%@`:? \n"))
        return NULL;
    switch (option->kind) {
    case MR_OPTION_INT:
        return mr_value_int(value->text, &whole) && (double)whole >= option->min && (double)whole <= option->max
                   ? value->text
                   : NULL;
    case MR_OPTION_DOUBLE:
    case MR_OPTION_DOUBLES:
        return mr_value_double(value->text, &number) ? value->text : NULL;
    case MR_OPTION_RATE:
        return mr_value_rate(value->text, &number) ? value->text : NULL;
    case MR_OPTION_MAP:
        /* batch and queue, where a size alone is allowed */
        return option->brief && mr_value_int(value->text, &whole) && whole > 0 ? value->text : NULL;
    case MR_OPTION_ENUM:
        for (const char *const *choice = option->choices; *choice; choice++)
            if (same_word(value->text, strlen(value->text), *choice))
                return *choice;
        return NULL;
    case MR_OPTION_STRING:
    case MR_OPTION_STRINGS:
    case MR_OPTION_PATH:
    case MR_OPTION_URI:
        return value->text;
    default:
        return NULL;
    }
}

static void write_key(const mr_synonym *row, const mr_option *option, const mr_yaml *entry, char *text, size_t bytes) {
    const char *value = row->carry ? carried(option, entry) : NULL;
    if (value)
        snprintf(text, bytes, "write %s: %s", row->instead, value);
    else
        snprintf(text, bytes, "write %s%s%s", row->write, row->note ? "; " : "", row->note ? row->note : "");
}

static bool fits_value(const mr_synonym *row, const mr_yaml *entry) {
    return !row->value || (entry->kind == MR_YAML_SCALAR && strcmp(entry->text, row->value) == 0);
}

/* Whether "key: value" has one of the choices as the value. */
static bool is_choice(const char *written, const char *const *choices) {
    const char *value = strchr(written, ' ') + 1;
    for (; choices && *choices; choices++)
        if (strcmp(*choices, value) == 0)
            return true;
    return !choices;
}

/* Whether an option takes only words. */
static bool has_only_words(const mr_option *option) {
    return option->kind == MR_OPTION_ENUM && option->choices;
}

/* A number without a unit. */
static bool is_plain_number(const char *value) {
    return *value && strspn(value, "0123456789.") == strlen(value);
}

/* Whether the example is for an option of that kind: `labels` is a file for one type and a switch for another; `every`
 * is a number for one and a time for another. */
static bool suits(const mr_synonym *row, const mr_option *option) {
    const char *value = strchr(row->write, ':') + 2;
    bool is_switch = strcmp(value, "true") == 0 || strcmp(value, "false") == 0;
    bool is_map = option->kind == MR_OPTION_MAP || option->kind == MR_OPTION_MAPS;
    return (option->kind != MR_OPTION_DURATION || !is_plain_number(value)) &&
           (option->kind == MR_OPTION_BOOL) == is_switch && (*value != '{' || is_map) &&
           (!has_only_words(option) || is_choice(row->write, option->choices));
}

const char *mr_synonym_key(const mr_synonym *table, const mr_option *options, const mr_option *known,
                           const mr_yaml *map, const mr_yaml *entry, char *text, size_t bytes) {
    for (const mr_synonym *row = table; row && row->words; row++) {
        if (row->kind != MR_SYNONYM_KEY || !has_word(row, entry->key) || !fits_value(row, entry))
            continue;
        if (!row->instead) {
            snprintf(text, bytes, "remove it: %s", row->note);
            return text;
        }
        const mr_option *option = mr_option_find(options, row->instead);
        option = option ? option : mr_option_find(known, row->instead);
        if (!option || !suits(row, option))
            continue;
        const mr_yaml *there = mr_yaml_get(map, row->instead);
        if (there && there->kind == MR_YAML_MAP && entry->kind == MR_YAML_MAP)
            snprintf(text, bytes, "move its entries to `%s`%s", row->instead,
                     strcmp(row->instead, "stages") == 0 ? ", which holds all that is not a source" : "");
        else if (there)
            snprintf(text, bytes, "remove it: `%s` exists already", row->instead);
        else if (entry->kind == MR_YAML_MAP && entry->first && strcmp(row->instead, "stages") == 0)
            snprintf(text, bytes, "rename it: `stages` holds all that is not a source");
        else
            write_key(row, option, entry, text, bytes);
        return text;
    }
    return NULL;
}

bool mr_synonym_means(const mr_synonym *table, const mr_yaml *entry, const char *name) {
    for (const mr_synonym *row = table; row && row->words; row++)
        if (row->kind == MR_SYNONYM_KEY && row->instead && strcmp(row->instead, name) == 0 && has_word(row, entry->key))
            return true;
    return false;
}

/* ---- values --------------------------------------------------------------------------------------------------- */

const char *mr_synonym_choice(const mr_synonym *table, const char *key, const char *const *choices, const char *value,
                              char *text, size_t bytes) {
    for (const mr_synonym *row = table; row && row->words; row++)
        if (row->kind == MR_SYNONYM_CHOICE && strcmp(row->instead, key) == 0 && has_word(row, value) &&
            is_choice(row->write, choices)) {
            snprintf(text, bytes, "write %s", row->write);
            return text;
        }
    return NULL;
}

const char *mr_synonym_uri(const mr_synonym *table, const char *value, char *text, size_t bytes) {
    for (const mr_synonym *row = table; row && row->words; row++) {
        size_t length = row->kind == MR_SYNONYM_URI ? begins_with(row, value) : 0;
        if (!length)
            continue;
        if (row->write)
            snprintf(text, bytes, "write \"%s%s\"", row->write, value + length);
        else
            snprintf(text, bytes, "%s", row->note);
        return text;
    }
    return NULL;
}

/* ---- whole files ---------------------------------------------------------------------------------------------- */

const mr_synonym *mr_synonym_file(const mr_synonym *table, const mr_yaml *root) {
    for (const mr_yaml *entry = root->first; entry; entry = entry->next)
        for (const mr_synonym *row = table; row && row->words; row++)
            if (row->kind == MR_SYNONYM_FILE && has_word(row, entry->key))
                return row;
    return NULL;
}

/* A word that a colon follows is a key, which mr_synonym_file knows. */
const mr_synonym *mr_synonym_text(const mr_synonym *table, const char *text) {
    text += strspn(text, " \t\r\n");
    for (const mr_synonym *row = table; row && row->words; row++) {
        size_t length = row->kind == MR_SYNONYM_FILE ? begins_with(row, text) : 0;
        if (length && strchr(" \t\r\n=", text[length]))
            return row;
    }
    return NULL;
}
