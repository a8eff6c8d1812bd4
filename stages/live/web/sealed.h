/* Decrypts encrypted playlist parts while they are read (#EXT-X-KEY:METHOD=AES-128; RFC 8216, 5.2): AES-128 in CBC mode
 * with PKCS #7 padding, by libavutil. libavformat's protocol "crypto" does the same, but cannot say to which host a
 * redirection led. One thread. */
#pragma once

#include <libavformat/avio.h>
#include <stdbool.h>

/* Decrypts the next `bytes` from `from` (INT64_MAX: all) and takes ownership. `key` and `iv` have 16 bytes each.
 * Returns 0, or an AVERROR: the caller then keeps `from`. */
int mr_sealed_open(AVIOContext **io, AVIOContext *from, int64_t bytes, const uint8_t *key, const uint8_t *iv);
/* Closes it and its source. Returns false, without closing, if `io` was not made here. */
bool mr_sealed_close(AVIOContext *io);
