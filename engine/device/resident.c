#include "engine/device/resident.h"

#include "engine/base/memory.h"

struct mr_resident_copy {
    mr_resident_copy *next;
    mr_device *device;
    void *data;
};

int mr_resident_create(mr_resident **resident, const void *data, size_t bytes) {
    mr_resident *made = mr_calloc(1, sizeof *made);
    if (!made || pthread_mutex_init(&made->lock, NULL)) {
        mr_free(made);
        return mr_fail(MR_ERROR_MEMORY, "no memory for data of devices");
    }
    made->data = data;
    made->bytes = bytes;
    *resident = made;
    return MR_OK;
}

static void destroy_copy(mr_resident *resident, mr_resident_copy *copy) {
    mr_device_free(copy->device, MR_MEMORY_DEVICE, copy->data);
    mr_device_count_bytes(copy->device, MR_MEMORY_DEVICE, -(int64_t)resident->bytes);
    mr_device_destroy(&copy->device);
    mr_free(copy);
}

void mr_resident_destroy(mr_resident **resident) {
    mr_resident *gone = *resident;
    *resident = NULL;
    if (!gone)
        return;
    while (gone->copies) {
        mr_resident_copy *copy = gone->copies;
        gone->copies = copy->next;
        destroy_copy(gone, copy);
    }
    pthread_mutex_destroy(&gone->lock);
    mr_free(gone);
}

/* Needs a separate stream: the caller's may have work whose failure belongs to the caller's event. Destroying it waits
 * for the copy. */
static int upload(const mr_resident *resident, const mr_resident_copy *copy) {
    mr_stream *stream = NULL;
    mr_event *event = NULL;
    int status = mr_event_create(&event, copy->device, NULL);
    if (!status)
        status = mr_stream_create(copy->device, &stream);
    if (!status)
        status = mr_stream_copy(stream, copy->data, resident->data, resident->bytes);
    if (!status)
        status = mr_stream_record(stream, event);
    bool recorded = stream && !status;
    mr_stream_destroy(&stream);
    if (recorded && mr_event_status(event))
        status = mr_fail(mr_event_status(event), "%s: data could not be uploaded", copy->device->name);
    mr_event_unref(&event);
    return status;
}

static int add_copy(mr_resident *resident, mr_device *device) {
    mr_resident_copy *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for data of %s", device->name);
    int status = mr_device_allocate(device, MR_MEMORY_DEVICE, resident->bytes, &made->data);
    if (status) {
        mr_free(made);
        return status;
    }
    made->device = mr_device_ref(device);
    mr_device_count_bytes(device, MR_MEMORY_DEVICE, (int64_t)resident->bytes);
    status = upload(resident, made);
    if (status) {
        destroy_copy(resident, made);
        return status;
    }
    made->next = resident->copies;
    resident->copies = made;
    return MR_OK;
}

static const mr_resident_copy *copy_on(const mr_resident *resident, const mr_device *device) {
    for (const mr_resident_copy *copy = resident->copies; copy; copy = copy->next)
        if (copy->device == device)
            return copy;
    return NULL;
}

int mr_resident_get(mr_resident *resident, mr_stream *stream, const void **there) {
    int status = MR_OK;
    pthread_mutex_lock(&resident->lock);
    if (!copy_on(resident, stream->device))
        status = add_copy(resident, stream->device);
    if (!status)
        *there = copy_on(resident, stream->device)->data;
    pthread_mutex_unlock(&resident->lock);
    return status;
}
