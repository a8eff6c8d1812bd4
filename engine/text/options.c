#include "engine/text/options.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/find/model_folders.h"
#include "engine/base/nearest.h"
#include "engine/text/value.h"
#include "millrace/status.h"

const mr_option *mr_option_find(const mr_option *table, const char *name) {
    for (; table && table->name; table++)
        if (strcmp(table->name, name) == 0)
            return table;
    return NULL;
}

bool mr_option_takes_auto(const mr_option *option) {
    return option->kind == MR_OPTION_SIZE && option->fallback && strcmp(option->fallback, "auto") == 0;
}

const char *const *mr_option_words(const mr_option *option) {
    static const char *const automatic[] = {"auto", NULL};
    return option->kind == MR_OPTION_DURATION ? option->choices : mr_option_takes_auto(option) ? automatic : NULL;
}

static void *field_of(const mr_option *option, void *options) {
    return (char *)options + option->offset;
}

/* The dot between a map's name and a key's. */
static const char *dot(const mr_option_reader *reader) {
    return *reader->where ? "." : "";
}

static const char *map_name(const mr_option_reader *reader) {
    return *reader->where ? reader->where : "the pipeline";
}

/* ---- complaints ---------------------------------------------------------------------------------------------- */

/* A value being read: where it is, for messages, and whether anything was wrong. */
typedef struct reading {
    const mr_option_reader *reader;
    const mr_option *option;
    const mr_yaml *value;
} reading;

static int wrong_type(const reading *r, const mr_yaml *found) {
    char expected[MR_OPTION_TEXT], text[MR_OPTION_TEXT], meant[MR_OPTION_TEXT];
    bool left_out = found->kind == MR_YAML_SCALAR && mr_yaml_is_null(found) && !r->option->required;
    const char *hint = left_out ? "write a value, or remove the key"
                                : mr_option_value_hint(r->option, found, meant, sizeof meant);
    return mr_diagnose(r->reader->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_CONFIG, found->place, hint,
                       "%s%s%s: expected %s, found %s", r->reader->where, dot(r->reader), r->option->name,
                       mr_option_expected_text(r->option, expected, sizeof expected),
                       mr_yaml_found(found, text, sizeof text));
}

static int out_of_range(const reading *r, const mr_yaml *found) {
    char range[MR_OPTION_TEXT], hint[MR_OPTION_TEXT];
    return mr_diagnose(r->reader->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_CONFIG, found->place,
                       mr_option_only_hint(r->option, hint, sizeof hint),
                       "%s%s%s: %s is out of range; expected %s", r->reader->where, dot(r->reader),
                       r->option->name, found->text,
                       mr_option_range_text(r->option, range, sizeof range));
}

static int in_range(const reading *r, const mr_yaml *found, double value) {
    const mr_option *option = r->option;
    if ((option->min == 0 && option->max == 0) || (value >= option->min && value <= option->max))
        return MR_OK;
    return out_of_range(r, found);
}

static int unknown_choice(const reading *r) {
    char expected[MR_OPTION_TEXT], hint[MR_OPTION_TEXT], found[MR_OPTION_TEXT];
    mr_nearest nearest = {.wanted = r->value->text};
    for (const char *const *choice = r->option->choices; *choice; choice++)
        mr_nearest_offer(&nearest, *choice);
    const char *meant = mr_synonym_choice(r->reader->synonyms, r->option->name, r->option->choices, r->value->text,
                                          hint, sizeof hint);
    return mr_diagnose(r->reader->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_CONFIG, r->value->place,
                       meant ? meant : mr_nearest_hint(&nearest, hint, sizeof hint, NULL),
                       "%s%s%s: expected %s, found %s", r->reader->where, dot(r->reader), r->option->name,
                       mr_option_expected_text(r->option, expected, sizeof expected),
                       mr_yaml_found(r->value, found, sizeof found));
}

