#include "engine/device/device.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/device/probe/gpu.h"
#include "engine/device/sim/sim.h"

/* ---- opening by name ------------------------------------------------------------------------------------------- */

/* The number behind "kind:", 0 without one; -1 where it is none, or the name is of another kind. `rest` is set to
 * what follows. */
static int index_of(const char *name, const char *kind, const char **rest) {
    size_t length = strlen(kind);
    if (strncmp(name, kind, length) != 0)
        return -1;
    *rest = name + length;
    if (**rest != ':')
        return 0;
    char *end;
    long index = strtol(*rest + 1, &end, 10);
    if (!isdigit((unsigned char)(*rest)[1]) || index > 1023)
        return -1;
    *rest = end;
    return (int)index;
}

/* Of simulated devices of whose time nothing is said. */
enum { LEAST_DELAY_NS = 1000, MOST_DELAY_NS = 200000 };

static int open_sim(mr_device **device, int index, const char *rest, uint64_t seed, bool manual) {
    mr_sim_params params = {
        .index = index,
        .seed = seed ? seed + (uint64_t)index : (uint64_t)index + 1,
        .manual = manual,
        .min_delay_ns = -1,
        .max_delay_ns = -1,
    };
    int status = mr_sim_parse(rest, &params);
    bool timed = params.upload_rate || params.download_rate || params.compute_rate || params.call_ns;
    if (params.max_delay_ns < 0)
        params.max_delay_ns = timed ? 0 : MOST_DELAY_NS;
    if (params.min_delay_ns < 0)
        params.min_delay_ns = timed || params.max_delay_ns < LEAST_DELAY_NS ? 0 : LEAST_DELAY_NS;
    return status ? status : mr_sim_create(device, &params);
}

/* The number of the GPU that a name means by "cuda:N" or "cuda:GPU-..."; MR_ERROR_CONFIG where it means none by its
 * form, and mr_gpu_index_of's failures. */
static int cuda_index(const char *name, int *index) {
    const char *rest = "";
    *index = index_of(name, "cuda", &rest);
    if (*index >= 0 && !*rest)
        return MR_OK;
    if (strncmp(name, "cuda:", 5) != 0 || !mr_gpu_is_uuid(name + 5))
        return MR_ERROR_CONFIG;
    mr_gpu_access access;
    mr_gpu_access_open(&access);
    int status = mr_gpu_index_of(&access, name + 5, index);
    mr_gpu_access_close(&access);
    return status;
}

static int unknown_device(const char *name) {
    return mr_fail(MR_ERROR_CONFIG, "there is no device \"%s\"; use cpu, cuda:N, cuda:GPU-<uuid> or sim:N", name);
}

int mr_device_check_name(const char *name) {
    mr_sim_params params = {0};
    const char *rest = "";
    if (strlen(name) >= MR_DEVICE_NAME || strcmp(name, "cpu") == 0)
        return strcmp(name, "cpu") == 0 ? MR_OK : unknown_device(name);
    if (index_of(name, "sim", &rest) >= 0)
        return mr_sim_parse(rest, &params);
    if (strncmp(name, "cuda:", 5) == 0 && mr_gpu_is_uuid(name + 5))
        return MR_OK;
    return index_of(name, "cuda", &rest) >= 0 && !*rest ? MR_OK : unknown_device(name);
}

const char *mr_device_number(const char *name, char text[MR_DEVICE_NAME]) {
    int index;
    if (strncmp(name, "cuda:", 5) == 0 && mr_gpu_is_uuid(name + 5) && cuda_index(name, &index) == MR_OK)
        snprintf(text, MR_DEVICE_NAME, "cuda:%d", index);
    else
        snprintf(text, MR_DEVICE_NAME, "%s", name);
    return text;
}

int mr_device_open(mr_device **device, const char *name, uint64_t seed, bool manual) {
    const char *rest = "";
    *device = NULL;
    if (strcmp(name, "cpu") == 0)
        return mr_cpu_create(device);
    int index = index_of(name, "sim", &rest);
    if (index >= 0)
        return open_sim(device, index, rest, seed, manual);
    int status = cuda_index(name, &index);
    if (status)
        return status == MR_ERROR_CONFIG ? unknown_device(name) : status;
    return mr_cuda_create(device, index);
}

int mr_device_probe(const char *name, uint64_t *memory_bytes) {
    const char *rest = "";
    mr_sim_params params = {0};
    int index, status = cuda_index(name, &index);
    *memory_bytes = 0;
    if (status != MR_ERROR_CONFIG)
        return status ? status : mr_cuda_probe(index, memory_bytes);
    status = index_of(name, "sim", &rest) >= 0 ? mr_sim_parse(rest, &params) : MR_OK;
    *memory_bytes = (uint64_t)params.memory_bytes;
    return status;
}

int mr_device_capability(const char *name) {
    int index;
    return cuda_index(name, &index) == MR_OK ? mr_cuda_capability(index) : 0;
}

bool mr_device_card(const char *name, mr_card *card) {
    const char *rest = "";
    mr_sim_params params = {0};
    if (index_of(name, "sim", &rest) < 0 || mr_sim_parse(rest, &params) || !params.card.name[0])
        return false;
    *card = params.card;
    return true;
}

mr_device *mr_device_ref(mr_device *device) {
    atomic_fetch_add_explicit(&device->references, 1, memory_order_relaxed);
    return device;
}

