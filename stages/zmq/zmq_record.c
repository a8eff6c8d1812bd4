#include "stages/zmq/zmq_record.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <yajl/yajl_parse.h>

#include "engine/base/units.h"
#include "engine/base/utf8.h"
#include "engine/text/value.h"
#include "millrace/status.h"
#include "proto/results.pb-c.h"

static const double MOST_SECONDS = (double)MR_MOST_TIME_NS / 1e9;

static int refuse_time(void) {
    return mr_fail(MR_ERROR_DATA, "pts is not a time within %.0f seconds of 0", MOST_SECONDS);
}

enum { OTHER, PTS, END, FORMAT, ID, FILE_NAME, LABEL, FIELDS };

static void take_format(mr_zmq_record *to, const char *text, size_t bytes) {
    const size_t room = sizeof to->format_text - 1, fit = mr_utf8_fit(text, bytes < room ? bytes : room);
    snprintf(to->format_text, sizeof to->format_text, "%.*s", (int)fit, text);
    if (!mr_value_format(to->format_text, &to->format) ||
        (to->format.payload != MR_PAYLOAD_PICTURE && to->format.payload != MR_PAYLOAD_TENSOR))
        to->format = (mr_format){.payload = MR_PAYLOAD_ANY};
}

/* Takes a text for the fields ID to LABEL; ignores others. */
static int take_name(mr_zmq_record *to, int field, const char *text, size_t bytes) {
    const struct {
        const char *name;
        char *to;
        size_t most;
    } fields[FIELDS] = {[ID] = {"id", to->id, MR_FRAME_ID},
                        [FILE_NAME] = {"file", to->file, MR_FRAME_FILE},
                        [LABEL] = {"label", to->label, MR_FRAME_LABEL}},
      *one = &fields[field];
    if (!one->name)
        return MR_OK;
    if (bytes > one->most || memchr(text, '\0', bytes))
        return mr_fail(MR_ERROR_DATA, "%s has %zu bytes or a zero: a text of at most %zu bytes is taken", one->name,
                       bytes, one->most);
    if (mr_utf8_fit(text, bytes) != bytes)
        return mr_fail(MR_ERROR_DATA, "%s is not UTF-8", one->name);
    memcpy(one->to, text, bytes);
    one->to[bytes] = '\0';
    return MR_OK;
}

/* ---- JSON ------------------------------------------------------------------------------------------------------ */

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
    static const char *const names[FIELDS] = {[PTS] = "pts", [END] = "end", [FORMAT] = "format", [ID] = "id",
                                              [FILE_NAME] = "file", [LABEL] = "label"};
    reader *at = context;
    at->field = OTHER;
    for (int i = PTS; at->depth == 1 && i < FIELDS; i++)
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

static int on_text(void *context, const unsigned char *text, size_t bytes) {
    reader *at = context;
    if (at->depth == 1 && at->field == FORMAT)
        take_format(at->to, (const char *)text, bytes);
    else if (at->depth == 1)
        at->status = take_name(at->to, at->field, (const char *)text, bytes);
    return !at->status;
}

/* Keeps the digits as written: a name may be a number with any size. */
static int on_number(void *context, const char *text, size_t bytes) {
    reader *at = context;
    char number[64];
    const char *end;
    double seconds;
    if (at->depth != 1 || at->field != PTS)
        return on_text(context, (const unsigned char *)text, bytes);
    snprintf(number, sizeof number, "%.*s", (int)bytes, text);
    if (bytes >= sizeof number || !mr_units_number(number, &seconds, &end) || !(fabs(seconds) < MOST_SECONDS))
        at->status = refuse_time();
    else
        at->to->pts_ns = llround(seconds * 1e9);
    return !at->status;
}

static int read_json(mr_zmq_record *to, const uint8_t *record, size_t bytes) {
    static const yajl_callbacks callbacks = {.yajl_boolean = on_bool,
                                             .yajl_number = on_number,
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
    if (one && one->time_case == MILLRACE__RESULTS__RECORD__TIME_PTS_NS) {
        to->pts_ns = mr_time_bound(one->pts_ns);
        status = to->pts_ns == MR_NO_TIME ? refuse_time() : MR_OK;
    }
    if (one) {
        take_format(to, one->format, strlen(one->format));
        to->end = one->end;
        const char *const texts[FIELDS] = {[ID] = one->id, [FILE_NAME] = one->file, [LABEL] = one->label};
        for (int i = ID; i < FIELDS && !status; i++)
            status = take_name(to, i, texts[i], strlen(texts[i]));
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
