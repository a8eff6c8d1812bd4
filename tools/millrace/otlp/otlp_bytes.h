/* Writes messages of Protocol Buffers. Errors show at the end: `failed`. One thread at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mr_otlp_bytes {
    char *data; /* freed with free() */
    size_t length, room;
    bool failed; /* there was no memory */
} mr_otlp_bytes;

/* Adds bytes as they are. */
void mr_otlp_add(mr_otlp_bytes *to, const void *bytes, size_t count);

/* Fields with the types uint64 (also enums and booleans), fixed64, fixed32, double, bytes, and string. In a string,
 * bytes that are not UTF-8 become question marks. */
void mr_otlp_uint(mr_otlp_bytes *to, int field, uint64_t value);
void mr_otlp_fixed64(mr_otlp_bytes *to, int field, uint64_t value);
void mr_otlp_fixed32(mr_otlp_bytes *to, int field, uint32_t value);
void mr_otlp_double(mr_otlp_bytes *to, int field, double value);
void mr_otlp_data(mr_otlp_bytes *to, int field, const void *bytes, size_t count);
void mr_otlp_text(mr_otlp_bytes *to, int field, const char *text);
/* Begins a nested message, which takes all that is written until its end. Returns a mark for the end. */
size_t mr_otlp_begin(mr_otlp_bytes *to, int field);
void mr_otlp_end(mr_otlp_bytes *to, size_t begin);
/* OpenTelemetry's KeyValue, with a text or a whole number; a text that is NULL or empty is left out. */
void mr_otlp_attribute(mr_otlp_bytes *to, int field, const char *key, const char *value);
void mr_otlp_attribute_int(mr_otlp_bytes *to, int field, const char *key, int64_t value);

/* Reads the answer to a request: how many items were rejected, and why. `cut`: the answer was longer, and its beginning
 * counts. False: it is no such message. */
enum { MR_OTLP_WHY = 256 };
bool mr_otlp_read_rejected(const uint8_t *answer, size_t bytes, bool cut, uint64_t *rejected, char why[MR_OTLP_WHY]);
