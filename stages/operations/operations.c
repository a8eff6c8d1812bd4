/* Lists a device's operations and runs one (millrace/operations.h). */
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "engine/base/sized.h"
#include "engine/base/thread.h"
#include "engine/device/cuda/cuda.h"
#include "engine/device/finish.h"
#include "engine/device/host.h"
#include "engine/device/open/open.h"
#include "millrace/status.h"
#include "stages/operations/clocks.h"
#include "stages/operations/operation.h"

/* A CUDA device holds launched work until an event is recorded. */
enum { CALLS_TO_AN_EVENT = 64, SEED = 1 };

enum { NAME = 48 };

/* Additional data for each listed operation. */
typedef struct entry {
    const mr_operation_type *type;
    char *file; /* NULL: not a network */
    char name[NAME], works_on[MR_WORKS_ON]; /* for networks */
} entry;

struct mr_operations {
    mr_operations_view view;
    mr_operation *list;
    entry *entries;
    char name[MR_DEVICE_NAME], model[128];
    mr_device *device;
    mr_stream *stream;
    mr_operation_call call; /* type NULL: none is ready */
    size_t next_set;
    int64_t now_ns; /* simulated */
    mr_operations_clocks clocks;
};

/* ---- the list --------------------------------------------------------------------------------------------------- */

static const mr_operation_type *const tables[] = {
    mr_operation_ceilings, mr_operation_pictures, mr_operation_drawings, mr_operation_features,
    mr_operation_vectors,  mr_operation_copies,   mr_operation_codecs,
};
enum { TABLES = sizeof tables / sizeof tables[0] };

static size_t count_all(const char *const *models) {
    size_t count = 0;
    for (size_t t = 0; t < TABLES; t++)
        for (const mr_operation_type *type = tables[t]; type->name; type++)
            count++;
    for (; models && *models; models++)
        count++;
    return count;
}

static void add(mr_operations *self, const mr_operation_type *type) {
    size_t i = self->view.count;
    if (!(type->here & 1 << self->device->type->kind))
        return;
    self->entries[i].type = type;
    self->list[i] = (mr_operation){
        .name = type->name, .function = type->function, .works_on = type->works_on ? type->works_on : "",
        .group = type->group, .path = type->path,
    };
    self->view.count++;
}

/* "network-lite0" stands for models/lite0.onnx. */
static int add_network(mr_operations *self, const char *file) {
    entry *made = &self->entries[self->view.count];
    const char *slash = strrchr(file, '/'), *last = slash ? slash + 1 : file, *end = strrchr(last, '.');
    made->file = mr_strdup(file);
    if (!made->file)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the name of a network");
    snprintf(made->name, sizeof made->name, "network-%.*s", (int)(end && end > last ? end - last : NAME), last);
    add(self, &mr_operation_network);
    self->list[self->view.count - 1].name = made->name;
    self->list[self->view.count - 1].works_on = made->works_on;
    return MR_OK;
}

static int fill_list(mr_operations *self, const char *const *models) {
    int status = MR_OK;
    size_t room = count_all(models);
    self->list = mr_calloc(room, sizeof *self->list);
    self->entries = mr_calloc(room, sizeof *self->entries);
    if (!self->list || !self->entries)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a list of operations");
    for (size_t t = 0; t < TABLES; t++)
        for (const mr_operation_type *type = tables[t]; type->name; type++)
            add(self, type);
    for (; models && *models && !status; models++)
        status = add_network(self, *models);
    return status;
}

/* The processor or GPU model; a simulated card's title. */
static void describe(mr_operations *self) {
    mr_host host;
    mr_card card;
    if (self->device->type->kind == MR_DEVICE_CPU) {
        mr_host_probe(&host);
        snprintf(self->model, sizeof self->model, "%s", host.model);
    } else if (self->device->type->kind == MR_DEVICE_CUDA) {
        snprintf(self->model, sizeof self->model, "%s", mr_cuda_about(self->device).model);
    } else if (mr_device_card(self->name, &card)) {
        snprintf(self->model, sizeof self->model, "%s", card.title);
    }
    self->view.device = self->name;
    self->view.model = self->model;
    self->view.simulated = self->device->type->kind == MR_DEVICE_SIM;
    self->view.list = self->list;
}

static int open_all(mr_operations *self, const mr_operations_params *params) {
    if (!params->device)
        return mr_fail(MR_ERROR_USAGE, "no device is named");
    int status = mr_device_check_name(params->device);
    if (status)
        return status;
    snprintf(self->name, sizeof self->name, "%s", params->device);
    status = mr_device_open(&self->device, self->name, SEED, true);
    if (!status)
        status = mr_stream_create(self->device, &self->stream);
    if (!status)
        status = fill_list(self, params->models);
    if (!status)
        describe(self);
    return status;
}

