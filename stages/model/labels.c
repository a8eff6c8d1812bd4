#include "stages/model/labels.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/memory.h"
#include "engine/base/utf8.h"
#include "millrace/status.h"

/* Bytes of the mark that some editors put before UTF-8; it belongs to no label. */
static size_t mark_bytes(const char *text) {
    return strncmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

static int check_text(const char *path, const char *text, size_t bytes) {
    if (strncmp(text, "\xff\xfe", 2) == 0 || strncmp(text, "\xfe\xff", 2) == 0)
        return mr_fail(MR_ERROR_DATA, "%s is UTF-16; save it as UTF-8", path);
    if (bytes == mark_bytes(text))
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

static int read_text(const char *path, char **text, size_t *bytes) {
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        return mr_fail(errno == EACCES ? MR_ERROR_PERMISSION : MR_ERROR_NO_INPUT, "cannot read the labels %s: %s",
                       path, strerror(errno));
    struct stat facts;
    int status = MR_OK;
    char *made = NULL;
    if (fstat(file, &facts) || !S_ISREG(facts.st_mode) || facts.st_size == 0 || facts.st_size > MR_LABELS_MAX_BYTES)
        status = mr_fail(MR_ERROR_DATA, "the labels %s are no file, an empty one, or one of more than %d MiB", path,
                         MR_LABELS_MAX_BYTES >> 20);
    else if (!(made = mr_calloc((size_t)facts.st_size + 1, 1)))
        status = mr_fail(MR_ERROR_MEMORY, "no memory for the labels %s", path);
    ssize_t got = status ? 0 : read(file, made, (size_t)facts.st_size);
    if (got < 0)
        status = mr_fail(MR_ERROR_IO, "cannot read the labels %s: %s", path, strerror(errno));
    close(file);
    if (!status)
        status = check_text(path, made, (size_t)got);
    if (status) {
        mr_free(made);
        return status;
    }
    *text = made;
    *bytes = (size_t)got;
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

int mr_labels_read(const char *path, mr_labels *labels) {
    mr_labels made = {0};
    size_t bytes = 0;
    int status = read_text(path, &made.text, &bytes);
    if (status)
        return status;
    size_t skipped = mark_bytes(made.text);
    made.count = count_lines(made.text + skipped, bytes - skipped);
    made.item = mr_calloc(made.count, sizeof *made.item);
    status =
        made.item ? split(path, &made, made.text + skipped) : mr_fail(MR_ERROR_MEMORY, "no memory for the labels %s", path);
    if (status)
        mr_labels_free(&made);
    else
        *labels = made;
    return status;
}

void mr_labels_free(mr_labels *labels) {
    mr_free(labels->item);
    mr_free(labels->text);
    *labels = (mr_labels){0};
}
