#include "stages/media/manifest.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <yajl/yajl_parse.h>

#include "engine/base/file.h"
#include "engine/base/memory.h"
#include "engine/base/units.h"
#include "engine/base/utf8.h"
#include "millrace/status.h"
#include "stages/media/media_list.h"
#include "stages/media/still/kinds.h"

enum { PATH, LABEL, GROUP, SPLIT, START, END, FIELDS, OTHER = FIELDS };
static const char *const names[FIELDS] = {"path", "label", "group", "split", "start", "end"};

/* A list being read. */
typedef struct manifest {
    const char *path;
    bool vectors;  /* rows need no path */
    size_t folder; /* path length up to the last slash */
    size_t line;
    int (*take)(void *context, const mr_manifest_row *row);
    void *context;
    char **unused;
} manifest;

bool mr_is_manifest_by_name(const char *path) {
    static const char *const endings[] = {"csv", "jsonl", "ndjson"};
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++)
        if (strcasecmp(dot + 1, endings[i]) == 0)
            return true;
    return false;
}

static int name_of(const char *text, size_t bytes) {
    for (int i = 0; i < FIELDS; i++)
        if (strlen(names[i]) == bytes && strncasecmp(text, names[i], bytes) == 0)
            return i;
    return OTHER;
}

/* Remembers the first unknown name. A column without a name was not meant to be used. */
static void note_unused(const manifest *list, const char *name, size_t bytes) {
    if (!*list->unused && bytes > 0 && (*list->unused = mr_alloc(bytes + 1)))
        snprintf(*list->unused, bytes + 1, "%.*s", (int)bytes, name);
}

#define REFUSE(list, ...) refuse(list, mr_fail(MR_ERROR_DATA, __VA_ARGS__))
/* Prefixes the message with the position. */
static int refuse(const manifest *list, int status) {
    char reason[512];
    snprintf(reason, sizeof reason, "%s", mr_message());
    return mr_fail(status, "%s:%zu: %s", list->path, list->line, reason);
}

/* ---- a row ----------------------------------------------------------------------------------------------------- */

static int check_text(const manifest *list, const char *name, const char *text) {
    for (size_t left = strlen(text), step; left > 0; left -= step, text += step) {
        step = mr_utf8_bytes(text, left);
        if (!step)
            return REFUSE(list, "the %s is not UTF-8", name);
        if ((unsigned char)*text < ' ')
            return REFUSE(list, "the %s has a control character in it", name);
    }
    return MR_OK;
}

static int read_split(const manifest *list, const char *text, mr_split *split) {
    *split = MR_SPLIT_NONE;
    if (!text || !*text)
        return MR_OK;
    *split = mr_split_parse(text);
    return *split ? MR_OK : REFUSE(list, "split is train, validation or test, or empty, not \"%s\"", text);
}

/* Reads seconds, to the microsecond. The limit is 1,000 hours, as for media's options. */
static int read_time(const manifest *list, int name, const char *text, int64_t *to) {
    static const double longest_s = 3.6e6;
    const char *end;
    double seconds;
    if (!mr_units_number(text, &seconds, &end) || *end || seconds < 0 || seconds > longest_s)
        return REFUSE(list, "%s is a time in seconds, such as 12.5, not \"%s\"", names[name], text);
    *to = llround(seconds * 1e6) * 1000;
    return MR_OK;
}

static int read_range(const manifest *list, const char *const field[FIELDS], mr_manifest_row *row) {
    const char *const start = field[START], *const end = field[END];
    const bool starts = start && *start, ends = end && *end;
    int status = starts ? read_time(list, START, start, &row->start_ns) : MR_OK;
    if (!status && ends)
        status = read_time(list, END, end, &row->end_ns);
    row->ranged = starts || ends;
    if (status || !row->ranged)
        return status;
    if (ends && row->end_ns <= row->start_ns)
        return REFUSE(list, "the range ends at %s s, not after its start", end);
    if (field[PATH] && mr_image_codec_by_name(field[PATH]))
        return REFUSE(list, "start and end are a range of a video, and %s is a picture", field[PATH]);
    return MR_OK;
}

static const char *unless_empty(const char *text) {
    return text && *text ? text : NULL;
}

static int give(const manifest *list, const char *const field[FIELDS]) {
    const char *file = field[PATH] ? field[PATH] : "";
    const size_t folder = !*file || *file == '/' ? 0 : list->folder, bytes = strlen(file) + 1;
    mr_manifest_row row = {
        .label = unless_empty(field[LABEL]), .group = unless_empty(field[GROUP]), .line = list->line};
    int status = read_split(list, field[SPLIT], &row.split);
    if (!status)
        status = read_range(list, field, &row);
    char *path = status ? NULL : mr_alloc(folder + bytes);
    if (!path)
        return status ? status : mr_fail(MR_ERROR_MEMORY, "out of memory");
    memcpy(path, list->path, folder);
    memcpy(path + folder, file, bytes);
    row.path = path;
    status = list->take(list->context, &row);
    mr_free(path);
    return status;
}

