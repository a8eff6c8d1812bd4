#include "stages/model/labels.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/memory.h"
#include "engine/base/utf8.h"
#include "millrace/status.h"
#include "stages/model/onnx/onnx_file.h"
#include "stages/model/onnx/onnx_report.h"

static int check_text(const char *path, const char *text, size_t bytes) {
    if (strncmp(text, "\xff\xfe", 2) == 0 || strncmp(text, "\xfe\xff", 2) == 0)
        return mr_fail(MR_ERROR_DATA, "%s is UTF-16; save it as UTF-8", path);
    if (strlen(text) != bytes)
        return mr_fail(MR_ERROR_DATA, "%s is not a text file with one entry on each line", path);
    for (size_t at = 0, line = 1; at < bytes;) {
        size_t step = mr_utf8_bytes(text + at, bytes - at);
        if (!step)
            return mr_fail(MR_ERROR_DATA, "%s: line %zu is not UTF-8", path, line);
        line += text[at] == '\n';
        at += step;
    }
    return MR_OK;
}

/* Empty lines at the end do not count. */
static size_t count_lines(const char *text) {
    size_t lines = 0, count = 0;
    while (*text) {
        const size_t length = strcspn(text, "\n");
        lines++;
        if (length > (*text == '\r'))
            count = lines;
        text += length + (text[length] == '\n');
    }
    return count;
}

static int split(const char *path, mr_labels *labels, char *text) {
    for (size_t line = 0; line < labels->count; line++) {
        size_t length = strcspn(text, "\n");
        bool last = text[length] == 0;
        text[length] = 0;
        if (length && text[length - 1] == '\r')
            text[length - 1] = 0;
        if (length > MR_LABEL_MAX_BYTES)
            return mr_fail(MR_ERROR_DATA, "%s: line %zu is longer than %d bytes", path, line + 1, MR_LABEL_MAX_BYTES);
        labels->item[line] = text;
        text += length + !last;
    }
    return MR_OK;
}

int mr_labels_take(const char *path, const mr_file_bytes *file, mr_labels *labels) {
    mr_labels made = {.text = (char *)file->data};
    int status = check_text(path, made.text, file->bytes);
    size_t skipped = mr_utf8_mark(made.text, file->bytes);
    made.count = status ? 0 : count_lines(made.text + skipped);
    if (!status && !made.count)
        status = mr_fail(MR_ERROR_DATA, "%s has no entry: it is empty", path);
    made.item = status ? NULL : mr_calloc(made.count, sizeof *made.item);
    if (!status && !made.item)
        status = mr_fail(MR_ERROR_MEMORY, "no memory for the lines of %s", path);
    if (!status)
        status = split(path, &made, made.text + skipped);
    if (status)
        mr_labels_free(&made);
    else
        *labels = made;
    return status;
}

/* ---- notes in models --------------------------------------------------------------------------------------------- */

static const char *skip_space(const char *at) {
    return at + strspn(at, " \t\r\n");
}

/* The number before the next entry. NULL: there is none. */
static const char *take_key(const char *at, size_t *number) {
    char *end;
    const bool quoted = *at == '"' || *at == '\'';
    const char quote = *at;
    at += quoted;
    if (*at < '0' || *at > '9')
        return NULL;
    *number = strtoull(at, &end, 10);
    if (quoted && *end++ != quote)
        return NULL;
    at = skip_space(end);
    return *at == ':' ? skip_space(at + 1) : NULL;
}

/* The number in `digits` hexadecimal digits. False: there are fewer. */
static bool take_hex(const char *at, size_t digits, uint32_t *code) {
    char text[9] = "";
    memcpy(text, at, strnlen(at, digits));
    *code = (uint32_t)strtoul(text, NULL, 16);
    return strspn(text, "0123456789abcdefABCDEF") == digits;
}

/* Writes the character; fewer bytes than its escape has. */
static void put_code(uint32_t code, char **to) {
    const int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const uint8_t first[] = {0, 0xc0, 0xe0, 0xf0};
    *(*to)++ = (char)(first[more] | code >> 6 * more);
    for (int i = more; i-- > 0;)
        *(*to)++ = (char)(0x80 | (code >> 6 * i & 0x3f));
}

/* What stands after a backslash in JSON and in Python. NULL: it is none of a label's characters. */
static const char *take_escape(const char *at, char **to) {
    const size_t digits = *at == 'x' ? 2 : *at == 'u' ? 4 : *at == 'U' ? 8 : 0;
    uint32_t code = 0, low;
    if (*at && strchr("\\\"'/", *at)) {
        *(*to)++ = *at;
        return at + 1;
    }
    if (!digits || !take_hex(++at, digits, &code))
        return NULL;
    at += digits;
    if (code >> 10 == 0x36 && at[0] == '\\' && at[1] == 'u' && take_hex(at + 2, 4, &low) && low >> 10 == 0x37) {
        code = 0x10000 + ((code & 0x3ff) << 10 | (low & 0x3ff)); /* a pair of surrogates */
        at += 6;
    }
    if (code < ' ' || code > 0x10ffff || code >> 11 == 0x1b)
        return NULL;
    put_code(code, to);
    return at;
}

