#include "engine/device/device.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/memory.h"

/* ---- opening by name ---------------------------------------------------------------------------------------------- */

/* The number behind "kind:", 0 without one; -1 where it is none, or the name is of another kind. `rest` is set to what
 * follows. */
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

static int set_parameter(mr_sim_params *params, const char *key, size_t length, int64_t value) {
    const struct {
        const char *name;
        int64_t *field;
    } known[] = {
        {"min_delay", &params->min_delay_ns},         {"max_delay", &params->max_delay_ns},
        {"fail_after", &params->fail_after},          {"fail_every", &params->fail_every},
        {"fail_allocation", &params->fail_allocation},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strlen(known[i].name) == length && strncmp(known[i].name, key, length) == 0) {
            *known[i].field = value;
            return MR_OK;
        }
    return mr_fail(MR_ERROR_CONFIG, "a simulated device has no parameter \"%.*s\"; it has min_delay, max_delay "
                   "(nanoseconds), fail_after, fail_every and fail_allocation", (int)length, key);
}

/* "?key=number&key=number" */
static int parse_parameters(const char *text, mr_sim_params *params) {
    while (*text == '?' || *text == '&') {
        const char *key = text + 1;
        size_t length = strcspn(key, "=&");
        char *end = NULL;
        int64_t value = key[length] == '=' ? strtoll(key + length + 1, &end, 10) : 0;
        if (!end || end == key + length + 1)
            return mr_fail(MR_ERROR_CONFIG, "expected key=number behind \"?\" of a simulated device, found \"%s\"", key);
        int status = set_parameter(params, key, length, value);
        if (status)
            return status;
        text = end;
    }
    return *text ? mr_fail(MR_ERROR_CONFIG, "unexpected \"%s\" in the name of a simulated device", text) : MR_OK;
}

static int open_sim(mr_device **device, int index, const char *rest, uint64_t seed, bool manual) {
    mr_sim_params params = {
        .index = index,
        .seed = seed ? seed + (uint64_t)index : (uint64_t)index + 1,
        .min_delay_ns = 1000,
        .max_delay_ns = 200000,
        .manual = manual,
    };
    int status = parse_parameters(rest, &params);
    return status ? status : mr_sim_create(device, &params);
}

static int unknown_device(const char *name) {
    return mr_fail(MR_ERROR_CONFIG, "there is no device \"%s\"; use cpu, cuda:N or sim:N", name);
}

int mr_device_check_name(const char *name) {
    mr_sim_params params = {0};
    const char *rest = "";
    if (strlen(name) >= sizeof((mr_device *)NULL)->name || strcmp(name, "cpu") == 0)
        return strcmp(name, "cpu") == 0 ? MR_OK : unknown_device(name);
    if (index_of(name, "sim", &rest) >= 0)
        return parse_parameters(rest, &params);
    return index_of(name, "cuda", &rest) >= 0 && !*rest ? MR_OK : unknown_device(name);
}

int mr_device_open(mr_device **device, const char *name, uint64_t seed, bool manual) {
    const char *rest = "";
    *device = NULL;
    if (strcmp(name, "cpu") == 0)
        return mr_cpu_create(device);
    int index = index_of(name, "sim", &rest);
    if (index >= 0)
        return open_sim(device, index, rest, seed, manual);
    index = index_of(name, "cuda", &rest);
    if (index >= 0 && !*rest)
        return mr_cuda_create(device, index);
    return unknown_device(name);
}

int mr_device_probe(const char *name, uint64_t *memory_bytes) {
    const char *rest = "";
    int index = index_of(name, "cuda", &rest);
    *memory_bytes = 0;
    return index >= 0 ? mr_cuda_probe(index, memory_bytes) : MR_OK;
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

/* ---- the table ---------------------------------------------------------------------------------------------------- */

int mr_device_allocate(mr_device *device, mr_memory memory, size_t bytes, void **data) {
    return device->type->allocate(device, memory, bytes, data);
}

void mr_device_free(mr_device *device, mr_memory memory, void *data) {
    device->type->free(device, memory, data);
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

void mr_stream_destroy(mr_stream **stream) {
    mr_stream *gone = *stream;
    *stream = NULL;
    if (gone)
        gone->device->type->stream_destroy(gone);
}

int mr_stream_submit(mr_stream *stream, mr_work_function *function, const void *arguments, size_t bytes) {
    if (bytes > MR_WORK_BYTES)
        return mr_fail(MR_ERROR_INTERNAL, "%zu bytes of arguments; device work takes %d", bytes, MR_WORK_BYTES);
    return stream->device->type->submit(stream, function, arguments, bytes);
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
    return bytes ? mr_stream_submit(stream, copy, &work, sizeof work) : MR_OK;
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
        memcpy(work->to + (ptrdiff_t)row * work->to_stride, work->from + (ptrdiff_t)row * work->from_stride, work->bytes);
    return MR_OK;
}

int mr_stream_copy_rows(mr_stream *stream, void *to, ptrdiff_t to_stride, const void *from, ptrdiff_t from_stride,
                        size_t bytes, size_t rows) {
    const rows_work work = {to, from, to_stride, from_stride, bytes, rows};
    return bytes && rows ? mr_stream_submit(stream, copy_rows, &work, sizeof work) : MR_OK;
}

int mr_stream_record(mr_stream *stream, mr_event *event) {
    return stream->device->type->record(stream, event);
}

int mr_stream_wait(mr_stream *stream, mr_event *event) {
    return stream->device->type->wait(stream, event);
}