int mr_operations_open_sized(mr_operations **operations, const mr_operations_params *params, size_t params_bytes) {
    MR_PLAIN_NUMBERS;
    mr_operations_params own;
    *operations = NULL;
    int status = mr_sized_copy(&own, sizeof own, params, params_bytes, MR_SIZE_THROUGH(mr_operations_params, models),
                               "mr_operations_params");
    if (status)
        return status;
    mr_operations *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for operations");
    status = open_all(made, &own);
    if (status)
        mr_operations_close(&made);
    *operations = made;
    return status;
}

const mr_operations_view *mr_operations_look(const mr_operations *operations) {
    return &operations->view;
}

/* ---- one of them ------------------------------------------------------------------------------------------------ */

static void release(mr_operations *self) {
    mr_operation_call *call = &self->call;
    if (!call->type)
        return;
    if (call->type->close)
        call->type->close(call);
    mr_room_close(&call->room);
    *call = (mr_operation_call){0};
}

void mr_operations_close(mr_operations **operations) {
    mr_operations *gone = *operations;
    *operations = NULL;
    if (!gone)
        return;
    release(gone);
    mr_stream_destroy(&gone->stream);
    if (gone->device)
        mr_device_destroy(&gone->device);
    for (size_t i = 0; i < gone->view.count; i++)
        mr_free(gone->entries[i].file);
    mr_free(gone->entries);
    mr_free(gone->list);
    mr_free(gone);
}

static int declare(mr_operation_call *call) {
    const mr_operation_type *type = call->type;
    if (type->reads) {
        mr_operation_region(call, MR_MEMORY_DEVICE, type->reads, type->noise);
        mr_operation_region(call, MR_MEMORY_DEVICE, type->writes, MR_NOISE_NONE);
        call->bytes = (double)type->reads + (double)type->writes;
    }
    return type->open ? type->open(call) : MR_OK;
}

int mr_operations_prepare(mr_operations *self, size_t index) {
    MR_PLAIN_NUMBERS;
    mr_operation_call *call = &self->call;
    release(self);
    if (index >= self->view.count)
        return mr_fail(MR_ERROR_USAGE, "there is no operation %zu", index);
    *call = (mr_operation_call){.type = self->entries[index].type, .device = self->device, .stream = self->stream,
                                .file = self->entries[index].file};
    int status = declare(call);
    if (!status)
        status = mr_room_open(&call->room, self->stream, &self->now_ns, call->region, call->regions);
    if (status) {
        release(self);
        return status;
    }
    mr_operation *shown = &self->list[index];
    shown->bytes = call->bytes;
    shown->flops = call->flops;
    memcpy(self->entries[index].works_on, call->works_on, sizeof call->works_on);
    self->next_set = 0;
    return MR_OK;
}

static int run_calls(mr_operations *self, int calls) {
    mr_operation_call *call = &self->call;
    int status = MR_OK;
    for (int i = 0; i < calls && !status; i++) {
        status = call->type->enqueue(call, self->next_set);
        self->next_set = (self->next_set + 1) % call->room.sets;
        if (!status && i % CALLS_TO_AN_EVENT == CALLS_TO_AN_EVENT - 1)
            status = mr_room_begin(self->stream);
    }
    int finished = mr_stream_finish(self->stream, &self->now_ns);
    return status ? status : finished;
}

/* On the device's clock. */
static int64_t now_ns(const mr_operations *self) {
    switch (self->device->type->kind) {
    case MR_DEVICE_SIM:
        return self->now_ns;
    case MR_DEVICE_CPU:
        return self->call.type->group == MR_OPERATION_CODEC ? (int64_t)(mr_process_cpu_s() * 1e9) : mr_thread_cpu_ns();
    case MR_DEVICE_CUDA:
        break;
    }
    return mr_now_ns();
}

int mr_operations_run(mr_operations *self, int calls, int64_t *ns) {
    MR_PLAIN_NUMBERS;
    if (!self->call.type)
        return mr_fail(MR_ERROR_USAGE, "no operation is ready");
    if (calls < 1)
        return mr_fail(MR_ERROR_USAGE, "%d calls cannot be made", calls);
    int64_t begin_ns = now_ns(self);
    int status = run_calls(self, calls);
    if (!status)
        *ns = now_ns(self) - begin_ns;
    return status;
}

const mr_operations_clocks *mr_operations_read_clocks(mr_operations *self) {
    self->clocks = mr_clocks_read(self->device);
    return &self->clocks;
}