void mr_device_destroy(mr_device **device) {
    mr_device *gone = *device;
    *device = NULL;
    if (!gone || !gone->type->destroy || gone == mr_device_cpu() ||
        atomic_fetch_sub_explicit(&gone->references, 1, memory_order_acq_rel) > 0)
        return;
    gone->type->destroy(gone);
}

/* ---- the table ------------------------------------------------------------------------------------------------- */

int mr_device_allocate(mr_device *device, mr_memory memory, size_t bytes, void **data) {
    return device->type->allocate(device, memory, bytes, data);
}

void mr_device_free(mr_device *device, mr_memory memory, void *data) {
    device->type->free(device, memory, data);
}

bool mr_device_is_pinned(mr_device *device, const void *data) {
    return device->type->is_pinned && device->type->is_pinned(device, data);
}

void mr_device_reuse(mr_device *device, void *data) {
    if (device->type->reuse)
        device->type->reuse(device, data);
}

int mr_device_host_reads(mr_device *device, const void *data, const mr_stage *stage, const mr_identity *frame) {
    return device->type->host_reads ? device->type->host_reads(device, data, stage, frame) : MR_OK;
}

const char *mr_engine_name(mr_engine engine) {
    static const char *const names[MR_ENGINES] = {"upload", "compute", "download"};
    return names[engine];
}

void mr_device_count_bytes(mr_device *device, mr_memory memory, int64_t bytes) {
    uint64_t held = atomic_fetch_add(&device->held_bytes[memory], (uint64_t)bytes) + (uint64_t)bytes;
    uint64_t most = atomic_load(&device->most_bytes[memory]);
    while (bytes > 0 && held > most && !atomic_compare_exchange_weak(&device->most_bytes[memory], &most, held))
        ;
}

uint64_t mr_device_most_bytes(const mr_device *device, mr_memory memory) {
    return atomic_load(&device->most_bytes[memory]);
}

int mr_stream_create(mr_device *device, mr_stream **stream) {
    return device->type->stream_create(device, stream);
}

int mr_stream_create_for(mr_device *device, bool urgent, mr_stream **stream) {
    const mr_device_type *type = device->type;
    return urgent && type->stream_create_urgent ? type->stream_create_urgent(device, stream)
                                                : type->stream_create(device, stream);
}

void mr_stream_destroy(mr_stream **stream) {
    mr_stream *gone = *stream;
    *stream = NULL;
    if (gone)
        gone->device->type->stream_destroy(gone);
}

static int count_work(mr_stream *stream, int status) {
    stream->unrecorded += !status;
    return status;
}

int mr_stream_submit(mr_stream *stream, mr_work_function *function, const void *arguments, size_t bytes) {
    if (bytes > MR_WORK_BYTES)
        return mr_fail(MR_ERROR_INTERNAL, "%zu bytes of arguments; device work takes %d", bytes, MR_WORK_BYTES);
    return count_work(stream, stream->device->type->submit(stream, function, arguments, bytes));
}

typedef struct copy_work {
    void *to;
    const void *from;
    size_t bytes;
} copy_work;

static int copy(void *arguments) {
    const copy_work *work = arguments;
    if (work->from)
        memcpy(work->to, work->from, work->bytes);
    else
        memset(work->to, 0, work->bytes);
    return MR_OK;
}

int mr_stream_copy(mr_stream *stream, void *to, const void *from, size_t bytes) {
    const copy_work work = {to, from, bytes};
    if (!bytes)
        return MR_OK;
    if (stream->device->type->copy_rows)
        return count_work(stream, stream->device->type->copy_rows(stream, to, (ptrdiff_t)bytes, from,
                                                                  (ptrdiff_t)bytes,
                                                                  bytes, 1));
    return mr_stream_submit(stream, copy, &work, sizeof work);
}

typedef struct rows_work {
    uint8_t *to;
    const uint8_t *from;
    ptrdiff_t to_stride, from_stride;
    size_t bytes, rows;
} rows_work;

static int copy_rows(void *arguments) {
    const rows_work *work = arguments;
    for (size_t row = 0; row < work->rows; row++)
        memcpy(work->to + (ptrdiff_t)row * work->to_stride, work->from + (ptrdiff_t)row * work->from_stride,
               work->bytes);
    return MR_OK;
}

int mr_stream_copy_rows(mr_stream *stream, void *to, ptrdiff_t to_stride, const void *from, ptrdiff_t from_stride,
                        size_t bytes, size_t rows) {
    const rows_work work = {to, from, to_stride, from_stride, bytes, rows};
    if (!bytes || !rows)
        return MR_OK;
    if (stream->device->type->copy_rows)
        return count_work(stream, stream->device->type->copy_rows(stream, to, to_stride, from, from_stride, bytes,
                                                                  rows));
    return mr_stream_submit(stream, copy_rows, &work, sizeof work);
}

int mr_stream_record(mr_stream *stream, mr_event *event) {
    int status = stream->device->type->record(stream, event);
    stream->unrecorded = status ? stream->unrecorded : 0;
    return status;
}

int mr_stream_wait(mr_stream *stream, mr_event *event) {
    return stream->device->type->wait(stream, event);
}

int mr_stream_hand_on(mr_stream *stream, mr_event *event) {
    if (!stream->device->type->hand_on)
        return mr_stream_record(stream, event);
    int status = stream->device->type->hand_on(stream, event);
    stream->unrecorded = status ? stream->unrecorded : 0;
    return status;
}

int mr_stream_settle(mr_stream *stream) {
    return stream->device->type->settle ? stream->device->type->settle(stream) : MR_OK;
}
