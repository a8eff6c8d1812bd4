/* A look at the bytes that libavformat reads: a context of its own in front of another one. */
#ifndef MILLRACE_STAGES_MEDIA_MEDIA_TAP_H
#define MILLRACE_STAGES_MEDIA_MEDIA_TAP_H

#include <libavformat/avio.h>
#include <stddef.h>
#include <stdint.h>

/* Is called with bytes of that offset before libavformat gets them. An AVERROR refuses them, and ends reading. */
typedef int mr_tap_look(void *context, int64_t offset, const uint8_t *data, size_t bytes);

/* Opens a context that reads from `from`, which stays the caller's. 0, or an AVERROR. */
int mr_tap_open(AVIOContext **tap, AVIOContext *from, mr_tap_look *look, void *context);
/* Closes it and sets it to NULL; NULL is allowed. */
void mr_tap_close(AVIOContext **tap);

#endif
