#include "engine/base/sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/memory.h"
#include "millrace/status.h"

enum { PIECE = 16384 };

int mr_sha256_begin(mr_sha256 **sum) {
    *sum = mr_calloc(1, sizeof **sum);
    if (!*sum)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a digest");
    crypto_hash_sha256_init(*sum);
    return MR_OK;
}

void mr_sha256_add(mr_sha256 *sum, const void *bytes, size_t count) {
    crypto_hash_sha256_update(sum, bytes, count);
}

void mr_sha256_finish(mr_sha256 **sum, char text[MR_SHA256_TEXT]) {
    uint8_t digest[crypto_hash_sha256_BYTES];
    if (text) {
        crypto_hash_sha256_final(*sum, digest);
        sodium_bin2hex(text, MR_SHA256_TEXT, digest, sizeof digest);
    }
    mr_free(*sum);
    *sum = NULL;
}

int mr_sha256_bytes(const void *bytes, size_t count, char text[MR_SHA256_TEXT]) {
    mr_sha256 *sum;
    int status = mr_sha256_begin(&sum);
    if (status)
        return status;
    mr_sha256_add(sum, bytes, count);
    mr_sha256_finish(&sum, text);
    return MR_OK;
}

static int read_pieces(const char *path, int file, mr_sha256 *sum) {
    uint8_t piece[PIECE];
    for (;;) {
        ssize_t got = read(file, piece, sizeof piece);
        if (got > 0)
            mr_sha256_add(sum, piece, (size_t)got);
        else if (!got)
            return MR_OK;
        else if (errno != EINTR)
            return mr_fail(MR_ERROR_IO, "cannot read %s: %s", path, strerror(errno));
    }
}

int mr_sha256_file(const char *path, char text[MR_SHA256_TEXT]) {
    mr_sha256 *sum = NULL;
    struct stat facts;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        return mr_fail(mr_file_status(errno), "cannot read %s: %s", path, strerror(errno));
    int status = fstat(file, &facts) || !S_ISREG(facts.st_mode) ? mr_fail(MR_ERROR_DATA, "%s is not a file", path)
                                                                : mr_sha256_begin(&sum);
    if (!status)
        status = read_pieces(path, file, sum);
    close(file);
    mr_sha256_finish(&sum, status ? NULL : text);
    return status;
}
