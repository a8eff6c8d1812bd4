/* Computes in advance how much memory libavformat needs for a Matroska or WebM header (RFC 9559, in EBML, RFC 8794).
 * The demuxer allocates 1,500 bytes per track, and a track can be two bytes in the file.
 *
 * Follows elements as libavformat does. Bytes must be fed before libavformat reads them. One thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mr_mkv_index mr_mkv_index;

/* Whether a file that begins so is Matroska or WebM. */
bool mr_mkv_begins(const uint8_t *data, size_t bytes);

/* NULL: no memory. */
mr_mkv_index *mr_mkv_index_create(void);
void mr_mkv_index_destroy(mr_mkv_index **index);
/* Feeds bytes and the file offset. Bytes in elements that are not inspected can be omitted. */
void mr_mkv_index_feed(mr_mkv_index *index, int64_t offset, const uint8_t *data, size_t bytes);
/* The least memory that the elements need. */
uint64_t mr_mkv_index_bytes(const mr_mkv_index *index);