static int take_row(const manifest *list, const char *const field[FIELDS]) {
    if (!list->vectors && (!field[PATH] || !*field[PATH]))
        return REFUSE(list, "the row has no path");
    for (int i = 0; i < FIELDS; i++) {
        int status = field[i] ? check_text(list, names[i], field[i]) : MR_OK;
        if (status)
            return status;
    }
    return give(list, field);
}

/* ---- CSV ------------------------------------------------------------------------------------------------------- */

enum { MOST_COLUMNS = 64 };

static const char blanks[] = " \t";

/* Takes the field at *at without quotes and surrounding blanks, and ends it with a zero. Moves *at to the comma, the
 * row's end or the text's end. *last: no comma follows. Blanks inside quotes are kept. */
static int take_field(manifest *list, char **at, size_t *lines, char **field, bool *last) {
    char *from = *at + strspn(*at, blanks), *to = *at;
    *field = to;
    if (*from == '"') {
        for (from++; *from && (*from != '"' || from[1] == '"'); *to++ = *from++) {
            *lines += *from == '\n';
            from += *from == '"';
        }
        if (!*from++)
            return REFUSE(list, "a quote is not closed");
        from += strspn(from, blanks);
        if (*from && *from != ',' && *from != '\n' && *from != '\r')
            return REFUSE(list, "text after a closing quote");
    } else {
        for (; *from && *from != ',' && *from != '\n' && (*from != '\r' || from[1] != '\n'); *to++ = *from++)
            if (*from == '"')
                return REFUSE(list, "a quote inside a field that has none around it");
        while (to > *field && strchr(blanks, to[-1]))
            to--;
    }
    from += *from == '\r';
    *last = *from != ',';
    *lines += *from == '\n';
    *at = from + (*from != 0);
    *to = 0;
    return MR_OK;
}

/* Takes a row's fields; *count is 0 for an empty line. */
static int take_fields(manifest *list, char **at, size_t *lines, char *field[MOST_COLUMNS], size_t *count) {
    bool last = false;
    int status = MR_OK;
    for (*count = 0; !last && !status; ++*count) {
        if (*count == MOST_COLUMNS)
            return REFUSE(list, "more than %d columns", MOST_COLUMNS);
        status = take_field(list, at, lines, &field[*count], &last);
    }
    if (*count == 1 && !*field[0])
        *count = 0;
    return status;
}

static int refuse_header(const manifest *list, const char *first) {
    const char *other = strpbrk(first, ";\t");
    if (other)
        return REFUSE(list, "the columns are separated by %s: a list has commas", *other == ';' ? "\";\"" : "tabs");
    return REFUSE(list, "no column is called path: the first row names the columns, such as path,label");
}

static int take_header(manifest *list, char *const field[MOST_COLUMNS], size_t count, int column[MOST_COLUMNS]) {
    bool seen[FIELDS] = {false};
    for (size_t i = 0; i < count; i++) {
        column[i] = name_of(field[i], strlen(field[i]));
        if (column[i] == OTHER) {
            note_unused(list, field[i], strlen(field[i]));
            continue;
        }
        if (seen[column[i]])
            return REFUSE(list, "two columns are called %s", names[column[i]]);
        seen[column[i]] = true;
    }
    return seen[PATH] || list->vectors ? MR_OK : refuse_header(list, field[0]);
}

static int read_csv(manifest *list, char *text) {
    char *field[MOST_COLUMNS];
    int column[MOST_COLUMNS], status = MR_OK;
    size_t columns = 0, count = 0, lines;
    for (char *at = text; *at && !status; list->line += lines) {
        lines = 0;
        status = take_fields(list, &at, &lines, field, &count);
        if (status || !count)
            continue;
        if (!columns) {
            columns = count;
            status = take_header(list, field, count, column);
        } else if (count != columns) {
            status = REFUSE(list, "the row has %zu field%s, and the first row names %zu", count, count == 1 ? "" : "s",
                            columns);
        } else {
            const char *of[FIELDS] = {NULL};
            for (size_t i = 0; i < count; i++)
                if (column[i] < FIELDS)
                    of[column[i]] = field[i];
            status = take_row(list, of);
        }
    }
    return status;
}

/* ---- JSON ------------------------------------------------------------------------------------------------------ */

typedef struct object {
    const manifest *list;
    char *value[FIELDS];
    int depth, name;
    int status; /* why a value is refused; yajl does not know it */
} object;