/* ---- one value ----------------------------------------------------------------------------------------------- */

static int read_number(const reading *r, void *field) {
    const char *text = r->value->text;
    int64_t whole;
    double number;
    bool taken;
    switch (r->option->kind) {
    case MR_OPTION_DOUBLE:
    case MR_OPTION_RATE:
        taken = r->option->kind == MR_OPTION_RATE ? mr_value_rate(text, &number) : mr_value_double(text, &number);
        if (!taken)
            return wrong_type(r, r->value);
        memcpy(field, &number, sizeof number);
        return in_range(r, r->value, number);
    case MR_OPTION_DURATION:
        for (int64_t i = 0; r->option->choices && r->option->choices[i]; i++)
            if (strcmp(text, r->option->choices[i]) == 0) {
                whole = MR_DURATION_WORD + i;
                memcpy(field, &whole, sizeof whole);
                return MR_OK;
            }
        taken = mr_value_duration(text, &whole);
        break;
    case MR_OPTION_BYTES:
        taken = mr_value_bytes(text, &whole);
        break;
    default:
        taken = mr_value_int(text, &whole);
        break;
    }
    if (!taken)
        return wrong_type(r, r->value);
    memcpy(field, &whole, sizeof whole);
    return in_range(r, r->value, (double)whole);
}

static int read_every(const reading *r, void *field) {
    mr_every every = {0};
    const bool counted = mr_value_int(r->value->text, &every.frames);
    if (!counted && !mr_value_duration(r->value->text, &every.time_ns))
        return wrong_type(r, r->value);
    if (!counted && every.time_ns <= 0)
        return out_of_range(r, r->value);
    memcpy(field, &every, sizeof every);
    return counted ? in_range(r, r->value, (double)every.frames) : MR_OK;
}

static int read_bool(const reading *r, void *field) {
    static const char *const said[] = {"yes", "on", "no", "off"};
    bool value;
    if (mr_value_bool(r->value->text, &value)) {
        memcpy(field, &value, sizeof value);
        return MR_OK;
    }
    for (size_t i = 0; i < 4; i++)
        if (strcmp(r->value->text, said[i]) == 0)
            return mr_diagnose(r->reader->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_CONFIG, r->value->place,
                               i < 2 ? "write true" : "write false", "%s%s%s: expected true or false, found \"%s\"",
                               r->reader->where, dot(r->reader), r->option->name, said[i]);
    return wrong_type(r, r->value);
}

static int read_choice(const reading *r, void *field) {
    for (int i = 0; r->option->choices[i]; i++)
        if (strcmp(r->option->choices[i], r->value->text) == 0) {
            memcpy(field, &i, sizeof i);
            return MR_OK;
        }
    return unknown_choice(r);
}

/* "scheme://..." or "lavfi:...": not a path. */
static bool has_scheme(const char *text) {
    size_t length = 0;
    while ((text[length] | 32) >= 'a' && (text[length] | 32) <= 'z')
        length++;
    length += strspn(text + length, "+-.0123456789");
    return strncmp(text, "lavfi:", 6) == 0 || (length > 0 && strncmp(text + length, "://", 3) == 0);
}

const char *mr_option_string(const mr_option *option, const void *options) {
    const char *text;
    memcpy(&text, (const char *)options + option->offset, sizeof text);
    return text;
}

/* The path in "file:PATH", "file:///PATH" or "file://localhost/PATH" (RFC 8089, taken as it is written, without
 * percent-decoding, as FFmpeg does); any other text as it is. */
const char *mr_option_without_scheme(const char *text) {
    if (strncmp(text, "file:", 5) != 0)
        return text;
    text += 5;
    if (strncmp(text, "//localhost/", 12) == 0)
        return text + 11;
    return strncmp(text, "//", 2) == 0 ? text + 2 : text;
}

