#include "stages/model/npy.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/memory.h"
#include "millrace/dataset.h"
#include "millrace/status.h"

enum { PREFIX = 8, MAX_HEADER = 65535, PIECE = 4096 };

/* Header fields. */
typedef struct header {
    char kind; /* 'f', 'i', ... */
    int bytes; /* element size */
    bool big;  /* big-endian */
    bool fortran;
    int rank;
    size_t dims[2];
    size_t most; /* allowed size as f8 */
} header;

static int refuse(const char *path, const char *why) {
    return mr_fail(MR_ERROR_DATA, "%s: %s", path, why);
}

/* An open file; -1: it is not open. */
typedef struct source {
    const char *path;
    int file;
    mr_sha256 *sum; /* digests what was read; NULL: not wanted */
} source;

static int read_all(const source *from, void *to, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        ssize_t got = read(from->file, (uint8_t *)to + done, bytes - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return mr_fail(MR_ERROR_IO, "cannot read %s: %s", from->path, strerror(errno));
        if (got == 0)
            return refuse(from->path, "the file is cut off");
        done += (size_t)got;
    }
    if (from->sum)
        mr_sha256_add(from->sum, to, bytes);
    return MR_OK;
}

/* Finds where a key's value begins in the header's Python dictionary; NULL if it has no such key. */
static const char *find_value(const char *text, const char *key) {
    const char *at = strstr(text, key);
    if (!at)
        return NULL;
    at += strlen(key);
    at += strspn(at, " ");
    if (*at++ != ':')
        return NULL;
    return at + strspn(at, " ");
}

static bool parse_type(const char *at, header *h) {
    if (!at || *at++ != '\'')
        return false;
    if (*at == '<' || *at == '>' || *at == '|' || *at == '=')
        h->big = *at++ == '>';
    if (!*at)
        return false;
    h->kind = *at++;
    char *end;
    long bytes = strtol(at, &end, 10);
    h->bytes = bytes > 0 && bytes < 64 ? (int)bytes : 0;
    return h->bytes && *end == '\'';
}

static bool parse_order(const char *at, header *h) {
    h->fortran = at && strncmp(at, "True", 4) == 0;
    return h->fortran || (at && strncmp(at, "False", 5) == 0);
}

static bool parse_shape(const char *at, header *h) {
    if (!at || *at++ != '(')
        return false;
    for (h->rank = 0;; h->rank++) {
        at += strspn(at, " ,");
        if (*at == ')')
            return true;
        if (*at < '0' || *at > '9')
            return false;
        char *end;
        errno = 0;
        unsigned long long size = strtoull(at, &end, 10);
        if (errno || size > h->most)
            return false;
        if (h->rank < 2)
            h->dims[h->rank] = (size_t)size;
        at = end;
    }
}

static int parse_header(const char *path, const char *text, header *h) {
    if (!parse_type(find_value(text, "'descr'"), h) || !parse_order(find_value(text, "'fortran_order'"), h) ||
        !parse_shape(find_value(text, "'shape'"), h))
        return refuse(path, "the header of the .npy file cannot be read");
    if (h->kind != 'f' || (h->bytes != 4 && h->bytes != 8))
        return mr_fail(MR_ERROR_DATA,
                       "%s: its numbers are of the type %c%d; save array.astype('<f4')", path,
                       h->kind, h->bytes);
    if (h->big)
        return refuse(path, "its numbers are big-endian; save array.astype('<f4')");
    if (h->fortran)
        return refuse(path, "it is in Fortran order; save numpy.ascontiguousarray(array)");
    if (h->rank != 2)
        return mr_fail(MR_ERROR_DATA, "%s has %d dimension%s; a matrix has 2", path, h->rank, h->rank == 1 ? "" : "s");
    if (h->dims[0] == 0 || h->dims[1] == 0)
        return mr_fail(MR_ERROR_DATA, "%s is a matrix of %zux%zu: it is empty", path, h->dims[0], h->dims[1]);
    if (h->dims[1] > h->most / 8 / h->dims[0])
        return mr_fail(MR_ERROR_DATA, "%s is larger than %zu MiB", path, h->most >> 20);
    return MR_OK;
}