static int on_value(object *to, const void *text, size_t bytes) {
    if (to->depth != 1 || to->name == OTHER)
        return 1;
    if (to->value[to->name]) {
        to->status = REFUSE(to->list, "two values are called %s", names[to->name]);
    } else if (memchr(text, 0, bytes)) {
        to->status = REFUSE(to->list, "the %s has a control character in it", names[to->name]);
    } else if (!(to->value[to->name] = mr_calloc(1, bytes + 1))) {
        to->status = mr_fail(MR_ERROR_MEMORY, "out of memory");
    } else {
        memcpy(to->value[to->name], text, bytes);
    }
    return to->status == MR_OK;
}

static int refuse_value(object *to) {
    if (to->depth == 1 && to->name < FIELDS)
        to->status = REFUSE(to->list, "%s is not a text", names[to->name]);
    return to->status == MR_OK;
}

static int on_text(void *context, const unsigned char *text, size_t bytes) {
    return ((object *)context)->depth ? on_value(context, text, bytes) : 0;
}

/* Many lists also use numbers as classes and groups. */
static int on_number(void *context, const char *text, size_t bytes) {
    object *to = context;
    if (!to->depth)
        return 0;
    return to->name == PATH || to->name == SPLIT ? refuse_value(to) : on_value(to, text, bytes);
}

static int on_null(void *context) {
    return ((object *)context)->depth > 0;
}

static int on_bool(void *context, int value) {
    object *to = context;
    return to->depth && refuse_value(to);
}

static int on_open(void *context) {
    object *to = context;
    return refuse_value(to) && ++to->depth;
}

static int on_open_array(void *context) {
    return ((object *)context)->depth && on_open(context);
}

static int on_close(void *context) {
    ((object *)context)->depth--;
    return 1;
}

static int on_key(void *context, const unsigned char *text, size_t bytes) {
    object *to = context;
    if (to->depth != 1)
        return 1;
    to->name = name_of((const char *)text, bytes);
    if (to->name == OTHER)
        note_unused(to->list, (const char *)text, bytes);
    return 1;
}

static int parse(object *to, const char *line, size_t bytes) {
    static const yajl_callbacks callbacks = {.yajl_null = on_null,
                                             .yajl_boolean = on_bool,
                                             .yajl_number = on_number,
                                             .yajl_string = on_text,
                                             .yajl_start_map = on_open,
                                             .yajl_map_key = on_key,
                                             .yajl_end_map = on_close,
                                             .yajl_start_array = on_open_array,
                                             .yajl_end_array = on_close};
    yajl_handle parser = yajl_alloc(&callbacks, NULL, to);
    if (!parser)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    yajl_status answer = yajl_parse(parser, (const unsigned char *)line, bytes);
    if (answer == yajl_status_ok)
        answer = yajl_complete_parse(parser);
    yajl_free(parser);
    if (to->status)
        return to->status;
    return answer == yajl_status_ok
               ? MR_OK
               : REFUSE(to->list, "not a JSON object, such as {\"path\": \"a.png\", \"label\": \"cat\"}");
}

static int take_object(const manifest *list, const char *line, size_t bytes) {
    object one = {.list = list, .name = OTHER};
    int status = parse(&one, line, bytes);
    if (!status)
        status = take_row(list, (const char *const *)one.value);
    for (int i = 0; i < FIELDS; i++)
        mr_free(one.value[i]);
    return status;
}

static int read_lines(manifest *list, const char *text) {
    int status = MR_OK;
    for (const char *end; *text && !status; text = end + (*end != 0), list->line++) {
        size_t bytes = strcspn(text, "\n"), blank = strspn(text, " \t\r");
        end = text + bytes;
        if (blank < bytes)
            status = take_object(list, text, bytes);
    }
    return status;
}

/* What spreadsheets call Unicode text. */
static bool is_utf16(const mr_file_bytes *file) {
    return file->bytes >= 2 && (memcmp(file->data, "\xff\xfe", 2) == 0 || memcmp(file->data, "\xfe\xff", 2) == 0);
}

int mr_manifest_read(const char *path, bool vectors, int (*take)(void *context, const mr_manifest_row *row),
                     void *context, char **unused) {
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    manifest list = {
        .path = path, .vectors = vectors, .folder = slash ? (size_t)(slash - path) + 1 : 0, .line = 1, .take = take,
        .context = context, .unused = unused};
    *unused = NULL;
    mr_file_bytes file;
    int status = mr_file_read("the list", path, MR_MANIFEST_MAX_BYTES, 0, &file);
    if (status)
        return status;
    char *text = (char *)file.data;
    text += mr_utf8_mark(text, file.bytes);
    const char *zero = memchr(file.data, 0, file.bytes);
    if (is_utf16(&file))
        status = mr_fail(MR_ERROR_DATA, "%s: is UTF-16; save it as UTF-8", path);
    else if (zero)
        status = mr_fail(MR_ERROR_DATA, "%s: is not a text: it has a zero byte in it", path);
    else
        status = dot && strcasecmp(dot, ".csv") == 0 ? read_csv(&list, text) : read_lines(&list, text);
    mr_free(file.data);
    return status;
}
