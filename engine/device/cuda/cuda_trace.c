#include "engine/device/cuda/cuda_trace.h"

#include <math.h>
#include <nvtx3/nvToolsExt.h>

#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "engine/device/cuda/cuda_after.h"

/* The runtime gives times as single-precision milliseconds since the anchor, so the anchor must move before they become
 * coarse. */
static const float LONGEST_MS = 1000;
enum { EXACT_NS = 2000, CLOSE_NS = 100000, TRIES = 32 };

struct mr_cuda_piece {
    mr_cuda_timeline *timeline;
    cudaEvent_t begin, end;
    mr_work_note note;
    mr_cuda_piece *next;
};

/* ---- pieces ----------------------------------------------------------------------------------------------------- */

static void destroy_piece(mr_cuda_piece *piece) {
    if (piece->begin)
        cudaEventDestroy(piece->begin);
    if (piece->end)
        cudaEventDestroy(piece->end);
    mr_free(piece);
}

static mr_cuda_piece *make_piece(void) {
    mr_cuda_piece *made = mr_calloc(1, sizeof *made);
    if (made && (cudaEventCreate(&made->begin) || cudaEventCreate(&made->end))) {
        destroy_piece(made);
        made = NULL;
    }
    return made;
}

static mr_cuda_piece *take_piece(mr_cuda_timeline *self) {
    pthread_mutex_lock(self->lock);
    mr_cuda_piece *taken = self->unused;
    if (taken)
        self->unused = taken->next;
    pthread_mutex_unlock(self->lock);
    return taken ? taken : make_piece();
}

/* Called with the lock. */
static void recycle(mr_cuda_piece *piece) {
    piece->next = piece->timeline->unused;
    piece->timeline->unused = piece;
}

/* ---- times ------------------------------------------------------------------------------------------------------ */

/* The device reaches the event between two clock readings. If the thread lost its processor in between, they are too
 * far apart to date it, and it is tried again. */
static bool compare_clocks(mr_cuda_timeline *self, cudaStream_t handle) {
    int64_t apart_ns = INT64_MAX;
    for (int i = 0; i < TRIES && apart_ns > CLOSE_NS; i++) {
        int64_t before_ns = mr_now_ns();
        if (cudaEventRecord(self->anchor, handle) || cudaEventSynchronize(self->anchor))
            return false;
        apart_ns = mr_now_ns() - before_ns;
        self->anchor_ns = before_ns + apart_ns / 2;
    }
    return true;
}

/* A device's first piece waits until the device has reached it, so that the clocks can be compared. */
static void drop_anchor(mr_cuda_timeline *self, cudaStream_t handle) {
    MR_LOCKED(self->lock);
    if (!self->anchor && !cudaEventCreate(&self->anchor) && !compare_clocks(self, handle)) {
        cudaEventDestroy(self->anchor);
        self->anchor = NULL;
    }
}

static int64_t rounded_ns(float ms) {
    return (int64_t)llround((double)ms * 1e6);
}

/* A piece that begins at the end of another does not begin before it, although times are inexact. */
static void set_times(mr_cuda_timeline *self, mr_work_note *note, float before_ms, float took_ms) {
    int64_t *ended_ns = &self->ended_ns[note->engine];
    note->begin_ns = self->anchor_ns + rounded_ns(before_ms);
    note->end_ns = note->begin_ns + rounded_ns(took_ms);
    if (note->begin_ns < *ended_ns && *ended_ns - note->begin_ns < EXACT_NS)
        note->begin_ns = *ended_ns;
    note->end_ns = note->end_ns < note->begin_ns ? note->begin_ns : note->end_ns;
    *ended_ns = note->end_ns > *ended_ns ? note->end_ns : *ended_ns;
}

/* Pieces come in the order in which they ended only for each stream, so that one may lie before the anchor. */
static void tell(void *context) {
    mr_cuda_piece *piece = context;
    mr_cuda_timeline *self = piece->timeline;
    float before_ms, took_ms;
    MR_LOCKED(self->lock);
    if (self->anchor && !cudaEventElapsedTime(&before_ms, self->anchor, piece->begin) &&
        !cudaEventElapsedTime(&took_ms, piece->begin, piece->end)) {
        set_times(self, &piece->note, before_ms, took_ms);
        if (self->device->trace)
            self->device->trace(self->device->trace_context, self->device, &piece->note);
        if (before_ms > LONGEST_MS) {
            cudaEvent_t old = self->anchor;
            self->anchor = piece->begin;
            self->anchor_ns += rounded_ns(before_ms);
            piece->begin = old;
        }
    }
    cudaGetLastError();
    recycle(piece);
}

/* ---- the current piece of a stream ------------------------------------------------------------------------------ */

void mr_cuda_trace_end(mr_cuda_piece **piece, mr_stream *stream, cudaStream_t handle) {
    mr_cuda_piece *ended = *piece;
    *piece = NULL;
    if (!ended)
        return;
    bool timed = !cudaEventRecord(ended->end, handle) && !mr_cuda_after(stream, tell, ended);
    cudaGetLastError();
    if (timed)
        return;
    MR_LOCKED(ended->timeline->lock);
    recycle(ended);
}

void mr_cuda_trace_begin(mr_cuda_timeline *self, mr_cuda_piece **piece, mr_stream *stream, cudaStream_t handle,
                         mr_engine engine, size_t bytes) {
    mr_cuda_trace_end(piece, stream, handle);
    drop_anchor(self, handle);
    mr_cuda_piece *begun = take_piece(self);
    if (begun) {
        begun->timeline = self;
        begun->note = (mr_work_note){.engine = engine, .stage = stream->stage, .frame = stream->frame, .bytes = bytes};
        cudaEventRecord(begun->begin, handle);
    }
    cudaGetLastError();
    *piece = begun;
}

bool mr_cuda_is_on_device(const void *data, int *device) {
    struct cudaPointerAttributes about = {0};
    *device = -1;
    if (!data || cudaPointerGetAttributes(&about, data) || about.type != cudaMemoryTypeDevice)
        return false;
    *device = about.device;
    return true;
}

void mr_cuda_trace_copy(mr_cuda_timeline *self, mr_cuda_piece **piece, mr_stream *stream, cudaStream_t handle,
                        const void *to, const void *from, size_t bytes) {
    int to_device, from_device;
    bool up = mr_cuda_is_on_device(to, &to_device), down = mr_cuda_is_on_device(from, &from_device);
    bool within = up && (!from || from_device == to_device);
    mr_engine engine = MR_ENGINE_COMPUTE;
    if (!within && (up || down))
        engine = up ? MR_ENGINE_UPLOAD : MR_ENGINE_DOWNLOAD;
    mr_cuda_trace_begin(self, piece, stream, handle, engine, bytes);
}

void mr_cuda_timeline_fini(mr_cuda_timeline *self) {
    while (self->unused) {
        mr_cuda_piece *gone = self->unused;
        self->unused = gone->next;
        destroy_piece(gone);
    }
    if (self->anchor)
        cudaEventDestroy(self->anchor);
    self->anchor = NULL;
    cudaGetLastError();
}

/* ---- profilers -------------------------------------------------------------------------------------------------- */

void mr_cuda_range_begin(const char *name) {
    nvtxRangePushA(name);
}

void mr_cuda_range_end(void) {
    nvtxRangePop();
}
