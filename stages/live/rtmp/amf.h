/* AMF0 (Adobe, 2006): the values in RTMP commands. Reading stays within the given bytes and allocates nothing. Any
 * thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MR_AMF_BYTES = 12288 };

/* Unread bytes. */
typedef struct mr_amf {
    const uint8_t *at, *end;
} mr_amf;

/* Each takes the next value if it has that type and is complete; otherwise returns false. Strings are truncated to fit,
 * and anything but printable ASCII becomes "?". */
bool mr_amf_string(mr_amf *amf, char *text, size_t room);
bool mr_amf_number(mr_amf *amf, double *number);
bool mr_amf_skip(mr_amf *amf);
/* Finds a string property in the next object, without consuming the object. */
bool mr_amf_property(const mr_amf *amf, const char *name, char *text, size_t room);

/* Values being written. `full`: one did not fit. */
typedef struct mr_amf_out {
    uint8_t data[MR_AMF_BYTES];
    size_t bytes;
    bool full;
} mr_amf_out;

void mr_amf_put_string(mr_amf_out *out, const char *text);
void mr_amf_put_number(mr_amf_out *out, double number);
void mr_amf_put_null(mr_amf_out *out);
/* Writes an object: begin, then name and value for each property, then end. */
void mr_amf_begin(mr_amf_out *out);
void mr_amf_put_name(mr_amf_out *out, const char *name);
void mr_amf_end(mr_amf_out *out);