static int read_header(const source *from, header *h) {
    const char *path = from->path;
    uint8_t prefix[PREFIX + 4];
    int status = read_all(from, prefix, PREFIX);
    if (!status && memcmp(prefix, "\x93NUMPY", 6) != 0)
        return refuse(path, "it is not a .npy file");
    if (!status && prefix[6] != 1 && prefix[6] != 2)
        return mr_fail(MR_ERROR_DATA, "%s: version %d of the .npy format is not known", path, prefix[6]);
    size_t length_bytes = prefix[6] == 1 ? 2 : 4, length = 0;
    if (!status)
        status = read_all(from, prefix + PREFIX, length_bytes);
    for (size_t i = 0; i < length_bytes && !status; i++)
        length |= (size_t)prefix[PREFIX + i] << 8 * i;
    if (!status && length > MAX_HEADER)
        return refuse(path, "the header of the .npy file is too long");
    char *text = status ? NULL : mr_calloc(length + 1, 1);
    if (!status)
        status = text ? read_all(from, text, length) : mr_fail(MR_ERROR_MEMORY, "no memory for %s", path);
    if (!status)
        status = parse_header(path, text, h);
    mr_free(text);
    return status;
}

/* One NaN or infinite weight spoils every score of that class. Counts from 0, like NumPy. */
static int refuse_number(const char *path, const header *h, size_t at, double value) {
    const char *why = isfinite(value) ? "is beyond the range of f4" : "is not a finite number";
    return mr_fail(MR_ERROR_DATA,
                   "%s: row %zu, column %zu is %g, which %s; numpy.argwhere(~numpy.isfinite(array.astype('<f4'))) "
                   "lists all such places",
                   path, at / h->dims[1], at % h->dims[1], value, why);
}

/* Reads the numbers piece by piece, rounded to f4, to `to`; NULL: only checks them. */
static int read_numbers(const source *from, const header *h, float *to) {
    union {
        float narrow[PIECE];
        double wide[PIECE];
    } piece;
    size_t count = h->dims[0] * h->dims[1];
    for (size_t at = 0, here; at < count; at += here) {
        here = count - at < PIECE ? count - at : PIECE;
        int status = read_all(from, &piece, here * (size_t)h->bytes);
        if (status)
            return status;
        for (size_t i = 0; i < here; i++) {
            double value = h->bytes == 8 ? piece.wide[i] : (double)piece.narrow[i];
            if (!isfinite((float)value))
                return refuse_number(from->path, h, at + i, value);
            if (to)
                to[at + i] = (float)value;
        }
    }
    return MR_OK;
}

static int read_data(const source *from, const header *h, mr_matrix_f32 *matrix) {
    size_t count = h->dims[0] * h->dims[1];
    float *data = mr_alloc_aligned(64, (count * sizeof *data + 63) / 64 * 64);
    if (!data)
        return mr_fail(MR_ERROR_MEMORY, "no memory for %s", from->path);
    int status = read_numbers(from, h, data);
    if (status)
        mr_free(data);
    else
        *matrix = (mr_matrix_f32){h->dims[0], h->dims[1], data};
    return status;
}

/* Whether the data after the header, at the current position, is as long as the header declares. */
static int check_size(const source *from, const struct stat *facts, const header *h) {
    off_t at = lseek(from->file, 0, SEEK_CUR);
    if (at < 0)
        return mr_fail(MR_ERROR_IO, "cannot read %s: %s", from->path, strerror(errno));
    off_t wanted = (off_t)(h->dims[0] * h->dims[1] * (size_t)h->bytes), there = facts->st_size - at;
    if (there < wanted)
        return refuse(from->path, "the file is cut off");
    return there > wanted ? refuse(from->path, "the file is longer than its header declares") : MR_OK;
}

