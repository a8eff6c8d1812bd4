#include "stages/written.h"

#include <inttypes.h>
#include <string.h>
#include <yajl/yajl_parse.h>

/* ---- a line ---------------------------------------------------------------------------------------------------- */

typedef enum field { OTHER, SOURCE, EPOCH, SEQ, SUB } field;

typedef struct record {
    const mr_stage *self;
    int depth;
    field field;       /* that a value comes for */
    bool seen;         /* its seq was */
    mr_identity frame; /* its source is MR_SOURCE_NONE until it was seen, or where it is none of the pipeline's */
} record;

static int on_map(void *context) {
    return ++((record *)context)->depth == 1;
}

/* What says which frame it is stands first. */
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

/* ---- the set --------------------------------------------------------------------------------------------------- */

int mr_written_take_line(void *context, const char *line, size_t bytes) {
    mr_written *written = context;
    record one = {.self = written->self, .frame.source = MR_SOURCE_NONE};
    written->lines++;
    if (!read_line(&one, line, bytes))
        return mr_fail(MR_ERROR_DATA, "%s:%" PRIu64 ": this is no record of this pipeline, so that it cannot be "
                       "continued", written->path, written->lines);
    return mr_written_add(written, &one.frame);
}

int mr_written_add(mr_written *written, const mr_identity *frame) {
    /* Frames of earlier turns do not come again. */
    if (frame->epoch < mr_stage_resume_epoch(written->self, frame->source))
        return MR_OK;
    return mr_identity_set_add(&written->frames, frame);
}

bool mr_written_has(mr_written *written, const mr_identity *frame) {
    return mr_identity_set_has(&written->frames, frame);
}

void mr_written_fini(mr_written *written) {
    mr_identity_set_fini(&written->frames);
    *written = (mr_written){0};
}
