#include "stages/live/rtmp/amf.h"

#include <libavutil/intfloat.h>
#include <libavutil/intreadwrite.h>
#include <string.h>

enum { NUMBER, BOOLEAN, STRING, OBJECT, NONE = 5, UNDEFINED, REFERENCE, MAP, END, LIST, DATE, LONG_STRING, UNSUPPORTED,
       XML = 15, TYPED };
enum { MOST_DEPTH = 8 };

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* NULL: there are fewer bytes. */
static const uint8_t *take(mr_amf *amf, size_t bytes) {
    const uint8_t *at = amf->at;
    if ((size_t)(amf->end - at) < bytes)
        return NULL;
    amf->at += bytes;
    return at;
}

/* Takes a byte string; its length comes first, in `digits` bytes. */
static const uint8_t *take_counted(mr_amf *amf, size_t digits, size_t *bytes) {
    const uint8_t *count = take(amf, digits);
    *bytes = !count ? 0 : digits == 2 ? AV_RB16(count) : AV_RB32(count);
    return count ? take(amf, *bytes) : NULL;
}

static bool skip(mr_amf *amf, int depth);

/* Skips an object's properties and finds the value for `name`; NULL: skips all. */
static bool skip_properties(mr_amf *amf, int depth, const char *name, mr_amf *found) {
    for (;;) {
        size_t bytes;
        const uint8_t *key = take_counted(amf, 2, &bytes);
        if (!key)
            return false;
        if (!bytes && amf->at < amf->end && *amf->at == END)
            return take(amf, 1);
        if (name && bytes == strlen(name) && memcmp(key, name, bytes) == 0) {
            *found = *amf;
            return true;
        }
        if (!skip(amf, depth))
            return false;
    }
}

static bool skip_list(mr_amf *amf, int depth) {
    const uint8_t *count = take(amf, 4);
    bool whole = count;
    for (uint32_t left = count ? AV_RB32(count) : 0; whole && left; left--)
        whole = skip(amf, depth);
    return whole;
}

static bool skip(mr_amf *amf, int depth) {
    size_t bytes;
    const uint8_t *kind = depth < MOST_DEPTH ? take(amf, 1) : NULL;
    switch (kind ? *kind : END) {
    case NUMBER:
        return take(amf, 8);
    case BOOLEAN:
        return take(amf, 1);
    case STRING:
        return take_counted(amf, 2, &bytes);
    case NONE:
    case UNDEFINED:
    case UNSUPPORTED:
        return true;
    case REFERENCE:
        return take(amf, 2);
    case DATE:
        return take(amf, 10);
    case LONG_STRING:
    case XML:
        return take_counted(amf, 4, &bytes);
    case LIST:
        return skip_list(amf, depth + 1);
    case MAP:
        return take(amf, 4) && skip_properties(amf, depth + 1, NULL, NULL);
    case TYPED:
        return take_counted(amf, 2, &bytes) && skip_properties(amf, depth + 1, NULL, NULL);
    case OBJECT:
        return skip_properties(amf, depth + 1, NULL, NULL);
    default:
        return false;
    }
}

bool mr_amf_skip(mr_amf *amf) {
    return skip(amf, 0);
}

static bool take_kind(mr_amf *amf, uint8_t kind) {
    return amf->at < amf->end && *amf->at == kind && take(amf, 1);
}

bool mr_amf_number(mr_amf *amf, double *number) {
    const uint8_t *at = take_kind(amf, NUMBER) ? take(amf, 8) : NULL;
    *number = at ? av_int2double(AV_RB64(at)) : 0;
    return at;
}

bool mr_amf_string(mr_amf *amf, char *text, size_t room) {
    size_t bytes;
    const uint8_t *at = take_kind(amf, STRING) ? take_counted(amf, 2, &bytes) : NULL;
    if (!at)
        return false;
    bytes = bytes < room ? bytes : room - 1;
    for (size_t i = 0; i < bytes; i++)
        text[i] = at[i] >= ' ' && at[i] <= '~' ? (char)at[i] : '?';
    text[bytes] = '\0';
    return true;
}

bool mr_amf_property(const mr_amf *amf, const char *name, char *text, size_t room) {
    mr_amf from = *amf, found = {0};
    const bool map = take_kind(&from, MAP) && take(&from, 4);
    return (map || take_kind(&from, OBJECT)) && skip_properties(&from, 1, name, &found) &&
           mr_amf_string(&found, text, room);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void put(mr_amf_out *out, const void *data, size_t bytes) {
    out->full |= bytes > sizeof out->data - out->bytes;
    if (out->full)
        return;
    memcpy(out->data + out->bytes, data, bytes);
    out->bytes += bytes;
}

static void put_byte(mr_amf_out *out, uint8_t byte) {
    put(out, &byte, 1);
}

void mr_amf_put_name(mr_amf_out *out, const char *name) {
    const size_t bytes = strlen(name);
    out->full |= bytes > UINT16_MAX;
    put_byte(out, (uint8_t)(bytes >> 8));
    put_byte(out, (uint8_t)bytes);
    put(out, name, bytes);
}

void mr_amf_put_string(mr_amf_out *out, const char *text) {
    put_byte(out, STRING);
    mr_amf_put_name(out, text);
}

void mr_amf_put_number(mr_amf_out *out, double number) {
    uint8_t text[9] = {NUMBER};
    AV_WB64(text + 1, av_double2int(number));
    put(out, text, sizeof text);
}

void mr_amf_put_null(mr_amf_out *out) {
    put_byte(out, NONE);
}

void mr_amf_begin(mr_amf_out *out) {
    put_byte(out, OBJECT);
}

void mr_amf_end(mr_amf_out *out) {
    mr_amf_put_name(out, "");
    put_byte(out, END);
}