const char *mr_option_path(const mr_option *option, const void *options) {
    const char *text = mr_option_string(option, options);
    return option->kind == MR_OPTION_URI && text && has_scheme(text) ? NULL : text;
}

bool mr_option_is_relative(const mr_option *option, const char *text) {
    bool path = option->kind == MR_OPTION_PATH || (option->kind == MR_OPTION_URI && option->file != MR_FILE_SENT &&
                                                        !has_scheme(text));
    return path && text[0] != '/' && strcmp(text, "-") != 0;
}

/* The length of a folder path (which ends in a slash) without the last part. That part must be a folder and no link:
 * only then is ".." its parent. Else `length`. */
static size_t without_last(const char *folder, size_t length) {
    char path[PATH_MAX];
    struct stat about;
    size_t before = length ? length - 1 : 0;
    while (before > 0 && folder[before - 1] != '/')
        before--;
    const size_t last = length ? length - 1 - before : 0;
    const bool dots = strspn(folder + before, ".") == last;
    if (!last || dots || length > sizeof path)
        return length;
    memcpy(path, folder, length - 1);
    path[length - 1] = '\0';
    return lstat(path, &about) == 0 && S_ISDIR(about.st_mode) ? before : length;
}

/* A relative path that starts in a folder. Each leading ".." removes a part from the folder: "../photos" in
 * "pipelines/" is "photos", which records show too. */
static const char *start_in(const reading *r, const char *folder, const char *path) {
    size_t length = strlen(folder), shorter;
    const char *rest = path;
    while (strncmp(rest, "../", 3) == 0 && (shorter = without_last(folder, length)) < length) {
        length = shorter;
        rest += 3 + strspn(rest + 3, "/");
    }
    const bool is_path = length || mr_option_is_relative(r->option, rest);
    if (!*rest)
        return mr_arena_print(r->reader->arena, "%s%s", folder, path);
    return mr_arena_print(r->reader->arena, "%.*s%s%s", (int)length, folder, is_path ? "" : "./", rest);
}

/* Where the option takes no user and password a URL that has some is refused, so that they are not shown. */
static int take_credentials(const reading *r, void *options) {
    const mr_credentials given = {r->value->user, r->value->password};
    if (r->option->credentials)
        memcpy((char *)options + r->option->credentials, &given, sizeof given);
    if (r->option->credentials || (!given.user && !given.password))
        return MR_OK;
    return mr_diagnose(r->reader->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_CONFIG, r->value->place, NULL,
                       "%s%s%s: a URL with user and password is not taken here", r->reader->where, dot(r->reader),
                       r->option->name);
}

bool mr_option_is_name(const mr_option *option, const char *text) {
    return option->named && mr_is_model_name(text);
}

/* The path of the file that a name means, if there is none at the path itself. */
static const char *find_named(const reading *r, const char *path) {
    char found[PATH_MAX];
    struct stat about;
    if (!mr_option_is_name(r->option, r->value->text) || stat(path, &about) == 0 ||
        !mr_named_model_find(r->value->text, r->option->named, found))
        return path;
    return mr_arena_print(r->reader->arena, "%s", found);
}

static int read_text(const reading *r, void *field) {
    const char *text = r->value->text;
    const char *directory = r->value->place.line > 0 ? r->reader->directory : "";
    if (r->option->kind == MR_OPTION_URI)
        text = mr_option_without_scheme(text);
    if (r->option->kind != MR_OPTION_STRING && !*text)
        return wrong_type(r, r->value);
    if (*directory && mr_option_is_relative(r->option, text))
        text = start_in(r, directory, text);
    if (text)
        text = find_named(r, text);
    if (!text)
        return MR_ERROR_MEMORY;
    memcpy(field, &text, sizeof text);
    return MR_OK;
}

