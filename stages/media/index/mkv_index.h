/* How much memory libavformat takes for the header of a Matroska or WebM file (RFC 9559, in EBML, RFC 8794), known
 * before it takes it: its demuxer makes a structure of 1,500 bytes for each track, and such a track may have two bytes.
 *
 * Elements are followed as libavformat follows them. Bytes are fed before libavformat gets them. One thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mr_mkv_index mr_mkv_index;

/* Whether a file that begins with these bytes is one for it. */
bool mr_mkv_begins(const uint8_t *data, size_t bytes);

/* NULL: out of memory. */
mr_mkv_index *mr_mkv_index_create(void);
void mr_mkv_index_destroy(mr_mkv_index **index);
/* Bytes, and their offset in the file. Those of elements that are not looked into may be left out. */
void mr_mkv_index_feed(mr_mkv_index *index, int64_t offset, const uint8_t *data, size_t bytes);
/* The memory for the elements so far, at least. */
uint64_t mr_mkv_index_bytes(const mr_mkv_index *index);
