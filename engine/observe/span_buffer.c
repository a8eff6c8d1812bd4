#include "engine/observe/span_buffer.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "millrace/status.h"

/* A power of two: at 10 spans a frame, 1,600 frames. */
enum { ROOM = 16384 };
/* OpenTelemetry chooses traces by the low 56 bits of their ids, so that others who choose a smaller share agree. */
enum { RANDOM_BITS = 56 };
enum { MOST_DRIFT_NS = 1000000 };

typedef struct name {
    _Atomic(const char *) id;
    _Atomic uint64_t hash;
} name;

struct mr_spans {
    uint64_t run, least; /* least: of the low bits of ids of traces that are followed */
    const mr_clock *clock;
    _Atomic uint64_t next_id;
    pthread_mutex_t lock; /* for the next fields */
    uint64_t begin, end;  /* spans that were forgotten; that have found room */
    uint64_t ended, lost;
    int64_t offset_ns;    /* from the clock to the date; kept until it is clearly wrong, so that spans fit together */
    mr_span *buffer;
    name names[];
};

/* ---- ids --------------------------------------------------------------------------------------------------------- */

/* Splitmix64: no two inputs have the same result. */
static uint64_t mix(uint64_t value) {
    value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

static uint64_t new_id(mr_spans *spans) {
    const uint64_t id = mix(atomic_fetch_add_explicit(&spans->next_id, 1, memory_order_relaxed));
    return id ? id : 1;
}

bool mr_spans_choose(mr_spans *spans, const mr_identity *frame, mr_span_context *own) {
    const uint64_t parts[] = {spans->run, atomic_load_explicit(&spans->names[frame->source].hash, memory_order_relaxed),
                              frame->epoch, frame->seq};
    const XXH128_hash_t hash = XXH3_128bits(parts, sizeof parts);
    *own = (mr_span_context){0};
    if ((hash.low64 & ((UINT64_C(1) << RANDOM_BITS) - 1)) < spans->least)
        return false;
    *own = (mr_span_context){.trace = {hash.high64, hash.low64 ? hash.low64 : 1}, .span = new_id(spans)};
    return true;
}

mr_span_context mr_spans_within(mr_spans *spans, const mr_span_context *trace) {
    mr_span_context made = *trace;
    made.span = new_id(spans);
    return made;
}

void mr_spans_name(mr_spans *spans, uint32_t source, const char *id) {
    atomic_store_explicit(&spans->names[source].id, id, memory_order_release);
    atomic_store_explicit(&spans->names[source].hash, XXH3_64bits(id, strlen(id)), memory_order_relaxed);
}

/* ---- the buffer -------------------------------------------------------------------------------------------------- */

int64_t mr_spans_now_ns(const mr_spans *spans) {
    return mr_clock_now_ns(spans->clock);
}

void mr_spans_add(mr_spans *spans, const mr_span *span) {
    int64_t within_ns;
    const int64_t offset_ns = mr_clock_offset_ns(spans->clock, &within_ns);
    MR_LOCKED(&spans->lock);
    if (llabs(offset_ns - spans->offset_ns) > MOST_DRIFT_NS + within_ns)
        spans->offset_ns = offset_ns;
    spans->ended++;
    if (spans->end - spans->begin == ROOM) {
        spans->lost++;
        return;
    }
    mr_span *kept = &spans->buffer[spans->end++ & (ROOM - 1)];
    *kept = *span;
    kept->source = atomic_load_explicit(&spans->names[span->frame.source].id, memory_order_acquire);
    kept->begin_ns += spans->offset_ns;
    kept->end_ns += spans->offset_ns;
}

size_t mr_spans_take(mr_spans *spans, mr_span *to, size_t room) {
    MR_LOCKED(&spans->lock);
    const size_t there = (size_t)(spans->end - spans->begin), count = there < room ? there : room;
    for (size_t i = 0; i < count; i++)
        to[i] = spans->buffer[(spans->begin + i) & (ROOM - 1)];
    return count;
}

void mr_spans_forget(mr_spans *spans, size_t count, size_t lost) {
    MR_LOCKED(&spans->lock);
    spans->begin += count;
    spans->lost += lost;
}

void mr_spans_count(mr_spans *spans, uint64_t *ended, uint64_t *lost) {
    MR_LOCKED(&spans->lock);
    *ended = spans->ended;
    *lost = spans->lost;
}

/* ---- beginning and end ------------------------------------------------------------------------------------------- */

int mr_spans_create(mr_spans **spans, const mr_spans_params *params) {
    const double all = (double)(UINT64_C(1) << RANDOM_BITS);
    mr_spans *made = mr_calloc(1, sizeof *made + params->source_count * sizeof made->names[0]);
    *spans = NULL;
    if (!made || !(made->buffer = mr_alloc(ROOM * sizeof *made->buffer))) {
        mr_free(made);
        return mr_fail(MR_ERROR_MEMORY, "no memory for spans");
    }
    made->run = params->run;
    made->clock = params->clock;
    made->offset_ns = mr_clock_offset_ns(made->clock, NULL);
    made->least = (uint64_t)(all * (1 - params->share));
    atomic_init(&made->next_id, mix((uint64_t)mr_clock_date_ns()) ^ mix(params->run) ^ (uint64_t)(uintptr_t)made);
    pthread_mutex_init(&made->lock, NULL);
    *spans = made;
    return MR_OK;
}

void mr_spans_destroy(mr_spans **spans) {
    mr_spans *gone = *spans;
    if (!gone)
        return;
    pthread_mutex_destroy(&gone->lock);
    mr_free(gone->buffer);
    mr_free(gone);
    *spans = NULL;
}