static int read_size(const reading *r, void *field) {
    mr_size size = {0};
    if (mr_option_takes_auto(r->option) && strcmp(r->value->text, "auto") == 0) {
        memcpy(field, &size, sizeof size);
        return MR_OK;
    }
    if (!mr_value_size(r->value->text, &size))
        return wrong_type(r, r->value);
    memcpy(field, &size, sizeof size);
    int status = in_range(r, r->value, size.width);
    return status ? status : in_range(r, r->value, size.height);
}

static int read_format(const reading *r, void *field) {
    mr_format format;
    if (!mr_value_format(r->value->text, &format))
        return wrong_type(r, r->value);
    memcpy(field, &format, sizeof format);
    return MR_OK;
}

static int read_scalar(const reading *r, void *field) {
    switch (r->option->kind) {
    case MR_OPTION_BOOL:
        return read_bool(r, field);
    case MR_OPTION_STRING:
    case MR_OPTION_PATH:
    case MR_OPTION_URI:
        return read_text(r, field);
    case MR_OPTION_ENUM:
        return read_choice(r, field);
    case MR_OPTION_SIZE:
        return read_size(r, field);
    case MR_OPTION_FORMAT:
        return read_format(r, field);
    case MR_OPTION_EVERY:
        return read_every(r, field);
    default:
        return read_number(r, field);
    }
}

/* ---- several values ------------------------------------------------------------------------------------------ */

/* A scalar is a list with one element. */
static const mr_yaml *first_of(const mr_yaml *value) {
    return value->kind == MR_YAML_LIST ? value->first : value;
}

static const mr_yaml *next_of(const mr_yaml *value, const mr_yaml *item) {
    return value->kind == MR_YAML_LIST ? item->next : NULL;
}

static int read_doubles(const reading *r, void *field) {
    mr_doubles list = {0};
    if (r->value->kind == MR_YAML_LIST && (r->value->count == 0 || r->value->count > MR_DOUBLES_MAX))
        return mr_diagnose(r->reader->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_CONFIG, r->value->place, NULL,
                           "%s%s%s: expected one to four numbers, found a list of %zu", r->reader->where,
                           dot(r->reader), r->option->name, r->value->count);
    for (const mr_yaml *item = first_of(r->value); item; item = next_of(r->value, item)) {
        double *number = &list.value[list.count++];
        if (item->broken)
            return MR_ERROR_CONFIG;
        if (item->kind != MR_YAML_SCALAR || !mr_value_double(item->text, number))
            return wrong_type(r, item);
        if (in_range(r, item, *number))
            return MR_ERROR_CONFIG;
    }
    memcpy(field, &list, sizeof list);
    return MR_OK;
}

static int read_strings(const reading *r, void *field) {
    size_t count = r->value->kind == MR_YAML_LIST ? r->value->count : 1;
    const char **text = mr_arena_array(r->reader->arena, count, sizeof *text);
    mr_strings list = {.item = text};
    if (!text)
        return MR_ERROR_MEMORY;
    for (const mr_yaml *item = first_of(r->value); item; item = next_of(r->value, item)) {
        if (item->broken)
            return MR_ERROR_CONFIG;
        if (item->kind != MR_YAML_SCALAR || mr_yaml_is_null(item))
            return wrong_type(r, item);
        text[list.count++] = item->text;
    }
    memcpy(field, &list, sizeof list);
    return MR_OK;
}

static int read_pairs(const reading *r, void *field) {
    const char **key = mr_arena_array(r->reader->arena, r->value->count, sizeof *key);
    const char **text = mr_arena_array(r->reader->arena, r->value->count, sizeof *text);
    mr_pairs list = {.key = key, .value = text};
    if (!key || !text)
        return MR_ERROR_MEMORY;
    for (const mr_yaml *item = r->value->first; item; item = item->next) {
        if (item->broken)
            return MR_ERROR_CONFIG;
        if (item->kind != MR_YAML_SCALAR || mr_yaml_is_null(item))
            return wrong_type(r, item);
        key[list.count] = item->key;
        text[list.count++] = item->text;
    }
    memcpy(field, &list, sizeof list);
    return MR_OK;
}

