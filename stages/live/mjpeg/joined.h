/* JPEGs that follow each other in a byte stream, as cameras send them over HTTP: as parts in multipart/x-mixed-replace,
 * or without separators.
 *
 * The file structure delimits a picture: from SOI to EOI, with segment lengths (ITU-T T.81, annex B). Everything
 * between pictures is skipped: any boundary, headers, parts with other types. A boundary inside a picture therefore
 * cannot end it. Content-Length is a hint. It ends a picture without EOI if a boundary follows there, and a second JPEG
 * within the declared length belongs to the first.
 *
 * The data is untrusted. One thread at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mr_joined mr_joined;

typedef struct mr_joined_picture {
    const uint8_t *data; /* valid until the next mr_joined_room call */
    size_t bytes;
    bool open;           /* lacks EOI: two bytes must be added */
    bool damaged;        /* another picture cuts it off, without a boundary or before the declared length */
    int width, height;   /* from its frame header; 0: not known */
} mr_joined_picture;

/* `most_bytes`: the limit for one picture, and for all bytes before a picture is complete. MR_ERROR_MEMORY. */
int mr_joined_create(mr_joined **joined, size_t most_bytes);
void mr_joined_destroy(mr_joined **joined);
/* Where to write the next bytes, at least 16 KiB; NULL: no memory. */
uint8_t *mr_joined_room(mr_joined *joined, size_t *room);
/* Bytes were written there. */
void mr_joined_put(mr_joined *joined, size_t bytes);
/* Takes the next complete picture: MR_OK, MR_ERROR_AGAIN (needs more bytes), or MR_ERROR_DATA without a message (more
 * than `most_bytes` came without a complete picture). */
int mr_joined_take(mr_joined *joined, mr_joined_picture *picture);
/* How many pictures were skipped because their structure is broken. */
uint64_t mr_joined_broken(const mr_joined *joined);
/* Content type from the last header, such as "image/png"; "": none. */
const char *mr_joined_type(const mr_joined *joined);
