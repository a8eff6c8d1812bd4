#include "engine/flow/run/intact.h"

#include <pthread.h>
#include <stddef.h>
#include <xxhash.h>

#include "engine/base/grow.h"
#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "engine/device/device.h"
#include "millrace/status.h"

typedef struct input {
    mr_frame *frame;
    uint64_t payload, results, members;
} input;

/* The lock is held from begin to end. */
struct mr_intact {
    pthread_mutex_t turn;
    XXH3_state_t *state;
    input *inputs;
    size_t count, room;
};

int mr_intact_create(mr_intact **intact) {
    mr_intact *made = mr_calloc(1, sizeof *made);
    XXH3_state_t *state = XXH3_createState();
    if (!made || !state) {
        XXH3_freeState(state);
        mr_free(made);
        return mr_fail(MR_ERROR_MEMORY, "no memory for the graph");
    }
    mr_lock_init(&made->turn);
    made->state = state;
    *intact = made;
    return MR_OK;
}

void mr_intact_destroy(mr_intact **intact) {
    mr_intact *gone = *intact;
    *intact = NULL;
    if (!gone)
        return;
    pthread_mutex_destroy(&gone->turn);
    XXH3_freeState(gone->state);
    mr_free(gone->inputs);
    mr_free(gone);
}

/* ---- contents ---------------------------------------------------------------------------------------------------- */

static bool is_readable(const mr_buffer *buffer) {
    return !buffer || buffer->memory != MR_MEMORY_DEVICE;
}

static void put(XXH3_state_t *state, const void *bytes, size_t count) {
    if (count)
        XXH3_64bits_update(state, bytes, count);
}

/* The bytes between and after a picture's rows belong to nobody. */
static uint64_t hash_payload(XXH3_state_t *state, const mr_frame *frame) {
    XXH3_64bits_reset(state);
    const bool picture = frame->format.payload == MR_PAYLOAD_PICTURE;
    for (mr_row row = {0}; picture && mr_next_row(&frame->format, &row);)
        if (is_readable(frame->plane[row.plane].buffer))
            put(state, mr_row_at(frame->plane, &row), row.bytes);
    for (int i = 0; !picture && i < MR_MAX_PLANES; i++)
        if (frame->plane[i].buffer && is_readable(frame->plane[i].buffer))
            put(state, frame->plane[i].data, frame->plane[i].bytes);
    return XXH3_64bits_digest(state);
}

static uint64_t hash_results(XXH3_state_t *state, const mr_frame *frame) {
    XXH3_64bits_reset(state);
    for (const mr_result *result = frame->results; result; result = result->next) {
        put(state, result, offsetof(mr_result, references));
        if (is_readable(result->buffer))
            put(state, result->data, mr_result_bytes(result));
        put(state, result->items, result->items_bytes);
    }
    return XXH3_64bits_digest(state);
}

/* The frame's own members, without those that are private to the engine, at its end. */
static uint64_t hash_members(XXH3_state_t *state, const mr_frame *frame) {
    XXH3_64bits_reset(state);
    put(state, frame, offsetof(mr_frame, ready));
    return XXH3_64bits_digest(state);
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

void mr_intact_begin(mr_intact *intact) {
    pthread_mutex_lock(&intact->turn);
}

void mr_intact_add(mr_intact *intact, mr_frame *frame) {
    if ((frame->ready && !mr_event_done(frame->ready)) ||
        !mr_grow((void **)&intact->inputs, intact->count, &intact->room, sizeof *intact->inputs))
        return;
    intact->inputs[intact->count++] = (input){.frame = mr_frame_ref(frame),
                                              .payload = hash_payload(intact->state, frame),
                                              .results = hash_results(intact->state, frame),
                                              .members = hash_members(intact->state, frame)};
}

static mr_intact_change compare(XXH3_state_t *state, const input *before) {
    const mr_frame *frame = before->frame;
    /* If these have changed, the others may lie elsewhere. */
    if (hash_members(state, frame) != before->members)
        return MR_INTACT_MEMBERS;
    if (hash_results(state, frame) != before->results)
        return MR_INTACT_RESULTS;
    return hash_payload(state, frame) != before->payload ? MR_INTACT_PAYLOAD : MR_INTACT;
}

mr_intact_change mr_intact_end(mr_intact *intact) {
    mr_intact_change change = MR_INTACT;
    for (size_t i = 0; i < intact->count; i++) {
        change = change ? change : compare(intact->state, &intact->inputs[i]);
        mr_frame_unref(&intact->inputs[i].frame);
    }
    intact->count = 0;
    pthread_mutex_unlock(&intact->turn);
    return change;
}
