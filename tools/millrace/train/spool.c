#include "tools/millrace/train/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "millrace/status.h"
#include "tools/millrace/train/cache.h"

enum { HEAD = 64 };

typedef struct head {
    uint64_t width, files;
} head;

/* What a vector belongs to. */
typedef struct label {
    uint64_t file;
    int64_t at_ns;
    mr_identity frame;
    uint64_t sum;
} label;

static size_t record_bytes(size_t width) {
    return sizeof(label) + width * sizeof(float);
}

static off_t record_at(const mr_spool *spool, size_t record) {
    return (off_t)(HEAD + record * record_bytes(spool->width));
}

/* Unwritten data after the end of the file reads as zeros. */
static int read_at(const mr_spool *spool, void *data, size_t bytes, off_t at) {
    char *to = data;
    while (bytes > 0) {
        ssize_t got = pread(spool->fd, to, bytes, at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return mr_file_fail("read", spool->path);
        for (; got == 0 && bytes > 0; bytes--)
            *to++ = 0;
        to += got;
        at += got;
        bytes -= (size_t)got;
    }
    return MR_OK;
}

/* A new file's header is zeros. */
static int read_head(mr_spool *spool) {
    head found;
    struct stat file;
    int status = read_at(spool, &found, sizeof found, 0);
    if (!status && fstat(spool->fd, &file))
        status = mr_file_fail("read", spool->path);
    if (status)
        return status;
    if (found.files && found.files != spool->files)
        return mr_fail(MR_ERROR_DATA, "%s is of %zu files, and there are %zu: begin anew, with another MILLRACE_RUN",
                       spool->path, (size_t)found.files, spool->files);
    if (found.width > MR_CACHE_MOST_WIDTH)
        return mr_fail(MR_ERROR_DATA, "%s is damaged: begin anew, with another MILLRACE_RUN", spool->path);
    spool->width = found.width;
    spool->records = file.st_size > HEAD ? ((size_t)file.st_size - HEAD) / record_bytes(found.width) : 0;
    return MR_OK;
}

int mr_spool_open(mr_spool *spool, const char *folder, size_t files) {
    *spool = (mr_spool){.files = files};
    snprintf(spool->path, sizeof spool->path, "%s/vectors", folder);
    spool->fd = open(spool->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    int status = spool->fd < 0 ? mr_file_fail("write", spool->path) : read_head(spool);
    if (status)
        mr_spool_close(spool);
    return status;
}

static uint64_t sum_of(const label *of, const float *vector, size_t width) {
    const mr_content_key sum = mr_content_key_join(&(mr_content_key){.low = 1}, of, offsetof(label, sum));
    return mr_content_key_join(&sum, vector, width * sizeof *vector).low;
}

static int begin(mr_spool *spool, size_t width) {
    const head begun = {.width = width, .files = spool->files};
    char bytes[HEAD] = {0};
    memcpy(bytes, &begun, sizeof begun);
    int status = mr_file_write_at(spool->path, spool->fd, bytes, sizeof bytes, 0);
    spool->width = status ? 0 : width;
    return status;
}

int mr_spool_put(mr_spool *spool, const mr_taken *from, const float *vector, size_t length) {
    label of;
    memset(&of, 0, sizeof of);
    of.file = from->file;
    of.at_ns = from->at_ns;
    of.frame = from->frame;
    int status = spool->width ? MR_OK : begin(spool, length);
    if (!status && length != spool->width)
        status = mr_fail(MR_ERROR_DATA, "a vector has %zu numbers, and those before it have %zu", length, spool->width);
    of.sum = sum_of(&of, vector, length);
    const off_t at = record_at(spool, spool->records);
    if (!status)
        status = mr_file_write_at(spool->path, spool->fd, &of, sizeof of, at);
    if (!status)
        status = mr_file_write_at(spool->path, spool->fd, vector, length * sizeof *vector, at + (off_t)sizeof of);
    spool->records += !status;
    return status;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* A record, for sorting. */
typedef struct found {
    label of;
    size_t record;
} found;

static int compare(const void *a, const void *b) {
    const label *x = &((const found *)a)->of, *y = &((const found *)b)->of;
    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    return mr_identity_compare(&x->frame, &y->frame);
}

/* A damaged record may claim any frame: it counts for none. */
static int give(mr_spool *spool, const found *all, float *vector, mr_take_vector *take, void *user) {
    int status = MR_OK;
    const found *last = NULL;
    for (size_t i = 0; i < spool->records && !status; i++) {
        const label *of = &all[i].of;
        status = read_at(spool, vector, spool->width * sizeof *vector,
                         record_at(spool, all[i].record) + (off_t)sizeof *of);
        const mr_taken from = {.file = of->file, .at_ns = of->at_ns, .frame = of->frame};
        const bool good = !status && of->file < spool->files && of->sum == sum_of(of, vector, spool->width);
        spool->damaged += !status && !good;
        if (good && (!last || compare(last, &all[i]) != 0)) {
            last = &all[i];
            status = take(user, &from, vector, spool->width);
        }
    }
    return status;
}

int mr_spool_read(mr_spool *spool, mr_take_vector *take, void *user) {
    int status = read_head(spool);
    found *all = status ? NULL : calloc(spool->records + 1, sizeof *all);
    float *vector = status ? NULL : calloc(spool->width + 1, sizeof *vector);
    if (!status && (!all || !vector))
        status = mr_fail(MR_ERROR_MEMORY, "no memory for the vectors");
    for (size_t i = 0; !status && i < spool->records; i++) {
        all[i].record = i;
        status = read_at(spool, &all[i].of, sizeof all[i].of, record_at(spool, i));
    }
    if (!status) {
        qsort(all, spool->records, sizeof *all, compare);
        status = give(spool, all, vector, take, user);
    }
    free(all);
    free(vector);
    return status;
}

void mr_spool_close(mr_spool *spool) {
    if (spool->fd >= 0)
        close(spool->fd);
    spool->fd = -1;
}