/* Opens the file and reads the header. The caller must close it, also on failure. */
static int open_file(source *from, header *h) {
    struct stat facts;
    from->file = open(from->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (from->file < 0)
        return mr_fail(mr_file_status(errno), "cannot read %s: %s", from->path, strerror(errno));
    int status = fstat(from->file, &facts) || !S_ISREG(facts.st_mode) ? refuse(from->path, "it is not a file") : MR_OK;
    if (!status)
        status = read_header(from, h);
    return status ? status : check_size(from, &facts, h);
}

static void close_file(const source *from) {
    if (from->file >= 0)
        close(from->file);
}

static int read_file(source *from, mr_matrix_f32 *matrix, bool with_data) {
    header h = {.most = MR_NPY_MAX_BYTES};
    int status = open_file(from, &h);
    if (!status && with_data)
        status = read_data(from, &h, matrix);
    else if (!status)
        status = read_numbers(from, &h, NULL);
    if (!status && !with_data)
        *matrix = (mr_matrix_f32){.rows = h.dims[0], .columns = h.dims[1]};
    close_file(from);
    return status;
}

/* ---- mapped ---------------------------------------------------------------------------------------------------- */

typedef struct mapped_file {
    mr_vector_file shown; /* must be first: the caller has its address */
    void *mapped;
    size_t bytes;
} mapped_file;

static int map(mapped_file *to, const source *from, const header *h) {
    const char *path = from->path;
    const off_t at = lseek(from->file, 0, SEEK_CUR);
    if (h->bytes != (int)sizeof(float))
        return refuse(path, "its numbers are f8; save array.astype('<f4')");
    if (at < 0 || at % (off_t)sizeof(float))
        return refuse(path, "its numbers do not begin at a multiple of 4 bytes; save it anew with numpy.save");
    to->bytes = (size_t)at + h->dims[0] * h->dims[1] * sizeof(float);
    void *mapped = mmap(NULL, to->bytes, PROT_READ, MAP_SHARED, from->file, 0);
    if (mapped == MAP_FAILED)
        return mr_fail(MR_ERROR_IO, "cannot map %s: %s", path, strerror(errno));
    to->mapped = mapped;
    to->shown = (mr_vector_file){
        .rows = h->dims[0], .width = h->dims[1], .data = (const float *)(const void *)((const char *)mapped + at)};
    return MR_OK;
}

int mr_vector_file_open(mr_vector_file **result, const char *path) {
    source from = {.path = path, .file = -1};
    header h = {.most = SIZE_MAX};
    mapped_file *made = mr_calloc(1, sizeof *made);
    int status = made ? open_file(&from, &h) : mr_fail(MR_ERROR_MEMORY, "no memory for %s", path);
    if (!status)
        status = map(made, &from, &h);
    if (!status)
        status = read_numbers(&from, &h, NULL);
    close_file(&from);
    *result = made ? &made->shown : NULL;
    if (status)
        mr_vector_file_close(result);
    return status;
}

void mr_vector_file_close(mr_vector_file **file) {
    mapped_file *gone = (mapped_file *)(void *)*file;
    if (gone && gone->mapped)
        munmap(gone->mapped, gone->bytes);
    mr_free(gone);
    *file = NULL;
}

int mr_npy_look(const char *path, mr_matrix_f32 *matrix) {
    return read_file(&(source){.path = path}, matrix, false);
}

int mr_npy_read(const char *path, mr_matrix_f32 *matrix) {
    return read_file(&(source){.path = path}, matrix, true);
}

int mr_npy_read_digest(const char *path, mr_matrix_f32 *matrix, char digest[MR_SHA256_TEXT]) {
    source from = {.path = path};
    int status = mr_sha256_begin(&from.sum);
    if (!status)
        status = read_file(&from, matrix, true);
    mr_sha256_finish(&from.sum, status ? NULL : digest);
    return status;
}

void mr_npy_free(mr_matrix_f32 *matrix) {
    mr_free(matrix->data);
    *matrix = (mr_matrix_f32){0};
}

/* Prefix and header take 128 bytes, so that the numbers are aligned. */
static size_t make_header(const mr_matrix_f32 *matrix, char to[128]) {
    int used = snprintf(to + 10, 118, "{'descr': '<f4', 'fortran_order': False, 'shape': (%zu, %zu), }", matrix->rows,
                        matrix->columns);
    memcpy(to, "\x93NUMPY\x01\x00\x76\x00", 10);
    memset(to + 10 + used, ' ', 118 - (size_t)used);
    to[127] = '\n';
    return 128;
}

int mr_npy_write(const char *path, const mr_matrix_f32 *matrix) {
    char prefix[128];
    size_t bytes = make_header(matrix, prefix), count = matrix->rows * matrix->columns;
    FILE *file = fopen(path, "wbxe");
    bool written = file && fwrite(prefix, 1, bytes, file) == bytes &&
                   fwrite(matrix->data, sizeof *matrix->data, count, file) == count && !fflush(file) &&
                   !fsync(fileno(file));
    int status = written ? MR_OK : mr_file_fail("write to", path);
    if (file && fclose(file) && !status)
        status = mr_file_fail("write to", path);
    return status;
}
