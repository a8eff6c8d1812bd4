#include "stages/model/labels.h"

#include <stdbool.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/memory.h"
#include "engine/base/utf8.h"
#include "millrace/status.h"

static int check_text(const char *path, const char *text, size_t bytes) {
    if (strncmp(text, "\xff\xfe", 2) == 0 || strncmp(text, "\xfe\xff", 2) == 0)
        return mr_fail(MR_ERROR_DATA, "%s is UTF-16; save it as UTF-8", path);
    if (bytes == mr_utf8_mark(text, bytes))
        return mr_fail(MR_ERROR_DATA, "%s holds no label: it is empty", path);
    if (strlen(text) != bytes)
        return mr_fail(MR_ERROR_DATA, "%s is not a text file with one label a line", path);
    for (size_t at = 0, line = 1; at < bytes;) {
        size_t step = mr_utf8_bytes(text + at, bytes - at);
        if (!step)
            return mr_fail(MR_ERROR_DATA, "%s: line %zu is not UTF-8", path, line);
        line += text[at] == '\n';
        at += step;
    }
    return MR_OK;
}

static size_t count_lines(const char *text, size_t bytes) {
    size_t lines = 0;
    for (size_t i = 0; i < bytes; i++)
        lines += text[i] == '\n';
    return lines + (bytes && text[bytes - 1] != '\n');
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

/* Takes ownership of the file's bytes, also on failure. */
static int take(const char *path, const mr_file_bytes *file, mr_labels *labels) {
    mr_labels made = {.text = (char *)file->data};
    int status = check_text(path, made.text, file->bytes);
    size_t skipped = mr_utf8_mark(made.text, file->bytes);
    made.count = count_lines(made.text + skipped, file->bytes - skipped);
    made.item = status ? NULL : mr_calloc(made.count, sizeof *made.item);
    if (!status && !made.item)
        status = mr_fail(MR_ERROR_MEMORY, "no memory for the labels %s", path);
    if (!status)
        status = split(path, &made, made.text + skipped);
    if (status)
        mr_labels_free(&made);
    else
        *labels = made;
    return status;
}

static int read_labels(const char *path, mr_labels *labels, char *digest) {
    mr_file_bytes file;
    int status = mr_file_read("the labels", path, MR_LABELS_MAX_BYTES, 0, &file);
    if (status)
        return status;
    status = digest ? mr_sha256_bytes(file.data, file.bytes, digest) : MR_OK;
    if (!status)
        return take(path, &file, labels);
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
