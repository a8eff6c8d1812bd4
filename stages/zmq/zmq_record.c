#include "stages/zmq/zmq_record.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <yajl/yajl_parse.h>

#include "engine/base/utf8.h"
#include "engine/text/value.h"
#include "millrace/status.h"
#include "proto/results.pb-c.h"

/* The difference of two times up to this, 145 years, fits in 64 bits. */
static const int64_t MOST_NS = INT64_C(4600000000) * 1000000000;

static int take_time(mr_zmq_record *to, double seconds, int64_t ns) {
    if (!(fabs(seconds) < (double)MOST_NS * 1e-9))
        return mr_fail(MR_ERROR_DATA, "pts is not a time in seconds");
    to->pts_ns = ns;
    return MR_OK;
}

static void take_format(mr_zmq_record *to, const char *text, size_t bytes) {
    const size_t room = sizeof to->format_text - 1, fit = mr_utf8_fit(text, bytes < room ? bytes : room);
    snprintf(to->format_text, sizeof to->format_text, "%.*s", (int)fit, text);
    if (!mr_value_format(to->format_text, &to->format) ||
        (to->format.payload != MR_PAYLOAD_PICTURE && to->format.payload != MR_PAYLOAD_TENSOR))
        to->format = (mr_format){.payload = MR_PAYLOAD_ANY};
}

/* ---- JSON ------------------------------------------------------------------------------------------------------ */

enum { OTHER, PTS, END, FORMAT, ID };

/* Reads members of the outer object only; inner ones are skipped, down to MOST_DEPTH. */
typedef struct reader {
    mr_zmq_record *to;
    int depth, field, status;
} reader;

enum { MOST_DEPTH = 16 };

static int enter(void *context) {
    return ++((reader *)context)->depth <= MOST_DEPTH;
}

static int leave(void *context) {
    ((reader *)context)->depth--;
    return 1;
}

static int on_key(void *context, const unsigned char *key, size_t bytes) {
    static const char *const names[] = {[PTS] = "pts", [END] = "end", [FORMAT] = "format", [ID] = "id"};
    reader *at = context;
    at->field = OTHER;
    for (int i = PTS; at->depth == 1 && i <= ID; i++)
        if (strlen(names[i]) == bytes && memcmp(key, names[i], bytes) == 0)
            at->field = i;
    return 1;
}

static int on_bool(void *context, int value) {
    reader *at = context;
    if (at->depth == 1 && at->field == END)
        at->to->end = value;
    return 1;
}

static int on_double(void *context, double value) {
    reader *at = context;
    if (at->depth != 1 || at->field != PTS)
        return 1;
    const bool fits = fabs(value) < (double)INT64_MAX * 1e-9;
    at->status = take_time(at->to, value, fits ? (int64_t)llround(value * 1e9) : 0);
    return at->status == MR_OK;
}

static int take_id(mr_zmq_record *to, const char *text, size_t bytes) {
    if (bytes > MR_FRAME_ID || memchr(text, '\0', bytes))
        return mr_fail(MR_ERROR_DATA, "id has %zu bytes or a zero: a text of at most %d bytes is taken", bytes,
                       MR_FRAME_ID);
    if (mr_utf8_fit(text, bytes) != bytes)
        return mr_fail(MR_ERROR_DATA, "id is not UTF-8");
    memcpy(to->id, text, bytes);
    to->id[bytes] = '\0';
    return MR_OK;
}

static int on_integer(void *context, long long value) {
    const reader *at = context;
    if (at->depth == 1 && at->field == ID)
        snprintf(at->to->id, sizeof at->to->id, "%lld", value);
    return on_double(context, (double)value);
}

static int on_text(void *context, const unsigned char *text, size_t bytes) {
    reader *at = context;
    if (at->depth == 1 && at->field == FORMAT)
        take_format(at->to, (const char *)text, bytes);
    if (at->depth == 1 && at->field == ID)
        at->status = take_id(at->to, (const char *)text, bytes);
    return !at->status;
}

static int read_json(mr_zmq_record *to, const uint8_t *record, size_t bytes) {
    static const yajl_callbacks callbacks = {.yajl_boolean = on_bool,
                                             .yajl_integer = on_integer,
                                             .yajl_double = on_double,
                                             .yajl_string = on_text,
                                             .yajl_start_map = enter,
                                             .yajl_map_key = on_key,
                                             .yajl_end_map = leave,
                                             .yajl_start_array = enter,
                                             .yajl_end_array = leave};
    reader at = {.to = to};
    yajl_handle parser = yajl_alloc(&callbacks, NULL, &at);
    if (!parser)
        return mr_fail(MR_ERROR_DATA, "no memory to read a record");
    bool whole = yajl_parse(parser, record, bytes) == yajl_status_ok &&
                 yajl_complete_parse(parser) == yajl_status_ok;
    yajl_free(parser);
    return whole ? MR_OK : at.status ? at.status : mr_fail(MR_ERROR_DATA, "the record is not the JSON of an object");
}

/* ---- protobuf -------------------------------------------------------------------------------------------------- */

static int read_protobuf(mr_zmq_record *to, const uint8_t *record, size_t bytes) {
    Millrace__Results__Record *one = millrace__results__record__unpack(NULL, bytes, record);
    int status = one ? MR_OK : mr_fail(MR_ERROR_DATA, "the record is neither JSON nor message Record of results.proto");
    if (one && one->time_case == MILLRACE__RESULTS__RECORD__TIME_PTS_NS)
        status = take_time(to, (double)one->pts_ns * 1e-9, one->pts_ns);
    if (one) {
        take_format(to, one->format, strlen(one->format));
        to->end = one->end;
        if (!status)
            status = take_id(to, one->id, strlen(one->id));
        millrace__results__record__free_unpacked(one, NULL);
    }
    return status;
}

int mr_zmq_record_read(mr_zmq_record *to, const uint8_t *record, size_t bytes) {
    *to = (mr_zmq_record){.pts_ns = MR_NO_TIME};
    if (bytes > MR_ZMQ_RECORD_BYTES)
        return mr_fail(MR_ERROR_DATA, "the record has %zu bytes, and at most %d are read", bytes, MR_ZMQ_RECORD_BYTES);
    if (bytes == 0)
        return MR_OK;
    return *record == '{' ? read_json(to, record, bytes) : read_protobuf(to, record, bytes);
}
