#include "stages/sink/written.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_parse.h>

/* ---- a line ---------------------------------------------------------------------------------------------------- */

typedef enum field { OTHER, SOURCE, EPOCH, SEQ, SUB } field;

typedef struct record {
    const mr_stage *self;
    int depth;
    field field;       /* that a value comes for */
    bool seen;         /* its seq was read */
    mr_identity frame; /* the source is MR_SOURCE_NONE until read, or if the pipeline does not have it */
} record;

static int on_map(void *context) {
    return ++((record *)context)->depth == 1;
}

/* The identity comes first. */
static int on_key(void *context, const unsigned char *key, size_t bytes) {
    static const char *const names[] = {[SOURCE] = "source", [EPOCH] = "epoch", [SEQ] = "seq", [SUB] = "sub"};
    record *to = context;
    to->field = OTHER;
    for (field f = SOURCE; f <= SUB; f++)
        if (strlen(names[f]) == bytes && memcmp(key, names[f], bytes) == 0)
            to->field = f;
    return to->field != OTHER;
}

static int on_text(void *context, const unsigned char *text, size_t bytes) {
    record *to = context;
    char id[256];
    if (to->field != SOURCE || bytes >= sizeof id)
        return 0;
    memcpy(id, text, bytes);
    id[bytes] = '\0';
    to->frame.source = mr_stage_find_source(to->self, id);
    return 1;
}

static int on_integer(void *context, long long value) {
    record *to = context;
    if (value < 0 || (to->field != SEQ && value > UINT32_MAX))
        return 0;
    if (to->field == SEQ)
        to->frame.seq = (uint64_t)value;
    else
        *(to->field == EPOCH ? &to->frame.epoch : &to->frame.sub) = (uint32_t)value;
    to->seen |= to->field == SEQ;
    return to->field != SOURCE;
}

static bool read_line(record *to, const char *line, size_t bytes) {
    static const yajl_callbacks callbacks = {
        .yajl_start_map = on_map, .yajl_map_key = on_key, .yajl_string = on_text, .yajl_integer = on_integer};
    yajl_handle parser = yajl_alloc(&callbacks, NULL, to);
    if (parser) {
        yajl_parse(parser, (const unsigned char *)line, bytes);
        yajl_free(parser);
    }
    return to->seen && to->frame.source != MR_SOURCE_NONE;
}

static int refuse(const mr_written *written) {
    return mr_fail(MR_ERROR_DATA, "%s:%" PRIu64 ": not a record of this pipeline, so the file cannot be continued",
                   written->path, written->lines);
}

int mr_written_take_line(void *context, const char *line, size_t bytes, off_t at) {
    mr_written *written = context;
    record one = {.self = written->self, .frame.source = MR_SOURCE_NONE};
    written->lines++;
    return read_line(&one, line, bytes) ? mr_written_add(written, &one.frame) : refuse(written);
}

/* ---- several lines or rows -------------------------------------------------------------------------------------- */

/* A frame may have several: only another frame shows that it is complete. */
static int note_frame(mr_written *written, const mr_identity *frame, off_t at) {
    if (written->any && mr_identity_compare(&written->last, frame) == 0)
        return MR_OK;
    int status = written->any ? mr_written_add(written, &written->last) : MR_OK;
    written->any = true;
    written->last = *frame;
    written->begin = at;
    return status;
}

int mr_written_take_lines(void *context, const char *line, size_t bytes, off_t at) {
    mr_written *written = context;
    record one = {.self = written->self, .frame.source = MR_SOURCE_NONE};
    written->lines++;
    return read_line(&one, line, bytes) ? note_frame(written, &one.frame, at) : refuse(written);
}

/* ---- a row ----------------------------------------------------------------------------------------------------- */

/* Reads the first field, which may be quoted; returns the text after its comma, NULL if there is none. */
static const char *read_field(const char *line, char *text, size_t room) {
    bool quoted = *line == '"';
    size_t length = 0;
    for (line += quoted; *line && length + 1 < room && (quoted || *line != ','); text[length++] = *line++)
        if (quoted && *line == '"' && *++line != '"')
            break;
    text[length] = '\0';
    return *line == ',' ? line + 1 : NULL;
}

/* Reads a number and the comma after it. */
static const char *read_number(const char *line, uint64_t most, uint64_t *number) {
    char *end = NULL;
    if (!line || *line < '0' || *line > '9')
        return NULL;
    errno = 0;
    *number = strtoull(line, &end, 10);
    return errno || *number > most || *end != ',' ? NULL : end + 1;
}

static bool read_row(const mr_stage *self, const char *line, mr_identity *frame) {
    char source[256];
    uint64_t epoch = 0, seq = 0, sub = 0;
    const char *at = read_number(read_field(line, source, sizeof source), UINT32_MAX, &epoch);
    at = read_number(at, UINT64_MAX, &seq);
    at = read_number(at, UINT32_MAX, &sub);
    const char *id = source;
    if (*id == '\'' && mr_stage_find_source(self, id) == MR_SOURCE_NONE) /* escape_formulas */
        id++;
    *frame = (mr_identity){.source = mr_stage_find_source(self, id), .epoch = (uint32_t)epoch, .seq = seq,
                           .sub = (uint32_t)sub};
    return at && frame->source != MR_SOURCE_NONE;
}

static bool ends_within_quotes(const mr_written *written, const char *line, size_t bytes) {
    bool quoted = written->quoted;
    for (size_t i = 0; i < bytes; i++)
        quoted ^= line[i] == '"';
    return quoted;
}

static int begin_row(mr_written *written, const char *line, size_t bytes, off_t at) {
    mr_identity frame;
    if (written->lines == 1)
        return bytes == strlen(written->header) - 1 && strncmp(line, written->header, bytes) == 0 ? MR_OK
                                                                                                   : refuse(written);
    if (!read_row(written->self, line, &frame))
        return refuse(written);
    return note_frame(written, &frame, at);
}

int mr_written_take_row(void *context, const char *line, size_t bytes, off_t at) {
    mr_written *written = context;
    written->lines++;
    int status = written->quoted ? MR_OK : begin_row(written, line, bytes, at);
    written->quoted = ends_within_quotes(written, line, bytes);
    return status ? status : written->quoted ? MR_ERROR_AGAIN : MR_OK;
}

/* A killed process has written all rows for a frame, or none. After a power cut some can be missing: rows for a last
 * frame that comes again are removed. */
int mr_written_finish_rows(void *context, off_t *end) {
    mr_written *written = context;
    if (!written->any)
        return MR_OK;
    if (!mr_stage_comes_again(written->self, &written->last))
        return mr_written_add(written, &written->last);
    *end = written->begin;
    return MR_OK;
}

/* ---- the set --------------------------------------------------------------------------------------------------- */

int mr_written_add(mr_written *written, const mr_identity *frame) {
    /* Frames from earlier turns do not come again. */
    if (frame->epoch < mr_stage_resume_epoch(written->self, frame->source))
        return MR_OK;
    return mr_identity_set_append(&written->frames, frame);
}

bool mr_written_has(mr_written *written, const mr_identity *frame) {
    return mr_identity_set_has(&written->frames, frame);
}

void mr_written_fini(mr_written *written) {
    mr_identity_set_fini(&written->frames);
    *written = (mr_written){0};
}
