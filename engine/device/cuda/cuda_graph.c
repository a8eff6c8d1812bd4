#include "engine/device/cuda/cuda_graph.h"

#include <stdalign.h>
#include <string.h>
#include <xxhash.h>

#include "engine/base/memory.h"
#include "millrace/log.h"

/* A single call is no faster as a graph. The others: the number of graphs with so few launches each that recording does
 * not pay. */
enum { LEAST_CALLS = 2, TRIED = 4 * MR_CUDA_GRAPHS, LEAST_LAUNCHES = 4 };

/* The header before a launch's arguments. */
typedef struct head {
    mr_cuda_launch_function *function;
    size_t bytes; /* the arguments', with padding to whole units */
} head;

enum { UNIT = 16 };
_Static_assert(sizeof(head) % UNIT == 0 && alignof(max_align_t) <= UNIT, "arguments behind a head are aligned");

/* ---- deferred launches ------------------------------------------------------------------------------------------ */

static int widen(mr_cuda_launches *self, size_t bytes) {
    size_t capacity = 2 * self->capacity > bytes ? 2 * self->capacity : bytes;
    uint8_t *wider = mr_realloc(self->room, capacity);
    if (!wider)
        return mr_fail(MR_ERROR_MEMORY, "no memory for launches");
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

static void end_part(mr_cuda_launches *self) {
    bool room = self->part_count < MR_CUDA_PARTS;
    self->parts[room ? self->part_count++ : MR_CUDA_PARTS - 1] = (mr_cuda_part){self->bytes, self->calls};
}

int mr_cuda_launches_take(mr_cuda_launches *self, mr_cuda_launches *from) {
    size_t before = self->bytes;
    int calls = self->calls;
    if (!from->bytes)
        return MR_OK;
    int status = before + from->bytes > self->capacity ? widen(self, before + from->bytes) : MR_OK;
    if (status)
        return status;
    memcpy(self->room + before, from->room, from->bytes);
    for (size_t i = 0; i < from->part_count; i++) {
        self->bytes = before + from->parts[i].bytes;
        self->calls = calls + from->parts[i].calls;
        end_part(self);
    }
    self->bytes = before + from->bytes;
    self->calls = calls + from->calls;
    end_part(self);
    from->bytes = from->part_count = 0;
    from->calls = 0;
    return MR_OK;
}

/* Deferred launches, one after another. */
typedef struct launches {
    const uint8_t *bytes;
    size_t count;
    int calls;
} launches;

/* Launches them one after the other. */
static int launch(const launches *put_off, cudaStream_t handle) {
    int status = MR_OK;
    for (size_t at = 0; at < put_off->count && !status;) {
        head about;
        memcpy(&about, put_off->bytes + at, sizeof about);
        at += sizeof about;
        status = about.function(put_off->bytes + at, handle);
        at += about.bytes;
    }
    return status;
}

/* ---- kept series ------------------------------------------------------------------------------------------------ */

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

static mr_cuda_series *find(mr_cuda_launches *self, const launches *put_off, uint64_t hash) {
    for (int i = 0; i < MR_CUDA_GRAPHS; i++) {
        mr_cuda_series *kept = &self->kept[i];
        if (kept->used && kept->hash == hash && kept->count == put_off->count &&
            memcmp(kept->bytes, put_off->bytes, put_off->count) == 0)
            return kept;
    }
    return NULL;
}

/* Keeps the series that is put off, without a graph, in the place of the one that came last the longest ago. */
static void keep(mr_cuda_launches *self, const launches *put_off, uint64_t hash) {
    mr_cuda_series *oldest = &self->kept[0];
    for (int i = 1; i < MR_CUDA_GRAPHS; i++)
        if (self->kept[i].used < oldest->used)
            oldest = &self->kept[i];
    self->counts.forgotten += oldest->graph != NULL;
    forget(oldest);
    uint8_t *copy = mr_alloc(put_off->count);
    if (!copy)
        return;
    memcpy(copy, put_off->bytes, put_off->count);
    *oldest = (mr_cuda_series){.hash = hash, .used = self->now, .bytes = copy, .count = put_off->count};
}

static void stop(mr_cuda_launches *self, const mr_device *device, mr_log_level level, const char *why) {
    mr_log(level, "%s: launches of a stream are no longer combined into CUDA graphs: %s", device->name, why);
    self->graphs = false;
    forget_all(self);
}

/* Each stage alone has fewer buffers that can come together. */
static void part(mr_cuda_launches *self, const mr_device *device) {
    mr_log(MR_LOG_DEBUG, "%s: the stages of a stream have separate CUDA graphs again: together their launches recur "
                         "too seldom",
           device->name);
    self->apart = true;
    self->since_recorded = self->counts.recorded;
    self->since_launched = self->counts.launched;
    forget_all(self);
}

/* ---- graphs ----------------------------------------------------------------------------------------------------- */

/* Records the launches of the functions. Recording runs nothing, so if it fails they can still be launched. */
static cudaError_t capture(const launches *put_off, cudaStream_t handle, cudaGraphExec_t *graph) {
    cudaGraph_t recorded = NULL;
    cudaError_t error = cudaStreamBeginCapture(handle, cudaStreamCaptureModeThreadLocal);
    if (error)
        return error;
    int status = launch(put_off, handle);
    error = cudaStreamEndCapture(handle, &recorded);
    if (!error && status)
        error = cudaErrorStreamCaptureUnsupported;
    if (!error)
        error = cudaGraphInstantiate(graph, recorded, 0);
    if (recorded)
        cudaGraphDestroy(recorded);
    return error;
}

/* Among a device's streams only the first one logs it. */
static void refuse(mr_cuda_launches *self, mr_device *device, cudaError_t error) {
    bool said = atomic_exchange(self->refused, true);
    cudaGetLastError();
    self->counts.refused++;
    stop(self, device, said ? MR_LOG_DEBUG : MR_LOG_WARNING, cudaGetErrorString(error));
}

static bool recurs_too_seldom(const mr_cuda_launches *self) {
    uint64_t recorded = self->counts.recorded - self->since_recorded;
    return recorded >= TRIED && self->counts.launched - self->since_launched < LEAST_LAUNCHES * recorded;
}

/* Makes the graph of a series that has come before. The first time all that is launched was loaded, which a graph
 * cannot. NULL if there is none. */
static cudaGraphExec_t make_graph(mr_cuda_launches *self, mr_device *device, cudaStream_t handle,
                                  const launches *put_off, mr_cuda_series *kept) {
    cudaError_t error = capture(put_off, handle, &kept->graph);
    if (error) {
        kept->graph = NULL;
        refuse(self, device, error);
        return NULL;
    }
    self->counts.recorded++;
    if (!recurs_too_seldom(self))
        return kept->graph;
    if (self->part_count && !self->apart)
        part(self, device);
    else
        stop(self, device, MR_LOG_DEBUG, "launches recur too seldom");
    return NULL;
}

/* The graph for the deferred launches; NULL if there is none. */
static cudaGraphExec_t graph_of(mr_cuda_launches *self, mr_device *device, cudaStream_t handle,
                                const launches *put_off) {
    if (!self->graphs || put_off->calls < LEAST_CALLS)
        return NULL;
    if (!self->kept && !(self->kept = mr_calloc(MR_CUDA_GRAPHS, sizeof *self->kept)))
        return NULL;
    uint64_t hash = XXH3_64bits(put_off->bytes, put_off->count);
    mr_cuda_series *kept = find(self, put_off, hash);
    self->now++;
    if (!kept) {
        if (self->part_count && !self->apart && ++self->missed >= TRIED && self->counts.launched < self->missed)
            part(self, device);
        else
            keep(self, put_off, hash);
        return NULL;
    }
    kept->used = self->now;
    return kept->graph ? kept->graph : make_graph(self, device, handle, put_off, kept);
}

static int flush(mr_cuda_launches *self, mr_device *device, cudaStream_t handle, const launches *put_off) {
    if (!put_off->count)
        return MR_OK;
    cudaGraphExec_t graph = graph_of(self, device, handle, put_off);
    cudaError_t error = graph ? cudaGraphLaunch(graph, handle) : cudaSuccess;
    int status = graph ? MR_OK : launch(put_off, handle);
    self->counts.launched += graph != NULL;
    self->counts.plain += graph == NULL;
    if (!error)
        return status;
    cudaGetLastError();
    return mr_fail(MR_ERROR_DEVICE, "%s: cannot launch a graph: %s", device->name, cudaGetErrorString(error));
}

int mr_cuda_launches_flush(mr_cuda_launches *self, mr_device *device, cudaStream_t handle) {
    mr_cuda_part from = {0};
    int status = MR_OK;
    for (size_t i = 0; self->apart && i < self->part_count && !status; i++) {
        const mr_cuda_part end = self->parts[i];
        status = flush(self, device, handle,
                       &(launches){self->room + from.bytes, end.bytes - from.bytes, end.calls - from.calls});
        from = end;
    }
    if (!status)
        status = flush(self, device, handle,
                       &(launches){self->room + from.bytes, self->bytes - from.bytes, self->calls - from.calls});
    self->bytes = self->part_count = 0;
    self->calls = 0;
    return status;
}

void mr_cuda_launches_fini(mr_cuda_launches *self) {
    forget_all(self);
    mr_free(self->room);
    self->room = NULL;
}