static int no_point(const reading *r, const mr_yaml *found) {
    char text[MR_OPTION_TEXT];
    return mr_diagnose(r->reader->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_CONFIG, found->place, NULL,
                       "%s%s%s: expected a point, [x, y], found %s", r->reader->where, dot(r->reader), r->option->name,
                       mr_yaml_found(found, text, sizeof text));
}

static int read_point(const reading *r, const mr_yaml *item, double to[2]) {
    const mr_yaml *x = item->kind == MR_YAML_LIST && item->count == 2 ? item->first : NULL;
    if (!x)
        return item->broken ? MR_ERROR_CONFIG : no_point(r, item);
    for (int i = 0; i < 2; i++, x = x->next) {
        if (x->broken)
            return MR_ERROR_CONFIG;
        if (x->kind != MR_YAML_SCALAR || !mr_value_double(x->text, &to[i]))
            return no_point(r, x);
    }
    return MR_OK;
}

/* The points of `list`, which is r->value or, for SHAPES, one of its entries. */
static int read_points(const reading *r, const mr_yaml *list, void *field) {
    double(*at)[2] = mr_arena_array(r->reader->arena, list->count + 1, sizeof *at);
    mr_points points = {.at = (const double(*)[2])at};
    char range[MR_OPTION_TEXT];
    if (!at)
        return MR_ERROR_MEMORY;
    if (list->kind != MR_YAML_LIST)
        return list->broken ? MR_ERROR_CONFIG : wrong_type(r, list);
    if ((double)list->count < r->option->min || (double)list->count > r->option->max)
        return mr_diagnose(r->reader->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_CONFIG, list->place, NULL,
                           "%s%s%s%s%s: expected %s, found %zu", r->reader->where, dot(r->reader), r->option->name,
                           list->key && list != r->value ? "." : "", list->key && list != r->value ? list->key : "",
                           mr_option_range_text(r->option, range, sizeof range), list->count);
    for (const mr_yaml *item = list->first; item; item = item->next) {
        int status = read_point(r, item, at[points.count++]);
        if (status)
            return status;
    }
    memcpy(field, &points, sizeof points);
    return MR_OK;
}

static int read_shapes(const reading *r, void *field) {
    const char **name = mr_arena_array(r->reader->arena, r->value->count, sizeof *name);
    mr_points *points = mr_arena_array(r->reader->arena, r->value->count, sizeof *points);
    mr_shapes shapes = {.name = name, .points = points};
    if (!name || !points)
        return MR_ERROR_MEMORY;
    for (const mr_yaml *item = r->value->first; item; item = item->next) {
        int status = read_points(r, item, &points[shapes.count]);
        if (status)
            return status;
        name[shapes.count++] = item->key;
    }
    memcpy(field, &shapes, sizeof shapes);
    return MR_OK;
}

/* A plain value in place of a map, as the map that it is short for. */
static mr_yaml *widen(const reading *r) {
    mr_arena *arena = r->reader->arena;
    mr_yaml *map = mr_yaml_new(arena, MR_YAML_MAP, r->value->place);
    mr_yaml *only = mr_yaml_new(arena, MR_YAML_SCALAR, r->value->place);
    if (!map || !only)
        return NULL;
    only->text = r->value->text;
    only->quoted = r->value->quoted;
    map->key_place = r->value->key_place;
    return mr_yaml_put(map, arena, r->option->brief, map->key_place, only) ? NULL : map;
}

static int read_map(const reading *r, void *field) {
    const mr_yaml *map = r->value->kind == MR_YAML_MAP ? r->value : widen(r);
    if (!map)
        return MR_ERROR_MEMORY;
    mr_option_reader inner = *r->reader;
    inner.where = mr_arena_print(r->reader->arena, "%s%s%s", r->reader->where, dot(r->reader), r->option->name);
    if (!inner.where)
        return MR_ERROR_MEMORY;
    const bool given = true;
    memcpy(field, &given, sizeof given);
    return mr_options_read(&inner, r->option->fields, NULL, map, field);
}

