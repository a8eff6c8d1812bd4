#include "stages/written.h"

#include <inttypes.h>
#include <string.h>
#include <yajl/yajl_parse.h>

#include "engine/base/memory.h"

/* A number beyond this is none of a frame: with 1000 frames a second it takes four months to get there. */
#define MOST_FRAMES UINT64_C(10000000000)

typedef struct mr_written_epoch {
    uint32_t source, epoch;
    size_t bytes;
    uint8_t *bits;
} mr_written_epoch;

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
    return to->seen && to->frame.source != MR_SOURCE_NONE && to->frame.seq < MOST_FRAMES;
}

/* ---- the set --------------------------------------------------------------------------------------------------- */

static mr_written_epoch *find_epoch(const mr_written *written, const mr_identity *frame) {
    for (size_t i = 0; i < written->epoch_count; i++)
        if (written->epochs[i].source == frame->source && written->epochs[i].epoch == frame->epoch)
            return &written->epochs[i];
    return NULL;
}

static mr_written_epoch *add_epoch(mr_written *written, const mr_identity *frame) {
    mr_written_epoch *wider = mr_realloc(written->epochs, (written->epoch_count + 1) * sizeof *wider);
    if (!wider)
        return NULL;
    written->epochs = wider;
    wider[written->epoch_count] = (mr_written_epoch){.source = frame->source, .epoch = frame->epoch};
    return &wider[written->epoch_count++];
}

static bool add_bit(mr_written *written, const mr_identity *frame) {
    mr_written_epoch *epoch = find_epoch(written, frame);
    if (!epoch && !(epoch = add_epoch(written, frame)))
        return false;
    size_t byte = (size_t)(frame->seq / 8);
    if (byte >= epoch->bytes) {
        size_t room = byte + byte / 2 + 64;
        uint8_t *wider = mr_realloc(epoch->bits, room);
        if (!wider)
            return false;
        memset(wider + epoch->bytes, 0, room - epoch->bytes);
        epoch->bits = wider;
        epoch->bytes = room;
    }
    epoch->bits[byte] |= (uint8_t)(1u << frame->seq % 8);
    return true;
}

static bool add_part(mr_written *written, const mr_identity *frame) {
    if (written->part_count == written->part_room) {
        size_t room = 2 * written->part_room + 64;
        mr_identity *wider = mr_realloc(written->parts, room * sizeof *wider);
        if (!wider)
            return false;
        written->parts = wider;
        written->part_room = room;
    }
    written->parts[written->part_count++] = *frame;
    return true;
}

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
    bool added = frame->sub ? add_part(written, frame) : add_bit(written, frame);
    return added ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for what %s holds", written->path);
}

bool mr_written_has(const mr_written *written, const mr_identity *frame) {
    if (frame->sub) {
        for (size_t i = 0; i < written->part_count; i++)
            if (mr_identity_compare(&written->parts[i], frame) == 0)
                return true;
        return false;
    }
    const mr_written_epoch *epoch = find_epoch(written, frame);
    return epoch && frame->seq / 8 < epoch->bytes && epoch->bits[frame->seq / 8] >> frame->seq % 8 & 1;
}

void mr_written_fini(mr_written *written) {
    for (size_t i = 0; i < written->epoch_count; i++)
        mr_free(written->epochs[i].bits);
    mr_free(written->epochs);
    mr_free(written->parts);
    *written = (mr_written){0};
}
