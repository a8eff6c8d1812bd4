#include "engine/device/cuda_graph.h"

#include <stdalign.h>
#include <string.h>
#include <xxhash.h>

#include "engine/base/log.h"
#include "engine/base/memory.h"

/* One call is no faster as a graph. So many graphs, and so few launches of each, that recording them does not pay. */
enum { LEAST_CALLS = 2, TRIED = 4 * MR_CUDA_GRAPHS, LEAST_LAUNCHES = 4 };

/* What stands in front of the arguments of a launch. */
typedef struct head {
    mr_cuda_launch_function *function;
    size_t bytes; /* of the arguments, and what fills them up to whole units */
} head;

enum { UNIT = 16 };
_Static_assert(sizeof(head) % UNIT == 0 && alignof(max_align_t) <= UNIT, "arguments behind a head are aligned");

/* ---- what is put off -------------------------------------------------------------------------------------------- */

static int widen(mr_cuda_launches *self, size_t bytes) {
    size_t capacity = 2 * self->capacity > bytes ? 2 * self->capacity : bytes;
    uint8_t *wider = mr_realloc(self->room, capacity);
    if (!wider)
        return mr_fail(MR_ERROR_MEMORY, "no memory for what is launched");
    self->room = wider;
    self->capacity = capacity;
    return MR_OK;
}

int mr_cuda_launches_add(mr_cuda_launches *self, mr_cuda_launch_function *function, const void *arguments, size_t bytes,
                         int calls) {
    const head about = {function, (bytes + UNIT - 1) / UNIT * UNIT};
    size_t end = self->bytes + sizeof about + about.bytes;
    int status = end > self->capacity ? widen(self, end) : MR_OK;
    if (status)
        return status;
    uint8_t *to = self->room + self->bytes;
    memcpy(to, &about, sizeof about);
    memcpy(to + sizeof about, arguments, bytes);
    memset(to + sizeof about + bytes, 0, about.bytes - bytes);
    self->bytes = end;
    self->calls += calls;
    return MR_OK;
}

/* Launches them one after the other. */
static int launch(const mr_cuda_launches *self, cudaStream_t handle) {
    int status = MR_OK;
    for (size_t at = 0; at < self->bytes && !status;) {
        head about;
        memcpy(&about, self->room + at, sizeof about);
        at += sizeof about;
        status = about.function(self->room + at, handle);
        at += about.bytes;
    }
    return status;
}

/* ---- what is kept ----------------------------------------------------------------------------------------------- */

/* A graph that is under way is freed once it is done. */
static void forget(mr_cuda_series *series) {
    if (series->graph)
        cudaGraphExecDestroy(series->graph);
    mr_free(series->bytes);
    *series = (mr_cuda_series){0};
}

static void forget_all(mr_cuda_launches *self) {
    for (int i = 0; self->kept && i < MR_CUDA_GRAPHS; i++)
        forget(&self->kept[i]);
    mr_free(self->kept);
    self->kept = NULL;
}

static mr_cuda_series *find(mr_cuda_launches *self, uint64_t hash) {
    for (int i = 0; i < MR_CUDA_GRAPHS; i++) {
        mr_cuda_series *series = &self->kept[i];
        if (series->used && series->hash == hash && series->count == self->bytes &&
            memcmp(series->bytes, self->room, self->bytes) == 0)
            return series;
    }
    return NULL;
}

/* Keeps the series that is put off, without a graph, in the place of the one that came last the longest ago. */
static void keep(mr_cuda_launches *self, uint64_t hash) {
    mr_cuda_series *oldest = &self->kept[0];
    for (int i = 1; i < MR_CUDA_GRAPHS; i++)
        if (self->kept[i].used < oldest->used)
            oldest = &self->kept[i];
    self->counts.forgotten += oldest->graph != NULL;
    forget(oldest);
    uint8_t *copy = mr_alloc(self->bytes);
    if (!copy)
        return;
    memcpy(copy, self->room, self->bytes);
    *oldest = (mr_cuda_series){.hash = hash, .used = self->now, .bytes = copy, .count = self->bytes};
}

static void stop(mr_cuda_launches *self, const mr_device *device, mr_log_level level, const char *why) {
    mr_log(level, "%s: launches are not made into CUDA graphs any more on a stream: %s", device->name, why);
    self->graphs = false;
    forget_all(self);
}

/* ---- graphs ----------------------------------------------------------------------------------------------------- */

/* Records what the functions launch. Nothing is done by that, so what cannot be recorded can still be launched. */
static cudaError_t capture(const mr_cuda_launches *self, cudaStream_t handle, cudaGraphExec_t *graph) {
    cudaGraph_t recorded = NULL;
    cudaError_t error = cudaStreamBeginCapture(handle, cudaStreamCaptureModeThreadLocal);
    if (error)
        return error;
    int status = launch(self, handle);
    error = cudaStreamEndCapture(handle, &recorded);
    if (!error && status)
        error = cudaErrorStreamCaptureUnsupported;
    if (!error)
        error = cudaGraphInstantiate(graph, recorded, 0);
    if (recorded)
        cudaGraphDestroy(recorded);
    return error;
}

/* Makes the graph of a series that has come before. The first time all that is launched was loaded, which a graph
 * cannot. */
static void make_graph(mr_cuda_launches *self, const mr_device *device, cudaStream_t handle, mr_cuda_series *series) {
    cudaError_t error = capture(self, handle, &series->graph);
    if (error) {
        cudaGetLastError();
        series->graph = NULL;
        self->counts.refused++;
        stop(self, device, MR_LOG_WARNING, cudaGetErrorString(error));
        return;
    }
    self->counts.recorded++;
    if (self->counts.recorded >= TRIED && self->counts.launched < LEAST_LAUNCHES * self->counts.recorded)
        stop(self, device, MR_LOG_DEBUG, "what is launched recurs too seldom");
}

/* The graph of what is put off; NULL where there is none. */
static cudaGraphExec_t graph_of(mr_cuda_launches *self, const mr_device *device, cudaStream_t handle) {
    if (!self->graphs || self->calls < LEAST_CALLS)
        return NULL;
    if (!self->kept && !(self->kept = mr_calloc(MR_CUDA_GRAPHS, sizeof *self->kept)))
        return NULL;
    uint64_t hash = XXH3_64bits(self->room, self->bytes);
    mr_cuda_series *series = find(self, hash);
    self->now++;
    if (!series) {
        keep(self, hash);
        return NULL;
    }
    series->used = self->now;
    if (!series->graph)
        make_graph(self, device, handle, series);
    return self->graphs ? series->graph : NULL;
}

int mr_cuda_launches_flush(mr_cuda_launches *self, const mr_device *device, cudaStream_t handle) {
    if (!self->bytes)
        return MR_OK;
    cudaGraphExec_t graph = graph_of(self, device, handle);
    cudaError_t error = graph ? cudaGraphLaunch(graph, handle) : cudaSuccess;
    int status = graph ? MR_OK : launch(self, handle);
    self->counts.launched += graph != NULL;
    self->counts.plain += graph == NULL;
    self->bytes = 0;
    self->calls = 0;
    if (!error)
        return status;
    cudaGetLastError();
    return mr_fail(MR_ERROR_DEVICE, "%s: cannot launch a graph: %s", device->name, cudaGetErrorString(error));
}

void mr_cuda_launches_fini(mr_cuda_launches *self) {
    forget_all(self);
    mr_free(self->room);
    self->room = NULL;
}