static int read_value(const reading *r, void *options) {
    void *field = field_of(r->option, options);
    mr_yaml_kind kind = r->value->kind;
    bool nothing = kind == MR_YAML_SCALAR && mr_yaml_is_null(r->value);
    if (r->value->broken)
        return MR_ERROR_CONFIG;
    if (nothing)
        return wrong_type(r, r->value);
    if (kind == MR_YAML_SCALAR && take_credentials(r, options))
        return MR_ERROR_CONFIG;
    switch (r->option->kind) {
    case MR_OPTION_DOUBLES:
        return kind == MR_YAML_MAP ? wrong_type(r, r->value) : read_doubles(r, field);
    case MR_OPTION_STRINGS:
        return kind == MR_YAML_MAP ? wrong_type(r, r->value) : read_strings(r, field);
    case MR_OPTION_PAIRS:
        return kind != MR_YAML_MAP ? wrong_type(r, r->value) : read_pairs(r, field);
    case MR_OPTION_POINTS:
        return read_points(r, r->value, field);
    case MR_OPTION_SHAPES:
        return kind != MR_YAML_MAP ? wrong_type(r, r->value) : read_shapes(r, field);
    case MR_OPTION_MAP:
        return kind == MR_YAML_LIST || (kind == MR_YAML_SCALAR && !r->option->brief) ? wrong_type(r, r->value)
                                                                                     : read_map(r, field);
    default:
        return kind != MR_YAML_SCALAR ? wrong_type(r, r->value) : read_scalar(r, field);
    }
}

/* ---- maps ---------------------------------------------------------------------------------------------------- */

/* Compares a key that could have been meant, and lists it. */
static void offer_key(mr_nearest *nearest, const char *key, char *keys, size_t bytes, size_t *count) {
    size_t length = strlen(keys);
    snprintf(keys + length, bytes - length, "%s%s", (*count)++ ? ", " : "", key);
    mr_nearest_offer(nearest, key);
}

static int unknown_key(const mr_option_reader *reader, const mr_option *table, const mr_option *known,
                       const mr_yaml *map, const mr_yaml *entry) {
    enum { LISTED = 9 };
    char hint[MR_OPTION_TEXT], meant[MR_OPTION_TEXT], keys[MR_OPTION_TEXT] = "its keys are ";
    size_t count = 0;
    mr_nearest nearest = {.wanted = entry->key};
    bool shown = !mr_diagnostics_full(reader->diagnostics);
    for (const mr_option *option = table; shown && option && option->name; option++)
        offer_key(&nearest, option->name, keys, sizeof keys, &count);
    for (const mr_option *option = known; shown && option && option->name; option++)
        offer_key(&nearest, option->name, keys, sizeof keys, &count);
    /* "input:decode" has no slip, but lacks a space. */
    const char *near = strchr(entry->key, ':') ? NULL : mr_nearest_hint(&nearest, hint, sizeof hint, NULL);
    const char *other = NULL;
    /* A letter is more easily mistaken than a word. */
    if (shown && !(near && nearest.distance <= 1))
        other = mr_synonym_key(reader->synonyms, table, known, map, entry, meant, sizeof meant);
    other = other ? other : near;
    if (shown && !other)
        other = mr_option_key_hint(reader, table, known, entry, meant, sizeof meant);
    return mr_diagnose(reader->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_CONFIG, entry->key_place,
                       other ? other : count <= LISTED ? keys : reader->more, "%s: unknown key \"%s\"",
                       map_name(reader), entry->key);
}