/* Copies a quoted text to *to, with a zero at its end, and moves *to past that. NULL: the text is malformed. */
static const char *take_quoted(const char *at, char **to) {
    const char quote = *at++, *begin = *to;
    if (quote != '"' && quote != '\'')
        return NULL;
    while (*at && *at != quote) {
        if (*at == '\\') {
            if (!(at = take_escape(at + 1, to)))
                return NULL;
            continue;
        }
        const size_t bytes = mr_utf8_bytes(at, strnlen(at, 4));
        if (!bytes || (unsigned char)*at < ' ')
            return NULL;
        memcpy(*to, at, bytes);
        at += bytes;
        *to += bytes;
    }
    *(*to)++ = 0;
    return *at && *to - begin <= MR_LABEL_MAX_BYTES ? at + 1 : NULL;
}

/* Entries have numbers in any order, or none. False: the note is malformed. */
static bool take_entries(const char *at, size_t room, mr_labels *labels) {
    const char open = *at, close = open == '[' ? ']' : '}';
    char *to = labels->text;
    size_t entries = 0, number;
    if (open != '[' && open != '{')
        return false;
    for (at = skip_space(at + 1); *at != close; at = skip_space(at + 1)) {
        number = entries++;
        if (open == '{' && !(at = take_key(at, &number)))
            return false;
        if (number >= room || labels->item[number])
            return false;
        labels->item[number] = to;
        labels->count = number < labels->count ? labels->count : number + 1;
        if (!(at = take_quoted(at, &to)))
            return false;
        at = skip_space(at);
        if (*at == close)
            break;
        if (*at != ',')
            return false;
    }
    return !*skip_space(at + 1) && labels->count == entries;
}

/* Programs in Python write "None" where there are none. An entry has at least two quotes, so half the bytes are room
 * enough for all. */
int mr_labels_read_note(const char *note, mr_labels *labels) {
    const size_t bytes = note && strcmp(note, "None") && strcmp(note, "null") ? strlen(note) : 0;
    mr_labels made = {0};
    *labels = made;
    if (!bytes)
        return MR_OK;
    if (bytes > MR_LABELS_MAX_BYTES)
        return mr_fail(MR_ERROR_DATA, "the labels in its metadata have %zu bytes, and at most %d are read", bytes,
                       MR_LABELS_MAX_BYTES);
    const size_t room = bytes / 2 + 1;
    made.text = mr_calloc(bytes + 1, 1);
    made.item = made.text ? mr_calloc(room, sizeof *made.item) : NULL;
    int status = !made.item ? mr_fail(MR_ERROR_MEMORY, "no memory for %zu bytes of labels", bytes) : MR_OK;
    if (!status && !take_entries(skip_space(note), room, &made))
        status = mr_fail(MR_ERROR_DATA, "the labels in its metadata are no list of texts with the numbers 0, 1, ...");
    if (status)
        mr_labels_free(&made);
    *labels = made;
    return status;
}

/* A model's labels. */
static int read_model(const char *path, mr_labels *labels, char *digest) {
    static const char *const keys[] = {MR_ONNX_LABELS, MR_ONNX_NAMES};
    mr_file_bytes file = {0};
    bool has_tensor;
    *labels = (mr_labels){0};
    int status = mr_onnx_read(path, 0, NULL, &file, &has_tensor);
    if (!status && digest)
        status = mr_sha256_bytes(file.data, file.bytes, digest);
    for (size_t i = 0; i < sizeof keys / sizeof *keys && !status && !labels->count; i++) {
        const mr_pb_span span = mr_onnx_find_note(file.data, file.bytes, keys[i]);
        const size_t bytes = (size_t)(span.end - span.at);
        char *note = mr_calloc(bytes + 1, 1);
        if (note)
            memcpy(note, span.at, bytes);
        status = note ? mr_labels_read_note(note, labels) : mr_fail(MR_ERROR_MEMORY, "no memory for labels");
        if (status)
            status = mr_fail(status, "%s: %s", path, mr_message());
        mr_free(note);
    }
    mr_free(file.data);
    return status || labels->count ? status
                                   : mr_fail(MR_ERROR_DATA, "%s has no labels in its metadata (\"%s\" or \"%s\")",
                                             path, keys[0], keys[1]);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static int read_labels(const char *path, mr_labels *labels, char *digest) {
    const size_t length = strlen(path);
    mr_file_bytes file;
    if (length > 5 && strcmp(path + length - 5, ".onnx") == 0)
        return read_model(path, labels, digest);
    int status = mr_file_read("the text file", path, MR_LABELS_MAX_BYTES, 0, &file);
    if (status)
        return status;
    status = digest ? mr_sha256_bytes(file.data, file.bytes, digest) : MR_OK;
    if (!status)
        return mr_labels_take(path, &file, labels);
    mr_free(file.data);
    return status;
}

int mr_labels_read(const char *path, mr_labels *labels) {
    return read_labels(path, labels, NULL);
}

int mr_labels_read_digest(const char *path, mr_labels *labels, char digest[MR_SHA256_TEXT]) {
    return read_labels(path, labels, digest);
}

void mr_labels_free(mr_labels *labels) {
    mr_free(labels->item);
    mr_free(labels->text);
    *labels = (mr_labels){0};
}
