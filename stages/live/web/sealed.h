/* Encrypted parts of a playlist (#EXT-X-KEY:METHOD=AES-128; RFC 8216, 5.2): AES-128 in CBC mode with padding of
 * PKCS #7, decrypted while they are read, by libavutil. libavformat has the same, as protocol "crypto", but the caller
 * of that does not learn to which host a redirection led. One thread. */
#ifndef MILLRACE_STAGES_LIVE_WEB_SEALED_H
#define MILLRACE_STAGES_LIVE_WEB_SEALED_H

#include <libavformat/avio.h>
#include <stdbool.h>

/* Reads the next `bytes` of `from` decrypted, INT64_MAX: all of them, and takes it over. `key` and `iv` have 16 bytes
 * each. 0, or an AVERROR: `from` is the caller's then. */
int mr_sealed_open(AVIOContext **io, AVIOContext *from, int64_t bytes, const uint8_t *key, const uint8_t *iv);
/* Closes it and its source; false if it was not made here, and is open still. */
bool mr_sealed_close(AVIOContext *io);

#endif