const mr_yaml *mr_option_misspelt(const mr_synonym *synonyms, const char *name, const mr_option *table,
                                  const mr_option *known, const mr_yaml *map) {
    for (const mr_yaml *entry = mr_yaml_get(map, name) ? NULL : map->first; entry; entry = entry->next) {
        mr_nearest nearest = {.wanted = entry->key};
        size_t length = strcspn(entry->key, ":");
        bool glued = entry->key[length] && strncmp(entry->key, name, length) == 0 && !name[length];
        if (mr_option_find(table, entry->key) || mr_option_find(known, entry->key))
            continue;
        mr_nearest_offer(&nearest, name);
        if (nearest.best || glued || mr_synonym_means(synonyms, entry, name))
            return entry;
    }
    return NULL;
}

static int check_required(const mr_option_reader *reader, const mr_option *table, const mr_option *known,
                          const mr_yaml *map) {
    int status = MR_OK;
    char expected[MR_OPTION_TEXT], hint[2 * MR_OPTION_TEXT];
    for (const mr_option *option = table; option && option->name; option++) {
        if (!option->required || option->elsewhere || mr_yaml_get(map, option->name) ||
            mr_option_misspelt(reader->synonyms, option->name, table, known, map))
            continue;
        if (!mr_option_only_hint(option, hint, sizeof hint))
            snprintf(hint, sizeof hint, "add \"%s\": %s", option->name,
                     mr_option_expected_text(option, expected, sizeof expected));
        status = mr_diagnose(reader->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_CONFIG,
                             map->key ? map->key_place : map->place, hint, "%s: \"%s\" is missing",
                             map_name(reader), option->name);
    }
    return status;
}

int mr_options_read(const mr_option_reader *reader, const mr_option *table, const mr_option *known,
                    const mr_yaml *map, void *options) {
    int status = MR_OK;
    for (const mr_yaml *entry = map->first; entry; entry = entry->next) {
        const mr_option *option = mr_option_find(table, entry->key);
        int answer = MR_OK;
        if (option && !option->elsewhere)
            answer = read_value(&(reading){.reader = reader, .option = option, .value = entry}, options);
        else if (!option && !mr_option_find(known, entry->key))
            answer = unknown_key(reader, table, known, map, entry);
        status = answer ? answer : status;
        if (answer == MR_ERROR_MEMORY)
            return answer;
    }
    int missing = reader->partial ? MR_OK : check_required(reader, table, known, map);
    return missing ? missing : status;
}

/* ---- defaults ------------------------------------------------------------------------------------------------ */

static int set_default(const mr_option_reader *reader, const mr_option *option, void *options) {
    mr_yaml scalar = {.kind = MR_YAML_SCALAR, .text = option->fallback, .place = {.line = 1}};
    mr_yaml *value = &scalar;
    if (option->kind == MR_OPTION_MAP) {
        int status = MR_OK;
        for (const mr_option *field = option->fields; field->name && !status; field++)
            status = set_default(reader, field, field_of(option, options));
        return status;
    }
    if (!option->fallback || option->elsewhere)
        return MR_OK;
    bool several = option->kind == MR_OPTION_DOUBLES || option->kind == MR_OPTION_STRINGS ||
                   option->kind == MR_OPTION_PAIRS || option->kind == MR_OPTION_POINTS ||
                   option->kind == MR_OPTION_SHAPES;
    int status = MR_OK;
    if (several)
        status = mr_yaml_parse(&value, reader->arena, "default", option->fallback, strlen(option->fallback), false,
                               reader->diagnostics);
    /* If the table refuses its own default, the stage has a bug; the diagnostic names it. */
    return status ? status : read_value(&(reading){.reader = reader, .option = option, .value = value}, options);
}

int mr_options_default(const mr_option_reader *reader, const mr_option *table, void *options, size_t bytes) {
    if (bytes > 0)
        memset(options, 0, bytes);
    for (const mr_option *option = table; option && option->name; option++) {
        int status = set_default(reader, option, options);
        if (status)
            return status;
    }
    return MR_OK;
}
