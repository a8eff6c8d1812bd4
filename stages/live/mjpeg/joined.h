/* JPEGs that follow each other in a stream of bytes, as cameras send them over HTTP: parts of multipart/x-mixed-replace
 * or files without anything between them.
 *
 * A picture is found by the structure of its file, from SOI to EOI with the lengths of its segments (ITU-T T.81,
 * annex B). Everything between pictures is passed over: boundaries in any form, headers or none, and parts of other
 * types. A boundary within a picture is therefore no end of it. Content-Length is a hint. It ends a picture that has no
 * EOI if a boundary follows at that place, and a second JPEG within the declared length belongs to the first one.
 *
 * Nothing in the bytes is trusted. One thread at a time. */
#ifndef MILLRACE_STAGES_LIVE_MJPEG_JOINED_H
#define MILLRACE_STAGES_LIVE_MJPEG_JOINED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mr_joined mr_joined;

typedef struct mr_joined_picture {
    const uint8_t *data; /* valid until the next call of mr_joined_room */
    size_t bytes;
    bool open;           /* it has no EOI: two bytes must be added */
    bool damaged;        /* another picture begins before its end, or it is shorter than declared */
    int width, height;   /* as its frame header has them; 0: not known */
} mr_joined_picture;

/* `most_bytes`: of one picture, and of all that comes before a picture is complete. MR_ERROR_MEMORY. */
int mr_joined_create(mr_joined **joined, size_t most_bytes);
void mr_joined_destroy(mr_joined **joined);
/* Where the next bytes are to be written, at least 16 KiB; NULL: no memory. */
uint8_t *mr_joined_room(mr_joined *joined, size_t *room);
/* Bytes were written there. */
void mr_joined_put(mr_joined *joined, size_t bytes);
/* The next complete picture: MR_OK, MR_ERROR_AGAIN (more bytes are needed), or MR_ERROR_DATA without a message: more
 * than `most_bytes` came without a complete picture. */
int mr_joined_take(mr_joined *joined, mr_joined_picture *picture);
/* How many pictures were left out, since their structure is broken. */
uint64_t mr_joined_broken(const mr_joined *joined);
/* The type that the last header declared, such as "image/png"; "": none. */
const char *mr_joined_type(const mr_joined *joined);

#endif
