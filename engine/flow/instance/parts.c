#include "engine/flow/instance/parts.h"

#include <string.h>

#include "engine/base/memory.h"
#include "engine/device/device.h"

int mr_parts_create(mr_parts *parts, size_t count, size_t pool_count, const mr_stage *self) {
    parts->part = mr_calloc(count, sizeof *parts->part);
    parts->count = parts->part ? count : 0;
    parts->pool_count = pool_count;
    for (size_t i = 0; i < parts->count; i++) {
        mr_instance_part *part = &parts->part[i];
        part->self = *self;
        part->pools = mr_calloc(pool_count, sizeof *part->pools);
        if (!part->pools ||
            (self->type->state_bytes && !(part->self.state = mr_calloc(1, self->type->state_bytes))))
            return MR_ERROR_MEMORY;
    }
    return parts->part ? MR_OK : MR_ERROR_MEMORY;
}

void mr_parts_destroy(mr_parts *parts) {
    mr_parts_release_pools(parts);
    for (size_t i = 0; i < parts->count; i++) {
        mr_free(parts->part[i].pools);
        mr_free(parts->part[i].self.state);
    }
    mr_free(parts->part);
}

void mr_parts_set_device(mr_parts *parts, size_t number, mr_device *device) {
    parts->part[number].self.device = device;
    parts->part[number].on_host = device->type->kind == MR_DEVICE_CPU;
}

int mr_parts_open(mr_parts *parts, size_t number) {
    mr_stage *self = &parts->part[number].self;
    parts->part[number].opened = true;
    parts->part[number].closing = false;
    mr_message_clear();
    return self->type->open ? self->type->open(self) : MR_OK;
}

void mr_parts_stop(mr_parts *parts) {
    for (size_t i = 0; i < parts->count; i++)
        if (!parts->part[i].closing && parts->part[i].opened)
            parts->part[i].self.type->stop(&parts->part[i].self);
}

bool mr_parts_trigger(mr_parts *parts) {
    bool triggered = false;
    for (size_t i = 0; i < parts->count; i++)
        if (!parts->part[i].closing && parts->part[i].opened)
            triggered |= !parts->part[i].self.type->trigger(&parts->part[i].self);
    return triggered;
}

void mr_parts_begin_close(mr_parts *parts) {
    for (size_t i = 0; i < parts->count; i++)
        parts->part[i].closing = true;
}

void mr_parts_close(mr_parts *parts) {
    for (size_t i = 0; i < parts->count; i++) {
        mr_instance_part *part = &parts->part[i];
        if (part->opened && part->self.type->close)
            part->self.type->close(&part->self);
        part->opened = false;
    }
}

void mr_parts_release_pools(mr_parts *parts) {
    for (size_t i = 0; i < parts->count; i++)
        for (size_t which = 0; parts->part[i].pools && which < parts->pool_count; which++)
            for (int size = 0; size < MR_POOLS; size++)
                mr_pool_release(&parts->part[i].pools[which][size]);
}

void mr_parts_clear_states(mr_parts *parts) {
    for (size_t i = 0; i < parts->count; i++)
        if (parts->part[i].self.state)
            memset(parts->part[i].self.state, 0, parts->part[i].self.type->state_bytes);
}

void mr_parts_rename(mr_parts *parts, const mr_stage *self) {
    for (size_t i = 0; i < parts->count; i++) {
        mr_stage *part = &parts->part[i].self;
        part->source_id = self->source_id;
        part->id = self->id;
        part->options = self->options;
        part->place = self->place;
    }
}
