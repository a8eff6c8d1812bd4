/* Sources that keep step: the pipeline's types, with verify's process function before each source's. */
#include <stdlib.h>

#include "tools/millrace/verify/verify.h"

/* How many frames a source can be ahead of its twin, and the interval until the next call. */
enum { WINDOW = 32, RETRY_NS = 1000000 };

typedef struct mr_verify_type {
    mr_stage_type type; /* first: the type that the engine uses */
    const mr_stage_type *original;
    mr_verify *verify;
    int side;
} mr_verify_type;

/* MR_DONE: the source can give one more frame. Else MR_WAIT or MR_END. If the twin has ended, the source must not give
 * more frames than the twin gave. */
static int may_give(mr_verify *verify, int side, uint32_t source) {
    const int other = 1 - side;
    pthread_mutex_lock(&verify->lock);
    uint64_t given = verify->given[side][source], others = verify->given[other][source];
    bool ended = verify->ended[other][source];
    pthread_mutex_unlock(&verify->lock);
    if (verify->most_frames && given >= (uint64_t)verify->most_frames)
        return MR_END;
    if (ended && given >= others)
        return MR_END;
    return given >= others + WINDOW ? MR_WAIT : MR_DONE;
}

static void note(mr_verify *verify, int side, uint32_t source, int answer) {
    pthread_mutex_lock(&verify->lock);
    if (answer == MR_DONE)
        verify->given[side][source]++;
    else if (answer == MR_END || (answer < 0 && answer != MR_ERROR_AGAIN))
        verify->ended[side][source] = true;
    pthread_mutex_unlock(&verify->lock);
}

static int process(mr_stage *self, mr_io *io) {
    const mr_verify_type *type = (const mr_verify_type *)(const void *)self->type;
    int answer = may_give(type->verify, type->side, self->source);
    if (answer == MR_WAIT) {
        mr_io_wake_at(io, mr_io_now_ns(io) + RETRY_NS);
        return answer;
    }
    if (answer == MR_DONE)
        answer = type->original->process(self, io);
    note(type->verify, type->side, self->source, answer);
    return answer;
}

static int wrap_side(mr_verify *verify, int side, const mr_stage_type *const *types) {
    verify->types[side] = calloc(verify->type_count, sizeof(mr_verify_type));
    verify->list[side] = calloc(verify->type_count + 1, sizeof(const mr_stage_type *));
    verify->given[side] = calloc(verify->source_count, sizeof(uint64_t));
    verify->ended[side] = calloc(verify->source_count, sizeof(bool));
    if (!verify->types[side] || !verify->list[side] || !verify->given[side] || !verify->ended[side])
        return mr_fail(MR_ERROR_MEMORY, "no memory for the sources");
    for (size_t i = 0; i < verify->type_count; i++) {
        mr_verify_type *made = &verify->types[side][i];
        *made = (mr_verify_type){.type = *types[i], .original = types[i], .verify = verify, .side = side};
        made->type.process = process;
        verify->list[side][i] = types[i]->inputs || !types[i]->process ? types[i] : &made->type;
    }
    return MR_OK;
}

int mr_verify_wrap_sources(mr_verify *verify, const mr_stage_type *const *types, size_t source_count) {
    verify->source_count = source_count;
    while (types[verify->type_count])
        verify->type_count++;
    int status = wrap_side(verify, 0, types);
    return status ? status : wrap_side(verify, 1, types);
}

void mr_verify_release(mr_verify *verify, int side) {
    pthread_mutex_lock(&verify->lock);
    for (size_t i = 0; i < verify->source_count; i++)
        verify->ended[side][i] = true;
    pthread_mutex_unlock(&verify->lock);
}

void mr_verify_unwrap_sources(mr_verify *verify) {
    for (int side = 0; side < MR_SIDES; side++) {
        free(verify->types[side]);
        free(verify->list[side]);
        free(verify->given[side]);
        free(verify->ended[side]);
    }
}
