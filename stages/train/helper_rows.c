#include "stages/train/helper_rows.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "millrace/status.h"

enum { MAGIC = 16, ALIGNED = 64 };
static const char magic[MAGIC + 1] = "MRFITROWS 1\n\0\0\0\0";
static const uint64_t MOST_NUMBERS = (uint64_t)1 << 48, ORDER = 0x0102030405060708;

typedef struct helper_rows_head {
    char magic[MAGIC];
    uint64_t order, fit, rows, width, outputs, loss, doubles, weighted, scaled;
} helper_rows_head;

/* ---- where things are -------------------------------------------------------------------------------------------- */

/* Places of the parts, from the begin of the file. */
typedef struct places {
    size_t factor, mean, weights, classes, features, end;
} places;

static places places_of(const helper_rows_head *head) {
    places p = {.factor = sizeof *head};
    p.mean = p.factor + (head->scaled ? head->width * sizeof(double) : 0);
    p.weights = p.mean + (head->scaled ? head->width * sizeof(double) : 0);
    p.classes = p.weights + (head->weighted ? head->rows * sizeof(double) : 0);
    p.features = (p.classes + head->rows * sizeof(int32_t) + ALIGNED - 1) / ALIGNED * ALIGNED;
    p.end = p.features + head->rows * head->width * sizeof(float);
    return p;
}

static helper_rows_head head_of(const mr_fit_linear *linear, uint64_t fit) {
    const mr_fit_rows *rows = linear->rows;
    helper_rows_head head = {.order = ORDER, .fit = fit, .rows = rows->count, .width = rows->width,
                             .outputs = linear->outputs, .loss = linear->loss, .doubles = linear->doubles,
                             .weighted = rows->weights != NULL, .scaled = rows->mean != NULL};
    memcpy(head.magic, magic, MAGIC);
    return head;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void write_rows(FILE *to, const mr_fit_linear *linear, uint64_t fit) {
    static const char zeros[ALIGNED];
    const mr_fit_rows *rows = linear->rows;
    const helper_rows_head head = head_of(linear, fit);
    const places p = places_of(&head);
    fwrite(&head, sizeof head, 1, to);
    if (head.scaled) {
        fwrite(rows->factor, sizeof *rows->factor, rows->width, to);
        fwrite(rows->mean, sizeof *rows->mean, rows->width, to);
    }
    for (size_t i = 0; head.weighted && i < rows->count; i++)
        fwrite(&rows->weights[mr_fit_row(rows, i)], sizeof *rows->weights, 1, to);
    for (size_t i = 0; i < rows->count; i++)
        fwrite(&rows->classes[mr_fit_row(rows, i)], sizeof *rows->classes, 1, to);
    fwrite(zeros, 1, p.features - p.classes - rows->count * sizeof *rows->classes, to);
    for (size_t i = 0; i < rows->count; i++)
        fwrite(rows->features + mr_fit_row(rows, i) * rows->stride, sizeof *rows->features, rows->width, to);
}

int mr_helper_rows_write(const char *path, const mr_fit_linear *linear, uint64_t fit) {
    char beside[4096 + 8];
    snprintf(beside, sizeof beside, "%s.part", path);
    FILE *to = fopen(beside, "wbe");
    if (!to)
        return mr_file_fail("write to", beside);
    write_rows(to, linear, fit);
    const bool failed = ferror(to), unclosed = fclose(to) != 0;
    int status = failed || unclosed || rename(beside, path) ? mr_file_fail("write to", path) : MR_OK;
    if (status)
        unlink(beside);
    return status;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static bool is_sound(const helper_rows_head *head, size_t bytes) {
    return memcmp(head->magic, magic, MAGIC) == 0 && head->order == ORDER && head->rows && head->width &&
           head->outputs && head->loss <= MR_FIT_SQUARED_HINGE && head->width < MOST_NUMBERS / head->rows &&
           head->outputs < MOST_NUMBERS / (head->width + 1) && places_of(head).end == bytes;
}

static bool has_known_classes(const mr_fit_rows *rows, size_t outputs) {
    for (size_t i = 0; i < rows->count; i++)
        if (rows->classes[i] < 0 || (size_t)rows->classes[i] >= outputs)
            return false;
    return true;
}

static int take(mr_helper_rows *to, const char *path) {
    const helper_rows_head *head = to->memory;
    if (to->bytes < sizeof *head || !is_sound(head, to->bytes))
        return mr_fail(MR_ERROR_DATA, "%s has no rows of a fit that millrace of this version has written on a machine "
                                      "of this kind", path);
    const places p = places_of(head);
    const char *at = to->memory;
    const void *factor = at + p.factor, *mean = at + p.mean, *weights = at + p.weights, *classes = at + p.classes;
    to->fit = head->fit;
    to->rows = (mr_fit_rows){.features = (const void *)(at + p.features), .stride = head->width, .width = head->width,
                             .count = head->rows, .classes = classes, .weights = head->weighted ? weights : NULL,
                             .mean = head->scaled ? mean : NULL, .factor = head->scaled ? factor : NULL};
    to->linear = (mr_fit_linear){.rows = &to->rows, .outputs = head->outputs, .loss = (mr_fit_loss)head->loss,
                                 .doubles = head->doubles != 0};
    return has_known_classes(&to->rows, to->linear.outputs)
               ? MR_OK
               : mr_fail(MR_ERROR_DATA, "%s is damaged: a row is of a class that there is not", path);
}

static int map(mr_helper_rows *to, const char *path) {
    struct stat found;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return mr_file_fail("read", path);
    if (fstat(fd, &found)) {
        close(fd);
        return mr_file_fail("read", path);
    }
    to->bytes = (size_t)found.st_size;
    to->memory = to->bytes ? mmap(NULL, to->bytes, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    close(fd);
    if (to->memory != MAP_FAILED)
        return MR_OK;
    to->memory = NULL;
    return mr_file_fail("read", path);
}

int mr_helper_rows_open(mr_helper_rows *rows, const char *path) {
    *rows = (mr_helper_rows){0};
    int status = map(rows, path);
    if (!status)
        status = take(rows, path);
    if (status)
        mr_helper_rows_close(rows);
    return status;
}

void mr_helper_rows_close(mr_helper_rows *rows) {
    if (rows->memory)
        munmap(rows->memory, rows->bytes);
    *rows = (mr_helper_rows){0};
}
