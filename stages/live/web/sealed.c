#include "stages/live/web/sealed.h"

#include <errno.h>
#include <libavutil/aes.h>
#include <libavutil/error.h>
#include <libavutil/mem.h>
#include <string.h>

enum { BLOCK = 16, PIECE = 256 * BLOCK, BUFFER = 32768 };

typedef struct sealed {
    AVIOContext *from;
    int64_t left;
    struct AVAES *aes;
    uint8_t iv[BLOCK], cipher[PIECE];
    uint8_t plain[BLOCK + PIECE]; /* the last block stays until it is known whether another follows */
    int first, count;             /* bytes to give, without that block */
    bool holds;                   /* a block is held */
} sealed;

/* Handles the last block: each padding byte holds the padding's length. */
static int end(sealed *at, int error) {
    const uint8_t *block = at->plain + at->first;
    const bool padded = at->holds && block[BLOCK - 1] >= 1 && block[BLOCK - 1] <= BLOCK;
    if (error != AVERROR_EOF || !at->holds)
        return error;
    at->holds = false;
    at->count = padded ? BLOCK - block[BLOCK - 1] : BLOCK;
    return at->count ? 0 : AVERROR_EOF;
}

/* Decrypts another piece, after the held block. */
static int fill(sealed *at) {
    const int most = at->left < PIECE ? (int)at->left : PIECE;
    const int bytes = most ? avio_read(at->from, at->cipher, most) : AVERROR_EOF;
    at->left -= bytes > 0 ? bytes : 0;
    if (bytes < 0)
        return end(at, bytes);
    if (bytes < BLOCK)
        return end(at, AVERROR_EOF);
    const int held = at->holds ? BLOCK : 0, blocks = bytes / BLOCK;
    memmove(at->plain, at->plain + at->first, (size_t)held);
    av_aes_crypt(at->aes, at->plain + held, at->cipher, blocks, at->iv, 1);
    at->first = 0;
    at->count = held + (blocks - 1) * BLOCK;
    at->holds = true;
    return 0;
}

static int read_sealed(void *context, uint8_t *to, int room) {
    sealed *at = context;
    while (!at->count) {
        const int error = fill(at);
        if (error)
            return error;
    }
    const int bytes = room < at->count ? room : at->count;
    memcpy(to, at->plain + at->first, (size_t)bytes);
    at->first += bytes;
    at->count -= bytes;
    return bytes;
}

static void release(sealed *at) {
    if (at)
        av_free(at->aes);
    av_free(at);
}

int mr_sealed_open(AVIOContext **io, AVIOContext *from, int64_t bytes, const uint8_t *key, const uint8_t *iv) {
    sealed *at = av_mallocz(sizeof *at);
    uint8_t *buffer = av_malloc(BUFFER);
    if (!at || !buffer || !(at->aes = av_aes_alloc()))
        goto fail;
    av_aes_init(at->aes, key, 8 * BLOCK, 1);
    memcpy(at->iv, iv, BLOCK);
    at->from = from;
    at->left = bytes;
    *io = avio_alloc_context(buffer, BUFFER, 0, at, read_sealed, NULL, NULL);
    if (*io)
        return 0;
fail:
    av_free(buffer);
    release(at);
    return AVERROR(ENOMEM);
}

bool mr_sealed_close(AVIOContext *io) {
    if (io->read_packet != read_sealed)
        return false;
    sealed *at = io->opaque;
    avio_close(at->from);
    release(at);
    av_freep(&io->buffer);
    avio_context_free(&io);
    return true;
}
